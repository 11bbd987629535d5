"""What events contributed to, by their features (gSPICE, section III-B1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from engine.errors import StateError
from engine.events import Float64Array, Int64Array


@dataclass(frozen=True, slots=True)
class AggregatedObservations:
    """Events of equal features: `features` int64 (n, 1 + n_attributes + n_types), each row once: type, bins of the
    attributes, bins of the pane. `n_events` int64 (n,): how many had them. `contributed` float64 (n,): the sum, over
    these, of the weights of the complex events (and partial matches that a negated event ended) they were part of."""

    features: Int64Array
    n_events: Int64Array
    contributed: Float64Array

    def __post_init__(self) -> None:
        n = len(self.features)
        if self.features.ndim != 2 or self.n_events.shape != (n,) or self.contributed.shape != (n,):
            raise StateError(
                f"observations of shape {self.features.shape} with {self.n_events.shape} numbers of events and "
                f"{self.contributed.shape} of contributions; expected one of each per row"
            )
        if n and (self.n_events.min() < 1 or not (self.contributed >= 0).all()):
            raise StateError("aggregated observations with no event, or with a contribution below 0")

    @classmethod
    def of(cls, features: Int64Array, contributed: Float64Array) -> Self:
        """Aggregate single events: features int64 (n, f), contributed float64 (n,)."""
        if not len(features):
            return cls(features, np.empty(0, np.int64), np.empty(0))
        rows, group = np.unique(features, axis=0, return_inverse=True)
        group = group.reshape(-1)
        return cls(
            np.ascontiguousarray(rows),
            np.bincount(group, minlength=len(rows)).astype(np.int64),
            np.asarray(np.bincount(group, contributed, len(rows)), np.float64),
        )

    def __add__(self, other: AggregatedObservations) -> AggregatedObservations:
        features = np.concatenate([self.features, other.features])
        contributed = np.concatenate([self.contributed, other.contributed])
        rows, group = np.unique(features, axis=0, return_inverse=True)
        group = group.reshape(-1)
        return AggregatedObservations(
            np.ascontiguousarray(rows),
            np.bincount(group, np.concatenate([self.n_events, other.n_events]), len(rows)).astype(np.int64),
            np.asarray(np.bincount(group, contributed, len(rows)), np.float64),
        )

    @property
    def utilities(self) -> Float64Array:
        """What an event of each row contributes on average (equation 4)."""
        return self.contributed / self.n_events

    def __len__(self) -> int:
        return len(self.features)


__all__ = ["AggregatedObservations"]
