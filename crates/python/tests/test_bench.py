"""Measurements on this machine, and the rows of documents."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import iotoll
import pytest
from conftest import REPOSITORY, Program
from iotoll.bench import _LISTS_OF_ROWS, _ROWS

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
        ({"seed": -1}, "seed is -1; expected no negative number"),
        ({"pairs": 10**30}, "pairs is 1000.*; expected at most "),
    ],
)
def test_settings_that_make_no_sense_are_refused(asked: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        iotoll.bench.iova(**{**SHORT, **asked})


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"scenarios": "pairs"}, "scenarios is 'pairs'; expected a list of str"),
        ({"contestants": [7]}, "contestants is 7; expected str"),
        ({"threads": 1}, "threads is 1; expected a list of int"),
        ({"rounds": "many"}, "rounds is 'many'; expected int"),
        ({"pairs": True}, "pairs is True; expected int"),
        ({"seed": None}, "seed is None; expected int"),
        ({"quick": "x"}, "quick is 'x'; expected bool"),
    ],
)
def test_arguments_of_another_kind_are_refused(asked: dict[str, Any], words: str) -> None:
    with pytest.raises(TypeError, match=words):
        iotoll.bench.iova(**{**SHORT, **asked})


def test_any_iterable_is_a_list() -> None:
    asked: dict[str, Any] = {**SHORT, "threads": iter((1,)), "scenarios": ("pairs",)}
    assert iotoll.bench.iova(**asked)["settings"]["threads"] == [1]


def test_schemas_are_the_current_ones() -> None:
    for schema in _ROWS:
        name = schema.removeprefix("iotoll.").partition("/")[0]
        assert json.loads((SCHEMAS / f"{name}.json").read_text())["$id"] == schema


def fields(schema: dict[str, Any], table: dict[str, Any]) -> dict[str, Any]:
    """The properties of a table in a JSON Schema, or in place of null, with those of tables that it takes in."""
    while "$ref" in table:
        table = schema["$defs"][table["$ref"].rpartition("/")[2]]
    found = dict(table.get("properties", {}))
    for part in [*table.get("allOf", []), *table.get("anyOf", [])]:
        found.update(fields(schema, part))
    return found


def test_rows_are_where_the_schemas_have_them() -> None:
    for id, lists in _ROWS.items():
        schema = json.loads((SCHEMAS / f"{id.removeprefix('iotoll.').partition('/')[0]}.json").read_text())
        table = schema
        for name in lists:
            table = fields(schema, table)[name]["items"]
        assert fields(schema, table), id


def lists_of_rows(schema: dict[str, Any], table: dict[str, Any]) -> set[str]:
    """Names of a table's fields, and of those of tables in it, that are lists of tables or of lists."""
    found: set[str] = set()
    for name, field in fields(schema, table).items():
        items = field.get("items")
        is_row = items is not None and ("$ref" in items or items.get("type") in ("object", "array"))
        found |= {name} if is_row else lists_of_rows(schema, field)
    return found


def test_lists_of_rows_are_those_of_the_schemas() -> None:
    found: set[str] = set()
    for id, lists in _ROWS.items():
        schema = json.loads((SCHEMAS / f"{id.removeprefix('iotoll.').partition('/')[0]}.json").read_text())
        table = schema
        for name, inner in zip(lists, [*lists[1:], ""]):
            table = fields(schema, table)[name]["items"]
            found |= lists_of_rows(schema, table) - {inner}
    assert found == _LISTS_OF_ROWS


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
