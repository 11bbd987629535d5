"""LoadStd, Balance and Imbalance against their definitions."""

from __future__ import annotations

import json
import statistics
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.base import OptionError, PositionError
from collectors.metrics.load_balance import LoadDeriver, LoadOptions
from collectors.schema import load_event_types
from collectors.time_units import DAY_MS
from engine.events import EventBatch


def metrics(step: int, values: dict[str, float], name: str = "cpu_user", cluster: str = "c") -> EventBatch:
    rows = [
        {
            "event_id": f"{cluster}/{host}/{step}", "type": "Metric", "t_lo_ms": step * 15_000 - 14_999,
            "t_hi_ms": step * 15_000, "clock_id": cluster, "host": host, "name": name, "value": value,
        }
        for host, value in values.items()
    ]  # fmt: skip
    return EventBatch.from_rows(rows, load_event_types())


def rows(batch: EventBatch) -> list[dict[str, Any]]:
    return list(batch.rows())


def test_population_standard_deviation() -> None:
    values = {"a": 3.0, "b": 7.0, "c": 7.0, "d": 19.0}
    std, balance = rows(LoadDeriver().derive(metrics(1, values), 15_001))
    assert std["val"] == pytest.approx(statistics.pstdev(values.values()))  # 6, not the sample's 6.9
    assert (std["type"], std["n_hosts"], std["n_missing"], std["name"]) == ("LoadStd", 4, 0, "cpu_user")
    assert (std["t_lo_ms"], std["t_hi_ms"]) == (1, 15_000)
    assert balance["type"] == "Balance"
    assert std["unit"] == balance["unit"] == "%"
    assert std["clock_id"] == balance["clock_id"] == "load:c"
    assert std["source_seq"] < balance["source_seq"]


@pytest.mark.parametrize(
    ("n_busy", "event_type"),
    [
        (0, "Balance"),
        (1, "Balance"),
        (2, "Imbalance"),
        (5, "Imbalance"),
        (8, "Imbalance"),
        (9, "Balance"),
        (10, "Balance"),
    ],
)
def test_imbalance_between_the_shares_both_included(n_busy: int, event_type: str) -> None:
    values = {f"h{i}": 20.0 if i < n_busy else 19.999 for i in range(10)}
    _, balance = rows(LoadDeriver().derive(metrics(1, values), 15_001))
    assert (balance["type"], balance["busy_ratio"]) == (event_type, n_busy / 10)


def test_thresholds_are_options() -> None:
    values = {"a": 60.0, "b": 10.0, "c": 10.0}
    options = LoadOptions(busy_percent=50.0, low_ratio=0.4, high_ratio=0.6)
    assert rows(LoadDeriver(options).derive(metrics(1, values), 15_001))[1]["type"] == "Balance"
    with pytest.raises(OptionError, match="low_ratio"):
        LoadOptions(low_ratio=0.9, high_ratio=0.1)


def test_a_load_has_no_unit() -> None:
    std, _ = rows(LoadDeriver(LoadOptions(metric="load_one")).derive(metrics(1, {"a": 1.0}, "load_one"), 15_001))
    assert (std["name"], std.get("unit")) == ("load_one", None)


def test_a_step_waits_for_the_watermark_and_is_never_late() -> None:
    deriver = LoadDeriver()
    assert rows(deriver.derive(metrics(1, {"a": 1.0}), 1)) == []  # b's sample of this step may still come
    std, _ = rows(deriver.derive(metrics(1, {"b": 3.0}), 2))
    assert std["n_hosts"] == 2
    assert std["t_lo_ms"] >= 1  # not before the watermark that was promised when it was not out yet
    assert rows(deriver.derive(metrics(1, {"c": 9.0}), 3)) == []  # late: its step is out


def test_missing_hosts_are_counted_for_a_few_steps() -> None:
    deriver = LoadDeriver(LoadOptions(remember_steps=2))
    found = []
    for step in range(1, 6):
        values = {"a": 1.0, "b": 2.0} if step == 1 else {"a": 1.0}
        found += [
            r["n_missing"]
            for r in rows(deriver.derive(metrics(step, values), step * 15_000 + 1))
            if r["type"] == "LoadStd"
        ]
    assert found == [0, 1, 1, 0, 0]


def test_a_step_is_one_event_whatever_else_was_read() -> None:
    whole = LoadDeriver()
    first = rows(whole.derive(metrics(1, {"a": 1.0, "b": 2.0}), 15_001))
    second = rows(whole.derive(metrics(2, {"a": 1.0}), 30_001))  # b is missing
    later = rows(LoadDeriver().derive(metrics(2, {"a": 1.0, "c": 4.0}), 30_001))  # an export that begins here
    assert [row["event_id"] for row in later] == [row["event_id"] for row in second]
    assert len({row["event_id"] for row in first + second}) == 4


def test_other_metrics_and_clusters_stay_apart() -> None:
    batch = EventBatch.concat(
        [
            metrics(1, {"a": 1.0, "b": 3.0}, cluster="x"),
            metrics(1, {"a": 5.0}, cluster="y"),
            metrics(1, {"a": 99.0, "z": 7.0}, name="load_one", cluster="x"),
        ]
    )
    found = [r for r in rows(LoadDeriver().derive(batch, 15_001)) if r["type"] == "LoadStd"]
    assert [(r["clock_id"], r["val"], r["n_hosts"]) for r in found] == [("load:x", 1.0, 2), ("load:y", 0.0, 1)]


