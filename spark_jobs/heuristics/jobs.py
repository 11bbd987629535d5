"""`clustercep report jobs`: all jobs that ended in a span, judged and ranked by what they wasted.

jobs of the span -> their events (in this process where they are few, else job by job on executors) -> a row per job
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from rich.console import Console

from app.console import inert
from app.heuristics.from_events import COLUMNS, JOB_TYPES, TYPES, job_figures
from app.heuristics.judging import judged
from app.heuristics.waste import waste_of
from app.tables import Column, Fit, number, print_table
from collectors.hadoop_ids import is_job
from collectors.time_units import DAY_MS
from spark_jobs.event_store import EventStore
from spark_jobs.event_store.errors import job_errors
from spark_jobs.event_store.on_this_machine import read_few
from spark_jobs.heuristics.row import DDL, report_row, rows_table

MOST_EVENTS_HERE = 500_000
"""An event of counters is a few KB."""

SLACK_MS = DAY_MS

_OTHERS = tuple(name for name in TYPES if name not in (*JOB_TYPES, "JobSettings"))

_FIGURES = (number("not used, GiB h"), number("held, GiB h", spare=2), number("lost, h", spare=1))
_JOBS = (
    Column("job", Fit.WHOLE), Column("name", least=12), Column("user", spare=4), Column("queue", spare=5),
    Column("severity", Fit.WHOLE), Column("worst heuristics", least=12, spare=3), *_FIGURES,
)  # fmt: skip


@dataclass(frozen=True)
class Total:
    """Of a user or queue."""

    name: str | None
    n_jobs: int
    n_unknown: int
    """Jobs whose memory is not known: they are in no sum of it."""
    held_gib_h: float
    wasted_gib_h: float
    lost_h: float


def rows_here(url: str, from_ms: int | None, to_ms: int | None) -> list[dict[str, Any]] | None:
    """A row (`row.ROW`) per job of the span; None where that is for Spark. Raises StoreError."""
    ends = read_few(url, ("JobEnd",), COLUMNS, from_ms, to_ms, MOST_EVENTS_HERE)
    if ends is None:
        return None
    if not ends.num_rows:
        return []
    ids, first_ms, last_ms = _span(ends)
    conf = read_few(url, ("JobSettings",), COLUMNS, None, None, MOST_EVENTS_HERE)
    others = read_few(url, (*_OTHERS, "JobStart"), COLUMNS, first_ms, last_ms, MOST_EVENTS_HERE)
    if conf is None or others is None:
        return None
    wanted = pa.array(sorted(ids), pa.string())
    by_job: dict[str, list[pa.Table]] = {job_id: [] for job_id in ids}
    for table in (ends, conf, others):
        if not table.num_rows:
            continue
        mine = table.filter(pc.is_in(table.column("job_id"), value_set=wanted)).sort_by("job_id")
        names = mine.column("job_id").to_pylist()
        begin = 0
        for place in range(1, len(names) + 1):
            if place == len(names) or names[place] != names[begin]:
                by_job[names[begin]].append(mine.slice(begin, place - begin))
                begin = place
    together = {job_id: pa.concat_tables(own, promote_options="permissive") for job_id, own in by_job.items()}
    return [row_of(job_id, events) for job_id, events in together.items()]


def rows_on_spark(store: EventStore, from_ms: int | None, to_ms: int | None) -> list[dict[str, Any]]:
    """As `rows_here`, of any store."""
    with job_errors(f"{store.url}: cannot be read"):
        ends = store.read(("JobEnd",), COLUMNS, from_ms, to_ms).persist()
        try:
            span = ends.agg(
                sf.min(sf.col("t_lo_ms") - sf.coalesce(sf.col("period_ms"), sf.lit(SLACK_MS))), sf.max("t_hi_ms")
            ).first()
            if span is None or span[0] is None:
                return []
            wanted = ends.select("job_id").distinct()
            others = store.read((*_OTHERS, "JobStart"), COLUMNS, span[0] - SLACK_MS, span[1] + SLACK_MS)
            conf = store.read(("JobSettings",), COLUMNS)
            events: DataFrame = ends.unionByName(others.unionByName(conf).join(wanted, "job_id", "left_semi"))
            found = events.groupBy("job_id").applyInArrow(_judge_group, DDL)
            rows: list[dict[str, Any]] = found.toArrow().to_pylist()
            return rows
        finally:
            ends.unpersist()


def row_of(job_id: str, events: pa.Table) -> dict[str, Any]:
    """A job's row."""
    judgement = judged(job_figures(job_id, events))
    job = judgement.figures
    return report_row(job_id, job.job_name, job.status, judgement, waste_of(job))


