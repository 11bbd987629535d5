"""From a pattern to the states and edges of its automaton, by taking derivatives (Antimirov, Glushkov).

A state is what of the pattern is still to come. A move consumes one event and leaves another rest; an exit is a way to
need no further event. Guards on counters stand for the bounds of repetitions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import permutations, product

from engine.errors import Span, UnsupportedQueryError
from engine.language import ast
from engine.language.scopes import Variable
from engine.plan.automaton.model import (
    Action,
    AutomatonEdge,
    Crossing,
    Exit,
    Guard,
    NegatedPattern,
    Occurrence,
    Parallel,
)
from engine.plan.rewrites import expanded, rewritten

MAX_STATES = 1_000
MAX_EDGES = 20_000


@dataclass(frozen=True, slots=True)
class Once:
    """One event."""

    occurrence: int


@dataclass(frozen=True, slots=True)
class Closure:
    """One or more events of a Kleene component; `begun` when it has some."""

    occurrence: int
    begun: bool


@dataclass(frozen=True, slots=True)
class Chain:
    """The parts one after the other."""

    parts: tuple[Rest, ...]


@dataclass(frozen=True, slots=True)
class Either:
    """One of the parts."""

    parts: tuple[Rest, ...]


@dataclass(frozen=True, slots=True)
class Shuffle:
    """All of the parts, interleaved."""

    parts: tuple[Rest, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """Iterations of a body; `begun` when one is complete."""

    number: int
    body: Rest
    begun: bool


@dataclass(frozen=True, slots=True)
class Absent:
    """The position of a negated pattern."""

    negation: int


Rest = Once | Closure | Chain | Either | Shuffle | Group | Absent
NOTHING = Chain(())


@dataclass(frozen=True, slots=True)
class _Move:
    occurrence: int
    rest: Rest
    guards: tuple[Guard, ...] = ()
    actions: tuple[Action, ...] = ()
    crossings: tuple[Crossing, ...] = ()
    loops: bool = False
    blocks: bool = True


@dataclass(frozen=True, slots=True)
class _Way:
    """A way to pass something without an event."""

    guards: tuple[Guard, ...] = ()
    crossings: tuple[Crossing, ...] = ()


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bounds of a group's iterations."""

    at_least: int
    at_most: int | None


