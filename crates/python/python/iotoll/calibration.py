"""Fits of a machine's parameters to published or measured figures, and what such a fit is worth.

A fit always looks good on the figures that it was fitted to. So some figures are held out: they never influence the fit, and their error stands beside
that of the others. A fit may also be good at many values of a parameter. So each fitted value comes with the range within which the figures are met as well.
"""

from __future__ import annotations

import math
import os
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Callable, Optional, Union

from iotoll._least_squares import LeastSquares
from iotoll._optional import require
from iotoll._parameter_space import GivenBounds, Number, Parameter, ParameterSpace
from iotoll._predictions import Failed, Outcome, Prediction, Predictions
from iotoll._simulation import Value
from iotoll._paths import PathLike
from iotoll._toml import read
from iotoll.errors import ExperimentError, SimulationError

if TYPE_CHECKING:
    import pandas

__all__ = ["Calibration", "Figure", "FittedParameter", "PredictedFigure", "calibrate"]

_SPLITS = ("calibration", "held-out")
# An error that is greater by this factor is no worse; published figures have about three digits.
_AS_GOOD, _NOISE_MIN = 1.05, 1e-3
# A number with a fraction within this share of the bounds' width from a bound is at it.
_AT_BOUND = 0.01


@dataclass(frozen=True)
class Figure:
    """A published or measured figure, and where the model says the same."""

    #: As it was published, in `unit`.
    value: float
    #: Where it is in the document of `iotoll.model.run`: a dotted path, `"engine.latency_mean_ns"`, in which a number names an element of a list; or a function of
    #: the document. A field with a mean and an interval is read with both.
    read: Union[str, Callable[[dict[str, Any]], float]]
    unit: str
    #: Who published or measured it: "published: Title, Author, Year".
    evidence: str
    #: What the machine of this figure has other values of. They come before those of fitted parameters.
    changes: Mapping[str, Value] = field(default_factory=dict)
    #: "calibration", or "held-out": it never influences the fit, which it tests.
    split: str = "calibration"
    #: Half of its 95 % interval as measured, in `unit`. Without it, 0.1 % of the value.
    noise: Optional[float] = None
    #: What reports call it; without a name, what it reads and changes.
    name: str = ""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.value) and self.value != 0):
            raise ValueError(f"{self.label} is {self.value}; expected a finite number apart from 0, as its error is relative")
        if self.split not in _SPLITS:
            raise ValueError(f"{self.label} has the split {self.split!r}; expected one of {', '.join(_SPLITS)}")
        if self.noise is not None and not (math.isfinite(self.noise) and self.noise >= 0):
            raise ValueError(f"{self.label} has the noise {self.noise}; expected a finite number from 0")
        if not self.evidence.strip() or not self.unit.strip():
            raise ValueError(f"{self.label} has no evidence or no unit; expected who published it, and in which unit")

    @property
    def label(self) -> str:
        """Its name, or what it reads and changes."""
        what = self.read if isinstance(self.read, str) else getattr(self.read, "__name__", "a function")
        changes = ", ".join(f"{name}={value}" for name, value in self.changes.items())
        return self.name or (f"{what} with {changes}" if changes else what)


@dataclass(frozen=True)
class FittedParameter:
    """A parameter's fitted value, and how well the calibration figures determine it."""

    #: Fields that have the value: one, or several.
    fields: tuple[str, ...]
    value: Number
    #: The bounds of the fit.
    low: Number
    high: Number
    #: Within this range, the calibration figures are met as well, if the other parameters are fitted anew: `Calibration.error_as_good` says how well.
    range_low: Number
    range_high: Number
    #: "low" or "high" if the fit ended at a bound: the figures may be met better beyond it.
    at_bound: Optional[str]

    @property
    def name(self) -> str:
        """Its fields: "iommu.entries = iommu.ways"."""
        return " = ".join(self.fields)

    @property
    def is_constrained(self) -> bool:
        """Whether the figures exclude values at both ends of the bounds."""
        return self.range_low > self.low and self.range_high < self.high


@dataclass(frozen=True)
class PredictedFigure:
    """A figure beside what the fitted model says."""

    figure: Figure
    #: None if the simulation failed, as `failure` tells.
    predicted: Optional[float]
    #: The prediction's 95 % interval over the seeds of the file, if it has several and they differ.
    low: Optional[float] = None
    high: Optional[float] = None
    failure: Optional[str] = None

    @property
    def error(self) -> Optional[float]:
        """The relative error: 0.1 if the prediction is 10 % of the published value above it."""
        return None if self.predicted is None else (self.predicted - self.figure.value) / abs(self.figure.value)


