"""Alerts of one stretch of time, copied by SQLite to those that follow it, with ids, times and jobs of their own.

So a million alerts take a minute to make: within a stretch they are drawn one by one, and weeks are alike.
"""

from __future__ import annotations

from sqlalchemy import Connection

JOBS_PER_STORE = 100_000
_TIMES = (
    "start_ms", "end_ms", "onset_ms", "raised_ms", "last_seen_ms", "created_ms", "updated_ms", "resolved_ms", "at_ms",
    "joined_ms", "t_lo_ms", "t_hi_ms", "finished_ms", "sequence",
)  # fmt: skip
_IDS = ("id", "alert_id", "incident_id", "idempotency_key")
_WITH_JOBS = ("key", "key_text", "job_id", "values", "summary", "attributes", "payload")
_OF_ALERTS = ("alerts", "alert_hosts", "alert_changes", "incident_members")
_OF_RECENT = ("evidence", "notifications")


def copy_weeks(connection: Connection, n_alerts: int, n_stretches: int, *, length_ms: int, n_recent: int) -> None:
    """Fill the stretches 1 to `n_stretches - 1` with what the tables hold, which is stretch 0, of `length_ms`; evidence
    and messages only in the last `n_recent` of these, and then no longer in the first.
    """
    per_stretch = _count(connection, "alerts")
    jobs = JOBS_PER_STORE * per_stretch // n_alerts
    connection.exec_driver_sql("CREATE TEMP TABLE model_number (alert_id TEXT PRIMARY KEY, old TEXT, number INTEGER)")
    connection.exec_driver_sql(
        "INSERT INTO model_number SELECT id, printf('1790000000000_%06d', n), n FROM "
        f"(SELECT id, (row_number() OVER (ORDER BY start_ms) - 1) * {JOBS_PER_STORE} / {n_alerts} AS n FROM alerts)"
    )
    of_recent = max(1, n_stretches - n_recent)  # the last stretch is not copied, and recent, too
    for tables, first in ((_OF_ALERTS, 1), (_OF_RECENT, of_recent)):
        for table in tables if first < n_stretches else ():
            _copy(connection, table, range(first, n_stretches), length_ms, jobs)
    for table in _OF_RECENT:
        connection.exec_driver_sql(f"DELETE FROM {table} WHERE alert_id IN (SELECT alert_id FROM model_number)")
    connection.exec_driver_sql("DROP TABLE model_number")


def _copy(connection: Connection, table: str, copies: range, length_ms: int, jobs: int) -> None:
    """One table, in one statement."""
    columns = [row[1] for row in connection.exec_driver_sql(f"PRAGMA table_info({table})")]
    automatic = {
        row[1] for row in connection.exec_driver_sql(f"PRAGMA table_info({table})") if row[2] == "INTEGER" and row[5]
    }
    columns = [name for name in columns if not (name == "id" and name in automatic)]
    key = "id" if table == "alerts" else "alert_id"
    values = ", ".join(_copied(name, length_ms, jobs) for name in columns)
    names = ", ".join(f'"{name}"' for name in columns)
    connection.exec_driver_sql(f"CREATE TEMP TABLE model AS SELECT * FROM {table}")
    numbers = f"VALUES ({copies.start}) UNION ALL SELECT k + 1 FROM copy WHERE k + 1 < {copies.stop}"
    connection.exec_driver_sql(
        f"WITH RECURSIVE copy(k) AS ({numbers}) "
        f"INSERT INTO {table} ({names}) SELECT {values} FROM copy CROSS JOIN model m JOIN model_number n "
        f"ON n.alert_id = m.{key} ORDER BY k, m.rowid"
    )
    connection.exec_driver_sql("DROP TABLE model")


def _copied(name: str, length_ms: int, jobs: int) -> str:
    """A column of copy `k` of the row `m`."""
    column = f'm."{name}"'
    if name in _TIMES:
        return f"{column} + k * {length_ms}"
    if name in _IDS:  # rotated, so that copies do not stand beside each other; two digits tell them apart
        turned = f"(substr({column}, 2 + k % 30) || substr({column}, 1, 1 + k % 30))"
        return f"substr({turned}, 1, 15) || printf('%02x', k) || substr({turned}, 18)"
    if name in _WITH_JOBS:
        return f"replace({column}, n.old, printf('1790000000000_%06d', n.number + k * {jobs}))"
    return column


def _count(connection: Connection, table: str) -> int:
    return int(connection.exec_driver_sql(f"SELECT count(*) FROM {table}").scalar_one())


__all__ = ["copy_weeks"]
