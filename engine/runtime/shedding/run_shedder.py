"""Partial matches dropped over all queries, shards and branches of an engine (pSPICE), and events kept in their place
where matches are postponed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from weakref import WeakSet

import numpy as np

from engine.compiled.query import CompiledQuery
from engine.events import FOREVER_MS, Float64Array, Int64Array
from engine.matching.protocol import Runtime
from engine.matching.shedding import DropsStored, HasBranches, KeepsRuns, RunsAtHand, RunUtilities
from engine.parallel.divided import Divided
from engine.plan.evaluation import Sheddable
from engine.runtime.shedding.run_watch import RunWatch, Sampling
from engine.runtime.shedding.stored_events import StoredEvents
from engine.shedding.choice import at_random, lowest, relative
from engine.shedding.partial_matches.saved import MOST_EVENTS, RunModel

_NONE: Float64Array = np.empty(0)
_PROTECTED = 64
"""While runs are dropped, one of so many is never dropped, and these alone are observed."""


class RunStrategy(Enum):
    """Which partial matches are dropped first."""

    PSPICE = "pspice"
    """Those with the fewest expected matches per second of processing that they still take."""
    PSPICE_WITHOUT_TIME = "pspice--"
    """Those with the fewest expected matches."""
    RANDOM = "pm-bl"
    """Any."""


@dataclass(slots=True)
class RunLoss:
    """What was dropped of one query so far: runs, partial matches (merged runs stand for several), and how many matches
    these were expected to become. `n_unvalued`: partial matches that were dropped before there was a model, which
    `expected_matches` says nothing of."""

    n_runs: int = 0
    n_partial_matches: float = 0.0
    expected_matches: float = 0.0
    last_ms: int | None = None
    """Time of the stream when runs of it, or of a query whose matches it uses, were dropped last."""
    n_unvalued: float = 0.0
    n_events: int = 0
    """Kept events dropped where matches are postponed; nothing is estimated of them."""

    @property
    def is_any(self) -> bool:
        """Whether anything was dropped."""
        return self.n_runs > 0 or self.n_events > 0


class RunShedder:
    """Observes and drops the runs of an engine's queries, and events that are kept in their place where matches are
    postponed. Of queries that are exempt (`QueryEvaluation.is_exempt`), or that others need whole
    (`CompiledQuery.needs_whole`), nothing is dropped."""

    def __init__(
        self,
        queries: Mapping[str, CompiledQuery],
        *,
        strategy: RunStrategy = RunStrategy.PSPICE,
        sampling: Sampling | None = None,
        clock: Callable[[], float],
        seed: int = 1,
    ) -> None:
        self.strategy = strategy
        self.loss = {name: RunLoss() for name in queries}
        self._queries = queries
        self._sheddable = {name: query.evaluation.sheddable for name, query in queries.items()}
        self._whole: frozenset[str] = frozenset().union(*(query.needs_whole for query in queries.values()))
        self.exempt = self._whole | {name for name, query in queries.items() if query.evaluation.is_exempt}
        """Queries that keep something of which nothing can be dropped: a fixed cost."""
        self._consumers = {
            name: [other for other, query in queries.items() if name in {used.name for used in query.chain}]
            for name in queries
        }
        """Of each query itself, and those that use its matches."""
        self._weights = {
            name: sum(queries[other].resolved.weight for other in consumers)
            for name, consumers in self._consumers.items()
        }
        """What is kept for a query is worth this much: its weight and those of the queries that use its matches."""
        self._sampling = sampling or Sampling()
        self._clock = clock
        self._random = np.random.default_rng(seed)
        self._watches: dict[tuple[str, int], RunWatch] = {}
        self._attached: WeakSet[object] = WeakSet()
        self._parts: list[tuple[tuple[str, int], KeepsRuns]] = []
        self._stored = StoredEvents()
        self._postponing: set[str] = set()
        self._dropped_ms: int | None = None
        self._saved: dict[tuple[str, int], RunModel] = {}
        self._longest_window_ms = max((query.plan.within_ms for query in queries.values()), default=0)

    def attach(self, runtimes: Mapping[str, Runtime]) -> None:
        """Observe these from now on, where they are new. To be called before each step: runtimes are replaced."""
        self._parts = []
        stored: list[tuple[str, float, DropsStored]] = []
        self._postponing = set()
        for name, runtime in runtimes.items():
            for branch, part in () if name in self._whole else _parts_of(runtime):
                key, kept = (name, branch), self._sheddable[name][branch]
                if kept is Sheddable.STORED_EVENTS and isinstance(part, DropsStored):
                    stored.append((name, self._weights[name], part))
                    self._postponing.add(name)
                if kept is not Sheddable.PARTIAL_MATCHES or not isinstance(part, KeepsRuns):
                    continue
                if key not in self._watches:
                    weight = self._weights[name]
                    self._watches[key] = RunWatch(part.n_run_states, weight, self._sampling, self._clock)
                    if (model := self._saved.pop(key, None)) is not None:
                        self._watches[key].take_over(model, counts_time=self.strategy is RunStrategy.PSPICE)
                if part not in self._attached:
                    part.watch_runs(self._watches[key])
                    part.count_arrivals()
                    self._attached.add(part)
                self._parts.append((key, part))
        self._stored.attach(stored)

    @property
    def load(self) -> int:
        """What processing time grows with, and can be dropped: runs, and kept events of matches that are postponed."""
        return self.n_runs + self._stored.n_events

    @property
    def n_runs(self) -> int:
        """Runs alive in all parts."""
        return sum(part.n_runs for _, part in self._parts)

    @property
    def shortest_window_ms(self) -> int:
        """Of the queries of which runs can be dropped; FOREVER_MS without one."""
        names = {name for (name, _), _ in self._parts} | self._postponing
        return min((self._queries[name].plan.within_ms for name in names), default=FOREVER_MS)

    @property
    def longest_window_ms(self) -> int:
        """Of the queries of which runs can be dropped; FOREVER_MS without one."""
        return max((self._queries[name].plan.within_ms for (name, _), _ in self._parts), default=FOREVER_MS)

    def utilities(self, now_ms: int) -> Float64Array | None:
        """What each run that may be dropped is worth, float64 (n,); None where not all that is kept is valued."""
        if not self._knows_worth:
            return None
        found = [part.runs_at_hand(self._utilities(key, part), now_ms).utility for key, part in self._parts]
        every = np.concatenate([*found, _NONE])
        may_go: Float64Array = every[np.isfinite(every)]
        return may_go

    @property
    def _knows_worth(self) -> bool:
        return not self._stored.n_events and self.strategy is not RunStrategy.RANDOM and self.is_trained

    def trends_of(self, types: Collection[str]) -> list[str]:
        """Queries about trends of such events, in order of their names."""
        return sorted(
            name for name, query in self._queries.items()
            if query.resolved.is_trend and not query.read_types.isdisjoint(types)
        )  # fmt: skip

    @property
    def is_trained(self) -> bool:
        """Whether there is a model for every part that has runs."""
        return all(self._watches[key].utilities is not None for key, part in self._parts if part.n_runs)

    def watch_of(self, name: str, branch: int = 0) -> RunWatch:
        """What is known of a query's branch; raises KeyError for one that is exempt."""
        return self._watches[name, branch]

    def learn(self, least: int | None = None) -> None:
        """Train models that are missing or have drifted; `least`: with so many samples, in place of those that are
        usual."""
        for key, watch in self._watches.items():
            rates = [part.events_per_window() for other, part in self._parts if other == key]
            if rates:
                most = int(min(max(2.0 * max(rates), 16.0), MOST_EVENTS))
                watch.learn(most, counts_time=self.strategy is RunStrategy.PSPICE, least=least)

    def models(self) -> list[tuple[str, RunModel]]:
        """What was learned so far, by query."""
        found = {key: watch.model(self._queries[key[0]].hash, key[1]) for key, watch in self._watches.items()}
        saved = {**self._saved, **{key: model for key, model in found.items() if model is not None}}
        return [(name, model) for (name, _), model in saved.items()]

    def take_over(self, models: Iterable[tuple[str, RunModel]]) -> None:
        """Go on from what was learned before, once the runtimes are there."""
        self._saved |= {(name, model.branch): model for name, model in models}

    def drop(self, n: int, now_ms: int) -> int:
        """Drop n of what is kept at a time of the stream, of runs and of kept events each the least useful; returns how
        many runs were dropped.

        What runs and kept events are worth has no common unit. So one of either is worth its share of what all of its
        kind are worth: of a few runs, one in each partition, hardly any is dropped while kept events are of no use.

        Of queries that are not trained the same share of runs is dropped, any of them: utilities of others alone would
        say that theirs are worth nothing, or everything.
        """
        if n <= 0:
            return 0
        self._dropped_ms = now_ms
        n_runs = self.n_runs
        n_kept = n_runs + self._stored.n_events
        n_of_runs = self._n_of_runs(n, n_kept, n_runs, now_ms)
        self._drop_stored(n - n_of_runs, now_ms)
        return self._drop_runs(n_of_runs, now_ms) if n_of_runs else 0

    def _n_of_runs(self, n: int, n_kept: int, n_runs: int, now_ms: int) -> int:
        """How many of n are runs."""
        if n_runs in (0, n_kept):
            return min(n, n_runs)
        if self.strategy is RunStrategy.RANDOM:
            return min(n_runs, round(n * n_runs / n_kept))
        stored = self._stored.worth(now_ms)
        chosen = lowest([*relative([self._worth_of_runs(now_ms)]), *relative(stored)], n)
        return len(chosen[0])

    def outlooks(self, now_ms: int) -> tuple[Float64Array, Float64Array] | None:
        """Of each run that may be dropped, float64 (n,) each: the matches to be expected of it, times the weight of its
        query, and the seconds that it still takes; None where `utilities` is."""
        if not self._knows_worth:
            return None
        worth, seconds = [_NONE], [_NONE]
        for key, part in self._parts:
            outlook = self._watches[key].outlook
            if outlook is None:  # has no runs
                continue
            found, cost = (
                part.runs_at_hand(RunUtilities(values, outlook.bin_events, _PROTECTED), now_ms).utility
                for values in (outlook.completions, outlook.seconds)
            )
            may_go = np.isfinite(found) & np.isfinite(cost)
            worth.append(self._weights[key[0]] * found[may_go])
            seconds.append(cost[may_go])
        return np.concatenate(worth), np.concatenate(seconds)

    def events_per_match(self, types: Collection[str]) -> float | None:
        """Of these types, of how many events a match is made at least, on average over the queries that read them;
        None where these are not those of which runs may be dropped."""
        reading = {name for name, query in self._queries.items() if not query.read_types.isdisjoint(types)}
        with_runs = {name for name, kept in self._sheddable.items() if Sheddable.PARTIAL_MATCHES in kept}
        if not reading or reading != with_runs - self._whole:
            return None
        plans = [plan for name in reading for plan in self._queries[name].branches]
        return max(1.0, sum(step.event_type in types for plan in plans for step in plan.steps) / len(plans))

    def _worth_of_runs(self, now_ms: int) -> Float64Array:
        """Utilities of all runs; of queries that are not trained the mean of the others."""
        valued, others = [_NONE], [_NONE]
        for key, part in self._parts:
            utility = part.runs_at_hand(self._utilities(key, part), now_ms).utility
            (valued if self._is_valued(key) else others).append(utility)
        known, unknown = np.concatenate(valued), np.concatenate(others)
        finite = known[np.isfinite(known)]
        mean = float(finite.mean()) if len(finite) else 1.0
        return np.concatenate([known, np.where(np.isfinite(unknown), mean, unknown)])

    def _drop_stored(self, n: int, now_ms: int) -> None:
        by_chance = self.strategy is RunStrategy.RANDOM
        instead = (lambda worth: at_random(worth, self._random)) if by_chance else None
        for name, n_dropped in self._stored.drop(n, now_ms, instead).items():
            if n_dropped:
                self.loss[name].n_events += n_dropped
                self._may_miss(name, now_ms)

    def _may_miss(self, name: str, now_ms: int) -> None:
        """Matches of a query that began until now may be missing, and those of queries that use them."""
        for consumer in self._consumers[name]:
            self.loss[consumer].last_ms = now_ms

    def expected_loss(self, n: int, now_ms: int) -> float | None:
        """Matches, times the weights of their queries, to be expected of what `drop` would drop; None where that is
        not known: kept events are among it, or a query is not trained."""
        if n <= 0:
            return 0.0
        if not self._knows_worth:
            return None
        return sum(
            self._weights[key[0]] * (self._expected(key, part, positions, now_ms) or 0.0)
            for key, part, _, positions in self._chosen(min(n, self.n_runs), now_ms)
        )

    def _drop_runs(self, n: int, now_ms: int) -> int:
        for watch in self._watches.values():
            watch.protected = _PROTECTED  # what is dropped may not be what is learned from
        n_dropped = 0
        for key, part, found, positions in self._chosen(n, now_ms):
            if len(positions):
                self._count(key, part, found, positions, now_ms)
                part.drop_runs(found.numbers[positions])
                n_dropped += len(positions)
        return n_dropped

    def _chosen(self, n: int, now_ms: int) -> list[tuple[tuple[str, int], KeepsRuns, RunsAtHand, Int64Array]]:
        """Of each part the positions, among its runs at hand, of those that would be dropped."""
        at_hand = [part.runs_at_hand(self._utilities(key, part), now_ms) for key, part in self._parts]
        informed = [self._is_valued(key) for key, _ in self._parts]
        of_valued = [found.utility if valued else _NONE for found, valued in zip(at_hand, informed, strict=True)]
        of_others = [_NONE if valued else found.utility for found, valued in zip(at_hand, informed, strict=True)]
        n_others, n_runs = sum(map(len, of_others)), sum(len(found.utility) for found in at_hand)
        n_any = round(n * n_others / n_runs) if n_runs else 0
        any_of_others = lowest(at_random(of_others, self._random), n_any)
        chosen = lowest(of_valued, n - sum(map(len, any_of_others)))
        return [
            (key, part, found, positions if valued else any_positions)
            for (key, part), found, positions, any_positions, valued in zip(
                self._parts, at_hand, chosen, any_of_others, informed, strict=True
            )
        ]

    def _is_valued(self, key: tuple[str, int]) -> bool:
        """Whether it is known what the runs of a branch are worth."""
        return self.strategy is not RunStrategy.RANDOM and self._watches[key].utilities is not None

    def lost_events(self, until_ms: int, types: Collection[str] | None = None) -> None:
        """Events before this time of the stream were dropped; `types`: of these, None: of any."""
        for name, loss in self.loss.items():
            if types is None or not self._queries[name].read_types.isdisjoint(types):
                loss.last_ms = until_ms

    def rest(self, now_ms: int) -> None:
        """Nothing is dropped before this step: a window after the last time all runs are observed again, not the sample
        that was never dropped alone."""
        if self._dropped_ms is not None and now_ms - self._dropped_ms > self._longest_window_ms:
            self._dropped_ms = None
            for watch in self._watches.values():
                watch.protected = 0

    def _utilities(self, key: tuple[str, int], part: KeepsRuns) -> RunUtilities:
        known = self._watches[key].utilities
        if known is None:
            known = RunUtilities(np.ones((part.n_run_states, 2)), 1)
        return replace(known, protected=_PROTECTED)

    def _count(
        self, key: tuple[str, int], part: KeepsRuns, found: RunsAtHand, positions: Int64Array, now_ms: int
    ) -> None:
        loss = self.loss[key[0]]
        loss.n_runs += len(positions)
        loss.n_partial_matches += float(found.n_partial_matches[positions].sum())
        self._may_miss(key[0], now_ms)
        expected = self._expected(key, part, positions, now_ms)
        if expected is None:
            loss.n_unvalued += float(found.n_partial_matches[positions].sum())
        else:
            loss.expected_matches += expected

    def _expected(self, key: tuple[str, int], part: KeepsRuns, positions: Int64Array, now_ms: int) -> float | None:
        """Matches to be expected of runs; None without a model."""
        outlook = self._watches[key].outlook
        if outlook is None:
            return None
        if not len(positions):
            return 0.0
        every = part.runs_at_hand(RunUtilities(outlook.completions, outlook.bin_events), now_ms)
        utility = every.utility[positions]
        return float(utility[np.isfinite(utility)].sum())


def _parts_of(runtime: Runtime) -> Iterator[tuple[int, KeepsRuns | DropsStored]]:
    """The runtimes that keep runs, or events in their place, within one, each with the number of its branch."""
    if isinstance(runtime, Divided):
        for part in runtime.runtimes:
            yield from _parts_of(part)
    elif isinstance(runtime, HasBranches):
        for branch, part in enumerate(runtime.branch_runtimes):
            for _, found in _parts_of(part):
                yield branch, found
    elif isinstance(runtime, KeepsRuns | DropsStored):
        yield 0, runtime


__all__ = ["RunLoss", "RunShedder", "RunStrategy"]