@dataclass(frozen=True)
class Calibration:
    """Fitted parameters, and what the fit is worth. `str` of it is a report."""

    parameters: tuple[FittedParameter, ...]
    figures: tuple[PredictedFigure, ...]
    #: Root mean square of the relative errors of the calibration figures, and up to which it counts as good: the greater of 1.05 times it, and what the
    #: figures' noise adds.
    error: float
    error_as_good: float
    #: Simulations that were run, those of held-out figures among them.
    simulations: int
    #: Those without a result, at points that the fit then avoided, and some of their reasons.
    failed_simulations: int
    failure_reasons: tuple[str, ...]
    seed: int

    @property
    def values(self) -> dict[str, Number]:
        """The fitted values, as changes for `iotoll.model.run`."""
        return {field: parameter.value for parameter in self.parameters for field in parameter.fields}

    @property
    def held_out_error(self) -> Optional[float]:
        """Root mean square of the relative errors of held-out figures that have a prediction; None if there is none."""
        errors = [one.error for one in self.figures if one.figure.split == "held-out" and one.error is not None]
        return _root_mean_square(errors) if errors else None

    @property
    def is_determined(self) -> bool:
        """Whether the figures constrain every parameter."""
        return all(parameter.is_constrained for parameter in self.parameters)

    @property
    def remarks(self) -> list[str]:
        """What anyone who uses the values has to know."""
        remarks = []
        for parameter in self.parameters:
            remarks += _remarks(parameter)
        fitted = [one for one in self.figures if one.figure.split == "calibration"]
        if len(self.parameters) == len({_identity(one.figure) for one in fitted}):
            remarks.append("there are as many parameters as calibration figures: that those are met shows nothing")
        if len(fitted) == len(self.figures):
            remarks.append("no prediction was tested: there is no held-out figure")
        for one in self.figures:
            if one.failure is not None:
                remarks.append(f"the held-out figure {one.figure.label} has no prediction: {one.failure}")
        if self.failed_simulations:
            reasons = "; ".join(self.failure_reasons)
            remarks.append(f"{self.failed_simulations} of {self.simulations} simulations failed: {reasons}")
        return remarks

    def frame(self) -> pandas.DataFrame:
        """A row for each figure. Needs the package pandas."""
        rows = [
            {
                "figure": one.figure.label,
                "split": one.figure.split,
                "unit": one.figure.unit,
                "expected": one.figure.value,
                "predicted": one.predicted,
                "low": one.low,
                "high": one.high,
                "error": one.error,
                "evidence": one.figure.evidence,
            }
            for one in self.figures
        ]
        frame: pandas.DataFrame = require("pandas", "pandas").DataFrame.from_records(rows)
        return frame

    def parameter_frame(self) -> pandas.DataFrame:
        """A row for each parameter. Needs the package pandas."""
        rows = [{"parameter": one.name, **vars(one), "is_constrained": one.is_constrained} for one in self.parameters]
        frame: pandas.DataFrame = require("pandas", "pandas").DataFrame.from_records(rows)
        return frame

    def __str__(self) -> str:
        held_out = "not tested" if self.held_out_error is None else f"{self.held_out_error:.2%}"
        lines = [f"error {self.error:.2%} on calibration figures, {held_out} on held-out figures"]
        for parameter in self.parameters:
            as_good = f"{parameter.range_low:.6g} to {parameter.range_high:.6g}"
            bounds = f"{parameter.low:.6g} to {parameter.high:.6g}"
            lines.append(f"  {parameter.name} = {parameter.value:.6g}, as good from {as_good}, bounds {bounds}")
        for one in self.figures:
            predicted = "no prediction" if one.error is None else f"predicted {one.predicted:.6g} ({one.error:+.2%})"
            expected = f"expected {one.figure.value:.6g} {one.figure.unit}"
            lines.append(f"  {one.figure.split}: {one.figure.label}: {expected}, {predicted}")
        lines += [f"  remark: {remark}" for remark in self.remarks]
        lines.append(f"  {self.simulations} simulations, seed {self.seed}")
        return "\n".join(lines)


