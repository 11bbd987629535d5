"""Places of events in their partitions: 0, 1, 2, ... whatever the types of the events.

An event of a type with the whole key is in one partition; one of a type with a part of it, or nothing, is in every
partition that agrees with what it has. What a partition has before some event is a sum over the kinds of types, so
that an event costs nothing in the partitions that need not look at it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from engine.events import AttributeType, BoolArray, Float64Array, Int64Array
from engine.stream.columns import StreamColumns
from engine.stream.key_table import KeyTable

_NO_ROWS: Int64Array = np.empty(0, np.int64)


class Positioned(NamedTuple):
    """Rows of a batch, each once for each partition that looks at it: row, partition and position there, int64 (n,).

    growth: int64 (n_partitions,), by how many events each partition has grown.
    """

    rows: Int64Array
    partition: Int64Array
    position: Int64Array
    growth: Int64Array


@dataclass
class _Kind:
    """Types that have the same part of the key, at these positions in it: how many events there are of each value of
    it, and which value each partition has."""

    attributes: tuple[int, ...]
    types: list[str]
    values: KeyTable
    totals: Int64Array = field(default_factory=lambda: np.zeros(64, np.int64))
    of_partition: Int64Array = field(default_factory=lambda: np.empty(64, np.int64))

    def reserve(self) -> None:
        """Room for all values."""
        self.totals = _with_capacity(self.totals, len(self.values), 0)


class _Counted:
    """The rows of one kind in a batch, by value."""

    def __init__(self, kind: _Kind, stream: StreamColumns, columns: Float64Array) -> None:
        found = [stream.rows_of_type(name) for name in kind.types]
        rows = np.sort(np.concatenate(found)) if found else _NO_ROWS
        attributes = columns[list(kind.attributes)][:, rows]
        self.rows: Int64Array = rows[~np.isnan(attributes).any(axis=0)]
        self.values = kind.values.numbers(np.ascontiguousarray(columns[list(kind.attributes)][:, self.rows]))
        kind.reserve()
        self._n = len(stream) + 1
        self._sorted = np.sort(self.values * self._n + self.rows)

    def before(self, values: Int64Array, rows: Int64Array) -> Int64Array:
        """How many events of these values come before these rows."""
        begin = values * self._n
        found: Int64Array = np.searchsorted(self._sorted, begin + rows) - np.searchsorted(self._sorted, begin)
        return found


class PartitionPositions:
    """The partitions by one key, and where their events stand.

    `attributes`: what of `key` each type of the schema has. `beginning`: types whose events make a partition known when
    they have the whole key; without `needs_whole` every combination of values that their events have is a partition.
    """

    def __init__(
        self,
        key: tuple[str, ...],
        kinds: Mapping[str, AttributeType],
        attributes: Mapping[str, frozenset[str]],
        beginning: frozenset[str],
        *,
        needs_whole: bool,
    ) -> None:
        self.key = key
        self.keys = KeyTable(len(key))
        self._kinds_of = kinds
        self._beginning = beginning
        self._needs_whole = needs_whole
        parts: dict[tuple[int, ...], list[str]] = {tuple(range(len(key))): []}
        for name, has in attributes.items():
            parts.setdefault(tuple(at for at, x in enumerate(key) if x in has), []).append(name)
        self._kinds = [_Kind(part, types, KeyTable(len(part))) for part, types in parts.items()]
        self._whole = self._kinds[0]
        self._partition_of: Int64Array = np.full(64, -1, np.int64)  # by value of the whole key
        self._known: list[list[float]] = [[] for _ in key]
        if not key:
            self._add(np.empty((0, 1), np.float64))

    def columns(self, stream: StreamColumns) -> Float64Array:
        """The key of all rows, NaN where there is none, (width, n)."""
        columns = [stream.column(name, self._kinds_of[name]) for name in self.key]
        return np.stack(columns) if columns else np.empty((0, len(stream)), np.float64)

    def ends(self) -> Int64Array:
        """How many events each partition has had, (n_partitions,)."""
        n = len(self.keys)
        total = np.zeros(n, np.int64)
        for kind in self._kinds:
            total += kind.totals[kind.of_partition[:n]]
        return total

    def others(self, stream: StreamColumns) -> Int64Array:
        """The rows that may be in several partitions, ascending."""
        columns = self.columns(stream)
        found = [_Counted(kind, stream, columns).rows for kind in self._kinds if kind is not self._whole]
        return np.sort(np.concatenate([_NO_ROWS, *found]))

    def latest(self, stream: StreamColumns, n_events: int) -> Int64Array:
        """Of the rows that may be in several partitions those that some partition has among its last n events."""
        columns = self.columns(stream)
        found = [_NO_ROWS]
        for kind in self._kinds:
            if kind is not self._whole:
                counted = _Counted(kind, stream, columns)
                end = np.full(len(counted.rows), len(stream))
                after = counted.before(counted.values, end) - counted.before(counted.values, counted.rows)
                found.append(counted.rows[after <= n_events])
        return np.sort(np.concatenate(found))

    def most_copies(self, stream: StreamColumns, looks_at: BoolArray) -> int:
        """How often the partitions look at rows of a batch that may be in several, at most."""
        n_others = int(looks_at[self.others(stream)].sum()) if self.key else 0
        if not n_others:
            return 0
        columns = self.columns(stream)
        if not self._needs_whole:
            new = (np.unique(column[~np.isnan(column)]) for column in columns)
            return n_others * math.prod(len(known) + len(own) for known, own in zip(self._known, new, strict=True))
        keys = KeyTable(len(self.key))
        keys.numbers(np.ascontiguousarray(columns[:, ~np.isnan(columns).any(axis=0)]))
        return n_others * (len(self.keys) + len(keys))

    def begin(self, stream: StreamColumns) -> bool:
        """Make the partitions known that a batch begins; whether there are any."""
        n = len(self.keys)
        columns = self.columns(stream)
        beginning = [stream.rows_of_type(name) for name in sorted(self._beginning)]
        rows = np.concatenate([_NO_ROWS, *beginning])
        if self._needs_whole:
            has = np.zeros(len(stream), np.bool_)
            for name in self._whole.types:
                has[stream.rows_of_type(name)] = True
            rows = rows[has[rows] & ~np.isnan(columns[:, rows]).any(axis=0)]
            if self.key:
                self._add(columns[:, np.sort(rows)])
        else:
            self._add_products(columns[:, rows])
        return len(self.keys) > n

    def _add_products(self, columns: Float64Array) -> None:
        """Every combination with a value that is new."""
        for at, column in enumerate(columns):
            known = set(self._known[at])
            new = [value for value in np.unique(column[~np.isnan(column)]).tolist() if value not in known]
            choices = [new if other == at else values for other, values in enumerate(self._known)]
            grid = np.meshgrid(*[np.array(values, np.float64) for values in choices], indexing="ij")
            self._known[at] += new
            self._add(np.stack([part.ravel() for part in grid]))

    def _add(self, columns: Float64Array) -> None:
        """Partitions of these keys."""
        old = len(self.keys)
        self.keys.numbers(columns)
        n = len(self.keys)
        fresh = self.keys.columns(np.arange(old, n))
        for kind in self._kinds:
            kind.of_partition = _with_capacity(kind.of_partition, n, 0)
            kind.of_partition[old:n] = kind.values.numbers(np.ascontiguousarray(fresh[list(kind.attributes)]))
            kind.reserve()
        self._partition_of = _with_capacity(self._partition_of, len(self._whole.values), -1)
        self._partition_of[self._whole.of_partition[old:n]] = np.arange(old, n)

    def assign(self, stream: StreamColumns, looks_at: BoolArray, n_earlier: int, n_known: int) -> Positioned:
        """The rows of a batch that partitions look at.

        The first `n_earlier` rows have been placed before: only the partitions from `n_known` on look at them.
        """
        n = len(self.keys)
        columns = self.columns(stream)
        counted = [_Counted(kind, stream, columns) for kind in self._kinds]
        for kind, own in zip(self._kinds, counted, strict=True):
            earlier = own.values[own.rows < n_earlier]
            kind.totals -= np.bincount(earlier, minlength=len(kind.totals))
        found = [self._looked_at(kind, own, looks_at) for kind, own in zip(self._kinds, counted, strict=True)]
        rows, partition = (np.concatenate(parts) for parts in zip(*found, strict=True))
        if n_earlier:
            kept = (rows >= n_earlier) | (partition >= n_known)
            rows, partition = rows[kept], partition[kept]
        position = np.zeros(len(rows), np.int64)
        growth = np.zeros(n, np.int64)
        for kind, own in zip(self._kinds, counted, strict=True):
            values = kind.of_partition[:n]
            position += kind.totals[values[partition]] + own.before(values[partition], rows)
            kind.totals += np.bincount(own.values, minlength=len(kind.totals))
            growth += np.bincount(own.values[own.rows >= n_earlier], minlength=len(kind.totals))[values]
        return Positioned(rows, partition, position, growth)

    def _looked_at(self, kind: _Kind, own: _Counted, looks_at: BoolArray) -> tuple[Int64Array, Int64Array]:
        chosen = looks_at[own.rows]
        rows, values = own.rows[chosen], own.values[chosen]
        if kind is self._whole:
            self._partition_of = _with_capacity(self._partition_of, len(kind.values), -1)
            partition = self._partition_of[values]
            return rows[partition >= 0], partition[partition >= 0]
        n = len(self.keys)
        order = np.argsort(kind.of_partition[:n], kind="stable")
        starts = np.searchsorted(kind.of_partition[:n][order], np.arange(len(kind.values) + 1))
        counts = (starts[1:] - starts[:-1])[values]
        ends = np.cumsum(counts)
        offsets = np.arange(int(ends[-1]) if len(ends) else 0) - np.repeat(ends - counts, counts)
        return np.repeat(rows, counts), order[np.repeat(starts[values], counts) + offsets]

    def keep(self, partitions: Int64Array) -> None:
        """Forget all but these partitions, ascending, which are numbered 0, 1, ... then, and what no event of theirs
        has had. What comes of others later begins anew."""
        keys = self.keys.columns(partitions)
        self.keys = KeyTable(len(self.key))
        self._partition_of = np.full(64, -1, np.int64)
        self._known = [np.unique(column).tolist() for column in keys]
        for kind in self._kinds:
            used = np.unique(kind.of_partition[partitions])
            kind.values.keep(used)
            kind.totals = _with_capacity(kind.totals[used], 64, 0)
            kind.of_partition = np.empty(64, np.int64)
        self._add(keys)

    # ------------------------------------------------------------------ state

    def save(self) -> str:
        """State as JSON."""
        kinds = [
            {"values": kind.values.all(), "totals": kind.totals[: len(kind.values)].tolist()} for kind in self._kinds
        ]
        return json.dumps({"keys": self.keys.all(), "kinds": kinds, "known": self._known})

    def restore(self, text: str) -> None:
        """Take over what `save` returned."""
        state: Mapping[str, Any] = json.loads(text)
        for kind, saved in zip(self._kinds, state["kinds"], strict=True):
            kind.values = KeyTable(len(kind.attributes), saved["values"])
            kind.totals = _with_capacity(np.array(saved["totals"], np.int64), 64, 0)
        self._known = state["known"]
        self.keys = KeyTable(len(self.key))
        keys: Sequence[Sequence[float]] = state["keys"]
        self._add(np.ascontiguousarray(np.array(keys, np.float64).reshape(len(keys), len(self.key)).T))


def _with_capacity(array: Int64Array, n: int, empty: int) -> Int64Array:
    """The array, longer if it has fewer than n entries."""
    if len(array) >= n:
        return array
    longer = np.full(max(64, 2 * n), empty, np.int64)
    longer[: len(array)] = array
    return longer


__all__ = ["PartitionPositions", "Positioned"]
