"""Measurements: of this machine, and the rows of documents that `iotoll bench`, `watch` and `compare` print."""

from __future__ import annotations

import json
import operator
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Optional, Union

from iotoll import _iotoll
from iotoll._optional import require
from iotoll._paths import reason
from iotoll.errors import InputError

if TYPE_CHECKING:
    import pandas

__all__ = ["frame", "iova"]

# The lists that lead to the rows of each document, outermost first.
_ROWS = {
    "iotoll.bench/1": ("cases", "entries"),
    "iotoll.bench-blk/1": ("rows", "cells"),
    "iotoll.bench-map/2": ("rows", "cells"),
    "iotoll.bench-map-threads/1": ("cases", "entries"),
    "iotoll.bench-memtype/1": ("areas", "rows", "cells"),
    "iotoll.bench-net/1": ("cells",),
    "iotoll.bench-transfer/1": ("memories",),
    "iotoll.compare/1": ("groups", "rows"),
    "iotoll.watch/1": ("adapters", "actions"),
}
# Fields of rows that are lists of other rows, which a frame leaves out; the empty ones look like other lists.
_LISTS_OF_ROWS = frozenset(("explanations", "paths", "rounds", "stages"))
# Arguments of `iova` that are lists, and those that are numbers, with the largest that fits.
_LISTS = {"scenarios": str, "threads": int, "contestants": str}
_NUMBERS = {"bits": 2**32 - 1, **dict.fromkeys(("rounds", "round_ms", "pairs", "held", "burst", "seed"), 2**64 - 1)}
# What a frame keeps of its document, where the document has it.
_ATTRIBUTES = ("schema", "made_by", "command", "date", "machine", "settings", "warnings")


def iova(
    *,
    scenarios: Optional[Sequence[str]] = None,
    threads: Optional[Sequence[int]] = None,
    contestants: Optional[Sequence[str]] = None,
    baseline: Optional[str] = None,
    quick: bool = False,
    rounds: Optional[int] = None,
    round_ms: Optional[int] = None,
    pairs: Optional[int] = None,
    held: Optional[int] = None,
    burst: Optional[int] = None,
    bits: Optional[int] = None,
    pin: bool = False,
    seed: int = 1,
) -> dict[str, Any]:
    """Measures allocators of I/O virtual addresses with real threads on this machine: the document of `iotoll bench iova --json`.

    The arguments are that command's options, with its defaults: all scenarios and allocators, which takes minutes; `quick` takes seconds.

    Raises `TypeError` for an argument of another kind, `ValueError` for a setting or a name that there is not, `errors.MeasurementError` if the measurement fails.

    >>> document = iova(scenarios=["pairs"], threads=[1], contestants=["percpu"], pairs=1000, rounds=2)
    >>> [entry["contestant"] for entry in document["cases"][0]["entries"]]
    ['percpu']
    """
    asked = {name: _checked(name, value) for name, value in dict(locals()).items()}
    given = [f"{name}={value!r}" for name, value in asked.items() if value is not None and value is not False]
    command = f"iotoll.bench.iova({', '.join(given)})"
    date = datetime.now(timezone.utc).date().isoformat()
    document: dict[str, Any] = json.loads(_iotoll.measure_iova(asked, [command], date))
    return document


def _checked(name: str, value: Any) -> Any:
    """An argument of `iova`, with a list in place of other iterables."""
    if value is None and name not in ("quick", "pin", "seed"):
        return None
    if name in _NUMBERS:
        return _number(name, value, _NUMBERS[name])
    if name == "baseline":
        return _text(name, value)
    if name not in _LISTS:
        if not isinstance(value, bool):
            raise _wrong(name, value, "bool")
        return value
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise _wrong(name, value, f"a list of {_LISTS[name].__name__}")
    return [_number(name, one, 2**64 - 1) if _LISTS[name] is int else _text(name, one) for one in value]


