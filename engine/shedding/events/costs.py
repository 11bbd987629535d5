"""What events cost by what they are worth: those that contribute to nothing are often read by no query at all, so that
dropping them saves next to nothing."""

from __future__ import annotations

import numpy as np

from engine.events import Float64Array, Int64Array
from engine.shedding.events.threshold import UtilityDistribution
from engine.shedding.overload.trade import Trade
from engine.shedding.partial_matches.costs import CostSamples

_N_GROUPS = 8
_FEW_STEPS = 32
_MOST_SEEN = 2_048.0
"""Events of which the shares of groups are: older ones count half."""


class EventCosts:
    """Of events in groups of about the same number, by utility; and of all that are not judged."""

    def __init__(self, distribution: UtilityDistribution) -> None:
        at = np.searchsorted(distribution.up_to, np.arange(1, _N_GROUPS) / _N_GROUPS)
        known = distribution.values[np.minimum(at, max(0, len(distribution.values) - 1))]
        self._edges: Float64Array = np.unique(known[np.isfinite(known)])
        n = len(self._edges) + 1
        self._n = np.zeros(n + 1)
        self._worth = np.zeros(n)
        self._samples = CostSamples(n + 1)

    def see(self, utilities: Float64Array, n_others: int) -> None:
        """Events as they come: those that are judged, float64 (n,), and how many that are not."""
        group = self._group(utilities)
        self._n[:-1] += np.bincount(group, minlength=len(self._worth))
        self._n[-1] += n_others
        known = np.isfinite(utilities)
        self._worth += np.bincount(group[known], utilities[known], len(self._worth))
        if self._n.sum() > _MOST_SEEN:
            self._n *= 0.5
            self._worth *= 0.5

    def took(self, utilities: Float64Array, n_others: int, work: float) -> None:
        """A step with these events was so much work, in any unit."""
        n = np.append(np.bincount(self._group(utilities), minlength=len(self._worth)), n_others)
        self._samples.add(n.astype(np.float64), work)

    def trade(self) -> Trade | None:
        """What is lost, of all that events contribute, for what is saved; None where too little is known."""
        if self._samples.n_samples < _FEW_STEPS or not self._worth.sum() > 0:
            return None
        work = self._samples.by_state() * self._n
        if not work.sum() > 0:
            return None
        judged = self._n[:-1]
        mean = self._worth / np.maximum(judged, 1.0)
        return Trade.of(mean, work[:-1], self._worth, float(work[:-1].sum() / work.sum()))

    def _group(self, utilities: Float64Array) -> Int64Array:
        return np.asarray(np.searchsorted(self._edges, utilities, "left"), np.int64)


__all__ = ["EventCosts"]
