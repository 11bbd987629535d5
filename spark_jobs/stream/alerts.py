"""What the buckets told in one micro-batch, written by the driver: alerts, reports, messages, late events, counters.

One transaction per micro-batch, with the number of the micro-batch: one that Spark repeats after a crash changes
nothing. So alerts, counters and notifications are those of a run without crashes.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import structlog
from pyspark.sql import DataFrame

from app.alerting.notifier import Notifier
from app.alerting.recording.evidence import KnownEvent
from app.alerting.recording.options import AlertingOptions
from app.alerting.recording.outcome import Outcome
from app.alerting.recording.recorder import Recorder
from app.errors import StoreError
from app.store.api import Store
from app.store.models import CheckpointRow, LateEventRow
from app.store.status import ProcessStatus, Queues
from app.store.storable import storable_values
from app.store.writing.problems import NewProblem
from app.store.writing.writer import Writer
from engine import MatchRow
from engine.events import HEADER_NAMES
from spark_jobs.event_store.schema import SOURCE
from spark_jobs.stream.bucket import counters_of
from spark_jobs.stream.groups import CountedByDriver
from spark_jobs.stream.rows import EVIDENCE, LATE, MATCH, STATUS, match_of_row
from spark_jobs.stream.shedding import BucketShed, StreamBound, lost_in, missing_in
from spark_jobs.stream.windows import counted

log = structlog.get_logger(__name__)

PIPELINE = "stream"
VERSION = 1
JOB = "stream"
"""Source of problems that belong to no collector."""


@dataclass
class Batch:
    """One micro-batch's rows, taken apart."""

    watermark_ms: int | None = None
    """None when no bucket was called."""
    newest_ms: int | None = None
    matches: list[MatchRow] = field(default_factory=list)
    digests: dict[int, str] = field(default_factory=dict)
    """Of the events of rows of reports that come without them, by place in `matches`."""
    evidence: dict[str, KnownEvent] = field(default_factory=dict)
    late: list[dict[str, Any]] = field(default_factory=list)
    """Each event of each source once, however many buckets got it."""
    counters: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    problems: list[NewProblem] = field(default_factory=list)
    began_again: set[str] = field(default_factory=set)
    buckets: list[dict[str, Any]] = field(default_factory=list)
    """Figures of each bucket that was called."""
    shed: list[tuple[str, int, BucketShed]] = field(default_factory=list)
    """By group and number, of buckets that hold a latency bound."""

    @classmethod
    def of(cls, rows: pa.Table, limited: Mapping[str, CountedByDriver] = MappingProxyType({})) -> Batch:
        """From rows of TOLD, in any order; `limited`: the queries whose rows are counted here, by name."""
        batch, seen = cls(), set[tuple[str, str]]()
        found_matches: list[tuple[MatchRow, str | None]] = []
        for row in rows.to_pylist():
            kind, content = row["kind"], row["content"]
            if kind == MATCH:
                found_matches.append(match_of_row(row["query"], content))
                continue
            found = json.loads(content)
            if kind == STATUS:
                batch._add_status(row, found)
            elif kind == EVIDENCE:
                batch.evidence[found["event_id"]] = KnownEvent(**found)
            elif kind == LATE and (identity := (found["event_id"], found[SOURCE])) not in seen:
                seen.add(identity)
                batch.late.append(found)
                batch.counters["late", found[SOURCE], found["type"]] += 1
        # The same whatever the order in which buckets answer: the store is written in this order.
        found_matches.sort(key=_order)
        found_matches, n_limited = counted(found_matches, limited)
        for match, _ in found_matches:
            if match.query in limited:
                batch.counters.update(counters_of(match))
        batch.counters.update({("limited", "live", query): n for query, n in n_limited.items()})
        batch.matches = [match for match, _ in found_matches]
        batch.digests = {at: known for at, (_, known) in enumerate(found_matches) if known is not None}
        return batch

    def _add_status(self, row: Mapping[str, Any], status: Mapping[str, Any]) -> None:
        watermark_ms, newest_ms = int(row["watermark_ms"]), status["newest_ms"]
        self.watermark_ms = watermark_ms if self.watermark_ms is None else max(self.watermark_ms, watermark_ms)
        if newest_ms is not None:
            self.newest_ms = newest_ms if self.newest_ms is None else max(self.newest_ms, newest_ms)
        for name, source, kind, n in status["counters"]:
            self.counters[name, source, kind] += n
        self.problems += [NewProblem(*problem) for problem in status["problems"]]
        self.began_again |= set(status.get("began_again", ()))
        if "shed" in status:
            self.shed.append((row["bucket_group"], int(row["bucket"]), BucketShed.of(status["shed"])))
        figures = {k: v for k, v in status.items() if k not in ("counters", "problems", "shed")}
        self.buckets.append({"group": row["bucket_group"], "bucket": row["bucket"], **figures})


@dataclass(frozen=True)
class Written:
    """What became of a micro-batch."""

    batch_id: int
    batch: Batch
    outcome: Outcome
    is_repeated: bool = False
    """True: the store had it already, nothing was written."""
    seconds: float = 0.0
    """What the transaction took, with taking apart what the buckets told."""


