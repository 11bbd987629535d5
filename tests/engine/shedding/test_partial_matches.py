"""Transitions, outlook and utility of partial matches against closed forms."""

from __future__ import annotations

from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import StateError
from engine.shedding.partial_matches.costs import CostSamples
from engine.shedding.partial_matches.transitions import RunObservations, Transitions
from engine.shedding.partial_matches.utilities import Outlook, UtilityTable


def three_types() -> Transitions:
    """SEQ(A, B, C) over three types in equal shares (pSPICE, Figure 3): on with 1/3, stay with 2/3."""
    observed = RunObservations(np.array([300, 300]), np.array([[200, 100, 0], [0, 200, 100]]))
    return Transitions.of(observed)


def test_the_papers_example_goes_on_with_a_third() -> None:
    transitions = three_types()
    assert transitions.onward == pytest.approx(np.array([[2 / 3, 1 / 3], [0, 2 / 3]]))
    assert transitions.completed == pytest.approx([0, 1 / 3])


@pytest.mark.parametrize("n_events", [1, 2, 3, 10, 40])
def test_completion_is_a_negative_binomial(n_events: int) -> None:
    outlook = Outlook.of(three_types(), np.ones(2), 40, n_bins=40)
    none = (2 / 3) ** n_events
    one = comb(n_events, 1) * (1 / 3) * (2 / 3) ** (n_events - 1)
    assert outlook.completions_at(1, n_events) == pytest.approx(1 - none)
    assert outlook.completions_at(0, n_events) == pytest.approx(1 - none - one)


@pytest.mark.parametrize("n_events", [1, 2, 7, 30])
def test_remaining_time_is_the_offers_until_completion(n_events: int) -> None:
    outlook = Outlook.of(three_types(), np.array([5.0, 2.0]), 30, n_bins=30)
    # Offered to the last state: a geometric number, no more than there are events.
    assert outlook.seconds_at(1, n_events) == pytest.approx(2.0 * 3 * (1 - (2 / 3) ** n_events))
    # One event left costs one offer; with more, what the state after it costs follows.
    assert outlook.seconds_at(0, 1) == pytest.approx(5.0)
    assert outlook.seconds_at(0, 2) == pytest.approx(5.0 + 2 / 3 * 5.0 + 1 / 3 * 2.0)


def test_bins_are_columns_of_the_whole_table_and_interpolated_between() -> None:
    whole = Outlook.of(three_types(), np.ones(2), 100, n_bins=100)
    binned = Outlook.of(three_types(), np.ones(2), 100, n_bins=10)
    assert binned.bin_events == 10
    assert binned.completions == pytest.approx(whole.completions[:, ::10])
    assert binned.seconds == pytest.approx(whole.seconds[:, ::10])
    between = binned.completions_at(0, 14)
    assert between == pytest.approx(0.6 * whole.completions_at(0, 10) + 0.4 * whole.completions_at(0, 20))
    assert binned.completions_at(0, 1e9) == binned.completions_at(0, 100)


def test_utility_is_weight_times_matches_per_second() -> None:
    outlook = Outlook.of(three_types(), np.array([5.0, 2.0]), 30, n_bins=30)
    table = UtilityTable.of(outlook, weight=3.0)
    assert table.at(1, 6) == pytest.approx(3 * outlook.completions_at(1, 6) / outlook.seconds_at(1, 6))
    assert table.at(0, 0) == 0.0
    without_time = UtilityTable.of(outlook, weight=3.0, counts_time=False)
    assert without_time.at(0, 6) == pytest.approx(3 * outlook.completions_at(0, 6))


def test_what_costs_more_is_worth_less() -> None:
    cheap = UtilityTable.of(Outlook.of(three_types(), np.ones(2), 30))
    dear = UtilityTable.of(Outlook.of(three_types(), np.full(2, 16.0), 30))
    assert cheap.at(0, 20) == pytest.approx(16 * dear.at(0, 20))


def test_a_closure_begets_matches_at_each_event() -> None:
    """SEQ(A, B+) under skip till next match: a run takes every B and completes with each."""
    observed = RunObservations(np.array([100, 100]), np.array([[50, 50, 50], [0, 100, 50]]))
    outlook = Outlook.of(Transitions.of(observed), np.ones(2), 20, n_bins=20)
    assert outlook.completions_at(1, 20) == pytest.approx(10.0)
    assert outlook.seconds_at(1, 20) == pytest.approx(20.0)


