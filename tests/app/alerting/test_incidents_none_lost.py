"""Whatever becomes of an incident: of each alert somebody is told, by itself or by an incident in its place."""

from __future__ import annotations

from dataclasses import replace

from app.alerting.operations import close, silence
from app.alerting.people import Person
from app.alerting.recording.found import found_in
from app.alerting.recording.recorder import Recorder
from app.alerting.recording.report_rows import HISTORY
from app.store import Store
from tests.app.alerting.test_incidents import OPTIONS, QUERIES, A, B, C, alert, cause, fetch, find, members, step, told
from tests.app.alerting_fixtures import kept

ANN = Person("ann")
WITHOUT = replace(OPTIONS, queries={name: QUERIES[name] for name in ("fetch", "lost")})


def test_an_incident_that_goes_on_again_hides_its_alerts_again(any_store: Store) -> None:
    step(any_store, [A, B, cause(A, B)], 110)
    close(any_store, alert(any_store, "n5 is slow").id, ANN, "", 110)
    step(any_store, [], 110)
    n_before = len(any_store.notifications())
    again = fetch("a", 109), fetch("b", 112)
    step(any_store, [*again, cause(*again)], 113)
    sent = [message for message in any_store.notifications()[n_before:] if message.status == "pending"]
    assert [(message.payload["summary"], message.state) for message in sent] == [("n5 is slow", "firing")]
    assert alert(any_store, "fetch of a").inhibited


def test_a_query_that_raises_incidents_no_more_hides_nothing(any_store: Store) -> None:
    step(any_store, [A, B, cause(A, B)], 110)
    alone = replace(QUERIES["cause"], binds=frozenset())
    step(any_store, [], 110, replace(OPTIONS, queries={**QUERIES, "cause": alone}))
    assert sorted(told(any_store)[1:]) == [("fetch of a", "firing"), ("fetch of b", "firing")]
    assert not alert(any_store, "n5 is slow").is_incident


def test_a_query_that_raises_incidents_from_now_on_raises_whole_ones(store: Store) -> None:
    alone = replace(QUERIES["cause"], binds=frozenset())
    step(store, [cause(A)], 110, replace(OPTIONS, queries={**QUERIES, "cause": alone}))
    step(store, [A, B, cause(A, B)], 110)
    (incident,) = [row for row in store.alerts() if row.summary == "n5 is slow" and row.open]
    assert incident.is_incident
    assert {row.summary for row in store.alerts() if row.incident_id == incident.id} == {"fetch of a", "fetch of b"}


def test_what_was_silenced_when_its_incident_ended_is_told_when_the_silence_ends(any_store: Store) -> None:
    step(any_store, [A], 101)
    step(any_store, [B, cause(A, B)], 107)
    silence(any_store, alert(any_store, "fetch of a").id, 5, ANN, "", 108)
    step(any_store, [], 109, WITHOUT)
    assert ("fetch of a", "firing") not in told(any_store)[1:]
    step(any_store, [fetch("a", 109)], 110, WITHOUT)
    step(any_store, [], 114, WITHOUT)
    step(any_store, [], 115, WITHOUT)
    step(any_store, [], 116, WITHOUT)
    assert told(any_store)[1:].count(("fetch of a", "firing")) == 1


def test_an_alert_of_a_finished_job_is_told_where_its_incident_was_over_before(store: Store) -> None:
    step(store, [A, B, cause(A, B)], 110)
    step(store, [], 200)
    step(store, [], 201)
    found = found_in([A, B, C, cause(A, B, C)], QUERIES, HISTORY, find=find)
    with store.transaction() as writer:
        Recorder(OPTIONS, writer, kept, 210).join_complete(found.episodes, kept)
    step(store, [], 211)
    assert members(store, "n5 is slow") == {"fetch of a", "fetch of b", "fetch of c"}
    assert told(store)[2:] == [("fetch of c", "firing"), ("fetch of c", "resolved")]
    assert not any(row.inhibited or row.open for row in store.alerts())
