"""Simulations of machines, fits of their parameters, and studies: published figures beside what models of the same machines say."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Optional, Union

from iotoll import _iotoll
from iotoll._simulation import Value, simulate
from iotoll._paths import PathLike
from iotoll._toml import read
from iotoll.calibration import Calibration, Figure, calibrate

__all__ = ["Calibration", "Figure", "calibrate", "reproduce", "run", "studies"]


def run(toml: PathLike, **changes: Value) -> dict[str, Any]:
    """The document of `iotoll model run --json`: what a simulated machine does, and what limits it.

    `toml` is the path of a file that describes the machine, or such a text itself: a `str` with more than one line. `changes` are other values of its
    fields, by their dotted names; a number names an element of a list, from 0.

    Raises `errors.ExperimentError` for a machine that there is not, or whose simulation fails. After Ctrl-C the simulation ends by itself, in the
    background.

    >>> engine = '''what = "reads"
    ... transfers = 2000
    ... [link]
    ... generation = 3
    ... lanes = 8
    ... payload_bytes_max = 256
    ... read_request_bytes_max = 512
    ... completion_boundary_bytes = 64
    ... overhead_share = 0.055
    ... [engine]
    ... operation = "read"
    ... transfer_bytes = 64
    ... alignment_bytes = 64
    ... window_bytes = 1048576
    ... in_flight_max = 34
    ... gap_ns = 16.03
    ... path_ns = 540.0
    ... copy_ps_per_byte = 143.0
    ... '''
    >>> rate = run(engine)["engine"]["gigabits_per_second"]["mean"]
    >>> run(engine, **{"engine.in_flight_max": 1})["engine"]["gigabits_per_second"]["mean"] < rate
    True
    """
    text, file = read(toml, "experiment.toml")
    return simulate(text, file, changes)


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
