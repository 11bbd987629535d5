"""gSPICE-H: utilities of events in a hash table, by Zobrist keys (section III-B3)."""

from __future__ import annotations

import numpy as np

from engine.events import BoolArray, Float64Array, Int64Array
from engine.kernels.shedding import events as kernel
from engine.shedding.events.features import Features, Pane, ZobristKeys
from engine.shedding.events.observations import AggregatedObservations
from engine.shedding.events.threshold import Threshold, UtilityDistribution


class HashedUtilities:
    """The utility of an event by its type, attributes and pane, from aggregated observations.

    Unseen keys: an event whose features were never observed together is worth what events of its type and attributes
    are on average, whatever their pane; if these were never observed either, what its type is; an event of a type that
    was never observed has infinite utility: nothing is known about what would be lost.
    """

    def __init__(self, features: Features, observed: AggregatedObservations) -> None:
        self.features = features
        self.observed = observed
        self.keys = ZobristKeys(features)
        n_attributes, n_types = len(features.attributes), len(features.types)
        if observed.features.shape[1] != 1 + n_attributes + n_types:
            raise ValueError(
                f"observations with {observed.features.shape[1]} features for {1 + n_attributes + n_types}: a type, "
                f"{n_attributes} attributes, {n_types} types in the pane"
            )
        types = observed.features[:, 0]
        own = self.keys.of_attributes(np.ascontiguousarray(observed.features[:, 1 : 1 + n_attributes].T))
        whole = self.keys.of_panes(observed.features[:, 1 + n_attributes :]) ^ own ^ self.keys.types[types, 0]
        without_pane, group = np.unique(own ^ self.keys.types[types, 1], return_inverse=True)
        group = group.reshape(-1)
        n_by_key = np.bincount(group, observed.n_events, len(without_pane))
        keys = np.concatenate([whole, without_pane])
        values = np.concatenate(
            [observed.utilities, np.bincount(group, observed.contributed, len(without_pane)) / np.maximum(n_by_key, 1)]
        )
        self._table_keys: Int64Array = np.full(_capacity(len(keys)), kernel.EMPTY, np.int64)
        self._table_values = np.zeros(len(self._table_keys))
        kernel.fill(self._table_keys, self._table_values, keys, values)
        n_by_type = np.bincount(types, observed.n_events, n_types)
        contributed = np.bincount(types, observed.contributed, n_types)
        self._type_values = np.where(n_by_type > 0, contributed / np.maximum(n_by_type, 1), np.inf)
        self.distribution = UtilityDistribution.of(observed.utilities, observed.n_events.astype(np.float64))
        self.n_unseen = 0
        """Events so far whose features had never been observed together."""

    def seen(self, pane: Pane, types: Int64Array, t_ms: Int64Array) -> Int64Array:
        """The key of each event's pane, int64 (n,); the events are in the panes of those after them."""
        return pane.follow(types, t_ms)

    def of(self, types: Int64Array, attributes: Int64Array, pane_keys: Int64Array) -> Float64Array:
        """Utilities, float64 (n,). types: int64 (n,). attributes: int64 (n_attributes, n), bins. pane_keys: int64 (n,),
        see `Pane`."""
        utilities = np.empty(len(types))
        self.n_unseen += kernel.look_up(
            types, pane_keys, self.keys.of_attributes(attributes), self.keys.types, self._table_keys,
            self._table_values, self._type_values, utilities,
        )  # fmt: skip
        return utilities

    def pane(self) -> Pane:
        """A pane at the start of a stream."""
        return Pane(self.features, self.keys)


class EventDropper:
    """Drops events by utility, in the share that is needed at the threshold."""

    def __init__(self) -> None:
        self._owed = np.zeros(1)

    def keeps(self, utilities: Float64Array, threshold: Threshold) -> BoolArray:
        """Which of the next events go on, bool (n,). utilities: float64 (n,); what has an infinite one always does."""
        keeps: BoolArray = np.empty(len(utilities), np.bool_)
        kernel.choose(utilities, threshold.utility, threshold.share, self._owed, keeps)
        keeps |= np.isposinf(utilities)
        return keeps


def _capacity(n: int) -> int:
    """A power of two, at least twice as many."""
    return 1 << max(4, (2 * n).bit_length())


__all__ = ["EventDropper", "HashedUtilities"]
