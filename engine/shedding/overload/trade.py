"""What is lost for work that is saved, by dropping events or partial matches.

What one step would lose says little: a partial match that is dropped saves work for as long as it would have lived, an
event only now; and events that contribute to nothing are free, but hardly save anything. So both are compared by what
is lost where they save the same share of all work, for as long as the overload lasts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from engine.events import Float64Array


@dataclass(frozen=True, slots=True)
class Trade:
    """What is lost for what is saved, when what is worth least is dropped first: `saved` and `lost`, float64 (n,),
    rising from 0: shares of all work, and of all matches by weight."""

    saved: Float64Array
    lost: Float64Array

    @classmethod
    def of(cls, order: Float64Array, work: Float64Array, worth: Float64Array, share: float) -> Self:
        """Of kinds, float64 (k,) each: dropped in this `order`, ascending; all that `work` is `share` of all work;
        `worth` in any unit."""
        kinds = np.argsort(order, kind="stable")
        return cls(share * _cumulated(work[kinds]), _cumulated(worth[kinds]))

    @property
    def most(self) -> float:
        """The share of all work that is saved where everything is dropped."""
        return float(self.saved[-1])

    def lost_at(self, saved: float) -> float:
        """What is lost where this share of all work is saved; infinite where that cannot be."""
        return float(np.interp(saved, self.saved, self.lost)) if saved <= self.most + 1e-9 else np.inf

    def with_parts(self, n_parts: float) -> Trade:
        """Where a match is lost with any one of so many things that it is made of, and `lost` was the share of these:
        those dropped are taken to be spread over matches by chance."""
        return Trade(self.saved, 1.0 - (1.0 - np.minimum(self.lost, 1.0)) ** n_parts)


def _cumulated(values: Float64Array) -> Float64Array:
    """Shares of the sum, from 0; all 0 where there is none."""
    total = float(values.sum())
    sums: Float64Array = np.concatenate([[0.0], np.cumsum(values)])
    return sums / total if total > 0 else sums


__all__ = ["Trade"]