def _number(name: str, value: Any, largest: int) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise _wrong(name, value, "int")
    number = operator.index(value)
    if number < 0:
        raise ValueError(f"{name} is {number}; expected no negative number")
    if number > largest:
        raise ValueError(f"{name} is {number}; expected at most {largest}")
    return number


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise _wrong(name, value, "str")
    return value


def _wrong(name: str, value: Any, expected: str) -> TypeError:
    return TypeError(f"{name} is {value!r}; expected {expected}")


def frame(document: Union[Mapping[str, Any], str, os.PathLike[str]]) -> pandas.DataFrame:
    """The rows of a document of `iotoll bench`, `watch` or `compare`, or of a file with one.

    A row has the fields of the tables around it, too: an allocator's, those of its scenario and number of threads. A nested field's name has a
    dot: `ns_per_pair.median`. Lists of rows, such as single rounds, are left out. `DataFrame.attrs` has what the document says of itself.

    Needs the package pandas. Raises `errors.InputError` if the file can't be read or is no such document.

    >>> document = iova(scenarios=["pairs"], threads=[1], contestants=["direct"], pairs=1000, rounds=2)
    >>> frame(document)[["scenario", "threads", "contestant", "measured.ns_per_pair.median"]].shape
    (1, 4)
    """
    frames = require("pandas", "pandas")
    file = None if isinstance(document, Mapping) else os.fspath(document)
    content = document if isinstance(document, Mapping) else _read(document)
    expected = f"a document with one of the schemas {', '.join(_ROWS)}"
    schema = content.get("schema") if isinstance(content, Mapping) else None
    if not isinstance(schema, str) or schema not in _ROWS:
        found = "no schema" if schema is None else f"the schema {schema!r}"
        raise InputError(f"{file or 'the document'} has {found}; expected {expected}", file, None, expected)
    try:
        records = list(_rows(content, _ROWS[schema]))
    except _NoRows as error:
        raise InputError(f"{file or 'the document'}: {error}", file, None, error.expected) from error
    rows: pandas.DataFrame = frames.DataFrame.from_records(records)
    rows.attrs.update({name: content[name] for name in _ATTRIBUTES if name in content})
    return rows


def _read(path: Union[str, os.PathLike[str]]) -> Any:
    file = os.fspath(path)
    try:
        # PowerShell begins what it redirects to a file with a byte order mark.
        with open(path, encoding="utf-8-sig") as text:
            return json.load(text)
    except json.JSONDecodeError as error:
        raise InputError(f"{file}:{error.lineno}: {error.msg}; expected JSON", file, error.lineno, "JSON") from error
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{file}: {reason(error)}", file) from error


class _NoRows(Exception):
    """A document that lacks what its schema has."""

    def __init__(self, place: str, expected: str) -> None:
        super().__init__(f"{place} is missing or something else; expected {expected}")
        self.expected = expected


def _rows(table: Mapping[str, Any], lists: Sequence[str], place: str = "") -> Iterator[dict[str, Any]]:
    """The rows of the innermost of some lists that are in each other, with the fields of the outer ones. `place` is where the table is in its document."""
    place = f"{place}{lists[0]}"
    rows = table.get(lists[0])
    if not isinstance(rows, list):
        raise _NoRows(place, "a list")
    for number, outer in enumerate(rows):
        row = f"{place}[{number}]"
        if not isinstance(outer, Mapping):
            raise _NoRows(row, "an object")
        fields = dict(_fields(outer))
        if len(lists) == 1:
            yield fields
        else:
            yield from ({**fields, **inner} for inner in _rows(outer, lists[1:], f"{row}."))


def _fields(row: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in row.items():
        if isinstance(value, Mapping):
            yield from _fields(value, f"{prefix}{name}.")
        elif not (isinstance(value, list) and _has_rows(name, value)):
            yield f"{prefix}{name}", value


def _has_rows(name: str, values: list[Any]) -> bool:
    return any(isinstance(one, (Mapping, list)) for one in values) or (not values and name in _LISTS_OF_ROWS)
