"""Windows of events: by which attributes the events of a match are counted, and the plans that do so.

The partition of a match is that of all its events (DESIGN 3, "[x]"), and the window counts the events of that
partition. So a pattern is evaluated once for each set of key attributes that its matches may have, over partitions by
exactly these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from engine.errors import UnsupportedQueryError
from engine.language import ast
from engine.language.resolver import ResolvedQuery
from engine.plan.key_sets import Attributes, key_attributes, key_sets
from engine.plan.model import Plan

P = TypeVar("P", bound=Plan)


@dataclass(frozen=True)
class CountWindowPlan:
    """The matches of the plan `branch` of a union whose events have just these key attributes.

    `plan` is keyed by them alone: each event stands in it once for each of its partitions. `of_variable`: the key
    attributes of each variable, where the plan has matches of other keys, too; None where it has not. `needs_whole`:
    every match has an event with all of `key`.
    """

    branch: int
    plan: Plan
    key: tuple[str, ...]
    of_variable: Mapping[str, Attributes] | None
    needs_whole: bool


def count_window_plans(resolved: ResolvedQuery, branches: Sequence[Plan]) -> list[CountWindowPlan]:
    """The plans that evaluate a query WITHIN n EVENTS. Raises UnsupportedQueryError for what they cannot."""
    return [found for number, branch in enumerate(branches) for found in _of_branch(resolved, number, branch)]


def _of_branch(resolved: ResolvedQuery, number: int, branch: Plan) -> list[CountWindowPlan]:
    of_type = key_attributes(resolved)
    found = sorted(
        key_sets(branch.query.pattern, resolved), key=lambda attributes: [x not in attributes for x in resolved.key]
    )
    if len(found) > 1 and branch.strategy is not ast.Strategy.SKIP_TILL_ANY_MATCH:
        raise UnsupportedQueryError(
            f"WITHIN n EVENTS under {branch.strategy.value} with iterations of different keys is not evaluated",
            branch.query.clause_span("WITHIN"),
            "a repeated group of which every alternative has the same key attributes",
            "use skip_till_any_match, or evaluate it with --runtime oracle",
        )
    components = [c for c, negated in ast.components(branch.query.pattern) if not negated]
    of_variable = {c.variable: of_type[c.event_type] for c in components} if len(found) > 1 else None
    keys = [tuple(x for x in resolved.key if x in attributes) for attributes in found]
    return [CountWindowPlan(number, keyed_by(branch, key), key, of_variable, needs_whole(branch, key)) for key in keys]


def needs_whole(plan: Plan, key: tuple[str, ...]) -> bool:
    """Whether every match with all of these key attributes has an event with all of them."""
    parts = [frozenset(plan.key_of_type[step.event_type]) & frozenset(key) for step in plan.steps]
    union: Attributes = frozenset().union(*(part for part in parts if part != frozenset(key)))
    return not key or union != frozenset(key)


def keyed_by(plan: P, key: tuple[str, ...]) -> P:
    """The plan for a stream in which every event, whatever its type, has this key, and which says itself whether an
    event follows the one before it at once."""
    strategy = plan.strategy
    if strategy is ast.Strategy.STRICT_CONTIGUITY:
        strategy = ast.Strategy.PARTITION_CONTIGUITY
    return replace(
        plan,
        strategy=strategy,
        key=key,
        broadcast=frozenset(),
        keyed_types=frozenset(plan.key_of_type) if key else frozenset(),
        partial_key=(),
        steps=tuple(replace(step, keyed=True) for step in plan.steps),
        negations=tuple(replace(negation, keyed=True) for negation in plan.negations),
    )


__all__ = ["CountWindowPlan", "count_window_plans", "keyed_by", "needs_whole"]
