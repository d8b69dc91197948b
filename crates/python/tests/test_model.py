"""Simulations and studies: the documents of the program, and errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import iotoll
import pytest
from conftest import REPOSITORY, Program

EXPERIMENTS = REPOSITORY / "experiments"


def test_a_document_is_that_of_the_program(program: Program) -> None:
    assert iotoll.reproduce("premapped") == program("reproduce", "--json", "premapped")


def test_changes_and_seeds_reach_the_models(program: Program) -> None:
    parameter = iotoll.reproduce("premapped")["reproductions"][0]["parameters"][0]
    name, value = parameter["name"], parameter["value"] * 1.5
    changed = iotoll.reproduce(["premapped"], changes={name: value}, seeds=2)
    assert changed == program("reproduce", "--json", "premapped", "--set", f"{name}={value}", "--seeds", "2")
    assert changed["reproductions"][0]["parameters"][0]["value"] == value


def test_errors_say_what_is_expected() -> None:
    with pytest.raises(iotoll.errors.StudyError, match="there is no study") as raised:
        iotoll.reproduce("pre-mapped")
    assert raised.value.expected is not None and raised.value.expected.split(", ") == iotoll.model.studies()
    with pytest.raises(iotoll.errors.StudyError, match="no parameter"):
        iotoll.reproduce("premapped", changes={"lanes_of_fame": 3})
    with pytest.raises(ValueError, match="seeds is 0; expected 2 to 100"):
        iotoll.reproduce("premapped", seeds=0)


@pytest.mark.parametrize("name", ["engine", "nvme", "memory-types"])
def test_a_simulation_is_that_of_the_program(name: str, program: Program) -> None:
    file = EXPERIMENTS / f"{name}.toml"
    assert iotoll.model.run(file) == program("model", "run", "--json", str(file))


def test_changes_are_as_if_the_file_had_them(program: Program, tmp_path: Path) -> None:
    text = (EXPERIMENTS / "engine.toml").read_text()
    written = text.replace("window_bytes = 1048576", "window_bytes = 65536").replace("lanes = 8", "lanes = 4")
    assert written.count("65536") == written.count("lanes = 4") == 1
    file = tmp_path / "experiment.toml"
    file.write_text(written)
    theirs = program("model", "run", "--json", str(file))
    ours = iotoll.model.run(text, **{"engine.window_bytes": 65536, "link.lanes": 4})
    assert ours.pop("file") == "experiment.toml" != theirs.pop("file")
    assert ours == theirs


def test_mistakes_in_a_description_have_their_line() -> None:
    text = (EXPERIMENTS / "engine.toml").read_text()
    line = text.splitlines().index("lanes = 8") + 1
    written = text.replace("lanes = 8", "lanes = 99")
    changes: dict[str, Any]
    for wrong, changes, where in ((written, {}, ""), (text, {"link.lanes": 99}, ", as changed")):
        with pytest.raises(iotoll.errors.ExperimentError, match="link.lanes is 99; expected 1 to 32") as raised:
            iotoll.model.run(wrong, **changes)
        error = raised.value
        assert (error.file, error.line, error.expected) == ("experiment.toml", line, "1 to 32")
        assert str(error).startswith(f"experiment.toml:{line}{where}: ")
    with pytest.raises(iotoll.errors.ExperimentError, match="unknown field `lane`") as raised:
        iotoll.model.run(text.replace("lanes = 8", "lane = 8"))
    assert (raised.value.line, "`lanes`" in str(raised.value.expected)) == (line, True)
    with pytest.raises(iotoll.errors.ExperimentError, match="duplicate key") as raised:
        iotoll.model.run("what = 1\nwhat = 2\n")
    assert raised.value.line == 2


def test_changes_may_be_numpy_s() -> None:
    numpy = pytest.importorskip("numpy")
    machine = EXPERIMENTS / "engine.toml"
    changed = iotoll.model.run(machine, **{"engine.in_flight_max": numpy.int64(2), "engine.gap_ns": numpy.float32(16.5)})
    plain = iotoll.model.run(machine, **{"engine.in_flight_max": 2, "engine.gap_ns": 16.5})
    assert changed["engine"] == plain["engine"]


@pytest.mark.parametrize("value", [None, 2**63, float("inf"), float("nan"), {"a": 1}, [1, None], b"x"])
def test_changes_that_no_file_can_have_are_refused_with_their_field(value: Any) -> None:
    with pytest.raises(ValueError, match=r"^engine\.in_flight_max is .*; expected a finite number"):
        iotoll.model.run(EXPERIMENTS / "engine.toml", **{"engine.in_flight_max": value})


@pytest.mark.parametrize("changes", [{"engine.nothing": 1}, {"link.lanes.3": 1}, {"link.lanes": "many"}])
def test_changes_of_what_is_no_field_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(iotoll.errors.ExperimentError, match="experiment.toml"):
        iotoll.model.run((EXPERIMENTS / "engine.toml").read_text(), **changes)


def test_what_can_not_be_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(iotoll.errors.ExperimentError, match="No such file") as raised:
        iotoll.model.run(tmp_path / "absent.toml")
    assert raised.value.file == str(tmp_path / "absent.toml")
    assert json.dumps(iotoll.model.studies())
