"""The fit itself: parameters with which predictions are nearest to figures, and how far each may go from there."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Optional

from iotoll._optional import require
from iotoll._parameter_space import ParameterSpace
from iotoll._predictions import Failed, Outcome, Predictions

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    Array = NDArray[numpy.float64]

# Relative error of each figure at a point where a simulation failed: worse than any that counts.
_PENALTY = 1e3
# Points of the first search for each parameter, and from how many of the best the fit goes on.
_SAMPLES, _STARTS = 16, 3
# Differences of simulations whose random numbers are equal, but fall otherwise, need steps that change more than chance does.
_STEP = 0.01
# The most steps of a search: from each start, from the best of them, and after one parameter went a little.
_EVALUATIONS_OF_START, _EVALUATIONS_OF_FIT, _EVALUATIONS_OF_PROFILE = 6, 30, 6
# How far a parameter goes at once when the end of its range is sought, as a share of its bounds' width.
_STRIDE_MAX = 0.25
# The end of a range is sought to this share of its distance from the best value.
_END_RELATIVE = 0.05


class LeastSquares:
    """Relative errors of figures over a parameter space."""

    def __init__(self, predictions: Predictions, space: ParameterSpace, expected: Sequence[float]) -> None:
        self.numpy = require("numpy", "calibrate")
        self.optimize = require("scipy.optimize", "calibrate")
        self._predictions, self.space = predictions, space
        self._expected = self.numpy.array(expected, dtype=float)
        # All points with their errors: a range holds each that is as good, wherever a search came by.
        self._tried: list[tuple[Array, float]] = []

    def outcomes(self, units: Array) -> list[Outcome]:
        return self._predictions.at([self.space.values(units)])[0]

    def error(self, units: Array) -> float:
        """Root mean square of the figures' relative errors; infinite where a simulation fails."""
        return self._error(self._residuals([units])[0])

    def fit(self, seed: int) -> Array:
        """The point of the least error: the best of some searches whose starts follow from the seed."""
        starts = self._sample(seed)
        errors = [self._error(residuals) for residuals in self._residuals(starts)]
        order = sorted(range(len(starts)), key=lambda place: errors[place])
        begun = [starts[place] for place in order[:_STARTS] if math.isfinite(errors[place])]
        found = [self.refine(start, evaluations=_EVALUATIONS_OF_START) for start in begun]
        if not found:
            # The caller tells why simulations failed.
            return starts[order[0]]
        return self._fit_integers(self.refine(min(found, key=self.error)))

    def range_of(self, place: int, best: Array, error_max: float) -> tuple[float, float]:
        """How far a parameter can go to either side, as units, until the error exceeds the greatest, if all others are fitted anew."""
        as_good = [float(units[place]) for units, error in self._tried if error <= error_max]
        ends = [_Profile(self, place, best, error_max).end(bound) for bound in (0.0, 1.0)]
        return min(ends + as_good), max(ends + as_good)

    def _sample(self, seed: int) -> list[Array]:
        """Points of a Latin hypercube: for each parameter, one in each of equal parts of its bounds."""
        random = self.numpy.random.default_rng(seed)
        number = _SAMPLES * len(self.space)
        columns = [(random.permutation(number) + random.random(number)) / number for _ in range(len(self.space))]
        return list(self.numpy.column_stack(columns))

    def _residuals(self, points: Sequence[Array]) -> list[Array]:
        """The relative error of each figure, at each point."""
        residuals = []
        for units, outcomes in zip(points, self._predictions.at([self.space.values(units) for units in points])):
            if any(isinstance(outcome, Failed) for outcome in outcomes):
                residuals.append(self.numpy.full(len(outcomes), _PENALTY))
            else:
                predicted = self.numpy.array([outcome[0] for outcome in outcomes])
                error: Array = (predicted - self._expected) / abs(self._expected)
                residuals.append(error)
            self._tried.append((units, self._error(residuals[-1])))
        return residuals

    def _error(self, residuals: Array) -> float:
        failed = bool((residuals == _PENALTY).all())
        return math.inf if failed else math.sqrt(float((residuals**2).mean()))

    def refine(
        self,
        start: Array,
        held: Sequence[int] = (),
        evaluations: int = _EVALUATIONS_OF_FIT,
        jacobian: Optional[Array] = None,
    ) -> Array:
        """The point that a search from a start ends at; held parameters keep their values. A Jacobian of a point near by saves simulations."""
        free = [place for place in range(len(self.space)) if place not in held]
        if not free:
            return start

        def point(units: Array) -> Array:
            whole = start.copy()
            whole[free] = units
            return whole

        # SciPy's least squares with bounds: it takes the errors apart by figure, and so needs tens of simulations where a search by their sum needs thousands.
        result: Any = self.optimize.least_squares(
            lambda units: self._residuals([point(units)])[0],
            start[free],
            jac=lambda units: self.jacobian(point(units), free) if jacobian is None else jacobian[:, free],
            bounds=(0.0, 1.0),
            xtol=1e-5,
            ftol=1e-4,
            gtol=1e-10,
            max_nfev=evaluations,
        )
        found: Array = point(result.x)
        return min(start, found, key=self.error)

    def jacobian(self, units: Array, free: Sequence[int]) -> Array:
        """What the errors change by with each free parameter, from a step to either side."""
        points = []
        for place in free:
            for unit in self.space.bounds(place).around(float(units[place]), _STEP):
                points.append(units.copy())
                points[-1][place] = unit
        residuals = self._residuals(points)
        columns = []
        for column, place in enumerate(free):
            below, above = residuals[2 * column : 2 * column + 2]
            width = points[2 * column + 1][place] - points[2 * column][place]
            is_known = math.isfinite(self._error(below)) and math.isfinite(self._error(above))
            columns.append((above - below) / width if is_known else self.numpy.zeros(len(below)))
        matrix: Array = self.numpy.column_stack(columns)
        return matrix

    def _fit_integers(self, best: Array) -> Array:
        """Tries the whole numbers beside the best, with the other parameters fitted to each, for as long as the error becomes less."""
        integers = [place for place in range(len(self.space)) if self.space.bounds(place).is_integer]
        least = self.error(best)
        while True:
            tried = [self.refine(beside, [place]) for place in integers for beside in self._beside(place, best)]
            better = min(tried, key=self.error, default=best)
            if not self.error(better) < least:
                return best
            best, least = better, self.error(better)

    def _beside(self, place: int, units: Array) -> list[Array]:
        """The points whose whole number is one less, and one more."""
        bounds = self.space.bounds(place)
        middle = bounds.value(float(units[place]))
        found = []
        for value in (middle - 1, middle + 1):
            if bounds.low <= value <= bounds.high:
                found.append(units.copy())
                found[-1][place] = bounds.unit(value)
        return found