@given(
    rows=st.lists(st.lists(st.integers(0, 50), min_size=4, max_size=4), min_size=3, max_size=3),
    n_events=st.integers(1, 60),
)
def test_outlook_is_the_recursion_step_by_step(rows: list[list[int]], n_events: int) -> None:
    n_next = np.array(rows)
    transitions = Transitions.of(RunObservations(n_next.sum(axis=1) + 3, n_next))
    seconds = np.array([1.0, 0.5, 3.0])
    completions, left = np.zeros(3), np.zeros(3)
    for _ in range(n_events):
        completions = transitions.onward @ completions + transitions.completed
        left = transitions.onward @ left + seconds
    outlook = Outlook.of(transitions, seconds, n_events, n_bins=n_events)
    assert outlook.completions[:, n_events] == pytest.approx(completions)
    assert outlook.seconds[:, n_events] == pytest.approx(left)


def test_a_state_never_seen_stays_and_completes_nothing() -> None:
    transitions = Transitions.of(RunObservations.none(2))
    assert np.array_equal(transitions.onward, np.eye(2))
    assert Outlook.of(transitions, np.ones(2), 10).completions.max() == 0.0


def test_what_was_shed_does_not_count_as_incomplete() -> None:
    """Runs that end half-way, at random, leave shares as they are: what they would have met is not among the offers."""
    random = np.random.default_rng(7)

    def observed(shed: float) -> RunObservations:
        offers, following = np.zeros(2, np.int64), np.zeros((2, 3), np.int64)
        for _ in range(4_000):
            state = 0
            while state < 2 and random.random() >= shed:
                offers[state] += 1
                after = state + (random.random() < 1 / 3)
                following[state, after] += 1
                state = after
        return RunObservations(offers, following)

    whole, cut = Transitions.of(observed(0.0)), Transitions.of(observed(0.3))
    assert cut.completed[1] == pytest.approx(whole.completed[1], abs=0.03)
    assert cut.deviation(whole) < 1e-3
    assert not cut.has_drifted(whole, 1e-3, MET, MET)


MET = np.array([100, 100])
"""Events that met a run, by state."""


def test_drift_is_a_deviation_beyond_threshold_and_chance() -> None:
    used = three_types()
    now = Transitions.of(RunObservations(np.array([300, 300]), np.array([[270, 30, 0], [0, 270, 30]])))
    # Of six numbers four differ by 1/3 - 1/10.
    assert now.deviation(used) == pytest.approx(4 / 6 * (1 / 3 - 0.1) ** 2)
    assert now.has_drifted(used, 1e-3, MET, MET)
    assert not now.has_drifted(used, 0.1, MET, MET)
    assert not now.has_drifted(used, 1e-3, np.array([6, 6]), MET), "six events deviate as much by chance"
    assert not now.has_drifted(used, 1e-3, np.array([100, 3]), MET), "so do three of one state"


def test_observations_add_up_and_refuse_what_does_not_fit() -> None:
    one = RunObservations(np.array([3]), np.array([[2, 1]]))
    assert (one + one).n_next.tolist() == [[4, 2]]
    with pytest.raises(StateError, match=r"shape \(1, 1\), expected \(1, 2\)"):
        RunObservations(np.array([3]), np.array([[2]]))
    with pytest.raises(StateError, match="negative"):
        RunObservations(np.array([3]), np.array([[-1, 1]]))


def test_costs_are_found_by_state() -> None:
    random = np.random.default_rng(3)
    samples = CostSamples(3)
    for _ in range(500):
        n_runs = random.integers(0, 20, 3).astype(float)
        samples.add(n_runs, float(1e-6 + n_runs @ [2e-8, 9e-8, 4e-8]) * random.uniform(0.9, 1.1))
    samples.add(np.ones(3), 1.0)  # interrupted
    assert samples.per_offer() == pytest.approx([2e-8, 9e-8, 4e-8], rel=0.1)


def test_costs_that_were_not_sampled_are_the_mean_of_others() -> None:
    samples = CostSamples(2)
    assert samples.per_offer().tolist() == [1.0, 1.0]
    for n in range(50):
        samples.add(np.array([float(n), 0.0]), 1e-6 + n * 3e-8)
    assert samples.per_offer() == pytest.approx([3e-8, 3e-8], rel=1e-3)
