"""Paths that a caller gives: one, or several."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Union

PathLike = Union[str, "os.PathLike[str]"]
Paths = Union[PathLike, Iterable[PathLike]]


def path_list(paths: Paths) -> list[str]:
    """The paths as text. One path alone is no list of its letters."""
    if isinstance(paths, (str, bytes, os.PathLike)):
        paths = [paths]
    return [path_text(path) for path in paths]


def path_text(path: PathLike) -> str:
    """A path as text. Raises TypeError for what is no path and for one in bytes, ValueError for an empty one."""
    text = os.fspath(path)
    if not isinstance(text, str):
        raise TypeError(f"expected a path as str or os.PathLike[str], not {type(path).__name__}; os.fsdecode converts it")
    if not text:
        raise ValueError("expected a path, not an empty text")
    return text


def reason(error: Union[OSError, UnicodeDecodeError]) -> str:
    """Why a file can't be read, without the path that the system's errors repeat."""
    return getattr(error, "strerror", None) or str(error)
