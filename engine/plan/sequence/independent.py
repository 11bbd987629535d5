"""Queries whose Kleene events are selected independently of each other.

Between one first and one last event a match of such a query is any selection of candidates in order of time: whether an
event may be selected depends on itself and on the single components alone, never on what else is selected. What the
selection as a whole must fulfil is of two kinds: some selected event has a property (`x < max(b[].p)` holds exactly
when it holds for the p of one event), and its size is one of some (`count(b[]) >= 4`). Then matches are counted in
closed form, or by a dynamic program over the candidates, and listed with nothing tried in vain.

SASE++ section 5.2 in these terms: a true-value consistent comparison drops the events for which it is FALSE and needs
one for which it is TRUE; a false-value consistent one only the latter. NULLs: an event whose p is NULL makes the
comparison UNKNOWN; it neither spoils nor helps, as aggregates leave it out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from engine.kernels.programs import opcodes as op
from engine.kernels.programs.predicates import evaluate
from engine.language import ast
from engine.plan.model import Consistency, PlacedPredicate, Step
from engine.plan.programs import Int32Array, Programs, first_register, last_register
from engine.plan.sequence.model import SequencePlan

MAX_FLAGS = 6
MAX_SIZE = 64
"""Properties and sizes of a selection that are told apart: their product bounds the work per candidate."""

_SWAPPED = {op.LT: op.GT, op.LE: op.GE, op.GT: op.LT, op.GE: op.LE}
_COMPARISONS = frozenset({op.EQ, op.NE, op.LT, op.LE, op.GT, op.GE})
_OUTPUTS = frozenset({ast.Output.ALL, ast.Output.COLLAPSED, ast.Output.COUNT})


@dataclass(frozen=True)
class IndependentForm:
    """A plan of the form [S,] K [, S]: K a Kleene component, S single ones; numbers are programs of `code`.

    kleene: the position of K. code, bounds: the plan's programs, then those of `properties`. on_first, on_last: what
    must hold of the first and the last event of a pair, each as CURRENT with both ends bound. begin, take: what K's
    first and each later event must fulfil, `each` what all of them must. properties: (program, operation, column,
    drops): one selected event must fulfil `value of program, operation, its own column`, where the program reads the
    ends of the pair; `drops`: an event for which that is FALSE must not be selected. sizes: whether a selection of k
    events may be a match, k from 0; the last entry stands for all greater k. varies: whether candidates are judged by
    the first event too; reads_last: by the last one.
    """

    kleene: int
    n_steps: int
    code: Int32Array
    bounds: Int32Array
    on_first: tuple[int, ...]
    on_last: tuple[int, ...]
    begin: tuple[int, ...]
    take: tuple[int, ...]
    each: tuple[int, ...]
    properties: tuple[tuple[int, int, int, bool], ...]
    sizes: tuple[bool, ...]
    varies: bool
    reads_last: bool

    @property
    def note(self) -> str:
        """One line for `explain`: how the Kleene events of a match are chosen."""
        parts = ["each Kleene event by itself"]
        if self.properties:
            parts.append(f"one of them with each of {len(self.properties)} properties")
        if len(self.sizes) > 2:
            parts.append("their number bounded")
        return f"{', '.join(parts)}: counted without listing, listed without vain attempts"


@dataclass(frozen=True)
class OtherForm:
    """Why a plan is not of the form."""

    reason: str


def independent_form(plan: SequencePlan) -> IndependentForm | OtherForm:
    """The form of a plan, or why it has another."""
    try:
        return Analysis(plan).form()
    except NotIndependentError as error:
        return OtherForm(str(error))


class NotIndependentError(Exception):
    """The plan has another form, for the reason given."""


class Analysis:
    """What the predicates of a plan ask of single events, of each Kleene event and of a selection as a whole."""

    def __init__(self, plan: SequencePlan) -> None:
        self.plan = plan
        self.programs = plan.programs
        self.properties: list[tuple[list[tuple[int, int, int]], int, int, bool]] = []
        self.sized: list[int] = []

    def form(self) -> IndependentForm:
        plan = self.plan
        kleene = self._kleene()
        first, last = plan.steps[0], plan.steps[-1]
        on_first = self._plain(first.begin.predicates, None)
        on_last = [] if last.kleene else self._plain(last.begin.predicates, last)
        if last is first:
            on_last = []
        for step in plan.steps:
            if step is not kleene:
                on_last += self._plain(step.proceed.predicates, step)
        on_last += self._plain(kleene.proceed.predicates, kleene)
        begin, take, each = self._on_elements(kleene)
        if len(self.properties) > MAX_FLAGS:
            raise NotIndependentError(f"more than {MAX_FLAGS} comparisons with min or max")
        code, bounds = self.programs.code, self.programs.bounds
        n_programs = len(bounds) - 1
        for limit, *_ in self.properties:
            code = np.concatenate((code, np.array(limit, np.int32).reshape(-1, 3)))
            bounds = np.append(bounds, len(code)).astype(np.int32)
        judged = [*begin, *take, *each, *range(n_programs, n_programs + len(self.properties))]
        first_registers = {first_register(0)} if plan.n_steps == 1 else {first_register(0), last_register(0)}
        end = plan.n_steps - 1
        last_registers = {last_register(end)} if last.kleene else {first_register(end), last_register(end)}
        return IndependentForm(
            kleene=kleene.position,
            n_steps=plan.n_steps,
            code=code,
            bounds=bounds,
            on_first=tuple(on_first),
            on_last=tuple(on_last),
            begin=tuple(begin),
            take=tuple(take),
            each=tuple(each),
            properties=tuple((n_programs + k, a, b, drops) for k, (_, a, b, drops) in enumerate(self.properties)),
            sizes=self._sizes(kleene),
            varies=any(self._registers(code[bounds[p] : bounds[p + 1]]) & first_registers for p in judged),
            reads_last=any(self._registers(code[bounds[p] : bounds[p + 1]]) & last_registers for p in judged),
        )

    def _kleene(self) -> Step:
        """The one Kleene component of a plan of the right shape."""
        plan = self.plan
        kleene = self._only_kleene()
        if kleene.position > 1 or plan.n_steps - kleene.position > 2:
            raise NotIndependentError("more than one single component before or after the Kleene component")
        if plan.strict_ties:
            raise NotIndependentError("equal timestamps are not ordered (TIES STRICT)")
        if plan.steps[-1].event_type in plan.broadcast:
            raise NotIndependentError("the last event is of every partition")
        return kleene

    def _only_kleene(self) -> Step:
        """The Kleene component of a plan that has no other and looks at pairs of a first and a last event."""
        plan = self.plan
        if plan.strategy is not ast.Strategy.SKIP_TILL_ANY_MATCH:
            raise NotIndependentError(f"the strategy is {plan.strategy.value}")
        if plan.output not in _OUTPUTS:
            raise NotIndependentError(f"OUTPUT {plan.output.value}")
        found = [step for step in plan.steps if step.kleene]
        if len(found) != 1:
            raise NotIndependentError(f"the pattern has {len(found)} Kleene components, not one")
        if plan.selects:
            raise NotIndependentError("windows of the query's own, SELECT FIRST and CONSUME look at matches one by one")
        if plan.negations:
            raise NotIndependentError("the pattern has a negation")
        if plan.having is not None:
            raise NotIndependentError("the query has HAVING")
        return found[0]

    # ------------------------------------------------------------- predicates

    def _known(self) -> set[int]:
        """Registers that are known of a pair before anything is selected."""
        known: set[int] = set()
        last = self.plan.n_steps - 1
        for step in self.plan.steps:
            k = step.position
            if not step.kleene or k == 0:
                known.add(first_register(k))
            if not step.kleene or k == last:
                known.add(last_register(k))
        return known

    def _plain(self, predicates: Iterable[PlacedPredicate], step: Step | None) -> list[int]:
        """Programs on a pair; conditions on the whole selection are set aside. step None: the first component."""
        kept: list[int] = []
        for predicate in predicates:
            if predicate.local or predicate.over >= 0:
                continue
            code = self._code(predicate)
            if self._slots(code):
                self._whole_selection(predicate, code)
                continue
            allowed = self._known()
            if step is None or not step.kleene:
                allowed = allowed | {self.programs.current}
            if not self._registers(code) <= allowed:
                raise NotIndependentError("a condition on an end of the selection that its neighbours do not fix")
            kept.append(predicate.program)
        return kept

    def _on_elements(self, kleene: Step) -> tuple[list[int], list[int], list[int]]:
        """Programs on the first selected event (unless it is the first of the match), on later ones, on all."""
        first = first_register(kleene.position)
        begin = [] if kleene.position == 0 else self._elements(kleene.begin.predicates, first)
        take = self._elements(kleene.take.predicates)
        each, later = self._loops()
        return begin, take + later, each

    def _elements(self, predicates: Iterable[PlacedPredicate], *own: int) -> list[int]:
        """Programs on one selected event."""
        allowed = (self._known() | {self.programs.current, *own}) - {last_register(self._kleene().position)}
        kept: list[int] = []
        for predicate in predicates:
            if predicate.local:
                continue
            code = self._code(predicate)
            if predicate.over >= 0 or self._slots(code) or not self._registers(code) <= allowed:
                raise NotIndependentError("a Kleene event is compared with others that are selected")
            kept.append(predicate.program)
        return kept

    def _loops(self) -> tuple[list[int], list[int]]:
        """Programs on every selected event that are evaluated when a later one is bound, and those on all but the
        first."""
        allowed = self._known() | {self.programs.current}
        kept: dict[int, list[int]] = {op.OVER_ALL: [], op.OVER_LATER: []}
        for step in self.plan.steps:
            for edge in (step.begin, step.take, step.proceed):
                for predicate in edge.loops:
                    code = self._code(predicate)
                    one = predicate.over_which in kept and not self._slots(code)
                    if not one or not self._registers(code) <= allowed:
                        raise NotIndependentError("a Kleene event is compared with others that are selected")
                    kept[predicate.over_which].append(predicate.program)
        return kept[op.OVER_ALL], kept[op.OVER_LATER]

    def _whole_selection(self, predicate: PlacedPredicate, code: list[tuple[int, int, int]]) -> None:
        """A condition on an aggregate: a property that one event must have, or a bound on the size."""
        slots = self._slots(code)
        kinds = {self.programs.slots[slot].kind for slot in slots}
        if kinds == {op.AGG_COUNT_EVENTS} and not self._registers(code):
            self.sized.append(predicate.program)
            return
        extreme = len(slots) == 1 and kinds <= {op.AGG_MIN, op.AGG_MAX}
        ordered = predicate.consistency in (Consistency.TRUE, Consistency.FALSE)
        sides = (
            (predicate.conjunct.left, predicate.conjunct.right)
            if isinstance(predicate.conjunct, ast.Comparison)
            else ()
        )
        alone = sum(isinstance(side, ast.Aggregate) for side in sides) == 1
        if not (extreme and ordered and alone and self._registers(code) <= self._known()):
            raise NotIndependentError("an aggregate of the selection is more than compared with a single event")
        column = self.programs.slots[slots.pop()].column
        operation = code[-1][0]
        if code[0][0] == op.AGGREGATE:
            limit, operation = code[1:-1], _SWAPPED.get(operation, operation)
        else:
            limit = code[:-2]
        self.properties.append((limit, operation, column, predicate.consistency is Consistency.TRUE))

    def _sizes(self, kleene: Step) -> tuple[bool, ...]:
        """For each size whether all conditions on count(b[]) hold; see `IndependentForm.sizes`."""
        highest = 0.0
        for program in self.sized:
            code = self._program(program)
            for at, (operation, _, _) in enumerate(code):
                if operation == op.AGGREGATE:
                    highest = max(highest, self._compared_with(code, at))
        if highest >= MAX_SIZE:
            raise NotIndependentError(f"count({kleene.variable}[]) is compared with {highest:g}, beyond {MAX_SIZE - 1}")
        n_sizes = int(max(highest, 0.0)) + 2
        return (False, *(all(_holds(self.programs, p, k) for p in self.sized) for k in range(1, n_sizes)))

    def _compared_with(self, code: list[tuple[int, int, int]], at: int) -> float:
        """The constant that the count pushed at `at` is compared with."""
        constants = self.programs.constants
        if at + 2 < len(code) and code[at + 1][0] == op.CONST and code[at + 2][0] in _COMPARISONS:
            constant = float(constants[code[at + 1][1]])
        elif at >= 1 and at + 1 < len(code) and code[at - 1][0] == op.CONST and code[at + 1][0] in _COMPARISONS:
            constant = float(constants[code[at - 1][1]])
        else:
            raise NotIndependentError("the number of selected events is more than compared with a constant")
        if np.isnan(constant):
            raise NotIndependentError("the number of selected events is compared with NULL")
        return constant

    # ------------------------------------------------------------------ reads

    def _program(self, program: int) -> list[tuple[int, int, int]]:
        start, end = self.programs.bounds[program], self.programs.bounds[program + 1]
        return [(int(a), int(b), int(c)) for a, b, c in self.programs.code[start:end]]

    def _code(self, predicate: PlacedPredicate) -> list[tuple[int, int, int]]:
        return self._program(predicate.program)

    def _slots(self, code: list[tuple[int, int, int]]) -> set[int]:
        return {b for a, b, _ in code if a == op.AGGREGATE}

    def _registers(self, code: Iterable[Iterable[int]]) -> set[int]:
        return {int(b) for a, b, _ in code if a == op.COLUMN}


def _holds(programs: Programs, program: int, size: int) -> bool:
    """The truth of a program that reads nothing but the size of the selection and constants."""
    interpret = getattr(evaluate, "py_func", evaluate)  # a few values: not worth compiling
    start, end = programs.bounds[program], programs.bounds[program + 1]
    aggregates = np.full(len(programs.slots), float(size))
    no_columns, no_rows = np.empty((0, 0)), np.empty(0, np.int64)
    stack = np.empty(op.MAX_STACK)
    return bool(
        interpret(programs.code, start, end, programs.constants, no_columns, no_rows, aggregates, stack) == op.TRUE
    )


__all__ = [
    "Analysis",
    "IndependentForm",
    "NotIndependentError",
    "OtherForm",
    "independent_form",
]
