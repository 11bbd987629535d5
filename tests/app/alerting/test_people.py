"""What people do to alerts beside silencing: acknowledge for a time, take back, assign, close; all in the history."""

from __future__ import annotations

from typing import Any

import pytest

from app.alerting import operations
from app.alerting.dispatch.matchers import Matcher
from app.alerting.people import ForbiddenError, Person, Role
from app.alerting.recording.recorder import Recorder
from app.alerting.silencing import silencing
from app.errors import AppError
from app.store import Store, open_store
from app.store.models import AlertRow
from app.store.outbox import SentAgain
from app.store.writing.outbox import Outbox
from collectors.time_units import DAY_MS, HOUR_MS, MINUTE_MS
from tests.app.alerting.dispatch.world import World
from tests.app.alerting_fixtures import GAP_MS, FakeMatch, kept, options, receiver

OPTIONS = options(ops=receiver())
MIA = Person("mia")


def step(store: Store, now_ms: int, *matches: FakeMatch, watermark_ms: int = 0) -> None:
    with store.transaction() as writer:
        Recorder(OPTIONS, writer, kept, now_ms).live(matches, watermark_ms)


def fired(store: Store) -> str:
    step(store, 1_000, FakeMatch(10, 20))
    return store.alerts()[0].id


def one(store: Store) -> AlertRow:
    (alert,) = store.alerts()
    return alert


def told(store: Store) -> list[str]:
    return [message.state for message in store.notifications()]


def history(store: Store) -> list[tuple[str, str, str]]:
    return [(change.to_state, change.reason, change.actor) for change in store.alert(one(store).id).changes]


def test_an_acknowledgement_ends_at_its_time_also_after_a_restart(any_store: Store) -> None:
    store = any_store
    alert = fired(store)
    operations.acknowledge(store, alert, MIA, "on it", 2_000, for_ms=500)
    assert one(store).acknowledged_until_ms == 2_500
    for now_ms, state in ((2_499, "acknowledged"), (2_500, "firing"), (2_501, "firing")):
        step(store, now_ms)
        assert one(store).state == state
    assert one(store).acknowledged_until_ms is None
    assert told(store) == ["firing", "firing"]  # nobody has finished it: it is told again
    assert history(store) == [
        ("firing", "first match", "clustercep"),
        ("acknowledged", "on it", "mia"),
        ("firing", "the acknowledgement ended", "clustercep"),
    ]


def test_the_end_of_an_acknowledgement_is_in_the_store(store: Store) -> None:
    alert = fired(store)
    operations.acknowledge(store, alert, MIA, "", 2_000, for_ms=500)
    url = str(store.engine.url)
    store.close()
    with open_store(url) as again:
        step(again, 10_000)
        assert one(again).state == "firing"


def test_what_is_silenced_meanwhile_fires_silenced(store: Store) -> None:
    alert = fired(store)
    operations.acknowledge(store, alert, MIA, "", 2_000, for_ms=500)
    operations.silence(store, alert, 10_000, MIA, "", 2_100)
    assert one(store).acknowledged_until_ms == 2_500
    step(store, 3_000)
    assert (one(store).state, one(store).silenced) == ("firing", True)
    assert told(store) == ["firing"]


def test_what_is_over_before_stays_so(store: Store) -> None:
    alert = fired(store)
    operations.acknowledge(store, alert, MIA, "", 2_000, for_ms=500)
    step(store, 2_100, watermark_ms=20 + GAP_MS + 1)
    assert (one(store).state, one(store).acknowledged_until_ms) == ("resolved", None)
    step(store, 3_000, watermark_ms=20 + GAP_MS + 1)
    assert one(store).state == "resolved"


def test_many_acknowledgements_that_end_at_once_end_in_parts(store: Store) -> None:
    step(store, 1_000, *(FakeMatch(10, 20, key=(("task_id", f"t{n}"),)) for n in range(7)))
    for alert in store.alerts():
        operations.acknowledge(store, alert.id, MIA, "", 2_000, for_ms=1)
    with store.transaction() as writer:
        recorder = Recorder(OPTIONS, writer, kept, 3_000)
        assert [recorder.between_steps.follow(3) for _ in range(4)] == [3, 3, 1, 0]
    assert {alert.state for alert in store.alerts()} == {"firing"}


