"""Choice of what is dropped, latency functions, overload detection."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.shedding.choice import at_random, lowest, relative
from engine.shedding.overload.detector import Bound, Measured, OverloadDetector, Waiting
from engine.shedding.overload.regressions import Rising, Steps, fit, inverse


@given(
    parts=st.lists(st.lists(st.sampled_from([0.0, 0.5, 1.0, 2.0, np.inf]), max_size=8), max_size=4),
    n=st.integers(0, 30),
)
def test_the_lowest_over_all_parts_are_chosen(parts: list[list[float]], n: int) -> None:
    arrays = [np.array(part) for part in parts]
    chosen = lowest(arrays, n)
    ranked = sorted(
        (utility, part, position) for part, some in enumerate(parts) for position, utility in enumerate(some)
    )
    expected = [(part, position) for utility, part, position in ranked[:n] if np.isfinite(utility)]
    assert sorted((part, position) for part, some in enumerate(chosen) for position in some.tolist()) == sorted(
        expected
    )


def test_random_utilities_leave_what_is_protected() -> None:
    (drawn,) = at_random([np.array([0.0, np.inf, 7.0])], np.random.default_rng(1))
    assert np.isinf(drawn).tolist() == [False, True, False]
    assert drawn[0] != drawn[2]


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("constant", lambda x: 3.0 + 0 * x),
        ("linear", lambda x: 1.0 + 0.5 * x),
        ("n log n", lambda x: 0.1 * x * np.log1p(x)),
        ("square", lambda x: 2.0 + 0.01 * x**2),
        ("isotonic", lambda x: np.where(x < 40, 1.0, 5.0) + 0.001 * x),
    ],
)
def test_the_function_that_made_the_samples_is_found(name: str, function: Rising) -> None:
    random = np.random.default_rng(11)
    x = random.uniform(0, 100, 400)
    y = function(x) * random.uniform(0.97, 1.03, 400)  # type: ignore[operator]
    found = fit(x, y)
    assert found.name == name
    grid = np.array([5.0, 30.0, 60.0, 95.0])
    assert found.at(grid) == pytest.approx(function(grid), rel=0.1)  # type: ignore[operator]


@given(
    samples=st.lists(st.tuples(st.floats(0, 1e4), st.floats(0, 10)), min_size=1, max_size=60),
    y=st.floats(0, 20),
)
def test_functions_rise_and_are_inverted(samples: list[tuple[float, float]], y: float) -> None:
    x, times = np.array([s[0] for s in samples]), np.array([s[1] for s in samples])
    found = fit(x, times)
    values = found.at(np.linspace(0, 2e4, 200))
    assert (np.diff(values) >= -1e-9).all()
    assert values.min() >= -1e-12
    at = inverse(found, y)
    if at == 0.0:
        assert found.at(np.array([1e-6]))[0] >= y - 1e-6 or found.at(np.array([0.0]))[0] > y
    elif np.isfinite(at):
        assert found.at(np.array([at]))[0] <= y + 1e-9
        assert found.at(np.array([at * 1.01 + 1e-6]))[0] >= y - 1e-9


def test_steps_go_on_beyond_what_was_seen() -> None:
    steps = Steps(np.array([0.0, 10.0]), np.array([1.0, 2.0]))
    assert steps.at(np.array([-1.0, 5.0, 20.0])).tolist() == [1.0, 1.5, 3.0]
    assert inverse(steps, 3.0) == pytest.approx(20.0)
    assert inverse(fit(np.array([1.0]), np.array([2.0])), 1.0) == 0.0
    assert inverse(fit(np.array([1.0]), np.array([2.0])), 2.0) == float("inf")


def detector(per_event_s: float = 1e-3, per_run_s: float = 1e-5) -> OverloadDetector:
    """An event costs a part of its own and a part for each partial match."""
    found = OverloadDetector(Bound(1.0, 0.2))
    for n in range(0, 400, 5):
        found.per_event_s.add(n, per_event_s + per_run_s * n)
        found.shedding_s.add(n, 1e-6 * n)
    return found


def test_nothing_is_dropped_while_the_bound_is_not_in_danger() -> None:
    assert detector().drop_runs(0.0, 200, 20).n_drop == 0
    assert detector().drop_events(0.2, 1e6, 3e-3, 0.0, 0.5).drop_share == 0.0
    assert detector().drop_events(0.75, 300.0, 3e-3, 0.0, 0.5).drop_share == 0.0
    assert OverloadDetector(Bound(1.0, 0.2)).drop_runs(5.0, 100, 10).n_drop == 0, "nothing is known yet"


def test_so_many_go_on_as_the_time_left_allows() -> None:
    """Planned are 0.8 s; 0.75 s are over, 0.0002 s of shedding: 49.8 ms for 20 events, 2.49 ms each."""
    plan = detector().drop_runs(0.75, 200, 20)
    assert 200 - plan.n_drop == pytest.approx((0.0498 / 20 - 1e-3) / 1e-5, abs=2)
    assert plan.achievable_s is None


def test_a_little_is_dropped_at_once_for_the_last_that_waits() -> None:
    """400 events have been released together: 2 ms each, less shedding, and 100 of the 200 that are kept."""
    found = detector()
    assert found.drop_runs(0.0, 200, 20).n_drop == 0
    plan = found.drop_runs(0.0, 200, 20, Waiting(400, 0.0))
    assert 200 - plan.n_drop == pytest.approx(((0.8 - 2e-4) / 400 - 1e-3) / 1e-5, abs=2)
    assert plan.drop_share == pytest.approx(1 - (0.8 - 2e-4) / 400 / 3e-3, abs=0.01), "events would do as well"
    assert plan.is_enough
    assert found.drop_runs(0.0, 200, 20, Waiting(200, 0.0)).n_drop == 0, "600 ms"
    assert found.drop_runs(0.7, 200, 20, Waiting(30, 0.0)).n_drop == 0, "the last has not waited as long"
    assert found.drop_runs(0.0, 200, 20, Waiting(20, 0.0)).n_drop == 0
    of_events = detector(per_run_s=1e-8)
    assert of_events.drop_runs(0.0, 200, 20, Waiting(4_000, 0.0)).n_drop == 0, "it would save next to nothing"
    assert found.drop_runs(0.0, 200, 20, Waiting(4_000, 0.0)).n_drop == 200


def test_a_long_queue_must_not_grow() -> None:
    """500 events a second come, and 0.1 s beyond the half of what is planned wait: 600 in 1.2 s, 1.67 ms each."""
    found = detector()
    assert found.drop_runs(0.4, 200, 20, Waiting(20, 0.4, 500.0)).n_drop == 0
    plan = found.drop_runs(0.5, 200, 20, Waiting(20, 0.5, 500.0))
    assert 200 - plan.n_drop == pytest.approx((0.5 / (500 * 0.6) - 1e-3) / 1e-5, abs=2)
    assert found.drop_runs(0.5, 200, 20, Waiting(20, 0.5, 200.0)).n_drop == 0, "4.2 ms each"


def test_of_two_kinds_the_share_of_each_decides() -> None:
    """Runs in matches a second, kept events in pairs: 1 of 4 and 3 of 4; 10 of 1,000 and 990 of 1,000."""
    runs, kept = relative([np.array([1.0, 3.0])]), relative([np.array([10.0, np.inf]), np.array([990.0])])
    assert [part.tolist() for part in (*runs, *kept)] == [[0.25, 0.75], [0.01, np.inf], [0.99]]
    assert [positions.tolist() for positions in lowest([*runs, *kept], 2)] == [[0], [0], []]
    assert [part.tolist() for part in relative([np.zeros(2), np.array([np.inf])])] == [[0.0, 0.0], [np.inf]]


def test_a_bound_that_cannot_be_met_is_told_with_the_one_that_could() -> None:
    plan = detector().drop_runs(1.5, 200, 20)
    assert plan.n_drop == 200
    assert plan.achievable_s == pytest.approx(1.5 + 20 * 1e-3 + 2e-4, rel=0.05)


def test_the_share_of_events_makes_room_for_the_rest() -> None:
    found = detector()
    seconds = 2e-3  # 500 events a second
    plan = found.drop_events(0.76, 1_000.0, seconds, 0.0, 1.0)
    # 1,000 arrive and 10 are too many (0.76 s against 0.75 s); 500 can be evaluated.
    assert plan.drop_share == pytest.approx(1 - 1.0 / seconds / 1_010.0, rel=0.01)
    assert found.drop_events(5.0, 1e6, seconds, 0.0, 1.0).drop_share == pytest.approx(1.0, abs=1e-3)
    assert found.drop_events(5.0, 1e6, seconds, 1e-5, 1.0).achievable_s == float("inf")


def test_steps_are_cut_to_a_share_of_the_bound() -> None:
    assert detector().step_size(100, 10_000) == pytest.approx(0.05 / 2e-3, abs=1)
    assert detector(per_event_s=1.0).step_size(100, 10_000) == 1
    assert OverloadDetector(Bound(1.0, 0.2)).step_size(100, 77) == 77


def test_measured_times_follow_what_is_new() -> None:
    measured = Measured()
    assert measured.at(5.0) == 0.0
    measured.add(5.0, 2.0)
    assert measured.at(9.0) == 2.0
    for _ in range(3_000):
        measured.add(5.0, 4.0)
    assert measured.at(5.0) == pytest.approx(4.0)
    assert measured.error() == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("bound", [(1.0, 1.0, 0.05), (1.0, -0.1, 0.05), (1.0, 0.2, 0.0), (0.0, 0.0, 0.05)])
def test_bounds_that_make_no_sense_are_refused(bound: tuple[float, float, float]) -> None:
    with pytest.raises(ValueError, match="expected"):
        Bound(*bound)
