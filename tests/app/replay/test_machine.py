"""The simulated machine: its clock, what it says of latencies, and the load that it is put under."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.config import load_settings
from app.errors import AppError
from app.replay.demo_report import overload_lines, overload_verdict
from app.replay.machine import Costs, SimulatedMachine
from app.replay.overload import Capacity, Load, bounded, check_times

COSTS = Costs(event_s=1.0, kept_s=0.5, dropped_s=0.25)
ROOT = Path(__file__).parents[3]


def machine(speed: float | None = None) -> SimulatedMachine:
    return SimulatedMachine(COSTS, speed, n_clusters=1)


def test_an_event_takes_longer_beside_more_that_is_kept() -> None:
    at = machine()
    at.evaluated(2, 0, 0.0)
    assert at() == 2.0
    at.evaluated(3, 4, 1.0)
    assert at() == 2.0 + 3 * (1.0 + 0.5 * 4)
    at.dropped(4)
    assert at() == 12.0
    assert [step.latency_s for step in at.steps] == [2.0, 10.0]
    assert (at.n_events, at.longest_s) == (5, 10.0)
    assert (at.latency_s(0.4), at.latency_s(0.41)) == (2.0, 10.0)


def test_clusters_like_the_recorded_one_stand_beside_each_other() -> None:
    many = SimulatedMachine(COSTS, n_clusters=10)
    many.evaluated(2, 4, 0.0)
    many.dropped(4)
    assert many() == 10 * 2 * (1.0 + 0.5 * 10 * 4) + 0.25 * 10 * 4
    assert many.n_events == 20


def test_the_clock_waits_for_what_is_to_come_and_not_for_what_came() -> None:
    at = machine(speed=2.0)
    with at.arrival(10.0):
        assert at() == 5.0, "as fast again as it happened"
    assert (at(), at.idle_s) == (5.0, 5.0)
    at.evaluated(4, 0, 5.0)
    with at.arrival(12.0):
        assert at() == 6.0, "came while the machine was at work"
    assert (at(), at.idle_s) == (9.0, 5.0)


def test_a_queue_without_shedding() -> None:
    """Work of 4 s that comes each second: the third is done at 12, having come at 2."""
    at = machine()
    for elapsed_s in (0.0, 2.0, 4.0):
        with at.arrival(elapsed_s):
            pass
        at.evaluated(4, 0, at())
    assert at.longest_without_shedding_s(2.0) == 10.0
    assert at.longest_without_shedding_s(0.1) == 4.0


def test_the_load_is_so_many_times_what_the_machine_takes() -> None:
    at, settings = machine(), load_settings(ROOT / "config.yaml", {})
    at.evaluated(50, 0, 0.0)
    capacity = Capacity(at, recorded_s=600.0)
    assert (capacity.speed, capacity.events_per_s) == (12.0, 1.0)
    load = Load.of(capacity, 2.0, settings, poll_interval_ms=6_000)
    assert (load.speed, load.bound_ms) == (24.0, 1_000)
    assert Load.of(capacity, 2.0, bounded(settings, 70), 6_000).bound_ms == 70


@pytest.mark.parametrize("times", [0.0, -1.0, float("nan"), float("inf"), 1e9])
def test_loads_that_mean_nothing_are_refused(times: float) -> None:
    with pytest.raises(AppError, match="--overload: found"):
        check_times(times)


def test_the_committed_costs_are_those_of_a_machine() -> None:
    costs = Costs.stored()
    assert 0 < costs.kept_s < costs.event_s < 1e-3
    assert 0 < costs.dropped_s < 1e-3


def test_what_the_demo_says_of_overload() -> None:
    truth = {"found": [], "missed": [], "false_alarms": []}
    overload = {
        "times": 2.0, "machine": {"event_s": 1.5e-6, "kept_s": 2e-10, "dropped_s": 1e-7, "n_clusters": 100},
        "capacity_events_per_s": 5e4, "released_events_per_s": 1e5, "speed": 127.0, "bound_ms": 158,
        "latency_max_ms": 158.4, "latency_p999_ms": 140.2, "latency_max_without_shedding_ms": 6_700.0,
        "strategy": "pspice", "n_steps": 9, "n_shed_steps": 3, "exempt": [], "marked": {"q": 2},
        "dropped": {"q": {"n_partial_matches": 12, "expected_matches": 3.5, "n_unvalued": 0, "n_events": 5}},
        "dropped_events": {"LoadStd": 7, "Balance": 9}, "expected_event_loss": 0.25,
        "without_shedding": {"ground_truth": truth},
    }  # fmt: skip
    text = " ".join(overload_lines(overload))
    assert "50,000 events/s; they came at 100,000, 127 times as fast" in text
    assert "158 ms at most, 99.9 % of the events within 140 ms; the bound of 158 ms was NOT held" in text
    assert "Without shedding: 6.7 s." in text
    assert "12 partial matches, of which about 3.5 matches were expected, and 5 events kept" in text
    assert "(gspice-h): Balance 9, LoadStd 7" in text
    assert "under shedding: 2." in text
    assert "the bound of 158 ms was held" in " ".join(overload_lines({**overload, "latency_max_ms": 157.9}))
    assert overload_verdict(truth, overload).startswith("At 2 times what the machine takes: 0 of 0 faults found")