def ranked(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """By memory wasted, then by time lost; those whose memory is not known come last."""
    return sorted(
        rows,
        key=lambda row: (
            row["wasted_gib_h"] is None, -(row["wasted_gib_h"] or 0.0), -(row["lost_h"] or 0.0), row["job_id"],
        ),
    )  # fmt: skip


def totals(rows: Sequence[dict[str, Any]], name: str) -> list[Total]:
    """By user or queue, the most wasteful first."""
    by_name: dict[str | None, list[dict[str, Any]]] = {}
    for row in rows:
        by_name.setdefault(row[name], []).append(row)
    made = []
    for value, own in by_name.items():
        known = [row for row in own if row["wasted_gib_h"] is not None]
        held, wasted = (sum(row[column] for row in known) for column in ("held_gib_h", "wasted_gib_h"))
        made.append(Total(value, len(own), len(own) - len(known), held, wasted, sum(row["lost_h"] for row in own)))
    return sorted(made, key=lambda total: (-total.wasted_gib_h, -total.lost_h, total.name or ""))


def to_json(rows: Sequence[dict[str, Any]], top: int) -> dict[str, Any]:
    """The report: `top` jobs, users and queues."""
    return {
        "n_jobs": len(rows),
        "jobs": ranked(rows)[:top],
        "users": [asdict(total) for total in totals(rows, "user")[:top]],
        "queues": [asdict(total) for total in totals(rows, "queue")[:top]],
    }


def print_jobs(console: Console, rows: Sequence[dict[str, Any]], top: int) -> None:
    """As three tables."""
    if not rows:
        console.print("No job ended in this span; ingest histories with `clustercep ingest`, or choose another one.")
        return
    told = []
    for row in ranked(rows)[:top]:
        texts = [_text(row[name]) for name in ("job_id", "job_name", "user", "queue")]
        severity = "not known" if row["severity"] is None else row["severity"].lower()
        figures = (_number(row[name]) for name in ("wasted_gib_h", "held_gib_h", "lost_h"))
        told.append((*texts, severity, row["heuristics"] or "", *figures))
    print_table(console, _JOBS, told, title=f"{min(top, len(rows))} of {len(rows):,} jobs, the most wasteful first")
    for name in ("user", "queue"):
        sums = []
        for total in totals(rows, name)[:top]:
            counts = (f"{total.n_jobs:,}", f"{total.n_unknown:,}")
            figures = (_number(value) for value in (total.wasted_gib_h, total.held_gib_h, total.lost_h))
            sums.append((_text(total.name), *counts, *figures))
        columns = (Column(name, least=12), number("jobs"), number("of unknown memory", spare=1), *_FIGURES)
        print_table(console, columns, sums, title=f"by {name}")


def _judge_group(events: pa.Table) -> pa.Table:
    job_id = str(events.column("job_id")[0].as_py())
    has_end = pc.any(pc.equal(events.column("type"), "JobEnd")).as_py()
    return rows_table([row_of(job_id, events)] if has_end and is_job(job_id) else [])


def _span(ends: pa.Table) -> tuple[set[str], int, int]:
    ids, first_ms, last_ms = set[str](), 1 << 62, 0
    for row in ends.to_pylist():
        if is_job(row["job_id"]):
            ids.add(row["job_id"])
        period_ms = row.get("period_ms")
        first_ms = min(first_ms, row["t_lo_ms"] - (SLACK_MS if period_ms is None else period_ms))
        last_ms = max(last_ms, row["t_hi_ms"])
    return ids, first_ms - SLACK_MS, last_ms + SLACK_MS


def _text(value: object) -> str:
    return "unknown" if value is None else inert(value).replace("\n", " ")[:80]


def _number(value: float | None) -> str:
    return "not known" if value is None else f"{value:,.2f}"


__all__ = ["print_jobs", "ranked", "row_of", "rows_here", "rows_on_spark", "to_json", "totals"]
