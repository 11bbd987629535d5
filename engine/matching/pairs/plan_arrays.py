"""A plan as the arrays of the postponed kernels: which predicates run where, and what they read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.kernels.pairs.links import LinkTables
from engine.kernels.pairs.state import BEGIN, PROCEED, TAKE, Tables
from engine.kernels.programs import opcodes as op
from engine.plan.model import Edge
from engine.plan.programs import first_register, last_register
from engine.plan.sequence.chain_form import ChainForm
from engine.plan.sequence.model import SequencePlan
from engine.plan.sequence.reads import PlanReads
from engine.stream.interner import Interner

_AGGREGATES_OF_SETS = frozenset({op.AGG_COUNT_EVENTS, op.AGG_COUNT, op.AGG_MIN, op.AGG_MAX, op.AGG_LAG})
"""Aggregates with at most as many values as events: prefixes that differ in nothing else are few."""

_EDGES = {Edge.BEGIN: BEGIN, Edge.TAKE: TAKE, Edge.PROCEED: PROCEED}


@dataclass(frozen=True)
class PostponedTables:
    """`tables` for the kernels.

    `reads_last`: conditions on what precedes the last event read it.
    `polynomial`: the count needs polynomial work; otherwise the work budget bounds it.
    `chains`: how matches are counted where only neighbours of the Kleene component are compared.
    `sequence_only`: the same pattern without any predicate that is not local, to count all combinations in order.
    """

    tables: Tables
    sequence_only: Tables
    polynomial: bool
    has_predicates: bool
    reads_last: bool
    chains: LinkTables | None


def compile_tables(plan: SequencePlan, interner: Interner, chains: ChainForm | None = None) -> PostponedTables:
    """The arrays of one plan, and of its chains of neighbours. Raises nothing: kernels evaluate what is planned."""
    return _Compiler(plan, interner, chains).compile()


class _Compiler:
    def __init__(self, plan: SequencePlan, interner: Interner, chains: ChainForm | None) -> None:
        self.plan = plan
        self.chains = chains
        self.programs = plan.programs
        self.constants = self.programs.with_strings(interner.constant)
        self.reads = PlanReads(plan)

    def compile(self) -> PostponedTables:
        plan, programs, reads = self.plan, self.programs, self.reads
        kinds, owners, columns, bases = programs.slot_arrays()
        key_registers, key_slots = self._keys()
        edges = np.array(
            [[(e.rest, e.last) for e in (s.begin, s.take, s.proceed)] for s in plan.steps], np.int32
        ).reshape(len(plan.steps), 3, 2)
        tables = Tables(
            code=programs.code,
            bounds=programs.bounds,
            constants=self.constants,
            kinds=kinds,
            owners=owners,
            slot_columns=columns,
            bases=bases,
            kleene=np.array([s.kleene for s in plan.steps], np.bool_),
            edges=edges,
            loops=_table([(k, _EDGES[e], p.program, p.over, p.over_which) for k, e, p in reads.kept_loops], 5),
            hoisted=_table([(p.over, p.program, p.over_which) for p in reads.hoisted], 3),
            falling=_table(reads.falling(), 2),
            finals=np.array(reads.finals, np.int32),
            negations=_table([(n.after, n.decided_at, n.edge.rest, n.edge.last) for n in plan.negations], 4),
            key_registers=key_registers,
            key_slots=key_slots,
            caps=reads.caps(),
            known_last=reads.known_last,
            within_ms=plan.within_ms,
        )
        live = {int(kinds[slot]) for slot in np.flatnonzero(key_slots.any(axis=0))}
        return PostponedTables(
            tables=tables,
            sequence_only=self._without_predicates(tables),
            polynomial=live <= _AGGREGATES_OF_SETS,
            has_predicates=bool(
                edges[..., 0].sum() != edges[..., 1].sum() or reads.loops or reads.finals or plan.negations
            ),
            reads_last=self._reads_last(),
            chains=None if self.chains is None else _link_tables(self.chains),
        )

    # ------------------------------------------------------------------ reads

    def _reads_last(self) -> bool:
        end = len(self.plan.steps) - 1
        if not self.reads.known_last or end == 0:
            return False
        programs = [p.program for p in self.reads.hoisted] + [program for _, program in self.reads.falling()]
        for step in self.plan.steps[:-1]:
            for edge in (step.begin, step.take, step.proceed):
                programs += [p.program for p in (*edge.predicates, *edge.loops) if not p.local]
        return bool(self.reads.of(programs).registers & {first_register(end), last_register(end)})

    # ------------------------------------------------------------------- keys

    def _keys(self) -> tuple[np.ndarray[Any, np.dtype[np.bool_]], np.ndarray[Any, np.dtype[np.bool_]]]:
        """What a prefix in each step must keep for later: bool (n_steps, n_registers), (n_steps, n_slots)."""
        plan, programs = self.plan, self.programs
        registers = np.zeros((len(plan.steps), programs.n_registers), np.bool_)
        slots = np.zeros((len(plan.steps), len(programs.slots)), np.bool_)
        constant = self.reads.known_from_start()
        for step in plan.steps:
            k = step.position
            later = self.reads.read_after(k)
            bound = {r for c in range(k + 1) for r in (first_register(c), last_register(c))}
            # The event bound last is LAST of this component, and FIRST too unless there may be several.
            own = {last_register(k)} if step.kleene else {first_register(k), last_register(k)}
            for register in (later.registers & bound) - own - constant:
                registers[k, register] = True
            for slot in self._with_bases(later.slots, k):
                if programs.slots[slot].component <= k:
                    slots[k, slot] = True
        return registers, slots

    def _with_bases(self, slots: frozenset[int], k: int) -> set[int]:
        """Those slots, and the ones that upkeep of the slots of step k needs while it may take events."""
        if not self.plan.steps[k].kleene:
            return set(slots)
        own = (slot for slot in slots if self.programs.slots[slot].component == k)
        return set(slots).union(*(self.programs.upkeep_of(slot) for slot in own))

    def _without_predicates(self, tables: Tables) -> Tables:
        n_steps, n_registers = tables.key_registers.shape
        return tables._replace(
            within_ms=2**61,
            kinds=np.empty(0, np.int32),
            owners=np.empty(0, np.int32),
            slot_columns=np.empty(0, np.int32),
            bases=np.empty(0, np.int32),
            edges=np.zeros((n_steps, 3, 2), np.int32),
            loops=_table([], 5),
            hoisted=_table([], 3),
            falling=_table([], 2),
            finals=np.empty(0, np.int32),
            negations=_table([], 4),
            key_registers=np.zeros((n_steps, n_registers), np.bool_),
            key_slots=np.zeros((n_steps, 0), np.bool_),
            caps=np.empty(0, np.float64),
        )


def _link_tables(form: ChainForm) -> LinkTables:
    return LinkTables(
        alone=np.array(form.alone, np.int32),
        links=_table([link.as_row() for link in form.links], 7),
        ordered=form.ordered,
        kleene=form.kleene,
        count_slot=form.count_slot,
        most_counted=form.most_counted,
        reads_start=form.reads_start,
        reads_end=form.reads_end,
    )


def _table(rows: Sequence[tuple[int, ...]], width: int) -> np.ndarray[Any, np.dtype[np.int32]]:
    return np.array(rows, np.int32).reshape(-1, width)


__all__ = ["PostponedTables", "compile_tables"]
