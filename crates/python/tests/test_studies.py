"""Studies: the documents of the program, and errors."""

from __future__ import annotations

import iotoll
import pytest
from conftest import Program


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
    assert raised.value.expected is not None and raised.value.expected.split(", ") == iotoll.studies()
    with pytest.raises(iotoll.errors.StudyError, match="no parameter"):
        iotoll.reproduce("premapped", changes={"lanes_of_fame": 3})
    with pytest.raises(ValueError, match="seeds is 0; expected 2 to 100"):
        iotoll.reproduce("premapped", seeds=0)
