"""A latency bound held by an engine: steps are cut so that one fits into it, and under overload runs are dropped.

Latency of an event: from when it was released to the end of the step that evaluated it. Times are measured on a clock
that is an argument; what they are spent on is told to the detector, which plans the next step.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from engine.compiled.query import CompiledQuery
from engine.errors import EngineError, StateError
from engine.events import FOREVER_MS, EventBatch, Int64Array
from engine.language import ast
from engine.matching.output.match_row import MatchRow
from engine.matching.protocol import Runtime
from engine.runtime.shedding.event_shedder import EventShedder
from engine.runtime.shedding.mixture import Drops, Mixture
from engine.runtime.shedding.run_shedder import RunLoss, RunShedder
from engine.shedding.overload.detector import OverloadDetector, Plan, Waiting
from engine.shedding.overload.price import Price
from engine.shedding.partial_matches.saved import RunModel

_COUNTING = (ast.Output.COUNT, ast.Output.COLLAPSED)
_STEPS_PER_WINDOW = 8
_NEWEST = 0.1
"""Time constant of what newest events take on average, as a share of the bound."""
_LOOK_EVERY = 0.125
"""Share of the bound between two looks at what runs are worth without shedding."""
_UNSHED = 2.0
"""Time constant of what an event takes without shedding, in bounds."""
_WAITING = 0.25
"""Events wait when they have for such a share of the latency that is planned."""
_SHORT = 0.25
"""Windows that pass within such a share of the latency that is planned: the queue bears the work of several."""
_WINDOWS = 3
"""Matches are decided so many windows after they began at the latest: a window of their own, a negation at the end, and
a window of the query's own that has to end."""
_WINDOWS_OF_MATCH = 2
"""A match's first event may begin so many windows before its last one: one apart, and an interval is no longer than a
window."""


_SAVED = pa.schema(
    [
        ("query", pa.string()),
        ("last_ms", pa.int64()),
        ("model", pa.string()),
        ("n_runs", pa.int64()),
        ("n_partial_matches", pa.float64()),
        ("expected_matches", pa.float64()),
        ("n_unvalued", pa.float64()),
        ("n_events", pa.int64()),
    ]
)


class Cut(NamedTuple):
    """Events of one step, in stream order, and the watermark that it ends at."""

    events: EventBatch
    watermark_ms: int


class Works(Protocol):
    """Is told what work was done: a clock that is simulated goes on by it."""

    def evaluated(self, n_events: int, load: int, released_s: float) -> None:
        """A step of so many events at a load (`RunShedder.load`), the first of which was released then."""
        ...

    def dropped(self, load: int) -> None:
        """What is least useful of so much that is kept was looked for, and dropped."""
        ...


@dataclass(slots=True)
class OverloadStatistics:
    """Since the engine was made. Latencies in seconds, of steps: that of the event that waited longest. `achievable_s`:
    what the latency of the last step with events would have been with everything dropped before it, where that is more
    than the bound; else None."""

    n_steps: int = 0
    n_shed_steps: int = 0
    latency_s: float = 0.0
    longest_s: float = 0.0
    shedding_s: float = 0.0
    processing_s: float = 0.0
    achievable_s: float | None = None
    is_shedding: bool = False


