"""Limits that queries of one event have, and what is shown of a value beside them."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

import engine
from app.alerting.catalog import QueryInfo
from app.alerting.recording.evidence import KnownEvent
from app.alerting.recording.options import AlertingOptions
from app.alerting.recording.recorder import Recorder
from app.queries.loading import load_queries
from app.settings import Severity
from app.store.models import AlertRow, EvidenceRow
from collectors.schema import load_event_types
from dashboard.alerts import beside
from dashboard.alerts.beside import read_beside
from dashboard.alerts.limits import crossed, limits_of
from dashboard.charts.axes import TimeAxis
from dashboard.charts.limits import over_time, subject_bars
from dashboard.charts.marks import AlertMark
from engine.events import EventBatch
from tests.app.alerting_fixtures import FakeMatch
from tests.dashboard.conftest import T0_MS
from tests.dashboard.job_fixtures import DONE, alert_row, batch, job_rows
from tests.dashboard.query_fixtures import Installation, installation, links_of, texts, view

__all__ = ["installation"]

QUERIES = Path(__file__).parents[2] / "queries"
MINUTE_MS = 60_000
HEAP = (QUERIES / "heap-high.cep").read_text(encoding="utf-8")


def of_text(where: str, parameters: str = "") -> list[tuple[str, str, float | None]]:
    """(attribute, operator, limit for an event with x = 4 and y = 10) of each."""
    text = f"{parameters}\nPATTERN T a\nWHERE skip_till_any_match {{ {where} }}\nWITHIN 1 minute\nRETURN a.x"
    query = engine.parse(text, "q")
    given = {each.name: each.value for each in query.parameters}
    return [(limit.attribute, limit.op, limit.bound_of({"x": 4, "y": 10})) for limit in limits_of(query, given)]


@pytest.mark.parametrize(
    ("where", "parameters", "expected"),
    [
        ("a.x >= 5", "", [("x", ">=", 5.0)]),
        ("5 > a.x", "", [("x", "<", 5.0)]),
        ("a.x > :m * a.y AND a.y > 0", "PARAMETERS m = 0.5", [("x", ">", 5.0)]),
        ("[h] AND (a.x >= :m OR a.y <= -:m)", "PARAMETERS m = 2", [("x", ">=", 2.0), ("y", "<=", -2.0)]),
        ("a.x >= :m / (a.y - 10)", "PARAMETERS m = 2", [("x", ">=", None)]),  # unknown, as for the engine
        ("a.x >= :m * a.z", "PARAMETERS m = 2", [("x", ">=", None)]),
        ("a.x = 5 AND a.s != 'x' AND a.x + 1 > 3", "", []),
        ("NOT a.x > 5", "", []),
    ],
)
def test_limits_are_what_an_attribute_is_compared_with(where: str, parameters: str, expected: list[Any]) -> None:
    assert of_text(where, parameters) == expected


@pytest.mark.parametrize("pattern", ["T+ a[]", "SEQ(T a, T b)", "AND(T a, T b)"])
def test_a_pattern_of_several_events_has_none(pattern: str) -> None:
    name = "a[1]" if "+" in pattern else "a"
    text = f"PATTERN {pattern}\nWHERE skip_till_next_match {{ {name}.x > 1 }}\nWITHIN 1 minute\nRETURN {name}.x"
    try:
        query = engine.parse(text, "q")
    except engine.QuerySyntaxError:
        pytest.skip("no such pattern")
    assert limits_of(query, {}) == ()


def test_the_limits_of_a_query_are_crossed_by_what_it_matches() -> None:
    """Held against the engine: an event matches where all that the query asks is so, and its limits say the same."""
    draw = random.Random(7)
    query = engine.parse(HEAP, "heap-high")
    parameters = {each.name: each.value for each in query.parameters}
    rows = [
        {"event_id": f"e{i}", "type": "DaemonSample", "t_lo_ms": T0_MS + i, "host": f"n{i}", "daemon": "NameNode",
         "heap_used_bytes": draw.randrange(100), "heap_max_bytes": draw.randrange(1, 120)}
        for i in range(200)
    ]  # fmt: skip
    found = engine.reference_matches(
        engine.resolve(query, load_event_types()), EventBatch.from_rows(rows, load_event_types())
    )
    host_of = {row["event_id"]: row["host"] for row in rows}
    matched = {host_of[event_id] for match in found for event_id in match.bindings["a"]}
    assert {row["host"] for row in rows if crossed(limits_of(query, parameters), row)} == matched
    assert 20 < len(matched) < 180


def sample(host: str, minute: float, used: int, whole: int = 1_000, daemon: str = "NameNode") -> dict[str, Any]:
    at_ms = T0_MS + round(minute * MINUTE_MS)
    return {
        "event_id": f"{host}-{daemon}-{minute}", "type": "DaemonSample", "t_lo_ms": at_ms, "t_hi_ms": at_ms,
        "host": host, "daemon": daemon, "heap_used_bytes": used, "heap_max_bytes": whole, "gc_ms": 7,
    }  # fmt: skip


SAMPLES = [
    *(sample("node1", minute, 110 * minute + 50, 1_000 + 10 * minute) for minute in range(10)),
    sample("node1", 5, 990, daemon="DataNode"),  # another subject of the same host
    sample("node2", 8, 400, 2_000),
    sample("node2", 9, 300, 2_000),
    sample("node2", 9.5, 999, 2_000),  # after the event
    sample("node3", -5, 800),  # too long ago
    sample("node4", 2, 700),
]
AT = 9
"""The minute of the event that raised the alert."""


class Events:
    """What pages read from, as a list."""

    is_live = True

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self.batch = EventBatch.from_rows(rows, load_event_types())

    def _touching(self, types: Any, from_ms: int, to_ms: int) -> list[dict[str, Any]]:
        return [
            row
            for row in self.batch.table.to_pylist()
            if row["type"] in types and row["t_lo_ms"] <= to_ms and row["t_hi_ms"] >= from_ms
        ]

    def count(self, *, types: Any, from_ms: int, to_ms: int) -> int:
        return len(self._touching(types, from_ms, to_ms))

    def read(self, *, types: Any, from_ms: int, to_ms: int, equal: Any, columns: Any) -> Any:
        found = [r for r in self._touching(types, from_ms, to_ms) if all(r[n] == v for n, v in equal.items())]
        return EventBatch.from_rows(found, load_event_types()).table.select(list(columns))


def alert_and_event() -> tuple[AlertRow, EvidenceRow]:
    (attributes,) = [row for row in SAMPLES if row["event_id"] == f"node1-NameNode-{AT}"]
    at_ms = attributes["t_hi_ms"]
    alert = AlertRow(onset_ms=at_ms, last_seen_ms=at_ms, severity="warning", query="heap-high", summary="full")
    row = EvidenceRow(variable="a", type="DaemonSample", t_lo_ms=at_ms, t_hi_ms=at_ms, attributes=attributes)
    return alert, row


def heap_limit() -> Any:
    query = engine.parse(HEAP, "heap-high")
    (limit,) = limits_of(query, {each.name: each.value for each in query.parameters})
    return limit


def test_a_value_stands_beside_its_own_history_and_the_last_ones_of_its_peers() -> None:
    alert, row = alert_and_event()
    found = read_beside(Events(SAMPLES), alert, row, heap_limit())  # type: ignore[arg-type]  # less than pages need
    assert found is not None
    assert [(p.at_ms, p.value, p.bound) for p in found.points] == [
        (T0_MS + minute * MINUTE_MS, 110.0 * minute + 50, pytest.approx(0.9 * (1_000 + 10 * minute)))
        for minute in range(10)
    ]
    assert [(bar.label, bar.value, bar.is_offender) for bar in found.bars] == [
        ("node1 NameNode", 1_040.0, True), ("node1 DataNode", 990.0, False), ("node4 NameNode", 700.0, False),
        ("node2 NameNode", 300.0, False),
    ]  # fmt: skip
    assert [bar.bound for bar in found.bars] == pytest.approx([981.0, 900.0, 900.0, 1_800.0])
    assert "▶ node1 NameNode" in json.dumps(subject_bars(found).to_dict(), ensure_ascii=False)
    assert [layer["mark"]["type"] for layer in subject_bars(found).to_dict()["layer"]] == ["bar", "text", "tick"]
    mark = AlertMark(alert.onset_ms, alert.severity, alert.query, alert.summary)
    layers = over_time(found, TimeAxis(*found.span_ms, "UTC"), [mark]).to_dict()["layer"]
    assert [layer["mark"]["type"] for layer in layers] == ["line", "line", "rule", "text"]


def test_without_other_events_a_value_stands_alone_with_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    alert, row = alert_and_event()
    alone = read_beside(None, alert, row, heap_limit())
    assert alone is not None
    assert ([bar.value for bar in alone.bars], alone.points, alone.n_left_out) == ([1_040.0], (), 0)
    monkeypatch.setattr(beside, "MAX_EVENTS", len(SAMPLES) - 4)
    too_many = read_beside(Events(SAMPLES), alert, row, heap_limit())  # type: ignore[arg-type]  # as above
    assert too_many is not None
    assert too_many.points == ()


def test_of_many_values_none_beyond_the_limit_is_thinned_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beside, "MAX_POINTS", 3)
    alert, row = alert_and_event()
    found = read_beside(Events(SAMPLES), alert, row, heap_limit())  # type: ignore[arg-type]  # as above
    assert found is not None
    assert [point.value for point in found.points] == [380.0, 820.0, 1_040.0]


def test_the_page_of_such_an_alert_has_both(installation: Installation) -> None:
    installation.query("heap-high", HEAP)
    installation.log(EventBatch.from_rows(SAMPLES, load_event_types()))
    _, row = alert_and_event()
    at_ms = row.t_hi_ms
    assert at_ms is not None
    key = (("host", "node1"), ("daemon", "NameNode"))
    match = FakeMatch(at_ms, at_ms, "heap-high", key, {"a": ("e",)}, values={"heap_used_bytes": 1_040})
    known = {"e": KnownEvent.of(row.attributes)}
    info = QueryInfo("heap-high", "h", Severity.WARNING, "uses {heap_used_bytes}", 10)
    with installation.store() as store:
        with store.transaction() as writer:
            options = AlertingOptions({"heap-high": info}, {}, max_age_ms=10**15)
            Recorder(options, writer, lambda _ids: known, at_ms + 1).live([match], at_ms)
        (alert,) = store.alerts()
    shown = texts(view("alert", id=alert.id)).replace("\\", "")
    assert "▶ marks this alert's heap_used_bytes (1.0 KiB)" in shown
    assert "the query looks for what is at or above 981 B" in shown
    assert "its peers have their last value of the 10 min before" in shown
    assert "the dotted one where this alert began" in shown


ALERT_ID = "a1" * 16
QUEUED = (QUERIES / "queued-data-high.cep").read_text(encoding="utf-8")


def test_an_alert_about_queued_data_shows_what_was_queued(installation: Installation) -> None:
    """Of its job, from the event log: the alert's own events are a part of those of a large one."""
    installation.query("queued-data-high", QUEUED.replace("10000000000", "5000"))
    with installation.store() as store, store.transaction() as writer:
        writer.alerts.add(alert_row(ALERT_ID, job_id=DONE, query="queued-data-high", best_n_events=1))
        given = {"event_id": "e", "type": "DataIO", "t_lo_ms": T0_MS, "t_hi_ms": T0_MS, "attributes": {"size_bytes": 1}}
        writer.session.add(EvidenceRow(alert_id=ALERT_ID, position=0, variable="b", origin=None, raw=None, **given))
    assert "no events of its job any more" in texts(view("alert", id=ALERT_ID))
    installation.log(batch(job_rows()))
    page = view("alert", id=ALERT_ID)
    told = texts(page).replace("\\", "")
    assert "at most 3.9 KiB" in told
    assert links_of(page)["The job count"] == f"job?id={DONE}"
    assert "The dashed line is the threshold of queued-data-high (4.9 KiB)." in told
    specifications = [json.loads(chart.proto.spec) for chart in page.get("vega_lite_chart")]
    (queue,) = [found for found in specifications if "bytes_low" in json.dumps(found)]
    rules = [layer["encoding"] for layer in queue["layer"] if isinstance(layer.get("mark"), dict)
             and layer["mark"]["type"] == "rule"]  # fmt: skip
    assert sorted(place for rule in rules for place in rule if place in ("x", "y")) == ["x", "y"]


