"""Groups of alerts: when they are told, what, to whom, and what survives a restart."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from app.alerting.delivery import endpoint_of
from app.alerting.dispatch import dispatcher
from app.alerting.dispatch.dispatcher import Dispatcher
from app.alerting.dispatch.notice import MAX_ALERTS, GroupNotice
from app.alerting.dispatch.routes import Routing
from app.alerting.dispatch.telling import Telling
from app.alerting.links import Links
from app.alerting.operations import silence, silence_matching
from app.alerting.payload import fingerprint, labels_of
from app.alerting.people import Person
from app.alerting.receivers.news import News
from app.alerting.receivers.template_values import values_of_news
from app.alerting.silencing import read_matchers, silencing
from app.errors import StoreError
from app.store import Store
from app.store.writing.writer import Writer
from tests.app.alerting.dispatch.world import GAP_MS, MINUTE_MS, TREE, World

NO_ROUTE = TREE.partition("route:")[0]
WAIT_MS, INTERVAL_MS, REPEAT_MS = 30_000, 5 * MINUTE_MS, 240 * MINUTE_MS


def test_alerts_within_the_group_wait_are_one_message(store: Store) -> None:
    world = World(store)
    world.fire("t1")
    assert world.wait(WAIT_MS - 1) == []
    world.fire("t1", "t2")
    assert world.wait(1) == [("ops", "first notification", {"t1": "firing", "t2": "firing"})]
    assert world.wait(INTERVAL_MS) == []


def test_what_is_new_comes_with_the_group_interval_and_names_all_that_fire(store: Store) -> None:
    world = World(store)
    world.fire("t1")
    world.wait(WAIT_MS)
    world.fire("t1", "t2")
    assert world.wait(INTERVAL_MS - 1) == []
    assert world.wait(1) == [("ops", "new alerts added", {"t1": "firing", "t2": "firing"})]


def test_resolved_alerts_are_told_once_and_the_group_ends(store: Store) -> None:
    world = World(store)
    world.fire("t1", "t2")
    world.wait(WAIT_MS)
    world.wait(2 * GAP_MS)
    world.fire("t2")
    assert world.wait(INTERVAL_MS) == [("ops", "some alerts resolved", {"t1": "resolved", "t2": "firing"})]
    world.end()
    assert world.wait(INTERVAL_MS) == [("ops", "all alerts resolved", {"t2": "resolved"})]
    assert (world.wait(10 * INTERVAL_MS), store.alert_groups()) == ([], [])


def test_what_goes_on_is_repeated_unless_it_is_acknowledged(store: Store) -> None:
    world = World(store)
    world.fire("t1", "t2")
    world.wait(WAIT_MS)
    told = world.wait(2 * REPEAT_MS)
    assert told == [("ops", "repeat interval elapsed", {"t1": "firing", "t2": "firing"})] * 2
    world.acknowledge("t1")
    assert world.wait(REPEAT_MS) == [("ops", "repeat interval elapsed", {"t1": "acknowledged", "t2": "firing"})]
    world.acknowledge("t2")
    assert world.wait(3 * REPEAT_MS) == []
    world.end()
    assert world.wait(INTERVAL_MS) == [("ops", "all alerts resolved", {"t1": "resolved", "t2": "resolved"})]
    keys = [row.idempotency_key for row in store.notifications()]
    assert len(set(keys)) == len(keys) == 5


def test_an_alert_that_is_over_within_the_group_wait_is_told_to_fire_and_then_to_be_over(store: Store) -> None:
    world = World(store)
    world.fire("t1")
    world.end()
    assert world.wait(WAIT_MS) == [("ops", "first notification", {"t1": "firing"})]
    assert world.wait(INTERVAL_MS) == [("ops", "all alerts resolved", {"t1": "resolved"})]


def test_acknowledged_before_anybody_was_told_nobody_is(store: Store) -> None:
    world = World(store)
    world.fire("t1")
    world.acknowledge("t1")
    world.end()
    assert world.wait(10 * INTERVAL_MS) == []


def test_silenced_alerts_are_told_afterwards_if_they_still_fire(store: Store) -> None:
    world = World(store)
    world.fire("t1", "t2", "t3")
    for task in ("t1", "t2"):
        (alert,) = [a for a in store.alerts() if a.key["task_id"] == task]
        silence(store, alert.id, INTERVAL_MS * (3 if task == "t1" else 1), Person("ann"), "", world.now_ms)
    assert world.wait(WAIT_MS) == [("ops", "first notification", {"t3": "firing"})]
    world.step(watermark_ms=0)
    assert world.wait(INTERVAL_MS) == []
    world.step(watermark_ms=0)  # the silence of t2 is over
    assert world.wait(INTERVAL_MS) == [("ops", "new alerts added", {"t2": "firing", "t3": "firing"})]
    world.end()  # t1 is over under its silence, of which nobody was told
    assert world.wait(INTERVAL_MS) == [("ops", "all alerts resolved", {"t2": "resolved", "t3": "resolved"})]
    world.step()
    assert world.wait(10 * INTERVAL_MS) == []


def test_a_silence_holds_back_that_an_alert_is_over_until_it_ends(store: Store) -> None:
    world = World(store)
    world.fire("t1")
    world.wait(WAIT_MS)
    (alert,) = store.alerts()
    silence(store, alert.id, 3 * INTERVAL_MS, Person("ann"), "", world.now_ms)
    world.end()
    assert world.wait(2 * INTERVAL_MS) == []
    world.wait(INTERVAL_MS)
    world.step()
    assert world.wait(INTERVAL_MS) == [("ops", "all alerts resolved", {"t1": "resolved"})]


ROUTED = (
    TREE
    + """
  routes:
  - matchers: ['alertname="node-lost"']
    receiver: db
    continue: true
    group_by: ['...']
    group_wait: 0s
  - matchers: ['severity=~"critical|warning"']
