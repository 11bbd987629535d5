"""Features, keys, utilities and thresholds of events."""

from __future__ import annotations

from collections import deque
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import StateError
from engine.events import Int64Array
from engine.shedding.events.features import AttributeBins, Features, Pane, ZobristKeys
from engine.shedding.events.hashed import EventDropper, HashedUtilities
from engine.shedding.events.observations import AggregatedObservations
from engine.shedding.events.threshold import Threshold, UtilityDistribution

TYPES = ("A", "B", "C")


def panes_of(features: Features, types: list[int], t_ms: list[int]) -> list[list[int]]:
    """The bins of each event's pane by the definition."""
    found, before = [], deque[tuple[int, int]]()
    for kind, at_ms in zip(types, t_ms, strict=True):
        if features.pane_events is not None:
            pane = list(before)[-features.pane_events :] if features.pane_events else []
        else:
            assert features.pane_ms is not None
            pane = [(k, t) for k, t in before if t >= at_ms - features.pane_ms]
        counts = [sum(k == which for k, _ in pane) for which in range(len(features.types))]
        found.append([min(n // features.count_bin, features.n_count_bins - 1) for n in counts])
        before.append((kind, at_ms))
    return found


@given(
    events=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 5)), max_size=60),
    length=st.integers(0, 12),
    by_time=st.booleans(),
    count_bin=st.integers(1, 4),
    cuts=st.lists(st.integers(0, 60), max_size=3),
)
def test_keys_after_any_updates_are_those_made_anew(
    events: list[tuple[int, int]], length: int, by_time: bool, count_bin: int, cuts: list[int]
) -> None:
    features = Features(
        TYPES,
        pane_events=None if by_time else length,
        pane_ms=length if by_time else None,
        count_bin=count_bin,
    )
    keys = ZobristKeys(features)
    types = np.array([kind for kind, _ in events], np.int64)
    t_ms = np.cumsum([gap for _, gap in events]).astype(np.int64)
    expected = np.array(panes_of(features, types.tolist(), t_ms.tolist()), np.int64).reshape(-1, 3)
    pane, found, seen = Pane(features, keys), [], []
    bounds = sorted({0, *(min(cut, len(events)) for cut in cuts), len(events)})
    for start, end in pairwise(bounds):
        part, counted = pane.observe(types[start:end], t_ms[start:end])
        found.append(part)
        seen.append(counted)
    if events:
        assert np.concatenate(seen).tolist() == expected.tolist()
        assert np.concatenate(found).tolist() == keys.of_panes(expected).tolist()


def test_a_pane_by_time_grows_as_it_must() -> None:
    features = Features(TYPES, pane_ms=10**9)
    keys = ZobristKeys(features)
    types = np.arange(5_000) % 3
    _, seen = Pane(features, keys).observe(types, np.arange(5_000))
    assert seen[4_000].sum() == min(4_000, 3 * (features.n_count_bins - 1))
    followed = Pane(features, keys).follow(types, np.arange(5_000))
    assert followed.tolist() == keys.of_panes(seen).tolist()


def test_attributes_have_bins_and_one_for_what_is_missing() -> None:
    bins = AttributeBins.over("x", np.array([1.0, 10.0, 4.0, np.nan]), 20)
    assert (bins.low, bins.width, bins.n_bins) == (1.0, 1.0, 10)
    assert bins.of(np.array([1.0, 1.5, 10.0, 99.0, -5.0, np.nan, np.inf])).tolist() == [0, 0, 9, 9, 0, 10, 9]
    real = AttributeBins.over("x", np.array([0.0, 0.25, 1.0]), 4)
    assert real.of(np.array([0.0, 0.3, 0.99, 1.0])).tolist() == [0, 1, 3, 3]
    assert AttributeBins.over("x", np.array([np.nan]), 4).of(np.array([np.nan, 2.0])).tolist() == [1, 0]
    widest = AttributeBins.over("x", np.array([-1.7e308, 1.7e308]), 4)
    assert widest.of(np.array([-1.7e308, -1e307, 1.7e308, np.inf])).tolist() == [0, 1, 3, 3]


def observations() -> AggregatedObservations:
    """Of Example 2 of the paper: types A and B, an attribute, panes of three events."""
    rows = [
        # type B, attribute, As and Bs in the pane; contributed
        ((1, 0, 2, 1), 1.0),
        ((1, 0, 2, 1), 1.0),
        ((1, 0, 2, 1), 0.0),
        ((1, 1, 3, 0), 0.0),
        ((0, 1, 0, 3), 0.0),
    ]
    return AggregatedObservations.of(np.array([row for row, _ in rows]), np.array([weight for _, weight in rows]))


def two_types() -> Features:
    return Features(("A", "B"), (AttributeBins("x", 0.0, 1.0, 3),), pane_events=3)