def test_an_acknowledgement_is_taken_back(store: Store) -> None:
    alert = fired(store)
    with pytest.raises(AppError, match="it is firing; only acknowledged alerts"):
        operations.unacknowledge(store, alert, MIA, "", 1_500)
    operations.acknowledge(store, alert, MIA, "", 2_000, for_ms=500)
    operations.unacknowledge(store, alert, Person("bob"), "mia is ill", 2_100)
    assert (one(store).state, one(store).acknowledged_until_ms) == ("firing", None)
    assert history(store)[-1] == ("firing", "mia is ill", "bob")
    step(store, 2_200)
    step(store, 2_300)
    assert told(store) == ["firing", "firing"]


def test_closed_by_hand_it_is_over_until_a_further_match(any_store: Store) -> None:
    store = any_store
    alert = fired(store)
    operations.close(store, alert, MIA, "restarted the node", 2_000)
    assert (one(store).state, one(store).resolved_ms) == ("resolved", 2_000)
    step(store, 2_050)
    assert told(store) == ["firing", "resolved"]
    with pytest.raises(AppError, match="it is resolved already"):
        operations.close(store, alert, MIA, "", 2_100)
    step(store, 3_000, FakeMatch(22, 25))
    assert one(store).state == "firing"
    assert told(store) == ["firing", "resolved", "firing"]
    operations.close(store, alert, MIA, "", 4_000)
    step(store, 5_000, watermark_ms=1_000)
    assert (one(store).state, one(store).open) == ("resolved", False)
    assert told(store) == ["firing", "resolved", "firing", "resolved"]


def test_an_alert_is_somebodys(any_store: Store) -> None:
    store = any_store
    alert = fired(store)
    operations.assign(store, alert, "Bob\n of the night shift", MIA, "he knows disks", 2_000)
    assert one(store).assigned_to == "Bob  of the night shift"
    operations.assign(store, alert, "Bob  of the night shift", MIA, "", 2_100)  # changes nothing
    operations.assign(store, alert, None, MIA, "", 2_200)
    assert one(store).assigned_to is None
    assert history(store)[1:] == [
        ("firing", "assigned to Bob  of the night shift: he knows disks", "mia"),
        ("firing", "assigned to nobody", "mia"),
    ]
    assert told(store) == ["firing"]
    with pytest.raises(AppError, match="a name that is empty"):
        operations.assign(store, alert, " ", MIA, "", 2_300)
    operations.close(store, alert, MIA, "", 2_400)
    with pytest.raises(AppError, match="only alerts that are not over can be assigned"):
        operations.assign(store, alert, "bob", MIA, "", 2_500)


def test_when_two_alerts_become_one_it_keeps_whose_it_is_and_until_when(store: Store) -> None:
    step(store, 1_000, FakeMatch(10, 20))
    step(store, 1_001, FakeMatch(35, 40), watermark_ms=31)  # the first is over by then
    later = next(alert for alert in store.alerts() if alert.start_ms == 35)
    operations.assign(store, later.id, "bob", MIA, "", 1_100)
    operations.acknowledge(store, later.id, MIA, "", 1_200, for_ms=5_000)
    step(store, 1_300, FakeMatch(25, 30), watermark_ms=31)
    (alert,) = [alert for alert in store.alerts() if alert.merged_into is None]
    assert (alert.state, alert.assigned_to, alert.acknowledged_until_ms) == ("acknowledged", "bob", 6_200)


