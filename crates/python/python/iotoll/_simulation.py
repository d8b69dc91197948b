"""One simulation of a machine whose description was read before."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Union

from iotoll import _iotoll

# A value of a field; a list is one whole value.
Value = Union[bool, int, float, str, "list[Value]"]


def simulate(text: str, file: str, changes: Mapping[str, Value]) -> dict[str, Any]:
    """The document of the machine that a text describes, with other values of some fields. Errors call the text `file`."""
    # JSON's extension for infinity is none of TOML's.
    changed = json.dumps(list(changes.items()), allow_nan=False)
    document: dict[str, Any] = json.loads(_iotoll.run_model(text, file, changed))
    return document
