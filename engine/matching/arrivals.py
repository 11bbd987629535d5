"""The rate at which events reach the runs of each partition."""

from __future__ import annotations

import numpy as np

from engine.events import Float64Array, Int64Array
from engine.kernels.columns.partitions import BROADCAST

_PRIOR_EVENTS = 4.0
"""The rate of a partition begins at that of all, which counts as much as so many events of its own."""


class Arrivals:
    """Counts events by partition, older ones less: weight exp(-age / horizon).

    Partitions are numbered as in the run store; the time of a partition begins with its first event that reaches runs.
    """

    def __init__(self, horizon_ms: int) -> None:
        self._horizon_ms = float(max(horizon_ms, 1))
        self._now_ms: int | None = None
        self._n = np.zeros(0)
        self._since_ms = np.zeros(0)

    def take(self, t_ms: Int64Array, partition: Int64Array, n_partitions: int) -> None:
        """Events in order, those of BROADCAST reach all partitions known. t_ms, partition: int64 (n,)."""
        if not len(t_ms):
            return
        now_ms = int(t_ms[-1])
        if n_partitions > len(self._n):
            n_new = n_partitions - len(self._n)
            self._n = np.append(self._n, np.zeros(n_new))
            self._since_ms = np.append(self._since_ms, np.full(n_new, np.inf))
        if self._now_ms is not None:
            self._n *= np.exp((self._now_ms - now_ms) / self._horizon_ms)
        weight = np.exp((t_ms - now_ms) / self._horizon_ms)
        own = partition >= 0
        self._n += np.bincount(partition[own], weight[own], len(self._n))
        np.minimum.at(self._since_ms, partition[own], t_ms[own])
        self._n += weight[partition == BROADCAST].sum()
        self._now_ms = now_ms

    def keep(self, partitions: Int64Array) -> None:
        """Only these go on, under new numbers in this order."""
        known = partitions[partitions < len(self._n)]
        self._n, self._since_ms = self._n[known], self._since_ms[known]

    def per_ms(self, n_partitions: int) -> Float64Array:
        """Events per ms of what is left of a window, float64 (n_partitions,): of a partition's own and, as long as
        these are few, of all.

        A partition is taken to go on for as long as it has, at least as long as they all have on average: the tasks of
        a job of two minutes do not come for the rest of a window of a day.
        """
        seen = np.isfinite(self._since_ms)
        elapsed_ms = np.zeros(len(self._n))
        if self._now_ms is not None:
            age_ms = np.maximum(self._now_ms - self._since_ms[seen], 0.0)
            elapsed_ms[seen] = self._horizon_ms * -np.expm1(-age_ms / self._horizon_ms)
        total_ms = float(elapsed_ms.sum())
        mean = float(self._n[seen].sum()) / max(total_ms, 1.0)
        rates = np.full(n_partitions, mean)
        if mean > 0:
            n = min(n_partitions, len(self._n))
            rates[:n] = (self._n[:n] + _PRIOR_EVENTS) / (elapsed_ms[:n] + _PRIOR_EVENTS / mean)
        return rates * self._lasting(n_partitions)

    def _lasting(self, n_partitions: int) -> Float64Array:
        """The share of a window in which a partition is still to be heard of, float64 (n_partitions,)."""
        seen = np.isfinite(self._since_ms)
        if self._now_ms is None or not seen.any():
            return np.ones(n_partitions)
        age_ms = np.where(seen, self._now_ms - np.where(seen, self._since_ms, self._now_ms), 0.0)
        mean_ms = float(age_ms[seen].mean())
        every = np.full(n_partitions, mean_ms)
        n = min(n_partitions, len(age_ms))
        every[:n] = np.maximum(age_ms[:n], mean_ms)
        shares: Float64Array = np.minimum(1.0, np.maximum(every, 1.0) / self._horizon_ms)
        return shares


__all__ = ["Arrivals"]
