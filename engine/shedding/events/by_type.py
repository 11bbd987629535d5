"""Baselines that judge an event by its type alone: E-BL and BL (after He et al. 2014), and by nothing: random."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.events import BoolArray, Float64Array, Int64Array

_BISECTIONS = 60


@dataclass(frozen=True, slots=True)
class TypeUtilities:
    """`utility` float64 (n_types,): repetition of the type in patterns times that in windows, as the papers say of
    their baseline; `share` float64 (n_types,): of the stream. Within a type events are dropped uniformly."""

    utility: Float64Array
    share: Float64Array

    def drop_probability(self, drop_share: float) -> Float64Array:
        """By type, float64 (n_types,): inversely proportional to its utility, at most 1, so that this share of all
        events is dropped."""
        n = len(self.utility)
        if drop_share <= 0:
            return np.zeros(n)
        if drop_share >= 1:
            return np.ones(n)
        with np.errstate(divide="ignore"):
            rate = 1.0 / self.utility
        useless = float(self.share[np.isinf(rate)].sum())
        if useless >= drop_share:  # more than enough is in no pattern
            return np.where(np.isinf(rate), drop_share / useless, 0.0)

        def of(scale: float) -> Float64Array:
            return np.where(np.isinf(rate), 1.0, np.minimum(1.0, scale * np.where(np.isinf(rate), 0.0, rate)))

        low, high = 0.0, float(self.utility.max())  # at which all are dropped
        for _ in range(_BISECTIONS):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if float(of(middle) @ self.share) < drop_share else (low, middle)
        return of(high)


def sampled(types: Int64Array, probability: Float64Array, random: np.random.Generator) -> BoolArray:
    """Which events go on, bool (n,). types: int64 (n,). probability: of being dropped, float64 (n_types,)."""
    keeps: BoolArray = random.random(len(types)) >= probability[types]
    return keeps


__all__ = ["TypeUtilities", "sampled"]
