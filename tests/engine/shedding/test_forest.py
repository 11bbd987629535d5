"""gSPICE-T and -F: trees as arrays say what scikit-learn's do, and are read again as they were written, or refused."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor
from sklearn.tree import DecisionTreeRegressor

from engine.errors import StateError
from engine.events import Float64Array, Int64Array
from engine.shedding.events import forest as forests
from engine.shedding.events.features import AttributeBins, Features
from engine.shedding.events.forest import Forest, ForestUtilities, without_panes
from engine.shedding.events.observations import AggregatedObservations
from engine.shedding.events.saved import EventModel
from engine.shedding.sealed import digest_of

FEATURES = Features(("A", "B", "C"), (AttributeBins("x", 0.0, 1.0, 10),), pane_events=6)


def drawn(n: int, seed: int) -> tuple[Int64Array, Float64Array]:
    """Events that are in matches by chance: the more the higher x is and the more As are in their pane; of A and B."""
    random = np.random.default_rng(seed)
    kinds, x, n_a = random.integers(0, 2, n), random.integers(0, 10, n), random.integers(0, 7, n)
    rows = np.column_stack([kinds, x, n_a, 6 - n_a, np.zeros(n, np.int64)])
    chance = np.where(kinds == 1, x / 10 * n_a / 6, 0.0)
    return rows, (random.random(n) < chance).astype(np.float64)


def observed(n: int = 4_000, seed: int = 1) -> AggregatedObservations:
    return AggregatedObservations.of(*drawn(n, seed))


def asked(rows: Int64Array) -> tuple[Int64Array, Int64Array, Int64Array]:
    return np.ascontiguousarray(rows[:, 0]), np.ascontiguousarray(rows[:, 1:2].T), np.ascontiguousarray(rows[:, 2:])


@pytest.mark.parametrize("n_trees", [1, 10])
def test_arrays_say_what_the_library_does(n_trees: int) -> None:
    found = observed()
    share = forests._LEAST_EVENTS / found.n_events.sum()
    bounds: dict[str, Any] = {"max_leaf_nodes": 2_048, "min_weight_fraction_leaf": share, "random_state": 3}
    theirs = (
        DecisionTreeRegressor(**bounds) if n_trees == 1 else RandomForestRegressor(n_trees, max_features=0.5, **bounds)
    )
    theirs.fit(found.features, found.utilities, sample_weight=found.n_events)
    grown = Forest.grown(found, n_trees, seed=3)
    assert len(grown.roots) == n_trees
    rows, _ = drawn(2_000, 9)
    utilities = ForestUtilities(FEATURES, grown, found).of(*asked(rows))
    assert utilities == pytest.approx(theirs.predict(rows), abs=1e-12)
    assert grown.of_rows(rows).tolist() == utilities.tolist()


def test_a_leaf_has_the_mean_of_its_events() -> None:
    """By hand: four events of one kind with x of 0, all worth 0, and four with x of 5, of which one is in a match."""
    rows = np.array([[1, 0, 3, 3, 0]] * 4 + [[1, 5, 3, 3, 0]] * 4)
    found = AggregatedObservations.of(rows, np.array([0.0] * 4 + [1.0, 0, 0, 0]))
    grown = Forest.grown(found, 1)
    assert grown.of_rows(np.array([[1, 0, 3, 3, 0], [1, 5, 3, 3, 0], [1, 2, 0, 6, 0], [1, 9, 6, 0, 0]])).tolist() == [
        0.0, 0.25, 0.0, 0.25,
    ]  # fmt: skip
    assert grown.quantiles.tolist() == [0.0] * 128 + [0.25] * 128


def test_a_type_that_was_never_observed_is_never_dropped() -> None:
    found = observed()
    rows = np.array([[2, 9, 0, 0, 6], [0, 9, 0, 0, 6]])
    utilities = ForestUtilities(FEATURES, Forest.grown(found, 10), found).of(*asked(rows))
    assert np.isinf(utilities).tolist() == [True, False]


def test_panes_that_were_never_observed_have_a_value() -> None:
    """A forest knows more of them than the mean of their type."""
    found = observed(1_500)
    rows, _ = drawn(3_000, 7)
    chance = np.where(rows[:, 0] == 1, rows[:, 1] / 10 * rows[:, 2] / 6, 0.0)
    of_forest = Forest.grown(found, 10).of_rows(rows)
    of_type = np.bincount(found.features[:, 0], found.contributed) / np.bincount(found.features[:, 0], found.n_events)
    assert np.square(of_forest - chance).mean() < 0.3 * np.square(of_type[rows[:, 0]] - chance).mean()


def model(n_trees: int = 10) -> EventModel:
    found = observed()
    grown = Forest.grown(found, n_trees)
    return EventModel({"q": "h"}, FEATURES, np.ones(3), np.ones(3) / 3, without_panes(FEATURES, found), grown)


def test_what_was_written_is_read() -> None:
    written = model()
    read = EventModel.read(written.text())
    assert read.text() == written.text()
    assert read.forest is not None
    rows, _ = drawn(500, 2)
    assert read.forest.of_rows(rows).tolist() == model().forest.of_rows(rows).tolist()  # type: ignore[union-attr]
    assert len(read.observed) == 20, "types and attributes; panes are in the trees"
    assert read.observed.contributed.sum() == pytest.approx(observed().contributed.sum())


def test_a_model_of_trees_stays_small_where_panes_are_many() -> None:
    found = observed(20_000)
    whole = EventModel({}, FEATURES, np.ones(3), np.ones(3) / 3, found)
    few = replace(whole, forest=Forest.grown(found, 1), observed=without_panes(FEATURES, found))
    assert few.forest is not None
    assert len(few.forest.asked) < 2 * forests._MOST_LEAVES


def _digested(found: dict[str, Any]) -> str:
    return json.dumps({**found, "digest": digest_of(found)})


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("below", lambda values: [0, *values[1:]]),
        ("above", lambda values: [10**6, *values[1:]]),
        ("asked", lambda values: [99, *values[1:]]),
        ("asked", lambda values: [-2, *values[1:]]),
        ("roots", lambda _: []),
        ("roots", lambda _: [-1]),
        ("values", lambda values: [float("nan"), *values[1:]]),
        ("values", lambda values: [-1.0, *values[1:]]),
        ("limits", lambda values: values[1:]),
        ("limits", lambda _: "all"),
        ("quantiles", lambda values: values[::-1]),
        ("quantiles", lambda _: 1.0),
        ("quantiles", lambda _: []),
        ("quantiles", lambda values: [-1.0, *values[1:]]),
        *((name, lambda values: [[each] for each in values]) for name in forests._ARRAYS),
    ],
)
def test_trees_that_do_not_fit_together_are_refused(name: str, change: Any) -> None:
    """The digest finds damage; who writes it anew must still not make a look-up leave its arrays, or never end."""
    found = json.loads(model(1).text())
    del found["digest"]
    found["forest"][name] = change(found["forest"][name])
    with pytest.raises(StateError):
        EventModel.read(_digested(found))
