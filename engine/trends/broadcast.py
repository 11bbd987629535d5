"""Events with a part of the key, and the partitions that agree with it: each pair once, a bounded number at a time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.events import Float64Array, Int64Array


@dataclass(frozen=True)
class Part:
    """The events that have one part of the key: their rows in ascending order, and their key's parts (w, n)."""

    rows: Int64Array
    key: Float64Array
    components: tuple[int, ...]


class Agreement:
    """Pairs of an event and a partition that agree in a part of the key.

    known: the keys of all partitions (p, n_components), those of this batch in order of arrival. n_known: (n_events,),
    how many of them there are once an event has come. An event and a partition are a pair where the later one of the
    two is.
    """

    def __init__(self, part: Part, known: Float64Array, n_known: Int64Array) -> None:
        n_partitions = len(known)
        self._rows = part.rows
        self._step = n_partitions + 1
        codes = _codes(np.ascontiguousarray(known[:, part.components]), part.key)
        of_partition, self._base = codes[:n_partitions] * self._step, codes[n_partitions:] * self._step
        positions = of_partition + np.arange(n_partitions)
        order = np.argsort(positions)
        self._partitions: Int64Array = order
        self._positions: Int64Array = positions[order]
        self._n_known = n_known
        self._codes = codes

    def n_pairs(self) -> Int64Array:
        """Pairs by the event with which they come about, int64 (n_events,)."""
        n_known = self._n_known
        found = np.zeros(len(n_known), np.int64)
        here = n_known[self._rows]
        found[self._rows] = self._until(self._base, here) - self._until(self._base, 0)
        if not len(n_known):
            return found
        n_before = int(n_known[0])
        fresh = np.arange(n_before, int(n_known[-1]))
        born = np.searchsorted(n_known, fresh, "right")  # the event that brings each new partition
        own = self._codes[: self._step - 1][fresh]
        n_events = len(n_known) + 1
        events = np.sort((self._base // self._step) * n_events + self._rows)
        earlier = np.searchsorted(events, own * n_events + born) - np.searchsorted(events, own * n_events)
        np.add.at(found, born, earlier)
        return found

    def pairs(self, first: int, last: int, n_before: int, n_after: int) -> tuple[Int64Array, Int64Array]:
        """Rows and partitions of the pairs that come about with events [first, last), while partitions grow from a
        number to another."""
        low, high = np.searchsorted(self._rows, [first, last]).tolist()
        old = slice(0, low if n_after > n_before else 0)
        now = slice(low, high)
        base = np.concatenate([self._base[old], self._base[now]])
        rows = np.concatenate([self._rows[old], self._rows[now]])
        since = np.concatenate([np.full(old.stop, n_before), np.zeros(high - low, np.int64)])
        begin = self._until(base, since)
        n_each = self._until(base, n_after) - begin
        of_pair = np.repeat(np.arange(len(rows)), n_each)
        positions = begin[of_pair] + np.arange(len(of_pair)) - np.repeat(np.cumsum(n_each) - n_each, n_each)
        return rows[of_pair], self._partitions[positions]

    def _until(self, base: Int64Array, n_partitions: Int64Array | int) -> Int64Array:
        return np.searchsorted(self._positions, base + n_partitions)


def _codes(known: Float64Array, events: Float64Array) -> Int64Array:
    """A number for each value of a part of the key, first of partitions (p, w), then of events (w, n)."""
    if not len(events):
        return np.zeros(len(known) + events.shape[1], np.int64)
    _, codes = np.unique(np.concatenate([known, events.T]), axis=0, return_inverse=True)
    return codes.reshape(-1).astype(np.int64)


def slices(n_pairs: Int64Array, at_most: int) -> list[tuple[int, int]]:
    """Consecutive events [first, last) with so many pairs together; one event alone may have more."""
    n = len(n_pairs)
    if int(n_pairs.sum()) <= at_most:
        return [(0, n)]
    total = np.cumsum(n_pairs)
    found: list[tuple[int, int]] = []
    first, before = 0, 0
    while first < n:
        last = max(first + 1, int(np.searchsorted(total, before + at_most, "right")))
        found.append((first, last))
        first, before = last, int(total[last - 1])
    return found


__all__ = ["Agreement", "Part", "slices"]
