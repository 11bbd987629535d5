"""Finished jobs as sources of their own: a history file alone, up to +infinity, through a fresh engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from app.alerting.match import Match
from app.recent import lookup
from collectors.base import FinishedHistory
from engine.events import FOREVER_MS, EventBatch


class FreshMatcher(Protocol):
    """What a replay needs of engine.Engine."""

    def process(self, batch: EventBatch, watermark_ms: int) -> Sequence[Match]:
        """Matches that are decided at the watermark."""
        ...


@dataclass(frozen=True)
class Replayed:
    """What a history gave."""

    matches: Sequence[Match]
    events: EventBatch

    def lookup(self, event_ids: Sequence[str]) -> Mapping[str, Mapping[str, Any]]:
        """Evidence from the history itself."""
        return lookup(self.events, event_ids)


@dataclass(frozen=True)
class HistoryReplay:
    """Replays histories for the queries that need nothing else.

    A query takes part when history files alone yield every event of all its types: for others, silence in a history
    would mean nothing.
    """

    new_matcher: Callable[[], FreshMatcher | None]
    """A fresh engine with those queries; None when there is none."""

    def replay(self, history: FinishedHistory) -> Replayed:
        """All matches of one finished job."""
        matcher = self.new_matcher()
        matches = () if matcher is None else matcher.process(history.events, FOREVER_MS)
        return Replayed(matches, history.events)
