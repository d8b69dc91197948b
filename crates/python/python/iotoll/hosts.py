"""Inspections: of one host as a document, of many as tables."""

from __future__ import annotations

import json
import os
import warnings
from typing import TYPE_CHECKING, Any, Optional, Union

from iotoll import _iotoll
from iotoll._optional import require
from iotoll._paths import PathLike, Paths, path_list, path_text
from iotoll._printable import printable

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow

__all__ = ["NotLookedAt", "inspect", "tables"]

# More would be a mistake.
_THREADS_MAX = 65535


class NotLookedAt(UserWarning):
    """A file or folder that could not be looked at for captures."""


def inspect(source: Union[PathLike, bytes, None] = None, *, name: str = "pasted text") -> dict[str, Any]:
    """The document of `iotoll inspect --json`: DMA paths, findings with their fixes, and what could not be read.

    `source` is the path of an archive, a folder with a host's files, or a text; or such a text itself: a `str` with more than one line,
    or `bytes` of a text or an archive. Without it, this machine is inspected. Errors and citations call pasted texts `name`.

    Raises `errors.InputError` if the source can't be read or tells of no host.

    >>> listing = '''3b:00.0 Ethernet controller [0200]: Intel Corporation I350 [8086:1521]
    ... \\tKernel driver in use: igb
    ... '''
    >>> [(adapter["address"], adapter["driver"]) for adapter in inspect(listing)["adapters"]]
    [('0000:3b:00.0', 'igb')]
    """
    if isinstance(source, str) and "\n" in source:
        # Characters that were no UTF-8 when Python read them become what they were.
        source = source.encode("utf-8", "surrogateescape")
    elif source is not None and not isinstance(source, (bytes, bytearray)):
        source = path_text(source)
    document: dict[str, Any] = json.loads(_iotoll.inspect(source, name))
    return document


def tables(paths: Paths, *, threads: Optional[int] = None) -> dict[str, pyarrow.Table]:
    """The tables `hosts`, `adapters`, `findings`, `unseen` and `errors` of `iotoll fleet`, for captures at some paths.

    Folders are searched for captures. One that can't be inspected is a row of `errors`; a path that can't be looked at is a warning
    `NotLookedAt`. By default there is a thread for each CPU that this process may use; each needs the memory of one host's files.

    Needs the package pyarrow.

    >>> from pathlib import Path; from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     _ = Path(folder, "dmesg.txt").write_text("[    0.000000] Linux version 6.1.0-13-amd64 (x)\\n")
    ...     tables(folder)["hosts"].column("kernel_release").to_pylist()
    ['6.1.0-13-amd64']
    """
    arrow, parquet = require("pyarrow", "arrow"), require("pyarrow.parquet", "arrow")
    if threads is not None and not 1 <= threads <= _THREADS_MAX:
        raise ValueError(f"threads is {threads}; expected 1 to {_THREADS_MAX}")
    files = _iotoll.tables(find(paths), threads or len(os.sched_getaffinity(0)))
    return {name: parquet.read_table(arrow.BufferReader(file)) for name, file in files}


def find(paths: Paths) -> list[str]:
    """Paths of all captures at some paths, sorted, with a warning for what could not be looked at."""
    found, not_found = _iotoll.find(path_list(paths))
    warn_of(not_found)
    return [os.fspath(path) for path in found]


def warn_of(not_found: list[tuple[Path, str]]) -> None:
    """Warns the caller's caller of paths that could not be looked at, each with its reason."""
    for path, reason in not_found:
        warnings.warn(printable(f"{path}: {reason}"), NotLookedAt, stacklevel=4)
