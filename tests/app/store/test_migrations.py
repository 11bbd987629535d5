"""Stores of earlier versions: what migrations make of their content."""

from __future__ import annotations

from typing import Any

from alembic import command
from sqlalchemy import JSON, Engine, column, create_engine, insert, table, text

from app.alerting.payload import fingerprint
from app.store import open_store
from app.store.migrations.applying import alembic_config, differences

ALERT = {
    **{"query": "slow", "query_hash": "h", "key_text": "{}", "severity": "warning", "state": "firing", "open": True},
    **{"start_ms": 1, "end_ms": 2, "group_gap_ms": 0, "revision": 1, "n_matches": 1, "n_matches_exact": True},
    **{"best_confidence": 1.0, "summary": "s", "runbook": "", "best_n_events": 1, "lane": "live"},
    **{"created_ms": 1, "updated_ms": 1},
}
SUBJECTS: list[tuple[dict[str, Any], dict[str, Any], str | None, str | None]] = [
    ({"task_id": "task_17_0002_r_000003"}, {"host": "node1"}, "job_17_0002", "node1"),
    ({"job_id": "job_5_1"}, {"task_id": "task_17_0002_r_000003"}, "job_5_1", None),
    ({}, {"attempt_id": "attempt_17_0004_m_000003_0", "source_host": "node3"}, "job_17_0004", "node3"),
    ({"application_id": "application_17_0009", "host": "a"}, {"source_host": "b"}, "job_17_0009", "a"),
    ({"container_id": "container_e17_99_0001_01_000005"}, {}, "job_99_0001", None),
    ({"task_id": "task of somebody"}, {"host": 7}, None, None),
    ({"job_id": "x" * 3_000, "host": "\u202e" * 3_000}, {}, "x" * 254 + "…", "\u202e" * 254 + "…"),
]


def at_revision(url: str, revision: str) -> Engine:
    engine = create_engine(url)
    with engine.begin() as connection:
        command.upgrade(alembic_config(connection), revision)
    return engine


def test_a_store_of_the_first_version_is_migrated_with_its_content(empty_url: str) -> None:
    engine = at_revision(empty_url, "0001")
    names = [*ALERT, "id"]
    alerts = table("alerts", *map(column, names), column("key", JSON()), column("values", JSON()))
    rows = [
        {**ALERT, "id": f"{i:032x}", "key": key, "values": values} for i, (key, values, _, _) in enumerate(SUBJECTS)
    ]
    with engine.begin() as connection:
        connection.execute(insert(alerts), rows)
        connection.execute(
            text("INSERT INTO checkpoints VALUES ('live', 7, 'checkpoint-000000000007.arrow', 'd', 1, 1000)")
        )
    engine.dispose()
    with open_store(empty_url) as store:
        assert differences(store.engine) == []
        found = {alert.id: (alert.job_id, alert.host) for alert in store.alerts()}
        assert found == {f"{i:032x}": (job, host) for i, (_, _, job, host) in enumerate(SUBJECTS)}
        ((epoch, number),) = store.event_log_positions().items()
        assert (len(epoch), number) == (16, 7)


def test_alerts_of_earlier_versions_are_as_sure_as_their_best_match(empty_url: str) -> None:
    engine = at_revision(empty_url, "0006")
    names = [*ALERT, "id"]
    alerts = table("alerts", *map(column, names), column("key", JSON()), column("values", JSON()))
    rows = [(1.0, 3, True), (0.5, 1, True), (0.5, 1, False), (0.5, 2, True)]
    with engine.begin() as connection:
        for i, (confidence, n_matches, is_exact) in enumerate(rows):
            values = {"best_confidence": confidence, "n_matches": n_matches, "n_matches_exact": is_exact}
            connection.execute(insert(alerts), {**ALERT, **values, "id": f"{i:032x}", "key": {}, "values": {}})
    engine.dispose()
    with open_store(empty_url) as store:
        found = sorted(store.alerts(), key=lambda alert: alert.id)
        assert [(a.at_least_one_lower, a.at_least_one_upper, a.at_least_one_method) for a in found] == [
            (1.0, 1.0, "certain"),
            (0.5, 0.5, "exact"),
            (0.5, 1.0, "bounds"),
            (0.5, 1.0, "bounds"),
        ]


def test_messages_of_earlier_versions_are_delivered_in_order_by_their_labels(empty_url: str) -> None:
    engine = at_revision(empty_url, "0009")
    of_alert = ["id", "raised_ms", "last_seen_ms", *ALERT]
    alerts = table("alerts", *map(column, of_alert), *(column(n, JSON()) for n in ("key", "values", "seen", "labels")))
    of_message = ("idempotency_key", "receiver", "sequence", "alert_id", "state", "status", "next_attempt_ms")
    messages = table(
        "notifications",
        *map(column, (*of_message, "revision", "n_attempts", "created_ms")),
        column("payload", JSON()),
    )
    labels = {"alertname": "slow", "severity": "warning", "task_id": "t1"}
    rows = [  # alerts a and b have the same labels
        ("k1", "ops", 1, "a", "firing", "pending"),  # sent again although something later was given up
        ("k2", "ops", 2, "b", "resolved", "failed"),
        ("k3", "ops", 3, "a", "firing", "pending"),
        ("k4", "ops", 4, "b", "resolved", "pending"),
        ("k5", "ops", 5, "c", "firing", "pending"),
        ("k2", "chat", 6, "b", "resolved", "delivered"),
    ]
    with engine.begin() as connection:
        for name, of in (("a", labels), ("b", labels), ("c", {})):
            values = {"id": name, "raised_ms": 1, "last_seen_ms": 2, "key": {}, "values": {}, "seen": {}, "labels": of}
            connection.execute(insert(alerts), {**ALERT, **values})
        for row in rows:
            values = {"revision": 1, "n_attempts": 3, "created_ms": 1, "payload": {}}
            connection.execute(insert(messages), {**dict(zip(of_message, (*row, 77), strict=True)), **values})
    engine.dispose()
    with open_store(empty_url) as store:
        assert differences(store.engine) == []
        found = {(m.idempotency_key, m.receiver): m for m in store.notifications()}
        by_labels = {m.alert_id: m.fingerprint for m in found.values()}
        assert by_labels == {"a": fingerprint(labels), "b": fingerprint(labels), "c": "c"}
        assert found["k1", "ops"].status == "overtaken"
        assert [m.idempotency_key for m in store.notifications("pending")] == ["k3", "k4", "k5"]
        assert {m.tried_since_ms for m in found.values()} == {None}
        told = []
        while (due := store.due_notification("ops", 100, 300_000)) is not None:
            told.append(due.idempotency_key)
            with store.transaction() as writer:
                writer.outbox.record_attempt(
                    told[-1], "ops", status="delivered", error=None, next_attempt_ms=0, now_ms=100
                )
        assert told == ["k3", "k4", "k5"]
        assert store.receiver_status() == []


def test_migrations_can_be_taken_back(empty_url: str) -> None:
    open_store(empty_url).close()
    engine = create_engine(empty_url)
    with engine.begin() as connection:
        command.downgrade(alembic_config(connection), "0001")
    with engine.begin() as connection:
        command.upgrade(alembic_config(connection), "head")
    assert differences(engine) == []
    engine.dispose()


def test_opening_a_current_store_waits_for_no_writer(empty_url: str) -> None:
    with open_store(empty_url) as store, store.transaction(), open_store(empty_url) as other:
        assert other.alerts() == []
