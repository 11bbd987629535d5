"""The output forms over the matches of one window (DESIGN 3, "Output")."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

from engine.events import EventSchema
from engine.language import ast
from engine.language.resolver import ResolvedQuery
from engine.reference.absence import has_absence
from engine.reference.arrangements import Arranger
from engine.reference.conditions import Keys
from engine.reference.demands import confidence_of_any, confidence_of_match, in_time, is_sequence
from engine.reference.existence import share_with_any
from engine.reference.found import FoundMatch
from engine.reference.matches import listing_order
from engine.reference.observed import ObservedEvent
from engine.reference.places import Bounds
from engine.reference.shape import Items, shape_of, slots_of

Events = Sequence[ObservedEvent]


@dataclass(frozen=True)
class Outcome:
    """A row to be: the match that stands for it, how many it stands for, and what COLLAPSED says about them.

    `behind`: the matches that it stands for, where that says more than `confidence`.
    """

    match: FoundMatch
    confidence: Fraction
    count: int = 1
    candidates: dict[str, tuple[str, ...]] | None = None
    exact: bool = True
    behind: Sequence[FoundMatch] = ()


def _all(_: ResolvedQuery, found: Sequence[FoundMatch], __: Events) -> list[Outcome]:
    return [Outcome(match, match.confidence) for match in found]


def _sets(resolved: ResolvedQuery, found: Sequence[FoundMatch], events: Events) -> list[Outcome]:
    """Matches with equal event sets per variable are one, as confident as it is that one of them happened."""

    def event_sets(match: FoundMatch) -> tuple[tuple[str, tuple[str, ...]], ...]:
        return tuple((v, tuple(sorted(event.event_id for event in events))) for v, events in match.binding.items())

    groups = _groups(found, event_sets)
    return [Outcome(_best(group), _confidence_of_set(resolved, group, events), len(group)) for group in groups]


def _confidence_of_set(resolved: ResolvedQuery, group: Sequence[FoundMatch], events: Events) -> Fraction:
    """Different orders of the same events share no world, so their confidences add up; other matches may share some."""
    if any(match.ways for match in group):
        return share_with_any(resolved, events, group)
    orders = {match.sequence for match in group}
    if len(orders) == len(group) and all(is_sequence(match.bounds) for match in group):
        return sum((match.confidence for match in group), start=Fraction(0))
    if all(event.is_precise for event in group[0].sequence):
        return max(match.confidence for match in group)
    if any(map(has_absence, shape_of(resolved.query.pattern).branches)):
        return share_with_any(resolved, events, group)
    within_ms = resolved.within_ms
    strict_ties = resolved.query.ties is ast.Ties.STRICT
    return confidence_of_any([match.bounds for match in group], within_ms, strict_ties=strict_ties)


def _collapsed(resolved: ResolvedQuery, found: Sequence[FoundMatch], _: Events) -> list[Outcome]:
    outcomes = []
    for group in _groups(found, partial(_ends_of_key, resolved)):
        candidates = _candidates(group)
        ids = {variable: tuple(event.event_id for event in events) for variable, events in candidates.items()}
        best = _best(group)
        exact = _n_in_order(resolved, candidates, _ends(best)) == len(group)
        outcomes.append(Outcome(best, best.confidence, len(group), ids, exact, group))
    return outcomes


def _counted(resolved: ResolvedQuery, found: Sequence[FoundMatch], _: Events) -> list[Outcome]:
    groups = _groups(found, partial(_ends_of_key, resolved))
    return [Outcome(_best(group), _best(group).confidence, len(group), behind=group) for group in groups]


def key_of(resolved: ResolvedQuery, match: FoundMatch) -> tuple[tuple[str, object], ...]:
    """The partition key of a match: name and value of each key attribute that its events have."""
    owners = Keys(resolved.query, resolved.schema).of(match.sequence)
    return tuple((name, event.raw[name]) for name, event in owners.items())


def _ends_of_key(resolved: ResolvedQuery, match: FoundMatch) -> Hashable:
    """First and last event, which matches of several keys may share."""
    return key_of(resolved, match), _ends(match)


def _ends(match: FoundMatch) -> tuple[str, str]:
    return (match.sequence[0].event_id, match.sequence[-1].event_id)


def _groups(found: Sequence[FoundMatch], key: Callable[[FoundMatch], Hashable]) -> list[list[FoundMatch]]:
    """Groups of equal key in the order of their first members."""
    groups: dict[Hashable, list[FoundMatch]] = {}
    for match in found:
        groups.setdefault(key(match), []).append(match)
    return list(groups.values())


def _best(group: Sequence[FoundMatch]) -> FoundMatch:
    """The most confident match, of these the longest, of these the first listed."""
    return min(group, key=lambda match: (-match.confidence, -len(match.sequence), listing_order(match)))


def _candidates(group: Sequence[FoundMatch]) -> dict[str, list[ObservedEvent]]:
    """Variable -> the events it has in at least one match, in stream order."""
    candidates: dict[str, dict[str, ObservedEvent]] = {}
    for match in group:
        for variable, events in match.binding.items():
            candidates.setdefault(variable, {}).update({event.event_id: event for event in events})
    return {
        variable: sorted(events.values(), key=lambda event: event.stream_order)
        for variable, events in candidates.items()
    }


def _n_in_order(
    resolved: ResolvedQuery, candidates: Mapping[str, Sequence[ObservedEvent]], ends: tuple[str, str]
) -> int:
    """How many arrangements of the candidates have these ends and are in order and inside the window in some world,
    whatever the conditions."""
    no_keys = Keys(ast.Query(resolved.query.pattern, None), EventSchema.of({}))
    strict_ties = resolved.query.ties is ast.Ties.STRICT
    events = list({event.event_id: event for chosen in candidates.values() for event in chosen}.values())
    found: set[Bounds] = set()
    for branch in shape_of(resolved.query.pattern).branches:
        if {slot.variable for slot in slots_of(branch)} <= candidates.keys():
            found.update(_arranged(branch, Arranger(events, no_keys, strict_ties, (), candidates), ends))
    return sum(confidence_of_match(bounds, resolved.within_ms, strict_ties=strict_ties) > 0 for bounds in found)


def _arranged(branch: Items, arranger: Arranger, ends: tuple[str, str]) -> set[Bounds]:
    arranged = set()
    for bounds in arranger.arrangements(branch):
        sequence = in_time(bounds)
        if (sequence[0].event_id, sequence[-1].event_id) == ends:
            arranged.add(bounds)
    return arranged


def _non_overlapping(resolved: ResolvedQuery, found: Sequence[FoundMatch], _: Events) -> list[Outcome]:
    """Per partition: the earliest end, then earliest start, the longest, ids; the next starts strictly later."""

    def preference(match: FoundMatch) -> tuple[object, ...]:
        first, last = match.sequence[0], match.sequence[-1]
        return (
            last.hi_ms,
            last.stream_order,
            first.lo_ms,
            first.stream_order,
            -len(match.sequence),
            listing_order(match),
        )

    chosen = []
    for matches in _groups(found, partial(key_of, resolved)):
        end_ms: int | None = None
        for match in sorted(matches, key=preference):
            if end_ms is None or match.sequence[0].lo_ms > end_ms:
                chosen.append(Outcome(match, match.confidence))
                end_ms = match.sequence[-1].hi_ms
    return chosen


def _top(resolved: ResolvedQuery, found: Sequence[FoundMatch], _: Events) -> list[Outcome]:
    ranked = sorted(found, key=lambda match: (-match.confidence, listing_order(match)))
    return [Outcome(match, match.confidence) for match in ranked[: resolved.query.top_k]]


FORMS: dict[ast.Output, Callable[[ResolvedQuery, Sequence[FoundMatch], Events], list[Outcome]]] = {
    ast.Output.ALL: _all,
    ast.Output.SETS: _sets,
    ast.Output.COLLAPSED: _collapsed,
    ast.Output.COUNT: _counted,
    ast.Output.NON_OVERLAPPING: _non_overlapping,
    ast.Output.TOP: _top,
}
"""Each turns the matches of one window, in listing order, into rows; `Events` are those of the stream."""


__all__ = ["FORMS", "Outcome", "key_of"]