@dataclass
class StateBuilder:
    """Collects occurrences, groups, states and edges of one pattern (with its negated patterns).

    `variables`: what the resolver knows of them; `numbers`: their numbers, positives first.
    """

    variables: Mapping[str, Variable]
    numbers: Mapping[str, int]
    span: Span | None
    occurrences: list[Occurrence] = field(default_factory=list)
    groups: dict[int, Bounds] = field(default_factory=dict)
    negations: list[NegatedPattern] = field(default_factory=list)
    parallel: list[Parallel] = field(default_factory=list)
    states: dict[Rest, int] = field(default_factory=dict)
    edges: list[AutomatonEdge] = field(default_factory=list)
    exits: list[Exit] = field(default_factory=list)
    _n_groups: int = 0
    _n_counters: int = 0
    _bodies: list[tuple[int, Rest]] = field(default_factory=list)

    @property
    def n_groups(self) -> int:
        """Number of group counters; some may be unused."""
        return self._n_groups

    @property
    def n_counters(self) -> int:
        """Number of counters."""
        return self._n_counters

    def build(self, pattern: ast.Pattern) -> None:
        """Fill in everything for this pattern."""
        self._n_groups = 1 + max((g for v in self.variables.values() for g in v.path), default=-1)
        self._n_counters = self._n_groups
        start = self._rest(pattern, ())
        self._explore(start)
        for number, body in self._bodies:
            state = self._explore(body)
            self.negations[number] = replace(self.negations[number], start=state)

    # ---------------------------------------------------------------- pattern

    def _rest(self, pattern: ast.Pattern, path: tuple[int, ...], *, negated: bool = False) -> Rest:
        match pattern:
            case ast.Component():
                return self._component(pattern, path, Bounds(1, None if pattern.kleene else 1), negated=negated)
            case ast.Sequence(parts=parts):
                return _chain(self._rest(part, path, negated=negated) for part in parts)
            case ast.Conjunction(parts=parts):
                return self._shuffle(parts, path, negated=negated)
            case ast.Negation(pattern=inner):
                return self._negation(inner, path)
            case ast.Repeat():
                return self._repeat(pattern, path, negated=negated)
            case ast.Alternative() | ast.AnyOf():
                return Either(tuple(self._rest(part, path, negated=negated) for part in expanded(pattern)))

    def _component(self, component: ast.Component, path: tuple[int, ...], bounds: Bounds, *, negated: bool) -> Rest:
        closure = bounds.at_most != 1
        counter = -1
        if closure and (bounds.at_least > 1 or bounds.at_most is not None):
            counter = self._n_counters
            self._n_counters += 1
        number = len(self.occurrences)
        variable = self.numbers[component.variable]
        self.occurrences.append(
            Occurrence(number, component, variable, negated, closure, bounds.at_least, bounds.at_most, path, counter)
        )
        return Closure(number, False) if closure else Once(number)

    def _repeat(self, pattern: ast.Repeat, path: tuple[int, ...], *, negated: bool) -> Rest:
        inner, at_least, at_most = pattern.pattern, max(pattern.at_least, 1), pattern.at_most
        if isinstance(inner, ast.Component) and not inner.kleene:
            return self._component(inner, path, Bounds(at_least, at_most), negated=negated)
        variable = next(self.variables[component.variable] for component, _ in ast.components(inner))
        group = variable.path[len(path)]
        self.groups[group] = Bounds(at_least, at_most)
        # Each iteration is of one of the patterns that the body stands for, and chooses it as it begins.
        bodies = dict.fromkeys(rewritten(body) for body in expanded(rewritten(inner)))
        rests = tuple(self._rest(body, (*path, group), negated=negated) for body in bodies)
        return Group(group, rests[0] if len(rests) == 1 else Either(rests), False)

    def _shuffle(self, parts: Iterable[ast.Pattern], path: tuple[int, ...], *, negated: bool) -> Rest:
        operands: list[Rest] = []
        members: list[list[int]] = []
        absences: list[range] = []
        for part in parts:
            first, first_negation = len(self.occurrences), len(self.negations)
            operands.append(self._rest(part, path, negated=negated))
            members.append([o.number for o in self.occurrences[first:] if o.negated == negated])
            absences.append(range(first_negation, len(self.negations)))
        for one, other in permutations(range(len(operands)), 2):
            self.parallel += [Parallel(left, right, len(path)) for left in members[one] for right in members[other]]
            for number in absences[one]:
                beside = tuple((occurrence, len(path)) for occurrence in members[other])
                self.negations[number] = replace(
                    self.negations[number], beside=(*self.negations[number].beside, *beside)
                )
        return _shuffled(tuple(operands))

    def _negation(self, inner: ast.Pattern, path: tuple[int, ...]) -> Rest:
        number = len(self.negations)
        first = len(self.occurrences)
        self.negations.append(NegatedPattern(inner, -1, path, (), frozenset()))
        body = self._rest(inner, path, negated=True)
        own = frozenset(occurrence.variable for occurrence in self.occurrences[first:])
        self._bodies.append((number, body))
        self.negations[number] = replace(self.negations[number], variables=own)
        return Absent(number)

    # ----------------------------------------------------------- derivatives

    def moves(self, rest: Rest) -> list[_Move]:
        """What one event can do in this state."""
        match rest:
            case Once(occurrence=occurrence):
                return [_Move(occurrence, NOTHING)]
            case Closure(occurrence=number, begun=begun):
                return [self._taking(self.occurrences[number], begun)]
            case Chain(parts=parts):
                return self._moves_of_chain(parts)
            case Either(parts=parts):
                return [move for part in parts for move in self.moves(part)]
            case Shuffle(parts=parts):
                return [
                    replace(move, rest=_shuffled((*parts[:k], move.rest, *parts[k + 1 :])))
                    for k, part in enumerate(parts)
                    for move in self.moves(part)
                ]
            case Group():
                return self._iterating(rest)
            case Absent():
                return []

    def _taking(self, occurrence: Occurrence, begun: bool) -> _Move:
        after = Closure(occurrence.number, True)
        counter = occurrence.counter
        if counter < 0:
            return _Move(occurrence.number, after, loops=begun)
        action = Action(counter, restart=not begun)
        most = occurrence.at_most
        guards = (Guard(counter, 0, most - 1),) if begun and most is not None else ()
        return _Move(occurrence.number, after, guards, (action,), loops=begun)

    def _iterating(self, group: Group) -> list[_Move]:
        bounds = self.groups[group.number]
        after = replace(group, begun=True)
        guards: tuple[Guard, ...] = ()
        if group.begun and bounds.at_most is not None:
            guards = (Guard(group.number, 0, bounds.at_most - 1),)
        action = Action(group.number, restart=not group.begun)
        return [
            replace(
                move,
                rest=_chain((move.rest, after)),
                guards=(*guards, *move.guards),
                actions=(action, *move.actions),
                crossings=tuple(replace(crossing, iteration_begun=True) for crossing in move.crossings),
                loops=group.begun,
            )
            for move in self.moves(group.body)
        ]

    def _moves_of_chain(self, parts: tuple[Rest, ...]) -> list[_Move]:
        own: list[_Move] = []
        later: list[_Move] = []
        ways = [_Way()]
        for k, part in enumerate(parts):
            found = [
                replace(
                    move,
                    rest=_chain((move.rest, *parts[k + 1 :])),
                    guards=(*way.guards, *move.guards),
                    crossings=(*way.crossings, *move.crossings),
                )
                for way in ways
                for move in self.moves(part)
            ]
            (later if k else own).extend(found)
            ways = [_joined(way, more) for way in ways for more in self.ways(part)]
            if not ways:
                break
        loops = any(move.loops for move in (*own, *later))
        # An operand of AND blocks by itself; elsewhere loop edges block alone where there are some.
        if not isinstance(parts[0] if parts else None, Shuffle):
            own = [replace(move, blocks=move.loops or not loops) for move in own]
        return own + [replace(move, blocks=move.loops or not loops) for move in later]

    def ways(self, rest: Rest) -> list[_Way]:
        """How nothing more may come of it."""
        match rest:
            case Once():
                return []
            case Closure(occurrence=number, begun=begun):
                least = self.occurrences[number].at_least
                guards = (Guard(self.occurrences[number].counter, least, None),) if least > 1 else ()
                return [_Way(guards)] if begun else []
            case Chain(parts=parts) | Shuffle(parts=parts):
                combined = product(*(self.ways(part) for part in parts))
                return [_all_of(ways) for ways in combined]
            case Either(parts=parts):
                return [way for part in parts for way in self.ways(part)]
            case Group(number=number, begun=begun):
                least = self.groups[number].at_least
                return [_Way((Guard(number, least, None),) if least > 1 else ())] if begun else []
            case Absent(negation=negation):
                return [_Way(crossings=(Crossing(negation, iteration_begun=False),))]

    # ------------------------------------------------------------ exploration

    def _explore(self, start: Rest) -> int:
        """Number the states that `start` leads to; states are shared with what was explored before."""
        number = self.states.setdefault(start, len(self.states))
        waiting = [start] if number == len(self.states) - 1 else []
        while waiting:
            rest = waiting.pop(0)
            source = self.states[rest]
            for move in dict.fromkeys(self.moves(rest)):
                if move.rest not in self.states:
                    self.states[move.rest] = len(self.states)
                    waiting.append(move.rest)
                self.edges.append(
                    AutomatonEdge(
                        source, self.states[move.rest], move.occurrence, move.guards, move.actions, move.crossings,
                        move.loops, move.blocks,
                    )
                )  # fmt: skip
            self.exits += [Exit(source, way.guards, way.crossings) for way in dict.fromkeys(self.ways(rest))]
            self._check_size(len(self.states), len(self.edges))
        return number

    def _check_size(self, n_states: int, n_edges: int) -> None:
        if n_states > MAX_STATES or n_edges > MAX_EDGES:
            raise UnsupportedQueryError(
                "the automaton of the pattern is too large",
                self.span,
                f"at most {MAX_STATES} states and {MAX_EDGES} edges",
                "use fewer operands of AND, or shorter ones: their states multiply",
            )

    def text(self, rest: Rest, name: Callable[[int], str]) -> str:
        """The rest as a pattern for people."""
        match rest:
            case Once(occurrence=number):
                return name(number)
            case Closure(occurrence=number, begun=begun):
                return f"{name(number)}{'*' if begun else '+'}"
            case Chain(parts=()):
                return "end"
            case Chain(parts=parts):
                return " ".join(self.text(part, name) for part in parts)
            case Either(parts=parts):
                return f"({' | '.join(self.text(part, name) for part in parts)})"
            case Shuffle(parts=parts):
                return f"({' & '.join(self.text(part, name) for part in parts)})"
            case Group(body=body, begun=begun):
                return f"({self.text(body, name)}){'*' if begun else '+'}"
            case Absent(negation=number):
                names = sorted({o.component.variable for o in self.occurrences if o.variable in self._own(number)})
                return f"!{','.join(names)}"

    def _own(self, negation: int) -> frozenset[int]:
        return self.negations[negation].variables


def _chain(parts: Iterable[Rest]) -> Rest:
    flat: list[Rest] = []
    for part in parts:
        if isinstance(part, Chain):
            flat += part.parts
        else:
            flat.append(part)
    return flat[0] if len(flat) == 1 else Chain(tuple(flat))


def _shuffled(parts: tuple[Rest, ...]) -> Rest:
    left = tuple(part for part in parts if part != NOTHING)
    if len(left) == 1:
        return left[0]
    return Shuffle(left) if left else NOTHING


def _joined(one: _Way, other: _Way) -> _Way:
    return _Way((*one.guards, *other.guards), (*one.crossings, *other.crossings))


def _all_of(ways: Iterable[_Way]) -> _Way:
    whole = _Way()
    for way in ways:
        whole = _joined(whole, way)
    return whole


__all__ = ["MAX_EDGES", "MAX_STATES", "StateBuilder"]
