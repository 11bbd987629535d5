"""Grouping: matches of one query and key that overlap, or lie within a gap, form one episode."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from json.encoder import encode_basestring_ascii
from types import MappingProxyType
from typing import NamedTuple

import engine
from app.alerting.catalog import QueryInfo
from app.alerting.hosts import Hosts
from app.alerting.recording import certainty
from app.alerting.recording.evidence import KnownEvent
from app.alerting.recording.extremes import Extremes, Seen
from app.alerting.recording.match import Match
from app.json_text import json_encoder

MAX_KEY_CHARS = 1_000

_key_text = json_encoder(sort_keys=True, separators=(",", ":"), default=str)

NOTHING_MISSING: Mapping[str, int] = MappingProxyType({})

Key = tuple[tuple[str, object], ...]


class BoundMatch(NamedTuple):
    """A match of a query, as far as it says to which alert it belongs."""

    query: str
    key_text: str
    """Of the alert."""
    at_ms: int
    """The end of its last event."""


FindMatch = Callable[[str], BoundMatch | None]
"""Id of a match, as those bind it that use it -> the match; None: it is not known."""


def nothing_found(_match_id: str) -> BoundMatch | None:
    """No match is known."""
    return None


@dataclass(frozen=True, slots=True)
class Episode:
    """Matches of one query and key that belong together."""

    query: str
    key: Key
    key_text: str
    """The key as canonical text."""
    start_ms: int
    end_ms: int
    """Both ends inclusive: earliest start and latest end of its matches."""
    n_matches: int
    n_matches_exact: bool
    """False when `n_matches` is a lower bound."""
    best_confidence: float
    """Of its most confident match."""
    extremes: Extremes
    """Its matches that the alert may show."""
    hosts: Hosts
    onset: dict[str, int]
    """Events that may be the first of the variable that ONSET names -> the earliest end of a match with that event,
    which counts where the event is no longer known; "" for matches without such an event."""
    possible: engine.Possibilities
    """What its matches demand of uncertain times."""
    shed: bool = False
    """Whether one of them was found while partial matches were dropped that may have become further ones."""
    expectation: str | None = None
    """See `app.alerting.recording.certainty.weaker`."""
    bound: frozenset[BoundMatch] = frozenset()
    """Of an incident: the matches of other queries that its matches bind."""
    is_claimed: bool = False
    """Whether an incident of the same step binds one of its matches: who is told of it is told of the incident."""

    @property
    def queries(self) -> frozenset[str]:
        """Those whose matches it binds."""
        return frozenset(bound.query for bound in self.bound)


@dataclass(frozen=True, slots=True)
class CreatedAlert:
    """An alert when it was created; the database may have forgotten it since."""

    id: str
    query: str
    query_hash: str
    key_text: str
    start_ms: int
    end_ms: int


CreatedAlerts = Mapping[tuple[str, str, str], Sequence[CreatedAlert]]
"""By query, its hash and the alert's key as text."""


def created_by_key(told: Iterable[CreatedAlert]) -> CreatedAlerts:
    """For looking them up."""
    by_key: dict[tuple[str, str, str], list[CreatedAlert]] = {}
    for alert in told:
        by_key.setdefault((alert.query, alert.query_hash, alert.key_text), []).append(alert)
    return by_key


def created_id(told: CreatedAlerts, episode: Episode, query_hash: str, gap_ms: int) -> str | None:
    """The id under which an episode was told before; None: it was not."""
    for alert in told.get((episode.query, query_hash, episode.key_text), ()):
        if within_gap(alert.start_ms, alert.end_ms, episode.start_ms, episode.end_ms, gap_ms):
            return alert.id
    return None


def alert_key(match: Match, per: Sequence[str]) -> Key:
    """What an alert is about: the partition key and the values that the query's PER names."""
    named = {name for name, _ in match.key}
    return (*match.key, *((name, match.values.get(name)) for name in per if name not in named))


def canonical_key(key: Key) -> str:
    """A partition key as JSON text: equal keys give equal text, different ones different text.

    A long one ends in its digest: names are hostile, and databases index texts up to a length only.
    """
    text = _key_text(dict(key))
    return text if len(text) <= MAX_KEY_CHARS else f"{text[:MAX_KEY_CHARS]}...{digest('key', text)}"


def bound_by(match: Match, find: FindMatch) -> frozenset[BoundMatch]:
    """The matches of other queries that a match binds."""
    ids = (event_id for of_variable in match.bindings.values() for event_id in engine.flat_ids(of_variable))
    return frozenset(found for event_id in ids if (found := find(event_id)) is not None)


def episode_of(
    match: Match, key: Key, info: QueryInfo, *, shed: bool = False, find: FindMatch = nothing_found
) -> Episode:
    """One match alone, with the key of its alert; `shed`: see `Episode`."""
    seen = Seen.of(match)
    return Episode(
        query=match.query,
        key=key,
        key_text=canonical_key(key),
        start_ms=match.first_lo_ms,
        end_ms=match.last_hi_ms,
        n_matches=match.count,
        n_matches_exact=is_exact(match) and not shed,
        best_confidence=match.confidence,
        extremes=Extremes.of(seen, info.numbers),
        hosts=Hosts.of(seen, dict(key), info.hosts),
        onset={_onset_event(match, info.onset): match.last_hi_ms},
        possible=possible_matches(match),
        shed=shed,
        expectation=None if match.expected is None else match.expected.value,
        bound=bound_by(match, find) if info.is_incident else frozenset(),
    )


