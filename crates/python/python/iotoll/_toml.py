"""Descriptions of machines and plans: files, or their texts."""

from __future__ import annotations

from iotoll._paths import PathLike, path_text, reason
from iotoll.errors import ExperimentError


def read(source: PathLike, name: str) -> tuple[str, str]:
    """The text, and what errors call it: the file's path, or `name` for a text."""
    if isinstance(source, str) and "\n" in source:
        return source, name
    file = path_text(source)
    try:
        with open(source, encoding="utf-8") as text:
            return text.read(), file
    except (OSError, UnicodeDecodeError) as error:
        raise ExperimentError(f"{file}: {reason(error)}", file) from error
