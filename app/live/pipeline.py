"""The main path: collect -> order -> match -> alert -> store -> notify.

A step is one transaction: its alerts, reports, counters and the checkpoint that goes with them become current together.
"""

from __future__ import annotations

import secrets
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from itertools import chain
from typing import Any, Protocol

import pyarrow as pa
import structlog

from app.alerting.notifier import Notifier
from app.alerting.recording.batches import MOST_ALERTS
from app.alerting.recording.between_steps import n_to_follow
from app.alerting.recording.episodes import CreatedAlert, created_by_key
from app.alerting.recording.evidence import KnownEvent
from app.alerting.recording.found import found_in
from app.alerting.recording.match import Match
from app.alerting.recording.options import AlertingOptions
from app.alerting.recording.outcome import Outcome
from app.alerting.recording.recorder import Recorder
from app.alerting.recording.report_rows import HISTORY, LIVE
from app.alerting.text import iso
from app.errors import CheckpointError, StoreError
from app.event_log import EventLog
from app.live.bound_matches import BoundMatches
from app.live.checkpoint import Checkpoint, CheckpointFolder
from app.live.clock_skew import apart
from app.live.derivation import Derivation
from app.live.engine_watch import failed_queries
from app.live.histories import HistoryReplay
from app.live.intake import IntakeQueue
from app.live.ordering.leaps import Leaps
from app.live.ordering.order import MOST_AHEAD_MS, MOST_EVENTS, Order, Ordered, Statistic
from app.live.overload import LatencyBound
from app.live.recent import RecentEvents
from app.live.source_book import SourceBook
from app.live.unstored import OfHistory, Unstored, read_tables
from app.live.waiting_rows import behind_of_alerts
from app.process.spare_memory import SpareMemory
from app.settings import Retention
from app.shedding.losses import missing_until_ms, overload_figures
from app.store.api import Store
from app.store.models import CheckpointRow
from app.store.status import ProcessStatus, Queues
from app.store.writing.batch_size import BatchSize
from app.store.writing.problems import NewProblem
from app.store.writing.writer import Writer
from collectors.base import FinishedHistory, PositionError
from collectors.time_units import DAY_MS
from engine.errors import StateError
from engine.events import FOREVER_MS, EventBatch

log = structlog.get_logger(__name__)


class Matcher(Protocol):
    """What the pipeline needs of engine.Engine."""

    def process(self, batch: EventBatch, watermark_ms: int) -> Sequence[Match]:
        """Matches that are decided at the watermark."""
        ...

    def take_silent(self) -> Sequence[Match]:
        """Those of queries that are there for others alone, of the last call."""
        ...

    @property
    def behind_ms(self) -> Mapping[str, int]:
        """By query, how far before the watermark the last event of a row may begin that is still to be told."""
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


TOLD_MS = DAY_MS
"""For so long alerts that a database forgot are known by their ids."""
BACK_MS = 600_000
"""Where nothing tells when the clock was set wrong, matching goes on so far before the time at the earliest."""

_LEAST_ALERTS = 8
MOST_STEP_S = 10.0
"""After so long a step begins no further transaction: what is left is the next one's."""

