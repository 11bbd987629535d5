"""How the events of a query can be divided so that the parts are evaluated apart, and nothing is lost or found twice.

By key: all events of a match that have the key have the same one, so that partitions can be put into buckets. By time:
a match belongs to the slice of its first event, and the events that decide it are near that. Both are told
conservatively: what is not proved from the query is refused with the reason and what to do instead.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from engine.events import FOREVER_MS, TIME_ATTRIBUTE
from engine.language import ast
from engine.language.resolver import ResolvedQuery
from engine.plan.implied_key import equated_attributes
from engine.plan.key_sets import key_sets
from engine.plan.model import Plan, PlanForm


class Obstacle(NamedTuple):
    """Why events cannot be divided in some way, and what to do instead."""

    reason: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.reason}; {self.remedy}"


@dataclass(frozen=True)
class Distribution:
    """How the events of a query, and of the queries whose matches it uses, can be divided.

    `keys`: for each type that goes by its key the attributes of that, the same ones for all of them; an event of which
    one is NULL is in no match. `broadcast`: the types whose events every bucket needs that has others. Without `keys`
    nothing can be divided by key, and `key_obstacle` says why.

    `reach_ms`, `look_back_ms`: the events that decide a match, whose first event begins in [s, e), begin before
    e + reach and end at s - look_back or later, both widened by `n_links` times the longest interval of an event.
    `slice_obstacle`: why time cannot be cut, None where it can; `needs_exact_times`: where all times are exact only.
    """

    keys: Mapping[str, tuple[str, ...]]
    broadcast: frozenset[str]
    reach_ms: int
    look_back_ms: int
    n_links: int = 1
    key_obstacle: Obstacle | None = None
    slice_obstacle: Obstacle | None = None
    needs_exact_times: bool = False

    @property
    def key(self) -> tuple[str, ...]:
        """The attributes whose values tell the bucket of an event, () where there are none."""
        return next(iter(self.keys.values()), ())

    @property
    def sliceable(self) -> bool:
        """Whether time can be cut."""
        return self.slice_obstacle is None

    @property
    def types(self) -> frozenset[str]:
        """All types that are read."""
        return self.broadcast | frozenset(self.keys)

    def explain(self) -> list[str]:
        """For people, one fact per line."""
        lines = []
        if self.keys:
            lines.append(f"divided by buckets of {', '.join(self.key)}: {', '.join(sorted(self.keys))}")
            if self.broadcast:
                lines.append(f"           {', '.join(sorted(self.broadcast))} in every bucket")
        elif self.key_obstacle is not None:
            lines.append(f"divided    not by key: {self.key_obstacle}")
        if self.slice_obstacle is not None:
            lines.append(f"           not by time: {self.slice_obstacle}")
        else:
            back = f" and {self.look_back_ms} ms before" if self.look_back_ms else ""
            what = "where all times are exact: a window" if self.needs_exact_times else "a match"
            lines.append(
                f"           by time{',' if self.needs_exact_times else ':'} {what} begins in its slice, events up to "
                f"{self.reach_ms} ms after{back}"
            )
        return lines


@dataclass(frozen=True)
class OwnDistribution:
    """The same of one query alone, its producers left aside; `key` () where there is none."""

    key: tuple[str, ...]
    reach_ms: int
    look_back_ms: int
    key_obstacle: Obstacle | None
    slice_obstacle: Obstacle | None


def own_distribution(resolved: ResolvedQuery, branches: Sequence[Plan]) -> OwnDistribution:
    """What one query allows."""
    found = _key(resolved, branches)
    reach_ms = FOREVER_MS if resolved.query.within_events is not None else max(b.within_ms for b in branches)
    return OwnDistribution(
        key=() if isinstance(found, Obstacle) else found,
        reach_ms=reach_ms,
        look_back_ms=reach_ms if _looks_back(resolved.query, branches) else 0,
        key_obstacle=found if isinstance(found, Obstacle) else None,
        slice_obstacle=_slice_obstacle(resolved.query),
    )


def types_by_key(
    types: Collection[str], attributes: Mapping[str, Collection[str]], key: tuple[str, ...]
) -> frozenset[str]:
    """Those of `types` that have all of the key."""
    return frozenset(name for name in types if key and set(key) <= set(attributes[name]))


def needs_all(query: ast.Query) -> Obstacle | None:
    """Why the matches of a query that others use depend on all of the stream: a bound on their number."""
    if query.limit is None and query.output is not ast.Output.TOP:
        return None
    clause = "TOP k" if query.output is ast.Output.TOP else "LIMIT"
    return Obstacle(
        f"{clause} of a query whose matches another one uses bounds those of the whole stream",
        "leave it out there, or evaluate everything in one piece",
    )


# ------------------------------------------------------------------- by key


_OF_ALL_GROUPS = Obstacle(
    "without GROUP BY a row is about the trends of all events", "group by an attribute, as in GROUP BY host"
)
"""Trends of one group share it: a type with all of GROUP BY goes by it, the others are in every bucket."""

_EXACT_PARTS = Obstacle(
    "under EXACT a part of a window may have numbers that are too large where the whole window has, or tells, none: "
    "with NOT, HAVING, SUM or arithmetic",
    "leave EXACT or these out",
)


def _key(resolved: ResolvedQuery, branches: Sequence[Plan]) -> tuple[str, ...] | Obstacle:
    if _counts_per_opener(resolved.query):
        return _PER_OPENER
    if resolved.query.strategy is ast.Strategy.STRICT_CONTIGUITY:
        return Obstacle(
            "strict_contiguity looks at what comes next in the whole stream",
            "use partition_contiguity where events of other keys may lie between",
        )
    if resolved.is_trend:
        return resolved.query.group_by or _OF_ALL_GROUPS
    shared = [name for name in branches[0].key if all(name in branch.key for branch in branches)]
    if not shared:
        return _implied(resolved, branches)
    for branch in branches:
        for held in key_sets(branch.query.pattern, resolved):
            if not set(shared) <= held:
                lacking = ", ".join(name for name in shared if name not in held)
                return Obstacle(
                    f"a match may have no {lacking}: not every alternative has an event with it",
                    "let every alternative of the pattern have one, or split the query",
                )
    return tuple(shared)


def _implied(resolved: ResolvedQuery, branches: Sequence[Plan]) -> tuple[str, ...] | Obstacle:
    """The attributes in which all events of a match agree by predicates; rows have no key by them."""
    query = resolved.query
    none = Obstacle(
        "no attribute is the same in all events of a match by [x]" + (" in every alternative" * (len(branches) > 1)),
        "name one, as in WHERE skip_till_any_match { [job_id] }",
    )
    crosses = query.output is ast.Output.NON_OVERLAPPING or query.select_first or bool(query.consume)
    if len(branches) > 1 or crosses or query.open_on is not None or query.within_events is not None:
        return none
    if branches[0].form is PlanForm.AUTOMATON or any(branch.key or branch.partial_key for branch in branches):
        return none
    return tuple(name for name in equated_attributes(branches[0]) if name != TIME_ATTRIBUTE) or none


# ------------------------------------------------------------------ by time


def _slice_obstacle(query: ast.Query) -> Obstacle | None:
    if query.is_trend:
        return _EXACT_PARTS if query.exact_bits and not _grows(query) else None
    if query.within_events is not None:
        return Obstacle("WITHIN n EVENTS says nothing about time", "use a window in time, as in WITHIN 10 minutes")
    if _counts_per_opener(query):
        return _PER_OPENER
    dependent = {
        "CONSUME": bool(query.consume),
        "SELECT FIRST": query.select_first,
        "OUTPUT NON_OVERLAPPING": query.output is ast.Output.NON_OVERLAPPING,
    }
    for clause, is_there in dependent.items():
        if is_there:
            return Obstacle(
                f"under {clause} a match depends on earlier ones", "leave it out, or evaluate everything in one piece"
            )
    return None


_PER_OPENER = Obstacle(
    "LIMIT and TOP k with OPEN ON count per opening event, which rows do not show",
    "leave them out, or evaluate it in one piece",
)


def _grows(query: ast.Query) -> bool:
    """Whether no whole number of a window is smaller than that of a part of it, and every row is told."""
    if query.having is not None or any(isinstance(node, ast.Negation) for node in ast.walk(query.pattern)):
        return False
    returned = [item.expression for item in query.returns]
    return all(
        isinstance(node, ast.Attribute) or (isinstance(node, ast.TrendAggregate) and node.function != "sum")
        for node in returned
    )


def _counts_per_opener(query: ast.Query) -> bool:
    return query.open_on is not None and (query.output is ast.Output.TOP or query.limit is not None)


def _looks_back(query: ast.Query, branches: Sequence[Plan]) -> bool:
    """Whether events before the first one of a match decide it: what is negated before it, or opens its window."""
    if query.is_trend:  # what is negated at the start reaches back to that of the window
        return False
    if query.open_on is not None:
        return True
    return any(branch.looks_back for branch in branches)


__all__ = ["Distribution", "Obstacle", "OwnDistribution", "needs_all", "own_distribution", "types_by_key"]
