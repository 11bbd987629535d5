"""How a query partitions the stream: by the attributes that all its keyed components have (SASE+ section 3.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from engine.errors import UnsupportedQueryError
from engine.language import ast
from engine.language.resolver import ResolvedQuery
from engine.plan.key_sets import key_sets
from engine.plan.model import PartialKey, Plan

P = TypeVar("P", bound=Plan)


@dataclass(frozen=True, slots=True)
class Partitioning:
    """`key`: attributes that tell partitions apart; events of `broadcast` types enter every one.

    `keyed_types`: all types of the schema that have the key, whether the query names them or not.
    """

    key: tuple[str, ...]
    broadcast: frozenset[str]
    keyed_types: frozenset[str]


def partitioning(resolved: ResolvedQuery, components: Sequence[tuple[ast.Component, bool]]) -> Partitioning:
    """The partitioning of a pattern of these components, each with True where it is negated."""
    key = _key(resolved, components)
    broadcast = frozenset(c.event_type for c, _ in components if key and not resolved.keyed.get(c.variable))
    return Partitioning(key, broadcast, _keyed_types(resolved, key))


def _key(resolved: ResolvedQuery, components: Sequence[tuple[ast.Component, bool]]) -> tuple[str, ...]:
    """The attributes of `[x]` that every keyed component has; the others become predicates.

    There are none when negated components alone are keyed: the matches are then of no partition, and each is one.
    """
    having = [attributes for attributes in resolved.keyed.values() if attributes]
    key = tuple(x for x in resolved.key if all(x in attributes for attributes in having))
    if not any(resolved.keyed.get(component.variable) for component, negated in components if not negated):
        key = ()
    return key


def _keyed_types(resolved: ResolvedQuery, key: tuple[str, ...]) -> frozenset[str]:
    """The types of the schema with all attributes of the key."""
    types = resolved.schema.types
    return frozenset(name for name, attributes in types.items() if key and set(key) <= set(attributes))


def with_partial_key(plan: P, resolved: ResolvedQuery) -> P:
    """The plan with the key attributes that only some of its positive components have, and these among its columns.

    A match is of the partition that all its events' key attributes give (DESIGN 3, "[x]"). Under skip till next match a
    run that may begin without one of them, and under partition contiguity every run among types with a part of the key,
    goes on in several partitions: the plan is spread. Raises UnsupportedQueryError where that cannot be.
    """
    found = []
    for attribute in resolved.key:
        holders = frozenset(name for name in plan.variables if attribute in resolved.keyed.get(name, ()))
        if attribute not in plan.key and holders:
            found.append(PartialKey(attribute, holders))
    if found:
        names = dict.fromkeys((*plan.programs.columns, *(partial.attribute for partial in found)))
        plan = replace(plan, programs=replace(plan.programs, columns=tuple(names)), partial_key=tuple(found))
    if plan.query.within_events is not None or not _has_partial_keys(plan):
        return plan
    if len(key_sets(plan.query.pattern, resolved)) > 1:
        raise UnsupportedQueryError(
            f"{plan.strategy.value} with iterations of different keys is not evaluated",
            plan.query.span,
            "a repeated group of which every alternative has the same key attributes",
            "use skip_till_any_match, or evaluate it with --runtime oracle",
        )
    note = (
        f"spread: an event is in every partition by {', '.join(plan.match_key)} that agrees with what it has of these"
    )
    return replace(plan, has_partial_keys=True, notes=(*plan.notes, note))


def _has_partial_keys(plan: Plan) -> bool:
    """Whether a run may be of several partitions, or be ended by events that are."""
    match plan.strategy:
        case ast.Strategy.SKIP_TILL_NEXT_MATCH:
            beginning = {plan.variables[number] for number in plan.starts}
            return any(not beginning <= partial.variables for partial in plan.partial_key)
        case ast.Strategy.PARTITION_CONTIGUITY:
            key = set(plan.match_key)
            parts = (key & set(has) for has in plan.key_of_type.values())
            return bool(plan.partial_key) or any(part and part != key for part in parts)
    return False


__all__ = ["Partitioning", "partitioning", "with_partial_key"]