@dataclass
class OverloadControl:
    """Cuts the steps of one engine and drops runs before those that would exceed the bound; with `events`, which has
    been trained, events instead, or what loses less of the two.

    `clock`: monotonic, seconds. `most_events`: of one step. Where events wait, a step is an eighth of the shortest
    window at most: runs that are dropped before it would have been replaced by others before its end. No step is cut
    to less than `least_events`, and of shorter ones little is learned: a step costs something by itself.
    """

    detector: OverloadDetector
    shedder: RunShedder
    clock: Callable[[], float]
    events: EventShedder | None = None
    is_mixed: bool = False
    """With `events`: runs are dropped, or events, whichever loses less for the work that has to be saved (`Mixture`).
    Where what they lose cannot be compared so, whichever loses fewer matches before the next step by what is known;
    events where what dropping runs loses is not known. Both where one is not enough."""
    released_at: Callable[[Int64Array], Sequence[float]] | None = None
    """When events with these t_lo_ms, ascending, were released, by `clock`; asked where `Engine.process` is not told.
    None: when it was called."""
    is_on: bool = True
    """False: nothing is cut, dropped or measured; for events that were evaluated before."""
    most_events: int = 1 << 20
    least_events: int = 64
    works: Works | None = None
    statistics: OverloadStatistics = field(default_factory=OverloadStatistics)
    missing_until_ms: dict[str, int] = field(default_factory=dict)
    """By query: rows of the last `Engine.process` whose match began until then may lack matches beside them."""
    _arrived: deque[tuple[float, int, int]] = field(default_factory=deque)
    """When the first event of the last steps was released, its time, and how many came with it."""
    _price: Price = field(default_factory=Price)
    _newest_s: float = 0.0
    """An event that goes on takes so long, on average over the newest."""
    _waiting: Waiting | None = None
    """What has been released and not evaluated, before a step."""
    _dropping_s: float = 0.0
    """To look at an event that may be dropped, on average."""
    _mixture: Mixture | None = None
    _shed_ms: int | None = None
    """Time of the stream when anything was dropped last."""

    def __post_init__(self) -> None:
        if self.events is not None and (trends := self.shedder.trends_of(self.events.features.types)):
            raise EngineError(
                f"events would be dropped that queries about trends count: found {', '.join(trends)}, expected queries "
                "about matches alone; drop runs instead, or evaluate trends in an engine of their own"
            )
        if self.events is not None and self.is_mixed:
            mixture = Mixture(self.shedder, self.events)
            self._mixture = mixture if mixture.is_known else None

    def steps(
        self,
        released: EventBatch,
        watermark_ms: int,
        released_s: Sequence[float] | float,
        runtimes: Callable[[], Mapping[str, Runtime]],
    ) -> Iterator[Cut]:
        """The steps that a released batch is evaluated in; what is due is dropped before each.

        `released`: in stream order. `released_s`: when its events were, by `clock`; one for each, ascending, or one for
        all. `runtimes`: those of the engine by query, as they are then. The caller evaluates each step before it asks
        for the next.
        """
        self.missing_until_ms = {}
        t_ms, start = released.t_lo_ms, 0
        if not self.is_on:
            yield Cut(released, watermark_ms)
            return
        while True:
            self.shedder.attach(runtimes())
            first_s = _at(released_s, start, self.clock)
            end = self._end(t_ms, start, waited_s=self.clock() - first_s)
            step_ms = watermark_ms if end == len(released) else int(t_ms[end])
            cut = released if end - start == len(released) else EventBatch(released.table.slice(start, end - start))
            now_ms = int(t_ms[start]) if len(cut) else watermark_ms
            last_s = _at(released_s, len(released) - 1, self.clock) if len(cut) else first_s
            self._waiting = Waiting(
                len(released) - start, self.clock() - last_s, self._arrivals(first_s, now_ms, len(cut))
            )
            if self.events is None:
                n_runs = self._before(first_s, len(cut), now_ms)
            else:
                cut = self._least_lost(self.events, cut, first_s, now_ms, step_ms)
                n_runs = self.shedder.load
            began_s = self.clock()
            yield Cut(cut, step_ms)
            self._after(began_s, first_s, n_runs, len(cut))
            start = end
            if start >= len(released):
                return

    def _end(self, t_ms: Int64Array, start: int, waited_s: float) -> int:
        """The row at which the step that begins at `start` ends. Events of one time are of one step."""
        n = len(t_ms)
        size = max(self.detector.step_size(self.shedder.load, self.most_events), self.least_events)
        end = min(start + size, n)
        if waited_s > _WAITING * self.detector.bound.planned_s and start < n:
            within_ms = self.shedder.shortest_window_ms // _STEPS_PER_WINDOW
            end = min(end, max(int(np.searchsorted(t_ms, t_ms[start] + within_ms, "right")), start + self.least_events))
        return end if end >= n else int(np.searchsorted(t_ms, t_ms[end - 1], "right"))

    def _before(self, first_s: float, n_events: int, now_ms: int) -> int:
        """Drop what is due; returns how many runs go on."""
        began_s, n_runs = self.clock(), self.shedder.load
        plan = self.detector.drop_runs(began_s - first_s, n_runs, n_events, self._waiting)
        if n_events and self._waiting is not None:
            plan = self._by_price(plan, self._waiting, began_s - first_s, n_events, now_ms)
            self.statistics.achievable_s = plan.achievable_s
        elif n_events:
            self.statistics.achievable_s = plan.achievable_s
        self.statistics.is_shedding = plan.n_drop > 0 and n_events > 0
        if not plan.n_drop:
            self.shedder.rest(now_ms)
        else:
            self.shedder.drop(plan.n_drop, now_ms)
            self._shed_ms = now_ms
            if self.works is not None:
                self.works.dropped(n_runs)
            took_s = self.clock() - began_s
            self.detector.shedding_s.add(n_runs, took_s)
            self.statistics.shedding_s += took_s
            self.statistics.n_shed_steps += 1
        return self.shedder.load

    def _by_price(self, plan: Plan, waiting: Waiting, queueing_s: float, n_events: int, now_ms: int) -> Plan:
        """The plan, but where windows pass while events wait: there what is worth less than a price is dropped, and
        more only where this step, or what waits, would be late."""
        bound, price = self.detector.bound, self._price
        utilities = self.shedder.utilities(now_ms) if self._has_short_windows() and queueing_s > 0 else None
        if utilities is None:
            price.forget()
            return plan
        queue, half_s = queueing_s / bound.planned_s - 0.5, bound.latency_s / 2
        if price.is_set:
            price.follow(queue, self._newest_s * n_events / half_s)
        else:
            price.see(utilities)
            if not plan.n_drop:
                return plan
            price.start(max(0.0, 1.0 - 1.0 / (waiting.arrivals_per_s * max(self._newest_s, 1e-12))))
        late = self.detector.drop_runs(queueing_s, self.shedder.load, n_events, replace(waiting, arrivals_per_s=0.0))
        cheap = price.n_below(utilities, queue) if queue > _WAITING - 0.5 else 0
        return replace(plan, n_drop=max(late.n_drop, cheap))

    def _has_short_windows(self) -> bool:
        """Whether all windows pass within a share of the latency that is planned, as fast as events come now."""
        if len(self._arrived) < 2:
            return False
        (from_s, from_ms, _), (to_s, to_ms, _) = self._arrived[0], self._arrived[-1]
        within_s = _SHORT * self.detector.bound.planned_s
        return to_s > from_s and (to_ms - from_ms) / (to_s - from_s) * within_s >= self.shedder.longest_window_ms

    def _least_lost(
        self, shedder: EventShedder, cut: EventBatch, first_s: float, now_ms: int, step_ms: int
    ) -> EventBatch:
        """The events of a step that go on; runs are dropped where that loses less, or dropping events is not enough."""
        plan, drops_runs = self._event_plan(first_s), False
        mixture = self._mixture
        if mixture is not None:
            drops = self._decided(mixture, plan, len(cut), first_s, now_ms)
            plan, drops_runs = self._one_of_both(drops, shedder, plan, cut, first_s)
        elif self.is_mixed:
            plan, drops_runs = self._mixed(shedder, plan, cut, first_s, now_ms)
        cut = self._without_dropped(shedder, cut, plan, step_ms)
        if drops_runs:
            is_shedding = self.statistics.is_shedding
            self._before(first_s, len(cut), now_ms)
            self.statistics.is_shedding |= is_shedding
        else:
            self.shedder.rest(now_ms)
        return cut

    def _decided(self, mixture: Mixture, by_events: Plan, n_events: int, first_s: float, now_ms: int) -> Drops:
        """What is dropped where anything has to be."""
        if self._is_unshed(now_ms) and n_events:
            mixture.look(now_ms, self.clock(), _LOOK_EVERY * self.detector.bound.latency_s)
        by_runs = self._run_plan(first_s, n_events)
        is_due = by_runs.n_drop > 0 or not by_runs.is_enough or by_events.drop_share > 0
        if not is_due or self._waiting is None:
            return mixture.drops or Drops.RUNS
        every_s, per_s = self.detector.bound.latency_s / 2, self._waiting.arrivals_per_s
        return mixture.decide(self.clock(), every_s, per_s, self.detector.per_event_s.at(0))

    def _run_plan(self, first_s: float, n_events: int) -> Plan:
        return self.detector.drop_runs(self.clock() - first_s, self.shedder.load, n_events, self._waiting)

    def _is_unshed(self, now_ms: int) -> bool:
        """Whether what is kept is what it would be without shedding: nothing was dropped for a window."""
        return self._shed_ms is None or now_ms - self._shed_ms > self.shedder.longest_window_ms

    def _one_of_both(
        self, drops: Drops, shedder: EventShedder, by_events: Plan, cut: EventBatch, first_s: float
    ) -> tuple[Plan, bool]:
        """The events to drop before a step, as a share of those that may be, and whether runs are dropped."""
        if drops is Drops.RUNS and self._run_plan(first_s, len(cut)).is_enough:
            return Plan(), True
        requested, n_judged = by_events.drop_share * len(cut), max(1, shedder.n_judged(cut))
        plan = replace(by_events, drop_share=min(1.0, requested / n_judged))
        return plan, drops is Drops.RUNS or requested > n_judged

    def _mixed(
        self, shedder: EventShedder, by_events: Plan, cut: EventBatch, first_s: float, now_ms: int
    ) -> tuple[Plan, bool]:
        """Which events to drop before a step, as a share of those that may be, and whether to drop runs."""
        by_runs = self._run_plan(first_s, len(cut))
        if not by_runs.n_drop and by_runs.is_enough:
            return Plan(), False
        n_judged = shedder.n_judged(cut)
        share = max(by_events.drop_share, by_runs.drop_share)
        requested = share * len(cut)
        other = shedder.expected(n_judged, requested / n_judged) if 0 < requested <= n_judged else None
        if by_runs.n_drop and by_runs.is_enough:
            loss = self.shedder.expected_loss(by_runs.n_drop, now_ms)
            if other is None or (loss is not None and loss <= other):
                return Plan(), True
        if other is None:  # of the events that may be dropped the share that is asked of all, and runs for the rest
            return replace(
                by_events, drop_share=share if by_runs.is_enough else min(1.0, requested / max(1, n_judged))
            ), True
        return replace(by_events, drop_share=requested / n_judged), False

    def _arrivals(self, first_s: float, now_ms: int, n_events: int) -> float:
        """Events a second lately, those of a step that were released from then on among them; 0.0: not known."""
        self._arrived.append((first_s, now_ms, n_events))
        while len(self._arrived) > 2 and first_s - self._arrived[0][0] > self.detector.bound.latency_s / 2:
            self._arrived.popleft()
        elapsed_s = first_s - self._arrived[0][0]
        return sum(n for *_, n in list(self._arrived)[:-1]) / elapsed_s if elapsed_s > 0 else 0.0

    def _event_plan(self, first_s: float) -> Plan:
        """What share of the events would be dropped before a step."""
        per_s = 0.0 if self._waiting is None else self._waiting.arrivals_per_s
        return self.detector.drop_events(
            self.clock() - first_s, per_s, self._newest_s, self._dropping_s, self.detector.bound.latency_s / 2
        )

    def _without_dropped(self, shedder: EventShedder, cut: EventBatch, plan: Plan, step_ms: int) -> EventBatch:
        """The events of a step that go on."""
        began_s = self.clock()
        keeps = shedder.keeps(cut, plan.drop_share)
        took_s = self.clock() - began_s
        if len(cut):
            self._dropping_s += 0.1 * (took_s / len(cut) - self._dropping_s)
            self.statistics.is_shedding = plan.drop_share > 0 and not keeps.all()
            self.statistics.achievable_s = plan.achievable_s
        if plan.drop_share > 0:
            self.statistics.shedding_s += took_s
            self.statistics.n_shed_steps += 1
            if not keeps.all():
                self._shed_ms = step_ms
                self.shedder.lost_events(step_ms, shedder.features.types)
        return cut if keeps.all() else cut.where(keeps)

    def _after(self, began_s: float, first_s: float, n_runs: int, n_events: int) -> None:
        if self.works is not None:
            self.works.evaluated(n_events, n_runs, first_s)
        ended_s = self.clock()
        if n_events:
            per_event_s = (ended_s - began_s) / n_events
            self._tell_mixture(n_events, n_runs, ended_s - began_s)
            if n_events >= self.least_events or self.detector.per_event_s.has_few:
                self.detector.per_event_s.add(n_runs, per_event_s)
            share = min(1.0, (ended_s - began_s) / (_NEWEST * self.detector.bound.latency_s))
            self._newest_s += (share if self._newest_s else 1.0) * (per_event_s - self._newest_s)
            self.statistics.latency_s = ended_s - first_s
            self.statistics.longest_s = max(self.statistics.longest_s, ended_s - first_s)
        self.statistics.processing_s += ended_s - began_s
        self.statistics.n_steps += 1
        self.shedder.learn()

    def _tell_mixture(self, n_events: int, n_runs: int, seconds: float) -> None:
        if self._mixture is None or self.events is None:
            return
        expected_s = self.detector.per_event_s.at(n_runs)
        if expected_s > 0:  # in what an event costs at this load: loads differ from step to step
            self.events.took(seconds / expected_s)
        if self._is_unshed(self._arrived[-1][1]):
            self._mixture.took(n_events, seconds, _UNSHED * self.detector.bound.latency_s)

    def emitted(
        self, query: CompiledQuery, rows: Sequence[MatchRow], watermark_ms: int, later_ms: int
    ) -> Sequence[MatchRow]:
        """The rows of a query; counts are lower bounds where a match that had begun may have been dropped.

        later_ms: no row that is still to be told has a last event that begins before it; those that LIMIT and TOP hold
        back among them.
        """
        lost = self.shedder.loss[query.name]
        until_ms = lost.last_ms
        if until_ms is None:
            return rows
        self.missing_until_ms[query.name] = max(until_ms, self.missing_until_ms.get(query.name, until_ms))
        decided_ms = min(watermark_ms - _WINDOWS * query.reach_ms, later_ms - _WINDOWS_OF_MATCH * query.reach_ms)
        if watermark_ms < FOREVER_MS and decided_ms > until_ms:
            lost.last_ms = None  # all that had begun until then is decided
        if query.plan.output not in _COUNTING or not len(rows):
            return rows
        return [replace(row, count_exact=False) if row.first_lo_ms <= until_ms else row for row in rows]

    def released_s(self, released: EventBatch) -> Sequence[float] | float:
        """When these events, in stream order, were released, as far as is known."""
        return self.clock() if self.released_at is None else self.released_at(released.t_lo_ms)

    def save(self) -> pa.Table:
        """What a restart must know: what was dropped, until when matches may be missing, and the models."""
        rows: list[dict[str, object]] = [
            {
                "query": name,
                "last_ms": lost.last_ms,
                "n_runs": lost.n_runs,
                "n_partial_matches": lost.n_partial_matches,
                "expected_matches": lost.expected_matches,
                "n_unvalued": lost.n_unvalued,
                "n_events": lost.n_events,
            }
            for name, lost in self.shedder.loss.items()
            if lost.last_ms is not None or lost.is_any
        ]
        rows += [{"query": name, "model": model.text()} for name, model in self.shedder.models()]
        return pa.Table.from_pylist(rows, _SAVED)

    def restore(self, table: pa.Table, hashes: Mapping[str, str]) -> list[str]:
        """Take over what `save` returned, of queries that are there. hashes: of their meaning, by name. Returns why
        models were left out."""
        models, left_out = [], []
        for row in table.to_pylist():
            name = row["query"]
            if name not in hashes:
                continue
            if row["model"] is None:
                self.shedder.loss[name] = RunLoss(
                    row.get("n_runs") or 0,  # states of before have no numbers
                    row.get("n_partial_matches") or 0.0,
                    row.get("expected_matches") or 0.0,
                    row["last_ms"],
                    row.get("n_unvalued") or 0.0,
                    row.get("n_events") or 0,
                )
            else:
                try:
                    models.append((name, RunModel.read(row["model"], hashes[name])))
                except StateError as error:
                    left_out.append(f"{name}: {error}")
        self.shedder.take_over(models)
        return left_out


def _at(released_s: Sequence[float] | float, position: int, clock: Callable[[], float]) -> float:
    if isinstance(released_s, int | float):
        return float(released_s)
    return float(released_s[position]) if position < len(released_s) else clock()


__all__ = ["Cut", "OverloadControl", "OverloadStatistics", "Works"]
