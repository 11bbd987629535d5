"""An application's figures from its events, whoever read them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from app.heuristics.spark.figures import SparkExecutor, SparkFigures, SparkJob, SparkStage, SparkTask
from collectors.spark.settings import SETTINGS

APPLICATION_TYPES = ("SparkApplicationStart", "SparkApplicationEnd")
OTHER_TYPES = (
    "SparkJobStart", "SparkJobEnd", "SparkStageStart", "SparkStageEnd", "SparkTaskEnd", "SparkExecutorAdded",
    "SparkExecutorRemoved",
)  # fmt: skip
TYPES = (*APPLICATION_TYPES, *OTHER_TYPES)

TASK_FIGURES: Mapping[str, str] = {
    "executor_id": "executor_id", "host": "host", "status": "status", "reason": "reason", "life_ms": "period_ms",
    "run_ms": "run_ms", "gc_ms": "gc_ms", "memory_spilled_bytes": "memory_spilled_bytes", "input_bytes": "input_bytes",
    "output_bytes": "output_bytes", "shuffle_read_bytes": "shuffle_read_bytes",
    "shuffle_write_bytes": "shuffle_write_bytes", "storage_bytes": "peak_storage_bytes",
    "heap_bytes": "peak_heap_bytes",
}  # fmt: skip
"""Of SparkTask -> attribute of SparkTaskEnd."""

COLUMNS = tuple(dict.fromkeys((
    "type", "t_lo_ms", "t_hi_ms", "application_id", "application_attempt", "application_name", "user", "queue",
    "period_ms", "exit_code", "settings", "spark_job", "stages", "stage", "n_tasks", "task", "n_cores", "lost",
    *TASK_FIGURES.values(),
)))  # fmt: skip

MAX_SETTINGS_CHARS = 1 << 16

_STAGE = re.compile(r"[0-9]{1,10}\.[0-9]{1,10}")

Row = Mapping[str, Any]


def application_figures(application_id: str, events: pa.Table) -> SparkFigures:
    """Of one application, by its last attempt; `events` are all its rows of TYPES, with COLUMNS as far as any has them,
    in any order."""
    present = [name for name in COLUMNS if name in events.column_names]
    by_type: dict[str, list[Row]] = {}
    tasks: dict[tuple[str | None, str], list[SparkTask]] = {}
    for batch in events.select(present).to_batches(max_chunksize=4096):
        for row in batch.to_pylist():
            if row["type"] == "SparkTaskEnd":
                if _is_stage(row):
                    key = (row.get("application_attempt"), row["stage"])
                    tasks.setdefault(key, []).append(_task(row))
            else:
                by_type.setdefault(row["type"], []).append(row)
    attempts = {row.get("application_attempt") for own in by_type.values() for row in own} | {key[0] for key in tasks}
    attempt = max(attempts, key=_number, default=None)
    own = {name: [row for row in rows if row.get("application_attempt") == attempt] for name, rows in by_type.items()}
    start, end = _last(own.get("SparkApplicationStart", ())), _last(own.get("SparkApplicationEnd", ()))
    told = [row for row in (end, start) if row is not None] or [row for rows in own.values() for row in rows[:1]]
    end_ms = None if end is None else end["t_hi_ms"]
    n_others = len(attempts) - 1
    return SparkFigures(
        application_id=application_id,
        application_attempt=attempt,
        application_name=_known(told, "application_name"),
        user=_known(told, "user"),
        queue=_known(told, "queue"),
        start_ms=start["t_lo_ms"] if start else _minus(end_ms, end.get("period_ms") if end else None),
        end_ms=end_ms,
        exit_code=None if end is None else end.get("exit_code"),
        jobs=tuple(_jobs(own)),
        stages=tuple(_stages(own, {stage: found for (of, stage), found in tasks.items() if of == attempt})),
        executors=tuple(_executors(own)),
        settings=None if start is None else _settings(start.get("settings")),
        problems=(f"it had {n_others + 1} attempts: the last one is judged",) if n_others > 0 else (),
    )


def _task(row: Row) -> SparkTask:
    figures = {name: row.get(attribute) for name, attribute in TASK_FIGURES.items()}
    return SparkTask(str(row.get("task") or "?"), **figures)


def _jobs(own: Mapping[str, list[Row]]) -> Iterator[SparkJob]:
    starts, ends = _by(own.get("SparkJobStart", ()), "spark_job"), _by(own.get("SparkJobEnd", ()), "spark_job")
    for number in sorted({*starts, *ends}):
        start, end = starts.get(number, {}), ends.get(number, {})
        end_ms = end.get("t_hi_ms")
        yield SparkJob(
            number,
            end.get("status"),
            end.get("reason"),
            start["t_lo_ms"] if start else _minus(end_ms, end.get("period_ms")),
            end_ms,
            _ids(start.get("stages")),
        )


def _stages(own: Mapping[str, list[Row]], tasks: Mapping[str, list[SparkTask]]) -> Iterator[SparkStage]:
    starts = _by(filter(_is_stage, own.get("SparkStageStart", ())), "stage")
    ends = _by(filter(_is_stage, own.get("SparkStageEnd", ())), "stage")
    for stage in sorted({*starts, *ends, *tasks}, key=lambda name: [int(part) for part in name.split(".")]):
        start, end = starts.get(stage, {}), ends.get(stage, {})
        n_tasks = end.get("n_tasks")
        yield SparkStage(
            stage,
            start.get("n_tasks") if n_tasks is None else n_tasks,
            end.get("status"),
            end.get("reason"),
            start["t_lo_ms"] if start else _minus(end.get("t_hi_ms"), end.get("period_ms")),
            end.get("period_ms"),
            tuple(tasks.get(stage, ())),
        )


def _executors(own: Mapping[str, list[Row]]) -> Iterator[SparkExecutor]:
    added = _by(own.get("SparkExecutorAdded", ()), "executor_id")
    removed = _by(own.get("SparkExecutorRemoved", ()), "executor_id")
    for executor_id in sorted({*added, *removed}, key=lambda name: (len(name), name)):
        start, end = added.get(executor_id, {}), removed.get(executor_id, {})
        host = start.get("host")
        yield SparkExecutor(
            executor_id,
            end.get("host") if host is None else host,
            start.get("n_cores"),
            start.get("t_lo_ms"),
            end.get("t_hi_ms"),
            end.get("reason"),
            end.get("lost") == 1,
        )


def _settings(text: str | None) -> dict[str, str] | None:
    try:
        found = json.loads(text) if text is not None and len(text) <= MAX_SETTINGS_CHARS else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    return {name: value for name, value in found.items() if name in SETTINGS and isinstance(value, str)
            and SETTINGS[name].fullmatch(value)}  # fmt: skip


def _ids(text: str | None) -> frozenset[int] | None:
    return None if text is None else frozenset(int(part) for part in text.split() if part.isascii() and part.isdigit())


def _is_stage(row: Row) -> bool:
    return isinstance(row.get("stage"), str) and _STAGE.fullmatch(row["stage"]) is not None


def _by(rows: Iterable[Row], name: str) -> dict[Any, Row]:
    return {row[name]: row for row in rows if row.get(name) is not None}


def _number(attempt: str | None) -> tuple[int, int, str]:
    text = attempt or ""
    return (0, 0, "") if not text else (1, int(text) if text.isascii() and text.isdigit() else 0, text)


def _last(rows: Iterable[Row]) -> Row | None:
    return max(rows, key=lambda row: (row["t_hi_ms"], row["t_lo_ms"]), default=None)


def _known(rows: Iterable[Row], name: str) -> Any:
    return next((row[name] for row in rows if row.get(name) is not None), None)


def _minus(end_ms: int | None, period_ms: int | None) -> int | None:
    return None if end_ms is None or period_ms is None else end_ms - period_ms


__all__ = ["APPLICATION_TYPES", "COLUMNS", "OTHER_TYPES", "TYPES", "application_figures"]
