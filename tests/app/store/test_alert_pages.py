"""Pages of alerts against a sorted list, and the indexes that their statements walk."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.store import Store, alert_pages, open_store
from app.store.api import AlertFilter, Cursor
from app.store.models import AlertHostRow, AlertRow
from benchmarks.pages.store_pages import make_store, pages, plans
from tests.examples import examples

STATES = ("firing", "acknowledged", "resolved")
SEVERITIES = ("info", "warning", "critical")


def row(i: int, **values: Any) -> AlertRow:
    """An alert of which only what pages look at matters."""
    start_ms, length_ms = values.pop("start_ms"), values.pop("length_ms")
    values.pop("hosts", None)
    return AlertRow(
        **{
            **{"id": f"{i:032x}", "query_hash": "h", "key": {}, "key_text": "{}", "group_gap_ms": 0, "revision": 1},
            **{"n_matches": 1, "n_matches_exact": True, "best_confidence": 1.0, "values": {}, "summary": ""},
            **{"runbook": "", "best_n_events": 1, "lane": "live", "created_ms": 0, "updated_ms": 0},
            **{"start_ms": start_ms, "end_ms": start_ms + length_ms, "open": values["state"] != "resolved"},
            **values,
        }
    )


ALERTS = st.lists(
    st.fixed_dictionaries(
        {
            "start_ms": st.integers(0, 12),
            "length_ms": st.sampled_from([0, 0, 1, 5]),
            "query": st.sampled_from(["a", "b", "c"]),
            "severity": st.sampled_from(SEVERITIES),
            "state": st.sampled_from(STATES),
            "silenced": st.booleans(),
            "job_id": st.sampled_from([None, "j1", "j2"]),
            "hosts": st.lists(st.sampled_from(["h1", "h2", "h3"]), max_size=2, unique=True),
            "merged_into": st.sampled_from([None, None, "other"]),
            "is_incident": st.booleans(),
            "raised_ms": st.integers(0, 3),
            "summary": st.sampled_from(["", "100% busy", "Slow_fetch"]),
            "labels": st.sampled_from(
                [{}, {"user": "Ada"}, {"team": "busy"}, {"user": 'x"y\\z /5%'}, {"application": "A_1"}]
            ),
            "values": st.sampled_from([{}, {"job_name": "fetch 文"}, {"application_id": "A_1"}, {"other": "A_1"}]),
        }
    ),
    max_size=40,
)
FILTERS = st.builds(
    AlertFilter,
    states=st.lists(st.sampled_from((*STATES, "silenced")), max_size=3).map(tuple),
    queries=st.lists(st.sampled_from(["a", "b", "x"]), max_size=2).map(tuple),
    severities=st.lists(st.sampled_from(SEVERITIES), max_size=2).map(tuple),
    job_id=st.sampled_from([None, None, "j1"]),
    application_id=st.sampled_from([None, None, "A_1", "a_1", "A-1", '"']),
    host=st.sampled_from([None, None, "h1"]),
    from_ms=st.none() | st.integers(0, 15),
    to_ms=st.none() | st.integers(0, 15),
    merged=st.booleans(),
    incidents=st.sampled_from([None, None, True, False]),
    text=st.sampled_from([None, None, "busy", "%", "_", "ada", "FETCH", "文", "team", 'X"Y', "y\\z", "/5", "user"]),
    limit=st.integers(1, 6),
)


def host_rows(i: int, values: dict[str, Any]) -> list[AlertHostRow]:
    """Its hosts, suspects first."""
    roles = ("suspect", "affected")
    return [
        AlertHostRow(
            alert_id=f"{i:032x}", position=position, host=host, role=roles[position], start_ms=values["start_ms"]
        )
        for position, host in enumerate(values["hosts"])
    ]


def wanted_by(found: AlertFilter, alert: AlertRow, hosts: list[str]) -> bool:
    """The definition of the filter."""
    return (
        (not found.states or alert.state in found.states or ("silenced" in found.states and is_silenced_now(alert)))
        and (not found.queries or alert.query in found.queries)
        and (not found.severities or alert.severity in found.severities)
        and (found.job_id is None or alert.job_id == found.job_id)
        and (
            found.application_id is None
            or found.application_id in (alert.values.get("application_id"), alert.labels.get("application"))
        )
        and (found.host is None or found.host in hosts)
        and (found.from_ms is None or alert.end_ms >= found.from_ms)
        and (found.to_ms is None or alert.start_ms <= found.to_ms)
        and (found.merged or alert.merged_into is None)
        and (found.incidents is None or alert.is_incident is found.incidents)
        and (found.text is None or found.text.casefold() in said_by(alert).casefold())
    )


def said_by(alert: AlertRow) -> str:
    """What is searched."""
    named = [alert.values.get("job_name", ""), *(alert.labels.get(name, "") for name in ("user", "application"))]
    return "\n".join([alert.summary, alert.query, *named])


def urgency(alert: AlertRow) -> tuple[int, ...]:
    """The smallest is the most urgent."""
    state = 2 if is_silenced_now(alert) else STATES.index(alert.state)
    severity = SEVERITIES[::-1].index(alert.severity)
    return (9 if alert.state == "resolved" else state, severity, -alert.raised_ms, -alert.start_ms, -int(alert.id, 16))


def is_silenced_now(alert: AlertRow) -> bool:
    """What is over keeps the mark until its silence ends."""
    return alert.silenced and alert.state in ("firing", "acknowledged")


def ids(alerts: Any) -> list[str]:
    return [alert.id for alert in alerts]


@settings(
    max_examples=examples(25),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(alerts=ALERTS, filters=st.lists(FILTERS, min_size=1, max_size=5))
def test_pages_are_those_of_a_sorted_list(
    any_store: Store, alerts: list[dict[str, Any]], filters: list[AlertFilter]
) -> None:
    with any_store.transaction() as writer:
        writer.session.query(AlertRow).delete()
        writer.session.add_all([row(i, **values) for i, values in enumerate(alerts)])
        writer.session.flush()
        writer.session.add_all([host for i, values in enumerate(alerts) for host in host_rows(i, values)])
    hosts = {f"{i:032x}": values["hosts"] for i, values in enumerate(alerts)}
    everything = sorted(
        (row(i, **values) for i, values in enumerate(alerts)), key=lambda a: (a.start_ms, a.id), reverse=True
    )
    assert any_store.query_names() == sorted({alert.query for alert in everything})
    jobs = ["job_none", *sorted({alert.job_id for alert in everything if alert.job_id is not None})]
    whole = [alert.job_id for alert in everything if alert.merged_into is None]
    assert any_store.counts_of_jobs(jobs) == {job: whole.count(job) for job in jobs}
    assert any_store.counts_of_jobs(jobs, at_most=1) == {job: min(1, whole.count(job)) for job in jobs}
    for wanted in filters:
        expected = ids(alert for alert in everything if wanted_by(wanted, alert, hosts[alert.id]))
        assert ids(any_store.alerts(wanted)) == expected[: wanted.limit]
        assert [[named.host for named in alert.hosts] for alert in any_store.alerts(wanted)] == [
            hosts[alert_id] for alert_id in expected[: wanted.limit]
        ]
        assert any_store.count_alerts(wanted) == (len(expected), True)
        assert any_store.count_alerts(wanted, at_most=3) == (min(len(expected), 3), len(expected) <= 3)
        assert any_store.n_alerts(wanted) == len(expected)
        there_and_back(any_store, wanted, expected)
        urgent = sorted((alert for alert in everything if alert.id in expected), key=urgency)
        assert ids(any_store.urgent_alerts(wanted)) == ids(urgent[: wanted.limit])
        assert ids(any_store.urgent_alerts(replace(wanted, offset=2))) == ids(urgent[2 : 2 + wanted.limit])
        for n, alert_id in enumerate(expected):
            start_ms = next(alert.start_ms for alert in everything if alert.id == alert_id)
            assert any_store.n_before(wanted, Cursor(start_ms, alert_id), at_most=5) == (n if n <= 5 else None)


def there_and_back(store: Store, wanted: AlertFilter, expected: list[str]) -> None:
    """All pages forwards, then backwards from the last one."""
    page = store.alert_page(wanted)
    assert page.previous is None
    seen, walked = [page], ids(page.alerts)
    while page.next is not None:
        page = store.alert_page(wanted, after=page.next)
        seen.append(page)
        walked += ids(page.alerts)
    assert walked == expected
    assert all(len(page.alerts) == wanted.limit for page in seen[:-1])
    for before in reversed(seen[:-1]):
        assert page.previous is not None
        page = store.alert_page(wanted, before=page.previous)
        assert ids(page.alerts) == ids(before.alerts)
        assert page.next is not None
    assert page.previous is None


def test_a_page_begins_where_the_one_before_ended_although_alerts_come(any_store: Store) -> None:
    with any_store.transaction() as writer:
        for i in range(4):
            values = {"start_ms": i, "length_ms": 0, "query": "a", "severity": "info", "state": "firing"}
            writer.session.add(row(i, **values))
    first = any_store.alert_page(AlertFilter(limit=2))
    with any_store.transaction() as writer:
        values = {"start_ms": 9, "length_ms": 0, "query": "a", "severity": "info", "state": "firing"}
        writer.session.add(row(9, **values))
    second = any_store.alert_page(AlertFilter(limit=2), after=first.next)
    assert [a.start_ms for a in second.alerts] == [1, 0]


def test_a_text_is_looked_for_in_the_latest_alerts_and_in_all_open_ones(
    any_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alert_pages, "MAX_SEARCHED", 3)
    common = {"length_ms": 0, "query": "a", "severity": "info", "summary": "slow"}
    with any_store.transaction() as writer:
        writer.session.add_all(
            row(i, start_ms=i, state="firing" if i == 0 else "resolved", **common) for i in range(10)
        )
    assert [alert.start_ms for alert in any_store.alerts(AlertFilter(text="slow"))] == [9, 8, 7, 6]
    assert [alert.start_ms for alert in any_store.alerts(AlertFilter(text="slow", states=("firing",)))] == [0]


def test_an_application_is_looked_for_in_its_span_and_among_the_latest(
    any_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alert_pages, "MAX_SEARCHED", 5)
    common = {"length_ms": 0, "query": "a", "severity": "info", "state": "resolved"}
    names = ({"application_id": "local-1"}, {"application_id": "local-11"})
    with any_store.transaction() as writer:
        writer.session.add_all(row(i, start_ms=i, values=names[i % 2], **common) for i in range(10))
    assert [alert.start_ms for alert in any_store.alerts_of_application("local-1")] == [8, 6, 4]
    assert [alert.start_ms for alert in any_store.alerts_of_application("local-1", 5, 7)] == [6]


@pytest.mark.parametrize("text", ['say "no', "no\\yes", "é", "/50%_", "YES /5"])
def test_a_text_is_found_however_json_has_it(any_store: Store, text: str) -> None:
    common = {"length_ms": 0, "query": "a", "severity": "info", "state": "firing"}
    told = 'say "no\\yes /50%_ é'
    with any_store.transaction() as writer:
        writer.session.add(row(0, start_ms=0, values={"job_name": told}, **common))
        writer.session.add(row(1, start_ms=1, labels={"user": told}, **common))
        writer.session.add(row(2, start_ms=2, labels={"team": told}, values={"other": told}, **common))
    assert [alert.start_ms for alert in any_store.alerts(AlertFilter(text=text))] == [1, 0]


def test_only_one_place_can_be_given(store: Store) -> None:
    with pytest.raises(ValueError, match="at most one"):
        store.alert_page(after=Cursor(1, "a"), before=Cursor(1, "a"))


# -------------------------------------------------------------------------- plans


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """3,000 alerts with the benchmark's distribution."""
    path: Path = tmp_path_factory.mktemp("plans") / "store.db"
    make_store(path, 3_000)
    with open_store(f"sqlite:///{path}") as store:
        yield store


