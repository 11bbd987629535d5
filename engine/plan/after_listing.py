"""Terms that no compiled runtime evaluates while it matches: user-defined aggregates, applied to listed matches.

A conjunct that is left out of matching and applied afterwards gives the same matches where a run that breaks it ends
without another effect: under skip till any match and both contiguities. Under skip till next match an event that the
conjunct would have kept from a single component must be ignored instead, so that only conjuncts on a completed
Kleene component can wait. The class of all of them is inconsistent (SASE++ section 5.2): nothing is decided early.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from engine.errors import Span, UnsupportedQueryError
from engine.events import TIME_ATTRIBUTE
from engine.language import ast
from engine.language.build_expression import AGGREGATES
from engine.language.reading import Start
from engine.language.resolver import ResolvedQuery
from engine.plan.model import AfterListing, LaterCondition, Plan

P = TypeVar("P", bound=Plan)


def split(resolved: ResolvedQuery) -> tuple[ResolvedQuery, AfterListing | None]:
    """The query without the terms that have to wait, and these. Raises UnsupportedQueryError where they cannot."""
    query = resolved.query
    waiting = [is_later(conjunct) for conjunct in query.predicates]
    returns = {at: item.expression for at, item in enumerate(query.returns) if is_later(item.expression)}
    having = query.having if query.having is not None and is_later(query.having) else None
    if not any(waiting) and not returns and having is None:
        return resolved, None
    pairs = list(zip(query.predicates, resolved.reading, waiting, strict=True))
    conditions = []
    for conjunct, reading, waits in pairs:
        if waits:
            _check_condition(resolved, conjunct, reading.start)
            first = {Start.PER_MATCH: 0, Start.FROM_FIRST: 1, Start.FROM_SECOND: 2}[reading.start]
            conditions.append(LaterCondition(conjunct, reading.variable, first))
    if any(variable.path for variable in resolved.variables.values()):
        raise _unsupported(query.pattern.span, "in a query with repeated groups")
    if returns and query.output is ast.Output.COLLAPSED:
        raise _unsupported(query.returns[min(returns)].span, "in RETURN of OUTPUT COLLAPSED")
    rest = replace(
        query,
        predicates=tuple(conjunct for conjunct, _, waits in pairs if not waits),
        having=None if having is not None else query.having,
        returns=tuple(
            replace(item, expression=ast.Literal(None)) if at in returns else item
            for at, item in enumerate(query.returns)
        ),
    )
    readings = tuple(reading for _, reading, waits in pairs if not waits)
    return replace(resolved, query=rest, reading=readings), AfterListing(tuple(conditions), having, returns)


def with_later(plan: P, later: AfterListing | None) -> P:
    """The plan with what is applied to its matches, and the attributes that this reads among its columns."""
    if later is None:
        return plan
    columns = list(plan.programs.columns)
    for expression in later.expressions:
        for node in ast.walk(expression):
            if isinstance(node, ast.Attribute | ast.Aggregate):
                name = node.name or TIME_ATTRIBUTE
                if name not in columns:
                    columns.append(name)
    return replace(plan, programs=replace(plan.programs, columns=tuple(columns)), later=later)


def is_later(expression: ast.Expression) -> bool:
    """Whether a user-defined aggregate is in it."""
    return any(isinstance(node, ast.Aggregate) and node.function not in AGGREGATES for node in ast.walk(expression))


def _check_condition(resolved: ResolvedQuery, conjunct: ast.Expression, start: Start) -> None:
    terms = [node for node in ast.walk(conjunct) if isinstance(node, ast.Attribute | ast.Aggregate)]
    if any(resolved.variables[term.variable].negated for term in terms):
        raise _unsupported(conjunct.span, "in a predicate on a negated component")
    if resolved.query.strategy is not ast.Strategy.SKIP_TILL_NEXT_MATCH:
        return
    order = list(resolved.variables)
    latest = max(terms, key=lambda term: order.index(term.variable)).variable
    closes = any(
        term.range in (ast.Range.ALL, ast.Range.BEFORE_LAST)
        if isinstance(term, ast.Aggregate)
        else term.index is ast.Index.LAST
        for term in terms
        if term.variable == latest
    )
    pattern = resolved.query.pattern
    parts = pattern.parts if isinstance(pattern, ast.Sequence) else (pattern,)
    is_sequence = all(isinstance(part, ast.Component | ast.Negation) for part in parts)
    if start is not Start.PER_MATCH or not closes or not is_sequence:
        raise _unsupported(
            conjunct.span, "under skip_till_next_match but in a predicate on a completed Kleene component of a SEQ"
        )


def _unsupported(span: Span | None, where: str) -> UnsupportedQueryError:
    return UnsupportedQueryError(
        f"a user-defined aggregate is not evaluated {where}",
        span,
        "a user-defined aggregate in HAVING, RETURN, or a predicate on complete components",
        "use skip_till_any_match, or one of the aggregates that every engine has",
    )


__all__ = ["is_later", "split", "with_later"]
