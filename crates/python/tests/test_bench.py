"""Measurements on this machine, and the rows of documents."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import iotoll
import pytest
from conftest import REPOSITORY, Program
from iotoll.bench import _ROWS

DOCUMENTS = REPOSITORY / "crates/compare/tests/documents"
SCHEMAS = REPOSITORY / "docs/reference/schemas"
SHORT: dict[str, Any] = {"scenarios": ["pairs"], "threads": [1, 2], "contestants": ["direct", "percpu"], "rounds": 2, "pairs": 200}


def test_a_measurement_has_the_settings_that_were_asked_for() -> None:
    document = iotoll.bench.iova(**SHORT)
    assert document["schema"] == "iotoll.bench/1"
    assert document["command"] == [
        "iotoll.bench.iova(scenarios=['pairs'], threads=[1, 2], contestants=['direct', 'percpu'], rounds=2, pairs=200, seed=1)"
    ]
    settings = document["settings"]
    assert {name: settings[name] for name in SHORT if name != "contestants"} == {
        name: value for name, value in SHORT.items() if name != "contestants"
    }
    assert [one["name"] for one in document["contestants"]] == SHORT["contestants"]


def test_defaults_are_those_of_the_program(program: Program) -> None:
    only = ["--scenario", "pairs", "--contestant", "direct", "--pairs", "10", "--json", "--quick"]
    theirs = program("bench", "iova", *only)["settings"]
    assert iotoll.bench.iova(scenarios=["pairs"], contestants=["direct"], pairs=10, quick=True)["settings"] == theirs


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"scenarios": ["pears"]}, "unknown scenario \"pears\"; expected one of pairs"),
        ({"contestants": ["nobody"]}, "nobody"),
        ({"baseline": "nobody"}, "nobody"),
        ({"bits": 99}, "bits is 99; expected 28 to 64"),
        ({"threads": [0]}, "threads is 0; expected 1 to 1024"),
        ({"rounds": 0}, "rounds is 0; expected 1 or more"),
    ],
)
def test_settings_that_make_no_sense_are_refused(asked: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        iotoll.bench.iova(**{**SHORT, **asked})


def test_schemas_are_the_current_ones() -> None:
    for schema in _ROWS:
        name = schema.removeprefix("iotoll.").partition("/")[0]
        assert json.loads((SCHEMAS / f"{name}.json").read_text())["$id"] == schema


def fields(schema: dict[str, Any], table: dict[str, Any]) -> dict[str, Any]:
    """The properties of a table in a JSON Schema, with those of tables that it takes in."""
    while "$ref" in table:
        table = schema["$defs"][table["$ref"].rpartition("/")[2]]
    found = dict(table.get("properties", {}))
    for part in table.get("allOf", []):
        found.update(fields(schema, part))
    return found


def test_rows_are_where_the_schemas_have_them() -> None:
    for id, lists in _ROWS.items():
        schema = json.loads((SCHEMAS / f"{id.removeprefix('iotoll.').partition('/')[0]}.json").read_text())
        table = schema
        for name in lists:
            table = fields(schema, table)[name]["items"]
        assert fields(schema, table), id


def test_a_frame_has_a_row_for_each_measurement() -> None:
    pytest.importorskip("pandas")
    document = iotoll.bench.iova(**SHORT)
    frame = iotoll.bench.frame(document)
    assert list(frame["contestant"]) == ["direct", "percpu"] * 2
    assert list(frame["threads"]) == [1, 1, 2, 2]
    entries = [entry for case in document["cases"] for entry in case["entries"]]
    medians = [entry["measured"]["ns_per_pair"]["median"] for entry in entries]
    assert list(frame["measured.ns_per_pair.median"]) == medians
    assert "measured.rounds" not in frame
    assert frame.attrs["machine"] == document["machine"]


def test_files_of_others_commands_have_rows_too() -> None:
    pytest.importorskip("pandas")
    for path in sorted(DOCUMENTS.glob("*.json")):
        document = json.loads(path.read_text())
        frame = iotoll.bench.frame(path)
        lists = _ROWS[document["schema"]]
        inner = [row for outer in document[lists[0]] for row in outer[lists[1]]]
        assert len(frame) == len(inner) > 0, path
        assert frame.attrs["schema"] == document["schema"]


def test_what_is_no_document_is_an_error(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    file = tmp_path / "x.json"
    file.write_text('{\n"schema": }')
    with pytest.raises(iotoll.errors.InputError) as raised:
        iotoll.bench.frame(file)
    assert (raised.value.file, raised.value.line, raised.value.expected) == (str(file), 2, "JSON")
    file.write_text('{"schema": "iotoll.inspect/2"}')
    with pytest.raises(iotoll.errors.InputError, match="has the schema 'iotoll.inspect/2'; expected a document"):
        iotoll.bench.frame(file)
    with pytest.raises(iotoll.errors.InputError, match="absent"):
        iotoll.bench.frame(tmp_path / "absent")
    with pytest.raises(iotoll.errors.InputError, match="the document has no schema"):
        iotoll.bench.frame({})


def test_a_document_that_lacks_its_rows_is_an_error_with_the_place(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    cases: list[tuple[dict[str, Any], str, str]] = [
        ({}, "cases", "a list"),
        ({"cases": None}, "cases", "a list"),
        ({"cases": [7]}, r"cases\[0\]", "an object"),
        ({"cases": [{"entries": []}, {}]}, r"cases\[1\].entries", "a list"),
        ({"cases": [{"entries": [[]]}]}, r"cases\[0\].entries\[0\]", "an object"),
    ]
    for document, place, expected in cases:
        with pytest.raises(iotoll.errors.InputError, match=f"the document: {place} is missing") as raised:
            iotoll.bench.frame({"schema": "iotoll.bench/1", **document})
        assert raised.value.expected == expected
    file = tmp_path / "marked.json"
    file.write_text('{"schema": "iotoll.bench/1", "cases": []}', encoding="utf-8-sig")
    assert len(iotoll.bench.frame(file)) == 0