INDEX_OF = {
    "first page": "ix_alerts_page",
    "first page, without merged": "ix_alerts_page",
    "page in the middle": "ix_alerts_page",
    "last pages": "ix_alerts_page",
    "page before a place": "ix_alerts_page",
    "open (2 states)": "ix_alerts_page_state",
    "silenced": "ix_alerts_page_state",
    "silenced ones to look at": "ix_alerts_silenced",
    "firing, critical": "ix_alerts_page_state",
    "resolved, deep": "ix_alerts_page",
    "severity, deep": "ix_alerts_page_severity",
    "two severities, deep": "ix_alerts_page_severity",
    "query, deep": "ix_alerts_page_query",
    "query and another severity": "ix_alerts_page_query",
    "three queries, deep": "ix_alerts_page_query",
    "query, one day": "ix_alerts_page_query",
    "job": "ix_alerts_page_job",
    "host, deep": "ix_alert_hosts_page",
    "host and query": "ix_alert_hosts_page",
    "host and severity": "ix_alert_hosts_page",
    "one minute": "ix_alerts_page",
    "one day": "ix_alerts_page",
    "one day, deep in it": "ix_alerts_page",
    "names of queries": "ix_alerts_query_key_start",
    "open by state": "ix_alerts_open|ix_alerts_updated",  # both begin with it
    "failed notifications": "ix_notifications_status_sequence",
    "problems": "ix_problems_page",
    "late events": "ix_late_events_page",
    "reports of one day": "ix_reports_page",
}
_ONE_LOOK_UP = ("ix_alerts_length", "ix_reports_length")
_ALERT_BY_ID = "SEARCH alerts USING INDEX sqlite_autoindex_alerts_1 (id=?)"
_HOSTS_BY_ALERT = "SEARCH alert_hosts USING INDEX sqlite_autoindex_alert_hosts_1 (alert_id=?)"
"""Of the alerts of one page, each read by its id."""
_WHOLE_IN_ORDER = ("first page", "first page, without merged", "problems", "late events")
"""Their statements walk the whole index in order, and stop at the limit."""


