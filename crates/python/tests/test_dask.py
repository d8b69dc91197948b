"""Folders that many processes write, by Dask: the same rows as the program's, whatever is killed."""

from __future__ import annotations

import importlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import iotoll
import pytest
from conftest import REPOSITORY, Program
from iotoll import folders

distributed = pytest.importorskip("distributed")
pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")
import iotoll.dask  # noqa: E402

# A LocalCluster closes a worker for good that is not there 15 s after it was lost, also when that is because it was killed again and starts anew.
# With none left, work waits for ever.
importlib.import_module("dask").config.set({"distributed.deploy.lost-worker-timeout": "1 hour"})

PLAN = (
    (REPOSITORY / "experiments/sweep.toml").read_text().partition("[axes]")[0]
    + """[axes]
"engine.window_bytes" = [65536, 1048576, 33554432]
"engine.in_flight_max" = [1, 8, 64]
"iommu.entries" = [8, 64, 4096]
"iommu.walk_ns" = [60, 300]
"""
)
POINTS = 54


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    """Two processes."""
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
    ) as cluster, distributed.Client(cluster) as client:
        yield client


def rows(folder: Path) -> list[str]:
    """The rows of a table, in an order of their own. Parts of a sweep may have different columns."""
    parts = [parquet.read_table(part) for part in sorted(folder.glob("part-*.parquet"))]
    return sorted(map(row_text, pyarrow.concat_tables(parts, promote_options="default").to_pylist()))


def row_text(row: dict[str, Any]) -> str:
    return repr(sorted(row.items()))


def tables(folder: Path) -> dict[str, list[str]]:
    return {name: rows(folder / name) for name in ["hosts", "adapters", "findings", "unseen", "errors"]}


def test_a_fleet_has_the_rows_of_one_process(client: Any, fleet: Path, tmp_path: Path, program: Program) -> None:
    counts = iotoll.dask.fleet(fleet, client, tmp_path / "dask")
    assert (counts.finished, counts.rows, counts.errors, counts.lost) == (0, 20, 1, [])
    assert 1 < counts.chunks <= 21
    program("fleet", "--json", str(fleet), "--out", str(tmp_path / "one"))
    assert tables(tmp_path / "dask") == tables(tmp_path / "one")
    assert len(rows(tmp_path / "dask/errors")) == 1

    # What one has done, the other does not do again.
    assert iotoll.dask.fleet(fleet, client, tmp_path / "one") == (21, 0, 0, 0, [])
    theirs = program("fleet", "--json", str(fleet), "--out", str(tmp_path / "dask"))
    assert (theirs["inspected_before"], theirs["errors_before"], theirs["inspected"]) == (20, 1, 0)


def test_a_sweep_has_the_rows_of_one_process(client: Any, tmp_path: Path, program: Program) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(PLAN)
    counts = iotoll.dask.sweep(PLAN, client, tmp_path / "dask")
    assert (counts.finished, counts.rows, counts.errors, counts.lost) == (0, POINTS, 0, [])
    program("sweep", "--json", str(plan), "--out", str(tmp_path / "one"))
    assert rows(tmp_path / "dask") == rows(tmp_path / "one")
    assert iotoll.dask.sweep(plan, client, tmp_path / "one") == (POINTS, 0, 0, 0, [])
    assert program("sweep", "--json", str(plan), "--out", str(tmp_path / "dask"))["skipped"] == POINTS


