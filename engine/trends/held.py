"""Arrays of the events of negated patterns that are kept: see `engine.kernels.trends.held`."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from engine.errors import StateError
from engine.events import Int64Array
from engine.kernels.trends import arrays as ta
from engine.kernels.trends.held import forget_held
from engine.trends.template_arrays import TrendTables, saved_numbers

_EVENTS = ("order", "started", "started_ms")


class TrendHeld:
    """Those of one graph. Regions have room for what the batch at hand may bring."""

    def __init__(self, tables: TrendTables) -> None:
        self._tables = tables
        self._n_held = int(tables.template.sizes[ta.N_HELD])
        self._regions = np.zeros((3, 0), np.int64)
        """Start, length and room of each region, (3, p * n_held)."""
        self._n_used = 0  # of the store
        self.arrays = self._new(0)

    def _new(self, capacity: int) -> ta.Held:
        sizes = self._tables.template.sizes
        n_kept, n_columns = (int(sizes[size]) if self._n_held else 0 for size in (ta.N_KEPT, ta.N_COLUMNS))
        return ta.Held(
            self._regions[0], self._regions[1],
            np.zeros(capacity, np.int64), np.zeros(capacity, np.int64), np.zeros(capacity, np.int64),
            np.zeros((n_kept, capacity)), np.zeros((n_columns, capacity + 1)),
        )  # fmt: skip

    def _bind(self, regions: Int64Array) -> None:
        """Regions are arrays of the store as well."""
        self._regions = regions
        self.arrays = self.arrays._replace(start=regions[0], length=regions[1])

    # -------------------------------------------------------------- partitions

    def reserve_partitions(self, capacity: int) -> None:
        """Have regions of so many partitions, no fewer than before."""
        regions = np.zeros((3, capacity * self._n_held), np.int64)
        regions[:, : self._regions.shape[1]] = self._regions
        self._bind(regions)

    def keep_partitions(self, kept: Int64Array) -> None:
        """Forget all partitions but these, which are numbered 0, 1, ... in this order."""
        if self._n_held:
            self._bind(self._regions.reshape(3, -1, self._n_held)[:, kept].reshape(3, -1))

    # ------------------------------------------------------------------ events

    def reserve(self, batch: ta.Batch, n_partitions: int) -> None:
        """Make room for all that the events of a batch may add."""
        if not self._n_held:
            return
        new = np.zeros((n_partitions, self._n_held), np.int64)
        for own, state in enumerate(self._tables.held_states):
            read = batch.partition[((batch.states >> state) & 1).astype(np.bool_)]
            new[:, own] = np.bincount(read, minlength=n_partitions)
        needed = self._regions[1, : new.size] + new.reshape(-1)
        moving = np.flatnonzero(needed > self._regions[2, : new.size])
        rooms = 2 * needed[moving]
        if self._n_used + int(rooms.sum()) > len(self.arrays.order):
            moving, rooms = np.arange(new.size), needed + needed // 2
            self._move(moving, rooms, self._new(2 * int(rooms.sum()) + 64), 0)
        elif len(moving):
            self._move(moving, rooms, self.arrays, self._n_used)

    def _move(self, regions: Int64Array, rooms: Int64Array, target: ta.Held, begin: int) -> None:
        """Put some regions one after the other into a store from a position on, each with so much room."""
        starts = begin + np.cumsum(rooms) - rooms
        length = self._regions[1, regions]
        before, after = _rows(self._regions[0, regions], length), _rows(starts, length)
        for name in (*_EVENTS, "derived", "columns"):
            getattr(target, name)[..., after] = getattr(self.arrays, name)[..., before]
        self._regions[0, regions], self._regions[2, regions] = starts, rooms
        self._n_used = begin + int(rooms.sum())
        self.arrays = target
        self._bind(self._regions)

    def forget(self, sums: ta.Sums, n_partitions: int) -> None:
        """Drop those that are of no use any more."""
        if self._n_held:
            forget_held(self._tables.template, sums, self.arrays, self._regions[2], n_partitions)

    def n_kept(self, n_partitions: int) -> int:
        """Events, in each state that reads them."""
        return int(self._regions[1, : n_partitions * self._n_held].sum())

    # ------------------------------------------------------------------- state

    def save(self, n_partitions: int) -> dict[str, pa.Table]:
        """Tables of regions and events; none where the query keeps no such events."""
        if not self._n_held:
            return {}
        start, length, _ = self._regions[:, : n_partitions * self._n_held]
        rows = _rows(start, length)
        own = {name: getattr(self.arrays, name)[rows] for name in _EVENTS}
        own |= {name: values[rows] for name, values in self._named()}
        return {"held_regions": pa.table({"length": length}), "held": pa.table(own)}

    def _named(self) -> list[tuple[str, np.ndarray]]:
        """Values of events by the names that they have in a saved state."""
        numbers = saved_numbers(self._tables)
        derived = [(f"derived{numbers[k]}", row) for k, row in enumerate(self.arrays.derived)]
        return [*derived, *((f"column{k}", row) for k, row in enumerate(self.arrays.columns))]

    def restore(self, state: Mapping[str, pa.Table], n_partitions: int) -> None:
        """Take over what `save` returned; raises StateError when it does not fit."""
        if not self._n_held:
            return
        if missing := {"held_regions", "held"} - set(state):
            raise StateError(f"saved state of trends lacks {sorted(missing)}")
        length, events = state["held_regions"].column("length").to_numpy(), state["held"]
        if len(length) != n_partitions * self._n_held or len(events) != int(length.sum()):
            raise StateError(
                f"saved state of trends has {len(length)} regions and {len(events)} events of negated patterns; "
                f"expected {n_partitions * self._n_held} and {int(length.sum())}"
            )
        self.arrays = self._new(len(events) + 64)
        named = [(name, getattr(self.arrays, name)) for name in _EVENTS]
        for name, values in (*named, *self._named()):
            values[: len(events)] = events.column(name).to_numpy()
        regions = self._regions[:, : len(length)]
        regions[0], regions[1], regions[2] = np.cumsum(length) - length, length, length
        self._n_used = len(events)
        self._bind(self._regions)


def _rows(starts: Int64Array, lengths: Int64Array) -> Int64Array:
    """The positions of regions, one after the other."""
    before: Int64Array = np.cumsum(lengths) - lengths
    return np.repeat(starts - before, lengths) + np.arange(int(lengths.sum()))


__all__ = ["TrendHeld"]
