"""Parameters within bounds, as points of the unit cube in which a fit searches."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from numbers import Integral, Real
from typing import NamedTuple, Union

Number = Union[int, float]
# Bounds by a field's dotted name, or by those of several fields.
Fields = Union[str, "tuple[str, ...]"]
GivenBounds = Union[
    "Mapping[str, tuple[Number, Number]]",
    "Mapping[tuple[str, ...], tuple[Number, Number]]",
    "Mapping[Fields, tuple[Number, Number]]",
]

# Bounds that are further apart than this ratio are searched by ratios: 8 to 16 is as wide as 2048 to 4096.
_RATIO_OF_LOGARITHMS = 10


class Bounds(NamedTuple):
    """The values that a parameter may take."""

    low: Number
    high: Number
    #: Both bounds were given as whole numbers, so the parameter is one.
    is_integer: bool

    @property
    def is_logarithmic(self) -> bool:
        return self.low > 0 and self.high >= _RATIO_OF_LOGARITHMS * self.low

    def value(self, unit: float) -> Number:
        """The value at a share of the way from the lower bound to the upper one; the nearest whole number of an integer."""
        if self.is_logarithmic:
            value = self.low * (self.high / self.low) ** unit
        else:
            value = self.low + (self.high - self.low) * unit
        # Rounding in the last place must not lead out of the bounds.
        value = min(max(value, self.low), self.high)
        return round(value) if self.is_integer else float(value)

    def unit(self, value: Number) -> float:
        """The share of the way from the lower bound to the upper one."""
        if self.is_logarithmic:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def around(self, unit: float, step: float) -> tuple[float, float]:
        """Shares a step below and above, within the bounds; at least a whole number apart from the middle for an integer."""
        below, above = max(unit - step, 0.0), min(unit + step, 1.0)
        if self.is_integer:
            middle = self.value(unit)
            below = min(below, self.unit(max(middle - 1, self.low)))
            above = max(above, self.unit(min(middle + 1, self.high)))
            # What is simulated is a whole number, so that is where the step ends.
            below, above = self.unit(self.value(below)), self.unit(self.value(above))
        return below, above


class Parameter(NamedTuple):
    """A field of the machine, or several that have the same value."""

    fields: tuple[str, ...]
    bounds: Bounds

    @property
    def name(self) -> str:
        return " = ".join(self.fields)


class ParameterSpace:
    """Parameters and their bounds."""

    def __init__(self, parameters: GivenBounds) -> None:
        self.parameters = [
            Parameter((fields,) if isinstance(fields, str) else tuple(fields), _check(fields, bounds))
            for fields, bounds in parameters.items()
        ]
        fields = [field for parameter in self.parameters for field in parameter.fields]
        for field in fields:
            if fields.count(field) > 1:
                raise ValueError(f"{field} is in several parameters; expected it in one")

    def __len__(self) -> int:
        return len(self.parameters)

    def bounds(self, place: int) -> Bounds:
        return self.parameters[place].bounds

    def values(self, units: Iterable[float]) -> dict[str, Number]:
        """The values at a point of the unit cube, by field."""
        values = {}
        for parameter, unit in zip(self.parameters, units):
            values.update(dict.fromkeys(parameter.fields, parameter.bounds.value(float(unit))))
        return values


def _check(fields: Fields, bounds: tuple[Number, Number]) -> Bounds:
    expected = f"{fields} has the bounds {bounds!r}; expected a lower and an upper one, both finite"
    try:
        low, high = bounds
    except (TypeError, ValueError) as error:
        raise ValueError(expected) from error
    for bound in (low, high):
        if isinstance(bound, bool) or not isinstance(bound, Real) or not math.isfinite(bound):
            raise ValueError(expected)
    if not low < high:
        raise ValueError(expected)
    if isinstance(low, Integral) and isinstance(high, Integral):
        return Bounds(int(low), int(high), True)
    return Bounds(float(low), float(high), False)
