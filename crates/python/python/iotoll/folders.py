"""Folders of results that many processes write: those of `iotoll fleet --out` and `iotoll sweep --out`.

One process opens the folder, which locks it, and finds what is not done yet. It gives that away in chunks, to any other processes of any scheduler that see the
same folder: `inspect_into` and `run_points` do a chunk. What a chunk was to do is there once it returns, also if it is done twice; a chunk whose process is killed
can be done again. Killed runs go on where they were, and the program and this package go on with each other's folders.

>>> from concurrent.futures import ThreadPoolExecutor
>>> from pathlib import Path; from tempfile import TemporaryDirectory
>>> with TemporaryDirectory() as folder:
...     _ = Path(folder, "dmesg.txt").write_text("[    0.000000] Linux version 6.1.0-13-amd64 (x)\\n")
...     out = Path(folder, "out")
...     with Fleet(out) as fleet, ThreadPoolExecutor(2) as pool:
...         captures = fleet.unfinished(Path(folder, "dmesg.txt"))
...         done = list(pool.map(lambda capture: inspect_into(out, [capture]), captures))
...         done, fleet.unfinished(Path(folder, "dmesg.txt"))
([Done(rows=1, errors=0)], [])
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from types import TracebackType
from typing import NamedTuple, Optional, TypeVar, Union

from iotoll import _iotoll
from iotoll._paths import PathLike, Paths, path_list
from iotoll._toml import read
from iotoll.hosts import warn_of

__all__ = ["Done", "Fleet", "Sweep", "inspect_into", "run_points"]


class Done(NamedTuple):
    """What became of a chunk."""

    #: Hosts that were inspected, or points that have a result.
    rows: int
    #: Inputs that could not be inspected, or points without a result; the tables have the reasons.
    errors: int


_Folder = TypeVar("_Folder", bound="_LockedFolder")


class _LockedFolder:
    """A folder that is locked until it is closed, or as long as a `with` statement lasts."""

    _folder: Union[_iotoll.FleetFolder, _iotoll.SweepFolder]

    def close(self) -> None:
        self._folder.close()

    def __enter__(self: _Folder) -> _Folder:
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        self.close()


class Fleet(_LockedFolder):
    """A folder of a fleet's tables. It is locked until it is closed, or as long as a `with` statement lasts.

    Raises `errors.FolderError` if another process has locked it, or it can't be written.
    """

    def __init__(self, out: PathLike) -> None:
        self._folder: _iotoll.FleetFolder = _iotoll.FleetFolder(os.fspath(out))
        #: Inputs that `unfinished` found, and that have rows from before.
        self.finished = 0

    def unfinished(self, paths: Paths) -> list[str]:
        """Absolute paths of captures at some paths that have no rows yet, sorted; a warning `NotLookedAt` for each path that can't be looked at."""
        found, self.finished, not_found = self._folder.unfinished(path_list(paths))
        warn_of(not_found)
        return [os.fspath(path) for path in found]


class Sweep(_LockedFolder):
    """A folder of a sweep's results. It is locked until it is closed, or as long as a `with` statement lasts.

    `plan` is a file's path, or a text. All its points are checked first. Raises `errors.ExperimentError` for a plan with a mistake, `errors.FolderError` if another
    process has locked the folder, or it has another plan's results.
    """

    def __init__(self, plan: PathLike, out: PathLike) -> None:
        #: The plan's text, and what errors call it.
        self.plan, self.file = read(plan, "plan.toml")
        self._folder: _iotoll.SweepFolder = _iotoll.SweepFolder(self.plan, self.file, os.fspath(out))
        #: How many points the plan has.
        self.points = self._folder.points

    def unfinished(self) -> list[int]:
        """The places of the points that had no row when the folder was opened."""
        return self._folder.unfinished


def inspect_into(out: PathLike, captures: Paths) -> Done:
    """Inspects captures, one after the other, and adds their rows to a folder that `Fleet` has opened."""
    return Done(*_iotoll.inspect_into(os.fspath(out), path_list(captures)))


def run_points(plan: PathLike, out: PathLike, places: Iterable[int]) -> Done:
    """Runs points of a plan, one after the other, and adds their rows to a folder that `Sweep` has opened.

    Raises ValueError for a place that the plan has not, `errors.FolderError` if the folder has another plan's results.
    """
    text, file = read(plan, "plan.toml")
    try:
        done = _iotoll.run_points(text, file, os.fspath(out), list(places))
    except OverflowError as error:
        raise ValueError(f"{file}: no plan has such a place: {error}") from error
    return Done(*done)