def test_observations_are_aggregated_by_features() -> None:
    observed = observations()
    rows = zip(observed.features.tolist(), observed.n_events, observed.utilities, strict=True)
    found = {tuple(row): (n, utility) for row, n, utility in rows}
    assert found == {(1, 0, 2, 1): (3, pytest.approx(2 / 3)), (1, 1, 3, 0): (1, 0.0), (0, 1, 0, 3): (1, 0.0)}
    twice = observed + observed
    assert twice.features.tolist() == observed.features.tolist()
    assert twice.n_events.tolist() == (2 * observed.n_events).tolist()
    with pytest.raises(StateError, match="no event"):
        AggregatedObservations(np.zeros((1, 2), np.int64), np.zeros(1, np.int64), np.zeros(1))


def test_utility_is_what_events_alike_contributed_and_unseen_ones_what_is_next_known() -> None:
    hashed = HashedUtilities(two_types(), observations())
    keys = hashed.keys

    def utility(kind: int, bin_of_x: int, counts: list[int]) -> float:
        pane = keys.of_panes(np.array([counts]))
        return float(hashed.of(np.array([kind]), np.array([[bin_of_x]]), pane)[0])

    assert utility(1, 0, [2, 1]) == pytest.approx(2 / 3)
    assert utility(1, 1, [3, 0]) == 0.0
    assert hashed.n_unseen == 0
    assert utility(1, 0, [0, 3]) == pytest.approx(2 / 3), "this pane never: by type and attribute"
    assert utility(1, 2, [0, 3]) == pytest.approx(2 / 4), "this attribute never: by type"
    assert hashed.n_unseen == 2
    nothing = HashedUtilities(two_types(), AggregatedObservations.of(np.empty((0, 4), np.int64), np.empty(0)))
    assert nothing.of(np.array([0]), np.array([[0]]), np.array([5])).tolist() == [np.inf]


@given(
    rows=st.lists(
        st.tuples(st.integers(0, 1), st.integers(0, 3), st.integers(0, 3), st.integers(0, 3), st.integers(0, 2)),
        min_size=1,
        max_size=80,
    )
)
def test_every_observed_key_is_found(rows: list[tuple[int, ...]]) -> None:
    features = np.array([row[:4] for row in rows])
    observed = AggregatedObservations.of(features, np.array([float(row[4]) for row in rows]))
    hashed = HashedUtilities(two_types(), observed)
    found = hashed.of(
        observed.features[:, 0],
        np.ascontiguousarray(observed.features[:, 1:2].T),
        hashed.keys.of_panes(observed.features[:, 2:]),
    )
    assert found == pytest.approx(observed.utilities)
    assert hashed.n_unseen == 0


def test_threshold_is_the_least_utility_that_reaches_the_share() -> None:
    distribution = UtilityDistribution.of(np.array([0.5, 0.0, 0.1, 0.0]), np.array([1.0, 4.0, 3.0, 2.0]))
    assert distribution.values.tolist() == [0.0, 0.1, 0.5]
    assert distribution.up_to == pytest.approx([0.6, 0.9, 1.0])
    assert distribution.threshold(0.0) == Threshold(-np.inf, 0.0)
    assert distribution.threshold(0.3).utility == 0.0
    assert distribution.threshold(0.3).share == pytest.approx(0.5)
    assert distribution.threshold(0.6).share == pytest.approx(1.0)
    assert distribution.threshold(0.75).utility == 0.1
    assert distribution.threshold(0.75).share == pytest.approx(0.5)
    assert distribution.threshold(1.0).utility == np.inf


@given(
    utilities=st.lists(st.integers(0, 5), min_size=1, max_size=200),
    drop_share=st.floats(0, 1),
    cut=st.integers(0, 200),
)
def test_dropped_is_the_share_asked_for_and_the_least_useful(utilities: list[int], drop_share: float, cut: int) -> None:
    values = np.array(utilities, np.float64)
    threshold = UtilityDistribution.of(values, np.ones(len(values))).threshold(drop_share)
    dropper = EventDropper()
    keeps = np.concatenate([dropper.keeps(values[:cut], threshold), dropper.keeps(values[cut:], threshold)])
    n_dropped = int((~keeps).sum())
    assert abs(n_dropped - drop_share * len(values)) <= 1
    if 0 < n_dropped < len(values):
        assert values[~keeps].max() <= values[keeps].min()


@pytest.mark.parametrize(
    ("found", "message"),
    [
        ({"pane_events": 3, "pane_ms": 3}, "one of the two"),
        ({}, "one of the two"),
        ({"pane_events": -1}, "at least 0"),
        ({"pane_events": 2, "count_bin": 0}, "at least 1"),
    ],
)
def test_features_that_make_no_sense_are_refused(found: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Features(TYPES, **found)  # type: ignore[arg-type]


def test_types_are_told_apart_with_and_without_a_pane() -> None:
    keys: Int64Array = ZobristKeys(Features(TYPES, pane_events=5)).types
    assert len(set(keys.ravel().tolist())) == 6
    assert keys.min() > 0
