"""What an offer of an event to a run costs by the run's state, from the times of sampled events.

Timing each transition would cost more than most transitions: the clock is read once for an event and all runs that it
reaches. The time of such an event is a fixed part and, for each run, a part that depends on the run's state; both are
found by least squares without negative parts, over sums that take constant memory.
"""

from __future__ import annotations

import numpy as np

from engine.events import Float64Array

_SWEEPS = 400
_LONG = 16.0
"""Samples that took so many times the mean of those before were interrupted; they are left out."""
_FEW = 32
"""So many samples are taken in before one can be called long."""


class CostSamples:
    """Sums over sampled events, for one plan with `n_states` states of runs."""

    def __init__(self, n_states: int) -> None:
        self.n_samples = 0
        self._squares = np.zeros((n_states + 1, n_states + 1))
        self._products = np.zeros(n_states + 1)
        self._seconds = 0.0

    def add(self, n_runs: Float64Array, seconds: float) -> None:
        """One event, or several at once: how many runs of each state were offered it, float64 (n_states,), and how
        long all of it took. Longer ones than can be are left out."""
        mean = self._seconds / self.n_samples if self.n_samples >= _FEW else np.inf
        if seconds > _LONG * mean:
            return
        row = np.append(n_runs, 1.0)
        self._squares += np.outer(row, row)
        self._products += row * seconds
        self._seconds += seconds
        self.n_samples += 1

    def by_state(self) -> Float64Array:
        """The same as it was found: 0 where a state costs nothing, or was never sampled."""
        return _non_negative(self._squares, self._products)[:-1]

    def per_offer(self) -> Float64Array:
        """Seconds for one offer to a run, by state; the mean of the others where a state was never sampled, and 1.0
        for all where nothing was (then all runs cost alike)."""
        costs = _non_negative(self._squares, self._products)[:-1]
        sampled = np.diag(self._squares)[:-1] > 0
        known = costs[sampled & (costs > 0)]
        mean = float(known.mean()) if len(known) else 1.0
        return np.where(sampled & (costs > 0), costs, mean)


def _non_negative(squares: Float64Array, products: Float64Array) -> Float64Array:
    """Least squares by coordinate descent: x >= 0 that minimises x' A x - 2 b' x."""
    x = np.zeros(len(products))
    diagonal = np.diag(squares)
    for _ in range(_SWEEPS):
        for k in np.flatnonzero(diagonal > 0):
            rest = products[k] - squares[k] @ x + diagonal[k] * x[k]
            x[k] = max(0.0, rest / diagonal[k])
    return x


__all__ = ["CostSamples"]
