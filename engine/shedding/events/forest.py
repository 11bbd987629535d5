"""gSPICE-T and -F: utilities of events by a decision tree or a forest (section III-B4).

Grown by scikit-learn from the aggregated observations, then arrays: nothing of it is needed to look up, or to read a
model. A tree says something of every pane, also of one that was never observed; so a model does not grow with what was.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from engine.errors import StateError
from engine.events import Float64Array, Int64Array
from engine.kernels.shedding import trees as kernel
from engine.shedding.events.features import Features, Pane, ZobristKeys
from engine.shedding.events.observations import AggregatedObservations
from engine.shedding.events.threshold import UtilityDistribution

FOREST_TREES = 10
"""As in the paper."""
_MOST_LEAVES = 2_048
_LEAST_EVENTS = 3.0
"""Events, about, that a leaf has at least: the mean of fewer says little."""
_N_QUANTILES = 256
_MOST_NODES = 1 << 20


@dataclass(frozen=True, slots=True)
class Forest:
    """Trees as arrays, see `kernels.shedding.trees`: `roots` int64 (n_trees,); `asked`, `below`, `above` int64 (m,),
    `limits`, `values` float64 (m,). `quantiles`: float64 (k,), ascending, of the utilities that it gives to what it was
    grown from."""

    roots: Int64Array
    asked: Int64Array
    limits: Float64Array
    below: Int64Array
    above: Int64Array
    values: Float64Array
    quantiles: Float64Array

    def __post_init__(self) -> None:
        if any(getattr(self, name).ndim != 1 for name in _ARRAYS):
            raise StateError("trees of events' utilities with a table, or one number, in place of a list")
        m = len(self.asked)
        inner = self.asked != kernel.LEAF
        nodes = np.arange(m)
        ok = (
            0 < m <= _MOST_NODES
            and len(self.roots) > 0
            and all(len(part) == m for part in (self.limits, self.below, self.above, self.values))
            and bool((self.asked >= kernel.LEAF).all())
            and bool(((self.roots >= 0) & (self.roots < m)).all())
            # Children come after their node: every way down ends.
            and all(bool(((part > nodes) & (part < m))[inner].all()) for part in (self.below, self.above))
            and all(bool(np.isfinite(part).all()) for part in (self.limits, self.values, self.quantiles))
            and bool((self.values >= 0).all())
            and len(self.quantiles) > 0
            and bool((self.quantiles >= 0).all() and (np.diff(self.quantiles) >= 0).all())
        )
        if not ok:
            raise StateError("trees of events' utilities whose nodes do not fit together")

    @classmethod
    def grown(cls, observed: AggregatedObservations, n_trees: int, seed: int = 1) -> Self:
        """One tree, or a forest of several, whose leaves have the mean utility of events; needs scikit-learn."""
        from sklearn.ensemble import RandomForestRegressor
        from sklearn.tree import DecisionTreeRegressor

        n_events = observed.n_events.astype(np.float64)
        share = min(0.5, _LEAST_EVENTS / max(1.0, float(n_events.sum())))
        bounds = {"max_leaf_nodes": _MOST_LEAVES, "min_weight_fraction_leaf": share, "random_state": seed}
        rows = observed.features.astype(np.float32)
        if n_trees == 1:
            tree = DecisionTreeRegressor(**bounds).fit(rows, observed.utilities, sample_weight=n_events)
            found = [tree.tree_]
        else:
            forest = RandomForestRegressor(n_trees, max_features=0.5, n_jobs=1, **bounds)
            found = [tree.tree_ for tree in forest.fit(rows, observed.utilities, sample_weight=n_events).estimators_]
        starts = np.cumsum([0, *(tree.node_count for tree in found[:-1])]).astype(np.int64)
        asked = np.concatenate([tree.feature for tree in found]).astype(np.int64)
        asked[asked < 0] = kernel.LEAF
        below = np.concatenate([tree.children_left + start for tree, start in zip(found, starts, strict=True)])
        above = np.concatenate([tree.children_right + start for tree, start in zip(found, starts, strict=True)])
        limits = np.concatenate([tree.threshold for tree in found]).astype(np.float64)
        values = np.maximum(np.concatenate([tree.value[:, 0, 0] for tree in found]).astype(np.float64), 0.0)
        grown = cls(starts, asked, limits, below.astype(np.int64), above.astype(np.int64), values, np.zeros(1))
        utilities = grown.of_rows(observed.features)
        order = np.argsort(utilities, kind="stable")
        up_to = np.cumsum(n_events[order]) / n_events.sum()
        positions = np.searchsorted(up_to, (np.arange(_N_QUANTILES) + 0.5) / _N_QUANTILES)
        quantiles = utilities[order][np.minimum(positions, len(order) - 1)]
        return cls(starts, asked, limits, grown.below, grown.above, values, quantiles)

    def of_rows(self, rows: Int64Array) -> Float64Array:
        """Utilities, float64 (n,), of rows of features as `AggregatedObservations` has them."""
        kinds = np.ascontiguousarray(rows[:, 0])
        utilities = np.empty(len(rows))
        known = np.zeros(int(kinds.max(initial=0)) + 1)
        kernel.look_up(
            kinds, np.empty((0, len(rows)), np.int64), np.ascontiguousarray(rows[:, 1:]), self.roots, self.asked,
            self.limits, self.below, self.above, self.values, known, utilities,
        )  # fmt: skip
        return utilities

    def saved(self) -> dict[str, Any]:
        """As `read` takes it."""
        return {name: getattr(self, name).tolist() for name in _ARRAYS}

    @classmethod
    def read(cls, found: Mapping[str, Any], n_features: int) -> Self:
        """What `saved` returned; raises StateError, KeyError, TypeError or ValueError for anything else."""
        arrays: dict[str, Any] = {name: np.array(found[name], kind) for name, kind in _ARRAYS.items()}
        forest = cls(**arrays)
        if (forest.asked >= n_features).any():
            raise StateError("trees of events' utilities ask for features that there are none of")
        return forest


_ARRAYS = {
    "roots": np.int64,
    "asked": np.int64,
    "limits": np.float64,
    "below": np.int64,
    "above": np.int64,
    "values": np.float64,
    "quantiles": np.float64,
}


class ForestUtilities:
    """The utility of an event by trees. Of a type that was never observed it is infinite: nothing is known about what
    would be lost. What else was never observed together is worth what the leaf is that it leads to."""

    def __init__(self, features: Features, forest: Forest, observed: AggregatedObservations) -> None:
        self.features = features
        self.forest = forest
        self.distribution = UtilityDistribution.of(forest.quantiles, np.ones(len(forest.quantiles)))
        n_by_type = np.bincount(observed.features[:, 0], observed.n_events, len(features.types))
        self._type_values: Float64Array = np.where(n_by_type > 0, 0.0, np.inf)

    def seen(self, pane: Pane, types: Int64Array, t_ms: Int64Array) -> Int64Array:
        """Of each event's pane the bins, int64 (n, n_types); the events are in the panes of those after them."""
        return pane.observe(types, t_ms)[1]

    def of(self, types: Int64Array, attributes: Int64Array, seen: Int64Array) -> Float64Array:
        """Utilities, float64 (n,). types: int64 (n,). attributes: int64 (n_attributes, n), bins. seen: see `seen`."""
        forest, utilities = self.forest, np.empty(len(types))
        kernel.look_up(
            types, attributes, seen, forest.roots, forest.asked, forest.limits, forest.below, forest.above,
            forest.values, self._type_values, utilities,
        )  # fmt: skip
        return utilities

    def pane(self) -> Pane:
        """A pane at the start of a stream."""
        return Pane(self.features, ZobristKeys(self.features))


def without_panes(features: Features, observed: AggregatedObservations) -> AggregatedObservations:
    """The same events, of which the panes are no longer told apart: what a model of trees keeps to say what types are
    worth."""
    rows = observed.features.copy()
    rows[:, 1 + len(features.attributes) :] = 0
    none = AggregatedObservations(np.empty((0, rows.shape[1]), np.int64), np.empty(0, np.int64), np.empty(0))
    return none + AggregatedObservations(rows, observed.n_events, observed.contributed)


__all__ = ["FOREST_TREES", "Forest", "ForestUtilities", "without_panes"]
