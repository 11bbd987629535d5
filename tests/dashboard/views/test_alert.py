"""The page of one alert, and its time line."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from sqlalchemy import update
from streamlit.testing.v1 import AppTest

from app.alerting.recording.evidence import KnownEvent
from app.store.api import AlertFilter
from app.store.models import AlertRow, EvidenceRow
from app.store.writing.writer import Writer
from dashboard.alerts import evidence
from dashboard.alerts.words import at_least_one, matches_meaning, meaning
from dashboard.charts.timeline import MAX_ROWS, TimedEvent, frame, rows_of, timeline
from dashboard.views import alert as alert_view
from tests.dashboard.conftest import HOSTILE, T0_MS, Raised, match
from tests.dashboard.job_fixtures import alert_row
from tests.dashboard.query_fixtures import (
    Installation,
    copied,
    facts,
    in_address,
    installation,
    links_of,
    lists,
    opened,
    rerun,
    tables,
    texts,
    view,
)

__all__ = ["installation"]  # a fixture


def alert_of(raised: Raised, task: str) -> AlertRow:
    return next(alert for alert in raised.store.alerts() if alert.key["task_id"] == task)


def table_with(test: AppTest, column: str) -> dict[str, list[str]]:
    return next(found for found in tables(test) if column in found)


# ----------------------------------------------------------------------- page


def test_it_tells_what_it_is_and_what_to_do(raised: Raised) -> None:
    alert = alert_of(raised, "t3")
    test = view("alert", id=alert.id)
    assert test.title[0].value == "t3 took 61000"
    shown = texts(test)
    assert "For at least 87 % of all times" in shown
    assert "Counting stopped" in shown
    assert "Look at `host`; **then**:" in shown.replace("\\", "")
    told = facts(test)
    assert (told["Query"], told["Began"], told["Last seen"]) == ("slow", "2023-11-14 22:15:02", "2023-11-14 22:15:02")
    assert (told["Matches"], told["At least one match"]) == ("at least 12", "at least 87 %")


def test_it_leads_where_its_messages_lead(raised: Raised) -> None:
    """Hosts have no page of Hadoop's: what `alerting.links` says of them, and the runbook, stand on the page, too."""
    raised.configure(
        "alerting:\n  runbook_url: https://wiki.example.org/{query}\n  links:\n"
        "    task_board: https://grafana.example.org/d/t?var-task={task_id}&to={end_ms}\n"
        "    nowhere: https://grafana.example.org/{no_such_value}\n"
    )
    alert = alert_of(raised, "t3")
    found = links_of(view("alert", id=alert.id))
    assert found["task board"] == f"https://grafana.example.org/d/t?var-task=t3&to={alert.end_ms}"
    assert found["runbook"] == "https://wiki.example.org/slow"
    assert "nowhere" not in found


def test_the_runbook_does_nothing_that_it_should_not(raised: Raised) -> None:
    shown = texts(view("alert", id=alert_of(raised, "t3").id))
    assert "](javascript" not in shown
    assert "<b>" not in shown
    assert ":red[" not in shown


def test_its_evidence_is_there(raised: Raised) -> None:
    test = view("alert", id=alert_of(raised, "t2").id)
    assert not test.dataframe, "it is made when it is opened"
    (table,) = opened(test, "events").dataframe
    events = table.value.to_dict("list")
    assert events["component"] == ["a", "b", "b"]
    assert events["from"][0] == "2023-11-14 22:13:20.000"
    assert events["to"] == ["exact", "2023-11-14 22:13:21.900", "2023-11-14 22:13:22.900"]
    codes = copied(test)
    assert codes[0] == "line of e3"  # the decisive one, before all else
    assert codes[-3:] == ["line of e1", "line of e2", "line of e3"]
    assert "yarn application -status application_1_0002" in codes
    assert len(test.get("vega_lite_chart")) == 1


def test_an_incident_shows_the_lines_behind_its_alerts(raised: Raised) -> None:
    """Its own events are matches, which have no line: one of each query behind it, the earliest alert's."""
    by_task = {alert.key["task_id"]: alert for alert in raised.store.alerts()}
    with raised.store.transaction() as writer:
        incident = writer.alerts.get(by_task["t4"].id)
        assert incident is not None
        incident.is_incident = True
        writer.session.execute(update(EvidenceRow).where(EvidenceRow.alert_id == incident.id).values(raw=None))
        for task in ("t2", "t3"):
            writer.incidents.add(incident.id, by_task[task].id, T0_MS, covered=True)
    test = view("alert", id=by_task["t4"].id)
    assert copied(test)[0] == "line of e3"
    assert any("on whose pages their lines stand" in text.value for text in test.caption)


