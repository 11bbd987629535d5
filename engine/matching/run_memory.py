"""The flat arrays in which the NFAb kernel keeps its runs: growth, compaction, saved state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engine.events import BoolArray, Float64Array, Int64Array
from engine.kernels import nfa_arrays, nfa_upkeep

_LEAST_RUNS = 256
_LEAST_NODES = 1024
_LEAST_MATCHES = 1024


class RunMemory:
    """Runs, what they have selected (nodes) and completed matches of one query, as `engine.kernels.nfa` takes them."""

    runs: Int64Array
    run_aggregates: Float64Array
    free: Int64Array
    list_head: Int64Array
    chain_length: Int64Array
    known: BoolArray
    last_seen: Int64Array
    nodes: Int64Array
    matches: nfa_arrays.MatchArrays

    def __init__(self, n_registers: int, n_slots: int, n_values: int) -> None:
        self._widths = (n_registers, n_slots, n_values)
        self.counters = np.zeros(4, np.int64)
        self._allocate_runs(_LEAST_RUNS, 0)
        self._allocate_nodes(_LEAST_NODES)
        self._allocate_matches(_LEAST_MATCHES)

    @property
    def n_runs(self) -> int:
        """Runs alive."""
        return int(self.counters[nfa_arrays.N_LIVE])

    def no_matches(self, n: int = 0) -> nfa_arrays.MatchArrays:
        """Arrays for n matches."""
        n_registers, n_slots, n_values = self._widths
        return nfa_arrays.MatchArrays(
            fields=np.empty((n, 2), np.int64),
            rows=np.empty((n, n_registers), np.int64),
            aggregates=np.empty((n, n_slots), np.float64),
            values=np.empty((n, n_values), np.float64),
        )

    def take_matches(self) -> nfa_arrays.MatchArrays:
        """The matches completed since the last call."""
        n = int(self.counters[nfa_arrays.N_MATCHES])
        self.counters[nfa_arrays.N_MATCHES] = 0
        return where(self.matches, np.arange(len(self.matches.fields)) < n)

    # ---------------------------------------------------------------- growth

    def know_partitions(self, n_partitions: int) -> None:
        """Make room for partitions numbered below `n_partitions`."""
        n_old = len(self.known)
        if n_partitions <= n_old:
            return
        capacity = max(n_partitions, 2 * n_old, 16)
        for name, empty in (("list_head", -1), ("chain_length", 0)):
            old = getattr(self, name)
            grown = np.full(capacity + 1, empty, np.int64)
            grown[:n_old] = old[:n_old]
            grown[capacity] = old[n_old]  # the chain of no partition yet stays last
            setattr(self, name, grown)
        self.known = _longer(self.known, capacity - n_old)
        self.known[n_old:] = False
        self.last_seen = _longer(self.last_seen, capacity - n_old)

    def grow(self) -> None:
        """Make room for whatever one more event may need."""
        n_needed = 2 * (self.n_runs + len(self.known) + 2)
        if self.counters[nfa_arrays.N_FREE] < n_needed:
            self._grow_runs(max(len(self.runs), n_needed))
        if len(self.nodes) - self.counters[nfa_arrays.N_NODES] < n_needed:
            self.nodes = _longer(self.nodes, max(len(self.nodes), n_needed))
        if len(self.matches.fields) < n_needed:
            self._allocate_matches(2 * n_needed)

    def _grow_runs(self, extra: int) -> None:
        capacity, n_free = len(self.runs), int(self.counters[nfa_arrays.N_FREE])
        self.free = _longer(self.free, extra)
        self.free[n_free : n_free + extra] = np.arange(capacity, capacity + extra)
        self.runs = _longer(self.runs, extra)
        self.run_aggregates = _longer(self.run_aggregates, extra)
        self.counters[nfa_arrays.N_FREE] += extra

    def _allocate_runs(self, capacity: int, n_partitions: int) -> None:
        n_registers, n_slots, _ = self._widths
        self.runs = np.empty((capacity, nfa_arrays.FIRST_REGISTER + n_registers), np.int64)
        self.run_aggregates = np.empty((capacity, n_slots), np.float64)
        self.free = np.arange(capacity - 1, -1, -1, dtype=np.int64)
        self.list_head = np.full(n_partitions + 1, -1, np.int64)
        self.chain_length = np.zeros(n_partitions + 1, np.int64)
        self.known = np.zeros(n_partitions, np.bool_)
        self.last_seen = np.full(n_partitions, -1, np.int64)
        self.counters[nfa_arrays.N_FREE] = capacity
        self.counters[nfa_arrays.N_LIVE] = 0

    def _allocate_nodes(self, capacity: int) -> None:
        self.nodes = np.empty((capacity, 3), np.int64)
        self.counters[nfa_arrays.N_NODES] = 0

    def _allocate_matches(self, capacity: int) -> None:
        self.matches = self.no_matches(capacity)

    # ------------------------------------------------------------ compaction

    def reachable(self, pending: nfa_arrays.MatchArrays, n_rows: int) -> tuple[BoolArray, BoolArray]:
        """Nodes that a run or a waiting match leads to, and the rows that these and the registers name, as masks."""
        live, _ = nfa_upkeep.live_runs(self.runs, self.list_head, self.n_runs)
        runs = self.runs[live]
        heads = np.concatenate([runs[:, nfa_arrays.HEAD], pending.fields[:, nfa_arrays.HEAD]])
        nodes: BoolArray = np.zeros(int(self.counters[nfa_arrays.N_NODES]), np.bool_)
        nfa_upkeep.mark_nodes(heads, self.nodes, nodes)
        rows: BoolArray = np.zeros(n_rows, np.bool_)
        rows[self.nodes[: len(nodes)][nodes, nfa_arrays.ROW]] = True
        nfa_upkeep.mark_rows(runs[:, nfa_arrays.FIRST_REGISTER :], rows)
        nfa_upkeep.mark_rows(pending.rows, rows)
        return nodes, rows

    def renumber(
        self, nodes: BoolArray, new_row: Int64Array, new_partition: Int64Array, n_partitions: int
    ) -> Int64Array:
        """Keep the marked nodes and give rows and partitions their new numbers; returns the new numbers of nodes.

        All three number arrays have one more entry, -1, at the end, so that -1 stays -1.
        """
        live, chains = nfa_upkeep.live_runs(self.runs, self.list_head, self.n_runs)
        unbound = chains == len(self.known)
        runs, aggregates = self.runs[live], self.run_aggregates[live]
        old = np.flatnonzero(self.known)
        old = old[new_partition[old] >= 0]
        known, last_seen = new_partition[old], self.last_seen[old]
        new_node = np.append(np.where(nodes, np.cumsum(nodes) - 1, -1), -1)
        kept = self.nodes[np.flatnonzero(nodes)]
        kept[:, nfa_arrays.ROW] = new_row[kept[:, nfa_arrays.ROW]]
        kept[:, nfa_arrays.PARENT] = new_node[kept[:, nfa_arrays.PARENT]]
        runs[:, nfa_arrays.HEAD] = new_node[runs[:, nfa_arrays.HEAD]]
        runs[:, nfa_arrays.PARTITION] = new_partition[runs[:, nfa_arrays.PARTITION]]
        runs[:, nfa_arrays.FIRST_REGISTER :] = new_row[runs[:, nfa_arrays.FIRST_REGISTER :]]
        self._fill(kept, known, last_seen, runs, aggregates, unbound, n_partitions)
        return new_node

    def _fill(
        self, nodes: Int64Array, known: Int64Array, last_seen: Int64Array, runs: Int64Array,
        aggregates: Float64Array, unbound: BoolArray, n_partitions: int,
    ) -> None:  # fmt: skip
        n = len(runs)
        self._allocate_nodes(max(_LEAST_NODES, 2 * len(nodes)))
        self.nodes[: len(nodes)] = nodes
        self.counters[nfa_arrays.N_NODES] = len(nodes)
        self._allocate_runs(max(_LEAST_RUNS, 2 * n), n_partitions)
        self.known[known] = True
        self.last_seen[known] = last_seen
        self.runs[:n], self.run_aggregates[:n] = runs, aggregates
        nfa_upkeep.link_runs(self.runs, unbound, n, self.list_head, self.chain_length)
        n_free = len(self.runs) - n
        self.free[:n_free] = np.arange(len(self.runs) - 1, n - 1, -1)
        self.counters[nfa_arrays.N_FREE] = n_free
        self.counters[nfa_arrays.N_LIVE] = n

    # ----------------------------------------------------------------- state

    def save(self, pending: nfa_arrays.MatchArrays) -> dict[str, pa.Table]:
        """Nodes, runs chain by chain, known partitions and the matches that wait."""
        live, chains = nfa_upkeep.live_runs(self.runs, self.list_head, self.n_runs)
        known = np.flatnonzero(self.known)
        return {
            "nodes": pa.table({"node": _lists(self.nodes[: int(self.counters[nfa_arrays.N_NODES])])}),
            "known": pa.table({"partition": known, "last_seen": self.last_seen[known]}),
            "runs": pa.table(
                {
                    "fields": _lists(self.runs[live]),
                    "aggregates": _lists(self.run_aggregates[live]),
                    "unbound": chains == len(self.known),
                }
            ),
            "pending": pa.table({name: _lists(getattr(pending, name)) for name in pending._fields}),
        }

    def restore(self, state: Mapping[str, pa.Table], n_partitions: int) -> nfa_arrays.MatchArrays:
        """Take over what `save` wrote; returns the matches that wait."""
        n_registers, n_slots, n_values = self._widths
        runs, pending = state["runs"], state["pending"]
        self._fill(
            _matrix(state["nodes"].column("node"), 3, np.int64),
            state["known"].column("partition").to_numpy(),
            state["known"].column("last_seen").to_numpy(),
            _matrix(runs.column("fields"), nfa_arrays.FIRST_REGISTER + n_registers, np.int64),
            _matrix(runs.column("aggregates"), n_slots, np.float64),
            runs.column("unbound").to_numpy(),
            n_partitions,
        )
        return nfa_arrays.MatchArrays(
            _matrix(pending.column("fields"), 2, np.int64),
            _matrix(pending.column("rows"), n_registers, np.int64),
            _matrix(pending.column("aggregates"), n_slots, np.float64),
            _matrix(pending.column("values"), n_values, np.float64),
        )


def joined(parts: list[nfa_arrays.MatchArrays]) -> nfa_arrays.MatchArrays:
    """The matches of all parts, in their order; at least one part."""
    columns: list[Any] = [np.concatenate(arrays) for arrays in zip(*parts, strict=True)]
    return nfa_arrays.MatchArrays(*columns)


def where(matches: nfa_arrays.MatchArrays, chosen: BoolArray | Int64Array) -> nfa_arrays.MatchArrays:
    """The matches whose mask (n,) is True, or of these numbers."""
    columns: list[Any] = [array[chosen] for array in matches]
    return nfa_arrays.MatchArrays(*columns)


def _longer(array: npt.NDArray[Any], extra: int) -> npt.NDArray[Any]:
    longer = np.empty((len(array) + extra, *array.shape[1:]), array.dtype)
    longer[: len(array)] = array
    return longer


def _lists(matrix: npt.NDArray[Any]) -> pa.Array:
    offsets = np.arange(len(matrix) + 1, dtype=np.int32) * matrix.shape[1]
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(np.ascontiguousarray(matrix).ravel()))


def _matrix(column: pa.ChunkedArray, width: int, dtype: type) -> npt.NDArray[Any]:
    flat = column.combine_chunks().flatten().to_numpy(zero_copy_only=False)
    return np.asarray(flat, dtype).reshape(len(column), width).copy()
