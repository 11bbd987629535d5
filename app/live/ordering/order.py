"""Ordering: from what the sources brought to what the watermark has passed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

import engine
from app.alerting.text import iso
from app.live.intake import Intake
from app.live.ordering.deduplicate import Deduplicator, Offered
from app.live.ordering.watermarks import NEVER_MS, Watermarks
from app.live.overload import ReleaseTimes
from app.live.positions import put_together, take_apart
from app.store.models import LateEventRow
from app.store.storable import storable_values
from app.store.writing.problems import NewProblem
from collectors.base import NO_PROMISE_MS, FinishedHistory
from engine.errors import EngineError
from engine.events import HEADER_NAMES, EventBatch

MOST_AHEAD_MS = 60_000
"""A watermark that is further ahead of the time than this is wrong: sources promise the past."""
MOST_EVENTS = 100_000
"""That a step releases, about: matching them ends within seconds, so that the position moves on."""

NOT_HEARD = "not heard of for longer than sources.silence_timeout; the others go on without it"
BEGAN_BEHIND = (
    "it began with more than it could read within sources.silence_timeout; the others go on without it, and what it "
    "has yet to read of the time before is kept but takes no part in matching"
)

MOST_WAITING = 2_000_000
"""Events that may wait for a source that is behind."""

Statistic = tuple[str, str, str]
"""(what is counted, source, event type)."""


@dataclass
class Ordered:
    """What one step releases, and what has to be told about it."""

    events: EventBatch
    watermark_ms: int
    histories: list[FinishedHistory] = field(default_factory=list)
    """Finished jobs to be replayed as sources of their own."""
    counters: Counter[Statistic] = field(default_factory=Counter)
    late: list[LateEventRow] = field(default_factory=list)
    late_rows: list[pa.Table] = field(default_factory=list)
    """The same events, as `Offered.late_rows` has them."""
    problems: list[NewProblem] = field(default_factory=list)


class Order:
    """Deduplicates, waits for the watermark, and remembers read positions."""

    def __init__(
        self,
        deduplicator: Deduplicator,
        watermarks: Watermarks,
        *,
        history_types: Collection[str] = frozenset(),
        released: ReleaseTimes | None = None,
        most_waiting: int = MOST_WAITING,
    ) -> None:
        """`history_types`: those that queries over finished jobs read. `released`: is told when the watermark moves on.

        `most_waiting`: when more events wait, the source that is furthest behind holds up the others no longer.

        A history waits until the watermark has passed its job's end: then the other sources have told all of it.
        """
        self.most_events = MOST_EVENTS
        self._most_waiting = most_waiting
        self.is_behind = False
        """Whether events wait that the sources' watermark has passed."""
        self._history_types = frozenset(history_types)
        self._pending: list[FinishedHistory] = []
        self._deduplicator = deduplicator
        self._watermarks = watermarks
        self._positions: dict[str, Mapping[str, Any]] = {}
        self._released = released
        self._began_behind: set[str] = set()
        """Sources that were heard of and have promised nothing yet."""

    def advance(self, intakes: Sequence[Intake], now_ms: int) -> Ordered:
        """Take in what polls brought; release what the combined watermark has passed."""
        step = Ordered(EventBatch.empty(), self._watermarks.combined_ms)
        for intake in intakes:
            self._take(intake, step, now_ms)
            self._passed(self._watermarks.promised_ms, intake.arrived_s)
        advance = self._watermarks.combine(now_ms)
        self._passed(advance.watermark_ms)
        for source in advance.left_out:
            message = BEGAN_BEHIND if source in self._began_behind else NOT_HEARD
            step.problems.append(NewProblem(source, source, "left_out", message))
        self._release(step, advance.watermark_ms)
        self._bound_waiting(step)
        return step

    def _bound_waiting(self, step: Ordered) -> None:
        """When too much waits that no promise has passed, go on without the source that the others wait for.

        The next step releases what they have promised.
        """
        if self.is_behind or self.n_waiting <= self._most_waiting:
            return
        if (found := self._watermarks.leave_out_last()) is None:
            return
        source, watermark_ms, others_ms = found
        stands = "it has promised nothing yet" if watermark_ms == NEVER_MS else f"it stands at {iso(watermark_ms)}"
        message = (
            f"{self.n_waiting:,} events wait for it, more than sources.max_waiting_events ({self._most_waiting:,}): "
            f"{stands}, the others at {iso(others_ms)} or later. They go on without it until it is half as far behind; "
            "what it tells of the time before them is kept as late and takes no part in matching. One that only has "
            "much to read catches up by itself; else look at its lateness and at its machine's clock"
        )
        step.problems.append(NewProblem(source, source, "left_out", message))

    def end(self) -> Ordered:
        """No source will send anything more: release everything, a share with each call while it `is_behind`."""
        step = Ordered(EventBatch.empty(), self._watermarks.combined_ms)
        self._release(step, self._watermarks.end())
        self._passed(self._watermarks.combined_ms)
        return step

    def _passed(self, watermark_ms: int, at_s: float | None = None) -> None:
        if self._released is not None:
            self._released.passed(watermark_ms, at_s)

    def _release(self, step: Ordered, watermark_ms: int) -> None:
        """What the watermark has passed; of more than MOST_EVENTS the earliest, as if it had come no further."""
        step.watermark_ms = self._deduplicator.bounded(watermark_ms, self.most_events)
        self.is_behind = step.watermark_ms < watermark_ms
        step.events = self._deduplicator.release(step.watermark_ms)
        step.histories = self._due(step.watermark_ms)

    def go_back(self, watermark_ms: int, now_ms: int, late_rows: pa.Table | None = None) -> None:
        """The watermark was ahead of time: go on from this one; what was late against the other takes part."""
        if self._released is not None:
            self._released.go_back()
        self._watermarks.go_back(watermark_ms, now_ms)
        self._deduplicator.go_back(watermark_ms, late_rows)

    def save(self) -> tuple[dict[str, pa.Table], dict[str, Any]]:
        """Tables and JSON-able state."""
        positions = take_apart(self._positions)
        state = {
            "watermarks": self._watermarks.save(),
            "positions": positions.json,
            "pending": [[history.job_id, history.origin, history.source] for history in self._pending],
        }
        pending = {f"pending-{i}": history.events.table for i, history in enumerate(self._pending)}
        return {**self._deduplicator.save(), **pending, **positions.tables}, state

    def sealed(self) -> dict[str, pa.Table]:
        """Tables beside those of `save` that never change: of one it is the same object each time."""
        return {**self._deduplicator.sealed(), **take_apart(self._positions).lasting}

    def restore(self, tables: Mapping[str, pa.Table], state: Mapping[str, Any], now_ms: int) -> None:
        """Take over what `save` and `sealed` returned."""
        self._deduplicator.restore(tables)
        self._watermarks.restore(state["watermarks"], now_ms)
        self._positions = put_together(state["positions"], tables)
        self._pending = [
            FinishedHistory(str(job_id), str(origin), EventBatch(tables[f"pending-{i}"]), *map(str, source))
            for i, (job_id, origin, *source) in enumerate(state["pending"])
        ]

    @property
    def positions(self) -> Mapping[str, Mapping[str, Any]]:
        """The sources' read positions, as their collectors gave them."""
        return self._positions

    @property
    def watermarks(self) -> Watermarks:
        """What the sources have promised so far."""
        return self._watermarks

    @property
    def n_waiting(self) -> int:
        """Events that wait for the watermark."""
        return len(self._deduplicator)

    def _take(self, intake: Intake, step: Ordered, now_ms: int) -> None:
        step.problems += [NewProblem(p.source, p.place, p.kind, p.message) for p in intake.problems]
        if intake.watermark_ms is None:
            step.counters["failed_polls", intake.source, ""] += 1
            return
        step.counters["polls", intake.source, ""] += 1
        if intake.n_unselected:
            step.counters["unselected", intake.source, ""] += intake.n_unselected
        self._offer(intake.source, intake.source, intake.events, step, now_ms)
        for history in intake.finished:
            self._take_history(history, step, now_ms)
        if intake.watermark_ms <= NO_PROMISE_MS:
            self._began_behind.add(intake.source)
        else:
            self._began_behind.discard(intake.source)
        # What was promised while the clock was ahead is worth nothing.
        promised_ms = intake.watermark_ms if intake.watermark_ms <= now_ms + MOST_AHEAD_MS else NEVER_MS
        self._watermarks.heard(intake.source, promised_ms, min(intake.polled_ms, now_ms))
        if intake.position is not None:
            self._positions[intake.source] = intake.position

    def _take_history(self, history: FinishedHistory, step: Ordered, now_ms: int) -> None:
        """A job that was followed live gets its history as further copies; it is looked at again as a whole when
        something of it came too late, or when it was never seen."""
        if not any(map(self._deduplicator.knows, _first_ids(history))):
            step.counters.update({("history", history.source, t): n for t, n in _count(history.events).items()})
            self._pending.append(history)
            return
        late = self._offer(history.source, history.origin, history.events, step, now_ms)
        if not self._history_types.isdisjoint(late.strings("type").to_pylist()):
            self._pending.append(history)

    def _due(self, passed_ms: int) -> list[FinishedHistory]:
        """The histories whose last event lies before `passed_ms`; they wait no longer."""
        due = [history for history in self._pending if _last_ms(history) < passed_ms]
        self._pending = [history for history in self._pending if _last_ms(history) >= passed_ms]
        return due

    def _offer(self, source: str, place: str, events: EventBatch, step: Ordered, now_ms: int) -> EventBatch:
        """Returns the late events."""
        if not len(events):
            return events
        events, refused = engine.admit(events)
        if refused.n_events:
            step.problems.append(NewProblem(source, place, "refused", refused.summary()))
            step.counters["rejected", source, ""] += refused.n_events
        try:
            offered = self._deduplicator.offer(source, events)
        except EngineError as error:
            step.problems.append(NewProblem(source, place, "rejected", str(error)))
            step.counters["rejected", source, ""] += len(events)
            return EventBatch.empty()
        _count_offered(offered, source, step.counters)
        if len(offered.late):
            step.late_rows.append(offered.late_rows)
        step.late += _late_rows(offered.late, source, self._deduplicator.watermark_ms, now_ms)
        if len(offered.late):
            message = f"{len(offered.late)} events came after the watermark; they are kept but take no part in matching"
            step.problems.append(NewProblem(source, place, "late", message))
        return offered.late


