"""Windows of a query's own: SLIDE's by time, OPEN ON's by events (DESIGN 3, "Windows").

SLIDE s has the windows (k * s, k * s + within] for all integers k. OPEN ON has one window for each event of which its
predicate is true: from the event's place in the stream to within later, of its own partition where it has a key. A
match is once in each window that holds all its events.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from engine.language import ast
from engine.reference.conditions import Keys
from engine.reference.expressions import NO_AGGREGATES, Aggregates, truth
from engine.reference.observed import ObservedEvent


class Window(NamedTuple):
    """Start and end in ms; `opener` tells apart windows of events at one time, `key` windows of events that an event
    opens in several partitions."""

    start_ms: int
    end_ms: int
    opener: str = ""
    key: str = ""


def windows_of(
    query: ast.Query,
    sequence: Sequence[ObservedEvent],
    events: Sequence[ObservedEvent],
    keys: Keys,
    aggregates: Aggregates = NO_AGGREGATES,
) -> Sequence[Window | None]:
    """The windows of a match, in order; [None] when the query has no windows of its own."""
    if query.slide_ms is not None:
        assert isinstance(query.slide_ms, int)
        assert isinstance(query.within_ms, int)
        return sorted(_sliding(sequence[0].lo_ms, sequence[-1].hi_ms, query.within_ms, query.slide_ms))
    if query.open_on is not None:
        openers = [e for e in events if truth(query.open_on, {"": [e]}, 1, aggregates) is True]
        return sorted(window for opener in openers for window in _opened(opener, query, sequence, events, keys))
    return [None]


def _sliding(first_ms: int, last_ms: int, within_ms: int, slide_ms: int) -> Iterator[Window]:
    """Every k with k * slide < first and last <= k * slide + within."""
    k = (first_ms - 1) // slide_ms
    while k * slide_ms + within_ms >= last_ms:
        yield Window(k * slide_ms, k * slide_ms + within_ms)
        k -= 1


def _opened(
    opener: ObservedEvent,
    query: ast.Query,
    sequence: Sequence[ObservedEvent],
    events: Sequence[ObservedEvent],
    keys: Keys,
) -> Iterator[Window]:
    if opener.stream_order > sequence[0].stream_order or not keys.agree((*sequence, opener)):
        return
    if query.within_events is None:
        assert isinstance(query.within_ms, int)
        end_ms = opener.lo_ms + query.within_ms
        if sequence[-1].hi_ms <= end_ms:
            yield Window(opener.lo_ms, end_ms, opener.event_id)
        return
    key = keys.of(sequence)
    following = [e for e in events if e.stream_order >= opener.stream_order and keys.is_member(e, key)]
    held = following[: query.within_events]
    if sequence[-1] in held:
        partition = str({name: event.raw[name] for name, event in key.items()})
        yield Window(opener.lo_ms, held[-1].hi_ms, opener.event_id, partition)


__all__ = ["Window", "windows_of"]
