"""The plan of a pattern that is no plain sequence, or of predicates that the plain plan has no position for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from engine.errors import QueryTypeError, UnsupportedQueryError
from engine.events import TIME_ATTRIBUTE, AttributeType
from engine.language import ast
from engine.language.reading import Reading, Start
from engine.language.resolver import ResolvedQuery
from engine.language.types import context_of
from engine.plan.automaton.checks import CheckPlacement
from engine.plan.automaton.model import Automaton, AutomatonEdge, AutomatonPlan, Condition, NegatedPattern, Term
from engine.plan.automaton.states import StateBuilder
from engine.plan.automaton.terms import TermBuilder
from engine.plan.model import Edge, EdgePredicates, NegatedStep, PlacedPredicate, ReturnValue, Step
from engine.plan.partitioning import partitioning
from engine.plan.programs import ProgramBuilder
from engine.plan.sequence.consistency import classify
from engine.plan.window import window_length

_NO_PREDICATES = EdgePredicates((), 0, 0, 0)


@dataclass(frozen=True, slots=True)
class _Conjunct:
    expression: ast.Expression
    reading: Reading
    reason: str = ""


def automaton_plan(resolved: ResolvedQuery) -> AutomatonPlan:
    """Plan a resolved query (one pattern of its union) as an automaton.

    Raises UnsupportedQueryError for what it does not evaluate: a negation at the start or the end of an operand of
    AND, and patterns whose automaton is too large.
    """
    return _AutomatonPlanner(resolved).plan()


class _AutomatonPlanner:
    def __init__(self, resolved: ResolvedQuery) -> None:
        self.resolved = resolved
        self.query = resolved.query
        self.components = list(ast.components(self.query.pattern))
        positives = dict.fromkeys(c.variable for c, negated in self.components if not negated)
        negated = dict.fromkeys(c.variable for c, is_negated in self.components if is_negated)
        self.names = (*positives, *negated)
        self.n_positive = len(positives)
        self.numbers = {name: number for number, name in enumerate(self.names)}
        self.paths = [resolved.variables[name].path for name in self.names]
        self.types = {c.variable: c.event_type for c, _ in self.components}
        self.states = StateBuilder(resolved.variables, self.numbers, self.query.pattern.span)
        self.terms = TermBuilder({}, frozenset(), frozenset())
        self.conditions: list[Condition] = []

    def plan(self) -> AutomatonPlan:
        query = self.query
        assert query.strategy is not None
        self.states.build(query.pattern)
        if query.within_events is not None and query.ties is ast.Ties.STRICT:
            self.terms.column(TIME_ATTRIBUTE)  # positions are no times
        parted = partitioning(self.resolved, self.components)
        conjuncts = [*self._written(), *self._equivalences(parted.key)]
        local = [c for c in conjuncts if self._is_local(c)]
        for conjunct in conjuncts:
            if conjunct not in local:
                self._add_condition(conjunct)
        n_conjuncts = len(self.conditions)
        typed = zip(query.returns, self.resolved.return_types, strict=True)
        returns = tuple(self._return_value(item, result) for item, result in typed)
        having = None
        if query.having is not None:
            having = len(self.conditions)
            self._add_value(query.having)
        steps, negations, programs = self._steps(local, parted.broadcast)
        automaton = self._automaton(n_conjuncts)
        confidence = query.confidence if isinstance(query.confidence, float | int) else None
        return AutomatonPlan(
            name=self.resolved.name,
            query=query,
            strategy=query.strategy,
            steps=steps,
            negations=negations,
            programs=replace(programs.build(), columns=automaton.programs.columns),
            key=parted.key,
            broadcast=parted.broadcast,
            within_ms=window_length(query),
            confidence=confidence,
            output=query.output,
            limit=query.limit if query.output is not ast.Output.TOP else query.top_k,
            ties=query.ties or ast.Ties.SOURCE,
            returns=returns,
            having=having,
            types=frozenset(self.types.values()),
            keyed_types=parted.keyed_types,
            attribute_types={**self.resolved.schema.attributes, TIME_ATTRIBUTE: AttributeType.INT},
            notes=(),
            key_of_type={
                name: tuple(attribute for attribute in self.resolved.key if attribute in attributes)
                for name, attributes in self.resolved.schema.types.items()
            },
            automaton=automaton,
        )

    # ---------------------------------------------------------- conjuncts

    def _written(self) -> list[_Conjunct]:
        return [_Conjunct(p, r) for p, r in zip(self.query.predicates, self.resolved.reading, strict=True)]

    def _equivalences(self, key: tuple[str, ...]) -> Iterator[_Conjunct]:
        """`[x]` that is no part of the key, and `[v.x]`: every event against the first of each variable that has it."""
        for attribute in self.resolved.key:
            if attribute in key:
                continue
            holders = [name for name in self.names if attribute in self.resolved.keyed.get(name, ())]
            for name in holders:
                yield self._equal(name, name, attribute)
            for left, right in combinations(holders, 2):
                if self._may_meet(left, right):
                    yield self._equal(right, left, attribute)
        for equivalence in self.query.equivalences:
            if equivalence.variable is not None:
                same = self._equal(equivalence.variable, equivalence.variable, equivalence.attribute)
                context = context_of(same.expression, self.resolved.variables)
                yield replace(same, reading=replace(same.reading, context=context), reason="")

    def _may_meet(self, left: str, right: str) -> bool:
        """False for variables of two negated patterns."""
        negated = frozenset(self.numbers[name] for name in (left, right) if self.numbers[name] >= self.n_positive)
        return not negated or any(negated <= negation.variables for negation in self.states.negations)

    def _equal(self, name: str, anchor: str, attribute: str) -> _Conjunct:
        stepping = self.resolved.variables[name].kleene
        first = ast.Index.FIRST if self.resolved.variables[anchor].kleene else ast.Index.SINGLE
        current = ast.Index.CURRENT if stepping else ast.Index.SINGLE
        expression = ast.Comparison(
            "=", ast.Attribute(name, current, attribute), ast.Attribute(anchor, first, attribute)
        )
        reading = Reading(Start.FROM_FIRST if stepping else Start.PER_MATCH, name if stepping else None, "")
        return _Conjunct(expression, reading, f"[{attribute}] is checked as a predicate: not every keyed type has it")

    def _is_local(self, conjunct: _Conjunct) -> bool:
        """True for a conjunct about one event at a time, whatever else is in the match."""
        terms = _terms_of(conjunct.expression)
        if len({term.variable for term in terms}) != 1 or conjunct.reading.start is Start.FROM_SECOND:
            return False
        alone = (ast.Index.SINGLE, ast.Index.CURRENT)
        return all(isinstance(term, ast.Attribute) and term.index in alone for term in terms) and (
            len({term.index for term in terms if isinstance(term, ast.Attribute)}) == 1
        )

    def _add_condition(self, conjunct: _Conjunct) -> None:
        reading = conjunct.reading
        stepping = -1 if reading.variable is None else self.numbers[reading.variable]
        first_i = 2 if reading.start is Start.FROM_SECOND else 1
        self._append(conjunct.expression, reading.context, stepping, first_i, conjunct.reason)

    def _add_value(self, expression: ast.Expression) -> None:
        self._append(expression, (), -1, 1, "")

    def _append(
        self, expression: ast.Expression, context: tuple[int, ...], stepping: int, first_i: int, reason: str
    ) -> None:
        program, nodes = self.terms.add_terms(expression)
        terms = tuple(self._term(node, context) for node in nodes)
        self.conditions.append(Condition(expression, program, terms, context, stepping, first_i, reason))

    def _term(self, node: ast.Attribute | ast.Aggregate, context: tuple[int, ...]) -> Term:
        variable = self.numbers[node.variable]
        path = self.paths[variable]
        depth = 0
        while depth < min(len(path), len(context)) and path[depth] == context[depth]:
            depth += 1
        return Term(node, variable, self.terms.column_of(node), depth)

    # --------------------------------------------------------- local masks

    def _steps(
        self, local: Sequence[_Conjunct], broadcast: frozenset[str]
    ) -> tuple[tuple[Step, ...], tuple[NegatedStep, ...], ProgramBuilder]:
        builder = ProgramBuilder(
            {name: self.numbers[name] for name in self.names[: self.n_positive]},
            frozenset(self.names[self.n_positive :]),
            frozenset(name for name in self.names if self.resolved.variables[name].kleene),
        )
        self.terms.share_columns(builder)
        steps, negations = [], []
        for number, name in enumerate(self.names):
            own = [c.expression for c in local if _terms_of(c.expression)[0].variable == name]
            keyed = self.types[name] not in broadcast
            if number < self.n_positive:
                edge = _local_edge(builder, own, Edge.BEGIN)
                kleene = self.resolved.variables[name].kleene
                steps.append(Step(number, name, self.types[name], kleene, keyed, edge, _NO_PREDICATES, _NO_PREDICATES))
            else:
                edge = _local_edge(builder, own, Edge.NEGATION)
                negations.append(NegatedStep(name, self.types[name], -1, 0, keyed, edge))
        return tuple(steps), tuple(negations), builder

    # ------------------------------------------------------------- automaton

    def _automaton(self, n_conjuncts: int) -> Automaton:
        states = self.states
        negations = tuple(states.negations)
        placement = CheckPlacement(states.edges, states.occurrences, self.paths, states.n_groups)
        numbered = list(enumerate(self.conditions[:n_conjuncts]))
        of_match = [(k, c) for k, c in numbered if all(t.variable < self.n_positive for t in c.terms)]
        of_negation = [[(k, c) for k, c in numbered if self._is_about(c, negation)] for negation in negations]
        self._refuse_unplaced(numbered, of_match, of_negation)
        main = _reachable(states.edges, 0)
        owner = {state: k for k, negation in enumerate(negations) for state in _reachable(states.edges, negation.start)}

        def relevant(state: int) -> list[tuple[int, Condition]]:
            return of_match if state in main else of_negation[owner[state]]

        edges = [replace(edge, checks=placement.on_edge(edge, relevant(edge.source))) for edge in states.edges]
        exits = [replace(end, checks=placement.on_exit(end, relevant(end.state))) for end in states.exits]
        names = [o.component.variable for o in states.occurrences]
        return Automaton(
            occurrences=tuple(states.occurrences),
            variables=self.names,
            paths=tuple(self.paths),
            n_positive=self.n_positive,
            n_groups=states.n_groups,
            n_counters=states.n_counters,
            n_states=len(states.states),
            state_texts=tuple(states.text(rest, names.__getitem__) for rest in states.states),
            edges=tuple(sorted(edges, key=lambda edge: edge.source)),
            exits=tuple(sorted(exits, key=lambda end: end.state)),
            negations=negations,
            parallel=tuple(states.parallel),
            conditions=tuple(self.conditions),
            n_conjuncts=n_conjuncts,
            programs=self.terms.build(),
        )

    def _is_about(self, condition: Condition, negation: NegatedPattern) -> bool:
        negated = {term.variable for term in condition.terms if term.variable >= self.n_positive}
        return bool(negated) and negated <= negation.variables

    def _refuse_unplaced(
        self,
        numbered: Sequence[tuple[int, Condition]],
        of_match: Sequence[tuple[int, Condition]],
        of_negation: Sequence[Sequence[tuple[int, Condition]]],
    ) -> None:
        placed = {k for k, _ in of_match} | {k for conditions in of_negation for k, _ in conditions}
        for number, condition in numbered:
            if number not in placed:
                raise UnsupportedQueryError(
                    "this predicate relates two negated patterns, which stand in no match together",
                    condition.expression.span,
                    "negated components of one negated pattern",
                    "put both into one negation, as in !SEQ(N n, M m)",
                )

    # -------------------------------------------------------------- RETURN

    def _return_value(self, item: ast.ReturnItem, result: AttributeType) -> ReturnValue:
        terms = _terms_of(item.expression)
        exact = all(isinstance(t, ast.Attribute) and self._is_key(t) for t in terms)
        if self.query.output is ast.Output.COLLAPSED and not exact:
            raise QueryTypeError(
                f"RETURN {item.name} has not one value in a collapsed row: it depends on which events are selected",
                item.span,
                "attributes of the partition key",
                "return those, or use OUTPUT ALL, SETS or TOP k",
            )
        self._add_value(item.expression)
        return ReturnValue(item.name, len(self.conditions) - 1, result, exact)

    def _is_key(self, term: ast.Attribute) -> bool:
        return term.name in self.resolved.key and term.name in self.resolved.keyed.get(term.variable, ())


def _local_edge(builder: ProgramBuilder, conjuncts: Sequence[ast.Expression], edge: Edge) -> EdgePredicates:
    if not conjuncts:
        return _NO_PREDICATES
    nothing: frozenset[str] = frozenset()
    placed = tuple(PlacedPredicate(c, edge, builder.add(c), True, classify(c, nothing)) for c in conjuncts)
    first, last = placed[0].program, placed[-1].program + 1
    return EdgePredicates(placed, first, last, last)


def _terms_of(expression: ast.Expression) -> list[ast.Attribute | ast.Aggregate]:
    return [node for node in ast.walk(expression) if isinstance(node, ast.Attribute | ast.Aggregate)]


def _reachable(edges: Sequence[AutomatonEdge], start: int) -> frozenset[int]:
    targets: dict[int, set[int]] = {}
    for edge in edges:
        targets.setdefault(edge.source, set()).add(edge.target)
    seen, waiting = {start}, [start]
    while waiting:
        new = targets.get(waiting.pop(), set()) - seen
        seen |= new
        waiting += new
    return frozenset(seen)


__all__ = ["automaton_plan"]
