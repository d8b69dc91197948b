"""Studies: published figures beside what models of the same machines say."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Optional, Union

from iotoll import _iotoll

__all__ = ["reproduce", "studies"]


def studies() -> list[str]:
    """Names of all studies.

    >>> "premapped" in studies()
    True
    """
    return _iotoll.studies()


def reproduce(
    study: Union[str, Iterable[str], None] = None,
    *,
    changes: Optional[Mapping[str, float]] = None,
    seeds: int = 4,
) -> dict[str, Any]:
    """The document of `iotoll reproduce --json`, of one study, of several, or of all, which takes a minute.

    `changes` are other values of parameters, from half to twice the given one, to see what depends on them. Figures are means over so many `seeds`.

    Raises `errors.StudyError`, for an unknown study too. After Ctrl-C the simulations in progress end by themselves, in the background.

    >>> document = reproduce("premapped")
    >>> document["reproductions"][0]["study"]
    'premapped'
    """
    if not 2 <= seeds <= 100:
        raise ValueError(f"seeds is {seeds}; expected 2 to 100")
    names = studies() if study is None else [study] if isinstance(study, str) else list(study)
    document: dict[str, Any] = json.loads(_iotoll.reproduce(names, list((changes or {}).items()), seeds))
    return document
