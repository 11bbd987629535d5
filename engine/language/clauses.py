"""Checks of a query's clauses: those that must be there, those that exclude each other, those that name variables."""

from __future__ import annotations

from engine.events import EventSchema
from engine.language.ast import Attribute, Comparison, Literal, Membership, Output, Query, Strategy, walk
from engine.language.scopes import Checked, Scope
from engine.language.source import did_you_mean, listed
from engine.language.types import TYPE_NAME, TypeChecker


def check_clauses(query: Query, scope: Scope, schema: EventSchema, checked: Checked) -> None:
    """Raises QueryTypeError for a query without strategy or window, and for clauses that do not go together."""
    _check_strategy(query, checked)
    _check_window(query, checked)
    if query.open_on is not None:
        TypeChecker({}, schema, checked, per_match=False).condition(query.open_on)
        _check_type_names(query, schema, checked)
    if query.output is Output.TOP and query.limit is not None:
        raise checked.error(
            query.clause_span("LIMIT"),
            f"OUTPUT TOP {query.top_k} and LIMIT {query.limit} both bound the number of rows",
            "one of them",
            "leave LIMIT out",
        )
    _check_consume(query, scope, checked)


def _check_strategy(query: Query, checked: Checked) -> None:
    if query.strategy is None:
        raise checked.error(
            query.pattern.span,
            "the query names no event selection strategy",
            ", ".join(strategy.value for strategy in Strategy),
            "write WHERE skip_till_any_match { ... } (or another strategy)",
        )


def _check_window(query: Query, checked: Checked) -> None:
    if query.within_ms is None and query.within_events is None:
        raise checked.error(
            query.pattern.span,
            "the query has no WITHIN clause, so its matches would never be complete",
            "WITHIN duration, as in WITHIN 10 minutes, or WITHIN n EVENTS",
            "say how far apart the first and the last event of a match may be",
        )
    if query.slide_ms is None:
        return
    if query.slide_ms == 0:
        raise checked.error(
            query.clause_span("SLIDE"), "a slide of no time", "a positive duration, as in SLIDE 30 seconds"
        )
    if query.within_ms is None:
        raise checked.error(
            query.clause_span("SLIDE"),
            "SLIDE steps through time, but the window is a number of events",
            "WITHIN duration beside SLIDE",
            "give WITHIN a duration, or leave SLIDE out",
        )
    if query.open_on is not None:
        raise checked.error(
            query.clause_span("SLIDE"),
            "SLIDE and OPEN ON exclude each other: windows begin at fixed times or at events",
            "one of them",
            "leave one of them out",
        )


def _check_type_names(query: Query, schema: EventSchema, checked: Checked) -> None:
    """A name that `type` is compared to must be one of the schema's."""
    for node in walk(query.open_on):
        if isinstance(node, Comparison):
            sides: tuple[object, ...] = (node.left, node.right)
        elif isinstance(node, Membership):
            sides = (node.operand, *node.options)
        else:
            continue
        if not any(isinstance(side, Attribute) and side.name == TYPE_NAME for side in sides):
            continue
        for side in sides:
            if isinstance(side, Literal) and isinstance(side.value, str) and side.value not in schema.types:
                raise checked.error(
                    side.span,
                    f"no event type is called {side.value}",
                    f"one of {listed(sorted(schema.types))}",
                    did_you_mean(side.value, schema.types),
                )


def _check_consume(query: Query, scope: Scope, checked: Checked) -> None:
    for name in query.consume:
        if name not in scope:
            raise checked.error(
                query.clause_span("CONSUME"),
                f"CONSUME names {name}, which is no variable of the pattern",
                f"one of {', '.join(v.name for v in scope.values() if not v.negated)}",
                did_you_mean(name, scope),
            )
        if scope[name].negated:
            raise checked.error(
                query.clause_span("CONSUME"),
                f"CONSUME names {name}, which is negated: a match has no such event",
                "a variable of a component that is not negated",
            )