def test_batches_and_restarts_change_nothing() -> None:
    steps = [metrics(step, {"a": 10.0 * step, "b": 5.0, "c": 1.0}) for step in range(1, 6)]
    at_once = LoadDeriver().derive(EventBatch.concat(steps), 100_000)
    deriver, found = LoadDeriver(), []
    for step, batch in enumerate(steps, 1):
        found.append(deriver.derive(batch, step * 15_000 - 20_000))
        restored = LoadDeriver()
        restored.restore(json.loads(json.dumps(deriver.checkpoint())))
        deriver = restored
    found.append(deriver.derive(EventBatch.empty(), 100_000))
    assert EventBatch.concat(found).table.equals(at_once.table.combine_chunks())
    with pytest.raises(PositionError):
        deriver.restore({"version": 1, "clusters": {"c": {}}})


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (0.5, 0.5), (0.0, 0.0)])
def test_the_ends_of_the_ratios_are_allowed(low: float, high: float) -> None:
    options = LoadOptions(low_ratio=low, high_ratio=high)
    assert (options.low_ratio, options.high_ratio) == (low, high)


def furthest_by_definition(values: dict[str, float]) -> list[tuple[str, float]]:
    """In exact arithmetic: n^2 * distance^2 >= n^2 * variance, without a root or a quotient."""
    n = len(values)
    exact = {host: Fraction(value) for host, value in values.items()}
    total = sum(exact.values())
    variance_nn = n * sum(v * v for v in exact.values()) - total * total
    distance_n = {host: abs(n * value - total) for host, value in exact.items()}
    if variance_nn == 0:
        return []
    far = [host for host in values if distance_n[host] ** 2 >= variance_nn]
    far.sort(key=lambda host: (-distance_n[host], -values[host], host))
    return [(host, values[host]) for host in far[:5]]


def named(row: dict[str, Any]) -> list[tuple[str, float]]:
    pairs = [(row.get(f"host_{i}"), row.get(f"value_{i}")) for i in range(1, 6)]
    given = [(host, value) for host, value in pairs if host is not None and value is not None]
    assert pairs == [*given, *[(None, None)] * (5 - len(given))]  # the first ones, without gaps
    return given


@pytest.mark.parametrize(
    ("values", "hosts"),
    [
        ({"n1": 95.0, "n2": 94.0, "n3": 5.0, "n4": 4.0, "n5": 5.0, "n6": 5.0}, ["n1", "n2"]),
        ({"n1": 5.0, "n2": 95.0, "n3": 95.0, "n4": 95.0}, ["n1"]),  # an idle one among busy ones
        ({"b": 10.0, "a": 10.0, "d": 0.0, "c": 0.0}, ["a", "b", "c", "d"]),  # all at exactly one deviation
        ({f"h{i}": 10.0 * (i % 2) for i in range(8)}, ["h1", "h3", "h5", "h7", "h0"]),
        ({"a": 0.1, "b": 0.1, "c": 0.1}, []),  # their sum is off by a rounding
        ({"a": 7.0}, []),
        ({"a": 0.0, "b": 0.0}, []),
        ({"a": 0.3, "b": 0.1, "c": 0.3, "d": 0.1}, ["a", "c", "b", "d"]),  # distances that differ by a rounding
    ],
)  # fmt: skip
def test_the_furthest_hosts_with_their_values(values: dict[str, float], hosts: list[str]) -> None:
    found = rows(LoadDeriver().derive(metrics(1, values), 15_001))
    for row in found:
        assert named(row) == [(host, values[host]) for host in hosts], row["type"]


@given(st.dictionaries(st.text("abcdefgh", min_size=1, max_size=2), st.integers(0, 100), min_size=1, max_size=12))
def test_the_furthest_hosts_by_their_definition(values: dict[str, int]) -> None:
    numbers = {host: float(value) for host, value in values.items()}
    std, balance = rows(LoadDeriver().derive(metrics(1, numbers), 15_001))
    assert named(std) == named(balance) == furthest_by_definition(numbers)


def test_the_order_in_which_samples_come_changes_nothing() -> None:
    values = {f"h{i}": 0.1 * i * i for i in range(9)}
    backwards = dict(reversed(values.items()))
    one, other = (rows(LoadDeriver().derive(metrics(1, given), 15_001)) for given in (values, backwards))
    assert one == other


def test_clusters_that_are_gone_are_forgotten_where_polls_are_steps() -> None:
    deriver = LoadDeriver(of_polls=True)
    for number in range(4):
        rows = [
            {"event_id": "x", "type": "Metric", "t_lo_ms": number * DAY_MS, "clock_id": f"prometheus:{number}",
             "host": "a", "name": "cpu_user", "value": 1.0}
        ]  # fmt: skip
        deriver.derive(EventBatch.from_rows(rows, load_event_types()), number * DAY_MS)
    assert list(deriver.checkpoint()["clusters"]) == ["prometheus:2", "prometheus:3"]


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_samples_of_one_step_have_one_resolution(order: tuple[int, ...]) -> None:
    def sample(host: str, t_lo_ms: int, value: float) -> EventBatch:
        row = {
            "event_id": f"{host}/{t_lo_ms}", "type": "Metric", "t_lo_ms": t_lo_ms, "t_hi_ms": 360_000, "clock_id": "c",
            "host": host, "name": "cpu_user", "value": value,
        }  # fmt: skip
        return EventBatch.from_rows([row], load_event_types())

    given = [sample("a", 345_001, 10.0), sample("b", 1, 90.0), sample("c", 345_001, 30.0)]  # b's is of six minutes
    deriver = LoadDeriver()
    for place in order:
        assert not len(deriver.derive(given[place], 1))
    std, _ = rows(deriver.derive(EventBatch.empty(), 360_001))
    assert (std["n_hosts"], std["val"], std["t_lo_ms"]) == (2, 10.0, 345_001)