"""
)


def test_routes_lead_to_receivers_and_continue(store: Store) -> None:
    world = World(store, ROUTED)
    world.fire("t1", "t2", query="node-lost")
    told = sorted(world.wait(0), key=str)
    assert told == [("db", "first notification", {task: "firing"}) for task in ("t1", "t2")]
    assert world.wait(WAIT_MS) == [("ops", "first notification", {"t1": "firing", "t2": "firing"})]
    rows = {row.key for row in store.alert_groups()}
    assert '{}/{severity=~"critical|warning"}:{alertname="node-lost"}' in rows


INHIBITED = (
    TREE
    + """
inhibit_rules:
- source_matchers: ['alertname="node-lost"']
  target_matchers: ['alertname="slow"']
  equal: [host]
"""
)


def test_inhibited_alerts_are_not_told_while_their_source_goes_on(store: Store) -> None:
    world = World(store, INHIBITED)
    world.fire("n", query="node-lost", host="node1")
    world.fire("t1", host="node1")
    world.fire("t2", host="node2")
    assert {a.labels["task_id"]: a.labels["host"] for a in store.alerts()} == {
        "n": "node1",
        "t1": "node1",
        "t2": "node2",
    }
    told = world.wait(WAIT_MS)
    assert sorted(told, key=str) == [("ops", "first notification", {task: "firing"}) for task in ("n", "t2")]
    world.end()  # all of them: of the one that was hidden nobody is told that it fired
    ended = world.wait(2 * INTERVAL_MS)
    assert sorted(ended, key=str) == [("ops", "all alerts resolved", {task: "resolved"}) for task in ("n", "t2")]
    assert store.alert_groups() == []


def test_inhibited_alerts_are_told_when_they_outlive_their_source(store: Store) -> None:
    world = World(store, INHIBITED)
    world.fire("n", query="node-lost", host="node1")
    world.fire("t1", host="node1")
    world.wait(WAIT_MS)
    world.clock.advance_to(world.now_ms + GAP_MS)
    world.fire("t1", host="node1")
    world.clock.advance_to(world.now_ms + GAP_MS)
    world.fire("t1", host="node1")
    told = world.wait(INTERVAL_MS)
    assert ("ops", "first notification", {"t1": "firing"}) in told


MUTED = """
receivers:
  ops: {url: "http://127.0.0.1:9/ops"}
time_intervals:
- name: sundays
  time_intervals: [{weekdays: [sunday]}]
route:
  receiver: ops
  routes:
  - matchers: ['alertname=~"slow|chatty"']
    mute_time_intervals: [sundays]
    group_wait: 30s
