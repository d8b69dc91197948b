"""The examples on joblib and Ray Data write the rows of one process."""

from __future__ import annotations

import importlib.util
import os
import secrets
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import iotoll
import pytest
from conftest import REPOSITORY, SECONDS_MAX
from iotoll import folders

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

EXAMPLES = REPOSITORY / "crates/python/examples"
PLAN = (
    (REPOSITORY / "experiments/sweep.toml").read_text().partition("[axes]")[0]
    + """[axes]
"engine.window_bytes" = [65536, 1048576, 33554432]
"engine.in_flight_max" = [1, 8]
"iommu.entries" = [8, 64]
"iommu.walk_ns" = [60, 300]
"""
)
POINTS = 24

Example = Callable[..., str]


# Replaces the function that does a chunk by one that is hindered once, after the chunk's rows are written.
HINDRANCE = """
import os, signal
from iotoll import folders
inspect_into = folders.inspect_into

def inspect_and_be_hindered(out, captures):
    done = inspect_into(out, captures)
    try:
        os.close(os.open(os.environ["ONCE"], os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return done
    {hindrance}

folders.inspect_into = inspect_and_be_hindered
"""
KILLED = "os.kill(os.getpid(), signal.SIGKILL)"
FULL_DISK = "raise OSError(28, 'No space left on device')"


@pytest.fixture
def example(tmp_path: Path) -> Example:
    """Runs an example, and returns its last line, or of an example that has to fail what it writes to stderr."""
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    # Ray keeps its own in the user's home.
    token = tmp_path / "token"
    token.write_text(secrets.token_hex(32))

    def run(name: str, *words: object, hindrance: str = "", fails: bool = False) -> str:
        engine = name.partition("_")[2]
        if importlib.util.find_spec(engine) is None:
            pytest.skip(f"SKIPPED {engine} is not installed")
        # Python imports it at each start, in workers too.
        (hooks / "sitecustomize.py").write_text(HINDRANCE.format(hindrance=hindrance) if hindrance else "")
        done = subprocess.run(
            [sys.executable, str(EXAMPLES / f"{name}.py"), *map(str, words)],
            env={
                **os.environ,
                "ONCE": str(tmp_path / "once"),
                "PYTHONPATH": str(hooks),
                "RAY_AUTH_TOKEN_PATH": str(token),
                "RAY_USAGE_STATS_ENABLED": "0",
            },
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
        )
        assert (done.returncode != 0) == fails, done.stderr
        return done.stderr if fails else done.stdout.splitlines()[-1]

    return run


def rows(table: Any) -> list[str]:
    """The rows of a table, in an order of their own."""
    return sorted(repr(sorted(row.items())) for row in table.to_pylist())


def read(folder: Path) -> list[str]:
    """Parts of a sweep may have different columns."""
    parts = [parquet.read_table(part) for part in sorted(folder.glob("part-*.parquet"))]
    return rows(pyarrow.concat_tables(parts, promote_options="default"))


def compare(out: Path, fleet: Path) -> None:
    """Compares a folder's tables with those of one process."""
    for table, expected in iotoll.tables(fleet).items():
        assert read(out / table) == rows(expected), table


@pytest.mark.parametrize("name", ["fleet_joblib", "fleet_ray"])
def test_a_fleet_has_the_rows_of_one_process(name: str, fleet: Path, tmp_path: Path, example: Example) -> None:
    out = tmp_path / "out"
    assert example(name, fleet, out, 3) == "20 hosts, 1 errors, 7 chunks"
    compare(out, fleet)
    (error,) = parquet.read_table(out / "errors").to_pylist()
    assert error["input"] == str(fleet / "poisoned.tar.gz")
    # What is done is not done again.
    assert example(name, fleet, out, 3) == "0 hosts, 0 errors, 0 chunks"


@pytest.mark.parametrize("hindrance", [KILLED, FULL_DISK], ids=["killed", "full disk"])
def test_ray_tries_a_chunk_again(hindrance: str, fleet: Path, tmp_path: Path, example: Example) -> None:
    out = tmp_path / "out"
    example("fleet_ray", fleet, out, 3, hindrance=hindrance)
    assert (tmp_path / "once").exists()
    compare(out, fleet)


@pytest.mark.parametrize("hindrance", [KILLED, FULL_DISK], ids=["killed", "full disk"])
def test_the_next_run_of_joblib_goes_on(hindrance: str, fleet: Path, tmp_path: Path, example: Example) -> None:
    """A chunk that is hindered ends the run."""
    out = tmp_path / "out"
    said = example("fleet_joblib", fleet, out, 3, hindrance=hindrance, fails=True)
    assert ("TerminatedWorkerError" if hindrance == KILLED else "No space left on device") in said
    assert (tmp_path / "once").exists()
    example("fleet_joblib", fleet, out, 3)
    compare(out, fleet)


def test_a_sweep_has_the_rows_of_one_process(tmp_path: Path, example: Example) -> None:
    plan, out, one = tmp_path / "plan.toml", tmp_path / "out", tmp_path / "one"
    plan.write_text(PLAN)
    assert example("sweep_ray", plan, out, 5) == f"{POINTS} points, 0 errors, 5 chunks"
    with folders.Sweep(plan, one) as sweep:
        folders.run_points(plan, one, sweep.unfinished())
    assert read(out) == read(one)
    assert len(read(out)) == POINTS
    assert example("sweep_ray", plan, out, 5) == "0 points, 0 errors, 0 chunks"
