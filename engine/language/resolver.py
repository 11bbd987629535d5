"""Syntax tree, schema and parameters -> a query that can be planned: names known, operands of the right kind."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from engine.events import MAX_EXACT_INT, AttributeType, EventSchema
from engine.language.alert_checks import check_alert_clauses
from engine.language.ast import Expression, Parameter, Query
from engine.language.clauses import check_clauses
from engine.language.parameters import Value, parameter_values, substitute
from engine.language.pattern_checks import check_pattern
from engine.language.reading import Reading, read_conjuncts
from engine.language.satisfiability.unsatisfiable import unsatisfiable_predicates
from engine.language.scopes import Checked, Scope, Variable, pattern_scope
from engine.language.source import did_you_mean
from engine.language.trend_checks import (
    TrendChecker,
    check_trend_clauses,
    check_trend_pattern,
    group_kinds,
    refuse_trend_clauses,
    with_trend_defaults,
)
from engine.language.types import Kind, TypeChecker, kind_of

_NO_PARAMETERS: Mapping[str, Value] = MappingProxyType({})
_RETURN_TYPES = {Kind.INT: AttributeType.INT, Kind.STRING: AttributeType.STRING}


@dataclass(frozen=True)
class ResolvedQuery:
    """A checked query.

    `query` has literals in place of parameters, and plain values for WITHIN and CONFIDENCE. `key` are the attributes
    of the partition key: those of all `[x]` without a variable, in textual order. `keyed` gives for each variable the
    key attributes that its type has, in key order; () for a broadcast variable. `reading` stands beside
    `query.predicates` (empty for trends); `return_types` beside `query.returns`. `warnings` says of each predicate that
    no match can satisfy why that is so.
    """

    name: str
    query: Query
    schema: EventSchema
    keyed: Mapping[str, tuple[str, ...]]
    key: tuple[str, ...]
    parameters: Mapping[str, Value]
    variables: Mapping[str, Variable]
    reading: tuple[Reading, ...]
    return_types: tuple[AttributeType, ...]
    warnings: tuple[str, ...] = ()
    durations: frozenset[str] = frozenset()
    """Parameters whose default is written with a unit of time: their values are milliseconds."""

    @property
    def within_ms(self) -> int | None:
        """Length of the window in milliseconds, both ends inclusive; None for a window of events."""
        assert not isinstance(self.query.within_ms, Parameter)
        return self.query.within_ms

    @property
    def confidence(self) -> float | None:
        """Least confidence of a match; None without a bound."""
        assert not isinstance(self.query.confidence, Parameter)
        return self.query.confidence

    @property
    def slide_ms(self) -> int | None:
        """Step from window to window in milliseconds; None when matches are of no window."""
        assert not isinstance(self.query.slide_ms, Parameter)
        return self.query.slide_ms

    @property
    def open_on(self) -> Expression | None:
        """Condition on an event (bare attribute names, `type`) that opens a window; None without."""
        return self.query.open_on

    @property
    def certain_above(self) -> float | None:
        """Least confidence with which matches of other queries enter; None: certain ones only."""
        assert not isinstance(self.query.certain_above, Parameter)
        return self.query.certain_above

    @property
    def is_trend(self) -> bool:
        """Whether it aggregates trends instead of returning matches."""
        return self.query.is_trend

    @property
    def select_first(self) -> bool:
        """Whether only the first of the matches that end in one event counts."""
        return self.query.select_first

    @property
    def consume(self) -> tuple[str, ...]:
        """Variables whose events serve one match only."""
        return self.query.consume

    @property
    def weight(self) -> float:
        """Weight of the query when load is shed."""
        return 1.0 if self.query.weight is None else self.query.weight


def resolve(
    query: Query,
    schema: EventSchema,
    parameters: Mapping[str, Value] = _NO_PARAMETERS,
    *,
    text: str | None = None,
    name: str = "query",
    aggregates: Collection[str] = (),
) -> ResolvedQuery:
    """Check `query` against `schema` and fill in parameters.

    `text` is the query's source, which errors quote; `name` what they call it; `aggregates` are the names of the
    user-defined ones. Raises QueryTypeError with the place
    and the remedy.
    """
    checked = Checked(text, name)
    values = parameter_values(query, parameters, checked)
    scope = pattern_scope(query.pattern, schema, checked, of_trends=query.is_trend)
    if query.is_trend:
        return _resolve_trends(query, values, scope, schema, checked)
    check_pattern(query.pattern, checked)
    plain = _plain(query, values, checked)
    refuse_trend_clauses(plain, checked)
    predicates = TypeChecker(scope, schema, checked, per_match=False, registered=aggregates)
    for predicate in plain.predicates:
        predicates.condition(predicate)
    key, keyed = _key(plain, scope, schema, checked)
    check_clauses(plain, scope, schema, checked)
    reading = read_conjuncts(plain.predicates, scope)
    return ResolvedQuery(
        name=name,
        query=plain,
        schema=schema,
        keyed=keyed,
        key=key,
        parameters=values,
        variables=scope,
        reading=reading,
        return_types=_check_results(
            plain, scope, TypeChecker(scope, schema, checked, True, aggregates), _kinds_of(key, schema)
        ),
        warnings=unsatisfiable_predicates(plain, scope, schema, reading, checked, tuple(aggregates)),
        durations=_durations(query),
    )


def _resolve_trends(
    query: Query, values: Mapping[str, Value], scope: Scope, schema: EventSchema, checked: Checked
) -> ResolvedQuery:
    check_trend_pattern(query.pattern, checked)
    plain = with_trend_defaults(_plain(query, values, checked))
    check_trend_clauses(plain, scope, schema, checked)
    predicates = TrendChecker(scope, schema, checked, per_match=False)
    for predicate in plain.predicates:
        predicates.predicate(predicate)
    key, keyed = _key(plain, scope, schema, checked)
    results = TrendChecker(scope, schema, checked, per_match=True, groups=group_kinds(plain, scope, schema))
    return ResolvedQuery(
        name=checked.name,
        query=plain,
        schema=schema,
        keyed=keyed,
        key=key,
        parameters=values,
        variables=scope,
        reading=(),
        return_types=_check_results(plain, scope, results, {}),
        durations=_durations(query),
    )


def _durations(query: Query) -> frozenset[str]:
    return frozenset(default.name for default in query.parameters if default.is_duration)


def _plain(query: Query, values: Mapping[str, Value], checked: Checked) -> Query:
    """`query` without parameters."""
    plain = replace(
        query,
        within_ms=_duration_ms(query.within_ms, values, checked),
        slide_ms=_duration_ms(query.slide_ms, values, checked),
        confidence=_probability(query.confidence, values, checked),
        certain_above=_probability(query.certain_above, values, checked),
        parameters=(),
    )
    return substitute(plain, values) if values else plain


def _duration_ms(duration: int | Parameter | None, values: Mapping[str, Value], checked: Checked) -> int | None:
    if not isinstance(duration, Parameter):
        return duration
    value = values[duration.name]
    if isinstance(value, str) or value != int(value) or not 0 <= value <= MAX_EXACT_INT:
        raise checked.error(
            duration.span,
            f"the parameter {duration.name} is {value!r}",
            "a duration: whole milliseconds, not negative",
            f"write it with a unit in PARAMETERS, as in {duration.name} = 10 minutes",
        )
    return int(value)


def _probability(bound: float | Parameter | None, values: Mapping[str, Value], checked: Checked) -> float | None:
    if not isinstance(bound, Parameter):
        return bound
    value = values[bound.name]
    if isinstance(value, str) or not 0 <= value <= 1:
        raise checked.error(
            bound.span, f"the parameter {bound.name} is {value!r}", "a confidence: a number from 0 to 1"
        )
    return float(value)


def _key(
    query: Query, scope: Scope, schema: EventSchema, checked: Checked
) -> tuple[tuple[str, ...], dict[str, tuple[str, ...]]]:
    key: list[str] = []
    for equivalence in query.equivalences:
        if equivalence.variable is not None and equivalence.variable not in scope:
            raise checked.error(
                equivalence.span,
                f"the pattern has no variable {equivalence.variable}",
                f"one of {', '.join(scope)}",
                did_you_mean(equivalence.variable, scope),
            )
        limited = [scope[equivalence.variable]] if equivalence.variable else list(scope.values())
        attributes = [schema.types[variable.event_type] for variable in limited]
        if not any(equivalence.attribute in having for having in attributes):
            raise checked.error(
                equivalence.span,
                f"no event of {'the pattern' if equivalence.variable is None else equivalence.variable} has the "
                f"attribute {equivalence.attribute}",
                "an attribute that at least one of its types has",
                did_you_mean(equivalence.attribute, {name for having in attributes for name in having}),
            )
        if equivalence.variable is None and equivalence.attribute not in key:
            key.append(equivalence.attribute)
    keyed = {
        name: tuple(attribute for attribute in key if attribute in schema.types[variable.event_type])
        for name, variable in scope.items()
    }
    return tuple(key), keyed


def _kinds_of(key: tuple[str, ...], schema: EventSchema) -> dict[str, Kind]:
    return {name: kind_of(schema.attributes[name]) for name in key}


def _check_results(query: Query, scope: Scope, checker: TypeChecker, key: dict[str, Kind]) -> tuple[AttributeType, ...]:
    kinds = {item.name: checker.value(item.expression) for item in query.returns}
    if query.having is not None:
        checker.condition(query.having)
    check_alert_clauses(query, kinds, key, scope, checker.checked)
    return tuple(_RETURN_TYPES.get(kind, AttributeType.FLOAT) for kind in kinds.values())


__all__ = ["ResolvedQuery", "Value", "resolve"]