def test_the_runbook_has_the_alerts_own_values(raised: Raised) -> None:
    alert = alert_of(raised, "t3")
    with raised.store.transaction() as writer:
        row = writer.alerts.get(alert.id)
        assert row is not None
        row.runbook = "Look at {host}: `mapred job -status {job}`, {no_such_value}."
    shown = [text.value.replace("\\", "") for text in view("alert", id=alert.id).markdown]
    assert "Look at node3: `mapred job -status job_1_0003`, {no_such_value}." in shown


def test_of_trends_it_leads_to_the_values_over_time(raised: Raised, monkeypatch: pytest.MonkeyPatch) -> None:
    alert = alert_of(raised, "t2")
    test = view("alert", id=alert.id)
    assert "The 3 events of the match shown." in texts(test)
    assert "Its values over time" not in links_of(test)
    for module in (alert_view, evidence):
        monkeypatch.setattr(module, "is_about_trends", lambda name: name == "slow")
    test = view("alert", id=alert.id)
    assert "The 3 events of the trends of the window shown." in texts(test)
    around_ms = 600_000
    given = {"name": "slow", "from": str(alert.start_ms - around_ms), "to": str(alert.end_ms + around_ms)}
    assert dict(parse_qsl(urlsplit(links_of(test)["Its values over time"]).query)) == given


def test_history_and_notifications(raised: Raised) -> None:
    test = view("alert", id=alert_of(raised, "t1").id)
    changes = table_with(test, "reason")
    assert changes["state"] == ["resolved", "firing"]
    assert changes["by"] == ["clustercep", "clustercep"]
    told = table_with(test, "receiver")
    assert (told["receiver"], told["told"], told["status"], told["attempts"]) == (
        ["ops", "ops"], ["firing", "resolved"], ["pending", "pending"], ["0", "0"],
    )  # fmt: skip


def test_values_with_their_units_read(raised: Raised) -> None:
    values = table_with(view("alert", id=alert_of(raised, "t2").id), "value")
    found = dict(zip(values["name"], values["value"], strict=True))
    assert found == {"task_id": "t2", "job_id": "job_1_0002", "host": "node2", "period_ms": "1 min 1 s"}


def test_other_alerts_of_its_job(raised: Raised) -> None:
    raised.record(
        match(2, 101_500, query="stuck", key=(("task_id", "t9"),)), watermark_ms=T0_MS + 100_000, now_ms=T0_MS + 1
    )
    test = view("alert", id=alert_of(raised, "t2").id)
    assert "Other alerts of this job" in [found.value for found in test.subheader]
    assert [row["title"] for row in lists(test)[-1]["rows"]] == ["t2 stands still"]


def test_acknowledged_from_its_page(raised: Raised) -> None:
    alert = alert_of(raised, "t2")
    test = view("alert", id=alert.id)
    test.text_input(key="alert-note").set_value("mine")
    test.button(key="alert-acknowledge").click()
    rerun(test)
    assert raised.store.alert(alert.id).changes[-1].reason == "mine"
    assert table_with(test, "reason")["state"] == ["acknowledged", "firing"]
    assert test.button(key="alert-acknowledge").disabled


def test_assigned_acknowledged_for_a_time_taken_back_and_closed_from_its_page(raised: Raised) -> None:
    alert = alert_of(raised, "t2")
    test = view("alert", id=alert.id)
    assert test.button(key="alert-unacknowledge").disabled
    test.text_input(key="alert-to").set_value("Bob \u202e<b>")
    test.button(key="alert-assign").click()
    rerun(test)
    assert raised.store.alert(alert.id).alert.assigned_to == "Bob <b>"
    test.selectbox(key="alert-ack-length").set_value("2 h")
    test.button(key="alert-acknowledge").click()
    rerun(test)
    found = raised.store.alert(alert.id).alert
    assert found.acknowledged_until_ms is not None
    assert found.acknowledged_until_ms - found.updated_ms == 7_200_000
    test.button(key="alert-unacknowledge").click()
    rerun(test)
    test.button(key="alert-close").click()
    rerun(test)
    assert test.button(key="alert-close").disabled
    history = [(change.to_state, change.actor) for change in raised.store.alert(alert.id).changes]
    assert history[1:] == [(state, "dashboard") for state in ("firing", "acknowledged", "firing", "resolved")]


