"""A storm: thousands of alerts in one step, from their matches to rows of the store, with evidence and a receiver.

    CLUSTERCEP_BENCH_STORM=2000        alerts of the middle size; the others are a fifth and four times of it
    CLUSTERCEP_BENCH_POSTGRESQL=URL    an empty database to measure, too (postgresql+psycopg://...)

Processor time is that of this process, the database's work included on SQLite alone.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sqlalchemy import event, text

from app.alerting.catalog import QueryInfo
from app.alerting.recorder import AlertingOptions, Recorder
from app.recent import RecentEvents
from app.settings import Receiver, Severity
from app.store.api import Store, open_store
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
    {"ops": Receiver.model_validate({"url": "http://127.0.0.1:9/hook"})},
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
        values = {"task_id": task, "host": host, "period_ms": 65_000 + number, "ratio": 4.25 + number / 100_000}
        bindings = {"a": (ids[0],), "b": tuple(ids[1:])}
        matches.append(MatchRow(QUERY, (("task_id", task),), end_ms - n_events, end_ms, bindings, 1.0, values))
    recent = RecentEvents({"Mapper": 3_600_000})
    recent.add(EventBatch.from_rows(rows, schema), START_MS)
    return Storm(matches, recent)
