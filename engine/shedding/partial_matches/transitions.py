"""How the runs of a plan go on when an event reaches them (pSPICE, section III-C1), from what was observed.

State s of a run is the component of its last event, 0 to n_states - 1; matches are the state n_states, which nothing
leaves. The pattern's initial state has no runs: an event begins a run in state 0.

Under skip till next match a run may go on in two ways at once: it takes an event of its Kleene closure and leaves it
with a copy, or it completes at each event of a trailing closure. So a row of the matrix here is not a distribution but
the expected number of runs in each state that one run becomes by one event; where runs do not branch, both are the
same. Expected completions then follow the papers' recursion, and are probabilities for patterns without a closure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from engine.errors import StateError
from engine.events import Float64Array, Int64Array

_CHANCE = 2.0
"""A matrix is compared again and again: where it did not change, it should hardly ever look as if it had."""


@dataclass(frozen=True, slots=True)
class RunObservations:
    """What was seen of the runs of one plan with n states.

    `n_offers`: int64 (n,), by state, pairs of a run within its window and an event that reached its partition.
    `n_next`: int64 (n, n + 1), what came of them: runs that were in state s and were in state t after the event, in
    the last column matches. A run that went on in two ways is counted twice, one that was given up (contiguity,
    negation) not at all.

    Runs that were shed, expired or still live when observation ended are censored by themselves: what they would have
    met is not among the offers, so it does not count as "did not complete".
    """

    n_offers: Int64Array
    n_next: Int64Array

    def __post_init__(self) -> None:
        n = len(self.n_offers)
        if self.n_offers.ndim != 1 or self.n_next.shape != (n, n + 1):
            raise StateError(
                f"observations of {n} states have next states of shape {self.n_next.shape}, expected {(n, n + 1)}"
            )
        if n and (self.n_offers.min() < 0 or self.n_next.min() < 0):
            raise StateError("observations have negative numbers: they were damaged, observe again")

    @classmethod
    def none(cls, n_states: int) -> Self:
        """Nothing seen yet."""
        return cls(np.zeros(n_states, np.int64), np.zeros((n_states, n_states + 1), np.int64))

    def __add__(self, other: RunObservations) -> RunObservations:
        return RunObservations(self.n_offers + other.n_offers, self.n_next + other.n_next)


@dataclass(frozen=True, slots=True)
class Transitions:
    """Expected numbers: `onward` float64 (n, n), runs in each state by state; `completed` float64 (n,), matches.

    `n_offers`: what they rest on, int64 (n,).
    """

    onward: Float64Array
    completed: Float64Array
    n_offers: Int64Array

    @classmethod
    def of(cls, observed: RunObservations) -> Self:
        """Maximum likelihood by state. A state that was never observed stays as it is and completes nothing."""
        n = len(observed.n_offers)
        seen = observed.n_offers > 0
        rows = observed.n_next / np.maximum(observed.n_offers, 1)[:, None]
        onward = np.where(seen[:, None], rows[:, :n], np.eye(n))
        return cls(onward, np.where(seen, rows[:, n], 0.0), observed.n_offers)

    @property
    def n_states(self) -> int:
        """States of runs."""
        return len(self.completed)

    def deviation(self, other: Transitions) -> float:
        """Mean squared error between the two matrices, over the rows that both have observed (pSPICE, III-D)."""
        both = (self.n_offers > 0) & (other.n_offers > 0)
        if not both.any():
            return 0.0
        mine = np.column_stack([self.onward, self.completed])[both]
        theirs = np.column_stack([other.onward, other.completed])[both]
        return float(np.mean((mine - theirs) ** 2))

    def has_drifted(self, used: Transitions, threshold: float, n_events: Int64Array, n_events_used: Int64Array) -> bool:
        """Whether a model of `used` is to be trained again: it deviates by more than `threshold`, and by more than two
        samples of so many events would by chance (`_CHANCE` standard deviations).

        n_events, n_events_used: int64 (n,), by state, events that were offered to any run in it. All runs of a state
        meet the same events, so the events are the sample, not the offers; a share of n has a variance of at most
        1 / (4 n). A state in which there seldom is a run has a small sample, however many events were looked at.
        """
        both = (self.n_offers > 0) & (used.n_offers > 0)
        if not both.any():
            return False
        noise = 0.25 / np.maximum(n_events[both], 1) + 0.25 / np.maximum(n_events_used[both], 1)
        return self.deviation(used) > max(threshold, _CHANCE**2 * float(noise.mean()))


__all__ = ["RunObservations", "Transitions"]