def test_with_routes_groups_tell_what_people_did(store: Store) -> None:
    world = World(store)
    world.fire("t1", "t2")
    world.wait(30_000)
    by_task = {alert.key["task_id"]: alert.id for alert in store.alerts()}
    for alert in by_task.values():
        operations.acknowledge(store, alert, MIA, "", world.now_ms, for_ms=5 * HOUR_MS)
    assert world.wait(4 * HOUR_MS + 10 * MINUTE_MS) == []  # no repetition
    operations.close(store, by_task["t1"], MIA, "", world.now_ms)
    world.step(watermark_ms=0)
    assert world.wait(10 * MINUTE_MS) == [
        ("ops", "some alerts resolved", {"t1": "resolved", "t2": "acknowledged"}),
    ]
    world.clock.advance_to(world.now_ms + HOUR_MS)
    world.step(watermark_ms=0)
    told = world.wait(4 * HOUR_MS + 10 * MINUTE_MS)
    assert told == [("ops", "repeat interval elapsed", {"t2": "firing"})]


def given_up(store: Store) -> None:
    with store.transaction() as writer:
        for message in store.notifications("pending"):
            writer.outbox.record_attempt(
                message.idempotency_key, message.receiver,
                status="failed", error="refused", next_attempt_ms=0, now_ms=5,
            )  # fmt: skip


def test_who_sent_a_message_again_is_in_the_alerts_history(any_store: Store) -> None:
    store = any_store
    alert = fired(store)
    given_up(store)
    before = one(store)
    operations.send_again(store, {"other": ()}, MIA, 1_500)  # none of this receiver
    assert operations.send_again(store, {None: ()}, Person("mia\x00"), 2_000) == SentAgain(1, 0)
    assert history(store)[1:] == [("firing", "sent again to ops", "mia\\x00")]
    after = one(store)
    assert (after.state, after.revision, after.updated_ms) == (before.state, before.revision + 1, 2_000)
    (change,) = store.alert(alert).changes[1:]
    assert (change.from_state, change.revision, change.at_ms, change.silenced) == (
        "firing", after.revision, 2_000, False,
    )  # fmt: skip
    operations.send_again(store, {None: ()}, MIA, 2_500)  # it is pending already
    assert len(history(store)) == 2
    operations.acknowledge(store, alert, MIA, "", 3_000)
    assert history(store)[-1][0] == "acknowledged"


def test_what_stays_given_up_has_no_history_of_it(store: Store) -> None:
    fired(store)
    step(store, 2_000, watermark_ms=20 + GAP_MS + 1)
    given_up(store)
    assert operations.send_again(store, {None: ()}, MIA, 3_000) == SentAgain(1, 1)
    assert [of[1] for of in history(store)].count("sent again to ops") == 1  # that it is over, not that it fires


def test_a_group_that_is_sent_again_is_in_the_history_of_each_of_its_alerts(any_store: Store) -> None:
    world = World(any_store)
    world.fire("t1", "t2")
    world.takes = False
    world.wait(30_000)
    (message,) = any_store.notifications("pending")
    assert message.group_id is not None
    given_up(any_store)
    assert operations.send_again(any_store, {None: ()}, MIA, world.now_ms) == SentAgain(1, 0)
    for alert in any_store.alerts():
        last = any_store.alert(alert.id).changes[-1]
        assert (last.reason, last.actor, last.revision) == ("sent again to ops", "mia", alert.revision)
    assert len(any_store.alerts()) == 2


