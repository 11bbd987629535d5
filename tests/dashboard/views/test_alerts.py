"""The page of alerts: what it lists, what its address says, and what is done with selected rows."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from unittest.mock import patch

import pytest
from streamlit.testing.v1 import AppTest

from app.alerting.operations import SilenceEdit, acknowledge, edit_silence
from app.alerting.people import Person, Role
from app.store.api import AlertFilter, Cursor
from app.store.models import AlertRow
from dashboard.alerts import filters as alert_filters
from dashboard.alerts import table as alert_table
from dashboard.alerts.words import n_alerts, n_entries, percent
from tests.dashboard.conftest import HOSTILE, T0_MS, Raised, match
from tests.dashboard.job_fixtures import DONE, alert_row, batch, job_rows
from tests.dashboard.query_fixtures import Installation, installation, links_of, lists, opened, rerun, texts, view

__all__ = ["installation"]  # a fixture

ROWS = 3


def titles(test: AppTest, place: int = 0) -> list[str]:
    return [row["title"] for row in lists(test)[place]["rows"]]


def hosts(test: AppTest) -> list[str]:
    facts = [row["facts"] for row in lists(test)[0]["rows"]]
    return [next(fact.removeprefix("on ") for fact in found if fact.startswith("on ")) for found in facts]


def chosen(test: AppTest, *rows: int) -> AppTest:
    """Select rows of the first list."""
    ids = [lists(test)[0]["rows"][row]["id"] for row in rows]
    test.session_state["alerts-at-0"] = {"selected": ids}
    return rerun(test)


def pressed(test: AppTest, key: str) -> AppTest:
    test.button(key=key).click()
    return rerun(test)


def states(raised: Raised) -> dict[str, str]:
    return {alert.key["task_id"]: alert.state for alert in raised.store.alerts()}


# -------------------------------------------------------------------- listing


def test_what_is_open_comes_first_then_what_is_over(raised: Raised) -> None:
    test = view("alerts")
    assert [found.value for found in test.subheader] == ["Open: 3 alerts", "Over: 1 alert"]
    assert titles(test) == ["t4 stands still", "t3 took 61000", "t2 took 61000"]
    assert titles(test, 1) == ["t1 took 61000"]
    assert [(metric.label, metric.value) for metric in test.metric] == [
        ("▲ critical firing", "1"),
        ("◆ warning firing", "2"),
        ("● info firing", "0"),
    ]


def test_a_row_tells_what_matters(raised: Raised) -> None:
    row = lists(view("alerts"))[0]["rows"][1]
    alert_id = next(alert.id for alert in raised.store.alerts() if alert.key["task_id"] == "t3")
    lasted = row.pop("lasted")
    assert int(lasted.removeprefix("for ").split(" d")[0]) > 1_000  # it still fires
    assert row == {
        "id": alert_id,
        "url": f"alert?id={alert_id}",
        "severity": "warning",
        "severity_sign": "◆ warning",
        "state": "⚑ firing",
        "title": "t3 took 61000",
        "whole_title": "t3 took 61000",
        "facts": ["slow", "on node3", "job job_1_0003", "at least one match: at least 87 %", "at least 12 matches"],
        "began": "raised 2023-11-14 22:15:01",
        "n_behind": "",
        "behind": [],
        "more_behind": "",
    }


def test_an_empty_store_says_what_to_do(empty: Raised) -> None:
    test = view("alerts")
    assert "clustercep run" in texts(test)
    assert not lists(test)


@pytest.mark.parametrize(
    ("params", "tasks"),
    [
        ({"state": "firing"}, ["t4", "t3", "t2"]),
        ({"state": "resolved"}, ["t1"]),
        ({"state": "firing", "severity": "critical"}, ["t4"]),
        ({"state": "firing", "query": "slow"}, ["t3", "t2"]),
        ({"state": "firing", "job": "job_1_0003"}, ["t3"]),
        ({"state": "firing", "host": "node2"}, ["t2"]),
        ({"state": "firing", "from": str(T0_MS + 102_500)}, ["t4"]),
        ({"state": "firing", "to": str(T0_MS + 100_500)}, ["t2"]),
        ({"state": "firing", "host": "node"}, []),
    ],
)
def test_the_address_filters(raised: Raised, params: dict[str, str], tasks: list[str]) -> None:
    test = view("alerts", **params)
    found = [title.split()[0] for title in titles(test)] if lists(test) else []
    assert found == tasks


def test_the_widgets_filter(raised: Raised) -> None:
    test = view("alerts")
    test.pills(key="state").set_value(["firing"])
    test.text_input(key="host").set_value(" node2 ")
    rerun(test)
    assert titles(test) == ["t2 took 61000"]


def test_an_address_with_nonsense_shows_everything(raised: Raised) -> None:
    test = view("alerts", state="on fire", query="'; drop table alerts", at="after.x.y", **{"from": "yesterday"})
    assert [found.value for found in test.subheader] == ["Open: 3 alerts", "Over: 1 alert"]


def test_no_alert_for_the_filters_offers_to_clear_them(raised: Raised) -> None:
    test = view("alerts", host="nowhere")
    assert "No alert fits these filters." in texts(test)
    pressed(test, "at-unfilter")
    assert [found.value for found in test.subheader] == ["Open: 3 alerts", "Over: 1 alert"]


def test_hostile_texts_stay_texts(empty: Raised) -> None:
    hosts = dict(enumerate(HOSTILE))
    matches = [
        match(i, 0, key=(("task_id", text),), values={"task_id": text, "job_id": text, "host": text, "period_ms": 1})
        for i, text in hosts.items()
    ]
    empty.record(*matches, watermark_ms=T0_MS, now_ms=T0_MS)
    test = view("alerts")
    rows = lists(test)[0]["rows"]
    assert len(rows) == len(HOSTILE)
    for row in rows:
        for text in (row["title"], row["whole_title"], *row["facts"]):
            assert text.isprintable()
            assert len(text) <= 300


# ----------------------------------------------------------------- urgency


def test_what_is_open_is_listed_by_state_severity_and_time_raised(raised: Raised) -> None:
    of = {alert.key["task_id"]: alert.id for alert in raised.store.alerts()}
    raised.record(
        match(0, 99_500), watermark_ms=T0_MS + 100_000, now_ms=T0_MS + 200_000
    )  # began first, was raised last
    assert titles(view("alerts")) == [
        f"{task}" for task in ("t4 stands still", "t0 took 61000", "t3 took 61000", "t2 took 61000")
    ]
    acknowledge(raised.store, of["t4"], Person("bob", Role.OPERATOR), "", T0_MS + 300_000)
    assert [title[:2] for title in titles(view("alerts"))] == ["t0", "t3", "t2", "t4"]


def test_what_is_over_is_listed_by_the_time_that_its_rows_show(raised: Raised) -> None:
    """Also where what began first was raised last: a history that was read late."""
    raised.record(match(5, -50_000), watermark_ms=T0_MS - 50_000, now_ms=T0_MS + 500_000)
    raised.record(match(6, 10_000), watermark_ms=T0_MS + 10_000_000, now_ms=T0_MS + 600_000)
    (over,) = lists(view("alerts", state="resolved"))
    starts = {alert.key["task_id"]: alert.start_ms for alert in raised.store.alerts() if alert.state == "resolved"}
    latest_first = sorted(starts, key=lambda task: starts[task], reverse=True)
    assert [row["title"].split()[0] for row in over["rows"]] == latest_first
    assert set(latest_first) >= {"t1", "t5", "t6"}
    assert [row["began"] for row in over["rows"]] == [
        f"first event {datetime.fromtimestamp(starts[task] // 1_000, UTC):%Y-%m-%d %H:%M:%S}" for task in latest_first
    ]
    assert [row["facts"][-1] for row in over["rows"] if row["title"].startswith("t5")] == ["raised 2023-11-14 22:21:40"]


@pytest.mark.parametrize(("text", "tasks"), [
    ("STANDS", ["t4"]), ("job_1_0003", ["t3"]), ("slow", ["t3", "t2"]), ("ada", ["t5"]), ("nightly $(re", ["t5"]),
    ("%", ["t4", "t3", "t2"]), ("_%", []), ("nothing like it", []),
])  # fmt: skip
def test_a_search_looks_at_title_query_job_user_and_queue(raised: Raised, text: str, tasks: list[str]) -> None:
    if text in ("ada", "nightly $(re"):
        values = {
            "task_id": "t5",
            "job_id": "job_1_0005",
            "period_ms": 1,
            "user": "Ada",
            "job_name": "Nightly $(reboot)",
        }
        raised.record(match(5, 103_000, values=values), watermark_ms=T0_MS + 100_000, now_ms=T0_MS + 103_001)
    test = view("alerts", text=text, state="firing")
    assert [title[:2] for title in (titles(test) if lists(test) else [])] == tasks


def test_titles_leave_out_what_only_programs_read() -> None:
    def title(summary: str, known: str | None = None, **values: str) -> str:
        return alert_table.short_title(AlertRow(summary=summary, job_id="job_1_0002", values=values), known)

    assert title("reducer attempt_1_0002_r_000001_0 on node1") == "reducer r_000001 on node1"
    assert title("mapper attempt_1_0002_m_000001_2") == "mapper m_000001 (attempt 3)"
    assert title("job job_1_0002 (nightly) waits", job_name="nightly") == "job nightly waits"
    assert title("job job_1_0002 (x) waits") == "job job_1_0002 (x) waits"
    fetch = "slow fetch from node5 to reducer attempt_1_0002_r_000000_0 on node3, as attempt_1_0002_m_000003_0"
    assert title(fetch, "nightly") == "slow fetch from node5 to reducer r_000000 of nightly on node3, as m_000003"
    assert title("mapper attempt_1_0002_m_000001_2 of nightly", "nightly") == "mapper m_000001 (attempt 3) of nightly"
    assert title("node5 is lost", "nightly") == "node5 is lost"
    assert title("job job_1_0002: a container was killed", "nightly") == "job nightly: a container was killed"
    assert title("job job_1_00021 waits", "nightly") == "job job_1_00021 waits"
    assert title("mapper attempt_1_0002_m_000001_0 on n1", "other", job_name="own") == "mapper m_000001 of own on n1"


def test_the_list_names_the_job_of_an_alert_that_knows_its_id_alone(installation: Installation) -> None:
    """By the event log."""
    fetch = "slow fetch to reducer attempt_1_0001_r_000000_0 on node3"
    with installation.store() as store, store.transaction() as writer:
        writer.alerts.add(alert_row("a1" * 16, job_id=DONE, summary=fetch))
    assert titles(view("alerts")) == ["slow fetch to reducer r_000000 on node3"]
    installation.log(batch(job_rows()))
    test = view("alerts")
    assert titles(test) == ["slow fetch to reducer r_000000 of count on node3"]
    assert "job count" in lists(test)[0]["rows"][0]["facts"]


def test_who_may_only_look_is_offered_no_silences(raised: Raised) -> None:
    raised.configure("dashboard: {anonymous_role: viewer}")
    test = opened(view("alerts"), "silences")
    assert "No silences." in texts(test)
    assert "new-silence-make" not in [button.key for button in test.button]


# ------------------------------------------------------------------- paging


def test_pages_go_on_where_the_last_one_ended(empty: Raised) -> None:
    empty.record(*[match(i, i * 1_000) for i in range(8)], watermark_ms=T0_MS, now_ms=T0_MS)
    with patch.object(alert_filters, "ROWS_PER_PAGE", ROWS):
        test = view("alerts")
        seen = [hosts(test)]
        for _ in range(2):
            pressed(test, "at-older")
            seen.append(hosts(test))
        assert seen == [["node7", "node6", "node5"], ["node4", "node3", "node2"], ["node1", "node0"]]
        assert test.button(key="at-older").disabled
        assert "7 to 8 of 8" in texts(test)
        pressed(test, "at-newer")
        assert hosts(test) == seen[1]
        address = test.query_params["at"]
        sent = view("alerts", at=address if isinstance(address, str) else address[0])
        assert hosts(sent) == seen[1]
        test.text_input(key="host").set_value("node0")
        assert hosts(rerun(test)) == ["node0"]  # another filter starts at its first page


def test_which_of_how_many() -> None:
    """An alert that came after they were counted does not make it 26 to 50 of 49."""
    some = alert_table.ShownPage((alert_row("a"),) * 25, first=26)
    assert alert_table.range_text(some, 157, True) == "26 to 50 of 157"
    assert alert_table.range_text(some, 49, True) == "26 to 50 of 50"
    assert alert_table.range_text(some, 50, False) == "26 to 50 of more than 50"
    assert alert_table.range_text(replace(some, first=None), 20, True) == "25 of 25"


def test_many_alerts_are_more_than() -> None:
    assert n_alerts(10_000, False) == "more than 10,000 alerts"
    assert n_alerts(1, True) == "1 alert"
    assert n_entries(0, 10_000, False) == "more than 10,000 alerts and incidents"


def test_an_incident_is_not_counted_as_an_alert() -> None:
    assert [n_entries(*n) for n in ((0, 0), (0, 2), (1, 0), (2, 1), (1, 3))] == [
        "0 alerts", "2 alerts", "1 incident", "2 incidents, 1 other alert", "1 incident, 3 other alerts",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("after.5.ab", alert_table.PageStart(after=Cursor(5, "ab"))),
        ("before.-5.ab", alert_table.PageStart(before=Cursor(-5, "ab"))),
        ("from.50", alert_table.PageStart(offset=50)),
        ("from.-1", alert_table.PageStart()),
        ("from.999999", alert_table.PageStart(offset=10_000)),
        ("", alert_table.PageStart()),
        ("after.5", alert_table.PageStart()),
        ("after.٣.ab", alert_table.PageStart()),
        ("after.99999999999999999999.ab", alert_table.PageStart()),
    ],
)
def test_places_in_the_address(text: str, place: alert_table.PageStart) -> None:
    with patch.object(alert_table.st, "query_params", {"at": text}):
        assert alert_table.page_start_in_url("at") == place


@pytest.mark.parametrize(
    ("confidence", "shown"),
    [
        (1.0, "certain"),
        (0.99999, "> 99.9 %"),
        (0.87, "87 %"),
        (0.8725, "87.2 %"),
        (0.0001, "< 0.1 %"),
        (0.999, "99.9 %"),
    ],
)
def test_what_is_not_certain_is_never_a_hundred_percent(confidence: float, shown: str) -> None:
    assert percent(confidence) == shown


# ------------------------------------------------------------------- actions


def test_several_are_acknowledged_at_once_with_a_comment(raised: Raised) -> None:
    test = chosen(view("alerts"), 0, 2)
    assert "2 alerts selected" in texts(test)
    test.text_input(key="alerts-at-note").set_value("on it\n\u202e<b>")
    pressed(test, "alerts-at-acknowledge")
    assert states(raised) == {"t1": "resolved", "t2": "acknowledged", "t3": "firing", "t4": "acknowledged"}
    assert [found.value for found in test.success] == ["Acknowledged 2 alerts\\."]
    change = raised.store.alert(raised.store.alerts(AlertFilter(queries=("stuck",)))[0].id).changes[-1]
    assert (change.to_state, change.actor, change.reason) == ("acknowledged", "dashboard", "on it <b>")
    assert "2 alerts selected" not in texts(test)
    assert not rerun(test).success  # told once


def test_what_cannot_be_acknowledged_is_told_and_the_others_are(raised: Raised) -> None:
    chosen_test = chosen(view("alerts"), 0, 1)
    over = raised.store.alerts(AlertFilter(queries=("stuck",)))[0].id
    raised.record(watermark_ms=T0_MS + 10**6, now_ms=T0_MS + 10**6)  # meanwhile all are over
    raised.record(match(3, 101_000), watermark_ms=T0_MS + 100_000, now_ms=T0_MS + 10**6)
    pressed(chosen_test, "alerts-at-acknowledge")
    assert over in chosen_test.warning[-1].value
    assert "resolved" in chosen_test.warning[-1].value


def test_a_silence_covers_query_and_key_and_can_be_ended(raised: Raised) -> None:
    test = chosen(view("alerts"), 1)
    test.selectbox(key="alerts-at-length").set_value("8 h")
    pressed(test, "alerts-at-silence")
    assert states(raised) == {"t1": "resolved", "t2": "firing", "t3": "firing", "t4": "firing"}
    assert [alert.key["task_id"] for alert in raised.store.alerts(AlertFilter(states=("silenced",)))] == ["t3"]
    assert titles(test) == ["t4 stands still", "t2 took 61000", "t3 took 61000"]
    assert [row["state"] for row in lists(test)[0]["rows"]] == ["⚑ firing", "⚑ firing", "⚑ firing ◌ silenced"]
    assert titles(view("alerts", state="silenced")) == ["t3 took 61000"]
    [silence] = raised.store.silences(0)
    assert silence.until_ms - silence.created_ms == 8 * 3_600_000
    assert silence.matchers == [["alertname", "=", "slow"], ["task_id", "=", "t3"]]
    opened(test, "silences")
    pressed(test, f"end-silence-{silence.id}")
    assert raised.store.silences(silence.created_ms + 60_000) == []
    assert "is over" in test.success[0].value


def test_a_silence_that_was_changed_shows_its_history(raised: Raised) -> None:
    test = opened(view("alerts"), "silences")
    test.text_input(key="new-silence-matchers").set_value('task_id="t3"')
    test.text_input(key="new-silence-note").set_value("known")
    pressed(test, "new-silence-make")
    assert ": made" not in texts(opened(view("alerts"), "silences"))
    [silence] = raised.store.silences(0)
    by = Person("[Bob](http://evil.example)", Role.OPERATOR)
    edit_silence(raised.store, silence.id, SilenceEdit(note="moved"), by, silence.created_ms + 1)
    told = texts(opened(view("alerts"), "silences"))
    assert "changed" in told
    assert "comment was" in told
    assert told.index("comment was") < told.index(": made")
    assert "](http://evil.example)" not in told


def test_what_matches_is_shown_before_it_is_silenced(raised: Raised) -> None:
    test = view("alerts")
    opened(test, "silences")
    test.text_input(key="new-silence-matchers").set_value('task_id=~"t[23]"')
    pressed(test, "new-silence-preview")
    assert "It would hide 2 alerts" in test.info[-1].value
    assert raised.store.silences(0) == []
    pressed(test, "new-silence-make")
    assert {a.key["task_id"] for a in raised.store.alerts(AlertFilter(states=("silenced",)))} == {"t2", "t3"}
    test.text_input(key="new-silence-matchers").set_value('team=""')
    pressed(test, "new-silence-make")
    assert "hides everything" in test.warning[-1].value
    assert len(raised.store.silences(0)) == 1


def test_a_whole_query_is_silenced_once(raised: Raised) -> None:
    test = chosen(view("alerts"), 1, 2)
    test.checkbox(key="alerts-at-every").check()
    pressed(test, "alerts-at-silence")
    assert [row.matchers for row in raised.store.silences(0)] == [[["alertname", "=", "slow"]]]
    assert test.success[0].value.startswith("Made 1 silence for 2 h\\:")


def test_the_list_stands_still_while_rows_are_selected(raised: Raised) -> None:
    test = chosen(view("alerts"), 0)
    raised.record(match(5, 103_000), watermark_ms=T0_MS + 100_000, now_ms=T0_MS + 103_001)
    rerun(test)
    assert len(titles(test)) == 3
    pressed(test, "alerts-at-clear")
    assert titles(test)[:2] == ["t4 stands still", "t5 took 61000"]


def test_what_is_selected_stays_so_whatever_joins_the_list(raised: Raised) -> None:
    test = chosen(view("alerts"), 1)
    raised.record(match(5, 103_000), watermark_ms=T0_MS + 100_000, now_ms=T0_MS + 103_001)
    pressed(test, "alerts-at-acknowledge")
    assert {task for task, state in states(raised).items() if state == "acknowledged"} == {"t3"}


# ------------------------------------------------------------------ incidents


def test_alerts_behind_an_incident_are_folded_below_it_and_counted(raised: Raised) -> None:
    by_task = {alert.key["task_id"]: alert for alert in raised.store.alerts()}
    with raised.store.transaction() as writer:
        rows = {task: writer.alerts.get(alert.id) for task, alert in by_task.items()}
        incident, member = rows["t4"], rows["t3"]
        assert incident is not None
        assert member is not None
        incident.is_incident, member.incident_id, member.inhibited = True, incident.id, True
        writer.incidents.add(incident.id, member.id, T0_MS, covered=True)
    test = view("alerts")
    assert (
        next(found.value for found in test.subheader) == "Open: 1 incident with 1 open alert behind it, 1 other alert"
    )
    assert sum(int(metric.value) for metric in test.metric) == 3  # as many as the heading tells
    assert titles(test) == ["t4 stands still", "t2 took 61000"]
    listed = lists(test)[0]["rows"]
    assert [row["n_behind"] for row in listed] == ["1 alert behind it", ""]
    assert [row["title"] for row in listed[0]["behind"]] == ["t3 took 61000"]
    assert "1 slow" in listed[0]["facts"]
    of_query = view("alerts", query=member.query)  # looked for by itself
    assert "t3 took 61000" in titles(of_query)
    assert "Part of the incident: t4 stands still" in " ".join(box.value for box in view("alert", id=member.id).info)
    with raised.store.transaction() as writer:
        outer = writer.alerts.get(by_task["t2"].id)
        assert outer is not None
        outer.is_incident = True
        writer.incidents.add(outer.id, member.id, T0_MS, covered=True)
    both = view("alert", id=member.id)
    (told,) = (box.value for box in both.info if "Part of" in box.value)  # one box, however many
    assert told.startswith("Part of these incidents: ")
    assert "t4 stands still" in told
    assert "t2 took 61000" in told
    to = {address for label, address in links_of(both).items() if label.startswith("Go to")}
    assert to == {f"alert?id={of.id}" for of in (incident, outer)}
    shown = view("alert", id=incident.id)
    assert "Alerts behind it: 1" in [found.value for found in shown.subheader]
    assert any("**For it:** 1 alert" in text.value for text in shown.markdown)


@pytest.mark.parametrize("is_over", [True, False])
def test_what_fires_by_itself_is_not_hidden_behind_an_incident(raised: Raised, is_over: bool) -> None:
    """An alert that is more severe than its incident, or fires again after it."""
    by_task = {alert.key["task_id"]: alert for alert in raised.store.alerts()}
    with raised.store.transaction() as writer:
        rows = {task: writer.alerts.get(alert.id) for task, alert in by_task.items()}
        incident, member = rows["t3"], rows["t4"]
        assert incident is not None
        assert member is not None
        incident.is_incident, member.incident_id, member.inhibited = True, incident.id, False
        if is_over:
            incident.state = "resolved"
        writer.incidents.add(incident.id, member.id, T0_MS, covered=False)
    assert titles(view("alerts"))[0] == "t4 stands still"


def test_no_page_of_open_alerts_leads_to_itself(raised: Raised) -> None:
    with patch.object(alert_filters, "ROWS_PER_PAGE", 1), patch.object(alert_table, "MAX_OFFSET", 1):
        test = view("alerts", at="from.1")
        assert titles(test) == ["t3 took 61000"]
        assert test.button(key="at-older").disabled
