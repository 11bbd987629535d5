"""Clauses of a query for one pattern of its union, which may lack some of the variables (DESIGN 3, "Patterns").

A conjunct about a variable that the pattern does not have does not apply to it, but `count(v[])` of it is 0. One that
names a negated variable says what is negated, not which matches there are: without the negation it does not apply.
HAVING about an absent variable is not true, RETURN of one is NULL.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from engine.language import ast
from engine.language.reading import Reading
from engine.language.resolver import ResolvedQuery


def for_pattern(resolved: ResolvedQuery, pattern: ast.Pattern) -> ResolvedQuery | None:
    """The query with this pattern instead of its own; None when it can have no match."""
    present = {component.variable for component, _ in ast.components(pattern)}
    absent = frozenset(resolved.variables) - present
    if not absent:
        return replace(resolved, query=replace(resolved.query, pattern=pattern))
    query = resolved.query
    having = None if query.having is None else without(query.having, absent)
    if having is not None and mentions(having, absent):
        return None
    not_negated = frozenset(name for name in absent if resolved.variables[name].negated)
    kept = [
        (conjunct, reading)
        for conjunct, reading in (
            (without(conjunct, absent), _once(reading) if mentions(conjunct, absent) else reading)
            for conjunct, reading in zip(query.predicates, resolved.reading, strict=True)
            if not mentions(conjunct, not_negated)
        )
        if not mentions(conjunct, absent)
    ]
    returns = tuple(replace(item, expression=_or_null(item.expression, absent)) for item in query.returns)
    return replace(
        resolved,
        query=replace(
            query,
            pattern=pattern,
            predicates=tuple(conjunct for conjunct, _ in kept),
            equivalences=tuple(item for item in query.equivalences if item.variable not in absent),
            having=having,
            returns=returns,
        ),
        reading=tuple(reading for _, reading in kept),
        variables={name: variable for name, variable in resolved.variables.items() if name in present},
        keyed={name: attributes for name, attributes in resolved.keyed.items() if name in present},
    )


def _once(reading: Reading) -> Reading:
    """Of a conjunct about an absent list: the groups around it, in each of whose iterations it would have to hold, are
    absent with it."""
    return replace(reading, context=())


def without(expression: ast.Expression, absent: Collection[str]) -> ast.Expression:
    """The expression with 0 for `count(v[])` of absent variables."""
    match expression:
        case ast.Aggregate(function="count", variable=variable, range=ast.Range.ALL) if variable in absent:
            return ast.Literal(0, expression.span)
        case ast.Negative() | ast.Not() | ast.Membership():
            return replace(expression, operand=without(expression.operand, absent))
        case ast.Arithmetic() | ast.Comparison():
            return replace(expression, left=without(expression.left, absent), right=without(expression.right, absent))
        case ast.AllOf() | ast.OneOf():
            return replace(expression, operands=tuple(without(operand, absent) for operand in expression.operands))
    return expression


def mentions(expression: ast.Expression, absent: Collection[str]) -> bool:
    """True when a term of the expression is about one of these variables."""
    terms = (node for node in ast.walk(expression) if isinstance(node, ast.Attribute | ast.Aggregate))
    return any(term.variable in absent for term in terms)


def _or_null(expression: ast.Expression, absent: Collection[str]) -> ast.Expression:
    counted = without(expression, absent)
    return ast.Literal(None, expression.span) if mentions(counted, absent) else counted


__all__ = ["for_pattern", "mentions", "without"]
