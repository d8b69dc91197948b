"""Folders that several processes write: what they are given is checked, and what can't be done is a row."""

from __future__ import annotations

import json
from pathlib import Path

import iotoll
import pytest
from conftest import REPOSITORY, Program
from iotoll import folders

PLAN = (REPOSITORY / "experiments/sweep.toml").read_text().partition("[axes]")[0] + (
    """[axes]
"engine.window_bytes" = [65536, 1048576]
"engine.in_flight_max" = [8]
"iommu.entries" = [64]
"iommu.walk_ns" = [60]
"""
)


def test_a_capture_that_is_gone_is_a_row_of_errors(captures: Path, tmp_path: Path) -> None:
    """It was there when it was found."""
    with folders.Fleet(tmp_path / "out"):
        done = folders.inspect_into(tmp_path / "out", [tmp_path / "gone", *sorted(captures.glob("*.tar.gz"))])
    assert done == (5, 1)
    parquet = pytest.importorskip("pyarrow.parquet")
    (row,) = parquet.read_table(tmp_path / "out/errors").to_pylist()
    assert (row["input"], row["kind"]) == (str(tmp_path / "gone"), "unreadable")
    assert "No such file" in row["what"]


def test_a_capture_that_goes_before_its_turn_is_a_row_of_errors(
    captures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyarrow")
    monkeypatch.setattr("iotoll.hosts.find", lambda _: [str(tmp_path / "gone"), str(captures)])
    found = iotoll.tables(captures)
    assert found["hosts"].num_rows == 5
    assert found["errors"].column("kind").to_pylist() == ["unreadable"]


def test_one_path_is_no_list_of_its_letters(captures: Path, tmp_path: Path) -> None:
    capture = str(captures / "ppc-ddw.tar.gz")
    with folders.Fleet(tmp_path / "out") as fleet:
        assert fleet.unfinished(capture) == [capture]
        assert json.loads((tmp_path / "out/all.inputs").read_text()) == [capture]
        assert folders.inspect_into(tmp_path / "out", capture) == (1, 0)
        assert folders.inspect_into(tmp_path / "out", Path(capture)) == (1, 0)
        assert fleet.unfinished([capture]) == []
        for wrong in (capture.encode(), [capture.encode()]):
            with pytest.raises(TypeError, match="expected a path as str .*, not bytes"):
                fleet.unfinished(wrong)  # type: ignore[arg-type]
            with pytest.raises(TypeError, match="expected a path as str .*, not bytes"):
                folders.inspect_into(tmp_path / "out", wrong)  # type: ignore[arg-type]
            with pytest.raises(TypeError, match="expected a path as str .*, not bytes"):
                iotoll.hosts.find(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("place", [2, 10**12, 2**64 - 1, 2**64, -1])
def test_a_place_that_the_plan_has_not_is_refused(place: int, tmp_path: Path) -> None:
    with folders.Sweep(PLAN, tmp_path / "out") as sweep:
        with pytest.raises(ValueError, match="place|no point"):
            folders.run_points(PLAN, tmp_path / "out", [0, place])
        assert folders.run_points(PLAN, tmp_path / "out", sweep.unfinished()) == (2, 0)
    with folders.Sweep(PLAN, tmp_path / "out") as sweep:
        assert sweep.unfinished() == []


def test_results_of_another_plan_are_not_mixed_in(tmp_path: Path) -> None:
    other = PLAN.replace("gap_ns = 16.03", "gap_ns = 17.03")
    assert other != PLAN
    assert folders.run_points(PLAN, tmp_path / "out", [0]) == (1, 0)
    with pytest.raises(iotoll.errors.FolderError, match="results of another plan"):
        folders.run_points(other, tmp_path / "out", [0])
    with folders.Sweep(PLAN, tmp_path / "out") as sweep:
        assert sweep.unfinished() == [1]


def test_the_program_and_python_call_inputs_the_same(
    captures: Path, tmp_path: Path, program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    monkeypatch.chdir(captures.parent)
    assert program("fleet", "--json", captures.name, "--out", str(out))["inspected"] == 5
    with folders.Fleet(out) as fleet:
        assert fleet.unfinished(captures) == []
        assert fleet.finished == 5
        monkeypatch.chdir(captures)
        assert fleet.unfinished([".", "ppc-ddw.tar.gz"]) == []


@pytest.mark.parametrize("change", [("[64]", "[-1]"), ('"iommu.entries"', '"iommu.entrys"'), ("lanes = 8", 'lanes = "x"')])
def test_a_mistake_in_a_plan_has_its_file_and_line(change: tuple[str, str], tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(PLAN.replace(*change))
    line = next(number for number, text in enumerate(plan.read_text().splitlines(), 1) if change[1] in text)
    with pytest.raises(iotoll.errors.ExperimentError) as raised:
        folders.Sweep(plan, tmp_path / "out")
    assert (raised.value.file, raised.value.line) == (str(plan), line)