"""


def test_a_muted_route_tells_afterwards_what_still_fires(store: Store) -> None:
    world = World(store, MUTED)
    world.fire("t1")
    world.wait(MINUTE_MS)
    world.fire("t2", query="chatty")
    world.end()
    world.fire("t3")
    assert world.wait(12 * 60 * MINUTE_MS) == []
    assert world.wait(12 * 60 * MINUTE_MS) == [("ops", "first notification", {"t3": "firing"})]


def test_no_message_depends_on_whether_the_process_lived(store: Store, other_store: Store) -> None:
    """The same story with a new process after each step, and with one that lives through."""

    def story(found: Store, *, restarts: bool) -> list[Any]:
        world, chosen = World(found, ROUTED), random.Random(7)
        told: list[Any] = []
        for _ in range(60):
            if restarts:
                world.restart()
            world.fire(*(f"t{chosen.randrange(5)}" for _ in range(2)), query=chosen.choice(["slow", "node-lost"]))
            if chosen.random() < 0.3:
                world.end()
            told += world.wait(chosen.choice([1_000, GAP_MS, WAIT_MS, INTERVAL_MS]))
        return [told, [(row.idempotency_key, row.receiver, row.payload) for row in found.notifications()]]

    whole = story(store, restarts=False)
    assert len(whole[0]) > 20
    assert story(other_store, restarts=True) == whole


def test_what_was_undelivered_is_told_by_the_message_that_overtakes_it(store: Store) -> None:
    world = World(store)
    world.fire("t1", "t2")
    world.wait(WAIT_MS)
    world.takes = False
    world.wait(2 * GAP_MS)
    world.fire("t2")
    world.wait(INTERVAL_MS)  # t1 is over, and the message that says so is not taken
    world.fire("t2", "t3")
    (told,) = world.wait(INTERVAL_MS)
    assert told == ("ops", "new alerts added", {"t1": "resolved", "t2": "firing", "t3": "firing"})


def test_an_undelivered_end_is_not_told_behind_what_fired_again(store: Store) -> None:
    """A silence hides it from the message that follows, which would repeat the end of before."""
    world = World(store)
    world.fire("t1", "t2")
    world.wait(WAIT_MS)
    world.takes = False
    world.wait(2 * GAP_MS)
    world.fire("t2")
    assert world.wait(INTERVAL_MS)[-1][2]["t1"] == "resolved"
    world.fire("t1", "t2")
    assert world.wait(INTERVAL_MS)[-1][2]["t1"] == "firing"
    (again,) = [alert for alert in store.alerts() if alert.key["task_id"] == "t1" and alert.state == "firing"]
    silence(store, again.id, 60 * MINUTE_MS, Person("ann"), "", world.now_ms)
    world.step(watermark_ms=0)
    world.fire("t3")
    ((_, _, told),) = world.wait(INTERVAL_MS)
    assert "t1" not in told
    assert told["t3"] == "firing"


def test_another_tree_tells_nobody_again_and_the_old_groups_tell_the_end(store: Store) -> None:
    world = World(store)
    world.fire("t1", "t2")
    world.wait(WAIT_MS)
    world.fire("t1", "t2", "t3")
    world.configure(
        TREE.replace("group_by: [alertname]", "group_by: [task_id]").replace("receiver: ops", "receiver: db")
    )
    told = world.wait(WAIT_MS)
    assert sorted(told, key=str) == [("db", "first notification", {f"t{n}": "firing"}) for n in (1, 2, 3)]
    world.configure(TREE)
    assert world.wait(INTERVAL_MS) == [("ops", "new alerts added", {"t1": "firing", "t2": "firing", "t3": "firing"})]
    world.end()
    ended = world.wait(2 * INTERVAL_MS)
    assert {(receiver, task) for receiver, _, tasks in ended for task in tasks} == {
        (receiver, task) for receiver in ("ops", "db") for task in ("t1", "t2", "t3")
    }
    assert (all(set(tasks.values()) == {"resolved"} for _, _, tasks in ended), store.alert_groups()) == (True, [])


def test_without_a_route_groups_that_are_left_tell_the_end_of_what_they_told(store: Store) -> None:
    world = World(store)
    world.fire("t1")
    world.wait(WAIT_MS)
    world.configure(NO_ROUTE)
    world.end()
    assert world.wait(INTERVAL_MS) == [("ops", "all alerts resolved", {"t1": "resolved"})]
    assert store.alert_groups() == []


def test_a_route_takes_over_alerts_that_were_told_by_themselves(store: Store) -> None:
    world = World(store, NO_ROUTE)
    world.fire("t1")
    assert {(row.receiver, row.group_id) for row in store.notifications()} == {("db", None), ("ops", None)}
    world.skip_messages()
    world.configure(TREE)
    world.fire("t1", "t2")
    assert world.wait(WAIT_MS) == [("ops", "first notification", {"t2": "firing"})]
    world.end()
    assert sorted(alone(store)[2:]) == [("db", "t1", "resolved"), ("ops", "t1", "resolved")]
    world.skip_messages()
    assert world.wait(INTERVAL_MS) == [("ops", "all alerts resolved", {"t2": "resolved"})]


def test_a_silence_tells_no_group_of_an_alert_that_was_told_by_itself(store: Store) -> None:
    world = World(store, NO_ROUTE)
    world.fire("t1")
    world.skip_messages()
    world.configure(TREE)
    silence(store, store.alerts()[0].id, WAIT_MS, Person("ann"), "", world.now_ms)
    assert world.wait(WAIT_MS) == []
    world.step(watermark_ms=0)
    assert world.wait(INTERVAL_MS) == []


def alone(store: Store) -> list[tuple[str, str, str]]:
    """Messages that tell of one alert by itself."""
    rows = [row for row in store.notifications() if row.group_id is None]
    return [(row.receiver, str(row.payload["key"]["task_id"]), row.state) for row in rows]


def test_a_clock_that_was_set_back_stops_no_group(store: Store) -> None:
    world = World(store)
    world.fire("t1")
    world.clock = type(world.clock)(world.now_ms - 100 * INTERVAL_MS)
    world.restart()
    assert [told[1] for told in world.wait(0)] == ["first notification"]


def test_a_large_group_is_one_bounded_message(store: Store) -> None:
    world = World(store)
    world.fire(*(f"t{n:05}" for n in range(MAX_ALERTS + 200)))
    ((_, _, alerts),) = world.wait(WAIT_MS)
    (row,) = store.notifications()
    notice = GroupNotice.from_json(row.payload)
    assert (len(alerts), notice.n_left_out, notice.common_labels["alertname"]) == (MAX_ALERTS, 200, "slow")
    ((_, reason, alerts),) = world.wait(INTERVAL_MS)
    assert (reason, len(alerts), "t00000" in alerts, world.wait(INTERVAL_MS)) == (
        "new alerts added",
        MAX_ALERTS,
        True,
        [],
    )
    world.end()
    told = world.wait(2 * INTERVAL_MS)
    assert [(reason, len(alerts)) for _, reason, alerts in told] == [
        ("all alerts resolved", MAX_ALERTS),
        ("all alerts resolved", 200),
    ]
    assert len({task for _, _, alerts in told for task in alerts}) == MAX_ALERTS + 200
    assert store.alert_groups() == []


def test_a_group_fires_while_one_does_that_its_message_leaves_out(store: Store) -> None:
    world = World(store)
    world.fire(*(f"t{n:05}" for n in range(MAX_ALERTS + 1)))
    world.wait(WAIT_MS)
    world.wait(INTERVAL_MS)
    world.wait(2 * GAP_MS)
    world.fire("t00000")
    ((_, reason, alerts),) = world.wait(INTERVAL_MS)
    row = store.notifications()[-1]
    notice = GroupNotice.from_json(row.payload)
    assert (reason, set(alerts.values()), row.state) == ("some alerts resolved", {"resolved"}, "firing")
    assert (notice.n_firing, notice.n_resolved, notice.n_left_out) == (1, MAX_ALERTS, 1)
    del row.payload["group"]["n_firing"]
    assert GroupNotice.from_json(row.payload) == notice


def test_each_alert_shows_the_messages_that_told_of_it(store: Store) -> None:
    world = World(store)
    world.fire("t1", "t2")
    world.wait(WAIT_MS)
    world.fire("t1", "t2", "t3")
    world.wait(INTERVAL_MS)
    found = {a.key["task_id"]: len(store.alert(a.id).notifications) for a in store.alerts()}
    assert found == {"t1": 1, "t2": 1, "t3": 1}


def test_the_webhook_of_a_group_is_alertmanagers_version_4(store: Store) -> None:
    world = World(store)
    world.fire("t1", "t2", host="node1")
    world.wait(WAIT_MS)
    (row,) = store.notifications()
    endpoint = endpoint_of("ops", world.read(TREE).receivers["ops"], "http://127.0.0.1:8501")
    news = News.of(row.payload, row.fingerprint, row.idempotency_key, "ops", world.now_ms, endpoint.links)
    body = json.loads(endpoint.message(news).body)
    alerts = body.pop("alerts")
    annotations = body.pop("commonAnnotations")
    assert body == {
        "version": "4",
        "groupKey": '{}:{alertname="slow"}',
        "truncatedAlerts": 0,
        "status": "firing",
        "receiver": "ops",
        "groupLabels": {"alertname": "slow"},
        "commonLabels": {"alertname": "slow", "severity": "warning", "host": "node1"},
        "routeLabels": {},
        "externalURL": "http://127.0.0.1:8501",
        "notification_reason": "first notification",
    }
    assert annotations["value_host"] == "node1"
    assert "alert_id" not in annotations
    assert sorted((a["status"], a["labels"]["task_id"]) for a in alerts) == [("firing", "t1"), ("firing", "t2")]
    assert {a["fingerprint"] for a in alerts} == {fingerprint(labels_of(s)) for s in news.alerts}


def test_labels_of_a_route_and_those_above_stand_in_its_messages(store: Store) -> None:
    labels = """
  labels: {team: data, tier: 1}
  routes:
  - matchers: [alertname="slow"]
    labels: {team: etl}