def test_whether_an_open_alert_names_a_host_is_asked_of_the_alert(filled: Store) -> None:
    wanted = AlertFilter(host="node1", states=("firing", "acknowledged"), limit=50)
    for work in (lambda: filled.alert_page(wanted), lambda: filled.urgent_alerts(wanted)):
        for line in plans(filled.engine, work):
            assert "ix_alert_hosts_page (host=?)" not in line, line


_SORTED = ("open by state", "silenced ones to look at")
"""Of what an index leaves: the open ones in groups, which are few; the silenced ones by id, of which some are taken."""


@pytest.mark.parametrize("name", INDEX_OF)
def test_each_page_walks_its_index(filled: Store, name: str) -> None:
    found = plans(filled.engine, pages(filled)[name])
    found = [plan for plan in found if not plan.startswith(_HOSTS_BY_ALERT)]
    parts = [[part for part in plan.split("; ") if part.replace("COVERING ", "") != _ALERT_BY_ID] for plan in found]
    walks = ["; ".join(left) for left in parts if left and not any(known in "".join(left) for known in _ONE_LOOK_UP)]
    assert walks
    for plan in walks:
        (used,) = re.findall(r"USING (?:COVERING )?INDEX (\w+)", plan)
        assert used in INDEX_OF[name].split("|")
        if name not in _SORTED:
            assert "TEMP B-TREE" not in plan
        if name not in _WHOLE_IN_ORDER:
            assert plan.startswith("SEARCH"), plan


