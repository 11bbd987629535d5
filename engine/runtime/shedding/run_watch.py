"""What is learned of the runs of one query while it runs: how they go on, and what they cost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock

import numpy as np

from engine.errors import StateError
from engine.events import Float64Array, Int64Array
from engine.matching.shedding import RunUtilities
from engine.shedding.partial_matches.costs import CostSamples
from engine.shedding.partial_matches.saved import RunModel
from engine.shedding.partial_matches.transitions import RunObservations, Transitions
from engine.shedding.partial_matches.utilities import Outlook, UtilityTable


@dataclass(frozen=True, slots=True)
class Sampling:
    """Which events are looked at: of those that reach runs every `first_every`-th until `n_first` have been, then every
    `every`-th. A model is trained with the first `n_again` that found a run, again when the matrix of the last
    `n_again` has drifted by `drift` (mean squared error), and when there are twice as many as it was trained with.

    Looking at one takes some 30 microseconds: with the defaults about 10 ns per event that reaches runs.
    """

    first_every: int = 16
    n_first: int = 4_000
    every: int = 4_096
    n_again: int = 500
    drift: float = 1e-3


class RunWatch:
    """Takes observations of one query's runtimes, which may be in several threads; a `WatchesRuns`."""

    def __init__(self, n_states: int, weight: float, sampling: Sampling, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.protected = 0
        self.weight = weight
        self.n_taken = 0
        self.n_trained = 0
        """How often a model was made."""
        self._sampling = sampling
        self._lock = Lock()
        self._n_until = 0
        self._costs = CostSamples(n_states)
        self._all = RunObservations.none(n_states)
        self._newest = RunObservations.none(n_states)
        self._n_newest = 0
        self._met_newest: Int64Array = np.zeros(n_states, np.int64)
        self._met_all: Int64Array = np.zeros(n_states, np.int64)
        """By state: sampled events that were offered to any run in it, of the newest and of all."""
        self._met_used: Int64Array = np.zeros(n_states, np.int64)
        self._used: Transitions | None = None
        self._n_all = 0
        self._n_used = 0
        self._most_events = 0
        self._seconds: Float64Array = np.ones(n_states)
        self.outlook: Outlook | None = None
        self.utilities: RunUtilities | None = None
        """None until a model was trained."""

    def positions(self, n_offered: int) -> Int64Array:
        """See `WatchesRuns`."""
        with self._lock:
            every = self._sampling.first_every if self.n_taken < self._sampling.n_first else self._sampling.every
            self._n_until = min(self._n_until, every - 1)
            positions = np.arange(self._n_until, n_offered, every)
            last = int(positions[-1]) if len(positions) else self._n_until - every
            self._n_until = last + every - n_offered
            return positions

    def take(self, n_offers: Int64Array, n_next: Int64Array, seconds: float | None) -> None:
        """See `WatchesRuns`."""
        with self._lock:
            self.n_taken += 1
            if not n_offers.any():
                return
            self._newest += RunObservations(n_offers, n_next)
            self._n_newest += 1
            self._met_newest += n_offers > 0
            if seconds is not None:
                self._costs.add(n_offers.astype(np.float64), seconds)

    def learn(self, most_events: int, *, counts_time: bool, least: int | None = None) -> bool:
        """Train a model when there is enough to learn from and none yet, or one that does not hold any more; whether
        it was. `most_events`: that reach the runs of one partition within a window. `least`: samples that are enough,
        in place of `Sampling.n_again`."""
        if self._n_newest < (self._sampling.n_again if least is None else least):
            return False
        newest, n_newest = Transitions.of(self._newest), self._n_newest
        has_drifted = self._used is not None and newest.has_drifted(
            self._used, self._sampling.drift, self._met_newest, self._met_used
        )
        # What was true before the drift would only keep the model from following.
        self._all = self._newest if has_drifted else self._all + self._newest
        self._n_all = n_newest if has_drifted else self._n_all + n_newest
        self._met_all = self._met_newest if has_drifted else self._met_all + self._met_newest
        self._newest, self._n_newest = RunObservations.none(len(self._all.n_offers)), 0
        self._met_newest = np.zeros_like(self._met_all)
        outgrown = self.outlook is not None and most_events > 2 * self._most_events
        if self.utilities is not None and not has_drifted and not outgrown and self._n_all < 2 * self._n_used:
            return False
        self._most_events = max(most_events, 16)
        self._train(self._costs.per_offer(), counts_time=counts_time)
        return True

    def model(self, query_hash: str, branch: int) -> RunModel | None:
        """What was learned, to be saved; None without a model."""
        if self.utilities is None:
            return None
        return RunModel(query_hash, branch, self._all, self._n_all, self._seconds, self._most_events)

    def take_over(self, model: RunModel, *, counts_time: bool) -> None:
        """Go on from a saved model; raises StateError where the query has other states."""
        if len(model.observed.n_offers) != len(self._all.n_offers):
            raise StateError(
                f"a saved run model has {len(model.observed.n_offers)} states, the query {len(self._all.n_offers)}"
            )
        self._all, self._n_all, self._most_events = model.observed, model.n_events, model.most_events
        self._met_all = np.minimum(model.observed.n_offers, model.n_events)  # at most: which met a state is not saved
        self._train(model.seconds_per_offer, counts_time=counts_time)

    def _train(self, seconds_per_offer: Float64Array, *, counts_time: bool) -> None:
        self._used, self._n_used, self._seconds = Transitions.of(self._all), self._n_all, seconds_per_offer
        self._met_used = self._met_all
        self.outlook = Outlook.of(self._used, seconds_per_offer, self._most_events)
        table = UtilityTable.of(self.outlook, self.weight, counts_time=counts_time)
        self.utilities = RunUtilities(table.values, table.bin_events)
        self.n_trained += 1


__all__ = ["RunWatch", "Sampling"]
