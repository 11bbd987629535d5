"""The growing arrays of an automaton runtime: runs and their nodes, and matches as they are found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from engine.events import BoolArray, Float64Array, Int64Array
from engine.kernels.automaton import runs as kernel
from engine.kernels.automaton.found import Found

_LEAST = 256


class Pending(NamedTuple):
    """Matches as arrays of their own size; see `engine.kernels.automaton.found.Found`."""

    partition: Int64Array
    exit: Int64Array
    offsets: Int64Array
    values: Float64Array
    rows: Int64Array
    edges: Int64Array
    iterations: Int64Array

    @property
    def n_matches(self) -> int:
        """How many matches these are."""
        return len(self.partition)

    def chosen(self, numbers: Int64Array) -> Pending:
        """The matches of these numbers, in that order."""
        lengths = (self.offsets[1:] - self.offsets[:-1])[numbers]
        offsets = np.append(0, np.cumsum(lengths)).astype(np.int64)
        events = np.arange(offsets[-1]) + np.repeat(self.offsets[:-1][numbers] - offsets[:-1], lengths)
        return Pending(
            self.partition[numbers],
            self.exit[numbers],
            offsets,
            self.values[numbers],
            self.rows[events],
            self.edges[events],
            self.iterations[events],
        )

    @classmethod
    def joined(cls, parts: list[Pending]) -> Pending:
        """The matches of all parts, in their order; at least one part."""
        starts = np.cumsum([0, *(len(part.rows) for part in parts)])
        offsets = [part.offsets[1:] + start for part, start in zip(parts, starts[:-1], strict=True)]
        return cls(
            np.concatenate([part.partition for part in parts]),
            np.concatenate([part.exit for part in parts]),
            np.append(0, np.concatenate(offsets)).astype(np.int64),
            np.concatenate([part.values for part in parts]),
            np.concatenate([part.rows for part in parts]),
            np.concatenate([part.edges for part in parts]),
            np.concatenate([part.iterations for part in parts]),
        )

    def save(self) -> pa.Table:
        """One row per match."""
        offsets = pa.array(self.offsets, pa.int64())
        width = self.iterations.shape[1]
        return pa.table(
            {
                "partition": pa.array(self.partition),
                "exit": pa.array(self.exit),
                "values": _lists(self.values.ravel(), np.arange(self.n_matches + 1) * self.values.shape[1]),
                "rows": pa.LargeListArray.from_arrays(offsets, pa.array(self.rows)),
                "edges": pa.LargeListArray.from_arrays(offsets, pa.array(self.edges)),
                "iterations": _lists(self.iterations.ravel(), self.offsets * width),
            }
        )

    @classmethod
    def restored(cls, table: pa.Table, n_returns: int, depth: int) -> Pending:
        """What `save` returned."""
        lengths = [len(rows) for rows in table.column("rows")]
        return cls(
            table.column("partition").to_numpy(),
            table.column("exit").to_numpy(),
            np.append(0, np.cumsum(lengths)).astype(np.int64),
            _flat(table, "values", np.float64).reshape(len(lengths), n_returns),
            _flat(table, "rows", np.int64),
            _flat(table, "edges", np.int64),
            _flat(table, "iterations", np.int64).reshape(sum(lengths), depth),
        )


def empty_matches(n_returns: int, depth: int, n_matches: int = _LEAST, n_events: int = 4 * _LEAST) -> Found:
    """Empty arrays for so many matches and events of theirs."""
    return Found(
        np.empty(n_matches, np.int64),
        np.empty(n_matches, np.int64),
        np.zeros(n_matches + 1, np.int64),
        np.empty((n_matches, n_returns), np.float64),
        np.empty(n_events, np.int64),
        np.empty(n_events, np.int64),
        np.zeros((n_events, depth), np.int64),
        np.zeros(3, np.int64),
    )


def taken(found: Found) -> Pending:
    """A copy of the matches that were found."""
    n, m = int(found.counts[0]), int(found.counts[1])
    return Pending(
        found.partition[:n].copy(),
        found.exit[:n].copy(),
        found.offsets[: n + 1].copy(),
        found.values[:n].copy(),
        found.rows[:m].copy(),
        found.edges[:m].copy(),
        found.iterations[:m].copy(),
    )


def grown(found: Found, n_matches: int, n_events: int) -> Found:
    """The first so many matches and events, with twice the room."""
    bigger = empty_matches(
        found.values.shape[1], found.iterations.shape[1], 2 * len(found.partition), 2 * len(found.rows)
    )
    bigger.partition[:n_matches] = found.partition[:n_matches]
    bigger.exit[:n_matches] = found.exit[:n_matches]
    bigger.offsets[: n_matches + 1] = found.offsets[: n_matches + 1]
    bigger.values[:n_matches] = found.values[:n_matches]
    bigger.rows[:n_events] = found.rows[:n_events]
    bigger.edges[:n_events] = found.edges[:n_events]
    bigger.iterations[:n_events] = found.iterations[:n_events]
    bigger.counts[:] = n_matches, n_events, found.counts[2]
    return bigger


class RunsMemory:
    """Runs and nodes of an automaton runtime."""

    def __init__(self) -> None:
        self.state = _runs(0, _LEAST, _LEAST)
        self.n_filled = 0
        """How often nodes have had new numbers."""

    @property
    def n_runs(self) -> int:
        """Runs alive."""
        return int(self.state.counts[kernel.N_LIVE])

    @property
    def n_offered(self) -> int:
        """Pairs of a run and an event that were looked at, since the start of the process."""
        return int(self.state.counts[kernel.N_OFFERED])

    def know_partitions(self, n_partitions: int) -> None:
        """Make room for the lists of so many partitions; that of no partition stays the last one."""
        state = self.state
        n_old = len(state.heads) - 1
        if n_partitions <= n_old:
            return
        fresh = _runs(max(n_partitions, 2 * n_old), 0, 0)
        for old, new in zip(state[2:6], fresh[2:6], strict=True):
            new[:n_old] = old[:n_old]
            new[-1] = old[-1]
        self.state = state._replace(
            heads=fresh.heads, lengths=fresh.lengths, known=fresh.known, last_seen=fresh.last_seen
        )

    def grow(self) -> None:
        """Twice the room for runs and nodes."""
        state = self.state
        self.state = state._replace(runs=_longer(state.runs), nodes=_longer(state.nodes))

    def alive(self) -> tuple[Int64Array, Int64Array]:
        """The numbers of the runs list by list, and the list of each; -1 for that of no partition."""
        runs, owners = [], []
        heads = self.state.heads
        for owner in np.flatnonzero(heads >= 0).tolist():
            run = int(heads[owner])
            while run >= 0:
                runs.append(run)
                owners.append(owner if owner < len(heads) - 1 else -1)
                run = int(self.state.runs[run, kernel.FOLLOWING])
        return np.array(runs, np.int64), np.array(owners, np.int64)

    def compact(self, keep_run: BoolArray, runs: Int64Array, owners: Int64Array) -> None:
        """Forget all but these of the `runs` that `alive` gave, and the nodes that lead to none."""
        state = self.state
        kept = state.runs[runs[keep_run]]
        used = self._reached(kept[:, kernel.NODE])
        number = np.append(np.where(used, np.cumsum(used) - 1, -1), -1).astype(np.int64)
        nodes = state.nodes[: len(used)][used]
        nodes[:, kernel.PARENT] = number[nodes[:, kernel.PARENT]]
        kept[:, kernel.NODE] = number[kept[:, kernel.NODE]]
        self._fill(kept, owners[keep_run], nodes)

    def rows_in_use(self) -> Int64Array:
        """The rows that nodes and runs refer to."""
        n = int(self.state.counts[kernel.N_NODES])
        return np.unique(self.state.nodes[:n, kernel.ROW])

    def renumber(self, new_row: Int64Array, new_partition: Int64Array, n_partitions: int) -> None:
        """Rows and partitions have new numbers (-1: forgotten)."""
        runs, owners = self.alive()
        kept = self.state.runs[runs]
        kept[:, kernel.FIRST_ROW] = new_row[kept[:, kernel.FIRST_ROW]]
        nodes = self.state.nodes[: int(self.state.counts[kernel.N_NODES])].copy()
        nodes[:, kernel.ROW] = new_row[nodes[:, kernel.ROW]]
        old = self.state
        self.state = _runs(n_partitions, 0, 0)
        self.state.counts[kernel.N_OFFERED] = old.counts[kernel.N_OFFERED]
        n_old = len(old.heads) - 1
        survivors = np.flatnonzero(new_partition[:n_old] >= 0)
        self.state.known[new_partition[survivors]] = old.known[survivors]
        self.state.last_seen[new_partition[survivors]] = old.last_seen[survivors]
        # What a forgotten partition still has begun with broadcast events, and is in the list of no partition, too.
        known = (owners < 0) | (new_partition[owners] >= 0)
        self._fill(kept[known], np.where(owners >= 0, new_partition[owners], -1)[known], nodes)

    def save(self) -> dict[str, pa.Table]:
        """Tables "runs", "nodes", "known"."""
        runs, owners = self.alive()
        state = self.state
        table = state.runs[runs]
        nodes = state.nodes[: int(state.counts[kernel.N_NODES])]
        known = np.flatnonzero(state.known)
        return {
            "runs": pa.table(
                {
                    "owner": pa.array(owners),
                    "state": pa.array(table[:, kernel.STATE]),
                    "node": pa.array(table[:, kernel.NODE]),
                    "first_row": pa.array(table[:, kernel.FIRST_ROW]),
                }
            ),
            "nodes": pa.table(
                {
                    "row": pa.array(nodes[:, kernel.ROW]),
                    "edge": pa.array(nodes[:, kernel.EDGE]),
                    "parent": pa.array(nodes[:, kernel.PARENT]),
                }
            ),
            "known": pa.table({"partition": pa.array(known), "last_seen": pa.array(state.last_seen[known])}),
        }

    def restore(self, state: Mapping[str, pa.Table], n_partitions: int) -> None:
        """Take over what `save` returned."""
        self.state = _runs(n_partitions, 0, 0)
        known = state["known"].column("partition").to_numpy()
        self.state.known[known] = True
        self.state.last_seen[known] = state["known"].column("last_seen").to_numpy()
        table = state["runs"]
        runs = np.stack([table.column(name).to_numpy() for name in ("state", "node", "first_row", "owner")], axis=1)
        nodes = np.stack([state["nodes"].column(name).to_numpy() for name in ("row", "edge", "parent")], axis=1)
        self._fill(runs.astype(np.int64), table.column("owner").to_numpy(), nodes.astype(np.int64))

    # -------------------------------------------------------------- internals

    def _reached(self, heads: Int64Array) -> BoolArray:
        n = int(self.state.counts[kernel.N_NODES])
        used = np.zeros(n, np.bool_)
        waiting = np.unique(heads)
        while len(waiting):
            used[waiting] = True
            parents = np.unique(self.state.nodes[waiting, kernel.PARENT])
            parents = parents[parents >= 0]
            waiting = parents[~used[parents]]
        return used

    def _fill(self, runs: Int64Array, owners: Int64Array, nodes: Int64Array) -> None:
        """The runs and nodes are these; lists in their order."""
        self.n_filled += 1
        state = self.state
        fresh = _runs(0, 2 * len(runs) + _LEAST, 2 * len(nodes) + _LEAST)
        fresh.nodes[: len(nodes)] = nodes
        fresh.runs[: len(runs)] = runs
        state.heads[:] = -1
        state.lengths[:] = 0
        for run in range(len(runs) - 1, -1, -1):
            owner = int(owners[run])
            fresh.runs[run, kernel.FOLLOWING] = state.heads[owner]
            state.heads[owner] = run
            state.lengths[owner] += 1
        fresh.counts[:] = len(nodes), len(runs), -1, len(runs), state.counts[kernel.N_OFFERED]
        self.state = state._replace(runs=fresh.runs, nodes=fresh.nodes, counts=fresh.counts)


def _runs(n_partitions: int, n_runs: int, n_nodes: int) -> kernel.Runs:
    return kernel.Runs(
        np.zeros((n_runs, 4), np.int64),
        np.zeros((n_nodes, 3), np.int64),
        np.full(n_partitions + 1, -1, np.int64),
        np.zeros(n_partitions + 1, np.int64),
        np.zeros(n_partitions + 1, np.bool_),
        np.full(n_partitions + 1, -1, np.int64),
        np.array([0, 0, -1, 0, 0], np.int64),
    )


def _longer(array: Int64Array) -> Int64Array:
    longer = np.zeros((2 * len(array) + _LEAST, array.shape[1]), np.int64)
    longer[: len(array)] = array
    return longer


def _lists(flat: Int64Array | Float64Array, offsets: Int64Array) -> pa.Array:
    return pa.LargeListArray.from_arrays(pa.array(offsets, pa.int64()), pa.array(flat))


def _flat(table: pa.Table, name: str, dtype: type) -> Any:
    return np.array(table.column(name).combine_chunks().flatten().to_numpy(zero_copy_only=False), dtype)


__all__ = ["Pending", "RunsMemory", "empty_matches", "grown", "taken"]