def hash_in_use(installation: Installation, name: str) -> str:
    """What an alert of this query has that is raised now."""
    now = installation.settings
    return load_queries(now.queries, now.alerting.group_gap_ms).infos[name].hash


def test_a_threshold_that_was_changed_since_contradicts_no_alert(installation: Installation) -> None:
    """Alerts keep no parameters: `lies far above` beside an alert about too much is told with why."""
    installation.query("queued-data-high", QUEUED.replace("10000000000", "3000"))
    then = hash_in_use(installation, "queued-data-high")
    installation.log(batch(job_rows()))
    with installation.store() as store, store.transaction() as writer:
        raised = alert_row(ALERT_ID, job_id=DONE, query="queued-data-high", query_hash=then, best_n_events=1)
        writer.alerts.add(raised)
        given = {"event_id": "e", "type": "DataIO", "t_lo_ms": T0_MS, "t_hi_ms": T0_MS, "attributes": {"size_bytes": 1}}
        writer.session.add(EvidenceRow(alert_id=ALERT_ID, position=0, variable="b", origin=None, raw=None, **given))
    pages = ({"page": "alert", "id": ALERT_ID}, {"page": "job", "id": DONE})
    for given in pages:
        told = texts(view(given["page"], id=given["id"])).replace("\\", "")
        assert "The dashed line is the threshold of queued-data-high (2.9 KiB)." in told
        assert "changed since" not in told
    installation.query("queued-data-high", QUEUED)
    for given in pages:
        told = texts(view(given["page"], id=given["id"])).replace("\\", "")
        assert "The threshold of queued-data-high (9.3 GiB) lies far above." in told
        assert "queued-data-high or its threshold was changed since it raised the alert here." in told
    assert "thresholds are drawn as they are now" in texts(view("alert", id=ALERT_ID))


def test_a_value_below_a_threshold_that_was_raised_since_is_still_shown(installation: Installation) -> None:
    """The alert is about it, whatever would raise one now."""
    installation.query("heap-high", HEAP.replace("0.9", "1.9"))
    installation.log(EventBatch.from_rows(SAMPLES, load_event_types()))
    _, row = alert_and_event()
    with installation.store() as store, store.transaction() as writer:
        writer.alerts.add(alert_row(ALERT_ID, query="heap-high", best_n_events=1, onset_ms=row.t_hi_ms))
        kept = {"type": row.type, "t_lo_ms": row.t_lo_ms, "t_hi_ms": row.t_hi_ms, "attributes": dict(row.attributes)}
        writer.session.add(
            EvidenceRow(alert_id=ALERT_ID, position=0, variable="a", event_id="e", origin=None, raw=None, **kept)
        )
    shown = texts(view("alert", id=ALERT_ID)).replace("\\", "")
    assert "▶ marks this alert's heap_used_bytes (1.0 KiB)" in shown
    assert "the query looks for what is at or above 2.0 KiB" in shown
    assert "thresholds are drawn as they are now" in shown
