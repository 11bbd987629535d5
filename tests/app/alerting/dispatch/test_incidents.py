"""Incidents where alerts are told in groups: who hears of the incident hears nothing of its alerts, all others do."""

from __future__ import annotations

from app.alerting.dispatch.dispatcher import Dispatcher
from app.alerting.dispatch.routes import Routing
from app.alerting.dispatch.telling import Telling
from app.alerting.operations import acknowledge, close, unacknowledge
from app.alerting.people import Person
from app.alerting.recording.found import found_in
from app.alerting.recording.options import AlertingOptions
from app.alerting.recording.recorder import Recorder
from app.alerting.recording.report_rows import HISTORY
from app.live.unstored import Unstored
from app.store import Store
from tests.app.alerting.dispatch.world import MINUTE_MS, TREE, Told, World, deliver
from tests.app.alerting.test_incidents import QUERIES, cause, fetch, find
from tests.app.alerting_fixtures import FakeMatch, kept

ANN = Person("ann")
WAIT_MS, INTERVAL_MS = 30_000, 5 * MINUTE_MS
APART = TREE + "  routes:\n    - {matchers: [alertname=fetch], receiver: db}\n"


class Incidents(World):
    """With the queries of incidents; gaps are 10 ms, the clock stands still while alerts go on."""

    def new_dispatcher(self) -> Dispatcher:
        alerting = self.read(self.tree)
        return Dispatcher(self.store, Telling(Routing.of(alerting), alerting.receivers, 10**15), self.clock)

    def step(self, *matches: FakeMatch, watermark_ms: int | None = None) -> None:
        alerting = self.read(self.tree)
        options = AlertingOptions(QUERIES, alerting.receivers, max_age_ms=10**15, routing=Routing.of(alerting))
        rest = Unstored(100 if watermark_ms is None else watermark_ms, found_in(matches, QUERIES, find=find))
        with self.store.transaction() as writer:
            rest.store_part(Recorder(options, writer, kept, self.now_ms))

    def told(self, ms: int) -> list[Told]:
        """Receiver, reason, and the alerts by their titles."""
        n_before = len(self.store.notifications())
        self.wait(ms)
        return [
            (row.receiver, row.payload["group"]["reason"], {a["summary"]: a["state"] for a in row.payload["alerts"]})
            for row in self.store.notifications()[n_before:]
        ]

    def new_messages(self) -> list[Told]:
        deliver(self.store)
        return []


A, B = fetch("a", 100), fetch("b", 105)


def test_alerts_that_join_within_the_group_wait_are_not_told(any_store: Store) -> None:
    world = Incidents(any_store)
    world.step(A)
    assert world.told(10_000) == []
    world.step(B, cause(A, B))
    assert world.told(WAIT_MS) == [("ops", "first notification", {"n5 is slow": "firing"})]
    (message,) = any_store.notifications()
    assert message.payload["alerts"][0]["incident"]["n_members"] == 2
    world.step(watermark_ms=1_000)
    world.step(watermark_ms=1_000)
    assert world.told(INTERVAL_MS) == [("ops", "all alerts resolved", {"n5 is slow": "resolved"})]
    assert any_store.alert_groups() == []


def test_what_was_told_before_goes_on_in_the_thread_of_its_group(any_store: Store) -> None:
    world = Incidents(any_store)
    world.step(A)
    assert world.told(WAIT_MS) == [("ops", "first notification", {"fetch of a": "firing"})]
    world.step(B, cause(A, B))
    assert world.told(INTERVAL_MS) == [("ops", "new alerts added", {"n5 is slow": "firing"})]
    first, second = any_store.notifications()
    assert first.fingerprint == second.fingerprint  # PagerDuty's dedup_key, a mail's thread
    world.step(watermark_ms=1_000)
    over = {"n5 is slow": "resolved", "fetch of a": "resolved"}
    assert world.told(2 * INTERVAL_MS) == [("ops", "all alerts resolved", over)]


def test_who_does_not_hear_of_the_incident_is_told_of_its_alerts(any_store: Store) -> None:
    world = Incidents(any_store, APART)
    world.step(A, B, cause(A, B))
    told = sorted(world.told(WAIT_MS))
    assert told == [
        ("db", "first notification", {"fetch of a": "firing", "fetch of b": "firing"}),
        ("ops", "first notification", {"n5 is slow": "firing"}),
    ]


def test_an_acknowledged_incident_and_its_alerts_are_neither_repeated_nor_told(store: Store) -> None:
    world = Incidents(store)
    world.step(A, B, cause(A, B))
    world.told(WAIT_MS)
    (incident,) = [alert for alert in store.alerts() if alert.is_incident]
    acknowledge(store, incident.id, ANN, "", world.now_ms)
    assert world.told(10 * 60 * MINUTE_MS) == []


