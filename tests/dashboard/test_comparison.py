"""What an alert's events show at a glance: its duration beside its peers', its values, the decisive record."""

from __future__ import annotations

from typing import Any

from app.store.models import AlertRow, EvidenceRow
from dashboard.alerts.comparison import MAX_BARS, comparison, curve, decisive, in_words
from dashboard.charts.comparison import bars
from dashboard.charts.comparison import curve as value_curve

T0_MS = 1_700_000_000_000


def event(i: int, variable: str, raw: str | None = None, **attributes: Any) -> EvidenceRow:
    at_ms = T0_MS + i * 1_000
    return EvidenceRow(
        position=i, variable=variable, type="T", t_lo_ms=at_ms, t_hi_ms=at_ms, attributes=attributes, raw=raw
    )


def mapper(i: int, period_ms: int, host: str) -> EvidenceRow:
    return event(i, "b", attempt_id=f"attempt_1_2_m_{i:06}_0", host=host, period_ms=period_ms)


def test_the_offender_stands_on_top_of_its_peers() -> None:
    straggler = event(9, "c", attempt_id="attempt_1_2_m_000009_1", host="node4", elapsed_ms=90_000, progress=0.5)
    found = comparison([event(0, "a"), mapper(1, 10_000, "n1"), mapper(2, 20_000, "n2"), straggler], {"factor": 3})
    assert found is not None
    assert [(bar.label, bar.duration_ms, bar.is_offender) for bar in found.bars] == [
        ("m_000009 (attempt 2) node4", 90_000, True), ("m_000002 n2", 20_000, False), ("m_000001 n1", 10_000, False),
    ]  # fmt: skip
    assert (found.average_ms, found.threshold_ms, found.n_left_out) == (15_000, 45_000, 0)


def test_the_longest_of_many_peers_are_drawn_and_all_are_averaged() -> None:
    peers = [mapper(i, 1_000 * (i + 1), f"n{i}") for i in range(MAX_BARS + 5)]
    found = comparison([*peers, mapper(99, 10**6, "slow")], {})
    assert found is not None
    assert found.n_left_out == 5
    assert [bar.duration_ms for bar in found.bars] == [10**6, *(1_000 * i for i in range(MAX_BARS + 5, 5, -1))]
    assert found.average_ms == 13_000
    assert found.threshold_ms is None
    drawn = bars(found).to_dict()
    assert [layer["mark"]["type"] for layer in drawn["layer"]] == ["bar", "text", "rule"]


def test_equal_labels_have_rows_of_their_own() -> None:
    found = comparison([mapper(1, 1_000, "n1"), mapper(1, 2_000, "n1"), mapper(2, 9_000, "n1")], {"factor": 2})
    assert found is not None
    drawn = bars(found).to_dict()
    assert drawn["layer"][0]["encoding"]["y"]["sort"] == ["▶ m_000002 n1", "m_000001 n1", "m_000001 n1 #2"]
    assert [layer["mark"]["type"] for layer in drawn["layer"]] == ["bar", "text", "rule", "rule"]


def test_one_duration_has_no_peers() -> None:
    assert comparison([mapper(1, 1_000, "n1"), event(2, "c")], {"factor": 3}) is None


def test_values_are_a_curve_with_the_threshold() -> None:
    samples = [event(i, "b", name="cpu_user", val=float(10 * i)) for i in range(1, 5)]
    found = curve([event(0, "a", value=1.0), *samples], {"min_rise": 25})
    assert found is not None
    assert (found.name, found.threshold) == ("cpu_user", 35.0)
    assert found.points == tuple((T0_MS + i * 1_000, 10.0 * i) for i in range(1, 5))
    drawn = value_curve(found, "Asia/Kolkata").to_dict()
    assert [layer["mark"]["type"] for layer in drawn["layer"]] == ["line", "rule"]
    assert drawn["layer"][0]["encoding"]["x"]["title"] == "Time (Asia/Kolkata)"
    assert curve(samples[:2], {}) is None
    assert (found.unit, drawn["layer"][0]["encoding"]["y"]["title"]) == ("", "cpu_user")


def test_a_curve_has_the_unit_of_its_samples() -> None:
    found = curve([event(i, "b", name="cpu_user", unit="%", val=float(i)) for i in range(4)], {})
    assert found is not None
    assert value_curve(found, "UTC").to_dict()["layer"][0]["encoding"]["y"]["title"] == "cpu_user (%)"


def test_the_decisive_line_is_of_the_event_whose_value_is_told() -> None:
    lines = [event(i, "b", raw=f"line {i}", period_ms=i) for i in range(5)]
    told = decisive(AlertRow(values={"period_ms": 3}), lines)
    assert told is lines[3]
    assert decisive(AlertRow(values={}), lines) is lines[4]
    assert decisive(AlertRow(values={}), []) is None


def test_an_event_without_a_line_is_told_in_words() -> None:
    row = event(1, "c", host="node4\u202e", elapsed_ms=124_000, progress=0.667, status="RUNNING")
    assert decisive(AlertRow(values={}), [event(0, "a"), row]) is row
    assert in_words(row) == "T on node4: elapsed_ms 2 min 4 s, progress 0.667"


def test_the_decisive_event_has_the_value_that_the_query_names_otherwise() -> None:
    """The last event of a match may only end it: what an alert tells of is the greatest deviation."""
    load = [event(i, "b", name="cpu_user", val=float(i), host_1="node1", value_1=92.96) for i in range(3)]
    for row in load:
        row.type = "LoadStd"
    sample = event(9, "c", host="node4", elapsed_ms=89_000)
    row = decisive(AlertRow(values={"std_now": 2.0, "progress": True}), [event(0, "a"), *load, sample])
    assert row is load[2]
    assert in_words(row) == "LoadStd on node1 (93): val 2"
    found = curve(load, {})
    assert found is not None
    assert found.name == "standard deviation of cpu_user"


def test_a_match_of_another_query_is_told_with_its_suspect() -> None:
    row = event(1, "f", host="node3", source_host="node5", suspect="node5", period_ms=10_229)
    assert in_words(row) == "T on node5: period_ms 10.2 s"
