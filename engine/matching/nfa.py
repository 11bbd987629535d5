"""The run-based NFAb runtime over precise events: both contiguities and skip till next match (SASE+ sections 3 to 5).

A match is decided when its last event arrives, a trailing negation when the watermark has passed its window.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from engine.errors import StateError
from engine.events import BoolArray, Float64Array, Int64Array
from engine.kernels import nfa, nfa_arrays, nfa_upkeep
from engine.kernels.opcodes import MAX_STACK
from engine.language import ast
from engine.matching.base import Limits
from engine.matching.early_filter import EarlyFilter, Masks, Survivors
from engine.matching.interner import Interner
from engine.matching.listed import ListedMatches, Matches
from engine.matching.neighbours import Neighbours
from engine.matching.output import limit, limited
from engine.matching.plan_arrays import plan_arrays
from engine.matching.results import Results, TakesMatches, bound_variables, needs_results
from engine.matching.rows import MatchRow
from engine.matching.run_memory import RunMemory, joined, where
from engine.matching.store import BROADCAST, EventStore
from engine.matching.stream import StreamColumns
from engine.plan.model import Plan

_LEAST_ROWS = 4096  # stores below this size are not compacted


class NfaRuntime:
    """Run state of one query with a contiguity or skip till next match; implements `engine.matching.base.Runtime`."""

    def __init__(self, plan: Plan, interner: Interner, limits: Limits, results: TakesMatches | None = None) -> None:
        """`results`: what becomes of matches; None: the rows of the plan's own output form."""
        self.plan = plan
        self.limits = limits
        contiguous = plan.strategy is not ast.Strategy.SKIP_TILL_NEXT_MATCH
        formed = results is not None or needs_results(plan)
        self.store = EventStore(plan, interner, placed=contiguous or formed)
        self.n_rejected = 0
        self.n_unfinished = 0  # runs are followed to their end
        self._interner = interner
        self._filter = EarlyFilter(plan, interner)
        self._masks = Masks(plan)
        self._neighbours = Neighbours(plan) if contiguous else None
        self._arrays = plan_arrays(plan, interner)
        self._memory = RunMemory(plan.programs.n_registers, len(plan.programs.slots), len(plan.returns))
        self._waits = any(negation.after == plan.n_steps - 1 for negation in plan.negations)
        self._pending = self._memory.no_matches()
        self._results = results
        if results is None and formed:
            self._results = Results(plan, interner, limits, bound_variables(plan), trailing=self._waits)
        self._compact_at = _LEAST_ROWS

    @property
    def n_rows(self) -> int:
        """Events kept."""
        return len(self.store)

    @property
    def n_runs(self) -> int:
        """Runs alive."""
        return self._memory.n_runs

    def advance(self, stream: StreamColumns, watermark_ms: int) -> Sequence[MatchRow]:
        """See `Runtime.advance`. Imprecise events are refused and counted in `n_rejected`."""
        survivors = self._survivors(stream)
        start = len(self.store)
        self._masks.append(survivors, start)
        _, end = self.store.append(stream, survivors.rows)
        if self._neighbours is not None:
            position, previous = self._neighbours.of(stream)
            self.store.position[start:end] = position[survivors.rows]
            self.store.previous[start:end] = previous[survivors.rows]
        memory = self._memory
        memory.know_partitions(self.store.n_partitions)
        completed = [self._pending]
        while start < end:
            start = self._run(start, end)
            completed.append(memory.take_matches())
            if start < end:
                memory.grow()
        decided = self._decided(joined(completed), watermark_ms)
        formed = None if self._results is None else self._formed(self._results, decided, stream, watermark_ms)
        rows = self._materialise(decided) if formed is None else formed
        if len(self.store) >= self._compact_at:
            self._compact(watermark_ms)
        return rows

    def _survivors(self, stream: StreamColumns) -> Survivors:
        """The events to be stored: precise, and accepted by some edge or needed to tell what is contiguous."""
        survivors = self._filter.select(stream)
        plan = self.plan
        if plan.strategy is ast.Strategy.PARTITION_CONTIGUITY and plan.broadcast:
            # Whether a broadcast event follows at once is told by the newest event of each partition.
            keyed = [stream.rows_of_type(name) for name in plan.keyed_types]
            survivors = survivors.with_rows(self._filter.with_key(stream, np.sort(np.concatenate(keyed))))
        imprecise = stream.t_lo_ms != stream.t_hi_ms
        if imprecise.any():
            self.n_rejected += sum(int(imprecise[stream.rows_of_type(name)].sum()) for name in plan.types)
            survivors = survivors.where(~imprecise[survivors.rows])
        return survivors

    def _run(self, start: int, end: int) -> int:
        store, masks, memory, matches = self.store, self._masks, self._memory, self._memory.matches
        return int(
            nfa.advance(
                *self._arrays,
                store.t_lo_ms, store.partition, store.position, store.previous,
                masks.begin, masks.take, masks.negated, store.columns,
                memory.runs, memory.run_aggregates, memory.free, memory.list_head, memory.chain_length,
                memory.known, memory.last_seen, memory.nodes,
                matches.fields, matches.rows, matches.aggregates, matches.values, memory.counters, start, end,
            )
        )  # fmt: skip

    # ---------------------------------------------------------------- results

    def _decided(self, matches: nfa_arrays.MatchArrays, watermark_ms: int) -> nfa_arrays.MatchArrays:
        """The matches that nothing can change any more; the others wait in `_pending`."""
        if not self._waits:
            return matches
        due = self.store.t_lo_ms[matches.rows[:, 0]] + self.plan.within_ms < watermark_ms
        self._pending = where(matches, ~due)
        matches = where(matches, due)
        last = self.plan.n_steps - 1
        trailing = [number for number, negation in enumerate(self.plan.negations) if negation.after == last]
        violated = [
            any(self._is_violated(number, int(partition), rows, aggregates) for number in trailing)
            for partition, rows, aggregates in zip(
                matches.fields[:, nfa_arrays.PARTITION], matches.rows, matches.aggregates, strict=True
            )
        ]
        return where(matches, ~np.array(violated, np.bool_))

    def _is_violated(self, negation: int, partition: int, rows: Int64Array, aggregates: Float64Array) -> bool:
        a, store = self._arrays, self.store
        return bool(
            nfa.negation_fails(
                a.code, a.bounds, a.constants, store.columns, a.negations, a.scalars, store.t_lo_ms, store.partition,
                self._masks.negated, self.plan.n_steps, negation, partition, len(store), rows, aggregates,
                np.empty(MAX_STACK, np.float64),
            )
        )  # fmt: skip

    def _materialise(self, matches: nfa_arrays.MatchArrays) -> list[MatchRow]:
        last_row = matches.rows[:, 2 * self.plan.n_steps - 1]
        order = np.lexsort((matches.rows[:, 0], last_row))
        # One more than is returned shows that rows are left out; the others would only take memory.
        chosen = where(matches, order[: limit(self.plan, self.limits) + 1])
        return limited(self.plan, self._rows(chosen), self.limits)

    def _formed(
        self, results: TakesMatches, matches: nfa_arrays.MatchArrays, stream: StreamColumns, watermark_ms: int
    ) -> Sequence[MatchRow]:
        """The rows of an output form, from at most `limits.max_listed` matches."""
        n_steps = self.plan.n_steps
        order = np.lexsort((matches.rows[:, 0], matches.rows[:, 2 * n_steps - 1]))[: self.limits.max_listed]
        chosen = where(matches, order)
        offsets, selected, components = self._spelled_out(chosen)
        listed = ListedMatches(
            partition=chosen.fields[:, nfa_arrays.PARTITION],
            offsets=offsets,
            rows=selected,
            components=components,
            iterations=None,
            confidence=np.ones(len(order)),
            values=chosen.values,
        )
        unfinished = len(order) < len(matches.fields)
        rows = results.take(Matches.of_store(self.store, listed, unfinished=unfinished), stream, watermark_ms)
        self.n_unfinished = results.n_unfinished
        return rows

    def _spelled_out(self, matches: nfa_arrays.MatchArrays) -> tuple[Int64Array, Int64Array, Int64Array]:
        """The rows that each match has selected and their components, and where those of each match begin."""
        heads = np.ascontiguousarray(matches.fields[:, nfa_arrays.HEAD])
        offsets = np.zeros(len(heads) + 1, np.int64)
        nfa_upkeep.spell_out(self._memory.nodes, heads, offsets, *(np.empty(0, np.int64) for _ in range(2)))
        selected, components = np.empty(offsets[-1], np.int64), np.empty(offsets[-1], np.int64)
        nfa_upkeep.spell_out(self._memory.nodes, heads, offsets, selected, components)
        return offsets, selected, components

    def _rows(self, matches: nfa_arrays.MatchArrays) -> list[MatchRow]:
        store, n_steps, returns = self.store, self.plan.n_steps, self.plan.returns
        offsets, selected, components = self._spelled_out(matches)
        ids = store.ids.of(selected)
        found: list[MatchRow] = []
        for at, (start, end) in enumerate(zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)):
            bounds = start + np.searchsorted(components[start:end], np.arange(n_steps + 1))
            found.append(
                MatchRow(
                    query=self.plan.name,
                    key=store.key_of(int(matches.fields[at, nfa_arrays.PARTITION])),
                    first_lo_ms=int(store.t_lo_ms[selected[start]]),
                    last_hi_ms=int(store.t_hi_ms[selected[end - 1]]),
                    bindings={s.variable: ids[bounds[s.position] : bounds[s.position + 1]] for s in self.plan.steps},
                    confidence=1.0,
                    values={r.name: store.value(v, r.type) for v, r in zip(matches.values[at], returns, strict=True)},
                )
            )
        return found

    # ------------------------------------------------------------- compaction

    def _compact(self, watermark_ms: int) -> None:
        """Drop expired runs, unreachable nodes and the events that nothing refers to any more."""
        memory, store = self._memory, self.store
        nfa_upkeep.expire(
            store.t_lo_ms, self.plan.within_ms, memory.runs, memory.free, memory.list_head, memory.chain_length,
            memory.counters, watermark_ms,
        )  # fmt: skip
        nodes, rows = memory.reachable(self._pending, len(store))
        keep = rows | self._still_negating(watermark_ms) | self._still_marking(watermark_ms)
        if self._neighbours is not None:
            kept_positions = store.position[: len(store)][keep]
            self._neighbours.forget_before(int(kept_positions.min()) if len(kept_positions) else 2**62)
        self._masks.keep(keep)
        new_row, new_partition = store.keep(keep)
        new_node = memory.renumber(nodes, new_row, new_partition, store.n_partitions)
        fields = self._pending.fields
        fields[:, nfa_arrays.HEAD] = new_node[fields[:, nfa_arrays.HEAD]]
        fields[:, nfa_arrays.PARTITION] = new_partition[fields[:, nfa_arrays.PARTITION]]
        self._pending = self._pending._replace(rows=new_row[self._pending.rows])
        self._compact_at = max(_LEAST_ROWS, 2 * len(store))

    def _still_negating(self, watermark_ms: int) -> BoolArray:
        """Rows of negated types that a match still to come may have to respect."""
        n = len(self.store)
        recent = self.store.t_hi_ms[:n] >= watermark_ms - 2 * self.plan.within_ms
        negating: BoolArray = np.any(self._masks.negated[:, :n], axis=0)
        return negating & recent

    def _still_marking(self, watermark_ms: int) -> BoolArray:
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

    # ------------------------------------------------------------------ state

    def save(self) -> dict[str, pa.Table]:
        """The state: kept events, nodes, runs chain by chain, known partitions, matches that wait."""
        store = self.store.save()
        if self._neighbours is not None:
            store = store.replace_schema_metadata({**store.schema.metadata, "neighbours": self._neighbours.save()})
        results = {} if self._results is None else self._results.save()
        return {"store": store, **self._memory.save(self._pending), **results}

    def restore(self, state: Mapping[str, pa.Table]) -> None:
        """Take over what `save` returned; raises StateError when it does not fit."""
        missing = {"store", "nodes", "known", "runs", "pending"} - set(state)
        if missing:
            raise StateError(f"saved state of {self.plan.name} lacks {sorted(missing)}")
        self.store.restore(state["store"])
        self._filter = EarlyFilter(self.plan, self._interner)
        self._masks = Masks(self.plan)
        self._masks.append(self._filter.of_store(self.store), 0)
        if self._neighbours is not None:
            self._neighbours.restore(state["store"].schema.metadata[b"neighbours"].decode())
        self._pending = self._memory.restore(state, self.store.n_partitions)
        if self._results is not None:
            self._results.restore(state)
