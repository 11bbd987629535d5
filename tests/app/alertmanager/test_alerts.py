"""GET /alerts and /alerts/groups: states, filters, fingerprints, groups."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.alerting import operations
from app.alerting.catalog import QueryInfo
from app.alerting.dispatch.matchers import parse_matchers
from app.alerting.people import Person
from app.alerting.recording.options import AlertingOptions
from app.alerting.recording.recorder import Recorder
from app.alerting.silencing import silencing
from app.alertmanager.active import Active
from app.alertmanager.alerts import Silenced
from app.alertmanager.fingerprints import label_fingerprint
from app.alertmanager.silences import silence_uuid
from app.settings import Severity
from app.store import Store
from app.store.models import SilenceRow
from tests.app.alerting_fixtures import kept
from tests.app.alertmanager.served import NOW_MS, Served, configured, fire, infos, lost, served, slow, values

MIA = Person("mia")


def silence(store: Store, matchers: str, ends_ms: int = NOW_MS + 60_000) -> int:
    return operations.new_silence(store, parse_matchers(matchers), NOW_MS, ends_ms, MIA, "why", NOW_MS)


def states(alerts: list[dict[str, Any]]) -> dict[str, str]:
    return {alert["labels"].get("task_id") or alert["labels"]["host"]: alert["status"]["state"] for alert in alerts}


@pytest.mark.parametrize(
    ("labels", "expected"),
    [  # answers of an Alertmanager 0.25
        ({"alertname": "slow", "host": "n1", "severity": "info"}, "00edb8c6d90c96f5"),
        ({"alertname": "slow", "host": "n1", "severity": "critical", "task": "t1"}, "f6c72083de83b084"),
        ({}, "cbf29ce484222325"),
    ],
)
def test_fingerprints_are_those_of_an_alertmanager(labels: dict[str, str], expected: str) -> None:
    assert label_fingerprint(labels) == expected


def test_an_acknowledged_alert_is_active_and_others_say_what_hides_them(api: Served) -> None:
    fire(api.store, slow("t1", "n1"), slow("t2", "n2"), slow("t3", "n3"), lost("n1"))
    by_task = {str(alert.key.get("task_id")): alert.id for alert in api.store.alerts()}
    operations.acknowledge(api.store, by_task["t2"], MIA, "mine", NOW_MS)
    number = silence(api.store, 'task_id="t3"')
    alerts = api.alerts()
    assert states(alerts) == {"t1": "suppressed", "t2": "active", "t3": "suppressed", "n1": "active"}
    found = {alert["labels"].get("task_id", "node"): alert for alert in alerts}
    assert found["t1"]["status"]["inhibitedBy"] == [found["node"]["fingerprint"]]
    assert found["t1"]["status"]["silencedBy"] == []
    assert found["t3"]["status"]["silencedBy"] == [silence_uuid(number)]
    assert found["t2"]["annotations"]["acknowledged"] == "yes"
    assert [alert["fingerprint"] for alert in alerts] == sorted(label_fingerprint(a["labels"]) for a in alerts)
    assert found["node"]["receivers"] == [{"name": "db"}]
    assert found["t2"]["startsAt"] == "2026-09-21T14:12:21.000Z"
    assert found["t2"]["endsAt"] == "2026-09-21T14:18:20.000Z"


def test_what_is_told_by_an_incident_is_inhibited_by_it_until_that_is_over(any_store: Store, tmp_path: Path) -> None:
    store = any_store
    incident = QueryInfo("cause", "h3", Severity.CRITICAL, "{host}", 600_000, key=("host",), binds=frozenset({"slow"}))
    fire(store, slow("t1", "n1"), slow("t2", "n2"))
    with store.transaction() as writer:
        options = AlertingOptions({**infos(), "cause": incident}, {})
        match = replace(lost("n3"), query="cause")
        Recorder(options, writer, kept, NOW_MS).live([match], 0)
    whole = {row.key.get("task_id", "cause"): row.id for row in store.alerts()}
    with store.transaction() as writer:
        writer.incidents.add(whole["cause"], whole["t1"], NOW_MS, covered=True)
        writer.incidents.add(whole["cause"], whole["t2"], NOW_MS, covered=False)  # it is more severe
        (hidden,) = writer.alerts.by_ids([whole["t1"]])
        hidden.inhibited = True
    with served(store, tmp_path) as api:
        found = {alert["labels"].get("task_id", "cause"): alert for alert in api.alerts()}
        assert found["t1"]["status"]["inhibitedBy"] == [found["cause"]["fingerprint"]]
        assert {name: alert["status"]["state"] for name, alert in found.items()} == {
            "cause": "active",
            "t1": "suppressed",
            "t2": "active",
        }
        assert values(api.alerts("?inhibited=false"), "task_id") == ["", "t2"]
        with store.transaction() as writer:
            (over,) = writer.alerts.by_ids([whole["cause"]])
            over.state = "resolved"
        assert [alert["status"]["state"] for alert in api.alerts()] == ["active", "active"]


def test_which_alerts_are_wanted(api: Served) -> None:
    fire(api.store, slow("t1", "n1"), slow("t2", "n2"), slow("t3", "n3"), lost("n1"))
    silence(api.store, 'task_id="t3"')
    for query, expected in {
        "?active=false": {"t1", "t3"},
        "?silenced=false": {"t1", "t2", "n1"},
        "?inhibited=false": {"t2", "t3", "n1"},
        "?silenced=false&inhibited=false&unprocessed=false&active=true": {"t2", "n1"},
        "?filter=alertname%3Dslow": {"t1", "t2", "t3"},
        '?filter={alertname%3D"slow",host!~"n[12]"}': {"t3"},
        "?filter=alertname%3Dslow&filter=host%3D~%22n1%7Cn2%22": {"t1", "t2"},
        "?filter=nothing%3D%22%22&filter=severity%3Dcritical": {"n1"},
        "?receiver=ops": {"t1", "t2", "t3"},
        "?receiver=op": set(),
        "?receiver=o.s|none": {"t1", "t2", "t3"},
        "?receiver_matchers=name%3Dops": {"t1", "t2", "t3"},
        "?receiver_matchers=name!%3Dops": {"n1"},
        "?receiver_matchers=owner%3D%22me%22": set(),
    }.items():
        assert set(states(api.alerts(query.replace('"', "%22").replace("{", "%7B").replace("}", "%7D")))) == expected, (
            query
        )


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("?filter=foo", "bad matcher format: 'foo'"),
        ("?filter=", "bad matcher format: ''"),
        ("?filter=a%3D~%28", "bad matcher format: '(' is no regular expression of RE2"),
        ("?filter=a%3D~%28a%7B900%7D%29%7B900%7D", "bad matcher format"),
        ("?receiver_matchers=foo", "bad matcher format: 'foo'"),
        ("?receiver=%28", "failed to parse receiver param: '(' is no regular expression"),
        ("?active=perhaps", "active: found 'perhaps'; expected true or false"),
        ("?filter=a%3D%FF", "the query of the address cannot be read"),
        ("?" + "&".join(["filter=a%3Db"] * 101), "101 matchers; expected at most 100"),
    ],
)
def test_what_cannot_be_read_is_told_as_alertmanager_does(api: Served, query: str, message: str) -> None:
    for path in ("/api/v2/alerts", "/api/v2/alerts/groups"):
        reply = api.get(path + query)
        assert reply.status == 400
        assert reply.json.startswith(message)


def test_what_is_over_is_not_told_and_what_comes_is(api: Served) -> None:
    fire(api.store, slow("t1", "n1"))
    assert values(api.alerts(), "task_id") == ["t1"]
    fire(api.store, slow("t2", "n2"))
    assert values(api.alerts(), "task_id") == ["t1", "t2"]
    with api.store.transaction() as writer:
        (alert,) = [a for a in api.store.alerts() if a.key["task_id"] == "t1"]
        found = writer.alerts.get(alert.id)
        assert found is not None
        found.state, found.open = "resolved", False
    assert values(api.alerts(), "task_id") == ["t2"]


def test_groups_are_those_of_the_routes(api: Served) -> None:
    fire(api.store, slow("t1", "n1"), slow("t2", "n2"), lost("n1"))
    groups = api.get("/api/v2/alerts/groups").json
    assert [(g["labels"], g["receiver"]["name"], values(g["alerts"], "host")) for g in groups] == [
        ({"alertname": "node-lost"}, "db", ["n1"]),
        ({"alertname": "slow"}, "ops", ["n1", "n2"]),
    ]
    active = api.get("/api/v2/alerts/groups?active=true&inhibited=false&receiver=ops").json
    assert [values(g["alerts"], "host") for g in active] == [["n2"]]
    assert api.get("/api/v2/alerts/groups?filter=host%3Dn9").json == []


def test_groups_say_what_their_routes_say_of_themselves(store: Store, tmp_path: Path) -> None:
    fire(store, slow("t1", "n1"), lost("n1"))
    labels = {"team": "data"}
    below = {"matchers": ['alertname="slow"'], "labels": {"tier": 2}}
    route = {"receiver": "ops", "group_by": ["alertname"], "labels": labels, "routes": [below]}
    with served(store, tmp_path, settings=configured(route=route)) as api:
        told = {g["labels"]["alertname"]: g["routeLabels"] for g in api.get("/api/v2/alerts/groups").json}
        assert told == {"slow": {**labels, "tier": "2"}, "node-lost": labels}
        found = api.get("/api/v2/alerts/groups?receiver_matchers=name%3Ddb").json
        assert found == []
        assert api.get("/api/v2/receivers?receiver_matchers=name%3D~d.").json == [{"name": "db"}]


def test_a_muted_route_suppresses_its_groups(store: Store, tmp_path: Path) -> None:
    fire(store, slow("t1", "n1"), lost("n1"))
    always = [{"name": "always", "time_intervals": [{}]}]
    route = {
        "receiver": "ops",
        "routes": [{"matchers": ['alertname="slow"'], "receiver": "db", "mute_time_intervals": ["always"]}],
    }
    settings = configured(route=route, time_intervals=always, inhibit_rules=[])
    with served(store, tmp_path, settings=settings) as api:
        groups = {g["receiver"]["name"]: g["alerts"][0] for g in api.get("/api/v2/alerts/groups").json}
        assert groups["db"]["status"] == {
            "state": "suppressed",
            "mutedBy": ["always"],
            "silencedBy": [],
            "inhibitedBy": [],
        }
        assert groups["ops"]["status"]["mutedBy"] == []
        assert [g["receiver"]["name"] for g in api.get("/api/v2/alerts/groups?muted=false").json] == ["ops"]


def test_without_a_route_each_alert_is_a_group_and_without_receivers_nobody_is_told(
    store: Store, tmp_path: Path
) -> None:
    fire(store, slow("t1", "n1"), slow("t2", "n2"))
    with served(store, tmp_path, settings=configured(none=True)) as api:
        groups = api.get("/api/v2/alerts/groups").json
        assert [(g["labels"], g["receiver"]["name"]) for g in groups] == [
            ({"alertname": "slow", "task_id": "t1"}, "none"),
            ({"alertname": "slow", "task_id": "t2"}, "none"),
        ]
        assert api.get("/api/v2/receivers").json == [{"name": "none"}]
        api.settings[0] = configured(route=None, inhibit_rules=[])
        assert len(api.get("/api/v2/alerts/groups").json) == 4
        assert api.alerts()[0]["receivers"] == [{"name": "ops"}, {"name": "db"}]


def test_long_answers_come_in_parts_and_are_whole(api: Served) -> None:
    fire(api.store, *(slow(f"t{n}", f"n{n % 7}") for n in range(1_200)))
    assert len(api.alerts()) == 1_200
    (group,) = api.get("/api/v2/alerts/groups").json
    assert values(group["alerts"], "task_id") == sorted(f"t{n}" for n in range(1_200))


def test_of_alerts_with_the_same_labels_the_latest_is_told(store: Store) -> None:
    fire(store, slow("t1", "n1", NOW_MS - 5_000_000), now_ms=NOW_MS - 4_000_000)
    fire(store, slow("t1", "n1"))
    assert len(store.alerts()) == 2
    (alert,) = Active(store).now().alerts.values()
    assert alert.start_ms == NOW_MS - 60_000


_LABELS = st.dictionaries(st.sampled_from(["a", "b", "c"]), st.sampled_from(["", "x", "y", "z"]))
_MATCHERS = st.sampled_from(['a="x"', 'a!="x"', 'a=~"x|y"', 'b!~"z"', 'b="y"', 'c="z"', 'a=""', 'c=~".+"'])


@given(st.lists(st.lists(_MATCHERS, min_size=1, max_size=3), max_size=5), _LABELS)
def test_silences_that_cover_are_found_by_their_definition(drawn: list[list[str]], labels: dict[str, str]) -> None:
    rows = []
    for number, texts in enumerate(drawn):
        matchers = parse_matchers(",".join(texts))
        columns = {"matchers": [[m.name, m.operator, m.value] for m in matchers], "recurrence": []}
        rows.append(SilenceRow(id=number, starts_ms=0, until_ms=10, reason="", actor="", created_ms=0, **columns))
    expected = [
        silence_uuid(row.id)
        for row in rows
        if all(_holds(name, operator, value, labels) for name, operator, value in row.matchers)
    ]
    assert Silenced(rows, 5).by({name: value for name, value in labels.items() if value}) == sorted(expected)


def _holds(name: str, operator: str, value: str, labels: dict[str, str]) -> bool:
    import re

    found = labels.get(name, "")
    matches = re.fullmatch(value, found) is not None if "~" in operator else found == value
    return matches == operator.startswith("=")


def test_silences_are_those_of_this_moment(api: Served) -> None:
    fire(api.store, slow("t1", "n9"))
    operations.silence_matching(
        api.store, silencing(parse_matchers('host="n9"'), NOW_MS + 10, NOW_MS + 20, (), NOW_MS), MIA, "later", NOW_MS
    )
    seen = []
    for now_ms in (NOW_MS + 9, NOW_MS + 10, NOW_MS + 20):
        api.clock.advance_to(now_ms)
        seen.append(states(api.alerts())["t1"])
    assert seen == ["active", "suppressed", "active"]
