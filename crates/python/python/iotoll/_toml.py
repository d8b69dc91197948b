"""Descriptions of machines and plans: files, or their texts."""

from __future__ import annotations

import os
from typing import Union

from iotoll.errors import ExperimentError

PathLike = Union[str, "os.PathLike[str]"]


def read(source: PathLike, name: str) -> tuple[str, str]:
    """The text, and what errors call it: the file's path, or `name` for a text."""
    if isinstance(source, str) and "\n" in source:
        return source, name
    file = os.fspath(source)
    try:
        with open(source, encoding="utf-8") as text:
            return text.read(), file
    except (OSError, UnicodeDecodeError) as error:
        raise ExperimentError(f"{file}: {error}", file) from error
