"""Partitions that a query has without naming them: `a.x = b[i].x AND a.x = c.x` says as much as `[x]`.

A run ignores what fails its predicates under skip till next match, so that events with another x than its first one may
be kept from it. The predicates stay where they are: this only tells which events need not be offered. Partitions that
the query does not name are not seen from outside: rows have no key, and output is not told apart by them.
"""

from __future__ import annotations

from engine.language import ast
from engine.plan.model import EdgePredicates, Plan


def implied_key(plan: Plan) -> tuple[str, ...]:
    """The attributes in which each event of a match equals the first one, by predicates on the edges that select it.

    Empty for a plan that has a key, for another strategy, for a first component that is no single event, and with
    negated components, whose events are looked for across partitions.
    """
    return equated_attributes(plan) if plan.strategy is ast.Strategy.SKIP_TILL_NEXT_MATCH else ()


def equated_attributes(plan: Plan) -> tuple[str, ...]:
    """The same under both strategies that may skip events."""
    skips = plan.strategy in (ast.Strategy.SKIP_TILL_NEXT_MATCH, ast.Strategy.SKIP_TILL_ANY_MATCH)
    first = plan.steps[0]
    if not skips or plan.key or plan.negations or first.kleene or plan.n_steps == 1:
        return ()
    names = {term.name for step in plan.steps for edge in (step.begin, step.take) for term in _attributes(edge)}
    return tuple(sorted(name for name in names if _partitions_by(plan, name)))


def _partitions_by(plan: Plan, attribute: str) -> bool:
    anchors = {plan.steps[0].variable}
    for step in plan.steps[1:]:
        edges = (step.begin, step.take) if step.kleene else (step.begin,)
        if not all(_equates(edge, attribute, step.variable, anchors) for edge in edges):
            return False
        if not step.kleene:
            anchors.add(step.variable)
    return True


def _equates(edge: EdgePredicates, attribute: str, variable: str, anchors: set[str]) -> bool:
    """True when the edge asks the event to have the attribute of one of the single components `anchors`."""
    for predicate in edge.predicates:
        match predicate.conjunct:
            case ast.Comparison(op="=", left=ast.Attribute() as left, right=ast.Attribute() as right):
                for own, other in ((left, right), (right, left)):
                    of_event = own.variable == variable and own.index in (ast.Index.SINGLE, ast.Index.CURRENT)
                    of_anchor = other.variable in anchors and other.index is ast.Index.SINGLE
                    if of_event and of_anchor and own.name == other.name == attribute:
                        return True
    return False


def _attributes(edge: EdgePredicates) -> list[ast.Attribute]:
    nodes = [node for predicate in edge.predicates for node in ast.walk(predicate.conjunct)]
    return [node for node in nodes if isinstance(node, ast.Attribute)]


__all__ = ["equated_attributes", "implied_key"]
