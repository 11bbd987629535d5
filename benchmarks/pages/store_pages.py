"""Pages of a large store: how long their statements take at 1,000,000 alerts, and at 1,000 in the same run.

    CLUSTERCEP_BENCH_ALERTS=1000000    how many alerts the large store has

The store is made below build/benchmarks once, and used again while its size is right.
"""

from __future__ import annotations

import json
import random
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, event, insert

from app.store.api import AlertFilter, Cursor, Store, open_store
from app.store.models import (
    AlertChangeRow,
    AlertHostRow,
    AlertRow,
    Base,
    EvidenceRow,
    IncidentMemberRow,
    NotificationRow,
    ReportRow,
)
from app.store.schema import open_database
from app.store.subject import job_of
from benchmarks.measure import show, size
from benchmarks.workloads.copied_weeks import copy_weeks
from collectors.time_units import DAY_MS, HOUR_MS

NOW_MS = 1_790_000_000_000
YEAR_MS = 365 * DAY_MS
RECENT_MS = 30 * DAY_MS
N_OPEN = 300
_CHUNK = 5_000

QUERIES = (
    ("mapper-straggler-running", "warning", "task"),
    ("reducer-straggler-running", "warning", "task"),
    ("data-pull-straggler", "warning", "task"),
    ("load-imbalance-task", "warning", "task"),
    ("imbalance-window-task", "info", "task"),
    ("queued-data-high", "critical", "job"),
    ("job-slow", "info", "job"),
    ("node-lost", "critical", "host"),
    ("node-unhealthy", "warning", "host"),
    ("container-killed", "info", "host"),
    ("cpu-saturated", "warning", "host"),
    ("load-spread-rising", "info", "none"),
)
"""Name, severity, and what its alerts are about."""
INCIDENT = "several-signals-host"
BLOCK, N_BEHIND = 20, 6
"""Of so many alerts that follow each other the first is an incident, the next N_BEHIND stand behind it."""
STORM_SHARE = 500
"""One part in so many of all alerts stands behind a single incident, among the latest that are over."""
_WEIGHTS = tuple(accumulate(1 / (rank + 1) for rank in range(len(QUERIES))))

Row = dict[str, Any]


