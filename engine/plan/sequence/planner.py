"""From a resolved query to its plan: partitioning, placement of predicates on edges, classes, programs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from engine.errors import QueryTypeError, UnsupportedQueryError
from engine.events import TIME_ATTRIBUTE, AttributeType
from engine.kernels.programs.opcodes import OVER_ALL, OVER_LATER, OVER_PAIRS
from engine.language import ast
from engine.language.printer import print_expression
from engine.language.reading import Start
from engine.language.resolver import ResolvedQuery
from engine.plan.model import Edge, EdgePredicates, NegatedStep, PlacedPredicate, ReturnValue, Step
from engine.plan.partitioning import partitioning
from engine.plan.programs import NoPlainProgramError, ProgramBuilder
from engine.plan.sequence.consistency import classify
from engine.plan.sequence.model import SequencePlan
from engine.plan.window import window_length

_EMPTY = EdgePredicates((), 0, 0, 0)


@dataclass(frozen=True, slots=True)
class _Part:
    """A component of the flattened pattern; `position` counts positives, `after` is the positive before a negation."""

    component: ast.Component
    negated: bool
    position: int


@dataclass(frozen=True, slots=True)
class _Placement:
    edge: Edge
    target: int  # position of the step, or index of the negation
    local: bool
    over: int = -1
    over_which: int = OVER_ALL


def plan(resolved: ResolvedQuery) -> SequencePlan:
    """Plan a resolved query whose pattern is a SEQ of components and negated single components.

    Raises NoPlainProgramError for a predicate that needs an automaton plan, UnsupportedQueryError for what no runtime
    of this version evaluates.
    """
    return _Planner(resolved).plan()


class _Planner:
    def __init__(self, resolved: ResolvedQuery) -> None:
        self.resolved = resolved
        self.query = resolved.query
        self.parts = _flatten(self.query.pattern)
        self.positives = [p for p in self.parts if not p.negated]
        self.negatives = [p for p in self.parts if p.negated]
        self.positions = {p.component.variable: p.position for p in self.positives}
        self.kleene = frozenset(p.component.variable for p in self.positives if p.component.kleene)
        self.builder = ProgramBuilder(
            self.positions, frozenset(p.component.variable for p in self.negatives), self.kleene
        )
        self.notes: list[str] = []

    def plan(self) -> SequencePlan:
        query = self.query
        assert query.strategy is not None
        parted = partitioning(self.resolved, [(p.component, p.negated) for p in self.parts])
        key, broadcast = parted.key, parted.broadcast
        placed = self._assign([*self._conjuncts(), *self._residual_equivalences(key)])
        steps = tuple(self._step(p, placed, broadcast) for p in self.positives)
        negations = tuple(self._negation(i, p, placed, broadcast) for i, p in enumerate(self.negatives))
        typed = zip(query.returns, self.resolved.return_types, strict=True)
        returns = tuple(self._return_value(item, result, key) for item, result in typed)
        having = None if query.having is None else self.builder.add(query.having)
        confidence = query.confidence if isinstance(query.confidence, float | int) else None
        return SequencePlan(
            name=self.resolved.name,
            query=query,
            strategy=query.strategy,
            steps=steps,
            negations=negations,
            programs=self.builder.build(),
            key=key,
            broadcast=broadcast,
            within_ms=window_length(query),
            confidence=confidence,
            output=query.output,
            limit=query.limit if query.output is not ast.Output.TOP else query.top_k,
            ties=query.ties or ast.Ties.SOURCE,
            returns=returns,
            having=having,
            types=frozenset(p.component.event_type for p in self.parts),
            keyed_types=parted.keyed_types,
            attribute_types={**self.resolved.schema.attributes, TIME_ATTRIBUTE: AttributeType.INT},
            notes=tuple(self.notes),
            key_of_type={
                name: tuple(attribute for attribute in self.resolved.key if attribute in attributes)
                for name, attributes in self.resolved.schema.types.items()
            },
        )

    # ------------------------------------------------------------ partitions

    def _residual_equivalences(self, key: tuple[str, ...]) -> list[tuple[ast.Expression, Start]]:
        conjuncts: list[tuple[ast.Expression, Start]] = []
        for attribute in self.resolved.key:
            if attribute not in key:
                holders = [p for p in self.parts if attribute in self.resolved.keyed.get(p.component.variable, ())]
                bound = any(not p.negated for p in holders)
                for part_of_one in [holders] if bound else [[p] for p in holders]:
                    conjuncts += _equal_along(attribute, part_of_one)
                self.notes.append(f"[{attribute}] is checked as a predicate: not every keyed type has it")
        by_variable = {p.component.variable: p for p in self.parts}
        for equivalence in self.query.equivalences:
            if equivalence.variable is not None:
                conjuncts += _equal_along(equivalence.attribute, [by_variable[equivalence.variable]])
        return conjuncts

    def _conjuncts(self) -> list[tuple[ast.Expression, Start]]:
        starts = [reading.start for reading in self.resolved.reading]
        return list(zip(self.query.predicates, starts, strict=True))

    # ------------------------------------------------------------- placement

    def _assign(self, conjuncts: Iterable[tuple[ast.Expression, Start]]) -> list[tuple[_Placement, ast.Expression]]:
        placed: list[tuple[_Placement, ast.Expression]] = []
        for conjunct, reading in conjuncts:
            placed += [(placement, conjunct) for placement in self._placements(conjunct, reading)]
        return placed

    def _placements(self, conjunct: ast.Expression, reading: Start) -> list[_Placement]:
        terms = [n for n in ast.walk(conjunct) if isinstance(n, ast.Attribute | ast.Aggregate)]
        negated = {i for i, p in enumerate(self.negatives) for t in terms if t.variable == p.component.variable}
        if negated:
            return [self._on_negation(conjunct, terms, negated)]
        if not terms:
            return [_Placement(Edge.BEGIN, 0, False)]
        latest = max(self.positions[t.variable] for t in terms)
        own = [t for t in terms if self.positions[t.variable] == latest]
        earlier = [t for t in terms if self.positions[t.variable] < latest]
        _refuse_two_meanings(conjunct, terms)
        over, which = self._loop(conjunct, earlier)
        closing = any(_is_closing(t) for t in own)
        iterating = any(_is_iterating(t) for t in own)
        if closing:
            if iterating:
                later = OVER_LATER if reading is Start.FROM_SECOND else OVER_ALL
                over, which = latest, OVER_PAIRS if any(_needs_previous(t) for t in own) else later
            return [_Placement(Edge.PROCEED, latest, False, over, which)]
        if not iterating:
            local = not earlier and over < 0
            return [_Placement(Edge.BEGIN, latest, local, over, which)]
        alone = not earlier and all(isinstance(t, ast.Attribute) and t.index is ast.Index.CURRENT for t in own)
        take = _Placement(Edge.TAKE, latest, alone)
        if reading is Start.FROM_SECOND or any(_needs_previous(t) for t in own):
            return [take]
        return [_Placement(Edge.BEGIN, latest, alone), take]

    def _loop(self, conjunct: ast.Expression, earlier: list[ast.Attribute | ast.Aggregate]) -> tuple[int, int]:
        """The earlier Kleene component over whose events the conjunct must hold, -1 without one, and over which."""
        looped = {self.positions[t.variable] for t in earlier if _is_iterating(t)}
        if any(isinstance(t, ast.Aggregate) and _needs_previous(t) for t in earlier):
            raise _unsupported(conjunct, "it compares a running aggregate with a later component")
        which = OVER_PAIRS if any(_needs_previous(t) for t in earlier) else OVER_ALL
        return (looped.pop(), which) if looped else (-1, which)

    def _on_negation(
        self, conjunct: ast.Expression, terms: list[ast.Attribute | ast.Aggregate], negated: set[int]
    ) -> _Placement:
        if len(negated) > 1:
            raise _unsupported(conjunct, "it relates two negated components")
        index = negated.pop()
        others = [t for t in terms if t.variable != self.negatives[index].component.variable]
        if any(_is_iterating(t) for t in others):
            raise _unsupported(conjunct, "it relates a negated component with every event of a Kleene component")
        return _Placement(Edge.NEGATION, index, not others)

    # ----------------------------------------------------------------- steps

    def _edge(self, edge: Edge, target: int, placed: list[tuple[_Placement, ast.Expression]]) -> EdgePredicates:
        mine = [(p, c) for p, c in placed if p.edge is edge and p.target == target]
        mine.sort(key=lambda item: (item[0].over >= 0, not item[0].local))  # stable: local, others, loops
        if not mine:
            return _EMPTY
        predicates = tuple(
            PlacedPredicate(c, edge, self.builder.add(c), p.local, classify(c, self.kleene), p.over, p.over_which)
            for p, c in mine
        )
        n_local = sum(p.local for p in predicates)
        n_plain = sum(p.over < 0 for p in predicates)
        first = predicates[0].program
        return EdgePredicates(predicates, first, first + n_local, first + n_plain, predicates[n_plain:])

    def _step(self, part: _Part, placed: list[tuple[_Placement, ast.Expression]], broadcast: frozenset[str]) -> Step:
        component = part.component
        return Step(
            position=part.position,
            variable=component.variable,
            event_type=component.event_type,
            kleene=component.kleene,
            keyed=component.event_type not in broadcast,
            begin=self._edge(Edge.BEGIN, part.position, placed),
            take=self._edge(Edge.TAKE, part.position, placed),
            proceed=self._edge(Edge.PROCEED, part.position, placed),
        )

    def _negation(
        self, index: int, part: _Part, placed: list[tuple[_Placement, ast.Expression]], broadcast: frozenset[str]
    ) -> NegatedStep:
        edge = self._edge(Edge.NEGATION, index, placed)
        # A leading negation looks back from the last event: [last - WITHIN, first).
        decided_at = part.position + 1 if part.position >= 0 else len(self.positives)
        for predicate in edge.predicates:
            for term in ast.walk(predicate.conjunct):
                if isinstance(term, ast.Attribute | ast.Aggregate) and term.variable in self.positions:
                    position = self.positions[term.variable]
                    # The aggregates and the last event of a Kleene component are known once it is left.
                    decided_at = max(decided_at, position + int(_is_closing(term)))
        return NegatedStep(
            variable=part.component.variable,
            event_type=part.component.event_type,
            after=part.position,
            decided_at=min(decided_at, len(self.positives)),
            keyed=part.component.event_type not in broadcast,
            edge=edge,
        )

    # -------------------------------------------------------------- RETURN

    def _return_value(self, item: ast.ReturnItem, result: AttributeType, key: tuple[str, ...]) -> ReturnValue:
        terms = [n for n in ast.walk(item.expression) if isinstance(n, ast.Attribute | ast.Aggregate)]
        exact = all(isinstance(t, ast.Attribute) and self._same_in_all(t, key) for t in terms)
        if self.query.output is ast.Output.COLLAPSED and not exact:
            raise QueryTypeError(
                f"RETURN {item.name} has not one value in a collapsed row: it depends on which events are selected",
                item.span,
                "attributes of the partition key, or of a first or last component that is a single event",
                "return those, or use OUTPUT ALL, SETS or TOP k",
            )
        return ReturnValue(item.name, self.builder.add(item.expression), result, exact)

    def _same_in_all(self, term: ast.Attribute, key: tuple[str, ...]) -> bool:
        """True when all matches with one first and one last event agree on this term."""
        if term.name in key and term.name in self.resolved.keyed.get(term.variable, ()):
            return True
        position = self.positions.get(term.variable, -1)
        if position == 0:
            return term.index in (ast.Index.SINGLE, ast.Index.FIRST)
        return position == len(self.positives) - 1 and term.index in (ast.Index.SINGLE, ast.Index.LAST)


def _flatten(pattern: ast.Pattern) -> list[_Part]:
    """The components of a SEQ of components; negations carry the position of the positive before them."""
    items = pattern.parts if isinstance(pattern, ast.Sequence) else (pattern,)
    parts: list[_Part] = []
    n_positive = 0
    for item in items:
        negated = isinstance(item, ast.Negation)
        component = item.pattern if isinstance(item, ast.Negation) else item
        if isinstance(component, ast.Sequence) and len(component.parts) == 1:
            component = component.parts[0]
        if not isinstance(component, ast.Component) or (negated and component.kleene):
            raise UnsupportedQueryError(
                "this pattern is not evaluated by the compiled runtimes of this version",
                getattr(item, "span", None),
                "SEQ of components, Kleene components and negated single components",
                "rewrite it, or evaluate it with --runtime oracle",
            )
        parts.append(_Part(component, negated, n_positive - 1 if negated else n_positive))
        n_positive += not negated
    return parts


def _equal_along(attribute: str, holders: list[_Part]) -> list[tuple[ast.Expression, Start]]:
    """Equality of `attribute` along the components that have it: each event against the first one, itself included,
    so that an event without a value equals none."""
    anchor = next((p for p in holders if not p.negated), holders[0])
    first = _term(anchor, ast.Index.FIRST, attribute)
    return [
        (ast.Comparison("=", _term(part, ast.Index.CURRENT, attribute), first), Start.FROM_FIRST) for part in holders
    ]


def _term(part: _Part, index: ast.Index, attribute: str) -> ast.Attribute:
    component = part.component
    return ast.Attribute(component.variable, index if component.kleene else ast.Index.SINGLE, attribute)


def _is_iterating(term: ast.Attribute | ast.Aggregate) -> bool:
    if isinstance(term, ast.Aggregate):
        return term.range is ast.Range.BEFORE_CURRENT
    return term.index in (ast.Index.CURRENT, ast.Index.PREVIOUS)


def _needs_previous(term: ast.Attribute | ast.Aggregate) -> bool:
    if isinstance(term, ast.Aggregate):
        return term.range is ast.Range.BEFORE_CURRENT
    return term.index is ast.Index.PREVIOUS


def _is_closing(term: ast.Attribute | ast.Aggregate) -> bool:
    if isinstance(term, ast.Aggregate):
        return term.range in (ast.Range.ALL, ast.Range.BEFORE_LAST)
    return term.index is ast.Index.LAST


def _refuse_two_meanings(conjunct: ast.Expression, terms: list[ast.Attribute | ast.Aggregate]) -> None:
    """v[i-1] and v[v.len] share a register, and running aggregates a slot with those over all of v."""
    for variable in {t.variable for t in terms}:
        own = [t for t in terms if t.variable == variable]
        closing = any(_is_closing(t) for t in own)
        reads_last = any(
            t.index is ast.Index.LAST if isinstance(t, ast.Attribute) else t.function == "last" for t in own
        )
        if closing and any(isinstance(t, ast.Aggregate) and _needs_previous(t) for t in own):
            raise _unsupported(conjunct, f"it compares a running aggregate of {variable} with the completed {variable}")
        if reads_last and any(isinstance(t, ast.Attribute) and _needs_previous(t) for t in own):
            raise _unsupported(conjunct, f"it compares {variable}[i-1] with {variable}[{variable}.len]")


def _unsupported(conjunct: ast.Expression, why: str) -> NoPlainProgramError:
    return NoPlainProgramError(f"the predicate {print_expression(conjunct)}: {why}", conjunct.span)
