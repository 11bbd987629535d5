"""One bucket of the stream: the live path from waiting events to matches, for a part of the keys.

Nothing here knows of Spark: tables and a watermark in, rows and tables of state out.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import engine
from app.alerting.recording.episodes import group as episodes_of
from app.alerting.recording.evidence import KnownEvent
from app.alerting.recording.kept import Kept
from app.live.bound_matches import BoundMatches
from app.live.clock_skew import apart
from app.live.ordering.deduplicate import Deduplicator
from app.live.recent import last_events, longest_windows, lookup
from app.live.waiting_rows import behind_of_alerts
from app.shedding.losses import OverloadOf, unbounded
from engine.errors import QueryError, StateError
from engine.events import FOREVER_MS, EventBatch
from spark_jobs.event_store.schema import SOURCE
from spark_jobs.stream.groups import BucketOptions, Group, compiled_queries
from spark_jobs.stream.shedding import BucketBound, BucketShed, control_of

if TYPE_CHECKING:
    from engine import MatchRow

NO_SOURCE = "events"
"""The source of events that name none."""

PANE_EVENTS = 4_096
"""A pane of recent events is closed with so many and never written again."""

MAX_TOLD_EVENTS = 200
"""A row of a report that has more comes without them: it needs them for its identity alone."""

ENGINE, BOUND = "engine", "bound"


@dataclass
class BucketOutput:
    """What one call of a bucket found."""

    watermark_ms: int
    matches: list[MatchRow] = field(default_factory=list)
    digests: dict[int, str] = field(default_factory=dict)
    """By place in `matches`: the engine.bindings_digest of rows of reports that come without their events."""
    evidence: list[KnownEvent] = field(default_factory=list)
    """Events of the best match of each episode."""
    late: list[dict[str, Any]] = field(default_factory=list)
    """Events, with their source, that came after the watermark."""
    counters: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    problems: list[tuple[str, str, str, str]] = field(default_factory=list)
    """(source, place, kind, message)"""
    newest_ms: int | None = None
    """The latest start of an event that came."""
    shed: BucketShed | None = None
    """What was dropped to hold the latency bound; None without one."""


class Bucket:
    """Events wait here for the watermark; then the engine of the group's queries gets them."""

    def __init__(
        self,
        group: Group,
        options: BucketOptions,
        number: int,
        control: OverloadOf | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """control: holds the latency bound; None: the options' own, if they have one. clock: that it goes by, seconds,
        monotonic."""
        self._group = group
        self._clock = clock
        self._options = options
        self._counts_broadcast = number == 0
        self._infos = {info.name: info for info in group.infos}
        self._told = frozenset(group.told)
        self._reports = frozenset(info.name for info in group.infos if info.is_report)
        ranks = {source: rank for rank, source in enumerate(options.precedence)}
        self._order = Deduplicator(
            ranks, options.remember_ids_ms, brief_types=options.brief_types, brief_ms=options.brief_ms
        )
        self._failures: list[tuple[str, QueryError]] = []
        self._engine = engine.Engine(
            compiled_queries(group, options),
            options.schema,
            limits=engine.Limits(
                max_rows=options.max_rows,
                work_budget=options.work_budget,
                possibilities=True,
                trend_overlap=options.trend_overlap,
            ),
            on_failure=lambda name, error: self._failures.append((name, error)),
            quotas={of.name: engine.PartQuota(of.limit, of.top_k) for of in group.limited},
            overload=control or control_of(group, options),
        )
        self._bound = BucketBound(self._engine)
        self._counted_by_driver = frozenset(of.name for of in group.limited)
        self._keep_ms = longest_windows((info.types, info.keep_ms) for info in group.infos)
        self._matches = BoundMatches({info.name: info for info in (*group.producers, *group.infos)})
        self._last = last_events((info.types, info.key, info.within_events) for info in group.infos)
        self._panes: dict[int, EventBatch] = {}
        self._before: dict[str, engine.QueryStatistics] = {}

    def step(self, tables: Iterable[pa.Table], watermark_ms: int) -> BucketOutput:
        """First what waits up to the watermark is matched, then new events are taken in.

        `watermark_ms` is that of the micro-batch, the same for all buckets: an event before it is late, wherever it
        goes and whatever its bucket has seen so far. Events of a table have any order.
        """
        released_s = self._clock()
        watermark_ms = max(watermark_ms, self._order.watermark_ms)
        told = BucketOutput(watermark_ms)
        released = self._order.release(watermark_ms)
        behind = behind_of_alerts(self._engine.behind_ms, self._infos)
        self._expire(behind.by_type)
        self._keep(released)
        matches = self._engine.process(apart(released), watermark_ms, released_s=released_s)
        told.shed = self._bound.since_last()
        if n_left_out := self._matches.add((*matches, *self._engine.take_silent()), watermark_ms, behind.binding_ms):
            message = f"{n_left_out:,} matches are no longer kept, to make room: alerts that bind them show their ids"
            told.problems.append((ENGINE, "matches", "matches_left_out", message))
        for row, digest in engine.brief_rows(matches, self._reports, MAX_TOLD_EVENTS):
            if row.query in self._told:
                if digest is not None:
                    told.digests[len(told.matches)] = digest
                told.matches.append(row)
        self._add_evidence(told)
        for table in tables:
            for source, events in _by_source(table):
                self._take(source, events, told)
        self._complain(told)
        for row in told.matches:
            if row.query not in self._counted_by_driver:
                told.counters.update(counters_of(row))
        return told

    # ------------------------------------------------------------------ state

    def save(self) -> dict[str, pa.Table]:
        """The whole state by part; parts that never change are the same objects each time."""
        parts = {f"order/{name}": table for name, table in self._order.save().items()}
        parts |= {f"order/{name}": table for name, table in self._order.sealed().items()}
        parts |= {f"{ENGINE}/{name}": table for name, table in self._engine.save().items()}
        parts |= {f"{BOUND}/{name}": table for name, table in (self._matches.save() | self._matches.sealed()).items()}
        return parts | {f"recent/{number:08d}": pane.table for number, pane in self._panes.items()}

    def restore(self, parts: Mapping[str, pa.Table]) -> frozenset[str]:
        """Take over what `save` returned; queries that are new or changed begin with the recent events that are kept.

        Returns the names of these. Raises StateError when a part is missing or damaged.
        """
        try:
            self._order.restore(_part(parts, "order"))
            if bound := _part(parts, BOUND):  # states of before have none
                self._matches.restore(bound, self._order.watermark_ms)
            self._panes = {int(number): EventBatch(table) for number, table in _part(parts, "recent").items()}
        except (KeyError, ValueError, pa.ArrowInvalid) as error:
            raise StateError(f"the state of a bucket lacks a part: {error}") from error
        new = self._engine.restore(_part(parts, ENGINE))
        if new:
            with unbounded(self._engine):
                self._engine.warm_up(new, apart(self._recent()))
        self._bound.begin()
        self._before = dict(self._engine.statistics)
        return new

    # -------------------------------------------------------------- internals

    def _take(self, source: str, events: EventBatch, told: BucketOutput) -> None:
        if len(events):
            newest_ms = int(events.t_lo_ms.max())
            told.newest_ms = newest_ms if told.newest_ms is None else max(told.newest_ms, newest_ms)
        events, refused = engine.admit(events)
        if refused.n_events:
            told.problems.append((source, source, "refused", refused.summary()))
            told.counters["rejected", source, ""] += refused.n_events
        offered = self._order.offer(source, events)
        for name, by_type in (("events", offered.n_new), ("duplicates", offered.n_duplicate)):
            told.counters.update({(name, source, kind): n for kind, n in by_type.items() if self._counts(kind)})
        # Late events are told by every bucket that gets them, and counted once by the driver.
        told.late += [{**row, SOURCE: source} for row in offered.late.rows()]

    def _counts(self, event_type: str) -> bool:
        route = self._group.route
        return event_type in route.counted and (event_type in route.keyed or self._counts_broadcast)

    def _add_evidence(self, told: BucketOutput) -> None:
        alerting = [row for row in told.matches if not self._infos[row.query].is_report]
        if not alerting:
            return
        ids: set[str] = set()
        for episode in episodes_of(alerting, self._infos):
            info = self._infos[episode.query]
            # What the alert shows in the end, over all buckets and micro-batches, is what one of these shows.
            shown = Kept.of_new(episode).shown(info)
            ids.update(event_id for _, event_id in shown.evidence(self._options.max_evidence_events))
            ids.update(filter(None, episode.onset))
        wanted = sorted(ids)
        told.evidence = [*lookup(self._recent(), wanted).values(), *self._matches.lookup(wanted).values()]

    def _recent(self) -> EventBatch:
        return EventBatch.concat(self._panes.values())

    def _keep(self, released: EventBatch) -> None:
        kept = released.of_types(self._keep_ms) if len(released) else released
        if not len(kept):
            return
        last = max(self._panes, default=0)
        if last in self._panes and len(self._panes[last]) < PANE_EVENTS:
            self._panes[last] = EventBatch(EventBatch.concat([self._panes[last], kept]).table.combine_chunks())
        else:
            self._panes[last + 1] = kept

    def _expire(self, behind_ms: Mapping[str, int]) -> None:
        """Panes go when no match may bind any of their events: what the watermark of the call before had passed, by
        `behind_ms` where rows wait that show events of a type. One of which windows of events hold less than half is
        cut down to that."""
        before_ms = self._engine.watermark_ms
        passed = {number for number, pane in self._panes.items() if self._last_ms(pane, behind_ms) < before_ms}
        if not passed:
            return
        recent, kept, at = self._recent(), dict(self._panes), 0
        alive = np.zeros(len(recent), np.bool_)
        for last in self._last:
            alive |= last.among(recent)
        for number, pane in self._panes.items():
            of_pane = alive[at : at + len(pane)]
            at += len(pane)
            if number in passed and 2 * of_pane.sum() < len(pane):
                kept[number] = pane.where(of_pane)
        self._panes = {number: pane for number, pane in kept.items() if len(pane)}

    def _last_ms(self, pane: EventBatch, behind_ms: Mapping[str, int]) -> int:
        types = pane.strings("type").dictionary_encode()
        names = types.dictionary.to_pylist()
        keep_ms = pa.array([self._keep_ms.get(name, 0) + behind_ms.get(name, 0) for name in names], pa.int64())
        return int(pc.max(pc.add(pa.array(pane.t_hi_ms), keep_ms.take(types.indices))).as_py() or -FOREVER_MS)

    def _complain(self, told: BucketOutput) -> None:
        for name, error in self._failures:
            told.problems.append((ENGINE, f"query {name}", "query_failed", str(error)))
        self._failures.clear()
        self._engine.take_refused()
        found = self._engine.statistics
        for kind, message, counted in (
            ("imprecise_events", "events without an exact time left out", "n_rejected"),
            (
                "longer_than_window",
                "events left out, their intervals being longer than the query's window",
                "n_too_long",
            ),
            (
                "search_unfinished",
                "searches stopped by the work budget: matches may be missing, and alerts",
                "n_unfinished",
            ),
        ):
            for name, statistics in found.items():
                before = self._before.get(name, engine.QueryStatistics())
                n_new = getattr(statistics, counted) - getattr(before, counted)
                if n_new > 0 and name in self._told:
                    told.problems.append((ENGINE, f"query {name}", kind, f"{n_new} {message}"))
        self._before = dict(found)


def counters_of(row: MatchRow) -> dict[tuple[str, str, str], int]:
    """What a row that is told adds to the counters."""
    return {("rows", "live", row.query): 1, ("matches", "live", row.query): row.count}


def status_content(told: BucketOutput, **more: object) -> str:
    """Counters, problems and what else there is to say of one call, as JSON."""
    content = {
        "counters": [[*name, n] for name, n in sorted(told.counters.items())],
        "problems": told.problems,
        "newest_ms": told.newest_ms,
        **({} if told.shed is None else {"shed": told.shed.content()}),
        **more,
    }
    return json.dumps(content)


def _by_source(table: pa.Table) -> Iterator[tuple[str, EventBatch]]:
    sources = pc.fill_null(table.column(SOURCE), NO_SOURCE)
    events = table.drop_columns([SOURCE])
    for source in pc.unique(sources).to_pylist():
        yield source, EventBatch(events.filter(pc.equal(sources, source)).combine_chunks())


def _part(parts: Mapping[str, pa.Table], name: str) -> dict[str, pa.Table]:
    prefix = f"{name}/"
    return {key.removeprefix(prefix): table for key, table in parts.items() if key.startswith(prefix)}


__all__ = ["NO_SOURCE", "Bucket", "BucketOutput", "counters_of", "status_content"]