class _Profile:
    """The least error for each value of one parameter, if all others are fitted to it."""

    def __init__(self, search: LeastSquares, place: int, best: Array, error_max: float) -> None:
        self._search, self._place, self._best = search, place, best
        self._bounds = search.space.bounds(place)
        self._least = search.error(best)
        self._allowed = math.sqrt(error_max**2 - self._least**2)
        self._go_on_from(best)

    def end(self, bound: float) -> float:
        """Where the error exceeds the greatest on the way from the best to a bound; the bound itself if it does nowhere."""
        begin = float(self._best[self._place])
        room, sign = abs(bound - begin), math.copysign(1.0, bound - begin)
        excess: dict[float, float] = {0.0: -self._allowed}

        def excess_at(distance: float) -> float:
            if distance not in excess:
                excess[distance] = self._excess(begin + sign * distance)
            return excess[distance]

        # Twice as far as the first order says is beyond the end, unless the error grows ever more slowly.
        inside, outside = 0.0, min(2 * self._allowed / max(self._slope, 1e-9), _STRIDE_MAX, room)
        while excess_at(outside) <= 0:
            if outside == room:
                return bound
            self._go_on_from(self._nearest)
            inside, outside = outside, min(2 * outside, outside + _STRIDE_MAX, room)
        tolerance = _END_RELATIVE * outside
        self._search.optimize.brentq(excess_at, inside, outside, xtol=max(tolerance, 1e-6))
        # The last that was as good; of an integer, the whole number that was simulated there.
        found = begin + sign * max(distance for distance, more in excess.items() if more <= 0)
        return self._bounds.unit(self._bounds.value(found)) if self._bounds.is_integer else found

    def _go_on_from(self, units: Array) -> None:
        """Sets the point from which others are reached, with what the first order says: how the other parameters follow, and what the error then grows by."""
        numpy, place = self._search.numpy, self._place
        others = [other for other in range(len(units)) if other != place]
        self._nearest = units
        self._jacobian = self._search.jacobian(units, range(len(units)))
        follow, *_ = numpy.linalg.lstsq(self._jacobian[:, others], -self._jacobian[:, place], rcond=None)
        self._direction = numpy.zeros(len(units))
        self._direction[place], self._direction[others] = 1.0, follow
        self._slope = math.sqrt(float(((self._jacobian @ self._direction) ** 2).mean()))

    def _excess(self, unit: float) -> float:
        """Near the best, the error's square grows with the square of the distance: the root of what it grows by is nearly a line."""
        distance = unit - self._nearest[self._place]
        units = self._search.numpy.clip(self._nearest + distance * self._direction, 0.0, 1.0)
        # The Jacobian from before nearly always does. It is made anew where it promised an end farther away.
        is_promised = abs(distance) * self._slope <= self._allowed
        for jacobian in [self._jacobian, None] if is_promised else [self._jacobian]:
            if self._grown(units) > self._allowed:
                units = self._search.refine(units, [self._place], _EVALUATIONS_OF_PROFILE, jacobian)
        grown = self._grown(units)
        if grown <= self._allowed:
            self._nearest = units
        return grown - self._allowed

    def _grown(self, units: Array) -> float:
        error = min(self._search.error(units), _PENALTY)
        return math.sqrt(max(error**2 - self._least**2, 0.0))