def test_who_may_only_look_is_offered_nothing(raised: Raised) -> None:
    raised.configure("dashboard: {anonymous_role: viewer}")
    test = view("alert", id=alert_of(raised, "t2").id)
    assert "You may look" in texts(test)
    assert not [button for button in test.button if str(button.key).startswith("alert-")]


def test_a_change_is_told_and_shown_on_demand(raised: Raised) -> None:
    alert = alert_of(raised, "t2")
    told = AppTest.from_string(
        f"from dashboard.views.alert import _changed\n_changed({alert.id!r}, {alert.revision}, {alert.updated_ms})"
    )
    assert not rerun(told).info
    raised.record(watermark_ms=T0_MS + 10**6, now_ms=T0_MS + 10**6)
    assert rerun(told).info[0].value == "This alert changed: It is resolved now."


def test_a_beginning_of_the_id_is_enough_and_the_address_becomes_whole(raised: Raised) -> None:
    alert = alert_of(raised, "t2")
    test = view("alert", id=alert.id[:8])
    assert test.title[0].value == "t2 took 61000"
    assert in_address(test, "id") == alert.id


@pytest.mark.parametrize("wanted", ["", "nope", "0000000000", "%", "'", "<script>", "x" * 10_000, "\u202e\x00"])
def test_an_unknown_id_asks_for_another(raised: Raised, wanted: str) -> None:
    test = view("alert", id=wanted)
    assert test.title[0].value == "Alert"
    alert = alert_of(raised, "t2")
    test.text_input[0].set_value(alert.id[:6])
    test.button[0].click()
    rerun(test)
    assert test.title[0].value == "t2 took 61000"


def test_what_became_part_of_another_leads_there(empty: Raised) -> None:
    """Two episodes that a match bridges."""
    for after_ms in (0, 50_000):
        empty.record(match(1, after_ms), watermark_ms=T0_MS, now_ms=T0_MS + 1)
    bridge = match(1, 1_005, values={"task_id": "t1", "period_ms": 1})
    bridge = type(bridge)(bridge.first_lo_ms, T0_MS + 50_000, key=bridge.key, values=bridge.values)
    empty.record(bridge, watermark_ms=T0_MS, now_ms=T0_MS + 2)
    [part] = [alert for alert in empty.store.alerts() if alert.merged_into]
    test = view("alert", id=part.id)
    assert "which goes on for both" in texts(test)
    listed = view("alerts")
    assert [found.value for found in listed.subheader] == ["Open: 1 alert", "Over: 0 alerts"]


def test_evidence_that_is_no_longer_kept_is_said_so(empty: Raised) -> None:
    empty.record(match(1, 0), watermark_ms=T0_MS, now_ms=T0_MS, lookup=lambda ids: {})
    assert "None of its events are kept any more" in texts(view("alert", id=alert_of(empty, "t1").id))


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_texts_stay_texts(empty: Raised, text: str) -> None:
    def lookup(ids: Any) -> dict[str, KnownEvent]:
        named = {"host": text, "job_name": text, "raw": text, "origin": text}
        return {event_id: KnownEvent.of({"event_id": event_id, **times, **named}) for event_id in ids}

    times = {"type": "MapStart", "t_lo_ms": T0_MS, "t_hi_ms": T0_MS + 900}

    values = {"task_id": text, "job_id": text, "host": text, "period_ms": 1, "user": text}
    empty.record(match(1, 0, key=(("task_id", text),), values=values), watermark_ms=T0_MS, now_ms=T0_MS, lookup=lookup)
    test = view("alert", id=empty.store.alerts(AlertFilter())[0].id)
    for found in tables(test):
        for cell in (cell for column in found.values() for cell in column):
            assert cell.isprintable()
            assert len(cell) <= 1_000
    read_as_markdown = [*test.title, *test.markdown, *test.caption, *test.warning, *test.info]
    assert not any(re.search(r"\]\(javascript|(?<!\\)<script", found.value) for found in read_as_markdown)


