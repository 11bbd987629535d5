"""Incidents: alerts behind one cause are told as one, and none is lost by it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from app.alerting.case import case_of
from app.alerting.catalog import QueryInfo
from app.alerting.links import Links
from app.alerting.operations import acknowledge, assign, close, unacknowledge
from app.alerting.people import Person
from app.alerting.receivers.news import News, facts_of
from app.alerting.recording.episodes import BoundMatch, FindMatch, canonical_key
from app.alerting.recording.found import found_in
from app.alerting.recording.incidents import IncidentMembers
from app.alerting.recording.options import AlertingOptions
from app.alerting.recording.recorder import Recorder
from app.alerting.recording.report_rows import HISTORY
from app.alerting.recording.set_aside import from_table, to_table
from app.live.unstored import Unstored
from app.settings import Retention, Severity
from app.store import Store
from app.store.api import AlertFilter
from app.store.models import AlertRow
from app.store.retention import apply_retention
from tests.app.alerting_fixtures import GAP_MS, FakeMatch, kept, receiver

QUERIES = {
    "fetch": QueryInfo("fetch", "f", Severity.WARNING, "fetch of {task_id}", GAP_MS),
    "lost": QueryInfo("lost", "l", Severity.CRITICAL, "{task_id} is lost", GAP_MS),
    "cause": QueryInfo(
        "cause", "c", Severity.INFO, "{host} is slow", GAP_MS, depth=1, binds=frozenset({"fetch", "lost"})
    ),
    "other": QueryInfo("other", "o", Severity.INFO, "{host}", GAP_MS, depth=1, binds=frozenset({"fetch"})),
}
OPTIONS = AlertingOptions(QUERIES, {"ops": receiver()})
ANN, BOB = Person("ann"), Person("bob")


def fetch(task: str, at_ms: int, query: str = "fetch", host: str = "n5") -> FakeMatch:
    """A match of a query that raises alerts, known to incidents by its task and time."""
    match_id = f"{query} {task} {at_ms}"
    return FakeMatch(at_ms, at_ms, query, (("task_id", task),), {"a": (match_id,)}, values={"host": host})


def cause(*matches: FakeMatch, host: str = "n5", query: str = "cause") -> FakeMatch:
    """A match of the incident that binds these."""
    ids = tuple(match.bindings["a"][0] for match in matches)
    first_ms, last_ms = min(m.first_lo_ms for m in matches), max(m.last_hi_ms for m in matches)
    return FakeMatch(first_ms, last_ms, query, (("host", host),), {"a": ids}, values={"host": host})


def find(match_id: str) -> BoundMatch | None:
    """What the pipeline knows of a match by its id."""
    query, task, at_ms = match_id.split(" ")
    return BoundMatch(query, canonical_key((("task_id", task),)), int(at_ms))


def step(
    store: Store,
    matches: Sequence[FakeMatch],
    watermark_ms: int,
    options: AlertingOptions = OPTIONS,
    *,
    failed: Sequence[str] = (),
    known: FindMatch = find,
) -> None:
    """One step of the live path, all of it in one transaction."""
    rest = Unstored(watermark_ms, found_in(matches, options.queries, find=known))
    with store.transaction() as writer:
        recorder = Recorder(options, writer, kept, watermark_ms)
        recorder.settle_changed_queries()
        recorder.end_failed_incidents(failed)
        rest.store_part(recorder)


def told(store: Store) -> list[tuple[str, str]]:
    """(title, state) of all messages, in their order."""
    ordered = sorted(store.notifications(), key=lambda message: message.sequence)
    return [(message.payload["summary"], message.state) for message in ordered]


def alert(store: Store, summary: str) -> AlertRow:
    (found,) = [row for row in store.alerts() if row.summary == summary]
    return found


def members(store: Store, incident: str) -> set[str]:
    with store.transaction() as writer:
        return {row.summary for row in writer.incidents.members(alert(store, incident).id)}


A, B, C = fetch("a", 100), fetch("b", 105), fetch("c", 108)


def test_alerts_of_the_step_that_finds_their_incident_are_told_with_it_alone(any_store: Store) -> None:
    step(any_store, [A, B, cause(A, B)], 110)
    assert told(any_store) == [("n5 is slow", "firing")]
    assert members(any_store, "n5 is slow") == {"fetch of a", "fetch of b"}
    assert alert(any_store, "fetch of a").incident_id == alert(any_store, "n5 is slow").id
    step(any_store, [], 200)
    step(any_store, [], 201)
    assert told(any_store) == [("n5 is slow", "firing"), ("n5 is slow", "resolved")]
    assert {row.state for row in any_store.alerts()} == {"resolved"}


def test_alerts_whose_matches_it_does_not_bind_are_told(store: Store) -> None:
    step(store, [A, B, C, cause(A, B)], 110)
    assert sorted(told(store)) == [("fetch of c", "firing"), ("n5 is slow", "firing")]


def test_what_was_told_before_goes_on_in_the_thread_of_its_first_alert_and_is_not_told_again(any_store: Store) -> None:
    step(any_store, [A], 101)
    step(any_store, [B], 106)
    step(any_store, [cause(A, B)], 107)
    assert told(any_store) == [("fetch of a", "firing"), ("fetch of b", "firing"), ("n5 is slow", "firing")]
    first, _, incident = sorted(any_store.notifications(), key=lambda message: message.sequence)
    assert incident.payload["thread"] == first.fingerprint != incident.fingerprint
    step(any_store, [fetch("a", 109), cause(fetch("a", 109), B)], 110)  # it grows: nobody is told
    assert len(told(any_store)) == 3
    step(any_store, [], 200)
    assert told(any_store)[3:] == [
        ("n5 is slow", "resolved"),
        *sorted([("fetch of a", "resolved"), ("fetch of b", "resolved")], key=lambda of: alert(any_store, of[0]).id),
    ]
    over = max(any_store.notifications(), key=lambda message: message.payload["summary"] == "n5 is slow")
    assert over.payload["thread"] == first.fingerprint


def test_it_does_not_go_on_in_the_thread_of_what_was_told_to_be_over(store: Store) -> None:
    step(store, [A], 101)
    step(store, [], 115)
    step(store, [fetch("b", 114), cause(A, fetch("b", 114))], 116)
    assert told(store)[:2] == [("fetch of a", "firing"), ("fetch of a", "resolved")]
    assert store.notifications()[-1].payload["thread"] is None
    assert members(store, "n5 is slow") == {"fetch of a", "fetch of b"}


def test_an_incident_goes_on_as_long_as_one_of_its_alerts(store: Store) -> None:
    step(store, [A, B, cause(A, B)], 110)
    step(store, [fetch("a", 109)], 110)
    step(store, [fetch("a", 118)], 119)
    assert alert(store, "n5 is slow").state == "firing"
    assert alert(store, "fetch of b").state == "resolved"
    step(store, [fetch("a", 127), fetch("b", 127), cause(fetch("a", 127), fetch("b", 127))], 128)
    assert len([row for row in store.alerts() if row.query == "cause"]) == 1  # it is the same incident still
    assert told(store) == [("n5 is slow", "firing")]
    step(store, [], 200)
    assert told(store)[-1] == ("n5 is slow", "resolved")


@pytest.mark.parametrize("severity", list(Severity))
def test_an_incident_is_as_severe_as_the_most_severe_alert_behind_it(store: Store, severity: Severity) -> None:
    queries = {**QUERIES, "fetch": replace(QUERIES["fetch"], severity=severity)}
    step(store, [A, B, cause(A, B)], 110, replace(OPTIONS, queries=queries))
    incident = alert(store, "n5 is slow")
    assert (incident.severity, incident.labels["severity"]) == (severity.value, severity.value)


def test_a_more_severe_alert_is_never_hidden(any_store: Store) -> None:
    step(any_store, [A, B, cause(A, B)], 110)
    lost = fetch("d", 111, "lost")
    step(any_store, [lost, cause(A, lost)], 112)
    assert told(any_store) == [("n5 is slow", "firing"), ("d is lost", "firing")]
    assert "d is lost" in members(any_store, "n5 is slow")
    assert not alert(any_store, "d is lost").inhibited
    step(any_store, [], 200)
    assert sorted(told(any_store)[2:]) == [("d is lost", "resolved"), ("n5 is slow", "resolved")]


def test_one_that_was_told_by_itself_is_not_told_twice_when_it_joins_a_less_severe_incident(store: Store) -> None:
    lost = fetch("d", 104, "lost")
    step(store, [lost], 105)
    step(store, [A, B, cause(A, B)], 110)
    step(store, [cause(A, lost)], 111)
    assert told(store) == [("d is lost", "firing"), ("n5 is slow", "firing")]


def test_when_its_query_is_disabled_its_alerts_fire_as_if_there_were_none(any_store: Store) -> None:
    step(any_store, [A, B, cause(A, B)], 110)
    without = replace(OPTIONS, queries={name: QUERIES[name] for name in ("fetch", "lost")})
    step(any_store, [], 110, without)
    assert told(any_store)[1] == ("n5 is slow", "resolved")
    assert sorted(told(any_store)[2:]) == [("fetch of a", "firing"), ("fetch of b", "firing")]
    step(any_store, [], 110, without)
    assert len(told(any_store)) == 4
    step(any_store, [], 200, without)
    assert sorted(told(any_store)[4:]) == [("fetch of a", "resolved"), ("fetch of b", "resolved")]


def test_when_its_query_fails_its_alerts_are_told(store: Store) -> None:
    step(store, [A], 101)
    step(store, [B, cause(A, B)], 110)
    step(store, [], 110, failed=["cause", "fetch"])
    ended = [("n5 is slow", "resolved"), ("fetch of a", "firing"), ("fetch of b", "firing")]
    assert told(store)[:3] == [("fetch of a", "firing"), ("n5 is slow", "firing"), ended[0]]
    assert sorted(told(store)[3:]) == ended[1:]  # a too: the end of the incident was told in its thread
    assert "has failed" in store.alert(alert(store, "n5 is slow").id).changes[-1].reason


def test_without_knowing_its_matches_its_alerts_are_told(store: Store) -> None:
    step(store, [A, B, cause(A, B)], 110, known=lambda _match: None)
    assert sorted(told(store)) == [("fetch of a", "firing"), ("fetch of b", "firing"), ("n5 is slow", "firing")]


def test_acknowledging_an_incident_acknowledges_what_it_is_told_in_place_of(any_store: Store) -> None:
    step(any_store, [A, B, C, cause(A, B)], 110)
    acknowledge(any_store, alert(any_store, "n5 is slow").id, ANN, "on it", 111)
    assert {row.summary: row.state for row in any_store.alerts()} == {
        "n5 is slow": "acknowledged",
        "fetch of a": "acknowledged",
        "fetch of b": "acknowledged",
        "fetch of c": "firing",
    }
    change = any_store.alert(alert(any_store, "fetch of a").id).changes[-1]
    assert (change.actor, change.reason.startswith("on it (with the incident ")) == ("ann", True)
    step(any_store, [], 112, replace(OPTIONS, queries={name: QUERIES[name] for name in ("fetch", "lost")}))
    assert ("fetch of a", "firing") not in told(any_store)


def test_a_member_that_is_acknowledged_says_nothing_of_the_others(store: Store) -> None:
    step(store, [A, B, cause(A, B)], 110)
    acknowledge(store, alert(store, "fetch of a").id, ANN, "", 111)
    assert [alert(store, of).state for of in ("fetch of a", "fetch of b", "n5 is slow")] == [
        "acknowledged",
        "firing",
        "firing",
    ]


def states(store: Store) -> dict[str, str]:
    return {row.summary: row.state for row in store.alerts()}


def test_unacknowledging_an_incident_undoes_what_was_acknowledged_with_it(any_store: Store) -> None:
    step(any_store, [A, B, C, cause(A, B, C)], 110)
    ids = {row.summary: row.id for row in any_store.alerts()}
    acknowledge(any_store, ids["fetch of a"], ANN, "mine", 111)
    acknowledge(any_store, ids["n5 is slow"], ANN, "on it", 112)
    assert set(states(any_store).values()) == {"acknowledged"}
    assign(any_store, ids["fetch of b"], "bob", ANN, "", 113)  # which changes nothing of it
    unacknowledge(any_store, ids["n5 is slow"], BOB, "ann is ill", 114)
    assert states(any_store) == {
        "n5 is slow": "firing",
        "fetch of a": "acknowledged",
        "fetch of b": "firing",
        "fetch of c": "firing",
    }
    change = any_store.alert(ids["fetch of c"]).changes[-1]
    assert (change.actor, change.reason) == ("bob", f"ann is ill (with the incident {ids['n5 is slow'][:8]})")
    step(any_store, [], 110)
    assert told(any_store) == [("n5 is slow", "firing")] * 2


def test_what_was_acknowledged_anew_since_stays_so(store: Store) -> None:
    step(store, [A, B, cause(A, B)], 110)
    ids = {row.summary: row.id for row in store.alerts()}
    acknowledge(store, ids["n5 is slow"], ANN, "", 111)
    unacknowledge(store, ids["fetch of a"], BOB, "", 112)
    acknowledge(store, ids["fetch of a"], BOB, "", 113)
    unacknowledge(store, ids["n5 is slow"], ANN, "", 114)
    assert states(store) == {"n5 is slow": "firing", "fetch of a": "acknowledged", "fetch of b": "firing"}


def test_closing_an_incident_closes_what_it_hides(any_store: Store) -> None:
    lost = fetch("d", 104, "lost")
    step(any_store, [A], 101)
    step(any_store, [lost, B, C, cause(A, B, C)], 110)
    step(any_store, [cause(A, lost)], 110)  # more severe: told beside it
    assert sorted(told(any_store)) == [("d is lost", "firing"), ("fetch of a", "firing"), ("n5 is slow", "firing")]
    acknowledge(any_store, alert(any_store, "fetch of b").id, BOB, "", 110)
    close(any_store, alert(any_store, "n5 is slow").id, ANN, "node5 was restarted", 110)
    assert {of for of, state in states(any_store).items() if state != "resolved"} == {"d is lost"}
    for _ in range(2):
        step(any_store, [], 110)
        assert sorted(told(any_store)[3:]) == [("fetch of a", "resolved"), ("n5 is slow", "resolved")]
    assert not any(row.inhibited for row in any_store.alerts())
    step(any_store, [], 300)
    assert sorted(told(any_store)[5:]) == [("d is lost", "resolved")]


def test_a_member_that_matches_again_after_its_incident_was_closed_is_told(any_store: Store) -> None:
    step(any_store, [A, B, cause(A, B)], 106)
    close(any_store, alert(any_store, "n5 is slow").id, ANN, "", 107)
    step(any_store, [fetch("a", 108)], 109)
    assert states(any_store) == {"n5 is slow": "resolved", "fetch of a": "firing", "fetch of b": "resolved"}
    assert sorted(told(any_store)[1:]) == [("fetch of a", "firing"), ("n5 is slow", "resolved")]
    step(any_store, [fetch("a", 109)], 110)
    assert len(told(any_store)) == 3


def test_an_incident_that_fires_again_is_told_in_place_of_its_members_again(any_store: Store) -> None:
    step(any_store, [A, B, cause(A, B)], 106)
    close(any_store, alert(any_store, "n5 is slow").id, ANN, "", 107)
    step(any_store, [], 107)
    again = fetch("a", 108)
    step(any_store, [again, cause(again, B)], 109)
    assert states(any_store) == {"n5 is slow": "firing", "fetch of a": "firing", "fetch of b": "resolved"}
    assert alert(any_store, "fetch of a").inhibited
    step(any_store, [fetch("b", 110)], 110)  # it goes on, and is told in the place of this one too
    assert alert(any_store, "fetch of b").inhibited
    assert ("fetch of b", "firing") not in told(any_store)


def test_an_incident_that_was_closed_by_hand_covers_nothing(any_store: Store) -> None:
    step(any_store, [A, B, cause(A, B)], 106)
    first = alert(any_store, "n5 is slow")
    close(any_store, first.id, ANN, "", 107)
    early = fetch("e", 104)  # so that its incident does not fire again
    step(any_store, [early, cause(A, early), cause(A, B, query="other", host="n6")], 108)
    assert alert(any_store, "n5 is slow").state == "resolved"
    assert sorted(told(any_store)[1:]) == [("fetch of e", "firing"), ("n5 is slow", "resolved"), ("n6", "firing")]
    for summary in ("fetch of e", "n6"):
        changes = any_store.alert(alert(any_store, summary).id).changes
        assert not any("told in its place" in change.reason for change in changes)
    assert alert(any_store, "n6").incident_id is None


def test_what_a_person_does_to_an_incident_is_done_to_those_that_are_part_of_it(any_store: Store) -> None:
    step(any_store, [A, B, C, cause(A, B, C)], 110)
    step(any_store, [cause(A, B, query="other", host="n6")], 110)
    ids = {row.summary: row.id for row in any_store.alerts()}
    acknowledge(any_store, ids["n5 is slow"], ANN, "", 112)
    assert set(states(any_store).values()) == {"acknowledged"}
    unacknowledge(any_store, ids["n5 is slow"], ANN, "", 113)
    assert set(states(any_store).values()) == {"firing"}
    close(any_store, ids["n5 is slow"], ANN, "", 114)
    assert set(states(any_store).values()) == {"resolved"}
    step(any_store, [], 110)
    assert set(told(any_store)) == {("n5 is slow", "firing"), ("n5 is slow", "resolved")}


def test_alerts_of_another_incident_that_goes_on_stay_as_they_are(store: Store) -> None:
    step(store, [A, B, C, cause(A, B)], 110)
    step(store, [cause(B, C, query="other", host="n6")], 111)
    close(store, alert(store, "n5 is slow").id, ANN, "", 112)
    assert states(store) == {
        "n5 is slow": "resolved",
        "n6": "firing",
        "fetch of a": "resolved",
        "fetch of b": "firing",
        "fetch of c": "firing",
    }


def test_of_two_incidents_of_which_one_explains_nothing_more_it_is_part_of_the_other(any_store: Store) -> None:
    step(any_store, [A, B, C, cause(A, B, C)], 110)
    step(any_store, [cause(A, B, query="other", host="n6")], 111)
    assert told(any_store) == [("n5 is slow", "firing")]
    inner = alert(any_store, "n6")
    assert (inner.inhibited, inner.incident_id) == (True, alert(any_store, "n5 is slow").id)
    step(any_store, [], 200)
    assert told(any_store) == [("n5 is slow", "firing"), ("n5 is slow", "resolved")]


def test_incidents_never_hide_each_other(store: Store) -> None:
    step(store, [A, B, cause(A, B), cause(A, B, query="other", host="n6")], 110)
    step(store, [C, cause(B, C, query="other", host="n6")], 111)
    step(store, [cause(A, B, C)], 112)
    step(store, [cause(A, B, C, query="other", host="n6")], 113)
    hidden = {row.summary for row in store.alerts() if row.inhibited}
    assert hidden in ({"fetch of a", "fetch of b", "fetch of c", inner} for inner in ("n6", "n5 is slow"))


def test_a_member_that_merges_with_another_alert_stays_one(any_store: Store) -> None:
    late = fetch("a", 130)
    step(any_store, [A, late, cause(A, C), C], 90)
    bridge = FakeMatch(100, 130, "fetch", (("task_id", "a"),), {"a": ("fetch a 130",)}, values={})
    step(any_store, [bridge], 91)
    with any_store.transaction() as writer:
        found = writer.incidents.members(alert(any_store, "n5 is slow").id)
    assert {row.summary for row in found} >= {"fetch of a", "fetch of c"}
    assert ("fetch of a", "resolved") not in told(any_store)[:1]
    step(any_store, [], 300)
    assert [state for title, state in told(any_store) if title == "n5 is slow"] == ["firing", "resolved"]
    assert not any(row.inhibited or row.open for row in any_store.alerts())


def merged(store: Store, into: str, other: str) -> None:
    """As when a match bridges two alerts."""
    with store.transaction() as writer:
        rows = {row.summary: row for row in writer.alerts.by_ids([alert(store, name).id for name in (into, other)])}
        IncidentMembers(writer, lambda _alert, _change: None, 120).merge(rows[into], rows[other])


def above(store: Store, incident: str) -> set[str]:
    with store.transaction() as writer:
        titles = {row.id: row.summary for row in store.alerts()}
        return {titles[of] for of in writer.incidents.above(alert(store, incident).id)}


def test_incidents_that_merge_are_never_part_of_themselves(any_store: Store) -> None:
    """The first has the second as its part, which has the third: the first and the third become one."""
    step(any_store, [A, cause(A), B, cause(B, host="n6"), C, cause(C, query="other", host="n7")], 110)
    first, second, third = (alert(any_store, title).id for title in ("n5 is slow", "n7", "n6 is slow"))
    with any_store.transaction() as writer:
        writer.incidents.add(first, second, 110, covered=True)
        writer.incidents.add(second, third, 110, covered=True)
    merged(any_store, "n6 is slow", "n5 is slow")
    assert above(any_store, "n6 is slow") == set()
    assert above(any_store, "n7") == {"n6 is slow"}
    assert members(any_store, "n6 is slow") == {"fetch of a", "fetch of b", "n7"}


def test_an_incident_that_takes_over_another_hides_nothing_more_severe(any_store: Store) -> None:
    worse = fetch("a", 100, "lost")
    step(any_store, [worse, cause(worse), B, cause(B, host="n6")], 110)
    assert alert(any_store, "n5 is slow").severity == "critical"
    assert alert(any_store, "n6 is slow").severity == "warning"
    merged(any_store, "n6 is slow", "n5 is slow")
    with any_store.transaction() as writer:
        covered = {row.alert_id: row.covered for row, *_ in writer.incidents.around(alert(any_store, "n6 is slow").id)}
    assert covered == {alert(any_store, "a is lost").id: False, alert(any_store, "fetch of b").id: True}


def test_alerts_of_a_finished_job_are_told_as_one_incident(store: Store) -> None:
    found = found_in([A, B, cause(A, B)], QUERIES, HISTORY, find=find)
    for _ in range(2):  # known ones stay as they are
        with store.transaction() as writer:
            Recorder(OPTIONS, writer, kept, 110).join_complete(found.episodes, kept)
        step(store, [], 111)
        assert told(store) == [("n5 is slow", "firing"), ("n5 is slow", "resolved")]
    assert members(store, "n5 is slow") == {"fetch of a", "fetch of b"}
    assert not any(row.open or row.inhibited for row in store.alerts())


def test_every_part_of_a_step_may_be_the_last(store: Store) -> None:
    """A step cut into transactions of one alert each, set aside and read again before each: as in one transaction."""
    matches = [A, B, C, cause(A, B), fetch("d", 103)]
    found = found_in(matches, QUERIES, find=find)
    progress: dict[str, Any] = {}
    rest = Unstored(110, found, most_alerts=1)
    while not rest.is_stored:
        table = to_table(found, QUERIES, 200)
        rest = Unstored.restored(110, from_table(table), [], progress, lambda _history: pytest.fail("none"), 1)
        with store.transaction() as writer:
            rest.store_part(Recorder(OPTIONS, writer, kept, 110))
        progress = rest.progress()
    assert sorted(told(store)) == [("fetch of c", "firing"), ("fetch of d", "firing"), ("n5 is slow", "firing")]
    assert members(store, "n5 is slow") == {"fetch of a", "fetch of b"}


def test_what_speaks_for_and_against_it(store: Store) -> None:
    odd = fetch("b", 105, host="n7")
    elsewhere = fetch("e", 106, host="n9")
    step(store, [A, odd, C, elsewhere, cause(A, odd, C)], 110)
    with store.transaction() as writer:
        case = case_of(writer.session, alert(store, "n5 is slow"))
    assert case["n_members"] == 3
    assert case["for"] == ["3 alerts: 3 fetch", "n5 is the first suspect of 2 of 3"]
    assert case["against"] == [
        "1 alert of it suspects another host first: n7",
        "at the same time 1 alert that it does not explain: 1 fetch (n9)",
    ]
    (message,) = [n for n in store.notifications() if n.payload["summary"] == "n5 is slow"]
    assert message.payload["incident"] == case


@pytest.mark.parametrize("at_once", [True, False])
def test_its_title_names_the_queries_behind_it(store: Store, at_once: bool) -> None:
    named = replace(QUERIES["cause"], summary="{host}: {queries}")
    options = replace(OPTIONS, queries={**QUERIES, "cause": named})
    lost = fetch("b", 105, "lost")
    for matches in (
        [[A, lost, C, cause(A, C), cause(C, lost)]] if at_once else [[A, C, cause(A, C)], [lost, cause(lost)]]
    ):
        step(store, matches, 110, options)
    assert [row.summary for row in store.alerts() if row.query == "cause"] == ["n5: fetch, lost"]


def test_several_that_suspect_another_host_are_counted(store: Store) -> None:
    odd = [fetch("b", 105, host="n7"), fetch("e", 106, host="n9")]
    step(store, [A, *odd, C, cause(A, *odd, C)], 110)
    with store.transaction() as writer:
        case = case_of(writer.session, alert(store, "n5 is slow"))
    assert case["against"] == ["2 alerts of it suspect another host first: n7, n9"]


def test_retention_takes_members_and_leaves_alerts_that_outlive_their_incident(any_store: Store) -> None:
    step(any_store, [A, B, cause(A, B)], 110)
    step(any_store, [], 200)
    with any_store.transaction() as writer:
        for message in any_store.notifications():
            writer.outbox.record_attempt(
                message.idempotency_key, message.receiver, status="delivered", error=None, next_attempt_ms=0, now_ms=1
            )
        late = writer.alerts.get(alert(any_store, "fetch of b").id)
        assert late is not None
        late.updated_ms = 2 * 10**15
        writer.session.flush()
        apply_retention(writer.session, Retention(), 10**15)
    (left,) = any_store.alerts(AlertFilter(members=False))
    assert (left.summary, left.incident_id) == ("fetch of b", None)


def test_what_a_message_says_of_an_incident_for_people_and_for_programs(store: Store) -> None:
    step(store, [A], 101)
    step(store, [B, cause(A, B)], 110)
    first, message = sorted(store.notifications(), key=lambda found: found.sequence)
    news = News.of(message.payload, message.fingerprint, message.idempotency_key, "ops", 110, Links("http://d"))
    assert news.dedup_key == first.fingerprint
    told = dict(facts_of(news.alerts[0]))
    assert told["host"] == "n5"
    assert told["for it"] == "2 alerts: 2 fetch; n5 is the first suspect of 2 of 2"
    assert told["against it"] == "nothing known"
    assert told["alerts behind it"].count("fetch ") == 4  # the query's name with the id, and the title, of each
    annotations = news.webhook()["alerts"][0]["annotations"]
    ids = [alert(store, of).id for of in ("fetch of a", "fetch of b")]
    assert annotations["incident_alert_ids"].split(", ") == ids
    assert news.webhook()["version"] == "4"
