"""What simulations say of figures. Each machine is simulated once, on several threads."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from numbers import Real
from typing import TYPE_CHECKING, Any, NamedTuple, Optional, Union

from iotoll._simulation import plain, simulate
from iotoll.errors import ExperimentError

if TYPE_CHECKING:
    from iotoll._parameter_space import Number
    from iotoll.calibration import Figure

# Of failed simulations, as many different reasons are kept.
_REASONS_MAX = 5


class Prediction(NamedTuple):
    """What the model says of a figure: the mean, and its 95 % interval over the seeds where there is one."""

    value: float
    low: Optional[float] = None
    high: Optional[float] = None


class Failed(NamedTuple):
    """There is no prediction, since the simulation failed or has no such number."""

    reason: str
    #: What the simulation raised, if it did.
    error: Optional[ExperimentError] = None


Outcome = Union[Prediction, Failed]


class Predictions:
    """Predictions of some figures at any values of the parameters. To be used in a `with` statement, which ends its threads."""

    def __init__(self, text: str, file: str, figures: Sequence[Figure], threads: int) -> None:
        self._text, self._file = text, file
        self._figures = figures
        self._pool = ThreadPoolExecutor(threads)
        # By a figure's place, and the changes of the file.
        self._known: dict[tuple[int, str], Outcome] = {}
        self.simulations = 0
        self.failed_simulations = 0
        self.reasons: list[str] = []

    def __enter__(self) -> Predictions:
        return self

    def __exit__(self, *_: object) -> None:
        # After Ctrl-C the simulations in progress end by themselves.
        self._pool.shutdown(wait=False, cancel_futures=True)

    def at(self, points: Sequence[Mapping[str, Number]]) -> list[list[Outcome]]:
        """For each point, the prediction of each figure.

        Raises `ValueError` if a figure reads what no document has.
        """
        asked = [[(place, self._changes(place, point)) for place in range(len(self._figures))] for point in points]
        readers: dict[str, list[int]] = {}
        for row in asked:
            for place, changes in row:
                if (place, changes) not in self._known and place not in readers.setdefault(changes, []):
                    readers[changes].append(place)
        needed = [changes for changes, places in readers.items() if places]
        for changes, document in zip(needed, self._pool.map(self._simulate, needed)):
            self._count(document)
            for place in readers[changes]:
                self._known[place, changes] = _read(document, self._figures[place])
        return [[self._known[one] for one in row] for row in asked]

    def _changes(self, place: int, point: Mapping[str, Number]) -> str:
        """All changes of the file, as JSON: figures for which they are equal share a simulation. Those of the figure itself come first."""
        changes = {**point, **self._figures[place].changes}
        return json.dumps({field: plain(field, value) for field, value in changes.items()}, sort_keys=True)

    def _simulate(self, changes: str) -> Union[dict[str, Any], Failed]:
        try:
            return simulate(self._text, self._file, json.loads(changes))
        except ExperimentError as error:
            return Failed(str(error), error)

    def _count(self, document: Union[dict[str, Any], Failed]) -> None:
        self.simulations += 1
        if isinstance(document, Failed):
            self.failed_simulations += 1
            if document.reason not in self.reasons and len(self.reasons) < _REASONS_MAX:
                self.reasons.append(document.reason)


def _read(document: Union[dict[str, Any], Failed], figure: Figure) -> Outcome:
    if isinstance(document, Failed):
        return document
    found: Any = figure.read(document) if callable(figure.read) else _field(document, figure.read)
    low = high = None
    if isinstance(found, Mapping) and "mean" in found:
        found, low, high = found["mean"], found.get("low"), found.get("high")
    if found is None:
        return Failed(f"{figure.label} reads null; expected a number")
    if isinstance(found, bool) or not isinstance(found, Real):
        raise ValueError(f"{figure.label} reads {str(found):.60}; expected a number, or a field with a mean")
    if not math.isfinite(found):
        return Failed(f"{figure.label} reads {found}; expected a finite number")
    return Prediction(float(found), low, high)


def _field(document: Any, path: str) -> Any:
    """The field at a dotted path, in which a number names an element of a list; None where a part of the way is null."""
    at = document
    for name in path.split("."):
        if at is None:
            return None
        if isinstance(at, list) and name.isdigit() and int(name) < len(at):
            at = at[int(name)]
        elif isinstance(at, Mapping) and name in at:
            at = at[name]
        else:
            has = ", ".join(at) if isinstance(at, Mapping) else f"{len(at)} elements" if isinstance(at, list) else "no fields"
            raise ValueError(f"the document of the simulation has no {path}: expected one of {has} in place of {name}")
    return at