"""
    world = World(store, TREE + labels)
    world.fire("t1")
    world.fire("t2", query="chatty")
    world.wait(WAIT_MS)
    told = {}
    for row in store.notifications():
        links = Links("http://127.0.0.1:8501")
        news = News.of(row.payload, row.fingerprint, row.idempotency_key, "ops", world.now_ms, links)
        told[news.alerts[0].query] = news.webhook()["routeLabels"]
        assert values_of_news(news)["route_labels"] == news.webhook()["routeLabels"]
    assert told == {"slow": {"team": "etl", "tier": "1"}, "chatty": {"team": "data", "tier": "1"}}
    world.configure(TREE)
    world.fire("t3")
    world.wait(INTERVAL_MS)
    assert store.notifications()[-1].payload["group"].get("route_labels") is None


def test_a_transaction_that_fails_loses_no_alert_of_another_tree(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    world, transaction = World(store), store.transaction
    world.fire("t1", "t2")
    world.wait(WAIT_MS)
    world.configure(TREE.replace("receiver: ops", "receiver: db"))

    @contextmanager
    def failing() -> Iterator[Writer]:
        with transaction() as writer:
            yield writer
            raise StoreError("no space")

    with monkeypatch.context() as patched:
        patched.setattr(store, "transaction", failing)
        with pytest.raises(StoreError):
            world.dispatcher.dispatch_due()
    assert world.wait(WAIT_MS) == [("db", "first notification", {"t1": "firing", "t2": "firing"})]


def test_a_silence_that_outlives_the_route_repeats_nothing(store: Store) -> None:
    world = World(store)
    world.fire("t1")
    world.wait(WAIT_MS)
    silence(store, store.alerts()[0].id, WAIT_MS, Person("ann"), "", world.now_ms)
    world.configure(NO_ROUTE)
    world.wait(WAIT_MS)
    world.step(watermark_ms=0)
    assert alone(store) == [("db", "t1", "firing")]
    world.end()
    assert alone(store) == [("db", "t1", "firing"), ("db", "t1", "resolved")]
    world.skip_messages()
    assert world.wait(INTERVAL_MS) == [("ops", "all alerts resolved", {"t1": "resolved"})]


def test_without_a_route_what_waits_is_told_by_its_group(store: Store) -> None:
    world = World(store)
    world.fire("t1")
    assert world.wait(0) == []
    world.configure(NO_ROUTE)
    assert world.wait(WAIT_MS) == [("ops", "first notification", {"t1": "firing"})]
    world.end()
    assert world.wait(INTERVAL_MS) == [("ops", "all alerts resolved", {"t1": "resolved"})]
    assert (store.alert_groups(), alone(store)) == ([], [])


@pytest.mark.parametrize(
    ("before", "after", "receiver"),
    [
        (TREE, TREE.replace("group_by: [alertname]", "group_by: [task_id]"), "ops"),
        (TREE, TREE + "  routes: [{matchers: ['alertname=slow'], receiver: db}]\n", "db"),
        (TREE + "  routes: [{matchers: ['alertname=slow'], receiver: db}]\n", TREE, "ops"),
    ],
)
def test_another_tree_tells_once_what_nobody_was_told(store: Store, before: str, after: str, receiver: str) -> None:
    world = World(store, before)
    world.fire("t1")
    world.configure(after)
    assert world.wait(2 * INTERVAL_MS) == [(receiver, "first notification", {"t1": "firing"})]
    world.end()
    assert world.wait(2 * INTERVAL_MS) == [(receiver, "all alerts resolved", {"t1": "resolved"})]
    assert store.alert_groups() == []


def test_what_is_over_before_another_tree_is_told_by_the_group_it_was_in(store: Store) -> None:
    world = World(store)
    world.fire("t1")
    world.end()
    world.configure(TREE + "  routes: [{matchers: ['alertname=slow'], receiver: db}]\n")
    told = world.wait(2 * INTERVAL_MS)
    assert [reason for _, reason, _ in told] == ["first notification", "all alerts resolved"]
    world = World(store, TREE + "  routes: [{matchers: ['alertname=slow'], receiver: db}]\n")
    world.fire("t2")
    world.end()
    world.skip_messages()
    world.configure(TREE)
    told = world.wait(2 * INTERVAL_MS)
    assert [(name, reason) for name, reason, _ in told] == [
        ("db", "first notification"),
        ("db", "all alerts resolved"),
    ]


def test_a_route_that_goes_on_from_now_on_tells_the_routes_behind_it(store: Store) -> None:
    world = World(store, ROUTED.replace("continue: true", "continue: false"))
    world.fire("t1", query="node-lost")
    assert world.wait(WAIT_MS) == [("db", "first notification", {"t1": "firing"})]
    world.configure(ROUTED)
    assert world.wait(WAIT_MS) == [("ops", "first notification", {"t1": "firing"})]


def test_values_in_the_key_of_a_group_are_escaped(store: Store) -> None:
    world = World(store, TREE.replace("[alertname]", "[host]"))
    world.fire("t1", host='a", b="c')
    assert [row.key for row in store.alert_groups()] == [r'{}:{host="a\", b=\"c"}']


def test_who_is_replaced_looks_at_no_further_groups(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatcher, "MOST_GROUPS", 1)
    world = World(store, TREE.replace("[alertname]", "[task_id]"))
    world.fire("t1", "t2")
    world.clock.advance_to(world.now_ms + WAIT_MS)
    telling = Telling(Routing.of(world.read(world.tree)), world.read(world.tree).receivers)
    leaving = Dispatcher(store, telling, world.clock, stopping=lambda: len(store.notifications()) > 0)
    assert (leaving.dispatch_due(), world.dispatcher.dispatch_due()) == (1, 1)


def test_figures_of_groups_tell_since_when_the_oldest_waits(store: Store) -> None:
    world = World(store)
    assert store.group_figures() == {}
    world.fire("t1")
    began_ms = world.now_ms
    world.clock.advance_to(world.now_ms + 1_000)
    world.fire("t2", query="chatty")
    assert store.group_figures() == {"ops": (2, began_ms)}
    world.wait(WAIT_MS)
    assert store.group_figures() == {"ops": (2, 0)}


def test_a_silence_that_begins_between_steps_hides(store: Store) -> None:
    world = World(store)
    world.fire("t1")
    now_ms = world.now_ms
    wanted = silencing(read_matchers(['alertname=~".+"']), now_ms + 20_000, now_ms + 3_600_000, (), now_ms)
    silence_matching(store, wanted, Person("mia"), "maintenance", now_ms)
    assert world.wait(30_000) == []