def test_alerts_of_jobs_are_counted_by_their_index(filled: Store) -> None:
    (plan,) = plans(filled.engine, pages(filled)["counts of a page's jobs"])
    assert re.search(r"SEARCH alerts USING (COVERING )?INDEX ix_alerts_page_job \(job_id=\?\)", plan), plan
    assert "SCAN alerts" not in plan


def test_deep_pages_enter_the_index_at_their_place(filled: Store) -> None:
    for name in ("last pages", "resolved, deep", "severity, deep", "query, deep", "host, deep", "one day, deep in it"):
        assert any(
            re.search(r"\(start_ms,(alert_)?id\)<\(\?,\?\)", plan) for plan in plans(filled.engine, pages(filled)[name])
        ), name


def test_time_is_bounded_on_both_sides(filled: Store) -> None:
    for name in ("one minute", "one day", "query, one day", "reports of one day"):
        assert any("start_ms>? AND start_ms<?" in plan for plan in plans(filled.engine, pages(filled)[name])), name


def test_an_alert_that_lasts_for_ever_is_found_whenever_it_is_asked_for(any_store: Store) -> None:
    values = {"query": "a", "severity": "info", "state": "resolved"}
    with any_store.transaction() as writer:
        writer.session.add(row(1, start_ms=0, length_ms=10**12, **values))
        writer.session.add(row(2, start_ms=5, length_ms=1, **values))
    found = any_store.alerts(AlertFilter(from_ms=10**11, to_ms=10**11))
    assert ids(found) == [f"{1:032x}"]
