"""A recorded event log, in the forms that Spark gives it, and lines written by hand."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from collectors.base import Collected
from collectors.spark.spark_events import SparkEventsCollector, SparkEventsOptions
from engine.events import EventBatch

RECORDED = Path(__file__).parents[2] / "fixtures" / "spark_events"
"""Of Spark 4.3 with two executors: a slow task, a failed one, an executor that was killed, a job that fails. Long texts
(settings, stack traces, accumulables) are cut and hosts renamed; compressed again by Spark's own codecs."""
NAME = "application_1795748346000_0007_1"
APPLICATION = "application_1795748346000_0007"
ROLLED = f"eventlog_v2_{NAME}"
CODECS = ("", ".lz4", ".snappy", ".zstd")
LATER_MS = 1_900_000_000_000
T0_MS = 1_795_749_300_000


def recorded(ending: str = "") -> bytes:
    """The log with this ending."""
    return (RECORDED / f"{NAME}{ending}").read_bytes()


def put_rolled(root: Path) -> Path:
    """The rolled form in a folder."""
    return Path(shutil.copytree(RECORDED / ROLLED, root / ROLLED))


def lines(*events: Mapping[str, Any]) -> bytes:
    """Events of listeners as a log has them."""
    return b"".join(json.dumps(event, separators=(",", ":")).encode() + b"\n" for event in events)


def started(name: str = "orders", at_ms: int = T0_MS, **more: Any) -> list[dict[str, Any]]:
    """How a log begins."""
    start = {"App Name": name, "App ID": APPLICATION, "Timestamp": at_ms, "User": "ann", "App Attempt ID": "1", **more}
    return [
        {"Event": "SparkListenerLogStart", "Spark Version": "3.5.1"},
        {"Event": "SparkListenerApplicationStart", **start},
    ]


def stage(number: int, at_ms: int, event: str = "Submitted", attempt: int = 0, **more: Any) -> dict[str, Any]:
    """A stage begins, or (`Completed`) ends."""
    time = {"Submission Time": at_ms} if event == "Submitted" else {"Completion Time": at_ms}
    info = {
        "Stage ID": number,
        "Stage Attempt ID": attempt,
        "Stage Name": "count",
        "Number of Tasks": 4,
        **time,
        **more,
    }
    return {"Event": f"SparkListenerStage{event}", "Stage Info": info}


def task(
    number: int, stage_number: int, start_ms: int, end_ms: int, reason: Mapping[str, Any] | None = None, **more: Any
) -> dict[str, Any]:
    """A task ends."""
    info = {
        "Task ID": number, "Index": number, "Attempt": 0, "Launch Time": start_ms, "Executor ID": "1", "Host": "n1",
        "Locality": "ANY", "Speculative": False, "Finish Time": end_ms, "Failed": False, "Killed": False, **more,
    }  # fmt: skip
    return {
        "Event": "SparkListenerTaskEnd", "Stage ID": stage_number, "Stage Attempt ID": 0, "Task Type": "ResultTask",
        "Task End Reason": reason or {"Reason": "Success"}, "Task Info": info,
        "Task Metrics": {"Executor Run Time": 7, "Executor CPU Time": 5_999_999},
    }  # fmt: skip


def ended(at_ms: int) -> dict[str, Any]:
    """How a log ends."""
    return {"Event": "SparkListenerApplicationEnd", "Timestamp": at_ms}


def collector(root: Path, **options: Any) -> SparkEventsCollector:
    """One that reads a folder."""
    return SparkEventsCollector(SparkEventsOptions(root, **options))


def rows_of(polled: Iterable[Collected]) -> list[dict[str, Any]]:
    """All events, those of histories too, without what says where they were read; None left out."""
    batches: Sequence[EventBatch] = [
        batch for one in polled for batch in (one.events, *(history.events for history in one.finished))
    ]
    rows = [row for batch in batches for row in batch.rows()]
    return sorted(
        ({k: v for k, v in row.items() if v is not None and k != "origin"} for row in rows),
        key=lambda row: int(row["source_seq"]),
    )


def told(root: Path, now_ms: int = LATER_MS, **options: Any) -> list[dict[str, Any]]:
    """All events of a folder that is read at once."""
    return rows_of([collector(root, **options).poll(now_ms)])
