"""The automaton of a pattern that is no plain sequence: states over component occurrences, edges with formulas.

A position automaton (Glushkov) of the pattern with one counter per repeated group (its iterations) and per bounded
Kleene component (its events), so that bounds are not unrolled. AND is the shuffle product of its operands.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from engine.language import ast
from engine.plan.model import BoundVariable, Plan, PlanForm
from engine.plan.plain import is_plain
from engine.plan.programs import Programs


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One component of the pattern; `variable` is its number among all variables, positives first.

    `path`: the groups around it, outermost first. `counter`: the counter of its events, -1 without bounds.
    `at_most`: None for a Kleene component without an upper bound.
    """

    number: int
    component: ast.Component
    variable: int
    negated: bool
    closure: bool
    at_least: int
    at_most: int | None
    path: tuple[int, ...]
    counter: int


@dataclass(frozen=True, slots=True)
class Guard:
    """An edge is there while low <= counter <= high (None: no bound), before its actions."""

    counter: int
    low: int
    high: int | None


@dataclass(frozen=True, slots=True)
class Action:
    """What an edge does to a counter: `restart` sets it to 1, otherwise it grows by 1."""

    counter: int
    restart: bool


@dataclass(frozen=True, slots=True)
class Crossing:
    """An edge passes the position of a negated pattern.

    `iteration_begun`: the position belongs to the iteration that the edge begins, otherwise to the one it leaves.
    """

    negation: int
    iteration_begun: bool


@dataclass(frozen=True, slots=True)
class Check:
    """A conjunct that an edge decides.

    For every iteration of the conjunct's context that agrees with the current one in its first `depth` groups;
    `newest`: only for i = the newest event of the variable that i counts; `before`: the current iteration is the one
    before the edge's actions.
    """

    condition: int
    depth: int
    newest: bool
    before: bool


@dataclass(frozen=True, slots=True)
class AutomatonEdge:
    """An event of `occurrence` leads from `source` to `target`.

    `loops`: it takes into a Kleene component or begins another iteration. `blocks`: while it is possible, a run under
    skip till next match does not ignore the event.
    """

    source: int
    target: int
    occurrence: int
    guards: tuple[Guard, ...]
    actions: tuple[Action, ...]
    crossings: tuple[Crossing, ...]
    loops: bool
    blocks: bool
    checks: tuple[Check, ...] = ()


@dataclass(frozen=True, slots=True)
class Exit:
    """One way in which a match may end in a state."""

    state: int
    guards: tuple[Guard, ...]
    crossings: tuple[Crossing, ...]
    checks: tuple[Check, ...] = ()


@dataclass(frozen=True, slots=True)
class Term:
    """An attribute or an aggregate of a condition.

    `depth`: the iterations of how many groups around both its variable and the context select the events it is about.
    """

    node: ast.Attribute | ast.Aggregate
    variable: int
    column: int
    depth: int


@dataclass(frozen=True, slots=True)
class Condition:
    """A conjunct (or a value): `program` over its `terms`, for each iteration of `context` and each i from `first_i`.

    `stepping`: the variable that i counts, -1 without one.
    """

    expression: ast.Expression
    program: int
    terms: tuple[Term, ...]
    context: tuple[int, ...]
    stepping: int
    first_i: int
    reason: str = ""


@dataclass(frozen=True, slots=True)
class NegatedPattern:
    """A negated pattern: the state in which it starts, and where it stands.

    `path`: the groups around it. `beside`: the occurrences of other operands of an AND around it, each with the number
    of groups around that AND: their events in the same iteration of these do not bound its place. `variables`: those in
    it.
    """

    pattern: ast.Pattern
    start: int
    path: tuple[int, ...]
    beside: tuple[tuple[int, int], ...]
    variables: frozenset[int]


@dataclass(frozen=True, slots=True)
class Parallel:
    """Events of two operands of one AND: unordered when they are in one iteration of the first `depth` groups."""

    left: int
    right: int
    depth: int


@dataclass(frozen=True)
class Automaton:
    """States 0..n_states - 1; 0 is the start. Edges are sorted by source; `exits` by state.

    `variables`: names, positives first; `n_positive` of them. `n_groups`: counters 0..n_groups - 1 are those of the
    groups. `programs` are those of `conditions`: conjuncts first, then the values of RETURN, then HAVING.
    """

    occurrences: tuple[Occurrence, ...]
    variables: tuple[str, ...]
    paths: tuple[tuple[int, ...], ...]
    n_positive: int
    n_groups: int
    n_counters: int
    n_states: int
    state_texts: tuple[str, ...]
    edges: tuple[AutomatonEdge, ...]
    exits: tuple[Exit, ...]
    negations: tuple[NegatedPattern, ...]
    parallel: tuple[Parallel, ...]
    conditions: tuple[Condition, ...]
    n_conjuncts: int
    programs: Programs

    def in_every_match(self) -> frozenset[int]:
        """The positive variables of which every match has an event, as far as the states tell."""
        following: dict[int, list[tuple[int, int]]] = {}
        for edge in self.edges:
            way = self.occurrences[edge.occurrence].variable, edge.target
            following.setdefault(edge.source, []).append(way)
        ends = {end.state for end in self.exits}
        return frozenset(v for v in range(self.n_positive) if ends.isdisjoint(_reached_without(v, following)))


@dataclass(frozen=True)
class AutomatonPlan(Plan):
    """A plan whose pattern is described by an automaton.

    `steps` and `negations` are one per variable: the local predicates that an event must satisfy to be bound to it.
    """

    automaton: Automaton | None = None

    @property
    def form(self) -> PlanForm:
        """An automaton."""
        return PlanForm.AUTOMATON

    @property
    def starts(self) -> tuple[int, ...]:
        """Numbers of the variables whose event can be the first of a match."""
        states = self.states
        first = {states.occurrences[edge.occurrence].variable for edge in states.edges if edge.source == 0}
        return tuple(sorted(first))

    @property
    def bound_variables(self) -> tuple[BoundVariable, ...]:
        """See `Plan`: the positive ones."""
        automaton = self.states
        closures = {o.variable for o in automaton.occurrences if o.closure}
        return tuple(
            BoundVariable(name, number in closures, automaton.paths[number])
            for number, name in enumerate(automaton.variables[: automaton.n_positive])
        )

    @property
    def shape(self) -> tuple[str, ...] | None:
        """See `Plan`: those of a plain sequence that an automaton evaluates."""
        return self.variables if is_plain(self.query.pattern) else None

    @property
    def is_trailing(self) -> bool:
        """See `Plan`."""
        return any(end.crossings for end in self.states.exits)

    @property
    def looks_back(self) -> bool:
        """See `Plan`; assumed of all negated patterns."""
        return bool(self.states.negations)

    @property
    def ties_by_partition(self) -> bool:
        """See `Plan`."""
        return bool(self.broadcast) or self.has_partial_keys

    @property
    def states(self) -> Automaton:
        """The automaton."""
        assert self.automaton is not None
        return self.automaton


def _reached_without(variable: int, following: Mapping[int, Sequence[tuple[int, int]]]) -> set[int]:
    """The states that paths without an event of this variable lead to."""
    reached, waiting = {0}, [0]
    while waiting:
        for taken, target in following.get(waiting.pop(), ()):
            if taken != variable and target not in reached:
                reached.add(target)
                waiting.append(target)
    return reached


__all__ = [
    "Action",
    "Automaton",
    "AutomatonEdge",
    "AutomatonPlan",
    "Check",
    "Condition",
    "Crossing",
    "Exit",
    "Guard",
    "NegatedPattern",
    "Occurrence",
    "Parallel",
    "Term",
]