def _last_ms(history: FinishedHistory) -> int:
    return int(history.events.t_hi_ms.max()) if len(history.events) else NEVER_MS


def _first_ids(history: FinishedHistory) -> list[str]:
    """The id of the job's start; of a history without one, all ids."""
    starts = history.events.of_types(["JobStart"])
    return list((starts if len(starts) else history.events).strings("event_id").to_pylist())


def _count(events: EventBatch) -> Counter[str]:
    return Counter(events.strings("type").to_pylist())


def _count_offered(offered: Offered, source: str, counters: Counter[Statistic]) -> None:
    parts: Iterable[tuple[str, Counter[str]]] = (
        ("events", offered.n_new),
        ("duplicates", offered.n_duplicate),
        ("late", _count(offered.late)),
    )
    for name, by_type in parts:
        counters.update({(name, source, event_type): n for event_type, n in by_type.items()})


def _late_rows(late: EventBatch, source: str, watermark_ms: int, now_ms: int) -> list[LateEventRow]:
    return [
        LateEventRow(
            event_id=row["event_id"],
            source=source,
            type=row["type"],
            t_lo_ms=row["t_lo_ms"],
            t_hi_ms=row["t_hi_ms"],
            watermark_ms=watermark_ms,
            attributes=storable_values({name: value for name, value in row.items() if name not in HEADER_NAMES}),
            origin=row.get("origin"),
            seen_ms=now_ms,
        )
        for row in late.rows()
    ]
