"""Arrays that grow: per partition, per vertex, per entry of an index."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from engine.errors import StateError
from engine.events import Float64Array, Int64Array
from engine.kernels.trends import arrays as ta
from engine.kernels.trends.upkeep import forget_closed, move_regions
from engine.trends.template_arrays import TrendTables

LEAST_INDEXED = 256
"""Vertices of a partition and state from which on an index is made; fewer are looked at one by one."""

WAITING_PER_ROOT = 4.0
"""So many times the square root of all vertices may wait behind an index: making it anew costs all of them."""

_EVERY = 2**62
_SUMS = ("whole", "scale", "late_whole", "late_scale")
_GRAPH_SUMS = ("started", "started_ms", "late_started", "late_started_ms")
_GRAPHS = ("finished", "finished_ms", "late_finished", "late_finished_ms")


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
        self._n_indexes = int(sizes[ta.N_INDEXES])
        self._n_lengths = int(sizes[ta.N_LENGTHS])
        self._index_states = np.array([state for state, _, _ in tables.indexed], np.int64)
        self.n_partitions = 0
        self.sums = self._new_sums(0)
        self.vertices = self._new_vertices(0)
        self._regions = np.zeros((3, 0), np.int64)
        """Start, length and room of each region, (3, p * n_stored)."""
        self._n_vertices = 0  # of the store, whether they are used or not
        self.indexes = self._new_indexes(0)
        self._n_entries = 0

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
        room = len(self.sums.order)
        if n > room:
            grown = self._new_sums(max(n, 2 * room, 16))
            for name in ta.Sums._fields:
                before = getattr(self.sums, name)
                getattr(grown, name)[: len(before)] = before
            self.sums = grown
            regions = np.zeros((3, len(grown.order) * self._n_stored), np.int64)
            regions[:, : self._regions.shape[1]] = self._regions
            self._regions = regions
            old = self.indexes
            parts = [np.zeros(len(grown.order) * self._n_indexes, np.int64) for _ in range(4)]
            for part, before in zip(parts, old[:4], strict=True):
                part[: len(before)] = before
            self.indexes = old._replace(start=parts[0], size=parts[1], limit=parts[2], done=parts[3])
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
            *[chosen(old.told_first, self._n_lengths), chosen(old.told_last, self._n_lengths)],
        )  # fmt: skip
        self._regions = np.stack([chosen(row, self._n_stored) for row in self._regions])
        limits = [chosen(array, self._n_indexes) for array in self.indexes[:4]]
        self.indexes = self.indexes._replace(start=limits[0], size=limits[1], limit=limits[2], done=limits[3])
        self.n_partitions = len(kept)
        self._bind()

    @property
    def is_live(self) -> np.ndarray:
        """Which partitions have a window that is open, bool (n_partitions,)."""
        sums, n = self.sums, self.n_partitions
        live: np.ndarray = sums.first_open[:n] <= sums.last_open[:n]
        return live

    # ---------------------------------------------------------------- vertices

    def _new_vertices(self, room: int) -> ta.Vertices:
        sizes = self.tables.template.sizes
        whole = np.zeros(room * self.width, np.int64)
        return ta.Vertices(
            np.zeros(0, np.int64), np.zeros(0, np.int64),
            np.zeros(room, np.int64), np.zeros(room, np.int64), np.zeros(room, np.int64),
            whole, whole.view(np.float64), np.zeros(room * self.width, np.int32),
            np.zeros((int(sizes[ta.N_DERIVED]), room)), np.zeros((int(sizes[ta.N_COLUMNS]), room + 1)),
            np.full((self._n_indexes, room), -1),
        )  # fmt: skip

    def _bind(self) -> None:
        """Regions are arrays of the store as well."""
        self.vertices = self.vertices._replace(start=self._regions[0], length=self._regions[1])

    def forget_closed(self) -> None:
        """Drop vertices of closed windows."""
        if self._n_stored:
            forget_closed(
                self.tables.template, self.sums, self.vertices, self.indexes, self._index_states, self._regions[2],
                self.n_partitions,
            )  # fmt: skip

    def reserve_vertices(self, new: Int64Array) -> None:
        """Make room for so many more in each region, int64 (n_partitions * n_stored,)."""
        n = len(new)
        start, length, room = self._regions[:, :n]
        moving = np.flatnonzero(length + new > room)
        if not len(moving):
            return
        rooms = 2 * (length[moving] + new[moving])
        if self._n_vertices + int(rooms.sum()) > len(self.vertices.order):
            self._move_all(new)
            return
        starts = self._n_vertices + np.cumsum(rooms) - rooms
        move_regions(self.vertices, self.vertices, start[moving].copy(), starts, length[moving].copy(), self.width)
        start[moving], room[moving] = starts, rooms
        self._n_vertices += int(rooms.sum())

    def _move_all(self, new: Int64Array) -> None:
        """Into a store of their own, without what lies between them."""
        n = len(new)
        start, length, room = self._regions[:, :n]
        rooms = length + new + (length + new) // 2
        starts = np.cumsum(rooms) - rooms
        total = int(rooms.sum())
        grown = self._new_vertices(2 * total + 64)
        move_regions(self.vertices, grown, start.copy(), starts, length.copy(), self.width)
        start[:], room[:] = starts, rooms
        self._n_vertices = total
        self.vertices = grown
        self._bind()

    @property
    def n_kept(self) -> int:
        """Vertices."""
        return int(self._regions[1, : self.n_partitions * self._n_stored].sum())

    # ----------------------------------------------------------------- indexes

    def _new_indexes(self, room: int) -> ta.Indexes:
        whole = np.zeros(room * self.width, np.int64)
        n_windows = self._n_windows
        none = np.zeros(0, np.int64)
        return ta.Indexes(
            none, none, none, none, np.zeros(room), np.full(room * n_windows, ta.NEVER),
            whole, whole.view(np.float64), np.zeros(room * self.width, np.int32),
        )  # fmt: skip

    def index_all(self, new: Int64Array, batch: ta.Batch, held: Mapping[int, ta.Batch] | None = None) -> None:
        """Make the indexes anew that too many vertices wait behind, with the values that the batch brings.

        new: int64 (n_partitions, n_stored). held: of partitions, events that came before and are not stored yet.
        Vertices of a batch come into the index, or wait, together.
        """
        for index, (stored, derived, sign) in enumerate(self.tables.indexed):
            n = self.n_partitions
            limit = self.indexes.limit[index : n * self._n_indexes : self._n_indexes]
            length = self._regions[1, stored : n * self._n_stored : self._n_stored]
            waiting = length - np.minimum(limit, length) + new[:, stored]
            usual = np.maximum(LEAST_INDEXED, WAITING_PER_ROOT * np.sqrt(length + new[:, stored]))
            for partition in np.flatnonzero(waiting > usual).tolist():
                batches = [batch] if held is None or partition not in held else [batch, held[partition]]
                self._index(partition, index, stored, derived, sign, batches)

    def _index(
        self, partition: int, index: int, stored: int, derived: int, sign: float, batches: Sequence[ta.Batch]
    ) -> None:
        state = self.tables.stored_states[stored]
        region = partition * self._n_stored + stored
        start, length = self._regions[:2, region].tolist()
        kept_keys = sign * self.vertices.derived[derived, start : start + length]
        coming: list[tuple[ta.Batch, Int64Array, Float64Array]] = []
        for batch in batches:
            begin, end = np.searchsorted(batch.partition, [partition, partition + 1])
            own = begin + np.flatnonzero((batch.states[begin:end] >> state) & 1)
            coming.append((batch, own, sign * batch.derived[derived, batch.rows[own]]))
        known = np.unique(np.concatenate([kept_keys, *(keys for _, _, keys in coming)]))
        known = known[~np.isnan(known)]
        ranks = np.searchsorted(known, kept_keys)
        self.vertices.ranks[index, start : start + length] = np.where(np.isnan(kept_keys), -1, ranks)
        for batch, own, keys in coming:
            batch.ranks[index, own] = np.where(np.isnan(keys), -1, np.searchsorted(known, keys))
        entry = partition * self._n_indexes + index
        self.indexes.size[entry] = 0  # what it had is not copied any more
        at = self._room_for_entries(len(known))
        n_windows = self._n_windows
        self.indexes.keys[at : at + len(known)] = known
        self.indexes.window[at * n_windows : (at + len(known)) * n_windows] = ta.NEVER
        self.indexes.start[entry], self.indexes.size[entry] = at, len(known)
        self.indexes.limit[entry], self.indexes.done[entry] = _EVERY, 0

    def _room_for_entries(self, n: int) -> int:
        """Where so many more entries have room."""
        if self._n_entries + n > len(self.indexes.keys):
            old = self.indexes
            live = np.flatnonzero(old.size)
            grown = self._new_indexes(2 * (int(old.size.sum()) + n))
            at, n_windows = 0, self._n_windows
            sizes = (("keys", 1), ("window", n_windows), ("whole", self.width), ("scale", self.width))
            for entry in live.tolist():
                begin, size = int(old.start[entry]), int(old.size[entry])
                for name, per_entry in sizes:
                    part = getattr(old, name)[begin * per_entry : (begin + size) * per_entry]
                    getattr(grown, name)[at * per_entry : (at + size) * per_entry] = part
                old.start[entry] = at
                at += size
            self.indexes = grown._replace(start=old.start, size=old.size, limit=old.limit, done=old.done)
            self._n_entries = at
        at = self._n_entries
        self._n_entries += n
        return at

    def end_batch(self) -> None:
        """What comes from now on is in no index."""
        n_indexes, n = self._n_indexes, self.n_partitions
        for index, (stored, _, _) in enumerate(self.tables.indexed):
            limit = self.indexes.limit[index : n * n_indexes : n_indexes]
            np.minimum(limit, self._regions[1, stored : n * self._n_stored : self._n_stored], out=limit)

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
            parts["told"] = self._table(("told_first", "told_last"), n * self._n_lengths)
        start, length, _ = self._regions[:, : n * self._n_stored]
        rows = np.repeat(start - (np.cumsum(length) - length), length) + np.arange(int(length.sum()))
        kept = self.vertices
        numbers = (rows[:, None] * self.width + np.arange(self.width)).reshape(-1)
        parts["regions"] = pa.table({"length": length})
        parts["vertices"] = pa.table(
            {
                **{name: getattr(kept, name)[rows] for name in ("order", "first_window", "last_window")},
                **{f"derived{k}": column[rows] for k, column in enumerate(kept.derived)},
                **{f"column{k}": column[rows] for k, column in enumerate(kept.columns)},
            }
        )
        parts["numbers"] = pa.table({"whole": kept.whole[numbers], "scale": kept.scale[numbers]})
        return parts

    def _table(self, names: tuple[str, ...], n: int) -> pa.Table:
        return pa.table({name: getattr(self.sums, name)[:n] for name in names})

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
                getattr(self.sums, name)[: len(state[part])] = state[part].column(name).to_numpy()
        length = state["regions"].column("length").to_numpy()
        rows = state["vertices"]
        if len(rows) != int(length.sum()) or len(state["numbers"]) != len(rows) * self.width:
            raise StateError(f"saved state of trends has {len(rows)} vertices; expected {int(length.sum())}")
        self.vertices = self._new_vertices(len(rows) + 64)
        for name in ("order", "first_window", "last_window"):
            getattr(self.vertices, name)[: len(rows)] = rows.column(name).to_numpy()
        for kind, columns in (("derived", self.vertices.derived), ("column", self.vertices.columns)):
            for number, column in enumerate(columns):
                column[: len(rows)] = rows.column(f"{kind}{number}").to_numpy()
        for name in ("whole", "scale"):
            getattr(self.vertices, name)[: len(rows) * self.width] = state["numbers"].column(name).to_numpy()
        regions = self._regions[:, : n * self._n_stored]
        regions[0], regions[1], regions[2] = np.cumsum(length) - length, length, length
        self._n_vertices = len(rows)
        self._bind()


__all__ = ["LEAST_INDEXED", "WAITING_PER_ROOT", "TrendMemory"]