def test_a_storm_is_sent_again_in_parts_each_with_its_history(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    step(store, 1_000, *(FakeMatch(10, 20, key=(("task_id", f"t{n}"),)) for n in range(7)))
    given_up(store)
    monkeypatch.setattr(operations, "MOST_SENT_AGAIN", 3)
    n_in_each: list[int] = []
    noted = Outbox.send_again

    def counted(outbox: Outbox, *given: Any, **named: Any) -> SentAgain:
        sent = noted(outbox, *given, **named)
        n_in_each.append(sent.n_pending)
        return sent

    monkeypatch.setattr(Outbox, "send_again", counted)
    assert operations.send_again(store, {None: ()}, MIA, 2_000) == SentAgain(7, 0)
    assert n_in_each == [3, 3, 1]
    last = {alert.id: store.alert(alert.id).changes[-1] for alert in store.alerts()}
    assert len(last) == 7
    assert {(change.reason, change.actor) for change in last.values()} == {("sent again to ops", "mia")}


def test_what_cannot_be_written_into_the_history_is_not_sent(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    fired(store)
    given_up(store)

    def fails(*_: object) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr("app.store.writing.outbox.insert_rows", fails)
    with pytest.raises(OSError, match="full"):
        operations.send_again(store, {None: ()}, MIA, 2_000)
    assert store.n_notifications() == {("ops", "failed"): 1}


@pytest.mark.parametrize("for_ms", [0, -1, 32 * DAY_MS])
def test_how_long_an_acknowledgement_may_last(store: Store, for_ms: int) -> None:
    with pytest.raises(AppError, match="expected more than nothing, at most 31 d"):
        operations.acknowledge(store, fired(store), MIA, "", 2_000, for_ms=for_ms)


def test_who_may_do_what(store: Store) -> None:
    alert = fired(store)
    viewer = Person("vic", Role.VIEWER)
    for act in (
        lambda: operations.acknowledge(store, alert, viewer, "", 2_000),
        lambda: operations.unacknowledge(store, alert, viewer, "", 2_000),
        lambda: operations.assign(store, alert, "vic", viewer, "", 2_000),
        lambda: operations.close(store, alert, viewer, "", 2_000),
        lambda: operations.send_again(store, {None: ()}, viewer, 2_000),
    ):
        with pytest.raises(ForbiddenError, match=r"vic is viewer, and may not .*; expected the role operator"):
            act()
    with pytest.raises(ForbiddenError, match="may not silence for longer than 7 d; expected the role admin"):
        operations.silence(store, alert, 8 * DAY_MS, MIA, "", 2_000)
    operations.silence(store, alert, 8 * DAY_MS, Person("ada", Role.ADMIN), "", 2_000)
    (row,) = store.silences(2_000)
    operations.edit_silence(store, row.id, operations.SilenceEdit(note="shorter than before"), MIA, 2_100)
    with pytest.raises(ForbiddenError, match="silence for longer"):
        operations.edit_silence(store, row.id, operations.SilenceEdit(ends_ms=row.until_ms + 1), MIA, 2_200)
    assert len(store.alert(alert).changes) == 2


@pytest.mark.parametrize(
    "edit",
    [
        operations.SilenceEdit(matchers=(Matcher("alertname", "=~", ".+"),)),
        operations.SilenceEdit(recurrence=()),
        operations.SilenceEdit(starts_ms=2_000),
    ],
)
def test_what_a_long_silence_hides_is_an_admins_to_say(store: Store, edit: operations.SilenceEdit) -> None:
    of_mondays: list[dict[str, Any]] = [{"weekdays": ["monday"]}]
    wanted = silencing((Matcher("team", "=", "db"),), 3_000 + 20 * DAY_MS, 3_000 + 40 * DAY_MS, of_mondays, 2_000)
    ada = Person("ada", Role.ADMIN)
    operations.silence_matching(store, wanted, ada, "", 2_000)
    (row,) = store.silences(2_000)
    with pytest.raises(ForbiddenError, match="silence for longer"):
        operations.edit_silence(store, row.id, edit, MIA, 2_100)
    later = operations.SilenceEdit(starts_ms=row.starts_ms + DAY_MS, ends_ms=row.until_ms - DAY_MS)
    operations.edit_silence(store, row.id, later, MIA, 2_100)
    operations.edit_silence(store, row.id, edit, ada, 2_200)


def test_a_short_silence_far_ahead_does_not_become_a_long_one(store: Store) -> None:
    begin_ms = 2_000 + 100 * DAY_MS
    matchers = (Matcher("team", "=", "db"),)
    number = operations.new_silence(store, matchers, begin_ms, begin_ms + DAY_MS, MIA, "", 2_000)
    with pytest.raises(ForbiddenError, match="silence for longer"):
        operations.edit_silence(store, number, operations.SilenceEdit(starts_ms=2_000), MIA, 2_100)
