"""The run-based NFAb runtime: skip till next match over precise events (SASE+ sections 4 and 5).

A match is decided when its last event arrives, a trailing negation when the watermark has passed its window.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from engine.errors import StateError, UnsupportedQueryError
from engine.events import EventBatch, Float64Array, Int64Array
from engine.kernels import nfa as kernel
from engine.kernels.opcodes import MAX_STACK
from engine.language import ast
from engine.matching.base import Limits
from engine.matching.output import limited
from engine.matching.plan_arrays import plan_arrays, return_value, store_arrays
from engine.matching.rows import MatchRow
from engine.matching.store import BROADCAST, EventStore, Interner
from engine.plan.model import Plan


@dataclass
class _Completed:
    """Matches copied out of the kernel's buffers, shape (n,) or (n, .)."""

    head: Int64Array
    partition: Int64Array
    rows: Int64Array
    aggregates: Float64Array
    values: Float64Array
    last_row: Int64Array

    def where(self, mask: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> _Completed:
        return _Completed(*(getattr(self, name)[mask] for name in self.__dataclass_fields__))


class NfaRuntime:
    """Run state of one skip_till_next_match query; implements `engine.matching.base.Runtime`."""

    def __init__(self, plan: Plan, interner: Interner, limits: Limits) -> None:
        if plan.strategy is not ast.Strategy.SKIP_TILL_NEXT_MATCH:
            raise UnsupportedQueryError(
                f"{plan.strategy.value} is not evaluated by the compiled runtimes of this version",
                plan.query.span,
                "skip_till_next_match or skip_till_any_match",
                "use one of those, or evaluate it with --runtime oracle",
            )
        if plan.output is not ast.Output.ALL:
            raise UnsupportedQueryError(
                f"OUTPUT {plan.output.value} is not evaluated under skip_till_next_match by this version",
                plan.query.span,
                "OUTPUT ALL",
                "drop the OUTPUT clause, or use skip_till_any_match",
            )
        self.plan = plan
        self.limits = limits
        self.store = EventStore(plan, interner)
        self.n_rejected = 0
        self._arrays = plan_arrays(plan, self.store)
        self._n_slots = len(plan.programs.slots)
        self._waits = bool(plan.negations) and any(n.after == plan.n_steps - 1 for n in plan.negations)
        self._pending: _Completed = self._no_matches()
        self._compact_at = 4096
        self._counters = np.zeros(4, np.int64)
        self._allocate_runs(256, 0)
        self._allocate_nodes(1024)
        self._allocate_matches(1024)

    @property
    def n_rows(self) -> int:
        """Events kept."""
        return len(self.store)

    @property
    def n_runs(self) -> int:
        """Runs alive."""
        return int(self._counters[kernel.N_LIVE])

    def advance(self, batch: EventBatch, watermark_ms: int) -> list[MatchRow]:
        """See `Runtime.advance`. Imprecise events are refused and counted in `n_rejected`."""
        precise = batch.t_lo_ms == batch.t_hi_ms
        if not precise.all():
            self.n_rejected += int((~precise).sum())
            batch = batch.where(precise)
        start, end = self.store.append(batch)
        self._grow_partitions()
        completed: list[_Completed] = []
        while start < end:
            start = kernel.advance(
                self._arrays,
                store_arrays(self.store),
                self._runs,
                self._nodes,
                self._matches,
                self._counters,
                start,
                end,
            )
            completed.append(self._take_matches())
            if start < end:
                self._grow()
        rows = self._materialise(self._decided(completed, watermark_ms))
        if len(self.store) >= self._compact_at:
            self._compact(watermark_ms)
        return rows

    # ---------------------------------------------------------------- results

    def _decided(self, completed: list[_Completed], watermark_ms: int) -> _Completed:
        matches = _joined([self._pending, *completed]) if self._waits else _joined([self._no_matches(), *completed])
        if not self._waits:
            return matches
        t_first = self.store.t_lo_ms[matches.rows[:, 0]]
        due = t_first + self.plan.within_ms < watermark_ms
        self._pending = matches.where(~due)
        matches = matches.where(due)
        stack = np.empty(MAX_STACK, np.float64)
        store = store_arrays(self.store)
        last = self.plan.n_steps - 1
        holds = np.ones(len(matches.head), np.bool_)
        for at in range(len(matches.head)):
            for number, negation in enumerate(self.plan.negations):
                if negation.after == last and kernel.negation_fails(
                    self._arrays, store, number, matches.partition[at], len(self.store),
                    matches.rows[at], matches.aggregates[at], stack,
                ):  # fmt: skip
                    holds[at] = False
        return matches.where(holds)

    def _materialise(self, matches: _Completed) -> list[MatchRow]:
        order = np.lexsort((matches.rows[:, 0], matches.last_row))
        rows = [self._row(matches, int(at)) for at in order]
        return limited(self.plan, rows, self.limits)

    def _row(self, matches: _Completed, at: int) -> MatchRow:
        store = self.store
        selected, components = kernel.selected_rows(self._nodes, matches.head[at])
        ids = store.ids.of(selected)
        ends = np.searchsorted(components, np.arange(self.plan.n_steps + 1))
        partition = int(matches.partition[at])
        return MatchRow(
            query=self.plan.name,
            key=store.key_of(partition),
            first_lo_ms=int(store.t_lo_ms[matches.rows[at, 0]]),
            last_hi_ms=int(store.t_hi_ms[matches.last_row[at]]),
            bindings={s.variable: ids[ends[s.position] : ends[s.position + 1]] for s in self.plan.steps},
            confidence=1.0,
            values={r.name: return_value(matches.values[at, k], r, store) for k, r in enumerate(self.plan.returns)},
        )

    def _take_matches(self) -> _Completed:
        n = int(self._counters[kernel.N_MATCHES])
        self._counters[kernel.N_MATCHES] = 0
        m = self._matches
        return _Completed(
            m.head[:n].copy(),
            m.partition[:n].copy(),
            m.rows[:n].copy(),
            m.aggregates[:n].copy(),
            m.values[:n].copy(),
            m.last_row[:n].copy(),
        )

    def _no_matches(self) -> _Completed:
        return _Completed(
            np.empty(0, np.int64),
            np.empty(0, np.int64),
            np.empty((0, self.plan.programs.n_registers), np.int64),
            np.empty((0, self._n_slots), np.float64),
            np.empty((0, len(self.plan.returns)), np.float64),
            np.empty(0, np.int64),
        )

    # ---------------------------------------------------------------- memory

    def _allocate_runs(self, capacity: int, n_partitions: int) -> None:
        self._runs = kernel.RunArrays(
            state=np.empty(capacity, np.int64),
            head=np.empty(capacity, np.int64),
            partition=np.empty(capacity, np.int64),
            next=np.empty(capacity, np.int64),
            rows=np.empty((capacity, self.plan.programs.n_registers), np.int64),
            aggregates=np.empty((capacity, self._n_slots), np.float64),
            free=np.arange(capacity - 1, -1, -1, dtype=np.int64),
            list_head=np.full(n_partitions + 1, -1, np.int64),
            known=np.zeros(n_partitions, np.bool_),
        )
        self._counters[kernel.N_FREE] = capacity
        self._counters[kernel.N_LIVE] = 0

    def _allocate_nodes(self, capacity: int) -> None:
        self._nodes = kernel.NodeArrays(*(np.empty(capacity, np.int64) for _ in range(3)))

    def _allocate_matches(self, capacity: int) -> None:
        empty = self._no_matches()
        self._matches = kernel.MatchArrays(
            head=np.empty(capacity, np.int64),
            partition=np.empty(capacity, np.int64),
            first_row=np.empty(capacity, np.int64),
            last_row=np.empty(capacity, np.int64),
            rows=np.empty((capacity, empty.rows.shape[1]), np.int64),
            aggregates=np.empty((capacity, empty.aggregates.shape[1]), np.float64),
            values=np.empty((capacity, empty.values.shape[1]), np.float64),
        )

    def _grow_partitions(self) -> None:
        n_old, n_new = len(self._runs.known), self.store.n_partitions
        if n_new <= n_old:
            return
        capacity = max(n_new, 2 * n_old, 16)
        list_head = np.full(capacity + 1, -1, np.int64)
        list_head[:n_old] = self._runs.list_head[:n_old]
        list_head[capacity] = self._runs.list_head[n_old]  # the chain of no partition yet stays last
        known = np.zeros(capacity, np.bool_)
        known[:n_old] = self._runs.known
        self._runs = self._runs._replace(list_head=list_head, known=known)

    def _grow(self) -> None:
        """Make room for whatever one more row may need."""
        runs, n_partitions = self._runs, len(self._runs.known)
        n_needed = 2 * (self.n_runs + n_partitions + 2)
        capacity = len(runs.state)
        if self._counters[kernel.N_FREE] < n_needed:
            extra = max(capacity, n_needed)
            n_free = int(self._counters[kernel.N_FREE])
            free = np.empty(capacity + extra, np.int64)
            free[:n_free] = runs.free[:n_free]
            free[n_free : n_free + extra] = np.arange(capacity, capacity + extra)
            grown = {
                name: _longer(getattr(runs, name), extra)
                for name in ("state", "head", "partition", "next", "rows", "aggregates")
            }
            self._runs = runs._replace(free=free, **grown)
            self._counters[kernel.N_FREE] += extra
        n_free_nodes = len(self._nodes.row) - int(self._counters[kernel.N_NODES])
        if n_free_nodes < n_needed:
            extra = max(len(self._nodes.row), n_needed)
            self._nodes = kernel.NodeArrays(*(_longer(array, extra) for array in self._nodes))
        if len(self._matches.head) < n_needed:
            self._allocate_matches(2 * n_needed)

    def _compact(self, watermark_ms: int) -> None:
        """Drop expired runs, unreachable nodes and the events that nothing refers to any more."""
        store = self.store
        n = len(store)
        kernel.expire(self._arrays, store_arrays(store), self._runs, self._counters, watermark_ms)
        runs, chains = kernel.live_runs(self._runs, self.n_runs)
        heads = np.concatenate([self._runs.head[runs], self._pending.head])
        reachable = np.zeros(int(self._counters[kernel.N_NODES]), np.bool_)
        kernel.mark_nodes(heads, self._nodes.parent, reachable)
        keep = np.zeros(n + 1, np.bool_)
        keep[self._nodes.row[np.flatnonzero(reachable)]] = True
        keep[self._runs.rows[runs].ravel()] = True  # -1 marks the extra entry
        keep[self._pending.rows.ravel()] = True
        keep = keep[:n]
        keep |= self._still_negating(watermark_ms) | self._still_marking(watermark_ms)
        self._renumber(runs, chains, reachable, *store.keep(keep))
        self._compact_at = max(4096, 2 * len(store))

    def _still_negating(self, watermark_ms: int) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
        """Rows of negated types that a match still to come may have to respect."""
        n = len(self.store)
        codes = [self.store.types.index(negation.event_type) for negation in self.plan.negations]
        recent = self.store.t_hi_ms[:n] >= watermark_ms - 2 * self.plan.within_ms
        return np.isin(self.store.type_index[:n], codes) & recent

    def _still_marking(self, watermark_ms: int) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
        """With broadcast types, the last row of each partition: while a run of no partition may still be alive, the
        partition must stay known, or it would be given that run a second time."""
        n = len(self.store)
        mask = np.zeros(n, np.bool_)
        if self.plan.broadcast:
            partitions = self.store.partition[:n]
            last = np.full(self.store.n_partitions, -1, np.int64)
            keyed = np.flatnonzero(partitions != BROADCAST)
            last[partitions[keyed]] = keyed
            last = last[last >= 0]
            mask[last[self.store.t_hi_ms[last] >= watermark_ms - self.plan.within_ms]] = True
        return mask

    def _renumber(
        self, runs: Int64Array, chains: Int64Array,
        reachable: np.ndarray[tuple[int, ...], np.dtype[np.bool_]], new_row: Int64Array, new_partition: Int64Array,
    ) -> None:  # fmt: skip
        new_node = np.append(np.where(reachable, np.cumsum(reachable) - 1, -1), -1)
        kept = np.flatnonzero(reachable)
        old = self._runs
        n_nodes = len(kept)
        nodes = kernel.NodeArrays(
            new_row[self._nodes.row[kept]], new_node[self._nodes.parent[kept]], self._nodes.component[kept]
        )
        state, head = old.state[runs], new_node[old.head[runs]]
        partition, aggregates = new_partition[old.partition[runs]], old.aggregates[runs]
        rows = new_row[old.rows[runs]]
        was_known = np.flatnonzero(old.known)
        unbound = chains == len(old.known)
        self._allocate_nodes(max(1024, 2 * n_nodes))
        for array, values in zip(self._nodes, nodes, strict=True):
            array[:n_nodes] = values
        self._counters[kernel.N_NODES] = n_nodes
        self._allocate_runs(max(256, 2 * len(runs)), self.store.n_partitions)
        still_known = new_partition[was_known]
        self._runs.known[still_known[still_known >= 0]] = True
        self._insert(state, head, partition, rows, aggregates, unbound)
        self._pending.head = new_node[self._pending.head]
        self._pending.rows = new_row[self._pending.rows]
        self._pending.last_row = new_row[self._pending.last_row]
        self._pending.partition = new_partition[self._pending.partition]

    def _insert(
        self, state: Int64Array, head: Int64Array, partition: Int64Array, rows: Int64Array,
        aggregates: Float64Array, unbound: np.ndarray[tuple[int, ...], np.dtype[np.bool_]],
    ) -> None:  # fmt: skip
        runs, n_partitions = self._runs, len(self._runs.known)
        n = len(state)
        capacity = len(runs.state)
        runs.state[:n], runs.head[:n], runs.partition[:n] = state, head, partition
        runs.rows[:n], runs.aggregates[:n] = rows, aggregates
        for run in range(n):
            chain = n_partitions if unbound[run] else int(partition[run])
            runs.next[run] = runs.list_head[chain]
            runs.list_head[chain] = run
        runs.free[: capacity - n] = np.arange(capacity - 1, n - 1, -1)
        self._counters[kernel.N_FREE] = capacity - n
        self._counters[kernel.N_LIVE] = n

    # ------------------------------------------------------------------ state

    def save(self) -> dict[str, pa.Table]:
        """The state: kept events, nodes, runs chain by chain, known partitions, matches that wait."""
        runs, chains = kernel.live_runs(self._runs, self.n_runs)
        n_nodes = int(self._counters[kernel.N_NODES])
        known = pa.table({"partition": np.flatnonzero(self._runs.known)})
        nodes = {name: getattr(self._nodes, name)[:n_nodes] for name in ("row", "parent", "component")}
        return {
            "store": self.store.save(),
            "nodes": pa.table(nodes),
            "known": known,
            "runs": pa.table(
                {
                    "state": self._runs.state[runs],
                    "head": self._runs.head[runs],
                    "partition": self._runs.partition[runs],
                    "unbound": chains == len(self._runs.known),
                    "rows": _lists(self._runs.rows[runs]),
                    "aggregates": _lists(self._runs.aggregates[runs]),
                }
            ),
            "pending": pa.table(
                {
                    "head": self._pending.head,
                    "partition": self._pending.partition,
                    "rows": _lists(self._pending.rows),
                    "aggregates": _lists(self._pending.aggregates),
                    "values": _lists(self._pending.values),
                    "last_row": self._pending.last_row,
                }
            ),
        }

    def restore(self, state: Mapping[str, pa.Table]) -> None:
        """Take over what `save` returned; raises StateError when it does not fit."""
        missing = {"store", "nodes", "known", "runs", "pending"} - set(state)
        if missing:
            raise StateError(f"saved state of {self.plan.name} lacks {sorted(missing)}")
        self.store.restore(state["store"])
        nodes, runs, pending = state["nodes"], state["runs"], state["pending"]
        self._allocate_nodes(max(1024, 2 * nodes.num_rows))
        for name in ("row", "parent", "component"):
            getattr(self._nodes, name)[: nodes.num_rows] = nodes.column(name).to_numpy()
        self._counters[:] = 0
        self._counters[kernel.N_NODES] = nodes.num_rows
        self._allocate_runs(max(256, 2 * runs.num_rows), self.store.n_partitions)
        self._runs.known[state["known"].column("partition").to_numpy()] = True
        self._insert(
            runs.column("state").to_numpy(),
            runs.column("head").to_numpy(),
            runs.column("partition").to_numpy(),
            _matrix(runs.column("rows"), self.plan.programs.n_registers, np.int64),
            _matrix(runs.column("aggregates"), self._n_slots, np.float64),
            runs.column("unbound").to_numpy(),
        )
        self._pending = _Completed(
            pending.column("head").to_numpy().copy(),
            pending.column("partition").to_numpy().copy(),
            _matrix(pending.column("rows"), self.plan.programs.n_registers, np.int64),
            _matrix(pending.column("aggregates"), self._n_slots, np.float64),
            _matrix(pending.column("values"), len(self.plan.returns), np.float64),
            pending.column("last_row").to_numpy().copy(),
        )


def _joined(parts: list[_Completed]) -> _Completed:
    return _Completed(*(np.concatenate([getattr(p, name) for p in parts]) for name in _Completed.__dataclass_fields__))


def _longer(array: np.ndarray, extra: int) -> np.ndarray:
    longer = np.empty((len(array) + extra, *array.shape[1:]), array.dtype)
    longer[: len(array)] = array
    return longer


def _lists(matrix: np.ndarray) -> pa.Array:
    offsets = np.arange(0, matrix.size + 1, matrix.shape[1]) if matrix.shape[1] else np.zeros(len(matrix) + 1, int)
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(np.ascontiguousarray(matrix).ravel()))


def _matrix(column: pa.ChunkedArray, width: int, dtype: type) -> np.ndarray:
    flat = column.combine_chunks().flatten().to_numpy(zero_copy_only=False)
    return np.asarray(flat, dtype).reshape(len(column), width).copy()