def onset_ms(episode: Episode, events: Mapping[str, KnownEvent]) -> int:
    """When the condition began: the earliest time by which an event that ONSET means had happened.

    `events`: those that are known, by id. The minimum over all matches, so that it only ever moves to an earlier time.
    """
    return min(
        min(end_ms, events[event_id].t_hi_ms) if event_id in events else end_ms
        for event_id, end_ms in episode.onset.items()
    )


def _onset_event(match: Match, variable: str | None) -> str:
    ids = () if variable is None else match.bindings.get(variable, ())
    return next(iter(engine.flat_ids(ids)), "")


def possible_matches(match: Match) -> engine.Possibilities:
    """The matches behind a row; where a limit cut the listing off there may be any others beside them."""
    if match.expected is not None:  # of such a row the numbers are expected ones, the row itself has no confidence
        return engine.Possibilities.known_by(0.0, 1.0)
    if not match.capped:
        return match.possibilities
    return certainty.joined((match.possibilities, engine.Possibilities.known_by(0.0, 1.0)))


def is_exact(match: Match) -> bool:
    """Whether `count` is all there is."""
    return match.count_exact and not match.capped


def join(earlier: Episode, later: Episode) -> Episode:
    """Both as one; neither is to be used any more."""
    earlier.extremes.add(later.extremes)
    earlier.hosts.add(later.hosts)
    for event_id, end_ms in later.onset.items():
        earlier.onset[event_id] = min(end_ms, earlier.onset.get(event_id, end_ms))
    return replace(
        earlier,
        start_ms=min(earlier.start_ms, later.start_ms),
        end_ms=max(earlier.end_ms, later.end_ms),
        n_matches=earlier.n_matches + later.n_matches,
        n_matches_exact=earlier.n_matches_exact and later.n_matches_exact,
        best_confidence=max(earlier.best_confidence, later.best_confidence),
        possible=certainty.joined((earlier.possible, later.possible)),
        shed=earlier.shed or later.shed,
        expectation=certainty.weaker(earlier.expectation, later.expectation),
        bound=earlier.bound | later.bound,
        is_claimed=earlier.is_claimed or later.is_claimed,
    )


def within_gap(start_ms: int, end_ms: int, other_start_ms: int, other_end_ms: int, gap_ms: int) -> bool:
    """True when two closed intervals overlap or at most `gap_ms` lies between them."""
    return start_ms <= other_end_ms + gap_ms and other_start_ms <= end_ms + gap_ms


def is_shed(match: Match, missing_until_ms: Mapping[str, int]) -> bool:
    """Whether partial matches were dropped that may have become further matches beside this one; `missing_until_ms`:
    by query, of which time and before those that began may be missing."""
    until_ms = missing_until_ms.get(match.query)
    return until_ms is not None and match.first_lo_ms <= until_ms


def group(
    matches: Iterable[Match],
    queries: Mapping[str, QueryInfo],
    missing_until_ms: Mapping[str, int] = NOTHING_MISSING,
    find: FindMatch = nothing_found,
) -> list[Episode]:
    """Episodes by query and key, in order of (depth of the query, query, key, start): alerts come before the incidents
    that they are part of. `missing_until_ms`: see `is_shed`; `find`: the matches that incidents bind."""
    by_key: dict[tuple[str, str], list[Episode]] = {}
    for match in matches:
        info = queries[match.query]
        shed = is_shed(match, missing_until_ms)
        episode = episode_of(match, alert_key(match, info.per), info, shed=shed, find=find)
        by_key.setdefault((episode.query, episode.key_text), []).append(episode)
    grouped: list[Episode] = []
    for query, key_text in sorted(by_key, key=lambda of: (queries[of[0]].depth, of)):
        grouped += _sweep(by_key[query, key_text], queries[query].group_gap_ms)
    return _claimed(grouped)


def _claimed(episodes: list[Episode]) -> list[Episode]:
    """Those whose matches incidents among them bind are marked so."""
    times: dict[tuple[str, str], list[int]] = {}
    for episode in episodes:
        for bound in episode.bound:
            times.setdefault((bound.query, bound.key_text), []).append(bound.at_ms)
    if not times:
        return episodes

    def is_claimed(episode: Episode) -> bool:
        known = times.get((episode.query, episode.key_text), ())
        return any(episode.start_ms <= at_ms <= episode.end_ms for at_ms in known)

    return [replace(episode, is_claimed=True) if is_claimed(episode) else episode for episode in episodes]


def alert_id(query: str, key_text: str, start_ms: int, query_hash: str) -> str:
    """Identity of an episode (32 hex digits): the same events give the same id in every run."""
    return digest("alert", query, key_text, str(start_ms), query_hash)


def report_id(query: str, query_hash: str, match: Match, key_text: str, events: str | None = None) -> str:
    """Identity of a report's row (32 hex digits): its query, key, events and window.

    `events`: the engine.bindings_digest of a match that comes without its events.
    """
    events = engine.bindings_digest(match.bindings) if events is None else events
    window = [] if match.window is None else [json.dumps(match.window)]
    return digest("report", query, query_hash, key_text, events, *window)


def digest(*parts: str) -> str:
    """Hash of a sequence of texts (32 hex digits); no two different sequences are written alike."""
    text = f"[{', '.join(map(encode_basestring_ascii, parts))}]"  # as JSON
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _sweep(episodes: Iterable[Episode], gap_ms: int) -> list[Episode]:
    ordered = sorted(episodes, key=lambda e: (e.start_ms, e.end_ms))
    joined = [ordered[0]]
    for episode in ordered[1:]:
        last = joined[-1]
        if episode.start_ms <= last.end_ms + gap_ms:
            joined[-1] = join(last, episode)
        else:
            joined.append(episode)
    return joined
