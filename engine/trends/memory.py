"""Arrays that grow: per partition, per vertex, per entry of an index."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from engine.errors import StateError
from engine.events import Int64Array
from engine.kernels.trends import arrays as ta
from engine.kernels.trends.upkeep import forget_closed, move_regions
from engine.trends.held import TrendHeld
from engine.trends.indexes import TrendIndexes
from engine.trends.template_arrays import TrendTables, saved_numbers

_SUMS = ("whole", "scale", "late_whole", "late_scale")
_GRAPH_SUMS = ("started", "started_ms", "late_started", "late_started_ms")
_GRAPHS = ("finished", "finished_ms", "late_finished", "late_finished_ms")

_SAVED_AS = {"emitted_first": "told_first", "emitted_last": "told_last"}
"""Names of fields in a saved state, which stay as they are, where they differ."""
_FIELD_OF = {saved: name for name, saved in _SAVED_AS.items()}


class TrendMemory:
    """The state of one query's graph. `n_partitions`: those that are known; arrays have room for more."""

    def __init__(self, tables: TrendTables) -> None:
        self.tables = tables
        sizes = tables.template.sizes
        self._n_numbers = int(sizes[ta.N_NUMBERS])
        self._n_windows = int(sizes[ta.N_WINDOWS])
        self.width = self._n_windows * self._n_numbers
        self._n_channels = int(sizes[ta.N_CHANNELS])
        self._n_graphs = int(sizes[ta.N_GRAPHS])
        self._n_graph_channels = int(sizes[ta.N_GRAPH_CHANNELS])
        self._n_stored = int(sizes[ta.N_STORED])
        self._n_lengths = int(sizes[ta.N_LENGTHS])
        self._index_states = np.array([each.stored for each in tables.indexed], np.int64)
        self.n_partitions = 0
        self.sums = self._new_sums(0)
        self.vertices = self._new_vertices(0)
        self._regions = np.zeros((3, 0), np.int64)
        """Start, length and room of each region, (3, p * n_stored)."""
        self._n_vertices = 0  # of the store, whether they are used or not
        self.indexes = TrendIndexes(tables)
        self.held = TrendHeld(tables)

    # -------------------------------------------------------------- partitions

    def _new_sums(self, n: int) -> ta.Sums:
        size = n * self._n_channels * self.width
        whole, late = np.zeros(size, np.int64), np.zeros(size, np.int64)
        return ta.Sums(
            whole, whole.view(np.float64), np.zeros(size, np.int32),
            late, late.view(np.float64), np.zeros(size, np.int32),
            np.zeros(n, np.int64), np.full(n, -1), np.full(n, ta.NEVER),
            *(np.full(n * self._n_graph_channels, ta.NEVER) for _ in range(4)),
            *(np.full(n * self._n_graphs, ta.NEVER) for _ in range(4)),
            *[np.zeros(n * self._n_windows, np.int64)],
            *[np.zeros(n * self._n_lengths, np.int64), np.full(n * self._n_lengths, -1)],
        )  # fmt: skip

    def reserve_partitions(self, n: int) -> None:
        """Know so many partitions."""
        capacity = len(self.sums.order)
        if n > capacity:
            grown = self._new_sums(max(n, 2 * capacity, 16))
            for name in ta.Sums._fields:
                before = getattr(self.sums, name)
                getattr(grown, name)[: len(before)] = before
            self.sums = grown
            regions = np.zeros((3, len(grown.order) * self._n_stored), np.int64)
            regions[:, : self._regions.shape[1]] = self._regions
            self._regions = regions
            self.indexes.reserve_partitions(len(grown.order))
            self.held.reserve_partitions(len(grown.order))
            self._bind()
        self.n_partitions = n

    def keep_partitions(self, kept: Int64Array) -> None:
        """Forget all partitions but these, which are numbered 0, 1, ... in this order."""

        def chosen(array: np.ndarray, per_partition: int) -> np.ndarray:
            return array.reshape(-1, per_partition)[kept].reshape(-1) if per_partition else array[:0]

        n_sums, n_channels, n_graphs = self._n_channels * self.width, self._n_graph_channels, self._n_graphs
        old = self.sums
        whole, late = chosen(old.whole, n_sums), chosen(old.late_whole, n_sums)
        self.sums = ta.Sums(
            whole, whole.view(np.float64), chosen(old.scale, n_sums),
            late, late.view(np.float64), chosen(old.late_scale, n_sums),
            *(chosen(array, 1) for array in old[6:9]),
            *(chosen(array, n_channels) for array in old[9:13]),
            *(chosen(array, n_graphs) for array in old[13:17]),
            *[chosen(old.marks, self._n_windows)],
            *[chosen(old.emitted_first, self._n_lengths), chosen(old.emitted_last, self._n_lengths)],
        )  # fmt: skip
        self._regions = np.stack([chosen(row, self._n_stored) for row in self._regions])
        self.indexes.keep_partitions(kept)
        self.held.keep_partitions(kept)
        self.n_partitions = len(kept)
        self._bind()

    @property
    def is_live(self) -> np.ndarray:
        """Which partitions have a window that is open, bool (n_partitions,)."""
        sums, n = self.sums, self.n_partitions
        live: np.ndarray = sums.first_open[:n] <= sums.last_open[:n]
        return live

    # ---------------------------------------------------------------- vertices

    def _new_vertices(self, capacity: int) -> ta.Vertices:
        sizes = self.tables.template.sizes
        whole = np.zeros(capacity * self.width, np.int64)
        first_window = np.zeros(capacity, np.int64)
        return ta.Vertices(
            np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(capacity, np.int64),
            first_window, first_window if self._n_windows == 1 else np.zeros(capacity, np.int64),
            whole, whole.view(np.float64), np.zeros(capacity * self.width, np.int32),
            np.zeros((int(sizes[ta.N_KEPT]), capacity)), np.zeros((int(sizes[ta.N_COLUMNS]), capacity + 1)),
        )  # fmt: skip

    def _bind(self) -> None:
        """Regions are arrays of the store as well."""
        self.vertices = self.vertices._replace(start=self._regions[0], length=self._regions[1])

    def forget_closed(self) -> None:
        """Drop vertices of closed windows, and what is of no use any more of negated patterns."""
        self.held.forget(self.sums, self.n_partitions)
        if self._n_stored:
            forget_closed(
                self.tables.template, self.sums, self.vertices, self.indexes.arrays, self._index_states,
                self._regions[2], self.n_partitions,
            )  # fmt: skip

    def reserve_vertices(self, new: Int64Array) -> None:
        """Make room for so many more in each region, int64 (n_partitions * n_stored,)."""
        n = len(new)
        start, length, capacity = self._regions[:, :n]
        moving = np.flatnonzero(length + new > capacity)
        if not len(moving):
            return
        rooms = 2 * (length[moving] + new[moving])
        if self._n_vertices + int(rooms.sum()) > len(self.vertices.order):
            self._move_all(new)
            return
        starts = self._n_vertices + np.cumsum(rooms) - rooms
        move_regions(self.vertices, self.vertices, start[moving].copy(), starts, length[moving].copy(), self.width)
        start[moving], capacity[moving] = starts, rooms
        self._n_vertices += int(rooms.sum())

    def _move_all(self, new: Int64Array) -> None:
        """Into a store of their own, without what lies between them."""
        n = len(new)
        start, length, capacity = self._regions[:, :n]
        rooms = length + new + (length + new) // 2
        starts = np.cumsum(rooms) - rooms
        total = int(rooms.sum())
        grown = self._new_vertices(2 * total + 64)
        move_regions(self.vertices, grown, start.copy(), starts, length.copy(), self.width)
        start[:], capacity[:] = starts, rooms
        self._n_vertices = total
        self.vertices = grown
        self._bind()

    @property
    def n_kept(self) -> int:
        """Vertices, and events of negated patterns."""
        n_vertices = int(self._regions[1, : self.n_partitions * self._n_stored].sum())
        return n_vertices + self.held.n_kept(self.n_partitions)

    def index_all(self, new: Int64Array, batch: ta.Batch, first: int, end: int) -> None:
        """See `TrendIndexes.index_all`; new: int64 (n_partitions, n_stored)."""
        self.indexes.index_all(self.sums, self.vertices, new, batch, first, end)

    def n_new(self, batch: ta.Batch, first: int, end: int) -> Int64Array:
        """How many vertices the events [first, end) of a batch may become, (n_partitions, n_stored)."""
        new = np.zeros((self.n_partitions, self._n_stored), np.int64)
        partition, states = batch.partition[first:end], batch.states[first:end]
        for stored, state in enumerate(self.tables.stored_states):
            read = partition[((states >> state) & 1).astype(np.bool_)]
            new[:, stored] = np.bincount(read, minlength=self.n_partitions)
        return new

    # ------------------------------------------------------------------- state

    def save(self) -> dict[str, pa.Table]:
        """Partitions, sums and vertices; indexes are made anew."""
        n, sums = self.n_partitions, self.sums
        parts = {
            "windows": pa.table({name: getattr(sums, name)[:n] for name in ("first_open", "last_open", "order")}),
            "sums": self._table(_SUMS, n * self._n_channels * self.width),
            "started": self._table(_GRAPH_SUMS, n * self._n_graph_channels),
            "finished": self._table(_GRAPHS, n * self._n_graphs),
            "marks": self._table(("marks",), n * self._n_windows),
        }
        if self._n_lengths:
            parts["told"] = self._table(("emitted_first", "emitted_last"), n * self._n_lengths)
        start, length, _ = self._regions[:, : n * self._n_stored]
        rows = np.repeat(start - (np.cumsum(length) - length), length) + np.arange(int(length.sum()))
        kept = self.vertices
        numbers = (rows[:, None] * self.width + np.arange(self.width)).reshape(-1)
        parts["regions"] = pa.table({"length": length})
        parts["vertices"] = pa.table(
            {
                **{name: getattr(kept, name)[rows] for name in ("order", "first_window", "last_window")},
                **{name: column[rows] for name, column in self._derived_columns()},
                **{f"column{k}": column[rows] for k, column in enumerate(kept.columns)},
            }
        )
        parts["numbers"] = pa.table({"whole": kept.whole[numbers], "scale": kept.scale[numbers]})
        return parts | self.held.save(n)

    def _derived_columns(self) -> list[tuple[str, np.ndarray]]:
        """The values that later events are compared with, by the names that they have in a saved state."""
        numbers = saved_numbers(self.tables)
        return [(f"derived{numbers[k]}", column) for k, column in enumerate(self.vertices.derived)]

    def _table(self, names: tuple[str, ...], n: int) -> pa.Table:
        return pa.table({_SAVED_AS.get(name, name): getattr(self.sums, name)[:n] for name in names})

    def restore(self, state: Mapping[str, pa.Table]) -> None:
        """Take over what `save` returned; raises StateError when it does not fit."""
        names = ["windows", "sums", "started", "finished", "marks", "regions", "vertices", "numbers"]
        names += ["told"] if self._n_lengths else []
        if "windows" in state and "marks" not in state:  # saved when events with intervals were left out
            n_marks = len(state["windows"]) * self._n_windows
            state = {**state, "marks": pa.table({"marks": np.zeros(n_marks, np.int64)})}
        if missing := set(names) - set(state):
            raise StateError(f"saved state of trends lacks {sorted(missing)}")
        n = len(state["windows"])
        self.reserve_partitions(n)
        expected = {
            "sums": n * self._n_channels * self.width,
            "started": n * self._n_graph_channels,
            "finished": n * self._n_graphs,
            "marks": n * self._n_windows,
            "regions": n * self._n_stored,
        }
        if self._n_lengths:
            expected["told"] = n * self._n_lengths
        for name, size in expected.items():
            if len(state[name]) != size:
                raise StateError(f"saved state of trends has {len(state[name])} {name}; expected {size}")
        for part in (part for part in ("windows", *expected) if part != "regions"):
            for name in state[part].column_names:
                getattr(self.sums, _FIELD_OF.get(name, name))[: len(state[part])] = state[part].column(name).to_numpy()
        length = state["regions"].column("length").to_numpy()
        rows = state["vertices"]
        if len(rows) != int(length.sum()) or len(state["numbers"]) != len(rows) * self.width:
            raise StateError(f"saved state of trends has {len(rows)} vertices; expected {int(length.sum())}")
        self.vertices = self._new_vertices(len(rows) + 64)
        for name in ("order", "first_window", "last_window"):
            getattr(self.vertices, name)[: len(rows)] = rows.column(name).to_numpy()
        named = [(f"column{number}", column) for number, column in enumerate(self.vertices.columns)]
        for name, column in (*self._derived_columns(), *named):
            column[: len(rows)] = rows.column(name).to_numpy()
        for name in ("whole", "scale"):
            getattr(self.vertices, name)[: len(rows) * self.width] = state["numbers"].column(name).to_numpy()
        regions = self._regions[:, : n * self._n_stored]
        regions[0], regions[1], regions[2] = np.cumsum(length) - length, length, length
        self._n_vertices = len(rows)
        self._bind()
        self.held.restore(state, n)


__all__ = ["TrendMemory"]