class AlertSink:
    """For DataStreamWriter.foreachBatch."""

    def __init__(
        self,
        store: Store,
        alerting: AlertingOptions,
        stream_id: str,
        now_ms: Callable[[], int],
        *,
        notifier: Notifier | None = None,
        after: Callable[[Written], None] = lambda _written: None,
        limited: Mapping[str, CountedByDriver] = MappingProxyType({}),
    ) -> None:
        """`stream_id`: of the checkpoint, whose micro-batches are numbered from 0. `after`: gets what was written.
        `limited`: the queries of which the driver counts the rows, by name.
        """
        self._limited = limited
        self._store = store
        self._alerting = alerting
        self._stream_id = stream_id
        self._now_ms = now_ms
        self._notifier = notifier
        self._after = after
        self._bound = StreamBound()

    def __call__(self, rows: DataFrame, batch_id: int) -> None:
        """Collect what the buckets told and write it; raises StoreError when the store refuses."""
        self._after(self.write(rows.toArrow(), batch_id))

    def write(self, rows: pa.Table, batch_id: int) -> Written:
        """One transaction; one that was made before is not made again."""
        started_s = time.perf_counter()
        batch, now_ms = Batch.of(rows, self._limited), self._now_ms()
        with self._store.transaction() as writer:
            before = writer.progress.checkpoint(PIPELINE)
            if before is not None and before.epoch == self._stream_id and before.number >= batch_id:
                return Written(batch_id, batch, Outcome(), is_repeated=True)
            self._refuse_gap(before, batch_id)
            outcome = Outcome()
            if batch.watermark_ms is not None:
                recorder = Recorder(self._alerting, writer, _lookup(batch), now_ms)
                missing = missing_in(shed for *_, shed in batch.shed)
                outcome = recorder.live(batch.matches, batch.watermark_ms, batch.digests, missing)
            problems = self._write_beside(writer, batch, now_ms)
            writer.progress.put_checkpoint(self._row(batch_id, now_ms))
        seconds = time.perf_counter() - started_s
        if self._notifier is not None:
            self._notifier.wake()
        for problem in problems:
            log.warning("problem", source=problem.source, place=problem.place, kind=problem.kind, what=problem.message)
        if batch.began_again:
            log.info("queries begin with the recent events that are kept", queries=sorted(batch.began_again))
        for line in outcome.log:
            log.info("alert", **line.fields())
        return Written(batch_id, batch, outcome, seconds=seconds)

    def _refuse_gap(self, before: CheckpointRow | None, batch_id: int) -> None:
        """Raises StoreError when the database lacks micro-batches that Spark will not make again."""
        of_this = before is not None and before.epoch == self._stream_id
        if before is None or of_this:
            n_known = 0 if before is None else before.number + 1
            if n_known < batch_id:
                raise StoreError(
                    f"the database knows {n_known} micro-batches of this stream, its checkpoint {batch_id}: the "
                    "database was restored from a backup, or is another one. Put the newer one back; or start with "
                    "another --checkpoint: what the source still has is read again"
                )

    def _write_beside(self, writer: Writer, batch: Batch, now_ms: int) -> list[NewProblem]:
        writer.progress.add_statistics(batch.counters)
        writer.progress.add_late_events(_late_rows(batch.late, batch.watermark_ms or 0, now_ms))
        status = ProcessStatus(stepped_ms=now_ms, queues=Queues(outbox=writer.outbox.n_pending()))
        self._bound.take(batch.shed)
        if (figures := self._bound.figures) is not None:
            status["overload"] = figures
        if batch.watermark_ms is not None:
            status["watermark_ms"] = batch.watermark_ms
            writer.progress.put_process_status(status, now_ms)
        late = [
            NewProblem(source, source, "late", f"{n} events came after the watermark; they are kept but not matched")
            for source, n in Counter(event[SOURCE] for event in batch.late).items()
        ]
        lost = [NewProblem(*problem) for problem in lost_in(shed for *_, shed in batch.shed)]
        return writer.problems.add([*batch.problems, *lost, *late], now_ms)

    def _row(self, batch_id: int, now_ms: int) -> CheckpointRow:
        return CheckpointRow(
            pipeline=PIPELINE,
            number=batch_id,
            file="",
            digest="",
            version=VERSION,
            written_ms=now_ms,
            epoch=self._stream_id,
        )


def _order(told: tuple[MatchRow, str | None]) -> tuple[str, int, int, tuple[str, ...], str]:
    row, known = told
    return row.query, row.first_lo_ms, row.last_hi_ms, row.event_ids, known or ""


def _lookup(batch: Batch) -> Callable[[Sequence[str]], dict[str, KnownEvent]]:
    return lambda ids: {event_id: batch.evidence[event_id] for event_id in ids if event_id in batch.evidence}


def _late_rows(late: Sequence[Mapping[str, Any]], watermark_ms: int, now_ms: int) -> list[LateEventRow]:
    return [
        LateEventRow(
            event_id=event["event_id"],
            source=event[SOURCE],
            type=event["type"],
            t_lo_ms=event["t_lo_ms"],
            t_hi_ms=event["t_hi_ms"],
            watermark_ms=watermark_ms,
            attributes=storable_values({k: v for k, v in event.items() if k not in HEADER_NAMES and k != SOURCE}),
            origin=event.get("origin"),
            seen_ms=now_ms,
        )
        for event in late
    ]


__all__ = ["JOB", "PIPELINE", "AlertSink", "Batch", "Written"]
