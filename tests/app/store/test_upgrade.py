"""A new version on the store of an old one: open alerts go on or end with the reason, and nobody is told twice.

The old store is that of migration 0007; its alerts have the ids, the hashes and the messages of the version before.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from alembic import command
from sqlalchemy import JSON, String, column, create_engine, insert, select, table, update

import engine
from app.alerting.dispatch.notice import group_payload, lone
from app.alerting.notices import Snapshot
from app.alerting.recording.episodes import alert_id
from app.store import Store, open_store
from app.store.api import AlertFilter
from app.store.migrations.applying import alembic_config
from collectors.schema import load_event_types
from tests.app.pipeline_fixtures import event
from tests.app.process.test_reload import T0_MS, Cluster
from tests.app.process.test_reload import cluster as cluster  # noqa: PLC0414  # a fixture
from tests.app.store.test_migrations import ALERT, at_revision

RECEIVER = "alerting: {receivers: {ops: {url: 'http://127.0.0.1:9/hook'}}}\n"
QUERY = """
PATTERN SEQ(JobStart a, Mapper+ b[]) WHERE skip_till_next_match { [job_id] AND b[b.len].period_ms > 5 }
WITHIN 1 minute RETURN a.job_id, a.user, b[b.len].task_id, b[b.len].period_ms
ALERT warning '{job_id}: {period_ms} ms' GROUP_GAP 1 second
"""
OVER_MS = 4_000
"""When all is over."""

STEP_MS = 50
"""Two steps from one task's end to the next."""


def mappers() -> list[tuple[int, dict[str, Any]]]:
    """A job whose tasks end every 100 ms for two seconds."""
    start = event("job", T0_MS, "JobStart", job_id="job_1_0001", user="ann")
    ends = [
        event(f"m{n}", T0_MS + 100 * n, "Mapper", job_id="job_1_0001", task_id=f"t{n % 2}", period_ms=6 + n)
        for n in range(1, 20)
    ]
    return [(row["t_lo_ms"] + 3, row) for row in (start, *ends)]


def started(make: Callable[..., Cluster], name: str, **queries: str) -> Cluster:
    """A process that tells `ops`."""
    found = make(name, **queries)
    found.scripts[0].rows[:] = mappers()
    found.configure(queries, RECEIVER)
    assert found.reload().ok
    return found


def made_old(running: Cluster, text: str) -> None:
    """Turn the store into one that the version before has written."""
    resolved = engine.resolve(engine.parse(text, "pair"), load_event_types(), name="pair")
    old_hash = hashlib.blake2b(engine.print_query(resolved.query).encode(), digest_size=16).hexdigest()
    database = create_engine(running.store.engine.url)
    with database.begin() as connection:
        command.downgrade(alembic_config(connection), "0007")
    alerts = table("alerts", *map(column, ("id", "query_hash", "query", "key_text", "start_ms")))
    with database.begin() as connection:
        connection.exec_driver_sql("PRAGMA defer_foreign_keys = ON")
        for row in connection.execute(select(alerts)).all():
            old_id = alert_id(row.query, row.key_text, row.start_ms, old_hash)
            connection.execute(update(alerts).where(alerts.c.id == row.id).values(id=old_id, query_hash=old_hash))
            for other in ("alert_changes", "evidence", "notifications"):
                of_alert = table(other, column("alert_id", String()))
                connection.execute(update(of_alert).where(of_alert.c.alert_id == row.id).values(alert_id=old_id))
        messages = table("notifications", column("alert_id", String()), column("payload", JSON()))
        for of_alert_id, payload in connection.execute(select(messages)).all():
            new_names = ("onset_ms", "raised_ms", "last_seen_ms", "labels", "hosts", "n_hosts_left_out", "spread")
            old = {name: value for name, value in payload.items() if name not in new_names} | {"alert_id": of_alert_id}
            connection.execute(update(messages).where(messages.c.alert_id == of_alert_id).values(payload=old))
    database.dispose()


def upgraded(running: Cluster, queries: dict[str, str]) -> None:
    """Start the new version with these queries."""
    running.configure(queries, RECEIVER)
    open_store(str(running.store.engine.url)).close()
    outcome = running.reload()
    assert (outcome.ok, outcome.problems) == (True, ())


def told(store: Store) -> Counter[tuple[str, str]]:
    return Counter((n.alert_id, n.state) for n in store.notifications())


def history(store: Store, alert: Any) -> list[str]:
    return [change.reason for change in store.alert(alert.id).changes]