def calibrate(
    toml: PathLike,
    parameters: GivenBounds,
    figures: Sequence[Figure],
    *,
    seed: int = 0,
    without_held_out: bool = False,
    threads: Optional[int] = None,
) -> Calibration:
    """Fits parameters of a machine so that a model meets calibration figures, and tests it on held-out figures.

    `toml` describes the machine, as for `run`. `parameters` are its fields with their bounds, by dotted names; two whole numbers as bounds make a parameter a
    whole number, which fields such as `iommu.entries` need. A tuple of fields, `("iommu.entries", "iommu.ways")`, is one parameter: they have the same value. Bounds further apart than a factor of 10 are searched by ratios.

    The fit makes the root mean square of the relative errors least. It is a search of its own from several starts, which follow from `seed`: the same call has the same
    result, with any number of `threads` (by default, one for each CPU that this process may use). A file with one seed (`seeds = 1`) is fitted faster, one with
    several has intervals. Where a simulation fails, no parameter ends; such simulations are counted. Values that no machine has count as well.

    Raises `ValueError` for more parameters than calibration figures, for a fit without held-out figures unless `without_held_out` says that this is meant, and for figures
    or bounds that make no sense. Raises `errors.ExperimentError` if all simulations fail. Needs the packages numpy and SciPy.

    >>> engine = '''what = "reads, one at a time"
    ... transfers = 2000
    ... seeds = 1
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
    ... window_bytes = 8192
    ... in_flight_max = 1
    ... gap_ns = 16.03
    ... path_ns = 540.0
    ... copy_ps_per_byte = 143.0
    ... '''
    >>> published = "published: Understanding PCIe performance for end host networking, Neugebauer and others, 2018"
    >>> fit = calibrate(
    ...     engine,
    ...     {"engine.path_ns": (300.0, 900.0), "engine.copy_ps_per_byte": (10.0, 500.0)},
    ...     [
    ...         Figure(560.0, "engine.latency_mean_ns", "ns", published),
    ...         Figure(1144.0, "engine.latency_mean_ns", "ns", published, {"engine.transfer_bytes": 2048}),
    ...         Figure(708.0, "engine.latency_mean_ns", "ns", published, {"engine.transfer_bytes": 512}, "held-out"),
    ...     ],
    ... )
    >>> round(fit.error, 4), round(fit.held_out_error, 2), fit.is_determined
    (0.0, 0.02, True)
    """
    space = ParameterSpace(parameters)
    fitted = [figure for figure in figures if figure.split == "calibration"]
    held_out = [figure for figure in figures if figure.split == "held-out"]
    _check(space, fitted, held_out, without_held_out)
    text, file = read(toml, "experiment.toml")
    threads = threads or len(os.sched_getaffinity(0))
    with Predictions(text, file, fitted, threads) as calibration, Predictions(text, file, held_out, threads) as test:
        search = LeastSquares(calibration, space, [figure.value for figure in fitted])
        middle = space.values([0.5] * len(space))
        if not any(isinstance(outcome, Failed) for outcome in calibration.at([middle])[0]):
            # A mistake in a held-out figure is told before the search, which takes a while. Nothing else comes of this.
            _check_held_out(test.at([middle])[0], held_out)
        best = search.fit(seed)
        outcomes = search.outcomes(best)
        _check_outcomes(outcomes, fitted)
        error = search.error(best)
        error_as_good = max(_AS_GOOD * error, math.hypot(error, _noise(fitted, outcomes)))
        values = space.values(best)
        found = []
        for place, parameter in enumerate(space.parameters):
            ends = search.range_of(place, best, error_as_good)
            found.append(_fitted(parameter, float(best[place]), ends))
        outcomes += test.at([values])[0]
    return Calibration(
        tuple(found),
        tuple(_predicted(figure, outcome) for figure, outcome in zip(fitted + held_out, outcomes)),
        error,
        error_as_good,
        calibration.simulations + test.simulations,
        calibration.failed_simulations + test.failed_simulations,
        tuple(calibration.reasons + test.reasons),
        seed,
    )


def _check(space: ParameterSpace, fitted: Sequence[Figure], held_out: Sequence[Figure], without_held_out: bool) -> None:
    """Refuses fits that can't have a meaning, whatever the model says."""
    if not len(space):
        raise ValueError("there is no parameter; expected fields with their bounds")
    identities = {_identity(figure) for figure in fitted}
    if len(identities) < len(space):
        raise ValueError(
            f"{len(identities)} different calibration figures can't determine {len(space)} parameters; "
            "expected at least as many figures"
        )
    for parameter in space.parameters:
        if all(figure.changes.keys() >= set(parameter.fields) for figure in fitted):
            raise ValueError(f"all calibration figures change {parameter.name}; expected one that depends on it")
    if bool(held_out) == without_held_out:
        raise ValueError(
            f"there are {len(held_out)} held-out figures and without_held_out is {without_held_out}; "
            "expected at least one figure that tests the fit, or without_held_out=True"
        )
    for figure in held_out:
        if _identity(figure) in identities:
            raise ValueError(f"the held-out figure {figure.label} is a calibration figure, too; expected another one")


