"""The flat arrays in which the NFAb kernel keeps its runs: growth, compaction, saved state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engine.events import BoolArray, Float64Array, Int64Array
from engine.kernels.runs import arrays as na
from engine.kernels.runs import upkeep as nfa_upkeep

_LEAST_RUNS = 256
_LEAST_NODES = 1024
_LEAST_MATCHES = 1024
_MOST_AHEAD = 8192
_MANY = 65_536  # arrays of so much grow by three times their length: what is not used of it takes no memory
_ROOMY = 8  # arrays that are so many times too large are given up
_MOST_MATCHES = 65_536  # as many are handed over at once, unless one event completes more
_SINCE_START = (na.N_BEGUN, na.N_MERGED, na.N_OFFERED, na.BALANCE, na.AT_POSITION)


class RunMemory:
    """Runs, what they have selected (nodes) and completed matches of one query, as the kernels of runs take them."""

    runs: Int64Array
    run_aggregates: Float64Array
    free: Int64Array
    changed: Int64Array
    table: Int64Array
    chains: Int64Array
    seen: Int64Array
    newest_negated: Int64Array
    nodes: Int64Array
    matches: na.MatchArrays

    def __init__(self, n_registers: int, n_slots: int, n_values: int, n_negations: int, *, waits: bool) -> None:
        """`waits`: matches wait for the watermark, with all that a trailing negation reads."""
        self._widths = (n_registers, n_slots, n_values)
        self._n_negations = n_negations
        self._waits = waits
        self.counters = np.zeros(na.N_COUNTERS, np.int64)
        self._allocate_runs(_LEAST_RUNS)
        self._allocate_partitions(0)
        self._allocate_nodes(_LEAST_NODES)
        self._allocate_matches(_LEAST_MATCHES)

    def count(self, counter: int) -> int:
        """One of the counters of `engine.kernels.runs.arrays`."""
        return int(self.counters[counter])

    @property
    def n_nodes(self) -> int:
        """Nodes, reachable or not."""
        return self.count(na.N_NODES)

    @property
    def run_arrays(self) -> na.RunArrays:
        """Runs, as the kernel takes them."""
        return na.RunArrays(self.runs, self.run_aggregates, self.free, self.changed, self.table)

    @property
    def partition_arrays(self) -> na.PartitionArrays:
        """Partitions, as the kernel takes them."""
        return na.PartitionArrays(self.chains, self.seen, self.newest_negated)

    def no_matches(self, n: int = 0) -> na.MatchArrays:
        """Arrays for n matches."""
        n_registers, n_slots, n_values = self._widths
        return na.MatchArrays(
            fields=np.empty((n, 4), np.int64),
            rows=np.empty((n, n_registers if self._waits else 0), np.int64),
            aggregates=np.empty((n, n_slots if self._waits else 0), np.float64),
            values=np.empty((n, n_values), np.float64),
        )

    def take_matches(self) -> na.MatchArrays:
        """The matches completed since the last call."""
        n = self.count(na.N_MATCHES)
        self.counters[na.N_MATCHES] = 0
        columns: list[Any] = [array[:n].copy() for array in self.matches]
        return na.MatchArrays(*columns)

    # ---------------------------------------------------------------- growth

    def know_partitions(self, n_partitions: int) -> None:
        """Make room for partitions numbered below `n_partitions`."""
        n_old = len(self.seen)
        if n_partitions <= n_old:
            return
        chains, seen, newest = self.chains, self.seen, self.newest_negated
        self._allocate_partitions(max(n_partitions, 2 * n_old, 16))
        self.chains[:n_old], self.chains[-1] = chains[:n_old], chains[-1]  # the chain of no partition yet stays last
        self.seen[:n_old] = seen
        self.newest_negated[:, :n_old], self.newest_negated[:, -1] = newest[:, :n_old], newest[:, -1]

    def reserve(self, n_events: int, n_usual: int) -> None:
        """Make room for what so many events (of very many: a good part, or as many as usual) may usually select."""
        n_needed = min(n_events, max(_MOST_AHEAD, n_usual))
        n_free = len(self.nodes) - self.n_nodes
        if n_free < n_needed:
            self.nodes = _longer(self.nodes, max(_further(len(self.nodes)), n_needed) - n_free)

    def grow(self) -> None:
        """Make room for whatever one more event may need."""
        n_needed = 2 * (self.count(na.N_LIVE) + len(self.chains) + 2)
        if self.counters[na.N_FREE] < n_needed:
            self._grow_runs(max(len(self.runs), n_needed))
        if len(self.nodes) - self.n_nodes < 2 * n_needed:
            self.nodes = _longer(self.nodes, max(_further(len(self.nodes)), 2 * n_needed))
        n_matches = len(self.matches.fields)
        if n_matches < max(n_needed, _MOST_MATCHES):
            self._allocate_matches(max(2 * n_needed, min(2 * n_matches, _MOST_MATCHES)))

    def _grow_runs(self, extra: int) -> None:
        capacity, n_free = len(self.runs), self.count(na.N_FREE)
        self.free = _longer(self.free, extra)
        self.free[n_free : n_free + extra] = np.arange(capacity, capacity + extra)
        self.runs = _longer(self.runs, extra)
        self.run_aggregates = _longer(self.run_aggregates, extra)
        self._allocate_scratch()
        self.counters[na.N_FREE] += extra

    def _allocate_runs(self, capacity: int) -> None:
        n_registers, n_slots, _ = self._widths
        self.runs = np.empty((capacity, na.FIRST_REGISTER + n_registers), np.int64)
        self.run_aggregates = np.empty((capacity, n_slots), np.float64)
        self.free = np.arange(capacity - 1, -1, -1, dtype=np.int64)
        self._allocate_scratch()
        self.counters[na.N_FREE] = capacity
        self.counters[na.N_LIVE] = 0

    def _allocate_scratch(self) -> None:
        capacity = len(self.runs)
        self.changed = np.empty(capacity, np.int64)
        self.table = np.zeros((1 << (2 * capacity).bit_length(), 3), np.int64)
        self.counters[na.STAMP] = 0

    def _allocate_partitions(self, n_partitions: int) -> None:
        self.chains = np.full((n_partitions + 1, 2), -1, np.int64)
        self.chains[:, na.CHAIN_LENGTH] = 0
        self.seen = np.full((n_partitions, 3), -1, np.int64)
        self.seen[:, na.IS_KNOWN] = 0
        self.newest_negated = np.full((self._n_negations, n_partitions + 1), -1, np.int64)

    def _allocate_nodes(self, capacity: int) -> None:
        self.nodes = np.empty((capacity, 4), np.int64)
        self.counters[na.N_NODES] = 0

    def _allocate_matches(self, capacity: int) -> None:
        self.matches = self.no_matches(capacity)

    # ------------------------------------------------------------ compaction

    def reach(
        self, pending: na.MatchArrays, t_ms: Int64Array, n_rows: int, earliest_ms: int
    ) -> tuple[Int64Array, BoolArray, BoolArray]:
        """What runs and waiting matches lead to, when no run can use a start before `earliest_ms` any more.

        Returns for each node the one that stands for it from now on, and masks of the nodes and rows to keep.
        """
        live, _ = nfa_upkeep.live_runs(self.runs, self.chains, self.count(na.N_LIVE))
        runs = self.runs[live]
        heads = np.concatenate([runs[:, na.HEAD], pending.fields[:, na.HEAD]])
        replaced = np.empty(self.n_nodes, np.int64)
        nodes: BoolArray = np.zeros(self.n_nodes, np.bool_)
        rows: BoolArray = np.zeros(n_rows, np.bool_)
        nfa_upkeep.reach(self.nodes, self.n_nodes, t_ms, earliest_ms, heads, replaced, nodes, rows)
        nfa_upkeep.mark_rows(runs[:, na.FIRST_REGISTER :], rows)
        nfa_upkeep.mark_rows(pending.fields[:, na.FIRST_ROW :], rows)
        nfa_upkeep.mark_rows(pending.rows, rows)
        return replaced, nodes, rows

    def renumber(
        self,
        replaced: Int64Array,
        reachable: BoolArray,
        new_row: Int64Array,
        new_partition: Int64Array,
        heads: Int64Array,
    ) -> Int64Array:
        """Keep the reachable nodes and give rows and partitions their new numbers.

        Both number arrays have one more entry, -1, at the end, so that -1 stays -1. Returns the new numbers of the
        nodes `heads` of waiting matches.
        """
        live, chains = nfa_upkeep.live_runs(self.runs, self.chains, self.count(na.N_LIVE))
        unbound = chains == len(self.chains) - 1
        runs, aggregates = self.runs[live], self.run_aggregates[live]
        kept = np.empty((np.count_nonzero(reachable), 4), np.int64)
        new_node = np.empty(len(reachable) + 1, np.int64)
        nfa_upkeep.renumber_nodes(self.nodes, len(reachable), replaced, reachable, new_row, kept, new_node)
        runs[:, na.HEAD] = new_node[replaced[runs[:, na.HEAD]]]
        runs[:, na.PARTITION] = new_partition[runs[:, na.PARTITION]]
        runs[:, na.FIRST_REGISTER :] = new_row[runs[:, na.FIRST_REGISTER :]]
        n_known = min(len(new_partition) - 1, len(self.seen))
        seen = self.seen[:n_known][new_partition[:n_known] >= 0]
        self._fill(kept, seen, runs, aggregates, unbound)
        new_heads: Int64Array = new_node[replaced[heads]]
        return new_heads

    def _fill(
        self, nodes: Int64Array, seen: Int64Array, runs: Int64Array, aggregates: Float64Array, unbound: BoolArray
    ) -> None:
        n = len(runs)
        self._allocate_nodes(max(_LEAST_NODES, 2 * len(nodes)))
        self.nodes[: len(nodes)] = nodes
        self.counters[na.N_NODES] = len(nodes)
        self._allocate_partitions(len(seen))
        self.seen[:] = seen
        if not 2 * n <= len(self.runs) <= max(_LEAST_RUNS, _ROOMY * (n + len(seen))):
            self._allocate_runs(max(_LEAST_RUNS, 2 * n))
        self.runs[:n], self.run_aggregates[:n] = runs, aggregates
        nfa_upkeep.link_runs(self.runs, unbound, n, self.chains)
        n_free = len(self.runs) - n
        self.free[:n_free] = np.arange(len(self.runs) - 1, n - 1, -1)
        self.counters[na.N_FREE] = n_free
        self.counters[na.N_LIVE] = n

    # ----------------------------------------------------------------- state

    def save(self, pending: na.MatchArrays, keys: Float64Array) -> dict[str, pa.Table]:
        """Nodes, runs chain by chain, partitions with their keys, the matches that wait, and what was counted."""
        live, chains = nfa_upkeep.live_runs(self.runs, self.chains, self.count(na.N_LIVE))
        counted = {str(counter): str(self.count(counter)) for counter in _SINCE_START}
        n = len(keys)
        seen = np.full((n, 3), -1, np.int64)
        seen[:, na.IS_KNOWN] = 0
        seen[: len(self.seen)] = self.seen[:n]
        return {
            "nodes": pa.table({"node": _lists(self.nodes[: self.n_nodes])}),
            "partitions": pa.table({"key": _lists(keys), "seen": _lists(seen)}),
            "runs": pa.table(
                {
                    "fields": _lists(self.runs[live]),
                    "aggregates": _lists(self.run_aggregates[live]),
                    "unbound": chains == len(self.chains) - 1,
                }
            ).replace_schema_metadata(counted),
            "pending": pa.table({name: _lists(getattr(pending, name)) for name in pending._fields}),
        }

    def restore(self, state: Mapping[str, pa.Table]) -> na.MatchArrays:
        """Take over what `save` wrote; returns the matches that wait."""
        n_registers, n_slots, _ = self._widths
        runs, pending = state["runs"], state["pending"]
        self._fill(
            _matrix(state["nodes"].column("node"), 4, np.int64),
            _matrix(state["partitions"].column("seen"), 3, np.int64),
            _matrix(runs.column("fields"), na.FIRST_REGISTER + n_registers, np.int64),
            _matrix(runs.column("aggregates"), n_slots, np.float64),
            runs.column("unbound").to_numpy(),
        )
        for counter in _SINCE_START:
            saved = runs.schema.metadata.get(str(counter).encode())
            if saved is not None:  # states of before had no account
                self.counters[counter] = int(saved)
        waiting = self.no_matches()
        return na.MatchArrays(
            *(
                _matrix(pending.column(name), array.shape[1], array.dtype.type)
                for name, array in waiting._asdict().items()
            )
        )


def keys_of(state: Mapping[str, pa.Table], width: int) -> Float64Array:
    """The keys by partition that `RunMemory.save` wrote, (n_partitions, width)."""
    return _matrix(state["partitions"].column("key"), width, np.float64)


def joined(parts: list[na.MatchArrays]) -> na.MatchArrays:
    """The matches of all parts, in their order; at least one part."""
    parts = [part for part in parts if len(part.fields)] or parts[:1]
    if len(parts) == 1:
        return parts[0]
    columns: list[Any] = [np.concatenate(arrays) for arrays in zip(*parts, strict=True)]
    return na.MatchArrays(*columns)


def where(matches: na.MatchArrays, chosen: BoolArray | Int64Array) -> na.MatchArrays:
    """The matches whose mask (n,) is True, or of these numbers."""
    columns: list[Any] = [array[chosen] for array in matches]
    return na.MatchArrays(*columns)


def _further(n: int) -> int:
    """By how much an array of n entries grows."""
    return n if n < _MANY else 3 * n


def _longer(array: npt.NDArray[Any], extra: int) -> npt.NDArray[Any]:
    longer = np.empty((len(array) + extra, *array.shape[1:]), array.dtype)
    longer[: len(array)] = array
    return longer


def _lists(matrix: npt.NDArray[Any]) -> pa.Array:
    offsets = np.arange(len(matrix) + 1, dtype=np.int64) * matrix.shape[1]
    return pa.LargeListArray.from_arrays(pa.array(offsets), pa.array(np.ascontiguousarray(matrix).ravel()))


def _matrix(column: pa.ChunkedArray, width: int, dtype: type) -> npt.NDArray[Any]:
    flat = column.combine_chunks().flatten().to_numpy(zero_copy_only=False)
    return np.asarray(flat, dtype).reshape(len(column), width).copy()