def test_a_killed_worker_loses_nothing(client: Any, fleet: Path, tmp_path: Path) -> None:
    """The first chunk kills its process after its rows are written in part, and is done again by another."""
    once = tmp_path / "killed"

    def inspect_and_be_killed(captures: list[str], out: str, once: str) -> Any:
        try:
            os.close(os.open(once, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return iotoll.dask._inspect(captures, out)
        iotoll.dask._inspect(captures, out)
        for part in (Path(out) / "hosts").glob("part-*"):
            if set(parquet.read_table(part).column("input").to_pylist()) & set(captures):
                part.unlink()
        os.kill(os.getpid(), signal.SIGKILL)

    out = tmp_path / "dask"
    with folders.Fleet(out) as folder:
        captures = folder.unfinished(fleet)
        counts = iotoll.dask._distribute(client, captures, 0, inspect_and_be_killed, (str(out), str(once)))
    assert once.exists()
    assert (counts.rows, counts.errors, counts.lost) == (20, 1, [])
    ours = iotoll.tables(fleet)
    for name, table in ours.items():
        assert rows(out / name) == sorted(map(row_text, table.to_pylist())), name


def test_what_kills_workers_is_told_and_stops_nothing_else(
    fleet: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is in a chunk with others."""
    monkeypatch.setattr(iotoll.dask._Size, "next", lambda *_: 7)

    def inspect_or_be_killed(captures: list[str], out: str) -> Any:
        if any("poisoned" in capture for capture in captures):
            os.kill(os.getpid(), signal.SIGKILL)
        return iotoll.dask._inspect(captures, out)

    out = tmp_path / "dask"
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
    ) as cluster, distributed.Client(cluster) as client, folders.Fleet(out) as folder:
        captures = folder.unfinished(fleet)
        counts = iotoll.dask._distribute(client, captures, 0, inspect_or_be_killed, (str(out),))
    assert counts.rows == 20
    assert counts.lost == [str(fleet / "poisoned.tar.gz")]


def test_a_folder_has_one_who_distributes(client: Any, fleet: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with folders.Fleet(out):
        with pytest.raises(iotoll.errors.FolderError, match="another run works on this shard") as raised:
            iotoll.dask.fleet(fleet, client, out)
        assert raised.value.file == str(out)
    assert iotoll.dask.fleet(fleet / "0", client, out).rows == 5


def test_a_plan_with_a_mistake_is_refused_before_anything_runs(client: Any, tmp_path: Path) -> None:
    wrong = PLAN.replace("[8, 64, 4096]", "[8, 64, 0]")
    with pytest.raises(iotoll.errors.ExperimentError, match="plan.toml:[0-9]+: ") as raised:
        iotoll.dask.sweep(wrong, client, tmp_path / "out")
    assert raised.value.expected is not None
    with folders.Sweep(PLAN, tmp_path / "out"):
        pass
    folders.run_points(PLAN, tmp_path / "out", [0])
    other = PLAN.replace("gap_ns = 16.03", "gap_ns = 17.03")
    with pytest.raises(iotoll.errors.FolderError, match="results of another plan"):
        iotoll.dask.sweep(other, client, tmp_path / "out")


def test_chunks_take_about_the_time_that_is_wanted() -> None:
    """Sizes follow from the seconds that chunks took; nothing here takes time."""
    size = iotoll.dask._Size()
    assert size.next(1000, 2) == 1
    seconds_each, taken = 0.1, 0
    for _ in range(10):
        number = size.next(100_000, 2)
        assert number <= max(1, 4 * taken)
        taken = number
        size.add(number, number * seconds_each)
    assert taken * seconds_each == pytest.approx(iotoll.dask.SECONDS_WANTED, rel=0.1)
    # Items that take longer make chunks shorter, and the end is shared.
    for _ in range(3):
        size.add(taken, taken * seconds_each * 10)
    assert size.next(100_000, 2) * seconds_each * 10 < 1.5 * iotoll.dask.SECONDS_WANTED
    assert size.next(10, 2) <= 5


@pytest.mark.parametrize("seconds_each", [0.005, 0.6, 2.6, 3.4, 4.9, 6.0, 29.0])
def test_chunks_take_5_to_30_seconds_once_items_are_known(seconds_each: float) -> None:
    """Also of items that take seconds each, as large reports do. As on two threads, four chunks are given away at a time."""
    size = iotoll.dask._Size()
    given = [size.next(1_000_000, 2) for _ in range(4)]
    for ended in range(40):
        size.add(given[ended], given[ended] * seconds_each)
        given.append(size.next(1_000_000, 2))
    for items in given[-8:]:
        assert 5 <= items * seconds_each <= 30
