"""The utility up to which events are dropped (gSPICE, section III-C)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from engine.events import Float64Array


@dataclass(frozen=True, slots=True)
class Threshold:
    """Events below `utility` are dropped, and of those that have it `share`, from 0 to 1.

    The paper drops all at the threshold, which may be far more than is needed: with few distinct utilities (a hash
    table of types that contribute nothing), half of the stream may have one.
    """

    utility: float
    share: float


@dataclass(frozen=True, slots=True)
class UtilityDistribution:
    """How often each utility occurs: `values` float64 (n,), ascending, each once; `up_to` float64 (n,): the share of
    events with at most this utility, the last one 1."""

    values: Float64Array
    up_to: Float64Array

    @classmethod
    def of(cls, utilities: Float64Array, n_events: Float64Array) -> Self:
        """Of utilities with the number of events that had them, float64 (n,) each."""
        values, group = np.unique(utilities, return_inverse=True)
        shares = np.asarray(np.bincount(group.reshape(-1), n_events, len(values)), np.float64)
        total = shares.sum()
        return cls(values, np.cumsum(shares) / total if total else shares)

    def threshold(self, drop_share: float) -> Threshold:
        """What drops this share of events like those observed: nothing for 0, everything for 1."""
        if drop_share <= 0 or not len(self.values):
            return Threshold(-np.inf, 0.0)
        if drop_share >= 1:
            return Threshold(np.inf, 1.0)
        at = min(int(np.searchsorted(self.up_to, drop_share - 1e-12)), len(self.values) - 1)
        before = self.up_to[at - 1] if at else 0.0
        mass = self.up_to[at] - before
        return Threshold(float(self.values[at]), float(min(1.0, max(0.0, (drop_share - before) / mass))))

    def below(self, drop_share: float) -> float:
        """The utility of the share that is dropped, per event of all: the mean of an event times that share; infinite
        where that share has some of which it is."""
        if drop_share <= 0 or not len(self.values):
            return 0.0
        before = np.concatenate([[0.0], self.up_to[:-1]])
        mass = np.clip(np.minimum(self.up_to, drop_share) - before, 0.0, None)
        is_dropped = mass > 0
        return float(mass[is_dropped] @ self.values[is_dropped])


__all__ = ["Threshold", "UtilityDistribution"]
