"""P(at least one of several possible matches) as the share of drawn worlds, for what is too much work exactly."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from engine.events import BoolArray, Int64Array
from engine.uncertainty.possibilities import ORIGIN, PossibleMatch, TimeConstraint, TimeDistribution

N_WORLDS = 20_000
_WORLDS_AT_ONCE = 2_000


def share_of_worlds(
    matches: Sequence[PossibleMatch], times: Mapping[str, TimeDistribution], seed: int, n_worlds: int = N_WORLDS
) -> tuple[float, float]:
    """(share of `n_worlds` drawn worlds in which at least one match happens, its standard error).

    The error is never 0: where all worlds or none have a match it is that of two more of either kind (Agresti, Coull).
    The same seed gives the same worlds.
    """
    random = np.random.default_rng(seed)
    named = sorted({variable for match in matches for variable in match.variables()})
    n_with = 0
    for start in range(0, n_worlds, _WORLDS_AT_ONCE):
        n = min(_WORLDS_AT_ONCE, n_worlds - start)
        drawn = {name: _drawn(times[name], n, random) for name in named}
        drawn[ORIGIN] = np.zeros(n, np.int64)
        n_with += int(_any_of(matches, drawn, n).sum())
    share = n_with / n_worlds
    smoothed = (n_with + 2) / (n_worlds + 4)
    return share, math.sqrt(smoothed * (1 - smoothed) / (n_worlds + 4))


def _drawn(times: TimeDistribution, n: int, random: np.random.Generator) -> Int64Array:
    if times.weights is None:
        return random.integers(times.lo_ms, times.hi_ms, n, endpoint=True)
    sums = np.cumsum(times.weights)
    positions = np.searchsorted(sums, random.random(n) * sums[-1], side="right")
    return np.asarray(times.lo_ms + np.minimum(positions, len(sums) - 1), np.int64)


def _any_of(matches: Sequence[PossibleMatch], drawn: Mapping[str, Int64Array], n: int) -> BoolArray:
    found: BoolArray = np.zeros(n, np.bool_)

    def holds(condition: TimeConstraint) -> BoolArray:
        return np.asarray(drawn[condition.x] - drawn[condition.y] <= condition.at_most_ms)

    for match in matches:
        happens: BoolArray = np.ones(n, np.bool_)
        for condition in match.conditions:
            happens &= holds(condition)
        for choice in match.choices:
            happens &= np.logical_or.reduce([holds(way) for way in choice])
        found |= happens
    return found


__all__ = ["N_WORLDS", "share_of_worlds"]
