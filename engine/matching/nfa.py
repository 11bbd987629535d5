"""The run-based NFAb runtime: skip till next match over precise events (SASE+ sections 4 and 5).

A match is decided when its last event arrives, a trailing negation when the watermark has passed its window.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from engine.errors import StateError, UnsupportedQueryError
from engine.events import BoolArray
from engine.kernels import nfa, nfa_arrays, nfa_upkeep
from engine.kernels.opcodes import MAX_STACK
from engine.language import ast
from engine.matching.base import Limits
from engine.matching.early_filter import EarlyFilter
from engine.matching.interner import Interner
from engine.matching.output import limit, limited
from engine.matching.plan_arrays import plan_arrays, store_arrays
from engine.matching.rows import MatchRow
from engine.matching.run_memory import RunMemory, joined, where
from engine.matching.store import BROADCAST, EventStore
from engine.matching.stream import StreamColumns
from engine.plan.model import Plan

_LEAST_ROWS = 4096  # stores below this size are not compacted


class NfaRuntime:
    """Run state of one skip_till_next_match query; implements `engine.matching.base.Runtime`."""

    def __init__(self, plan: Plan, interner: Interner, limits: Limits) -> None:
        _check_evaluated(plan)
        self.plan = plan
        self.limits = limits
        self.store = EventStore(plan, interner)
        self.n_rejected = 0
        self.n_unfinished = 0  # runs are followed to their end
        self._filter = EarlyFilter(plan, interner)
        self._arrays = plan_arrays(plan, self.store)
        self._memory = RunMemory(plan.programs.n_registers, len(plan.programs.slots), len(plan.returns))
        self._waits = any(negation.after == plan.n_steps - 1 for negation in plan.negations)
        self._pending = self._memory.no_matches()
        self._compact_at = _LEAST_ROWS

    @property
    def n_rows(self) -> int:
        """Events kept."""
        return len(self.store)

    @property
    def n_runs(self) -> int:
        """Runs alive."""
        return self._memory.n_runs

    def advance(self, stream: StreamColumns, watermark_ms: int) -> list[MatchRow]:
        """See `Runtime.advance`. Imprecise events are refused and counted in `n_rejected`."""
        rows = self._filter.select(stream).rows
        imprecise = stream.t_lo_ms != stream.t_hi_ms
        if imprecise.any():
            self.n_rejected += sum(int(imprecise[stream.rows_of_type(name)].sum()) for name in self.plan.types)
            rows = rows[~imprecise[rows]]
        start, end = self.store.append(stream, rows)
        memory = self._memory
        memory.know_partitions(self.store.n_partitions)
        completed = [self._pending]
        while start < end:
            state = (memory.runs, memory.nodes, memory.matches, memory.counters)
            start = nfa.advance(self._arrays, store_arrays(self.store), *state, start, end)
            completed.append(memory.take_matches())
            if start < end:
                memory.grow()
        rows = self._materialise(self._decided(joined(completed), watermark_ms))
        if len(self.store) >= self._compact_at:
            self._compact(watermark_ms)
        return rows

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
        stack, store = np.empty(MAX_STACK, np.float64), store_arrays(self.store)
        violated = [
            any(
                nfa.negation_fails(
                    self._arrays, store, number, partition, len(self.store),
                    matches.rows[at], matches.aggregates[at], stack,
                )
                for number in trailing
            )
            for at, partition in enumerate(matches.fields[:, nfa_arrays.PARTITION])
        ]  # fmt: skip
        return where(matches, ~np.array(violated, np.bool_))

    def _materialise(self, matches: nfa_arrays.MatchArrays) -> list[MatchRow]:
        last_row = matches.rows[:, 2 * self.plan.n_steps - 1]
        order = np.lexsort((matches.rows[:, 0], last_row))
        # One more than is returned shows that rows are left out; the others would only take memory.
        order = order[: limit(self.plan, self.limits) + 1]
        return limited(self.plan, [self._row(matches, int(at)) for at in order], self.limits)

    def _row(self, matches: nfa_arrays.MatchArrays, at: int) -> MatchRow:
        store, n_steps = self.store, self.plan.n_steps
        head, partition = (int(field) for field in matches.fields[at])
        selected, components = nfa_upkeep.selected_rows(self._memory.nodes, head)
        ids = store.ids.of(selected)
        ends = np.searchsorted(components, np.arange(n_steps + 1))
        return MatchRow(
            query=self.plan.name,
            key=store.key_of(partition),
            first_lo_ms=int(store.t_lo_ms[selected[0]]),
            last_hi_ms=int(store.t_hi_ms[selected[-1]]),
            bindings={s.variable: ids[ends[s.position] : ends[s.position + 1]] for s in self.plan.steps},
            confidence=1.0,
            values={r.name: store.value(matches.values[at, k], r.type) for k, r in enumerate(self.plan.returns)},
        )

    # ------------------------------------------------------------- compaction

    def _compact(self, watermark_ms: int) -> None:
        """Drop expired runs, unreachable nodes and the events that nothing refers to any more."""
        memory, store = self._memory, self.store
        nfa_upkeep.expire(self._arrays, store_arrays(store), memory.runs, memory.counters, watermark_ms)
        nodes, rows = memory.reachable(self._pending)
        keep = self._still_negating(watermark_ms) | self._still_marking(watermark_ms)
        keep[rows] = True
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
        codes = [self.store.types.index(negation.event_type) for negation in self.plan.negations]
        recent = self.store.t_hi_ms[:n] >= watermark_ms - 2 * self.plan.within_ms
        return np.isin(self.store.type_index[:n], codes) & recent

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
        return {"store": self.store.save(), **self._memory.save(self._pending)}

    def restore(self, state: Mapping[str, pa.Table]) -> None:
        """Take over what `save` returned; raises StateError when it does not fit."""
        missing = {"store", "nodes", "known", "runs", "pending"} - set(state)
        if missing:
            raise StateError(f"saved state of {self.plan.name} lacks {sorted(missing)}")
        self.store.restore(state["store"])
        self._pending = self._memory.restore(state, self.store.n_partitions)


def _check_evaluated(plan: Plan) -> None:
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