def test_an_incident_that_nobody_looks_after_any_more_is_told_with_its_alerts(any_store: Store) -> None:
    world = Incidents(any_store, APART)
    world.step(A, B, cause(A, B))
    (incident,) = [alert for alert in any_store.alerts() if alert.is_incident]
    acknowledge(any_store, incident.id, ANN, "", world.now_ms)
    assert world.told(WAIT_MS) == []
    unacknowledge(any_store, incident.id, ANN, "", world.now_ms)
    world.restart()
    world.step()
    assert sorted(world.told(WAIT_MS)) == [
        ("db", "first notification", {"fetch of a": "firing", "fetch of b": "firing"}),
        ("ops", "first notification", {"n5 is slow": "firing"}),
    ]


def test_an_incident_that_was_closed_is_told_to_be_over_to_all_who_heard_of_it(any_store: Store) -> None:
    world = Incidents(any_store, APART)
    world.step(A, B, cause(A, B))
    world.told(WAIT_MS)
    (incident,) = [alert for alert in any_store.alerts() if alert.is_incident]
    close(any_store, incident.id, ANN, "", world.now_ms)
    world.restart()
    world.step()
    assert sorted(world.told(INTERVAL_MS)) == [
        ("db", "all alerts resolved", {"fetch of a": "resolved", "fetch of b": "resolved"}),
        ("ops", "all alerts resolved", {"n5 is slow": "resolved"}),
    ]


def test_when_it_fires_again_all_are_told_who_hear_of_it_or_of_its_alerts(store: Store) -> None:
    world = Incidents(store, APART)
    world.step(A, B, cause(A, B))
    world.told(WAIT_MS)
    (incident,) = [alert for alert in store.alerts() if alert.is_incident]
    close(store, incident.id, ANN, "", world.now_ms)
    world.step()
    world.told(INTERVAL_MS)
    again = fetch("a", 108)
    world.step(again, cause(again, B))
    assert sorted((to, alerts) for to, _, alerts in world.told(INTERVAL_MS)) == [
        ("db", {"fetch of a": "firing"}),
        ("ops", {"n5 is slow": "firing"}),
    ]


def test_a_disabled_incident_leaves_alerts_that_are_told(store: Store) -> None:
    world = Incidents(store)
    world.step(A, B, cause(A, B))
    world.told(WAIT_MS)
    without = {name: QUERIES[name] for name in ("fetch", "lost")}
    alerting = world.read(world.tree)
    options = AlertingOptions(without, alerting.receivers, max_age_ms=10**15, routing=Routing.of(alerting))
    with store.transaction() as writer:
        recorder = Recorder(options, writer, kept, world.now_ms)
        recorder.settle_changed_queries()
        Unstored(100, found_in([], without)).store_part(recorder)
    told = world.told(INTERVAL_MS)
    assert ("ops", "first notification", {"fetch of a": "firing", "fetch of b": "firing"}) in told


def test_who_does_not_hear_of_a_finished_jobs_incident_is_told_of_its_alerts(any_store: Store) -> None:
    world = Incidents(any_store, APART)
    alerting = world.read(world.tree)
    options = AlertingOptions(QUERIES, alerting.receivers, max_age_ms=10**15, routing=Routing.of(alerting))
    found = found_in([A, B, cause(A, B)], QUERIES, HISTORY, find=find)
    with any_store.transaction() as writer:
        Recorder(options, writer, kept, world.now_ms).join_complete(found.episodes, kept)
    assert sorted(world.told(WAIT_MS)) == [
        ("db", "first notification", {"fetch of a": "firing", "fetch of b": "firing"}),
        ("ops", "first notification", {"n5 is slow": "firing"}),
    ]
    world.step(watermark_ms=1_000)
    over = [("db", {"fetch of a": "resolved", "fetch of b": "resolved"}), ("ops", {"n5 is slow": "resolved"})]
    assert sorted((to, of) for to, _, of in world.told(INTERVAL_MS)) == over
    assert not any(row.inhibited or row.open for row in any_store.alerts())


MUTED = """  routes:
    - {matchers: [alertname=cause], receiver: ops, mute_time_intervals: [always], continue: false}
time_intervals: [{name: always, time_intervals: [{times: [{start_time: "00:00", end_time: "24:00"}]}]}]
"""


def test_while_the_route_of_an_incident_is_muted_its_alerts_are_told(any_store: Store) -> None:
    world = Incidents(any_store, TREE + MUTED)
    world.step(A, B, cause(A, B))
    assert world.told(WAIT_MS) == [("ops", "first notification", {"fetch of a": "firing", "fetch of b": "firing"})]


PAGED = TREE + "  routes:\n    - {matchers: [alertname=cause], receiver: ops, escalate_to: db, escalate_after: 15m}\n"


def test_an_incident_is_escalated_by_its_own_route_whatever_was_told_before(any_store: Store) -> None:
    world = Incidents(any_store, PAGED)
    world.step(A)
    world.told(WAIT_MS)
    world.step(B, cause(A, B))
    told = world.told(30 * MINUTE_MS)
    assert [to for to, _, of in told if "n5 is slow" in of] == ["ops", "db"]
