"""The main path: collect -> order -> match -> alert -> store -> notify.

A step is one transaction: its alerts, reports, counters and the checkpoint that goes with them become current together.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from typing import Any, Protocol

import pyarrow as pa
import structlog

from app.alerting.episodes import ToldAlert, told_by_key
from app.alerting.match import Match
from app.alerting.notifier import Notifier
from app.alerting.recorder import AlertingOptions, Outcome, Recorder
from app.alerting.report_rows import HISTORY, LIVE
from app.alerting.text import iso
from app.checkpoint import Checkpoint, CheckpointFolder
from app.clock_skew import apart
from app.errors import CheckpointError, StoreError
from app.event_log import EventLog
from app.histories import HistoryReplay, Replayed
from app.intake import IntakeQueue
from app.ordering import Order, Ordered, Statistic
from app.recent import RecentEvents
from app.settings import Retention
from app.source_book import SourceBook
from app.spare_memory import SpareMemory
from app.store.api import Store
from app.store.models import CheckpointRow
from app.store.status import ProcessStatus, Queues
from app.store.writer import NewProblem
from engine.errors import StateError
from engine.events import FOREVER_MS, EventBatch

log = structlog.get_logger(__name__)


class Matcher(Protocol):
    """What the pipeline needs of engine.Engine."""

    def process(self, batch: EventBatch, watermark_ms: int) -> Sequence[Match]:
        """Matches that are decided at the watermark."""
        ...

    def save(self) -> dict[str, pa.Table]:
        """State as Arrow tables."""
        ...

    def restore(self, state: Mapping[str, pa.Table]) -> frozenset[str]:
        """Take over what `save` returned; returns the queries of which it holds nothing."""
        ...

    def warm_up(self, names: Collection[str], events: EventBatch) -> None:
        """Let these queries begin with events that the watermark has passed, telling nothing."""
        ...


MOST_AHEAD_MS = 60_000
"""A watermark that is further ahead of the time than this is wrong: sources promise the past."""
TOLD_MS = 86_400_000
"""For so long alerts that a database forgot are known by their ids."""
BACK_MS = 600_000
"""So far before the time it goes on at the earliest."""

Boundary = Callable[[str], None]
"""Called between any two parts of a step, with the name of what comes next; tests make it fail."""


def no_boundary(_next: str) -> None:
    """Go on."""


@dataclass(frozen=True)
class Step:
    """What one step did."""

    watermark_ms: int
    n_events: int
    n_matches: Mapping[str, int]
    """By query."""
    outcome: Outcome
    counters: Counter[Statistic] = field(default_factory=Counter)
    """What the step added to the table of statistics."""


@dataclass
class Pipeline:
    """The live path of one process."""

    intake: IntakeQueue
    order: Order
    matcher: Matcher
    histories: HistoryReplay
    recent: RecentEvents
    alerting: AlertingOptions
    store: Store
    checkpoints: CheckpointFolder
    notifier: Notifier
    event_log: EventLog | None = None
    """Takes the released events, for the dashboard and queries over the recent past."""
    retention: Retention = field(default_factory=Retention)
    """Of the event log."""
    sources: SourceBook = field(default_factory=lambda: SourceBook({}))
    status: Callable[[], ProcessStatus] = lambda: {}
    """What the process knows of itself; stored with each step."""
    rewind: Callable[[EventBatch, int], Matcher] | None = None
    """A fresh matcher, brought up to a watermark with the events that are kept; what it finds was decided before."""
    complaints: Callable[[], list[NewProblem]] = list
    """What went wrong in matching since the last call."""
    spare_memory: SpareMemory = field(default_factory=SpareMemory)
    number: int = 0
    """Of the current checkpoint."""
    epoch: str = ""
    """Of the numbers; another start without a past begins another one."""
    boundary: Boundary = no_boundary
    _forgotten: list[NewProblem] = field(default_factory=list)
    """That the database is older than this process's files."""
    _restored_ms: int = 0
    _told: list[ToldAlert] = field(default_factory=list)
    """Alerts of steps that the database forgot."""

    def step(self, now_ms: int) -> Step:
        """Take in what the sources brought since the last step; a crash anywhere repeats or loses nothing."""
        self.boundary("collect")
        problems = [*self._back_to(now_ms), *self._forgotten]
        intakes = self.intake.drain()
        self.sources.take(intakes)

        def advance() -> Ordered:
            ordered = self.order.advance(intakes, now_ms)
            ordered.problems += problems
            return ordered

        return self._run(advance, now_ms)

    def finish(self, now_ms: int) -> Step:
        """No source will send anything more: decide all that waits."""
        return self._run(self.order.end, now_ms)

    def _run(self, release: Callable[[], Ordered], now_ms: int) -> Step:
        self.boundary("order")
        ordered = release()
        self.recent.add(ordered.events, ordered.watermark_ms)
        self.boundary("match")
        matches = self.matcher.process(apart(ordered.events), ordered.watermark_ms)
        from_histories = [self.histories.replay(history, self.recent.events) for history in ordered.histories]
        complaints = self.complaints()
        self.boundary("checkpoint")
        self.store.check_owner()  # files are written before the transaction that would refuse
        row = self.checkpoints.write(self._checkpoint(ordered.watermark_ms), now_ms, self.epoch)
        self.boundary("log")
        problems_of_log = self._log(ordered, row.number, now_ms)
        self.boundary("store")
        counters = _counters(ordered, matches, from_histories)
        with self.store.transaction() as writer:
            self._expect(writer.checkpoint(self.checkpoints.pipeline))
            recorder = Recorder(self.alerting, writer, self.recent.lookup, now_ms)
            outcome = recorder.live(matches, ordered.watermark_ms)
            for replayed in from_histories:
                recorder.history(replayed.matches, replayed.lookup)
            self.checkpoints.note(row.number, outcome.created)
            writer.add_statistics(counters)
            writer.add_late_events(ordered.late)
            problems = writer.add_problems([*ordered.problems, *complaints, *problems_of_log], now_ms)
            writer.put_source_status(self.sources.status(self.order.watermarks.by_source()))
            writer.put_process_status(self._status(ordered.watermark_ms, writer.n_pending(), now_ms), now_ms)
            writer.put_checkpoint(row)
            self.boundary("commit")
        self.number, self._forgotten = row.number, []
        self.boundary("notify")
        self.notifier.wake()
        self.checkpoints.tidy(row.number)
        if self.event_log is not None:
            self.event_log.tidy(row.number, now_ms, self.retention)
        self.spare_memory.give_back(now_ms)
        for problem in problems:
            log.warning("problem", source=problem.source, place=problem.place, kind=problem.kind, what=problem.message)
        for line in outcome.log:
            log.info("alert", **line.fields())
        return Step(ordered.watermark_ms, len(ordered.events), _by_query(matches), outcome, counters)

    def _back_to(self, now_ms: int) -> list[NewProblem]:
        """Go back to the present when the watermark is ahead of it: the clock was wrong, and every event would be late.

        Matching starts again from the kept events that are not ahead; the alerts that it finds again are known.
        """
        false_ms = self.order.watermarks.combined_ms
        if not now_ms + MOST_AHEAD_MS < false_ms < FOREVER_MS or self.rewind is None:
            return []
        past = self.recent.events.where(self.recent.events.t_hi_ms <= now_ms)
        true_ms = max(int(past.t_lo_ms.max()) if len(past) else now_ms - BACK_MS, now_ms - BACK_MS)
        self.recent.restore(past.table, true_ms)
        self.matcher = self.rewind(apart(past), true_ms)
        self.order.go_back(true_ms, now_ms)
        message = (
            f"the watermark stood at {iso(false_ms)}, it is {iso(now_ms)}: the clock was ahead when it was set. "
            f"Matching goes on from {iso(true_ms)}; events that came meanwhile were late and take no part"
        )
        log.error("the watermark was ahead of time", what=message)
        return [NewProblem("pipeline", "clock", "watermark_ahead", message)]

    def _log(self, ordered: Ordered, number: int, now_ms: int) -> list[NewProblem]:
        if self.event_log is None:
            return []
        self.event_log.write(number, ordered.events, now_ms, [history.events for history in ordered.histories])
        return self.event_log.problems()

    def _status(self, watermark_ms: int, n_pending: int, now_ms: int) -> ProcessStatus:
        queues = Queues(
            intake=len(self.intake), waiting=self.order.n_waiting, recent=len(self.recent), outbox=n_pending
        )
        known = ProcessStatus(stepped_ms=now_ms, queues=queues)
        if abs(watermark_ms) < FOREVER_MS:
            known["watermark_ms"] = watermark_ms
        return {**known, **self.status()}

    # ------------------------------------------------------------- checkpoint

    def restore(self, now_ms: int) -> Mapping[str, Any] | None:
        """Go on where the store's checkpoint stands; returns the sources' read positions, None for a fresh start.

        Raises CheckpointError.
        """
        self.store.check_owner()  # only the owner's files are where the row says
        self.sources.restore(self.store.source_status())
        row = self.store.checkpoint(self.checkpoints.pipeline)
        if row is None:
            self.checkpoints.refuse_without_row()
        checkpoint = None if row is None else self.checkpoints.read(row)
        self.epoch = secrets.token_hex(8) if row is None else row.epoch
        if self.event_log is not None:
            self.event_log.begin(self.epoch, 0 if row is None else row.number)
        if row is None or checkpoint is None:
            return None
        tables = {**checkpoint.tables, **checkpoint.lasting}
        order, matcher, recent = (_part(tables, name) for name in ("order", "matcher", "recent"))
        try:
            self.order.restore(order, checkpoint.state["order"], now_ms)
            self.recent.restore(recent["events"], int(checkpoint.state["watermark_ms"]))
            positions: Mapping[str, Any] = checkpoint.state["order"]["positions"]
        except (KeyError, TypeError, ValueError, pa.ArrowInvalid) as error:
            raise CheckpointError(f"checkpoint {row.number} lacks a part: {error}") from error
        try:
            if new := self.matcher.restore(matcher):
                log.info("new or changed queries begin with the recent events that are kept", queries=sorted(new))
                self.matcher.warm_up(new, apart(self.recent.events))
        except StateError as error:
            if self.rewind is None:
                raise CheckpointError(f"checkpoint {row.number} cannot be restored: {error}") from error
            log.warning("matching starts again from the recent events that are kept", reason=str(error))
            self.matcher = self.rewind(apart(self.recent.events), int(checkpoint.state["watermark_ms"]))
        told = [ToldAlert(*values) for values in checkpoint.state.get("told", ())]
        self._told = [*told, *self.checkpoints.told_after(row.number)]
        self.alerting = replace(self.alerting, told=told_by_key(self._told))
        self.number, self._restored_ms = row.number, row.written_ms
        if n_steps := self.checkpoints.n_forgotten(row):
            self.tell_forgotten(row.number + n_steps)
        self.checkpoints.tidy(row.number)
        return positions

    def tell_forgotten(self, number: int) -> None:
        """The database stands before step `number`, which it had committed."""
        message = (
            f"the database was set back from step {number} to step {self.number} of {iso(self._restored_ms)}: it was "
            "restored, or a standby that lacked the last steps took over. They are made again from what the sources "
            "still have; alerts keep their ids, and what people did since (acknowledgements, silences) is lost"
        )
        log.error("the database forgot steps", what=message)
        self._forgotten = [NewProblem("pipeline", "store", "store_set_back", message)]

    def _expect(self, row: CheckpointRow | None) -> None:
        """Raises StoreError when the database is not where this process left it: going back to its place follows."""
        found = (row.epoch, row.number) if row is not None else ("", 0)
        if found != (self.epoch if self.number else "", self.number):
            raise StoreError(
                f"the database stands at step {found[1]}, this process at {self.number}: the database was replaced"
            )

    def _checkpoint(self, watermark_ms: int) -> Checkpoint:
        order_tables, order_state = self.order.save()
        tables = {
            **{f"order/{name}": table for name, table in order_tables.items()},
            **{f"matcher/{name}": table for name, table in self.matcher.save().items()},
            "recent/events": self.recent.save(),
        }
        lasting = {f"order/{name}": table for name, table in self.order.sealed().items()}
        state: dict[str, Any] = {"order": order_state, "watermark_ms": watermark_ms}
        if told := [astuple(told) for told in self._told if told.end_ms >= watermark_ms - TOLD_MS]:
            state["told"] = told
        return Checkpoint(self.number + 1, tables, state, lasting)


def _part(tables: Mapping[str, pa.Table], name: str) -> dict[str, pa.Table]:
    prefix = f"{name}/"
    return {key.removeprefix(prefix): table for key, table in tables.items() if key.startswith(prefix)}


def _by_query(matches: Iterable[Match]) -> Counter[str]:
    return Counter(match.query for match in matches)


def _counters(ordered: Ordered, matches: Sequence[Match], replayed: Sequence[Replayed]) -> Counter[Statistic]:
    """The step's counters with those of its matches: (statistic, "live" or "history", query)."""
    counters = Counter(ordered.counters)
    for lane, found in ((LIVE, matches), *((HISTORY, history.matches) for history in replayed)):
        for match in found:
            counters["rows", lane, match.query] += 1
            counters["matches", lane, match.query] += match.count
    return counters