def _identity(figure: Figure) -> tuple[object, frozenset[tuple[str, Hashable]]]:
    """What tells two figures of the model apart; published values of one figure may differ."""
    return figure.read, frozenset((name, _hashable(value)) for name, value in figure.changes.items())


def _hashable(value: Value) -> Hashable:
    """The value, equal for 64 and 64.0, which are one to the model."""
    return tuple(_hashable(element) for element in value) if isinstance(value, list) else value


def _check_held_out(outcomes: Sequence[Outcome], held_out: Sequence[Figure]) -> None:
    for figure, outcome in zip(held_out, outcomes):
        if isinstance(outcome, Failed) and not (outcome.error is None or isinstance(outcome.error, SimulationError)):
            raise _experiment_error(f"held-out figure {figure.label}: {outcome.reason}", outcome.error)


def _check_outcomes(outcomes: Sequence[Outcome], fitted: Sequence[Figure]) -> None:
    for figure, outcome in zip(fitted, outcomes):
        if isinstance(outcome, Failed):
            message = "no simulation has a result for all calibration figures; the last of"
            raise _experiment_error(f"{message} {figure.label}: {outcome.reason}", outcome.error)


def _experiment_error(message: str, cause: Optional[ExperimentError]) -> ExperimentError:
    """The error of a simulation, with what it was for."""
    if cause is None:
        return ExperimentError(message)
    error = type(cause)(message, cause.file, cause.line, cause.expected)
    error.__cause__ = cause
    return error


def _noise(figures: Sequence[Figure], outcomes: Sequence[Outcome]) -> float:
    """Root mean square of the figures' relative noise: what was measured, or the chance in the simulation if that is more."""
    shares = []
    for figure, outcome in zip(figures, outcomes):
        noise = _NOISE_MIN * abs(figure.value) if figure.noise is None else figure.noise
        if isinstance(outcome, Prediction) and outcome.low is not None and outcome.high is not None:
            noise = max(noise, (outcome.high - outcome.low) / 2)
        shares.append(noise / abs(figure.value))
    return _root_mean_square(shares)


def _root_mean_square(numbers: Sequence[float]) -> float:
    return math.sqrt(sum(number**2 for number in numbers) / len(numbers))


def _fitted(parameter: Parameter, best: float, ends: tuple[float, float]) -> FittedParameter:
    bounds = parameter.bounds
    value = bounds.value(best)
    # A search of numbers with a fraction stays a little inside of the bounds.
    margin = 0.0 if bounds.is_integer else _AT_BOUND
    unit = bounds.unit(value)
    at_bound = "low" if unit <= margin else "high" if unit >= 1 - margin else None
    low = bounds.low if ends[0] <= margin else bounds.value(ends[0])
    high = bounds.high if ends[1] >= 1 - margin else bounds.value(ends[1])
    return FittedParameter(parameter.fields, value, bounds.low, bounds.high, low, high, at_bound)


def _remarks(parameter: FittedParameter) -> list[str]:
    name = parameter.name
    is_low, is_high = parameter.range_low <= parameter.low, parameter.range_high >= parameter.high
    if is_low and is_high:
        return [f"{name} is not constrained: from {parameter.low} to {parameter.high} the calibration figures are met as well"]
    remarks = []
    if parameter.at_bound:
        bound = parameter.low if parameter.at_bound == "low" else parameter.high
        remarks.append(f"{name} ended at its bound {bound}: the figures may be met better beyond it")
    elif is_low or is_high:
        bound = parameter.low if is_low else parameter.high
        remarks.append(f"{name} is constrained to one side only: values to its bound {bound} meet the calibration figures as well")
    return remarks


def _predicted(figure: Figure, outcome: Outcome) -> PredictedFigure:
    if isinstance(outcome, Failed):
        return PredictedFigure(figure, None, failure=outcome.reason)
    return PredictedFigure(figure, outcome.value, outcome.low, outcome.high)
