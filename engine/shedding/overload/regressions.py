"""How long work takes as a function of its load: the best of several rising regressions (pSPICE, section III-E).

Candidates are a constant, a + b g(x) for several rising g with a, b >= 0, and isotonic steps joined by lines. The one
with the least error on samples that it was not fitted to is taken, in favour of the simpler one where they are alike.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from engine.events import Float64Array

_FOLDS = 4
_LEAST_GAIN = 0.02
"""A more complex candidate has to be better by this share."""
_DOUBLINGS = 200
_BISECTIONS = 100
_MOST_KNOTS = 64

_SHAPES: tuple[tuple[str, Callable[[Float64Array], Float64Array]], ...] = (
    ("linear", lambda x: x),
    ("root", np.sqrt),
    ("n log n", lambda x: x * np.log1p(x)),
    ("square", np.square),
)


class Rising(Protocol):
    """A function that does not fall."""

    @property
    def name(self) -> str:
        """Which candidate it is."""
        ...

    def at(self, x: Float64Array) -> Float64Array:
        """Values, float64 (n,), at x >= 0."""
        ...


@dataclass(frozen=True, slots=True)
class Curve:
    """low + slope * g(x)."""

    name: str
    low: float
    slope: float
    shape: Callable[[Float64Array], Float64Array]

    def at(self, x: Float64Array) -> Float64Array:
        """See `Rising`."""
        return self.low + self.slope * self.shape(x)


@dataclass(frozen=True, slots=True)
class Steps:
    """Lines between knots; before the first one its value, beyond the last one on with the slope of all of them."""

    x: Float64Array
    y: Float64Array
    name: str = "isotonic"

    def at(self, x: Float64Array) -> Float64Array:
        """See `Rising`."""
        span = self.x[-1] - self.x[0]
        slope = (self.y[-1] - self.y[0]) / span if span > 0 else 0.0
        values: Float64Array = np.interp(x, self.x, self.y) + slope * np.maximum(x - self.x[-1], 0.0)
        return values


def fit(x: Float64Array, y: Float64Array) -> Rising:
    """The best candidate for samples float64 (n,), of which there must be one."""
    if len(x) != len(y) or not len(x):
        raise ValueError(f"found {len(x)} loads and {len(y)} times, expected as many of both, at least one")
    candidates: list[Callable[[Float64Array, Float64Array], Rising]] = [_constant]
    candidates += [_curve(name, shape) for name, shape in _SHAPES]
    candidates.append(_isotonic)
    fold = np.arange(len(x)) % _FOLDS
    best, least = candidates[0], np.inf
    for candidate in candidates if len(x) >= 2 * _FOLDS else candidates[:2]:
        error = 0.0
        for k in range(min(_FOLDS, len(x))):
            left_out = (fold == k) & (len(x) > 1)
            error += float(np.sum((candidate(x[~left_out], y[~left_out]).at(x[left_out]) - y[left_out]) ** 2))
        if error < (1.0 - _LEAST_GAIN) * least:
            best, least = candidate, error
    return best(x, y)


def inverse(function: Rising, y: float) -> float:
    """The largest x >= 0 at which the function is at most y: 0.0 where it is more everywhere, infinity where it never
    is."""

    def value(x: float) -> float:
        return float(function.at(np.array([x]))[0])

    if value(0.0) > y:
        return 0.0
    high = 1.0
    for _ in range(_DOUBLINGS):
        if value(high) > y:
            break
        high *= 2.0
    else:
        return float("inf")
    low = high / 2.0 if high > 1.0 else 0.0
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if value(middle) <= y else (low, middle)
    return low


def _constant(x: Float64Array, y: Float64Array) -> Rising:
    del x
    return Curve("constant", float(np.mean(y)), 0.0, lambda x: x)


def _curve(name: str, shape: Callable[[Float64Array], Float64Array]) -> Callable[[Float64Array, Float64Array], Rising]:
    def fitted(x: Float64Array, y: Float64Array) -> Rising:
        g = shape(x)
        scatter = float(np.sum((g - g.mean()) ** 2))
        slope = float(np.sum((g - g.mean()) * (y - y.mean()))) / scatter if scatter > 0 else 0.0
        low = float(y.mean() - slope * g.mean())
        if slope < 0:
            slope, low = 0.0, float(y.mean())
        elif low < 0:
            low, slope = 0.0, float(g @ y / (g @ g)) if g.any() else 0.0
        return Curve(name, low, slope, shape)

    return fitted


def _isotonic(x: Float64Array, y: Float64Array) -> Rising:
    """Pools neighbours that fall; knots are the means of the pools."""
    order = np.argsort(x, kind="stable")
    n_parts = min(_MOST_KNOTS, len(x))
    pools: list[tuple[float, float, int]] = []  # sums of x and y, number
    for some in np.array_split(order, n_parts):
        pools.append((float(x[some].sum()), float(y[some].sum()), len(some)))
        while len(pools) > 1 and pools[-2][1] / pools[-2][2] >= pools[-1][1] / pools[-1][2]:
            x2, y2, n2 = pools.pop()
            x1, y1, n1 = pools.pop()
            pools.append((x1 + x2, y1 + y2, n1 + n2))
    n = np.array([pool[2] for pool in pools])
    return Steps(np.array([pool[0] for pool in pools]) / n, np.array([pool[1] for pool in pools]) / n)


__all__ = ["Curve", "Rising", "Steps", "fit", "inverse"]
