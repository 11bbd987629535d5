"""A plan as the arrays of the postponed kernels: which predicates run where, and what they read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.kernels import opcodes as op
from engine.kernels.postponed_state import BEGIN, PROCEED, TAKE, Tables
from engine.matching.interner import Interner
from engine.plan.model import Consistency, EdgePredicates, PlacedPredicate, Plan
from engine.plan.programs import first_register, last_register

_AGGREGATES_OF_SETS = frozenset({op.AGG_COUNT_EVENTS, op.AGG_COUNT, op.AGG_MIN, op.AGG_MAX, op.AGG_LAG})
"""Aggregates with at most as many values as events: prefixes that differ in nothing else are few."""

_COMPARISONS = frozenset({op.EQ, op.NE, op.LT, op.LE, op.GT, op.GE})


@dataclass(frozen=True, slots=True)
class Reads:
    """The registers and the aggregate slots that some programs read."""

    registers: frozenset[int]
    slots: frozenset[int]

    def __or__(self, other: Reads) -> Reads:
        return Reads(self.registers | other.registers, self.slots | other.slots)


_NOTHING = Reads(frozenset(), frozenset())


@dataclass(frozen=True)
class PostponedTables:
    """`tables` for the kernels; `countable`: matches can be counted without listing them, whatever the events.

    `countable` False: a predicate ranges over the events of a component that are no longer known when it is decided.
    `reads_last`: conditions on what precedes the last event read it.
    `polynomial`: the count needs polynomial work; otherwise the work budget bounds it.
    `sequence_only`: the same pattern without any predicate that is not local, to count all combinations in order.
    """

    tables: Tables
    sequence_only: Tables
    countable: bool
    polynomial: bool
    has_predicates: bool
    reads_last: bool
    chains: ChainForm | None


@dataclass(frozen=True, slots=True)
class ChainForm:
    """SEQ(a, b+, c) that `postponed_chains` counts: the slot of count(b[]) or -1, and the number that is like more."""

    count_slot: int
    most_counted: int


def compile_tables(plan: Plan, interner: Interner) -> PostponedTables:
    """The arrays of one plan. Raises nothing: what the planner accepts, these kernels evaluate."""
    return _Compiler(plan, interner).compile()


class _Compiler:
    def __init__(self, plan: Plan, interner: Interner) -> None:
        self.plan = plan
        self.programs = plan.programs
        self.constants = self.programs.with_strings(
            {text: interner.code(text) for _, text in self.programs.string_constants}
        )
        self.known_last = not plan.steps[-1].kleene
        self.loops = [
            (step.position, edge, predicate)
            for step in plan.steps
            for edge, predicates in ((BEGIN, step.begin), (TAKE, step.take), (PROCEED, step.proceed))
            for predicate in predicates.loops
        ]
        self.hoisted = [predicate for _, _, predicate in self.loops if self._needs_own_events_alone(predicate)]
        self.finals = [] if plan.having is None else [plan.having]

    def compile(self) -> PostponedTables:
        plan, programs = self.plan, self.programs
        kinds, owners, columns, bases = programs.slot_arrays()
        key_registers, key_slots = self._keys()
        edges = np.array(
            [[(e.rest, e.last) for e in (s.begin, s.take, s.proceed)] for s in plan.steps], np.int32
        ).reshape(len(plan.steps), 3, 2)
        kept_loops = [loop for loop in self.loops if loop[2] not in self.hoisted]
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
            loops=_table([(k, e, p.program, p.over, p.over_which) for k, e, p in kept_loops], 5),
            hoisted=_table([(p.over, p.program, p.over_which) for p in self.hoisted], 3),
            falling=_table(self._falling(), 2),
            finals=np.array(self.finals, np.int32),
            negations=_table([(n.after, n.decided_at, n.edge.rest, n.edge.last) for n in plan.negations], 4),
            key_registers=key_registers,
            key_slots=key_slots,
            caps=self._caps(),
            known_last=self.known_last,
            within_ms=plan.within_ms,
        )
        live = {int(kinds[slot]) for slot in np.flatnonzero(key_slots.any(axis=0))}
        return PostponedTables(
            tables=tables,
            sequence_only=self._without_predicates(tables),
            countable=not kept_loops,
            polynomial=live <= _AGGREGATES_OF_SETS,
            has_predicates=bool(
                edges[..., 0].sum() != edges[..., 1].sum() or self.loops or self.finals or plan.negations
            ),
            reads_last=self._reads_last(),
            chains=None if kept_loops else self._chain_form(tables.caps),
        )

    # ------------------------------------------------------------------ reads

    def _reads_last(self) -> bool:
        end = len(self.plan.steps) - 1
        if not self.known_last or end == 0:
            return False
        programs = [p.program for p in self.hoisted] + [program for _, program in self._falling()]
        for step in self.plan.steps[:-1]:
            for edge in (step.begin, step.take, step.proceed):
                programs += [p.program for p in (*edge.predicates, *edge.loops) if not p.local]
        return bool(self._reads(programs).registers & {first_register(end), last_register(end)})

    def _reads(self, programs: Iterable[int]) -> Reads:
        registers: set[int] = set()
        slots: set[int] = set()
        for program in programs:
            for operation, first, _ in self._code(program):
                if operation == op.COLUMN:
                    registers.add(first)
                elif operation == op.AGGREGATE:
                    slots.add(first)
        return Reads(frozenset(registers), frozenset(slots))

    def _code(self, program: int) -> list[tuple[int, int, int]]:
        start, end = self.programs.bounds[program], self.programs.bounds[program + 1]
        return [(int(a), int(b), int(c)) for a, b, c in self.programs.code[start:end]]

    def _edge_reads(self, edge: EdgePredicates) -> Reads:
        return self._reads(p.program for p in edge.predicates if not p.local)

    def _known_from_start(self) -> set[int]:
        """Registers that are bound for the whole search of one pair, or at every step: CURRENT."""
        known = {self.programs.current, first_register(0)}
        if not self.plan.steps[0].kleene:
            known.add(last_register(0))
        if self.known_last:
            last = len(self.plan.steps) - 1
            known |= {first_register(last), last_register(last)}
        return known

    def _needs_own_events_alone(self, predicate: PlacedPredicate) -> bool:
        """A loop that can be evaluated as soon as each event of its component is bound."""
        reads = self._reads([predicate.program])
        allowed = self._known_from_start() | {first_register(predicate.over)}
        if predicate.over_which == op.OVER_PAIRS:
            allowed.add(last_register(predicate.over))
        return reads.registers <= allowed and not reads.slots

    def _falling(self) -> list[tuple[int, int]]:
        """Predicates on max, min or count that cannot become true again as their component takes more events."""
        found: list[tuple[int, int]] = []
        for step in self.plan.steps:
            for predicate in (*step.begin.predicates, *step.proceed.predicates):
                reads = self._reads([predicate.program])
                owners = {self.programs.slots[slot].component for slot in reads.slots}
                plain = all(self.programs.slots[slot].kind != op.AGG_LAG for slot in reads.slots)
                if (
                    predicate.consistency is Consistency.TRUE
                    and predicate.over < 0
                    and len(owners) == 1
                    and plain
                    and reads.registers <= self._known_from_start() - {self.programs.current}
                ):
                    found.append((owners.pop(), predicate.program))
        return found

    def _chain_form(self, caps: np.ndarray[Any, np.dtype[np.float64]]) -> ChainForm | None:
        """How to count chains by neighbours alone, where that is possible."""
        plan = self.plan
        if [step.kleene for step in plan.steps] != [False, True, False] or plan.negations:
            return None
        step = plan.steps[1]
        known = self._known_from_start() | {last_register(1)}
        between = self._edge_reads(step.take) | self._reads(p.program for p in self.hoisted)
        if not between.registers <= known or between.slots or self._edge_reads(step.begin).slots or self._falling():
            return None
        slots = self._read_after(1).slots
        if any(self.programs.slots[slot].kind != op.AGG_COUNT_EVENTS or np.isinf(caps[slot]) for slot in slots):
            return None
        return ChainForm(max(slots, default=-1), int(max((caps[slot] for slot in slots), default=1.0)))

    # ------------------------------------------------------------------- keys

    def _keys(self) -> tuple[np.ndarray[Any, np.dtype[np.bool_]], np.ndarray[Any, np.dtype[np.bool_]]]:
        """What a prefix in each step must keep for later: bool (n_steps, n_registers), (n_steps, n_slots)."""
        plan, programs = self.plan, self.programs
        registers = np.zeros((len(plan.steps), programs.n_registers), np.bool_)
        slots = np.zeros((len(plan.steps), len(programs.slots)), np.bool_)
        constant = self._known_from_start()
        for step in plan.steps:
            k = step.position
            later = self._read_after(k)
            bound = {r for c in range(k + 1) for r in (first_register(c), last_register(c))}
            # The event bound last is LAST of this component, and FIRST too unless there may be several.
            own = {last_register(k)} if step.kleene else {first_register(k), last_register(k)}
            for register in (later.registers & bound) - own - constant:
                registers[k, register] = True
            for slot in self._with_bases(later.slots, k):
                if programs.slots[slot].component <= k:
                    slots[k, slot] = True
        return registers, slots

    def _read_after(self, k: int) -> Reads:
        """Everything that is still read of a match whose last event is in step k."""
        plan = self.plan
        reads = self._reads(self.finals)
        if plan.steps[k].kleene:
            reads |= self._edge_reads(plan.steps[k].take)
        reads |= self._edge_reads(plan.steps[k].proceed)
        for step in plan.steps[k + 1 :]:
            for edge in (step.begin, step.take, step.proceed):
                reads |= self._edge_reads(edge)
        for negation in plan.negations:
            if negation.decided_at > k:
                neighbours = set()
                if negation.after >= 0:
                    neighbours.add(last_register(negation.after))
                if negation.after + 1 < len(plan.steps):
                    neighbours.add(first_register(negation.after + 1))
                reads |= Reads(frozenset(neighbours), frozenset()) | self._edge_reads(negation.edge)
        for predicate in self.hoisted:
            if predicate.over >= k:
                reads |= self._reads([predicate.program])
        for owner, program in self._falling():
            if owner >= k:
                reads |= self._reads([program])
        return reads

    def _with_bases(self, slots: frozenset[int], k: int) -> set[int]:
        """Those slots, and the ones that upkeep of the slots of step k needs while it may take events."""
        found = set(slots)
        if self.plan.steps[k].kleene:
            for slot in sorted(slots, reverse=True):
                definition = self.programs.slots[slot]
                if definition.component != k:
                    continue
                needed = [slot]
                if definition.kind == op.AGG_LAG:
                    needed.append(definition.base)
                for number in needed:
                    kind = self.programs.slots[number].kind
                    depth = {op.AGG_MEAN: 1, op.AGG_M2: 2}.get(kind, 0)
                    found.update(range(number - depth, number + 1))
        return found

    # ------------------------------------------------------------------- caps

    def _caps(self) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Per slot of a count the value beyond which every program gives the same answer; inf where there is none."""
        slots = self.programs.slots
        caps = np.full(len(slots), np.inf)
        counts = {n for n, s in enumerate(slots) if s.kind in (op.AGG_COUNT_EVENTS, op.AGG_COUNT)}
        counts |= {n for n, s in enumerate(slots) if s.kind == op.AGG_LAG and s.base in counts}
        highest: dict[int, float] = {}
        free: set[int] = set()
        for program in sorted(set(range(len(self.programs.bounds) - 1)) - {v.program for v in self.plan.returns}):
            code = self._code(program)
            for at, (operation, slot, _) in enumerate(code):
                if operation != op.AGGREGATE or slot not in counts:
                    continue
                constant = self._compared_with(code, at)
                if constant is None or np.isnan(constant):
                    free.add(slot)
                else:
                    highest[slot] = max(highest.get(slot, 0.0), constant)
        for slot in sorted(counts, reverse=True):  # LAG slots stand after their base
            if slots[slot].kind == op.AGG_LAG:
                base = slots[slot].base
                if slot in free:
                    free.add(base)
                elif slot in highest:
                    highest[base] = max(highest.get(base, 0.0), highest[slot])
        for n, slot_definition in enumerate(slots):
            if slot_definition.kind == op.AGG_MEAN:
                free.add(n - 1)
        for slot in counts - free:
            caps[slot] = np.floor(max(highest.get(slot, 0.0), 0.0)) + 1.0
        return caps

    def _compared_with(self, code: list[tuple[int, int, int]], at: int) -> float | None:
        """The constant that the count pushed at `at` is compared with, None when it is used otherwise."""
        if at + 2 < len(code) and code[at + 1][0] == op.CONST and code[at + 2][0] in _COMPARISONS:
            return float(self.constants[code[at + 1][1]])
        if at >= 1 and at + 1 < len(code) and code[at - 1][0] == op.CONST and code[at + 1][0] in _COMPARISONS:
            return float(self.constants[code[at - 1][1]])
        return None

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


def _table(rows: Sequence[tuple[int, ...]], width: int) -> np.ndarray[Any, np.dtype[np.int32]]:
    return np.array(rows, np.int32).reshape(-1, width)


__all__ = ["PostponedTables", "Reads", "compile_tables"]
