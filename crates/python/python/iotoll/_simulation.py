"""One simulation of a machine whose description was read before."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, Union

from iotoll import _iotoll

# A value of a field; a list is one whole value.
Value = Union[bool, int, float, str, "list[Value]"]


def simulate(text: str, file: str, changes: Mapping[str, Value]) -> dict[str, Any]:
    """The document of the machine that a text describes, with other values of some fields. Errors call the text `file`."""
    changed = json.dumps([(field, plain(field, value)) for field, value in changes.items()])
    document: dict[str, Any] = json.loads(_iotoll.run_model(text, file, changed))
    return document


def plain(field: str, value: Any) -> Value:
    """The value as one that a file can have; NumPy's are converted."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return [plain(field, element) for element in value]
    is_number = isinstance(value, int) and -(2**63) <= value < 2**63 or isinstance(value, float) and math.isfinite(value)
    if not (is_number or isinstance(value, str)):
        raise ValueError(f"{field} is {value!r}; expected a finite number, an integer of 64 bits, a text, or a list of these")
    return value  # type: ignore[no-any-return]
