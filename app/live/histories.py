"""Finished jobs as sources of their own: a history, with what other sources told of the job, through a fresh engine.

Live detection sees a job as it goes; a history tells everything, but only at the end. So a job that was not followed
live, or of which something came too late, is looked at once more as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow.compute as pc

from app.alerting.recording.evidence import KnownEvent
from app.alerting.recording.match import Match
from app.live.clock_skew import apart
from app.live.recent import lookup
from collectors.base import FinishedHistory
from collectors.schema import AttributeRow
from engine.events import FOREVER_MS, EventBatch

JOB_HISTORY, POLLED = "job_history", "yarn_rest"


class FreshMatcher(Protocol):
    """What a replay needs of engine.Engine."""

    def process(self, batch: EventBatch, watermark_ms: int) -> Sequence[Match]:
        """Matches that are decided at the watermark."""
        ...

    def take_silent(self) -> Sequence[Match]:
        """Those of queries that are there for others alone, of the last call."""
        ...


@dataclass(frozen=True)
class Replayed:
    """What a history gave; `silent`: matches of queries that are there for others alone."""

    matches: Sequence[Match]
    silent: Sequence[Match]
    events: EventBatch

    def lookup(self, event_ids: Sequence[str]) -> Mapping[str, KnownEvent]:
        """Evidence from the history itself."""
        return lookup(self.events, event_ids)


@dataclass(frozen=True)
class HistoryReplay:
    """Replays histories for the queries that can judge a finished job (see `judgeable_types`)."""

    new_matcher: Callable[[str], FreshMatcher | None]
    """A fresh engine with those queries that can judge what this source has told; None when there is none."""

    def replay(self, history: FinishedHistory, seen: EventBatch) -> Replayed:
        """All matches of one finished job; `seen`: events that other sources gave, of this job and of others."""
        events = apart(whole_job(history, seen))
        matcher = self.new_matcher(history.source)
        matches = () if matcher is None else matcher.process(events, FOREVER_MS)
        return Replayed(matches, () if matcher is None else matcher.take_silent(), events)


def whole_job(history: FinishedHistory, seen: EventBatch) -> EventBatch:
    """The history's events, and those of `seen` that belong to the job and are not among them."""
    if not len(seen) or not seen.has("job_id"):
        return history.events
    of_job = pc.fill_null(pc.equal(seen.strings("job_id"), history.job_id), False)
    known = pc.is_in(seen.strings("event_id"), value_set=history.events.strings("event_id"))
    return EventBatch.concat([history.events, EventBatch(seen.table.filter(pc.and_(of_job, pc.invert(known))))])


def judgeable_types(rows: Iterable[AttributeRow], enabled: Collection[str]) -> frozenset[str]:
    """The event types of which everything is known of a job once its history is there.

    Those that histories yield completely; and those that tell of a job (they have its id) when an enabled source yields
    them completely, or all sources that yield parts are enabled. Polling adds nothing to a history: it is not needed.
    """
    sources: dict[str, set[str]] = {}
    partial: dict[str, set[str]] = {}
    of_job: set[str] = set()
    for row in rows:
        sources.setdefault(row.type, set()).update(row.sources)
        partial.setdefault(row.type, set()).update(row.partial_sources)
        if row.attribute == "job_id":
            of_job.add(row.type)
    judgeable = set()
    for event_type, known in sources.items():
        complete = known - partial[event_type]
        parts = partial[event_type] - {JOB_HISTORY, POLLED}
        by_parts = JOB_HISTORY in known and not complete and parts <= set(enabled)
        if JOB_HISTORY in complete or (event_type in of_job and (complete & set(enabled) or by_parts)):
            judgeable.add(event_type)
    return frozenset(judgeable)
