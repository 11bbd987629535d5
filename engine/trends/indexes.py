"""Indexes by value over the vertices of earlier batches, and what is brought ahead within a batch."""

from __future__ import annotations

from typing import Any

import numpy as np

from engine.events import Float64Array, Int64Array
from engine.kernels.trends import arrays as ta
from engine.kernels.trends.edges import sum_blocks
from engine.trends.ahead import Sweep, lists_of, sweep
from engine.trends.template_arrays import TrendTables

LEAST_INDEXED = 256
"""Vertices of a partition and state from which on there is an index, or a batch brings ahead; fewer are looked at one
by one."""

WAITING_PER_ROOT = 4.0
"""So many times the square root of all vertices may wait behind an index: making it anew costs all of them."""

BLOCK = 16
"""Entries of an index that are looked at one by one."""

LEAST_AHEAD = 16
"""Events of a batch that are looked at one by one."""

TILE = 512
"""Entries of a list that are summed up together: what is needed of their events fits the nearest caches."""

MOST_AHEAD = 2**20
"""Events, times windows, of which a batch brings ahead at once, or that stand before it and are brought at once; each
needs room for its numbers meanwhile."""

_PER_INDEX = ("start", "size", "limit", "gone", "last_window")
_OF_PARTITION = (
    "levels", "level_size", "first_window", "last_window", "order_begin", "position", "rank", "whole", "real", "scale",
)  # fmt: skip
_OF_SWEEPS = ("tree_whole", "tree_real", "tree_scale", "sweeps", "next_sweep", "entries", "ranks")


