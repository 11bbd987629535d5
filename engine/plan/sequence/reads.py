"""What the predicates of a plan read, where they can be evaluated, and what is read of a match later on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from engine.events import Float64Array
from engine.kernels.programs import opcodes as op
from engine.plan.model import Consistency, Edge, EdgePredicates, PlacedPredicate
from engine.plan.programs import first_register, last_register
from engine.plan.sequence.model import SequencePlan

_COMPARISONS = frozenset({op.EQ, op.NE, op.LT, op.LE, op.GT, op.GE})


@dataclass(frozen=True, slots=True)
class Reads:
    """The registers and the aggregate slots that some programs read."""

    registers: frozenset[int]
    slots: frozenset[int]

    def __or__(self, other: Reads) -> Reads:
        return Reads(self.registers | other.registers, self.slots | other.slots)


_NOTHING = Reads(frozenset(), frozenset())


class PlanReads:
    """The reads of one plan.

    loops: (position of the step, its edge, predicate) of predicates that range over an earlier Kleene component;
    `hoisted` are those that can be evaluated as soon as each event of their component is bound, `kept_loops` the rest.
    """

    def __init__(self, plan: SequencePlan) -> None:
        self.plan = plan
        self.programs = plan.programs
        self.known_last = not plan.steps[-1].kleene
        self.loops = [
            (step.position, edge, predicate)
            for step in plan.steps
            for edge, predicates in ((Edge.BEGIN, step.begin), (Edge.TAKE, step.take), (Edge.PROCEED, step.proceed))
            for predicate in predicates.loops
        ]
        self.hoisted = [predicate for _, _, predicate in self.loops if self._needs_own_events_alone(predicate)]
        self.kept_loops = [loop for loop in self.loops if loop[2] not in self.hoisted]
        self.finals = [] if plan.having is None else [plan.having]

    def of(self, programs: Iterable[int]) -> Reads:
        """Everything that some programs read."""
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

    def of_edge(self, edge: EdgePredicates) -> Reads:
        """What the predicates of an edge read that are not local, loops apart."""
        return self.of(p.program for p in edge.predicates if not p.local)

    def known_from_start(self) -> set[int]:
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
        reads = self.of([predicate.program])
        allowed = self.known_from_start() | {first_register(predicate.over)}
        if predicate.over_which == op.OVER_PAIRS:
            allowed.add(last_register(predicate.over))
        return reads.registers <= allowed and not reads.slots

    def falling(self) -> list[tuple[int, int]]:
        """Predicates on max, min or count that cannot become true again as their component takes more events."""
        found: list[tuple[int, int]] = []
        for step in self.plan.steps:
            for predicate in (*step.begin.predicates, *step.proceed.predicates):
                reads = self.of([predicate.program])
                owners = {self.programs.slots[slot].component for slot in reads.slots}
                plain = all(self.programs.slots[slot].kind != op.AGG_LAG for slot in reads.slots)
                if (
                    predicate.consistency is Consistency.TRUE
                    and predicate.over < 0
                    and len(owners) == 1
                    and plain
                    and reads.registers <= self.known_from_start() - {self.programs.current}
                ):
                    found.append((owners.pop(), predicate.program))
        return found

    def read_after(self, k: int) -> Reads:
        """Everything that is still read of a match whose last event is in step k."""
        plan = self.plan
        reads = self.of(self.finals)
        if plan.steps[k].kleene:
            reads |= self.of_edge(plan.steps[k].take)
        reads |= self.of_edge(plan.steps[k].proceed)
        for step in plan.steps[k + 1 :]:
            for edge in (step.begin, step.take, step.proceed):
                reads |= self.of_edge(edge)
        for negation in plan.negations:
            if negation.decided_at > k:
                neighbours = set()
                if negation.after >= 0:
                    neighbours.add(last_register(negation.after))
                if negation.after + 1 < len(plan.steps):
                    neighbours.add(first_register(negation.after + 1))
                reads |= Reads(frozenset(neighbours), frozenset()) | self.of_edge(negation.edge)
        for predicate in self.hoisted:
            if predicate.over >= k:
                reads |= self.of([predicate.program])
        for owner, program in self.falling():
            if owner >= k:
                reads |= self.of([program])
        return reads

    def caps(self) -> Float64Array:
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
            return float(self.programs.constants[code[at + 1][1]])
        if at >= 1 and at + 1 < len(code) and code[at - 1][0] == op.CONST and code[at + 1][0] in _COMPARISONS:
            return float(self.programs.constants[code[at - 1][1]])
        return None


__all__ = ["PlanReads", "Reads"]
