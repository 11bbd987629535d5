"""Terms that no compiled runtime evaluates while it matches: user-defined aggregates, applied to listed matches.

A conjunct that is left out of matching and applied afterwards gives the same matches where a run that breaks it ends
without another effect: under skip till any match and both contiguities. Under skip till next match a run ignores an
event that the conjunct keeps from an edge, unless it ignores it anyway, as where it leaves a Kleene component or a
group behind: only conjuncts that are decided on such edges alone, or at the end, can wait. The class of all of them is
inconsistent (SASE++ section 5.2): nothing is decided early.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from engine.errors import Span, UnsupportedQueryError
from engine.events import TIME_ATTRIBUTE
from engine.language import ast
from engine.language.build_expression import AGGREGATES
from engine.language.reading import Reading, Start
from engine.language.resolver import ResolvedQuery
from engine.plan.automaton.model import AutomatonEdge
from engine.plan.automaton.planner import automaton_plan
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
            _check_condition(resolved, conjunct, reading)
            first = {Start.PER_MATCH: 0, Start.FROM_FIRST: 1, Start.FROM_SECOND: 2}[reading.start]
            conditions.append(LaterCondition(conjunct, reading.variable, first, reading.context))
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
    paths = {name: variable.path for name, variable in resolved.variables.items()}
    return replace(resolved, query=rest, reading=readings), AfterListing(tuple(conditions), having, returns, paths)


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


def _check_condition(resolved: ResolvedQuery, conjunct: ast.Expression, reading: Reading) -> None:
    terms = [node for node in ast.walk(conjunct) if isinstance(node, ast.Attribute | ast.Aggregate)]
    if any(resolved.variables[term.variable].negated for term in terms):
        raise _unsupported(conjunct.span, "in a predicate on a negated component")
    next_match = resolved.query.strategy is ast.Strategy.SKIP_TILL_NEXT_MATCH
    if next_match and any(edge.blocks for edge in _deciding_edges(resolved, conjunct, reading)):
        raise _unsupported(
            conjunct.span, "under skip_till_next_match but in a predicate that a component left behind decides"
        )


def _deciding_edges(resolved: ResolvedQuery, conjunct: ast.Expression, reading: Reading) -> list[AutomatonEdge]:
    """The edges after which all that a conjunct is about is known; which aggregates it has does not matter."""
    stand_in = _with_known_aggregates(conjunct)
    query = replace(resolved.query, predicates=(stand_in,), equivalences=(), having=None, returns=())
    automaton = automaton_plan(replace(resolved, query=query, reading=(reading,), return_types=())).states
    return [edge for edge in automaton.edges if edge.checks]


def _with_known_aggregates(expression: ast.Expression) -> ast.Expression:
    match expression:
        case ast.Aggregate():
            return replace(expression, function="avg") if is_later(expression) else expression
        case ast.Negative() | ast.Not() | ast.Membership():
            return replace(expression, operand=_with_known_aggregates(expression.operand))
        case ast.Arithmetic() | ast.Comparison():
            left, right = _with_known_aggregates(expression.left), _with_known_aggregates(expression.right)
            return replace(expression, left=left, right=right)
        case ast.AllOf() | ast.OneOf():
            return replace(expression, operands=tuple(map(_with_known_aggregates, expression.operands)))
    return expression


def _unsupported(span: Span | None, where: str) -> UnsupportedQueryError:
    return UnsupportedQueryError(
        f"a user-defined aggregate is not evaluated {where}",
        span,
        "a user-defined aggregate in HAVING, RETURN, or a predicate on complete components",
        "use skip_till_any_match, or one of the aggregates that every engine has",
    )


__all__ = ["is_later", "split", "with_later"]
