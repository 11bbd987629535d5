"""What a query will do, for programs: the facts of `explain` as JSON has them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from engine.language.printer import print_expression
from engine.language.resolver import ResolvedQuery
from engine.plan.distribution import Distribution
from engine.plan.evaluation import BranchEvaluation, QueryEvaluation
from engine.plan.exact_times import exact_times
from engine.plan.model import EdgePredicates


def facts(
    evaluation: QueryEvaluation, resolved: ResolvedQuery, producers: Sequence[str], divided: Distribution
) -> dict[str, Any]:
    """How a query is evaluated: texts, numbers, lists and mappings. `producers`: the queries whose matches it uses."""
    plan, query = evaluation.plan, resolved.query
    is_of_events = query.within_events is not None
    return {
        "query": resolved.name,
        "strategy": plan.strategy.value,
        "within_ms": None if is_of_events else plan.within_ms,
        "within_events": query.within_events,
        "ties": plan.ties.name,
        "needs_exact_times": exact_times(query) is not None,
        "output": plan.output.value,
        "limit": plan.limit,
        "confidence": plan.confidence,
        "is_trend": query.is_trend,
        "uses": list(producers),
        "parameters": dict(sorted(resolved.parameters.items())),
        "event_types": sorted(plan.types),
        "key": list(plan.key),
        "broadcast": sorted(plan.broadcast),
        "plans": [_branch(branch) for branch in evaluation.branches],
        "threads": {"by_key": evaluation.is_divided_by_key, "by_time": evaluation.is_divided_by_time},
        "divided": {
            "by_key": list(divided.key),
            "why_not_by_key": None if divided.key_obstacle is None else str(divided.key_obstacle),
            "by_time": divided.sliceable,
            "why_not_by_time": None if divided.slice_obstacle is None else str(divided.slice_obstacle),
        },
        "overload": [found.name.lower() for found in dict.fromkeys(evaluation.sheddable)],
        "warnings": list(map(str, resolved.warnings)),
    }


def _branch(branch: BranchEvaluation) -> dict[str, Any]:
    plan = branch.plan
    return {
        "runtime": branch.runtime.name.lower(),
        "cost": branch.runtime.cost,
        "variables": [
            {
                "name": step.variable,
                "type": step.event_type,
                "kleene": step.kleene,
                "broadcast": not step.keyed,
                "predicates": [
                    found
                    for edge, predicates in (("begin", step.begin), ("take", step.take), ("proceed", step.proceed))
                    if edge != "take" or step.kleene
                    for found in _predicates(edge, predicates)
                ],
            }
            for step in plan.steps
        ],
        "negated": [
            {
                "name": negation.variable,
                "type": negation.event_type,
                "predicates": list(_predicates("absent", negation.edge)),
            }
            for negation in plan.negations
        ],
        "notes": list(plan.notes),
    }


def _predicates(edge: str, predicates: EdgePredicates) -> Iterator[dict[str, Any]]:
    for predicate in predicates.predicates:
        yield {
            "edge": edge,
            "text": print_expression(predicate.conjunct),
            "class": predicate.consistency.value,
            "on_arrival": predicate.local,
        }


__all__ = ["facts"]
