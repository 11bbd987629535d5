"""The store: migrations agree with models, retention, filters, problems counted once."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import text, update

from app.errors import NotFoundError, StoreError
from app.settings import Retention
from app.store import Store, open_store, retention
from app.store.api import AlertFilter
from app.store.migrations.applying import differences
from app.store.models import NotificationRow
from app.store.schema import open_database
from app.store.writing.problems import NewProblem
from benchmarks.pages.store_pages import NOW_MS, make_store, plans
from tests.app.alerting.test_recorder import live
from tests.app.alerting_fixtures import FakeMatch


@pytest.fixture
def store(any_store: Store) -> Store:
    """Every test here holds on every kind of database."""
    return any_store


def test_migrations_and_models_agree(empty_url: str) -> None:
    engine = open_database(empty_url)
    assert differences(engine) == []
    engine.dispose()


def test_a_table_that_is_missing_is_found(empty_url: str) -> None:
    engine = open_database(empty_url)
    with engine.begin() as connection:
        connection.execute(text("DROP TABLE reports"))
    assert differences(engine)
    engine.dispose()


def test_sqlite_runs_in_wal(tmp_path: Path) -> None:
    engine = open_database(f"sqlite:///{tmp_path / 'x.db'}")
    with engine.connect() as connection:
        assert connection.execute(text("PRAGMA journal_mode")).scalar() == "wal"
        assert connection.execute(text("PRAGMA foreign_keys")).scalar() == 1
    engine.dispose()


def test_opening_twice_keeps_what_is_there(store_url: str) -> None:
    with open_store(store_url) as store:
        live(store, [FakeMatch(1, 2)], 0)
    with open_store(store_url) as store:
        assert store.n_alerts() == 1


def test_who_only_looks_makes_no_store(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'store' / 'store.db'}"
    with pytest.raises(StoreError, match=r"there is no database file .*start 'clustercep run'"):
        open_store(url, make=False)
    assert not (tmp_path / "store").exists()
    open_store(url).close()
    with open_store(url, make=False) as found:
        (tmp_path / "store" / "store.db").rename(tmp_path / "away.db")
        with pytest.raises(StoreError, match="is gone"):
            found.alerts()
    assert not (tmp_path / "store" / "store.db").exists()


def test_a_store_of_a_later_version_is_refused(empty_url: str) -> None:
    engine = open_database(empty_url)
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    engine.dispose()
    with pytest.raises(StoreError, match="another version"):
        open_store(empty_url)


@pytest.mark.parametrize(
    "url", ["nonsense", "oracle+nodriver://h/db", "postgresql+psycopg://u:p@h:99x/db", "sqlite:///x?timeout=soon"]
)
def test_bad_urls_are_explained(url: str) -> None:
    with pytest.raises(StoreError, match=r"store\.url"):
        open_store(url)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql+nodriver://user:hunter2@127.0.0.1/db",
        "postgresql+nodriver://127.0.0.1/db?user=ann&password=hunter2&password=hunter22",
        "postgresql+psycopg://127.0.0.1:1/db?sslpassword=hunter2",
        "postgresql+psycopg://127.0.0.1:99999/db?password=hunter2",
        "postgresql+psycopg://127.0.0.1/db?port=99x&password=hunter2",
        "sqlite:///127.0.0.1?timeout=hunter2",
    ],
)
def test_password_is_not_shown(url: str) -> None:
    with pytest.raises(StoreError, match=r"127\.0\.0\.1") as caught:
        open_store(url)
    assert "hunter2" not in str(caught.value)


def test_problems_are_one_row_each(store: Store) -> None:
    problem = NewProblem("job_history", "x.jhist:3", "truncated", "cut in the middle")
    with store.transaction() as writer:
        assert writer.problems.add([problem, problem], 10) == [problem]
    with store.transaction() as writer:
        assert writer.problems.add([problem], 20) == []
    (row,) = store.problems()
    assert (row.n_times, row.first_ms, row.last_ms) == (3, 10, 20)


def test_statistics_add_up(store: Store) -> None:
    for n in (3, 4):
        with store.transaction() as writer:
            writer.progress.add_statistics({("events", "yarn_rest", "Mapper"): n})
    assert [(s.name, s.source, s.type, s.value) for s in store.statistics()] == [("events", "yarn_rest", "Mapper", 7)]


def test_a_failing_transaction_leaves_nothing(store: Store) -> None:
    def fail() -> None:
        with store.transaction() as writer:
            writer.progress.add_statistics({("events", "s", "t"): 1})
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert store.statistics() == []


def test_filters(store: Store) -> None:
    live(store, [FakeMatch(10, 20), FakeMatch(100, 120)], 50)
    found = lambda **w: sorted(a.start_ms for a in store.alerts(AlertFilter(**w)))  # noqa: E731  # a table of cases reads best
    assert found() == [10, 100]
    assert found(states=("firing",)) == [100]
    assert found(from_ms=21) == [100]
    assert found(from_ms=20, to_ms=99) == [10]
    assert found(queries=("other",)) == []
    assert found(severities=("warning",), limit=1) == [100]
    assert store.n_alerts(AlertFilter(states=("resolved",))) == 1


def test_an_alert_is_found_by_a_beginning_of_its_id(store: Store) -> None:
    live(store, [FakeMatch(10, 20)], 0)
    (alert,) = store.alerts()
    assert store.alert(alert.id[:6]).alert.id == alert.id
    for wrong in ("ffff0000", "%", "____", ""):
        with pytest.raises(NotFoundError):
            store.alert(wrong)


def test_retention_spares_what_is_open_or_pending(store: Store) -> None:
    live(store, [FakeMatch(10, 20), FakeMatch(500, 510, query="slow")], 100, now_ms=1_000)
    live(store, [FakeMatch(1, 2, query="times")], 100, now_ms=1_000)
    retention = Retention.model_validate(
        dict.fromkeys(("alerts", "reports", "evidence", "notifications", "late_events", "problems"), "1 s")
    )
    with store.transaction() as writer:
        writer.apply_retention(retention, 2_000)
    assert (store.n_alerts(), len(store.reports())) == (2, 1)
    with store.transaction() as writer:
        assert writer.apply_retention(retention, 2_001)["alerts"] == 0  # its messages are pending
    assert [n.state for n in store.notifications("pending")] == ["firing", "resolved", "firing"]
    over = next(a for a in store.alerts() if a.start_ms == 10)
    for n in store.notifications("pending"):
        if n.alert_id == over.id:
            with store.transaction() as writer:
                assert writer.apply_retention(retention, 2_001)["alerts"] == 0
                key = n.idempotency_key
                writer.outbox.record_attempt(
                    key, "ops", status="delivered", error=None, next_attempt_ms=0, now_ms=1_500
                )
    with store.transaction() as writer:
        removed = writer.apply_retention(retention, 2_001)
    assert [a.start_ms for a in store.alerts()] == [500]
    assert store.reports() == []
    assert removed["alerts"] == 1
    assert [n.alert_id for n in store.notifications()] == [store.alerts()[0].id]
    assert len(store.alert(store.alerts()[0].id).evidence) == 3


def test_retention_keeps_pending_messages_but_drops_finished_ones(store: Store) -> None:
    live(store, [FakeMatch(10, 20)], 0, now_ms=1_000)
    retention = Retention.model_validate({"notifications": "1 s"})
    with store.transaction() as writer:
        writer.apply_retention(retention, 5_000)
    (pending,) = store.notifications()
    with store.transaction() as writer:
        writer.outbox.record_attempt(
            pending.idempotency_key, "ops", status="delivered", error=None, next_attempt_ms=0, now_ms=1_500
        )
        writer.apply_retention(retention, 5_000)
    assert [(n.state, n.status) for n in store.notifications()] == [("firing", "delivered")]  # the alert is open
    live(store, [], 100_000, now_ms=6_000)
    assert [n.state for n in store.notifications("pending")] == ["resolved"]  # so it is known who has to be told
    with store.transaction() as writer:
        writer.apply_retention(retention, 9_000)
    assert [n.state for n in store.notifications()] == ["resolved"]


def test_retention_goes_on_where_it_stopped(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "MAX_PER_CALL", 2)
    for start_ms in range(0, 700, 100):
        live(store, [FakeMatch(start_ms, start_ms + 1)], 10_000, now_ms=1_000 + start_ms // 300)
    (eighth,) = live(store, [FakeMatch(20_000, 20_001)], 10_000, now_ms=1_000).log[:1]
    settings = Retention.model_validate({"evidence": "1 s", "alerts": "1 day"})
    n_evidence = lambda: [len(store.alert(a.id).evidence) for a in store.alerts()]  # noqa: E731  # asked twice
    for _ in range(6):
        with store.transaction() as writer:
            writer.apply_retention(settings, 1_000 + 1_003)
    assert n_evidence() == [3, 0, 0, 0, 0, 0, 0, 0]
    with store.transaction() as writer:
        assert writer.apply_retention(settings, 3_000)["evidence"] == 0
    with store.transaction() as writer:
        writer.session.execute(update(NotificationRow).values(status="delivered"))
    for n_left in (6, 4, 2, 1, 1):
        with store.transaction() as writer:
            writer.apply_retention(Retention.model_validate({"alerts": "1 s"}), 9_000)
        assert store.n_alerts() == n_left
    assert store.alerts()[0].id == eighth.alert


def test_retention_finds_the_old_by_an_index(tmp_path: Path) -> None:
    path = tmp_path / "large.db"
    make_store(path, 500)
    with open_store(f"sqlite:///{path}") as large, large.transaction() as writer:
        found = plans(large.engine, lambda: writer.apply_retention(Retention(), NOW_MS))
        assert found
        walks = [plan for plan in found if "silences" not in plan]  # of which there are few
        assert [plan for plan in walks if not plan.startswith("SEARCH") or "TEMP B-TREE" in plan] == []
