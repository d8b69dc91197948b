"""Fleets and sweeps on the workers of a Dask cluster, which see the same folders.

Work is given away in chunks that take seconds: their size follows from how long the ones before took. A worker that is killed costs the chunk that it had, which another
does again. Results are in the layout of `iotoll fleet --out` and `iotoll sweep --out`, and what is there is not done again.

    from dask.distributed import Client
    import iotoll.dask

    with Client("tcp://scheduler:8786") as client:
        print(iotoll.dask.fleet("/shared/captures", client, "/shared/fleet"))

Needs the package distributed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from iotoll import folders
from iotoll._optional import require
from iotoll._paths import PathLike, Paths, path_text

__all__ = ["Counts", "fleet", "sweep"]

Item = TypeVar("Item", str, int)

# How long a chunk should take: long against what its distribution costs, which is milliseconds, short against what a killed worker may cost.
SECONDS_WANTED = 10.0
# A chunk has at most so many times the items of those before, whose times may not be typical.
GROWTH_MAX = 4
# Chunks for each thread of the cluster that are given away at once: one that runs, and the next.
CHUNKS_PER_THREAD = 2
# How often a chunk is tried again after an error, such as of a full disk. For killed workers there is the cluster's own limit.
RETRIES = 2


class Counts(NamedTuple):
    """What became of the work."""

    #: What had been done before.
    finished: int
    #: Hosts that were inspected, or points that have a result.
    rows: int
    #: Inputs that could not be inspected, or points without a result; the tables have the reasons.
    errors: int
    #: Chunks that it was given away in.
    chunks: int
    #: Paths or places of points with which several workers were killed while nothing else ran: they may need too much memory. They have no row.
    lost: list[Any]


def fleet(paths: Paths, client: Any, out: PathLike) -> Counts:
    """Inspects captures at some paths, and adds their rows to the tables in the folder `out`.

    Raises `errors.FolderError` if another process writes the folder.
    """
    out = os.path.abspath(path_text(out))
    with folders.Fleet(out) as folder:
        captures = folder.unfinished(paths)
        return _distribute(client, captures, folder.finished, _inspect, (out,))


def sweep(plan: PathLike, client: Any, out: PathLike) -> Counts:
    """Runs the points of a plan, a file's path or a text, and adds their rows to the folder `out`.

    Raises `errors.ExperimentError` for a plan with a mistake, `errors.FolderError` if another process writes the folder.
    """
    out = os.path.abspath(path_text(out))
    with folders.Sweep(plan, out) as folder:
        places = folder.unfinished()
        return _distribute(client, places, folder.points - len(places), _run, (folder.plan, out))


class _Timed(NamedTuple):
    done: folders.Done
    seconds: float


def _inspect(captures: Sequence[str], out: str) -> _Timed:
    began = time.monotonic()
    done = folders.inspect_into(out, captures)
    return _Timed(done, time.monotonic() - began)


def _run(places: Sequence[int], plan: str, out: str) -> _Timed:
    began = time.monotonic()
    done = folders.run_points(plan, out, places)
    return _Timed(done, time.monotonic() - began)


class _Size:
    """How many items the next chunk has."""

    def __init__(self) -> None:
        self._most = 1
        self._items = 0.0
        self._seconds = 0.0

    def add(self, items: int, seconds: float) -> None:
        """Learns from a chunk that has ended. Half of what is known is forgotten each time, since other items may take longer."""
        self._items = self._items / 2 + items
        self._seconds = self._seconds / 2 + seconds
        self._most = max(self._most, GROWTH_MAX * items)

    def next(self, left: int, threads: int) -> int:
        wanted = self._most
        if self._items and self._seconds > 0:
            wanted = int(SECONDS_WANTED * self._items / self._seconds)
        # Towards the end all threads share what is left.
        return max(1, min(wanted, self._most, -(-left // threads)))


def _distribute(
    client: Any,
    items: Sequence[Item],
    finished: int,
    work: Callable[..., _Timed],
    arguments: tuple[Any, ...],
) -> Counts:
    distributed = require("distributed", "dask")
    threads = max(1, sum(client.nthreads().values()))
    size, begun, rows, errors, chunks = _Size(), 0, 0, 0, 0
    lost: list[Any] = []
    # Chunks that were on workers when these were killed.
    suspects: list[Sequence[Item]] = []
    # The key of the last of them that was given away.
    alone: Any = None
    running: dict[Any, Sequence[Item]] = {}
    ended = distributed.as_completed()

    def give(chunk: Sequence[Item]) -> Any:
        # Not pure: what was done by an earlier call is known from the folder.
        future = client.submit(work, chunk, *arguments, pure=False, retries=RETRIES)
        running[future.key] = chunk
        ended.add(future)
        return future.key

    def give_next() -> None:
        nonlocal begun, alone
        while begun < len(items) and len(running) < CHUNKS_PER_THREAD * threads:
            number = size.next(len(items) - begun, threads)
            give(items[begun : begun + number])
            begun += number
        # Whatever is on a killed worker is suspected with what killed it, so a suspect runs when nothing else does.
        if suspects and not running:
            alone = give(suspects.pop())

    give_next()
    for future in ended:
        chunk = running.pop(future.key)
        try:
            timed = future.result()
        except distributed.scheduler.KilledWorker:
            if future.key != alone:
                suspects.append(chunk)
            elif len(chunk) > 1:
                # Its halves tell which item it is.
                middle = len(chunk) // 2
                suspects += [chunk[:middle], chunk[middle:]]
            else:
                lost.extend(chunk)
        else:
            chunks += 1
            rows += timed.done.rows
            errors += timed.done.errors
            size.add(len(chunk), timed.seconds)
        future.release()
        give_next()
    return Counts(finished, rows, errors, chunks, lost)
