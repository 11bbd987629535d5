"""Alerts with the same labels are one to a receiver that goes by labels: what it believes is what holds."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.alerting.dispatch.notice import group_payload, lone
from app.alerting.lifecycle import State
from app.alerting.notices import Snapshot
from app.alerting.payload import fingerprint as of_labels
from app.alerting.recording.options import AlertingOptions
from app.alerting.recording.recorder import Recorder
from app.store import Store
from app.store.models import AlertRow, NotificationRow, SilenceRow
from tests.app.alerting_fixtures import FakeMatch, hide, kept, options, receiver
from tests.app.silences import silencing_of
from tests.examples import examples

OPTIONS = options(ops=receiver())


class KilledError(Exception):
    """The process is gone before its transaction is committed."""


def live(
    store: Store,
    matches: Sequence[FakeMatch],
    watermark_ms: int,
    now_ms: int = 1_000,
    *,
    killed: bool = False,
    told_to: AlertingOptions = OPTIONS,
) -> None:
    """One step; `killed`: once in vain, and once more after the restart."""
    if killed:
        with pytest.raises(KilledError):
            _step(store, matches, watermark_ms, now_ms, told_to, KilledError())
    _step(store, matches, watermark_ms, now_ms, told_to)


def _step(
    store: Store,
    matches: Sequence[FakeMatch],
    watermark_ms: int,
    now_ms: int,
    told_to: AlertingOptions,
    killed: KilledError | None = None,
) -> None:
    with store.transaction() as writer:
        Recorder(told_to, writer, kept, now_ms).live(matches, watermark_ms)
        if killed is not None:
            raise killed


def told(store: Store) -> list[tuple[int, str]]:
    """(start of the alert, state) of all messages in their order."""
    starts = {alert.id: alert.start_ms for alert in store.alerts()}
    ordered = sorted(store.notifications(), key=lambda message: message.sequence)
    return [(starts[message.alert_id], message.state) for message in ordered]


@pytest.mark.parametrize("killed", [False, True])
def test_the_end_of_an_earlier_alert_that_was_found_late_is_not_told_while_a_later_one_fires(
    store: Store, killed: bool
) -> None:
    live(store, [FakeMatch(100, 110)], 115)
    live(store, [FakeMatch(10, 20)], 116, killed=killed)  # it is over already
    assert sorted((alert.start_ms, alert.state) for alert in store.alerts()) == [(10, "resolved"), (100, "firing")]
    assert told(store) == [(100, "firing")]
    live(store, [], 130, killed=killed)
    assert told(store) == [(100, "firing"), (100, "resolved")]


def test_of_two_that_fire_the_end_of_the_last_one_is_told(store: Store) -> None:
    live(store, [FakeMatch(10, 20)], 5)
    live(store, [FakeMatch(50, 60)], 6)
    assert told(store) == [(10, "firing"), (50, "firing")]
    live(store, [], 40)
    assert [alert.state for alert in store.alerts()] == ["firing", "resolved"]
    assert told(store) == [(10, "firing"), (50, "firing")]
    live(store, [], 80)
    assert told(store) == [(10, "firing"), (50, "firing"), (50, "resolved")]


def test_the_end_is_told_whichever_of_them_the_receiver_was_told_of(store: Store) -> None:
    nobody = options()
    live(store, [FakeMatch(10, 20)], 5)
    live(store, [FakeMatch(50, 60)], 6, told_to=nobody)  # the receiver was not there, say
    live(store, [], 40)
    assert told(store) == [(10, "firing")]
    live(store, [], 80)
    assert told(store) == [(10, "firing"), (50, "resolved")]
    live(store, [FakeMatch(200, 210)], 205, told_to=nobody)
    live(store, [], 300)
    assert told(store) == [(10, "firing"), (50, "resolved")]  # it believes that nothing fires


def test_an_alert_that_ends_in_another_one_that_fires_is_not_told_to_be_over(store: Store) -> None:
    live(store, [FakeMatch(10, 20), FakeMatch(60, 70)], 5)
    live(store, [FakeMatch(15, 65)], 6)
    assert told(store) == [(10, "firing"), (60, "firing")]
    live(store, [], 100)
    assert told(store) == [(10, "firing"), (60, "firing"), (10, "resolved")]


def test_other_labels_are_other_alerts(store: Store) -> None:
    """Same query and key, another user: another alert to whoever goes by labels."""
    ann, eve = ({"task_id": "t1", "period_ms": 5, "user": user} for user in ("ann", "eve"))
    live(store, [FakeMatch(100, 110, values=ann)], 115)
    live(store, [FakeMatch(10, 20, values=eve)], 116)
    assert told(store) == [(100, "firing"), (10, "firing"), (10, "resolved")]


def test_a_history_that_is_read_later_ends_nothing_that_fires(store: Store) -> None:
    live(store, [FakeMatch(100, 110)], 115)
    with store.transaction() as writer:
        Recorder(OPTIONS, writer, kept, 1_000).history([FakeMatch(10, 20)], kept)
    assert told(store) == [(100, "firing")]


def test_after_a_silence_the_end_of_several_is_told_once(store: Store) -> None:
    live(store, [FakeMatch(10, 20), FakeMatch(50, 60)], 5)
    with store.transaction() as writer:
        hide(Recorder(OPTIONS, writer, kept, 1_000), silencing_of("slow", None, 2_000))
    live(store, [], 100, now_ms=1_100)
    live(store, [], 100, now_ms=2_000)
    *fired, (_, is_over) = told(store)
    assert (fired, is_over) == ([(10, "firing"), (50, "firing")], "resolved")


def test_after_a_silence_the_end_is_told_of_what_was_told_before_it(store: Store) -> None:
    live(store, [FakeMatch(10, 20)], 5)
    with store.transaction() as writer:
        hide(Recorder(OPTIONS, writer, kept, 1_000), silencing_of("slow", None, 2_000))
    live(store, [FakeMatch(50, 60)], 40, now_ms=1_100)  # the first one is over, the next one begins
    live(store, [], 41, now_ms=2_000)
    assert told(store) == [(10, "firing"), (50, "firing")]
    live(store, [], 80, now_ms=2_001)
    assert told(store) == [(10, "firing"), (50, "firing"), (50, "resolved")]


def test_the_end_of_what_was_found_late_is_not_told_when_the_last_word_on_its_labels_was_that_it_is_over(
    store: Store,
) -> None:
    """An alert that grows under a silence was told long before of another one that was over meanwhile."""
    live(store, [FakeMatch(54, 54), FakeMatch(94, 94)], 48, now_ms=1_020)
    live(store, [], 78, now_ms=1_030)
    live(store, [], 111, now_ms=1_040)
    before = [(54, "firing"), (94, "firing"), (94, "resolved")]
    assert told(store) == before
    with store.transaction() as writer:
        hide(Recorder(OPTIONS, writer, kept, 1_050), silencing_of("slow", None, 1_065))
    live(store, [FakeMatch(0, 0), FakeMatch(53, 54)], 111, now_ms=1_060)  # one is new, one was known
    live(store, [], 111, now_ms=1_070)
    assert told(store) == [(53, "firing"), *before[1:]]


def test_alerts_have_the_same_fingerprint_when_they_have_the_same_labels(store: Store) -> None:
    live(store, [FakeMatch(10, 20)], 100)
    live(store, [FakeMatch(200, 210)], 205)
    live(store, [FakeMatch(200, 210, key=(("task_id", "t2"),))], 205)
    one, over, two, other = (
        fingerprint(message) for message in sorted(store.notifications(), key=lambda m: m.sequence)
    )
    assert one == over == two != other


def fingerprint(message: NotificationRow) -> str:
    snapshot = Snapshot.from_json(message.payload)
    return str(group_payload(lone(snapshot), "ops", "http://x")["alerts"][0]["fingerprint"])


USERS = st.sampled_from(["ann", "eve"])
STEPS = st.lists(
    st.tuples(
        st.lists(st.tuples(st.integers(0, 120), st.integers(0, 8), USERS), max_size=3),
        st.integers(0, 40),
        st.sampled_from(["", "killed", "acknowledge", "silence"]),
    ),
    max_size=12,
)


@settings(
    max_examples=examples(25),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(steps=STEPS)
def test_what_a_receiver_believes_by_labels_is_what_holds(
    any_store: Store, steps: list[tuple[list[tuple[int, int, str]], int, str]]
) -> None:
    """Matches in any order, late ones, restarts and people; after each step without a silence."""
    store = any_store
    with store.transaction() as writer:
        writer.session.query(AlertRow).delete()
        writer.session.query(SilenceRow).delete()
    watermark_ms, now_ms = 0, 1_000
    for spans, passes_ms, what in steps:
        watermark_ms, now_ms = watermark_ms + passes_ms, now_ms + 10
        matches = [
            FakeMatch(start, start + length, values={"task_id": "t1", "period_ms": 5, "user": user})
            for start, length, user in spans
        ]
        live(store, matches, watermark_ms, now_ms, killed=what == "killed")
        firing = [alert for alert in store.alerts() if alert.state == "firing"]
        with store.transaction() as writer:
            recorder = Recorder(OPTIONS, writer, kept, now_ms)
            if what == "acknowledge" and firing:
                found = writer.alerts.get(firing[0].id)
                assert found is not None
                recorder.acknowledge(found, "mia", "")
            if what == "silence":
                hide(recorder, silencing_of("slow", None, now_ms + 25))
        check_beliefs(store, silenced=bool(store.silences(now_ms)))


def check_beliefs(store: Store, *, silenced: bool) -> None:
    believed: dict[str, str] = {}
    for message in sorted(store.notifications(), key=lambda m: m.sequence):
        by_labels = fingerprint(message)
        if message.state == "resolved":
            assert believed.get(by_labels) == "firing", "told twice, or of what it never heard of"
        believed[by_labels] = message.state
    if silenced:
        return
    labels_of = {
        state: {of_labels(alert.labels) for alert in store.alerts() if alert.state == state} for state in State
    }
    fires = {by_labels for by_labels, state in believed.items() if state == "firing"}
    # What was acknowledged under a silence was never told.
    assert labels_of[State.FIRING] <= fires <= labels_of[State.FIRING] | labels_of[State.ACKNOWLEDGED]
