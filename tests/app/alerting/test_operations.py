"""What a person does to alerts, and what the next step makes of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.alerting.lifecycle import state_text
from app.alerting.operations import MAX_NOTE_CHARS, MAX_SILENCE_MS, acknowledge, end_silence, silence
from app.alerting.people import Person
from app.errors import AppError, NotFoundError
from app.store import Store, open_store
from app.store.api import AlertFilter
from app.store.models import NotificationRow
from app.store.outbox import SentAgain
from benchmarks.pages.store_pages import make_store, plans
from tests.app.alerting.test_recorder import live
from tests.app.alerting_fixtures import FakeMatch


def firing(store: Store, task: str = "t1") -> str:
    """One alert that fires and stays open at watermark 0."""
    live(store, [FakeMatch(10, 20, key=(("task_id", task),))], 0)
    return next(alert.id for alert in store.alerts() if alert.key["task_id"] == task)


def state(store: Store, alert: str) -> str:
    row = store.alert(alert).alert
    return state_text(row.state, row.silenced)


def test_an_acknowledgement_keeps_who_and_why(store: Store) -> None:
    alert = firing(store)
    acknowledge(store, alert[:6], Person("alice"), "on it", 2_000)
    change = store.alert(alert).changes[-1]
    assert (change.from_state, change.to_state, change.actor, change.reason, change.at_ms) == (
        "firing",
        "acknowledged",
        "alice",
        "on it",
        2_000,
    )


def test_what_is_over_cannot_be_acknowledged(store: Store) -> None:
    alert = firing(store)
    live(store, [], 1_000)
    with pytest.raises(AppError, match="it is resolved; only firing alerts"):
        acknowledge(store, alert, Person("alice"), "", 2_000)
    with pytest.raises(NotFoundError):
        acknowledge(store, "ffffffff", Person("alice"), "", 2_000)


def test_hostile_notes_are_kept_as_text_and_cut(any_store: Store) -> None:
    store = any_store
    alert = firing(store)
    acknowledge(store, alert, Person("<b>\x00"), "x" * 10_000, 2_000)
    change = store.alert(alert).changes[-1]
    assert change.actor == "<b>\\x00"
    assert len(change.reason) == MAX_NOTE_CHARS


@pytest.mark.parametrize("duration_ms", [0, -1, MAX_SILENCE_MS + 1])
def test_a_silence_lasts_some_time(store: Store, duration_ms: int) -> None:
    with pytest.raises(AppError, match="expected more than nothing"):
        silence(store, firing(store), duration_ms, Person("alice"), "", 2_000)
    assert store.silences(0) == []


def test_a_silence_is_of_one_key_or_of_all(store: Store) -> None:
    one, other = firing(store, "t1"), firing(store, "t2")
    assert silence(store, one, 1_000, Person("alice"), "known", 2_000) == 1
    assert (state(store, one), state(store, other)) == ("firing, silenced", "firing")
    assert silence(store, one, 1_000, Person("alice"), "known", 2_000, every_key=True) == 1
    assert state(store, other) == "firing, silenced"


def test_a_silence_that_is_ended_no_longer_covers_its_alerts_with_the_next_step(store: Store) -> None:
    alert = firing(store)
    silence(store, alert, 50_000, Person("alice"), "known", 2_000)
    (row,) = store.silences(2_000)
    assert end_silence(store, row.id, Person("bob"), 3_000) == 1
    assert store.silences(3_000) == []
    assert state(store, alert) == "firing, silenced"
    live(store, [], 0, now_ms=3_001)
    last = store.alert(alert).changes[-1]
    assert (last.to_state, last.reason, last.actor) == ("firing", "the silence was ended", "bob")
    changes = [state_text(c.to_state, c.silenced) for c in store.alert(alert).changes]
    assert changes == ["firing", "firing, silenced", "firing"]


def test_a_silence_that_expires_has_no_one_who_ended_it(store: Store) -> None:
    alert = firing(store)
    silence(store, alert, 500, Person("alice"), "known", 2_000)
    live(store, [], 0, now_ms=2_500)
    last = store.alert(alert).changes[-1]
    assert (last.reason, last.actor) == ("the silence ended", "clustercep")


def test_another_silence_goes_on(store: Store) -> None:
    alert = firing(store)
    silence(store, alert, 50_000, Person("alice"), "known", 2_000)
    silence(store, alert, 50_000, Person("alice"), "all", 2_000, every_key=True)
    first, _ = store.silences(2_000)
    assert end_silence(store, first.id, Person("bob"), 3_000) == 0
    live(store, [], 0, now_ms=3_001)
    assert state(store, alert) == "firing, silenced"


def test_only_a_silence_that_holds_can_be_ended(store: Store) -> None:
    alert = firing(store)
    silence(store, alert, 500, Person("alice"), "", 2_000)
    (row,) = store.silences(2_000)
    for wrong in (row.id, row.id + 1):
        with pytest.raises(NotFoundError, match="holds"):
            end_silence(store, wrong, Person("bob"), 2_500)


def test_only_failed_messages_are_sent_again_under_their_key(any_store: Store) -> None:
    store = any_store
    firing(store)
    (message,) = store.notifications()
    key = message.idempotency_key
    with store.transaction() as writer:
        assert writer.outbox.send_again(now_ms=5, actor="mia") == SentAgain(0, 0)  # it is pending
        writer.outbox.record_attempt(key, "ops", status="failed", error="refused", next_attempt_ms=0, now_ms=5)
    assert [n.idempotency_key for n in store.failed_notifications()] == [key]
    assert store.n_notifications() == {("ops", "failed"): 1}
    with store.transaction() as writer:
        assert writer.outbox.send_again("other", now_ms=6, actor="mia") == SentAgain(0, 0)
        assert writer.outbox.send_again("ops", ["no such key"], now_ms=6, actor="mia") == SentAgain(0, 0)
        assert writer.outbox.send_again("ops", [key], now_ms=6, actor="mia") == SentAgain(1, 0)
    (again,) = store.notifications("pending")
    assert (again.idempotency_key, again.n_attempts, again.finished_ms, again.next_attempt_ms) == (key, 0, None, 6)
    assert again.last_error == "refused"


def test_what_a_later_message_has_overtaken_is_not_sent_again(any_store: Store) -> None:
    store = any_store
    firing(store)
    live(store, [], 1_000)
    firing(store, "t2")
    live(store, [], 1_000)

    def attempted(status: str, *messages: NotificationRow) -> None:
        with store.transaction() as writer:
            for n in messages:
                key = n.idempotency_key
                writer.outbox.record_attempt(key, n.receiver, status=status, error=None, next_attempt_ms=0, now_ms=5)

    first, first_over, second, second_over = store.notifications()
    assert [n.state for n in (first, first_over, second, second_over)] == ["firing", "resolved"] * 2
    attempted("failed", first, second, second_over)
    attempted("delivered", first_over)
    for receiver, keys, expected in (
        (None, [], SentAgain(1, 2)),
        ("ops", [], SentAgain(1, 2)),
        ("ops", [first.idempotency_key], SentAgain(0, 1)),
        ("ops", [second.idempotency_key, second_over.idempotency_key], SentAgain(1, 1)),
        ("other", [], SentAgain(0, 0)),
    ):
        assert store.n_to_send_again(receiver, keys) == expected
    with store.transaction() as writer:
        assert writer.outbox.send_again(now_ms=6, actor="mia") == SentAgain(1, 2)
    # That it is over was given up, and may have come all the same: to say now that it fires would be wrong.
    left = [second.idempotency_key, first.idempotency_key]
    assert [n.idempotency_key for n in store.failed_notifications()] == left
    assert [n.idempotency_key for n in store.notifications("pending")] == [second_over.idempotency_key]


def test_overtaking_messages_are_looked_for_by_their_labels(tmp_path: Path) -> None:
    make_store(tmp_path / "store.db", 100)
    with open_store(f"sqlite:///{tmp_path / 'store.db'}") as large, large.transaction() as writer:
        found = plans(large.engine, lambda: writer.outbox.send_again(now_ms=1, actor="mia"))
    looked = [plan for plan in found if "SUBQUERY" in plan]
    assert looked
    by_labels = "ix_notifications_fingerprint (receiver=? AND fingerprint=? AND status=? AND sequence>?)"
    assert all(f"notifications_1 USING INDEX {by_labels}" in plan for plan in looked)


def test_what_was_delivered_to_others_or_before_overtakes_nothing(any_store: Store) -> None:
    store = any_store
    firing(store)
    live(store, [], 1_000)
    fired, over = store.notifications()
    with store.transaction() as writer:
        fields = {c.key: getattr(over, c.key) for c in NotificationRow.__table__.columns}
        writer.outbox.add({**fields, "receiver": "other", "status": "delivered"})
        for n, status in ((fired, "delivered"), (over, "failed")):
            key = n.idempotency_key
            writer.outbox.record_attempt(key, "ops", status=status, error=None, next_attempt_ms=0, now_ms=5)
    assert store.n_to_send_again() == SentAgain(1, 0)
    with store.transaction() as writer:
        writer.outbox.record_attempt(
            fired.idempotency_key, "ops", status="failed", error=None, next_attempt_ms=0, now_ms=5
        )
    assert store.n_to_send_again() == SentAgain(1, 1)  # the other receiver's message is no reason


def test_job_and_host_of_an_alert(store: Store) -> None:
    def values(**named: str) -> FakeMatch:
        return FakeMatch(10, 20, key=tuple(named.items()), values={"source_host": "node9"})

    live(store, [values(task_id="task_1_0002_m_000003"), values(job_id="job_7_1", host="node1"), values(x="1")], 0)
    assert sorted((a.job_id or "", a.host) for a in store.alerts()) == [
        ("", "node9"),
        ("job_1_0002", "node9"),
        ("job_7_1", "node1"),
    ]
    assert [a.host for a in store.alerts(AlertFilter(job_id="job_7_1"))] == ["node1"]
    assert len(store.alerts(AlertFilter(host="node9"))) == 3  # in any role