class TrendIndexes:
    """The indexes of one query's graph: `arrays`, and `ahead` for the part of a batch at hand."""

    def __init__(self, tables: TrendTables) -> None:
        self._tables = tables
        sizes = tables.template.sizes
        self._n_stored = int(sizes[ta.N_STORED])
        self._n_indexes = int(sizes[ta.N_INDEXES])
        self._n_windows = int(sizes[ta.N_WINDOWS])
        self._width = self._n_windows * int(sizes[ta.N_NUMBERS])
        scans = tables.brought_scans
        self.slice = max(1, MOST_AHEAD // self._n_windows) if scans else 2**62
        """Events that are taken in at once."""
        by_two = [slot for slot, each in enumerate(scans) if len(each.by) > 1]
        self._second = np.full(len(scans), -1)
        self._second[by_two] = len(scans) + np.arange(len(by_two))
        self._n_lists = len(scans) + len(by_two)
        self._n_entries = 0
        none = np.zeros(0, np.int64)
        self.arrays = ta.Indexes(np.array([BLOCK]), none, none, none, none, none, *self._entries(0))
        slot = np.full(len(tables.template.scans), -1)
        slot[[each.scan for each in scans]] = np.arange(len(scans))
        by_name = [*zip(_OF_PARTITION, self._of_partition(0), strict=True)]
        named: dict[str, Any] = dict([*by_name, *zip(_OF_SWEEPS, self._of_sweeps([], 0), strict=True)])
        sums = _numbers(self._width if scans else 0)
        tile = TILE + 1 if scans else 0
        running = _numbers(tile)
        self.ahead = ta.Ahead(
            least=np.array([LEAST_AHEAD]), slot=slot, second=self._second, first=none, n_events=none,
            boundary=none, due=none, start=none, size=none, lists=np.zeros(0, np.int32), **named,
            before=np.zeros(self._n_stored, np.int64),
            block=np.zeros(self._n_stored, np.int64), sum_whole=sums[0], sum_real=sums[1], sum_scale=sums[2],
            before_tile=np.zeros(tile, np.int32), after_tile=np.zeros(tile, np.int32),
            admitted=np.zeros(tile, np.int32), running_whole=running[0], running_real=running[1],
            running_scale=running[2],
        )  # fmt: skip

    def _entries(self, n: int) -> tuple[Any, ...]:
        """Room for so many entries."""
        n_blocks = -(-n // BLOCK)
        return np.zeros(n_blocks * BLOCK, np.int32), np.zeros(n_blocks), *_numbers(n_blocks * self._width)

    def _of_partition(self, n: int) -> tuple[Any, ...]:
        """For a partition of so many events."""
        n_scans, top, n_levels = len(self._second), LEAST_AHEAD, 1
        while top < n:
            top, n_levels = 2 * top, n_levels + 1
        capacity = n_levels * (2 * n + 1) if n else 0  # whatever the size of a part: what is not used is not touched
        return (
            np.empty((self._n_lists, capacity), np.int32), np.zeros((self._n_lists, n_levels), np.int64),
            np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(n, np.int32),
            np.zeros((self._n_stored, n), np.int32),
            np.zeros(n if self._n_lists > n_scans else 0, np.int32), *_numbers(n_scans * n * self._width),
        )  # fmt: skip

    def _of_sweeps(self, sweeps: list[tuple[int, int, Sweep]], n_halves: int) -> tuple[Any, ...]:
        """By partition and number of the scan; `n_halves`: events of the largest half of a batch."""
        rows = np.zeros((len(sweeps), 5), np.int64)
        n_entries = 0
        for row, (partition, scan, each) in zip(rows, sweeps, strict=True):
            row[:] = partition, scan, n_entries, len(each.entries), each.n_ranks
            n_entries += len(each.entries)
        none = np.zeros(0, np.int32)
        n_ranks = max((each.n_ranks for _, _, each in sweeps), default=0)
        is_used = self._n_lists > len(self._second) and (sweeps or n_halves)
        return (
            *_numbers((max(n_ranks, n_halves) + 1) * self._width if is_used else 0), rows, np.zeros(1, np.int64),
            np.concatenate([none, *(each.entries for _, _, each in sweeps)]),
            np.concatenate([none, *(each.ranks for _, _, each in sweeps)]),
        )  # fmt: skip

    # -------------------------------------------------------------- partitions

    def reserve_partitions(self, n: int) -> None:
        """Room for so many partitions."""
        old, n_indexes, n_lists = self.arrays, self._n_indexes, self._n_lists
        parts = [np.zeros(n * n_indexes, np.int64) for _ in range(5)]
        for part, name in zip(parts, _PER_INDEX, strict=True):
            before = getattr(old, name)
            part[: len(before)] = before
        named: dict[str, Any] = dict(zip(_PER_INDEX, parts, strict=True))
        self.arrays = old._replace(**named)
        self.ahead = self.ahead._replace(
            first=np.zeros(n, np.int64), n_events=np.zeros(n, np.int64), boundary=np.zeros(n, np.int64),
            due=np.full(n, -1),
            start=np.full(n * n_lists, -1), size=np.zeros(n * n_lists, np.int64),
        )  # fmt: skip

    def keep_partitions(self, kept: Int64Array) -> None:
        """Forget all partitions but these, which are numbered 0, 1, ... in this order."""
        old, n_indexes = self.arrays, self._n_indexes
        before = [getattr(old, name) for name in _PER_INDEX]
        parts = [part.reshape(-1, n_indexes)[kept].reshape(-1) if n_indexes else part for part in before]
        named: dict[str, Any] = dict(zip(_PER_INDEX, parts, strict=True))
        self.arrays = old._replace(**named)
        self.reserve_partitions(len(kept))

    # ----------------------------------------------------------------- indexes

    def index_all(
        self, sums: ta.Sums, vertices: ta.Vertices, new: Int64Array, batch: ta.Batch, first: int, end: int
    ) -> None:
        """Make the indexes anew that too many vertices wait behind, for the events [first, end) of a batch.

        new: int64 (n_partitions, n_stored), how many of them there are.
        """
        n = len(new)
        for index, (stored, derived, sign) in enumerate(self._tables.indexed):
            limit = self.arrays.limit[index : n * self._n_indexes : self._n_indexes]
            length = vertices.length[stored : n * self._n_stored : self._n_stored]
            waiting = length - limit
            visits = np.sqrt(waiting * (waiting + new[:, stored]))
            usual = np.maximum(LEAST_INDEXED, WAITING_PER_ROOT * np.sqrt(length))
            for partition in np.flatnonzero((waiting > 0) & (visits > usual)).tolist():
                begin, after = first + np.searchsorted(batch.partition[first:end], [partition, partition + 1])
                if begin < after:
                    order = int(batch.order[begin:after].min())
                    self._index(sums, vertices, partition, index, stored, derived, sign, order)

    def _index(
        self, sums: ta.Sums, vertices: ta.Vertices, partition: int, index: int, stored: int, derived: int,
        sign: float, order: int,
    ) -> None:  # fmt: skip
        """Of all vertices before some order: those of the same one are not followed by what comes."""
        region = partition * self._n_stored + stored
        start, length = int(vertices.start[region]), int(vertices.length[region])
        limit = int(np.searchsorted(vertices.order[start : start + length], order))
        entry = partition * self._n_indexes + index
        if limit == self.arrays.limit[entry]:
            return
        self.arrays.size[entry] = 0  # what it had is not copied any more
        values = sign * vertices.derived[derived, start : start + limit]
        by_value = np.argsort(values)
        n = limit - int(np.count_nonzero(np.isnan(values)))  # these are last
        at = self._capacity_for_entries(n)
        arrays = self.arrays
        arrays.position[at : at + n] = by_value[:n]
        arrays.key[at // BLOCK : -(-(at + n) // BLOCK)] = values[by_value[:n:BLOCK]]
        arrays.start[entry], arrays.size[entry], arrays.limit[entry], arrays.gone[entry] = at, n, limit, 0
        arrays.last_window[entry] = vertices.last_window[start : start + limit].max()
        sum_blocks(self._tables.template, sums, vertices, arrays, partition, entry, start)

    def _capacity_for_entries(self, n: int) -> int:
        """Where so many more entries have room, from the begin of a block on."""
        if self._n_entries + n > len(self.arrays.position):
            old = self.arrays
            live = np.flatnonzero(old.size)
            blocks = -(-old.size // BLOCK)
            capacity = int(blocks.sum()) * BLOCK + n
            position, *of_blocks = self._entries(capacity + capacity // 2)
            at = 0
            for entry in live.tolist():
                begin, n_blocks = int(old.start[entry]) // BLOCK, int(blocks[entry])
                position[at * BLOCK : (at + n_blocks) * BLOCK] = old.position[
                    begin * BLOCK : (begin + n_blocks) * BLOCK
                ]
                for width, before, after in zip((1, *[self._width] * 3), old[7:], of_blocks, strict=True):
                    part = np.asarray(before)[begin * width : (begin + n_blocks) * width]
                    after[at * width : (at + n_blocks) * width] = part
                old.start[entry] = at * BLOCK
                at += n_blocks
            self.arrays = ta.Indexes(*old[:6], position, *of_blocks)
            self._n_entries = at * BLOCK
        at = self._n_entries
        self._n_entries += -(-n // BLOCK) * BLOCK
        return at

    # ------------------------------------------------------------------- ahead

    def look_ahead(self, vertices: ta.Vertices, new: Int64Array, batch: ta.Batch, first: int, end: int) -> None:
        """Make the lists of the partitions of which the events [first, end) are many; new: see `index_all`."""
        ahead, scans = self.ahead, self._tables.brought_scans
        ahead.due.fill(-1)
        ahead.start.fill(-1)
        lists: list[np.ndarray] = []
        sweeps: list[tuple[int, int, Sweep]] = []
        n_listed, most = 0, 0
        many = [
            (partition, slot)
            for slot, scan in enumerate(scans)
            for partition in np.flatnonzero(new[:, scan.stored] > LEAST_INDEXED).tolist()
        ]
        for partition, slot in sorted(many):
            scan = scans[slot]
            begin, after = (first + np.searchsorted(batch.partition[first:end], [partition, partition + 1])).tolist()
            made = lists_of(scan, batch, begin, after, self._tables.stored_states[scan.stored])
            ahead.first[partition], ahead.n_events[partition] = begin, after - begin
            ahead.boundary[partition] = ahead.due[partition] = 0
            for each, row in zip(made, (slot, int(self._second[slot])), strict=False):
                entry = partition * self._n_lists + row
                ahead.start[entry], ahead.size[entry] = n_listed, len(each)
                lists.append(each)
                n_listed += len(each)
            most = max(most, after - begin)
            if len(made) > 1:
                region = partition * self._n_stored + scan.stored
                start, n_before = int(vertices.start[region]), int(vertices.length[region])
                for at in range(0, n_before, self.slice):
                    until = min(at + self.slice, n_before)
                    sweeps.append((partition, scan.scan, sweep(scan, batch, begin, after, vertices, start, at, until)))
        if lists:
            by_name = [*zip(_OF_PARTITION, self._of_partition(most), strict=True)]
            by_name += zip(_OF_SWEEPS, self._of_sweeps(sweeps, most), strict=True)
            self.ahead = ahead._replace(lists=np.concatenate(lists), **dict(by_name))

    def end_batch(self) -> None:
        """Nothing is brought any more; what a large batch needed is given back."""
        if len(self.ahead.first_window):
            self.ahead.due.fill(-1)
            by_name = [*zip(_OF_PARTITION, self._of_partition(0), strict=True)]
            by_name += zip(_OF_SWEEPS, self._of_sweeps([], 0), strict=True)
            self.ahead = self.ahead._replace(lists=np.zeros(0, np.int32), **dict(by_name))


def _numbers(n: int) -> tuple[Int64Array, Float64Array, np.ndarray]:
    whole = np.zeros(n, np.int64)
    return whole, whole.view(np.float64), np.zeros(n, np.int32)


__all__ = ["LEAST_INDEXED", "WAITING_PER_ROOT", "TrendIndexes"]
