"""How a query can be divided together with the queries whose matches it uses."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, Self

from engine.events import FOREVER_MS
from engine.language import ast
from engine.language.resolver import ResolvedQuery
from engine.plan.distribution import Distribution, Obstacle, OwnDistribution, needs_all, own_distribution, types_by_key
from engine.plan.model import Plan


class Composed(Protocol):
    """A planned query, and those whose matches it uses."""

    @property
    def name(self) -> str: ...
    @property
    def resolved(self) -> ResolvedQuery: ...
    @property
    def branches(self) -> tuple[Plan, ...]: ...
    @property
    def producers(self) -> Sequence[Self]: ...
    @property
    def chain(self) -> Sequence[Self]:
        """All queries that it uses, directly or not, before itself."""
        ...

    @property
    def depth(self) -> int: ...
    @property
    def match_type(self) -> str: ...
    @property
    def own_read_types(self) -> frozenset[str]:
        """The event types that decide what it finds, with those of its producers' matches."""
        ...


def distribution_of(query: Composed) -> Distribution:
    """The distribution of a query with all that it uses, directly or not.

    A producer goes into the buckets of the query's key when it has that key, too, and its matches show it; or into
    every bucket as a whole, when the query sees its matches in every partition.
    """
    own = {member.name: own_distribution(member.resolved, member.branches) for member in query.chain}
    found = _by_key(query, own)
    keys, broadcast = ({}, _event_types(query.chain)) if isinstance(found, Obstacle) else found
    return Distribution(
        keys=keys,
        broadcast=broadcast,
        reach_ms=_reach_ms(query, own),
        look_back_ms=_look_back_ms(query, own),
        n_links=query.depth + 1,
        key_obstacle=found if isinstance(found, Obstacle) else None,
        slice_obstacle=_slice_obstacle(query, own),
        # Which of a clock's overlapping intervals are taken depends on all that came before.
        needs_exact_times=any(member.resolved.is_trend for member in query.chain),
    )


# ------------------------------------------------------------------- by key


def _by_key(
    query: Composed, own: dict[str, OwnDistribution]
) -> tuple[dict[str, tuple[str, ...]], frozenset[str]] | Obstacle:
    """The types that go by a key, with it, and those that every bucket needs."""
    last = own[query.name]
    if last.key_obstacle is not None:
        return last.key_obstacle
    key, whole = last.key, set[str]()
    for member in reversed(query.chain):
        shared = tuple(name for name in key if name in own[member.name].key)
        if shared:
            key = shared
        else:
            whole.add(member.name)
    types = query.resolved.schema.types
    keyed = [member for member in query.chain if member.name not in whole]
    obstacle = _chain_obstacle(query.chain, whole, key)
    if obstacle is not None:
        return obstacle
    attributes = {name: has for member in query.chain for name, has in member.resolved.schema.types.items()} | dict(
        types
    )
    by_key = types_by_key(_event_types(keyed), attributes, key)
    everywhere = _event_types(keyed) - by_key
    of_whole = _event_types(member for member in query.chain if member.name in whole)
    if divided := sorted(of_whole & by_key):
        return Obstacle(
            f"{_named(whole)} needs all events of {', '.join(divided)}, which {query.name} has by {', '.join(key)}",
            f"give {_named(whole)} the key {', '.join(key)}, or evaluate everything in one piece",
        )
    return dict.fromkeys(sorted(by_key), key), everywhere | of_whole


def _chain_obstacle(chain: Sequence[Composed], whole: set[str], key: tuple[str, ...]) -> Obstacle | None:
    """Why the matches of producers cannot be had where the queries are that use them."""
    for member in chain:
        for producer in member.producers:
            bound = needs_all(producer.resolved.query)
            if bound is not None:
                return bound
            has_key = set(key) <= set(member.resolved.schema.types[producer.match_type])
            is_whole = producer.name in whole
            if is_whole != (member.name in whole) and (not is_whole or has_key):
                return _disagreement(member, producer, key)
            if not is_whole and not (has_key and _shows(producer, key)):
                return _disagreement(member, producer, key)
    return None


def _disagreement(member: Composed, producer: Composed, key: tuple[str, ...]) -> Obstacle:
    return Obstacle(
        f"{member.name} and the matches of {producer.name} that it uses have no key in common that both go by "
        f"({', '.join(key)})",
        "give both the same [x]; or divide by time, or evaluate everything in one piece",
    )


def _shows(producer: Composed, key: tuple[str, ...]) -> bool:
    """Whether these attributes of its matches have the values that all events of a match agree in."""
    returned = {item.name: item.expression for item in producer.resolved.query.returns}
    for name in key:
        match returned.get(name):
            case None if name in producer.resolved.key:
                continue
            case ast.Attribute(name=attribute) if attribute == name:
                continue
        return False
    return True


def _event_types(members: Iterable[Composed]) -> frozenset[str]:
    """The types of events, not of matches, that decide what these find."""
    found: set[str] = set()
    for member in members:
        matches = {producer.match_type for producer in member.producers}
        found |= member.own_read_types - matches
    return frozenset(found)


def _named(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))


# ------------------------------------------------------------------ by time


def _slice_obstacle(query: Composed, own: dict[str, OwnDistribution]) -> Obstacle | None:
    for member in query.chain:
        obstacle = own[member.name].slice_obstacle
        if obstacle is None and member is not query:
            obstacle = needs_all(member.resolved.query)
        if obstacle is not None:
            return obstacle
    return None


def _reach_ms(query: Composed, own: dict[str, OwnDistribution]) -> int:
    """A match of a producer is an event at its end; what decides it may come as late as its window."""
    further = max((_reach_ms(producer, own) for producer in query.producers), default=0)
    return min(FOREVER_MS, own[query.name].reach_ms + further)


def _look_back_ms(query: Composed, own: dict[str, OwnDistribution]) -> int:
    """The events of a producer's match may begin a window before it, and what it looks back at before these."""
    earlier = (_reach_ms(producer, own) + _look_back_ms(producer, own) for producer in query.producers)
    return min(FOREVER_MS, own[query.name].look_back_ms + max(earlier, default=0))


__all__ = ["distribution_of"]