@pytest.mark.parametrize(
    "now",
    [
        QUERY,
        QUERY.replace("{period_ms} ms", "{period_ms.last:duration}, {period_ms:duration} at worst")
        + "SHOW MAX period_ms ONSET b",
        QUERY.replace("period_ms > 5", "period_ms > 6"),
        QUERY.replace("warning", "critical"),
    ],
    ids=["the same", "another title", "another condition", "another severity"],
)
def test_open_alerts_are_taken_over(cluster: Callable[..., Cluster], now: str) -> None:
    running = started(cluster, "c", pair=QUERY)
    running.run(1_000, STEP_MS)
    (before,) = running.store.alerts()
    made_old(running, QUERY)
    upgraded(running, {"pair": now})
    running.run(OVER_MS, STEP_MS)
    (alert,) = running.store.alerts()
    assert (alert.state, alert.key, alert.start_ms) == ("resolved", {"job_id": "job_1_0001"}, T0_MS)
    assert alert.id != before.id  # that of the version before
    assert alert.last_seen_ms == alert.end_ms == T0_MS + 1_900
    assert alert.onset_ms == T0_MS  # as receivers were told, however the version at hand would have told it
    assert told(running.store) == {(alert.id, "firing"): 1, (alert.id, "resolved"): 1}
    firing, resolved = (
        group_payload(lone(Snapshot.from_json(n.payload)), "ops", "http://x")["alerts"][0]
        for n in running.store.notifications()
    )
    assert firing["labels"] == resolved["labels"]
    assert (firing["startsAt"], firing["fingerprint"]) == (resolved["startsAt"], resolved["fingerprint"])
    if "SHOW" in now:
        assert alert.summary == "job_1_0001: 25 ms, 25 ms at worst"


@pytest.mark.parametrize(
    ("now", "reason"),
    [
        (
            {"other": QUERY.replace("Mapper", "Reducer")},
            "its query no longer runs: it was removed, renamed or disabled",
        ),
        (
            {"pair": QUERY.replace("ALERT warning", "REPORT").replace("GROUP_GAP 1 second", "")},
            "its query was changed, and raises no alerts any more",
        ),
        (
            {"pair": QUERY.replace("GROUP_GAP", "PER task_id GROUP_GAP")},
            "its query was changed: alerts are now told apart by job_id, task_id",
        ),
    ],
    ids=["removed", "a report", "another key"],
)
def test_alerts_that_nothing_can_join_any_more_end_with_the_reason(
    cluster: Callable[..., Cluster], now: dict[str, str], reason: str
) -> None:
    running = started(cluster, "c", pair=QUERY)
    running.run(1_000, STEP_MS)
    made_old(running, QUERY)
    upgraded(running, now)
    running.run(1_020)
    (alert,) = (found for found in running.store.alerts() if set(found.key) == {"job_id"})
    assert (alert.state, alert.open) == ("resolved", False)
    assert history(running.store, alert) == ["first match", reason]
    running.run(OVER_MS, STEP_MS)
    assert set(told(running.store).values()) == {1}
    assert len({found.key_text for found in running.store.alerts()}) == len(running.store.alerts())


def test_a_reload_that_changes_the_severity_changes_no_label(cluster: Callable[..., Cluster]) -> None:
    running = started(cluster, "c", pair=QUERY)
    running.run(1_000, STEP_MS)
    running.configure({"pair": QUERY.replace("warning", "critical")}, RECEIVER)
    outcome = running.reload()
    assert outcome.notes == ("queries changed: pair",)
    running.run(OVER_MS, STEP_MS)
    (alert,) = running.store.alerts()
    firing, resolved = (Snapshot.from_json(n.payload) for n in running.store.notifications())
    assert firing.labels == resolved.labels
    assert firing.labels is not None
    assert firing.labels["severity"] == alert.severity == "warning"
    assert history(running.store, alert) == ["first match", "no match for longer than the gap"]


def test_old_alerts_have_the_hosts_that_they_named(empty_url: str) -> None:
    database = at_revision(empty_url, "0007")
    alerts = table("alerts", *map(column, [*ALERT, "id", "host"]), column("key", JSON()), column("values", JSON()))
    rows = [
        ({}, {"host": "node1", "source_host": "node5", "bytes": 7}, "node1"),
        ({"host": "node2"}, {}, "node2"),
        ({}, {"x": 1}, None),
    ]
    with database.begin() as connection:
        for i, (key, values, host) in enumerate(rows):
            given = {**ALERT, "id": f"{i:032x}", "key": key, "values": values, "host": host}
            connection.execute(insert(alerts), {**given, "created_ms": 9})
    database.dispose()
    with open_store(empty_url) as store:
        found = {alert.id[-1]: alert for alert in store.alerts()}
        assert {i: [(h.host, h.role) for h in alert.hosts] for i, alert in found.items()} == {
            "0": [("node5", "suspect"), ("node1", "affected")],
            "1": [("node2", "suspect")],
            "2": [],
        }
        assert {i: alert.host for i, alert in found.items()} == {"0": "node5", "1": "node2", "2": None}
        assert [a.id[-1] for a in store.alerts(AlertFilter(host="node1"))] == ["0"]
        assert {(a.onset_ms, a.raised_ms, a.last_seen_ms) for a in found.values()} == {(1, 9, 2)}
        assert found["0"].seen["told_hosts"] == [["node5", "suspect", None, None], ["node1", "affected", None, None]]
        assert found["1"].labels == {"alertname": "slow", "severity": "warning", "host": "node2"}