def make_store(path: Path, n_alerts: int) -> None:
    """Make an SQLite file with alerts over one year: few queries make most of them, most last minutes and a few days.

    The last N_OPEN are open. A twentieth are incidents, with three in ten alerts behind them. Every alert has its
    changes; those of the last 30 days have evidence and messages, too. Of a large store all but the first and the last
    stretch of _CHUNK are copies of the first (`copied_weeks`). The same content for the same number.
    """
    path.unlink(missing_ok=True)
    engine = open_database(f"sqlite:///{path}", durable=False)
    tables = {table.name: table for table in Base.metadata.sorted_tables}
    with engine.execution_options(writes=True).begin() as connection:
        large = [index for name in ("alerts", "notifications") for index in tables[name].indexes]
        for index in large:
            index.drop(connection)
        chosen = random.Random(n_alerts)
        copied = n_alerts - _CHUNK if n_alerts > 2 * _CHUNK and n_alerts % _CHUNK == 0 else 0
        for start in [0, copied] if copied else range(0, n_alerts, _CHUNK):
            numbers = range(start, min(start + _CHUNK, n_alerts))
            alerts = [_alert(chosen, i, n_alerts) for i in numbers]
            behind = _with_incidents(alerts, numbers, _storm_of(n_alerts))
            is_model = start == 0 and copied
            _insert(
                connection, alerts, alerts if is_model else [a for a in alerts if a["start_ms"] > NOW_MS - RECENT_MS]
            )
            if behind:
                connection.execute(insert(IncidentMemberRow), behind)
            if is_model:
                length_ms = YEAR_MS * _CHUNK // n_alerts
                copy_weeks(connection, n_alerts, copied // _CHUNK, length_ms=length_ms, n_recent=RECENT_MS // length_ms)
        connection.execute(insert(ReportRow), [_report(chosen, i) for i in range(max(1, n_alerts // 20))])
        for index in large:
            index.create(connection)
    engine.dispose()


def _alert(chosen: random.Random, i: int, n_alerts: int) -> Row:
    query, severity, about = chosen.choices(QUERIES, cum_weights=_WEIGHTS)[0]
    start_ms = NOW_MS - YEAR_MS + YEAR_MS * i // n_alerts + chosen.randrange(1_000)
    length_ms = min(int(chosen.lognormvariate(11.5, 1.5)), 3 * DAY_MS)
    job, host = f"job_1790000000000_{i * 100_000 // n_alerts:06d}", f"node{int(chosen.paretovariate(0.7)) % 200}"
    key: Row = {}
    if about == "task":
        key = {"task_id": f"task_{job[4:]}_m_{chosen.randrange(5_000):06d}"}
    elif about != "none":
        key = {"job_id": job} if about == "job" else {"host": host}
    values = {**key, "period_ms": length_ms, **({"host": host} if about == "task" else {})}
    is_open = n_alerts - i <= min(N_OPEN, n_alerts // 3)
    state = chosen.choice(("firing", "firing", "acknowledged")) if is_open else "resolved"
    return {
        "id": f"{chosen.getrandbits(128):032x}",
        "query": query,
        "query_hash": "h" * 32,
        "key": key,
        "key_text": json.dumps(key, sort_keys=True, separators=(",", ":")),
        "job_id": job_of(key, values),
        "host": values.get("host"),
        "severity": severity,
        "state": state,
        "silenced": is_open and chosen.random() < 0.25,
        "open": is_open,
        "start_ms": start_ms,
        "end_ms": start_ms + length_ms,
        "group_gap_ms": 60_000,
        "revision": 1 if is_open else 2,
        "n_matches": chosen.randrange(1, 10_000),
        "n_matches_exact": True,
        "best_confidence": 1.0 - chosen.random() / 10,
        "values": values,
        "summary": f"{query} of {job} on {host}: {length_ms} ms, four times the average of the tasks before it",
        "runbook": "Look at the task's log and at the disks of its host. " * 4,
        "best_n_events": 3,
        "lane": "live",
        "merged_into": f"{i:032x}" if chosen.random() < 0.01 else None,
        "inhibited": False,
        "is_incident": False,
        "incident_id": None,
        "created_ms": start_ms + length_ms,
        "updated_ms": start_ms + length_ms + 60_000,
        "resolved_ms": None if is_open else start_ms + length_ms + 60_000,
    }


def _storm_of(n_alerts: int) -> range:
    """The numbers of an incident and of the many alerts behind it: a block's beginning, so that none is in two."""
    n_behind = n_alerts // STORM_SHARE
    first = max(0, n_alerts - N_OPEN - n_behind - BLOCK) // BLOCK * BLOCK
    return range(first, first + 1 + n_behind)


def _with_incidents(alerts: list[Row], numbers: range, storm: range) -> list[Row]:
    """Make some of the alerts incidents, and others part of them; returns who is behind which."""
    behind: list[Row] = []
    incident: Row | None = None
    for number, alert in zip(numbers, alerts, strict=True):
        place = number - storm.start if number in storm else number % BLOCK
        if place == 0:
            host = alert["host"] or f"node{number % 200}"
            key = {"host": host}
            alert |= {"query": INCIDENT, "key": key, "key_text": json.dumps(key, separators=(",", ":"))}
            alert |= {"is_incident": True, "host": host, "values": {**key, "suspect": host}, "merged_into": None}
            incident = alert
        elif incident is not None and (number in storm or place <= N_BEHIND):
            alert |= {"incident_id": incident["id"], "inhibited": incident["open"] and alert["open"]}
            behind.append({"incident_id": incident["id"], "alert_id": alert["id"], "covered": True})
            behind[-1]["joined_ms"] = alert["created_ms"]
    return behind


def _insert(connection: Connection, alerts: list[Row], recent: list[Row]) -> None:
    connection.execute(insert(AlertRow), alerts)
    if hosts := [_host(alert) for alert in alerts if alert["host"] is not None]:
        connection.execute(insert(AlertHostRow), hosts)
    changes = [
        _change(alert, revision, states)
        for alert in alerts
        for revision, states in enumerate([(None, "firing"), ("firing", alert["state"])][: alert["revision"]], 1)
    ]
    connection.execute(insert(AlertChangeRow), changes)
    evidence = [_evidence(alert, position) for alert in recent for position in range(3)]
    messages = [_message(alert, number) for number, alert in enumerate(recent)]
    for table, rows in ((EvidenceRow, evidence), (NotificationRow, messages)):
        if rows:
            connection.execute(insert(table), rows)


def _host(alert: Row) -> Row:
    place: Row = {"alert_id": alert["id"], "position": 0, "start_ms": alert["start_ms"]}
    return {**place, "host": alert["host"], "role": "suspect", "value_name": None, "value": None}


def _change(alert: Row, revision: int, states: tuple[str | None, str]) -> Row:
    row: Row = {"alert_id": alert["id"], "revision": revision, "from_state": states[0], "to_state": states[1]}
    return {**row, "at_ms": alert["created_ms"], "reason": "first match", "actor": "clustercep"}


def _evidence(alert: Row, position: int) -> Row:
    row: Row = {"alert_id": alert["id"], "position": position, "variable": "b", "event_id": f"{position:032x}"}
    times: Row = {"type": "Mapper", "t_lo_ms": alert["start_ms"], "t_hi_ms": alert["start_ms"]}
    return {**row, **times, "attributes": alert["values"], "origin": "x.jhist:3", "raw": "a line of a log " * 8}


def _message(alert: Row, number: int) -> Row:
    row: Row = {"idempotency_key": alert["id"], "receiver": "ops", "sequence": alert["start_ms"] + number}
    status = "failed" if number % 1_000 == 7 else "delivered"
    payload = {"summary": alert["summary"]}
    row |= {"alert_id": alert["id"], "state": "firing", "revision": 1, "payload": payload, "status": status}
    times: Row = {"next_attempt_ms": 0, "created_ms": alert["created_ms"], "finished_ms": alert["created_ms"]}
    return {**row, **times, "n_attempts": 1, "last_error": None if status == "delivered" else "refused"}


def _report(chosen: random.Random, i: int) -> Row:
    start_ms = NOW_MS - chosen.randrange(YEAR_MS)
    row: Row = {
        "id": f"{i:032x}",
        "query": f"report-{i % 3}",
        "query_hash": "h",
        "key": {},
        "key_text": "{}",
        "lane": "live",
    }
    row |= {"start_ms": start_ms, "end_ms": start_ms + chosen.randrange(HOUR_MS), "values": {}, "summary": "a job"}
    return {**row, "confidence": 1.0, "n_matches": 1, "n_matches_exact": True, "created_ms": start_ms}


# ---------------------------------------------------------------------- what pages do


def pages(store: Store) -> dict[str, Callable[[], object]]:
    """What the dashboard's pages ask, by name."""
    deepest = _cursor_at(store, NOW_MS - YEAR_MS + YEAR_MS // 100)
    middle = _cursor_at(store, NOW_MS - YEAR_MS // 2)
    some = store.alert_page(AlertFilter(limit=1), after=middle).alerts[0]
    with_job = next(a for a in store.alert_page(AlertFilter(limit=500), after=middle).alerts if a.job_id)
    with_host = next(a for a in store.alert_page(AlertFilter(limit=500), after=middle).alerts if a.host)
    day: Row = {"from_ms": NOW_MS - YEAR_MS // 2, "to_ms": NOW_MS - YEAR_MS // 2 + DAY_MS}
    minute: Row = {"from_ms": NOW_MS - YEAR_MS // 2, "to_ms": NOW_MS - YEAR_MS // 2 + 60_000}
    rare, common = QUERIES[-1][0], QUERIES[0][0]

    def page(after: Cursor | None = None, before: Cursor | None = None, **wanted: Any) -> Callable[[], object]:
        return lambda: store.alert_page(AlertFilter(**wanted), after=after, before=before)

    def count(**wanted: Any) -> Callable[[], object]:
        return lambda: store.count_alerts(AlertFilter(**wanted))

    return {
        "first page": page(),
        "first page, without merged": page(merged=False),
        "page in the middle": page(after=middle),
        "last pages": page(after=deepest),
        "page before a place": page(before=middle),
        "open (2 states)": page(states=("firing", "acknowledged")),
        "silenced": page(states=("silenced",)),
        "silenced ones to look at": lambda: _silenced(store),
        "firing, critical": page(states=("firing",), severities=("critical",)),
        "resolved, deep": page(states=("resolved",), after=deepest),
        "severity, deep": page(severities=("critical",), after=deepest),
        "two severities, deep": page(severities=("critical", "info"), after=deepest),
        "query, deep": page(queries=(common,), after=deepest),
        "query and another severity": page(queries=(common,), severities=("critical",)),
        "three queries, deep": page(queries=(common, rare, QUERIES[5][0]), after=deepest),
        "query, one day": page(queries=(rare,), **day),
        "job": page(job_id=with_job.job_id),
        "counts of a page's jobs": lambda: store.counts_of_jobs([str(with_job.job_id)]),
        "host, deep": page(host=with_host.host, after=deepest),
        "host and query": page(host=with_host.host, queries=(rare,)),
        "host and severity": page(host=with_host.host, severities=("critical",)),
        "one minute": page(**minute),
        "one day": page(**day),
        "one day, deep in it": page(after=_cursor_at(store, day["from_ms"] + 1_000), **day),
        "count of all": count(),
        "count of one severity": count(severities=("critical",)),
        "count, without merged": count(merged=False),
        "count of one day": count(**day),
        "one alert": lambda: store.alert(some.id),
        "one alert by a beginning": lambda: store.alert(some.id[:10]),
        "names of queries": store.query_names,
        "open by state": store.n_open_alerts,
        "notifications by status": store.n_notifications,
        "failed notifications": lambda: store.failed_notifications(100),
        "problems": lambda: store.problems(100),
        "late events": lambda: store.late_events(100),
        "reports of one day": lambda: store.reports(**day),
    }


def _silenced(store: Store) -> object:
    with store.transaction() as writer:
        return writer.alerts.concerned_by_silences(open_too=False, at_most=1_000)


def _cursor_at(store: Store, time_ms: int) -> Cursor:
    """The alert that begins last before a time."""
    alert = store.alert_page(AlertFilter(to_ms=time_ms, limit=1)).alerts[0]
    return Cursor(alert.start_ms, alert.id)


@contextmanager
def recorded(engine: Engine) -> Iterator[list[tuple[str, Any]]]:
    """The statements (text, parameters) that are run meanwhile."""
    statements: list[tuple[str, Any]] = []

    def record(_connection: object, _cursor: object, text: str, parameters: Any, *_: object) -> None:
        statements.append((text, parameters))

    event.listen(engine, "before_cursor_execute", record)
    try:
        yield statements
    finally:
        event.remove(engine, "before_cursor_execute", record)


def plans(engine: Engine, work: Callable[[], object]) -> list[str]:
    """How SQLite evaluates the queries of `work`: one line per part, each plan once."""
    with recorded(engine) as statements:
        work()
    found: dict[str, None] = {}
    with engine.connect() as connection:
        for text, parameters in statements:
            if text.lstrip().upper().startswith(("SELECT", "WITH")):
                rows = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {text}", parameters).all()
                found["; ".join(row[3] for row in rows)] = None
    return list(found)


def measured_ms(work: Callable[[], object], repeats: int) -> tuple[float, float]:
    """(Median, 99th percentile) of `repeats` runs after one that is not counted."""
    work()
    taken = []
    for _ in range(repeats):
        started = time.perf_counter()
        work()
        taken.append((time.perf_counter() - started) * 1000)
    return statistics.median(taken), statistics.quantiles(taken, n=100, method="inclusive")[98]


def large_store(n_alerts: int, folder: Path = Path("build/benchmarks")) -> Path:
    """A store of so many alerts below `folder`, made when it is not there."""
    path = folder / f"store-{n_alerts}.db"
    if path.is_file():
        with open_store(f"sqlite:///{path}", durable=False) as store:
            if store.count_alerts(at_most=n_alerts) == (n_alerts, True):
                return path
    folder.mkdir(parents=True, exist_ok=True)
    started = time.perf_counter()
    make_store(path, n_alerts)
    print(
        f"{path}: {n_alerts:,} alerts, {path.stat().st_size / 2**20:,.0f} MiB, in {time.perf_counter() - started:.0f} s"
    )
    return path


def main() -> dict[str, object]:
    """Measure."""
    n_alerts, repeats = size("ALERTS", 1_000_000), size("REPEATS", 50)
    figures: dict[str, dict[str, float]] = {}
    shown: dict[str, list[str]] = {}
    for n in (1_000, n_alerts):
        url = f"sqlite:///{large_store(n)}"
        with open_store(url, durable=False) as store:
            for name, work in pages(store).items():
                median, worst = measured_ms(work, repeats)
                figures.setdefault(name, {})[f"{n}_median_ms"] = median
                figures[name][f"{n}_p99_ms"] = worst
            if n == n_alerts:
                shown = {name: plans(store.engine, work) for name, work in pages(store).items()}
    columns = ("page", "1,000: median ms", "99 %", f"{n_alerts:,}: median ms", "99 %")
    show("statements of the pages", columns, [(name, *values.values()) for name, values in figures.items()])
    for name, lines in shown.items():
        print(name)
        for line in lines:
            print(f"    {line}")
    return {"n_alerts": n_alerts, "pages": figures, "plans": shown}


if __name__ == "__main__":
    main()
