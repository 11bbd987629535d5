"""How a query partitions the stream: by the attributes that all its keyed components have (SASE+ section 3.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from engine.errors import UnsupportedQueryError
from engine.language import ast
from engine.language.resolver import ResolvedQuery
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
    """The partitioning of a pattern of these components, each with True where it is negated.

    Raises UnsupportedQueryError for keys that contiguity cannot use.
    """
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
    held = tuple(x for x in resolved.key if any(x in attributes for attributes in having))
    if key != held and _is_contiguous(resolved.query):
        raise UnsupportedQueryError(
            "partition contiguity needs one partition for all keyed components",
            resolved.query.span,
            f"every keyed type to have all of {', '.join(resolved.key)}",
            "use [x] only with attributes that all of them have",
        )
    return key


def _keyed_types(resolved: ResolvedQuery, key: tuple[str, ...]) -> frozenset[str]:
    """The types of the schema with all attributes of the key."""
    types = resolved.schema.types
    keyed = frozenset(name for name, attributes in types.items() if key and set(key) <= set(attributes))
    if _is_contiguous(resolved.query):
        partly = sorted(name for name in types.keys() - keyed if set(key) & set(types[name]))
        if partly:
            raise UnsupportedQueryError(
                f"partition contiguity by {', '.join(key)}, but {', '.join(partly)} have only some of them",
                resolved.query.span,
                "every type to have all attributes of the key, or none",
                "use one attribute as the key, or evaluate it with --runtime oracle",
            )
    return keyed


def _is_contiguous(query: ast.Query) -> bool:
    """Whether neighbours in partitions matter; windows of events have their own (`engine.plan.counted`)."""
    return query.strategy is ast.Strategy.PARTITION_CONTIGUITY and query.within_events is None


def with_partial_key(plan: P, resolved: ResolvedQuery) -> P:
    """The plan with the key attributes that only some of its positive components have, and these among its columns.

    A match is of the partition that all its events' key attributes give (DESIGN 3, "[x]"). Raises UnsupportedQueryError
    under skip till next match when a run may begin without one: it would have to go on in several partitions.
    """
    found = []
    for attribute in resolved.key:
        holders = frozenset(name for name in plan.variables if attribute in resolved.keyed.get(name, ()))
        if attribute not in plan.key and holders:
            found.append(PartialKey(attribute, holders))
    if not found:
        return plan
    beginning = {plan.variables[number] for number in plan.starts}
    late = [partial.attribute for partial in found if not beginning <= partial.variables]
    counted = plan.query.within_events is not None
    if late and plan.strategy is ast.Strategy.SKIP_TILL_NEXT_MATCH and not counted:
        raise UnsupportedQueryError(
            f"skip_till_next_match by [{late[0]}], which a component that begins the pattern does not have",
            plan.query.span,
            f"every type of {', '.join(sorted(beginning))} to have {late[0]}, or no keyed type to lack it",
            "use skip_till_any_match, or evaluate it with --runtime oracle",
        )
    names = dict.fromkeys((*plan.programs.columns, *(partial.attribute for partial in found)))
    return replace(plan, programs=replace(plan.programs, columns=tuple(names)), partial_key=tuple(found))


__all__ = ["Partitioning", "partitioning", "with_partial_key"]
