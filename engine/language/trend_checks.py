"""Checks of trend queries (GRETA, Definitions 1 and 2; DESIGN 3): pattern, predicates, clauses, RETURN and HAVING."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from engine.events import AttributeType, EventSchema
from engine.language.ast import (
    Aggregate,
    Alternative,
    AnyOf,
    Attribute,
    Component,
    Conjunction,
    Expression,
    Index,
    Negation,
    Output,
    Pattern,
    Query,
    Repeat,
    Sequence,
    Strategy,
    Ties,
    TrendAggregate,
    walk,
)
from engine.language.pattern_checks import nullable
from engine.language.printer import print_expression
from engine.language.scopes import Checked, Scope, Variable
from engine.language.source import did_you_mean
from engine.language.types import Kind, TypeChecker

_KINDS = {AttributeType.INT: Kind.INT, AttributeType.FLOAT: Kind.FLOAT, AttributeType.STRING: Kind.STRING}


def refuse_trend_clauses(query: Query, checked: Checked) -> None:
    """Raises QueryTypeError for clauses of trend queries in a query that returns no aggregate over trends."""
    remedy = "aggregate trends in RETURN, as in RETURN COUNT(*), or leave it out"
    for is_there, name, clause in (
        (bool(query.group_by), "GROUP BY groups trends", "GROUP BY"),
        (bool(query.exact_bits), "EXACT is about aggregates over trends", "EXACT"),
    ):
        if is_there:
            raise checked.error(
                query.clause_span(clause),
                f"{name}, and the query aggregates none",
                "an aggregate without brackets in RETURN or HAVING",
                remedy,
            )
    for node in (node for predicate in query.predicates for node in walk(predicate)):
        if isinstance(node, Attribute) and node.index is Index.NEXT:
            raise checked.error(
                node.span,
                f"{print_expression(node)} looks at neighbours in a trend, and the query aggregates no trends",
                "an aggregate without brackets in RETURN or HAVING",
                "compare b[i].x to b[i-1].x for the events of one match, or aggregate trends, as in RETURN COUNT(*)",
            )


def with_trend_defaults(query: Query) -> Query:
    """Skip till any match and TIES STRICT, where the query says nothing else (GRETA, Definition 1; DESIGN 2, 3)."""
    return replace(query, strategy=query.strategy or Strategy.SKIP_TILL_ANY_MATCH, ties=query.ties or Ties.STRICT)


def check_trend_clauses(query: Query, scope: Scope, schema: EventSchema, checked: Checked) -> None:
    """Raises QueryTypeError for a trend query without windows, and for clauses that are about matches."""
    _check_window(query, checked)
    for is_there, clause, reason in (
        (query.open_on is not None, "OPEN ON", "windows of trends step through time"),
        (query.output is not Output.ALL, "OUTPUT", "a row stands for all trends of a window and group"),
        (query.confidence is not None, "CONFIDENCE", "rows of trends have no confidence"),
        (query.limit is not None, "LIMIT", "there is one row for each window and group"),
        (query.select_first, "SELECT FIRST", "all trends count"),
        (bool(query.consume), "CONSUME", "all trends count"),
        (query.onset is not None, "ONSET", "an alert about trends begins with its window"),
    ):
        if is_there:
            raise checked.error(
                query.clause_span(clause), f"{clause} in a query about trends: {reason}", remedy=f"leave {clause} out"
            )
    for name in query.group_by:
        having = [v for v in scope.values() if not v.negated and name in schema.types[v.event_type]]
        if not having:
            known = {a for v in scope.values() if not v.negated for a in schema.types[v.event_type]}
            raise checked.error(
                query.clause_span("GROUP BY"),
                f"no event of the pattern has the attribute {name}",
                f"one of {', '.join(sorted(known)) or 'none'}",
                did_you_mean(name, known) or "group by an attribute that at least one type of the pattern has",
            )


def _check_window(query: Query, checked: Checked) -> None:
    for clause, duration in (("WITHIN", query.within_ms), ("SLIDE", query.slide_ms)):
        if duration is None:
            raise checked.error(
                query.pattern.span,
                f"the query aggregates trends and has no {clause} duration",
                "WITHIN and SLIDE, as in WITHIN 10 minutes SLIDE 1 minute",
                "say how long the windows are and how far apart they begin",
            )
        if duration == 0:
            raise checked.error(
                query.clause_span(clause), f"{clause} no time", f"a positive duration, as in {clause} 30 seconds"
            )


# ------------------------------------------------------------------ pattern


def check_trend_pattern(pattern: Pattern, checked: Checked) -> None:
    """Raises QueryTypeError for a pattern that has no trends, or a negation without a place (GRETA, section 5.1)."""
    if isinstance(pattern, Negation):
        raise checked.error(
            pattern.span,
            "NOT is the outermost operator of the pattern",
            "a positive part that the trends consist of",
            "put the absent part into a SEQ with what must be there, as in SEQ(NOT E, A+)",
        )
    parts = pattern.parts if isinstance(pattern, Conjunction) else (pattern,)
    if len(parts) > 2:
        raise checked.error(
            pattern.span,
            f"AND of {len(parts)} patterns: trends are counted in pairs",
            "AND of two patterns",
            "write a query for each two of them",
        )
    for part in parts:
        _check_whole(part, checked)


def _check_whole(pattern: Pattern, checked: Checked) -> None:
    """Of a pattern, or a part of AND: what a trend is read by."""
    _TrendPattern(checked).check_part(pattern, at_start=True, at_end=True)
    if nullable(pattern):
        raise checked.error(
            pattern.span,
            "the pattern can match without any event",
            "at least one component that every trend has",
            "make one component mandatory: leave out its ? or *",
        )


@dataclass(frozen=True)
class _TrendPattern:
    checked: Checked

    def check(self, pattern: Pattern, *, at_start: bool, at_end: bool) -> None:
        """`at_start`: nothing of the whole pattern comes before; `at_end`: nothing after."""
        match pattern:
            case Component():
                return
            case Sequence():
                self._check_sequence(flat_parts(pattern), at_start=at_start, at_end=at_end)
            case Conjunction():
                raise self.checked.error(
                    pattern.span,
                    "AND inside another operator: it makes pairs of trends, which are no sequence of events",
                    "AND as the outermost operator",
                    "write a query for each order of the parts",
                )
            case Alternative(parts=parts):
                for part in parts:
                    self.check_part(part, at_start=at_start, at_end=at_end)
            case AnyOf():
                return
            case Repeat(pattern=inner, at_most=at_most):
                once = at_most == 1
                if nullable(inner):
                    raise self.checked.error(
                        pattern.span,
                        "a repeated pattern that can match without any event",
                        "at least one component that every repetition has",
                        "leave out one of the two ? or *",
                    )
                self.check_part(inner, at_start=at_start and once, at_end=at_end and once)
            case Negation():
                raise AssertionError("negations are looked at in their sequence")

    def check_part(self, part: Pattern, *, at_start: bool, at_end: bool) -> None:
        """See `check`; of a part that is no NOT."""
        if isinstance(part, Negation):
            raise self.checked.error(
                part.span,
                "NOT is no part of a SEQ here",
                "SEQ(..., NOT P, ...)",
                "say after or before which events P must be absent",
            )
        self.check(part, at_start=at_start, at_end=at_end)

    def _check_sequence(self, parts: tuple[Pattern, ...], *, at_start: bool, at_end: bool) -> None:
        mandatory = [number for number, part in enumerate(parts) if not nullable(part)]
        for number, part in enumerate(parts):
            has_before = bool(mandatory) and mandatory[0] < number
            has_after = bool(mandatory) and mandatory[-1] > number
            first, last = at_start and not has_before, at_end and not has_after
            if not isinstance(part, Negation):
                self.check(part, at_start=first, at_end=last)
                continue
            if not (has_before or first) or not (has_after or last):
                raise self.checked.error(
                    part.span,
                    "NOT at the edge of a part that is repeated, negated or followed by others: it has no neighbour "
                    f"{'before' if has_after else 'after'} it from which on the events must be absent",
                    "NOT between two positive parts, or at the start or end of the whole pattern",
                    "move it out of the inner pattern",
                )
            if not any(not isinstance(p, Negation) for p in parts):
                raise self.checked.error(
                    part.span, "a SEQ of negated parts alone", "a positive part that the trends consist of"
                )
            if nullable(part.pattern):
                raise self.checked.error(
                    part.span,
                    "the negated pattern can match without any event, so that no trend would remain",
                    remedy="leave out its ? or *",
                )
            self.check_part(part.pattern, at_start=False, at_end=False)


def flat_parts(pattern: Sequence) -> tuple[Pattern, ...]:
    """The parts of a SEQ with those of a SEQ directly in it in its place."""
    found: list[Pattern] = []
    for part in pattern.parts:
        found += flat_parts(part) if isinstance(part, Sequence) else (part,)
    return tuple(found)


# -------------------------------------------------------------- expressions


@dataclass(frozen=True)
class TrendChecker(TypeChecker):
    """Checks expressions of a trend query; `groups`: where `per_match`, the kinds of the attributes of GROUP BY."""

    groups: dict[str, Kind] = field(default_factory=dict)

    def kind(self, expression: Expression) -> Kind:
        """See `TypeChecker`."""
        match expression:
            case Aggregate():
                raise self.checked.error(
                    expression.span,
                    f"{print_expression(expression)} is about the events of one match, and the query aggregates trends",
                    "aggregates over trends, as COUNT(*), COUNT(v) or SUM(v.x)",
                    "leave the brackets out, or write two queries",
                )
            case TrendAggregate():
                return self._trend_aggregate(expression)
            case Attribute():
                return self._group_value(expression) if self.per_match else self._event(expression)
            case _:
                return super().kind(expression)

    def predicate(self, expression: Expression) -> None:
        """Check a conjunct of WHERE: on one event, or on two neighbours (GRETA, section 6)."""
        kind = self.kind(expression)
        if kind not in (Kind.CONDITION, Kind.NULL):
            raise self._mismatch(expression, kind, "a condition", "compare it to something")
        here, following = variables_of(expression)
        if len(here) > 1 or len(following) > 1 or (following and not here):
            raise self.checked.error(
                expression.span,
                f"{print_expression(expression)} is neither about one event nor about two neighbours in a trend",
                "attributes of one variable, or of one variable and of NEXT(v) of one variable",
                "relate an event to the one after it, as in a.x < NEXT(b).x",
            )
        names = {*here, *following}
        if len({self.scope[name].negation for name in names}) > 1:
            raise self.checked.error(
                expression.span,
                f"{print_expression(expression)} relates events that are never neighbours: one of them is negated",
                "variables of one pattern",
            )

    def _event(self, node: Attribute) -> Kind:
        variable = self.variable(node)
        if node.index not in (Index.SINGLE, Index.NEXT):
            raise self.checked.error(
                node.span,
                f"{print_expression(node)} is about the events of one match, and the query aggregates trends",
                f"{variable.name}.{node.name} for each event, NEXT({variable.name}).{node.name} for the one after it",
            )
        return self.attribute_kind(variable, node.name, node)

    def _group_value(self, node: Attribute) -> Kind:
        if not node.variable and node.name in self.groups:
            return self.groups[node.name]
        known = ", ".join(self.groups) or "none"
        raise self.checked.error(
            node.span,
            f"{print_expression(node)} is a value of one event, and a row stands for all trends of a window and group",
            f"an attribute of GROUP BY ({known}) or an aggregate over trends",
            did_you_mean(node.name, self.groups) if not node.variable else f"write MAX({node.variable}.{node.name})",
        )

    def _trend_aggregate(self, node: TrendAggregate) -> Kind:
        if node.variable is None:
            return Kind.INT
        variable = self._counted(node)
        if node.name is None:
            return Kind.INT
        kind = self.attribute_kind(variable, node.name, Attribute(node.variable, Index.SINGLE, node.name, node.span))
        if not kind.is_number:
            raise self.checked.error(
                node.span,
                f"{node.function.upper()} of {node.variable}'s {node.name}, which is {kind.value}",
                "a numeric attribute",
                f"count its events, as in COUNT({node.variable}), or group by {node.name}",
            )
        return Kind.FLOAT if node.function == "avg" else kind

    def _counted(self, node: TrendAggregate) -> Variable:
        assert node.variable is not None
        positive = [v.name for v in self.scope.values() if not v.negated]
        if node.variable not in positive:
            raise self.checked.error(
                node.span,
                f"{node.variable} is negated: trends have no such event"
                if node.variable in self.scope
                else f"the pattern has no variable {node.variable}",
                f"one of {', '.join(positive)}",
                did_you_mean(node.variable, positive),
            )
        return self.scope[node.variable]


def variables_of(expression: Expression) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The variables that a conjunct names, and those of which it names NEXT(v)."""
    attributes = [node for node in walk(expression) if isinstance(node, Attribute)]
    here = dict.fromkeys(a.variable for a in attributes if a.index is not Index.NEXT)
    following = dict.fromkeys(a.variable for a in attributes if a.index is Index.NEXT)
    return tuple(here), tuple(following)


def group_kinds(query: Query, scope: Scope, schema: EventSchema) -> dict[str, Kind]:
    """The kinds of the attributes of GROUP BY."""
    positive = [v for v in scope.values() if not v.negated]
    return {
        name: next(_KINDS[schema.types[v.event_type][name]] for v in positive if name in schema.types[v.event_type])
        for name in query.group_by
    }


def trend_aggregates(expressions: Iterable[object]) -> tuple[TrendAggregate, ...]:
    """The aggregates over trends in some expressions, each once."""
    found = (node for part in expressions for node in walk(part) if isinstance(node, TrendAggregate))
    return tuple(dict.fromkeys(found))


__all__ = [
    "TrendChecker",
    "check_trend_clauses",
    "check_trend_pattern",
    "flat_parts",
    "group_kinds",
    "refuse_trend_clauses",
    "trend_aggregates",
    "variables_of",
    "with_trend_defaults",
]