UNSTORED = "unstored"
"""Part of a checkpoint: what its step had found when not all of it was in its first transaction."""

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
    derivation: Derivation = field(default_factory=Derivation)
    event_log: EventLog | None = None
    """Takes the released events, for the dashboard and queries over the recent past."""
    retention: Retention = field(default_factory=Retention)
    """Of the event log."""
    sources: SourceBook = field(default_factory=lambda: SourceBook({}))
    status: Callable[[], ProcessStatus] = lambda: {}
    """What the process knows of itself; stored with each step."""
    rewind: Callable[[EventBatch, int], tuple[Matcher, Sequence[Match]]] | None = None
    """A fresh matcher, brought up to a watermark with the events that are kept, and what it found, which was decided
    before."""
    complaints: Callable[[], list[NewProblem]] = list
    """What went wrong in matching since the last call."""
    bound: LatencyBound | None = None
    """On the latency of matching."""
    leaps: Leaps = field(default_factory=Leaps)
    """What is needed to go back from a watermark that is ahead of the time."""
    spare_memory: SpareMemory = field(default_factory=SpareMemory)
    number: int = 0
    """Of the current checkpoint."""
    epoch: str = ""
    """Of the numbers; another start without a past begins another one."""
    boundary: Boundary = no_boundary
    part_ended: Callable[[], None] = lambda: None
    """Called whenever something of a step came to an end: it does not hang."""
    monotonic: Callable[[], float] = time.monotonic
    most_alerts: int = MOST_ALERTS
    """That one transaction writes, about."""
    batch: BatchSize = field(default_factory=lambda: BatchSize(MOST_ALERTS, _LEAST_ALERTS))
    """How many of them now."""
    bound_matches: BoundMatches = field(default_factory=lambda: BoundMatches({}))
    """Matches that incidents and other alerts may still bind."""
    unstored: Unstored | None = None
    """What the last step has found and not yet stored."""
    _is_settled: bool = False
    """Whether this process has looked for alerts of changed queries."""
    _forgotten: list[NewProblem] = field(default_factory=list)
    """That the database is older than this process's files."""
    _restored_ms: int = 0
    _told: list[CreatedAlert] = field(default_factory=list)
    """Alerts of steps that the database forgot."""

    @property
    def is_behind(self) -> bool:
        """Whether something waits that the next step would take at once: a step takes a bounded share of it."""
        return self.unstored is not None or self.order.is_behind or len(self.intake) > 0

    def step(self, now_ms: int) -> Step:
        """Take in what the sources brought since the last step; a crash anywhere repeats or loses nothing.

        What an earlier step has found and not yet stored comes first, and alone.
        """
        self._at("collect")
        if self.unstored is not None:
            return self._store_rest(self.unstored, now_ms)
        problems = [*self._back_to(now_ms), *self._forgotten]
        intakes = [self.derivation.apply(intake) for intake in self.intake.drain()]
        self.sources.take(intakes)

        def advance() -> Ordered:
            ordered = self.order.advance(intakes, now_ms)
            ordered.problems += problems
            return ordered

        return self._run(advance, now_ms)

    def finish(self, now_ms: int) -> Step:
        """No source will send anything more: decide all that waits; returns the last step."""
        while self.is_behind:
            self.step(now_ms)
        step = self._run(self.order.end, now_ms)
        while self.unstored is not None or self.order.is_behind:
            step = self.step(now_ms) if self.unstored is not None else self._run(self.order.end, now_ms)
        return step

    def _at(self, boundary: str) -> None:
        """One part of a step has ended, another one begins."""
        self.part_ended()
        self.boundary(boundary)

    def _run(self, release: Callable[[], Ordered], now_ms: int) -> Step:
        started_s = self.monotonic()
        self._at("order")
        was_behind = self.order.is_behind
        if self.bound is not None:
            self.order.most_events = self.bound.most_events(self.matcher, MOST_EVENTS)
        ordered = release()
        behind = behind_of_alerts(self.matcher.behind_ms, self.alerting.queries)
        self.recent.add(ordered.events, ordered.watermark_ms, behind.by_type)
        self.leaps.take(ordered.watermark_ms, self.recent.events, ordered.late_rows, goes_on=was_behind)
        self._at("match")
        matches = self.matcher.process(apart(ordered.events), ordered.watermark_ms)
        found_by_all = chain(matches, self.matcher.take_silent())
        n_unbound = self.bound_matches.add(found_by_all, ordered.watermark_ms, behind.binding_ms)
        missing_ms, find = missing_until_ms(self.matcher), self.bound_matches.find
        found = found_in(matches, self.alerting.queries, LIVE, missing_until_ms=missing_ms, find=find)
        histories = [self._replayed(history) for history in ordered.histories]
        rest = Unstored(ordered.watermark_ms, found, histories, self.most_alerts)
        complaints = [*self.complaints(), *_left_out_of_incidents(n_unbound)]
        if self.bound is not None:
            complaints += self.bound.tell(self.matcher)
        self._at("checkpoint")
        self.store.check_owner()  # files are written before the transaction that would refuse
        is_much = rest.is_much(self._n_waiting(ordered.watermark_ms, now_ms))
        row = self.checkpoints.write(self._checkpoint(rest if is_much else None, ordered), now_ms, self.epoch)
        self._at("log")
        problems_of_log = self._log(ordered, row.number, now_ms)
        self._at("store")
        counters = Counter(ordered.counters)
        for part in rest.found:
            counters.update(part.counters)
        with self.store.transaction() as writer:
            failed = failed_queries(complaints)
            outcome = self._store_part(writer, rest, row.number, now_ms, settle=True, failed=failed)
            writer.progress.add_statistics(counters)
            writer.progress.add_late_events(ordered.late)
            problems = writer.problems.add([*ordered.problems, *complaints, *problems_of_log], now_ms)
            writer.progress.put_source_status(self.sources.status(self.order.watermarks.by_source()))
            writer.progress.put_process_status(
                self._status(ordered.watermark_ms, writer.outbox.n_pending(), now_ms), now_ms
            )
            writer.progress.put_checkpoint(row)
            self._at("commit")
        self.number, self._forgotten = row.number, []
        self._stored(rest, outcome)
        self.checkpoints.tidy(row.number)
        if self.event_log is not None:
            self.event_log.tidy(row.number, now_ms, self.retention)
        self.spare_memory.give_back(now_ms)
        for problem in problems:
            log.warning("problem", source=problem.source, place=problem.place, kind=problem.kind, what=problem.message)
        if self.unstored is not None:
            outcome += self._store_rest(rest, now_ms, started_s).outcome
        return Step(ordered.watermark_ms, len(ordered.events), found.n_rows, outcome, counters)

    def _n_waiting(self, watermark_ms: int, now_ms: int) -> int:
        """Alerts in the store of which the step has to tell, beside what it finds; counted up to more than one part."""
        at_most = self.most_alerts + 1
        n_changed = self.store.read(lambda session: n_to_follow(session, now_ms, at_most))
        return n_changed if n_changed == at_most else n_changed + self.store.n_over(watermark_ms, at_most)

    def _store_rest(self, rest: Unstored, now_ms: int, started_s: float | None = None) -> Step:
        """Further transactions with what a step has found, for as long as a step may take."""
        until_s = (self.monotonic() if started_s is None else started_s) + MOST_STEP_S
        outcome = Outcome()
        while self.unstored is not None:
            self._at("part")
            with self.store.transaction() as writer:
                part = self._store_part(writer, rest, self.number, now_ms, settle=not self._is_settled)
                if rest.is_stored:
                    writer.progress.put_process_status(
                        self._status(rest.watermark_ms, writer.outbox.n_pending(), now_ms), now_ms
                    )
                self._at("commit part")
            self._stored(rest, part)
            outcome += part
            if self.monotonic() >= until_s:
                break
        return Step(rest.watermark_ms, 0, {}, outcome)

    def _lookup(self, event_ids: Sequence[str]) -> Mapping[str, KnownEvent]:
        """Events and matches that alerts show."""
        return {**self.recent.lookup(event_ids), **self.bound_matches.lookup(event_ids)}

    def _store_part(
        self, writer: Writer, rest: Unstored, number: int, now_ms: int, *, settle: bool, failed: Collection[str] = ()
    ) -> Outcome:
        """`failed`: queries that failed in the step."""
        self._expect(writer.progress.checkpoint(self.checkpoints.pipeline))
        recorder = Recorder(self.alerting, writer, self._lookup, now_ms, rest.effort)
        if settle:
            recorder.settle_changed_queries()
        recorder.end_failed_incidents(failed)
        began_s = self.monotonic()
        n_done = rest.store_part(recorder, self.batch.now)
        self.batch.took(n_done, self.monotonic() - began_s)
        self.checkpoints.note(number, recorder.outcome.created, more=number == self.number)
        if rest.is_set_aside:
            writer.progress.put_progress({"epoch": self.epoch, "number": number, **rest.progress()}, now_ms)
        return recorder.outcome

    def _stored(self, rest: Unstored, outcome: Outcome) -> None:
        """A transaction is through."""
        self.unstored, self._is_settled = None if rest.is_stored else rest, True
        self._at("notify")
        self.notifier.wake()
        for line in outcome.log:
            log.info("alert", **line.fields())

    def _replayed(self, history: FinishedHistory) -> OfHistory:
        replayed = self.histories.replay(history, self.recent.events)
        self.part_ended()
        bound = BoundMatches(self.alerting.queries)
        bound.add(chain(replayed.matches, replayed.silent), FOREVER_MS)
        found = found_in(replayed.matches, self.alerting.queries, HISTORY, find=bound.find)
        return OfHistory(history, found, lambda ids: {**replayed.lookup(ids), **bound.lookup(ids)})

    def _back_to(self, now_ms: int) -> list[NewProblem]:
        """Go back to the present when the watermark is ahead of it: the clock was wrong, and every event would be late.

        Matching starts again where the watermark leapt, from the events that were kept then, and what was late since
        takes part; the alerts that it finds again are known.
        """
        false_ms = self.order.watermarks.combined_ms
        if not now_ms + MOST_AHEAD_MS < false_ms < FOREVER_MS or self.rewind is None:
            return []
        past = self.leaps.back(now_ms, self.recent.events, BACK_MS)
        self.recent.restore(past.kept.table, past.watermark_ms)
        self.matcher, matches = self.rewind(apart(past.kept), past.watermark_ms)
        self.bound_matches.go_back(matches, past.watermark_ms)
        self.order.go_back(past.watermark_ms, now_ms, past.late)
        n_late = 0 if past.late is None else past.late.num_rows
        message = (
            f"the watermark stood at {iso(false_ms)}, it is {iso(now_ms)}: the clock was ahead when it was set. "
            f"Matching goes on from {iso(past.watermark_ms)}, with {n_late} events that came meanwhile and were late"
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
        if (overload := overload_figures(self.matcher)) is not None:
            known["overload"] = overload
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
            if (derived := checkpoint.state.get("derived")) is not None:
                self.derivation.restore(derived)
            else:  # checkpoints of before have it beside the read positions
                self.derivation.restore_from_positions(self.order.positions)
            self.recent.restore(recent["events"], int(checkpoint.state["watermark_ms"]))
            if bound := _part(tables, "bound"):  # checkpoints of before have none
                self.bound_matches.restore(bound, int(checkpoint.state["watermark_ms"]))
            if (leaps := checkpoint.state.get("leaps")) is not None:  # checkpoints of before have none
                self.leaps.restore(_part(tables, "leaps"), leaps)
        except (KeyError, TypeError, ValueError, PositionError, pa.ArrowInvalid) as error:
            raise CheckpointError(f"checkpoint {row.number} lacks a part: {error}") from error
        try:
            if new := self.matcher.restore(matcher):
                log.info("new or changed queries begin with the recent events that are kept", queries=sorted(new))
                self.matcher.warm_up(new, apart(self.recent.events))
        except StateError as error:
            if self.rewind is None:
                raise CheckpointError(f"checkpoint {row.number} cannot be restored: {error}") from error
            log.warning("matching starts again from the recent events that are kept", reason=str(error))
            self.matcher, _ = self.rewind(apart(self.recent.events), int(checkpoint.state["watermark_ms"]))
        if self.bound is not None:
            self.bound.begin(self.matcher)
        told = [CreatedAlert(*values) for values in checkpoint.state.get("told", ())]
        self._told = [*told, *self.checkpoints.created_after(row.number)]
        self.alerting = replace(self.alerting, told=created_by_key(self._told))
        self.number, self._restored_ms = row.number, row.written_ms
        self.unstored = self._rest_of(checkpoint)
        if n_steps := self.checkpoints.n_forgotten(row):
            self.tell_forgotten(row.number + n_steps)
        self.checkpoints.tidy(row.number)
        return self.order.positions

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

    def _rest_of(self, checkpoint: Checkpoint) -> Unstored | None:
        """What the step of the checkpoint had found and not yet stored."""
        self._is_settled = False
        if (histories := checkpoint.state.get(UNSTORED)) is None:
            return None
        progress = self.store.progress()
        if (progress.get("epoch"), progress.get("number")) != (self.epoch, checkpoint.number):
            progress = {}
        try:
            found, finished = read_tables(_part(checkpoint.tables, UNSTORED), histories)
            watermark_ms = int(checkpoint.state["watermark_ms"])
        except (KeyError, TypeError, ValueError, pa.ArrowInvalid, StateError) as error:
            raise CheckpointError(f"checkpoint {checkpoint.number} lacks a part: {error}") from error
        rest = Unstored.restored(watermark_ms, found, finished, progress, self._replayed, self.most_alerts)
        return None if rest.is_stored else rest

    def _checkpoint(self, rest: Unstored | None, ordered: Ordered) -> Checkpoint:
        """`rest`: what has to be set aside."""
        order_tables, order_state = self.order.save()
        unstored, histories = ({}, None) if rest is None else rest.save(self.alerting)
        tables = {
            **{f"order/{name}": table for name, table in order_tables.items()},
            **{f"matcher/{name}": table for name, table in self.matcher.save().items()},
            "recent/events": self.recent.save(),
            **{f"bound/{name}": table for name, table in self.bound_matches.save().items()},
            **{f"{UNSTORED}/{name}": table for name, table in unstored.items()},
        }
        leap_tables, leaps = self.leaps.save()
        lasting = {
            **{f"order/{name}": table for name, table in self.order.sealed().items()},
            **{f"leaps/{name}": table for name, table in leap_tables.items()},
            **{f"bound/{name}": table for name, table in self.bound_matches.sealed().items()},
        }
        watermark_ms = ordered.watermark_ms
        state: dict[str, Any] = {"order": order_state, "watermark_ms": watermark_ms, "leaps": leaps}
        state["derived"] = self.derivation.save()
        state[UNSTORED] = histories
        if told := [astuple(told) for told in self._told if told.end_ms >= watermark_ms - TOLD_MS]:
            state["told"] = told
        return Checkpoint(self.number + 1, tables, state, lasting)


def _left_out_of_incidents(n_matches: int) -> list[NewProblem]:
    if not n_matches:
        return []
    message = (
        f"{n_matches:,} matches that incidents or other alerts might have bound are no longer kept, to make room for "
        "newer ones; their alerts are told by themselves, and alerts that bind them do not show them"
    )
    return [NewProblem("pipeline", "incidents", "matches_left_out", message)]


def _part(tables: Mapping[str, pa.Table], name: str) -> dict[str, pa.Table]:
    prefix = f"{name}/"
    return {key.removeprefix(prefix): table for key, table in tables.items() if key.startswith(prefix)}