@pytest.mark.parametrize(
    ("known", "changes", "short", "expected"),
    [
        (("certain", 1.0, 1.0), {"best_confidence": 1.0}, "certain", "Certain: whatever"),
        (("certain", 1.0, 1.0), {"best_confidence": 0.6, "n_matches": 2}, "certain", "one of the matches is."),
        (
            ("exact", 0.5, 0.5),
            {"best_confidence": 0.5},
            "50 %",
            "For 50 % of all times that they may have had, they do.",
        ),
        (
            ("exact", 0.75, 0.75),
            {"n_matches": 2},
            "75 %",
            "The best single match is real in 50 %.",
        ),
        (("bounds", 0.81, 0.972), {"n_matches": 9}, "81 to 97.2 %", "For between 81 and 97.2 % of all times"),
        (("bounds", 0.5, 1.0), {"n_matches": 9}, "at least 50 %", "the true one lies within these bounds."),
        (("bounds", 0.0, 1.0), {"n_matches": 9}, "unknown", "a share that is not known"),
        (("estimate", 0.5, 1.0), {"n_matches": 9}, "about 93 %", "two standard errors"),
    ],
)
def test_confidence_in_words(
    known: tuple[str, float, float], changes: dict[str, Any], short: str, expected: str
) -> None:
    method, lower, upper = known
    estimate = (0.93, 0.002) if method == "estimate" else (None, None)
    sure = {"at_least_one_method": method, "at_least_one_lower": lower, "at_least_one_upper": upper}
    sure |= {"at_least_one_estimate": estimate[0], "at_least_one_error": estimate[1]}
    alert = AlertRow(**{"n_matches": 1, "n_matches_exact": True, "best_confidence": 0.5, **sure, **changes})
    assert at_least_one(alert) == short
    assert expected in meaning(alert)
    assert matches_meaning(alert)


def test_the_lookup_of_an_alert_is_not_a_pattern(raised: Raised) -> None:
    with raised.store.transaction() as writer:
        assert isinstance(writer, Writer)
    assert view("alert", id="____").warning


# ----------------------------------------------------------------- time line


def event(variable: str, lo_ms: int, hi_ms: int, host: str | None = None) -> TimedEvent:
    return TimedEvent(variable, "T", lo_ms, hi_ms, host, {"host": host or "", "attributes": "x=1"})


def test_intervals_are_bars_and_exact_events_points() -> None:
    events = [event("a", T0_MS, T0_MS), event("b", T0_MS + 1, T0_MS + 5_000)]
    data = frame(events)
    assert list(data["kind"]) == ["exact", "interval"]
    assert [time.value // 10**6 for time in data["to"]] == [T0_MS, T0_MS + 5_000]
    drawn = timeline(events).to_dict()
    assert [layer["mark"]["type"] for layer in drawn["layer"]] == ["bar", "point"]
    assert drawn["layer"][0]["encoding"]["x2"] == {"field": "to"}


def test_a_row_per_component_and_per_host_where_they_differ() -> None:
    events = [event("a", 1, 1, "n1"), event("b", 1, 1, "n1"), event("b", 2, 2, "n2"), event("b", 3, 3)]
    assert rows_of(events) == ["a: T", "b: T, n1", "b: T, n2", "b: T"]


def test_too_many_hosts_share_their_components_row() -> None:
    events = [event("b", i, i, f"n{i}") for i in range(MAX_ROWS + 1)]
    assert set(rows_of(events)) == {"b: T"}
    assert len(set(rows_of(events[:-1]))) == MAX_ROWS


def test_a_single_moment_still_has_a_width() -> None:
    drawn = timeline([event("a", T0_MS, T0_MS)]).to_dict()
    low, high = drawn["layer"][0]["encoding"]["x"]["scale"]["domain"]
    assert high - low == 500


def test_what_is_measured_has_its_unit_and_what_is_unknown_no_row(installation: Installation) -> None:
    """As in its title: 43.48 alone is no deviation of a load in percent."""
    values = {"unit": "%", "std_now": 43.4843, "value_1": 92.9567, "value_2": None, "queue_time_ms": 0.1739}
    with installation.store() as store, store.transaction() as writer:
        writer.alerts.add(alert_row("a1" * 16, values=values))
    page = view("alert", id="a1" * 16)
    table = table_with(page, "value")
    assert dict(zip(table["name"], table["value"], strict=True)) == {
        "unit": "%", "std_now": "43.48 %", "value_1": "92.96 %", "queue_time_ms": "0.17 ms",
    }  # fmt: skip
    assert "Not known: value_2." in texts(page).replace("\\", "")
