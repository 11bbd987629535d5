"""What load shedding asks of the runtimes that keep runs: to observe them, and to give some of them up.

A runtime that does neither is exempt: its partial matches are not looked at, and nothing of them is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from engine.events import Float64Array, Int64Array
from engine.matching.protocol import Runtime


@dataclass(frozen=True, slots=True)
class RunUtilities:
    """What runs are worth: `values` float64 (n_states, n_bins + 1), by state and bins of `bin_events` events that are
    left in the window, interpolated linearly; `protected`: one of every so many is never dropped, 0 for none."""

    values: Float64Array
    bin_events: int
    protected: int = 0


@dataclass(frozen=True, slots=True)
class RunsAtHand:
    """All runs of a runtime: their numbers int64 (n,), valid until it advances, and for each `utility` and the number
    of partial matches that it stands for, float64 (n,). Infinite utility: must not be dropped."""

    numbers: Int64Array
    utility: Float64Array
    n_partial_matches: Float64Array


class WatchesRuns(Protocol):
    """Takes what is seen of runs when an event reaches them."""

    @property
    def clock(self) -> Callable[[], float]:
        """Seconds."""
        ...

    @property
    def protected(self) -> int:
        """Only of the sample that is never dropped, one of every so many, 0 for all: see `RunUtilities`."""
        ...

    def positions(self, n_offered: int) -> Int64Array:
        """Which of the next `n_offered` events that reach runs are looked at, ascending."""
        ...

    def take(self, n_offers: Int64Array, n_next: Int64Array, seconds: float | None) -> None:
        """One event: offers to runs by state, int64 (n,); runs and, in the last column, matches that came of them,
        int64 (n, n + 1); the time that all of it took, None where it is not that of these runs alone."""
        ...


class ObservesRuns(Protocol):
    """A runtime that can tell how its runs go on."""

    @property
    def n_run_states(self) -> int:
        """States of runs: components of the pattern."""
        ...

    def watch_runs(self, by: WatchesRuns | None) -> None:
        """From now on `by` is told of sampled events; None: nobody. Rows are the same either way."""
        ...


class DropsRuns(Protocol):
    """A runtime that can give up runs. Matches that wait for a negation at their end are complete and stay."""

    @property
    def n_runs(self) -> int:
        """Runs alive; those that have been merged are one."""
        ...

    def count_arrivals(self) -> None:
        """From now on keep the rates at which events reach the runs of each partition."""
        ...

    def events_per_window(self) -> float:
        """Events that reach the runs of one partition within a window, the most of any; 0.0 while none are known."""
        ...

    def runs_at_hand(self, by: RunUtilities, now_ms: int) -> RunsAtHand:
        """What each run is worth at this time."""
        ...

    def drop_runs(self, numbers: Int64Array) -> None:
        """Give these up, which `runs_at_hand` has named since the last batch. Rows do not tell it: whoever drops runs
        knows for how long matches that had begun may be missing."""
        ...


@runtime_checkable
class KeepsRuns(ObservesRuns, DropsRuns, Protocol):
    """A runtime with runs that are observed and dropped: what load shedding needs to shed partial matches."""


@runtime_checkable
class DropsStored(Protocol):
    """A runtime that keeps events until matches are built of them, and can give up some: postponing."""

    @property
    def stored(self) -> object:
        """Where the events are: runtimes that share them have the same, and are to be asked to drop them once."""
        ...

    @property
    def n_stored(self) -> int:
        """Events kept that a match to come may have; those that nobody has thrown away yet are in no one's way."""
        ...

    def stored_worth(self, now_ms: int) -> Float64Array:
        """For each kept event the pairs of first and last events to come that it may be in, float64 (n,); infinite:
        must not, or need not, be dropped."""
        ...

    def drop_stored(self, rows: Int64Array) -> None:
        """Give these up, by their place in `stored_worth` since the last batch."""
        ...


@runtime_checkable
class HasBranches(Protocol):
    """A runtime made of one for each branch of its query, in the order of the branches."""

    @property
    def branch_runtimes(self) -> Sequence[Runtime]:
        """Those of the branches."""
        ...


__all__ = [
    "DropsRuns",
    "DropsStored",
    "HasBranches",
    "KeepsRuns",
    "ObservesRuns",
    "RunUtilities",
    "RunsAtHand",
    "WatchesRuns",
]
