"""A storm: thousands of alerts in one step, from their matches to rows of the store, with evidence and a receiver.

    CLUSTERCEP_BENCH_STORM=2000        alerts of the middle size; the others are a fifth and four times of it
    CLUSTERCEP_BENCH_POSTGRESQL=URL    an empty database to measure, too (postgresql+psycopg://...)

Processor time is that of this process, the database's work included on SQLite alone; from matches to rows of the
store, what is set aside for the checkpoint included.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import Any

from app.alerting.catalog import QueryInfo
from app.alerting.recording.found import found_in
from app.alerting.recording.options import AlertingOptions
from app.alerting.recording.recorder import Recorder
from app.live.recent import RecentEvents
from app.live.unstored import Unstored
from app.process.spare_memory import rarely_collect
from app.settings import Severity, WebhookReceiver
from app.store.api import open_store
from app.store.models import Base
from benchmarks.measure import show, size
from collectors.schema import load_event_types
from engine import MatchRow
from engine.events import EventBatch

QUERY = "mapper-straggler"
START_MS = 1_790_000_000_000
GAP_MS = 60_000
FEW_EVENTS, MANY_EVENTS = 5, 105
OPTIONS = AlertingOptions(
    {
        QUERY: QueryInfo(
            QUERY,
            "0" * 32,
            Severity.WARNING,
            "{task_id} on {host} took {period_ms:duration}, {ratio} times the average",
            GAP_MS,
            key=("task_id",),
            runbook="Look at the task's log and at the disks of its host.",
            types=frozenset({"Mapper"}),
            within_ms=3_600_000,
            numbers=frozenset({"period_ms", "ratio"}),
        )
    },
    {"ops": WebhookReceiver.model_validate({"url": "http://127.0.0.1:9/hook"})},
)


@dataclass
class Storm:
    """Matches, one alert each, and the events that they are made of."""

    matches: list[MatchRow]
    recent: RecentEvents


def storm(n_alerts: int, n_events: int, first: int = 0) -> Storm:
    """`n_alerts` tasks, each a match of `n_events` events."""
    schema = load_event_types()
    matches, rows = [], []
    for number in range(first, first + n_alerts):
        task, host = f"task_1790000000000_0001_m_{number:06d}", f"node{number % 4_800}"
        end_ms = START_MS + number
        ids = [f"{task}-{place}" for place in range(n_events)]
        rows += [
            {
                "event_id": event_id,
                "type": "Mapper",
                "t_lo_ms": end_ms - place,
                "t_hi_ms": end_ms - place,
                "task_id": task,
                "attempt_id": f"attempt{task[4:]}_0",
                "job_id": "job_1790000000000_0001",
                "host": host,
                "period_ms": 65_000 + number,
                "user": "ann",
                "queue": "default",
                "origin": "job_1790000000000_0001.jhist",
            }
            for place, event_id in enumerate(ids)
        ]
        values: dict[str, int | float | str | None] = {
            "task_id": task,
            "host": host,
            "period_ms": 65_000 + number,
            "ratio": 4.25 + number / 100_000,
        }
        bindings = {"a": (ids[0],), "b": tuple(ids[1:])}
        matches.append(MatchRow(QUERY, (("task_id", task),), end_ms - n_events, end_ms, bindings, 1.0, values))
    recent = RecentEvents({"Mapper": 3_600_000})
    recent.add(EventBatch.from_rows(rows, schema), START_MS)
    return Storm(matches, recent)


@dataclass(frozen=True)
class Measured:
    """What one storm took."""

    n_alerts: int
    n_events: int
    cpu_s: float
    wall_s: float
    longest_transaction_s: float


def main() -> dict[str, Any]:
    """Measure, print the tables, return the figures."""
    middle = size("STORM", 2_000)
    urls = {"SQLite": None, "PostgreSQL": os.environ.get("CLUSTERCEP_BENCH_POSTGRESQL")}
    rows: list[list[object]] = []
    figures: dict[str, Any] = {"load": os.getloadavg()}
    for database, url in urls.items():
        if database == "PostgreSQL" and url is None:
            continue
        measured_on(url, 100, FEW_EVENTS)
        rarely_collect()  # as the live process does
        for n_alerts in (middle // 5, middle, 4 * middle):
            few = measured_on(url, n_alerts, FEW_EVENTS)
            per_alert = [seconds / n_alerts * 1e3 for seconds in (few.cpu_s, few.wall_s)]
            rows.append([database, n_alerts, *per_alert, few.wall_s, few.longest_transaction_s])
        n_many = max(1, middle // 5)
        few, many = (measured_on(url, n_many, n_events) for n_events in (FEW_EVENTS, MANY_EVENTS))
        to_us = 1e6 / n_many / (MANY_EVENTS - FEW_EVENTS)
        further = {"cpu": (many.cpu_s - few.cpu_s) * to_us, "wall": (many.wall_s - few.wall_s) * to_us}
        figures[database] = {f"further_event_{clock}_us": us for clock, us in further.items()}
        told = [["processor time", further["cpu"]], ["wall time", further["wall"]]]
        show(f"{database}: a further event of evidence", ("", "µs"), told)
    columns = ("store", "alerts", "processor, ms per alert", "wall, ms per alert", "s in all", "longest transaction, s")
    show(f"Alerts with {FEW_EVENTS} events of evidence and one receiver, at once", columns, rows)
    return {**figures, "rows": rows}


def measured_on(url: str | None, n_alerts: int, n_events: int) -> Measured:
    """Alerts that fire, in the parts of a step; `url` None: a new SQLite file. The tables are emptied before."""
    with TemporaryDirectory() as folder, open_store(url or f"sqlite:///{folder}/store.db") as store:
        with store.transaction() as writer:
            for table in reversed(Base.metadata.sorted_tables):
                writer.session.execute(table.delete())
        given = storm(n_alerts, n_events)
        transactions_s: list[float] = []
        cpu_s, wall_s = time.process_time(), time.perf_counter()
        rest = Unstored(START_MS, found_in(given.matches, OPTIONS.queries))
        rest.save(OPTIONS)
        while not rest.is_stored:
            began_s = time.perf_counter()
            with store.transaction() as writer:
                rest.store_part(Recorder(OPTIONS, writer, given.recent.lookup, START_MS, rest.effort))
            transactions_s.append(time.perf_counter() - began_s)
        cpu_s, wall_s = time.process_time() - cpu_s, time.perf_counter() - wall_s
        assert store.n_alerts() == n_alerts, "each match is an alert of its own"
    return Measured(n_alerts, n_events, cpu_s, wall_s, max(transactions_s))
