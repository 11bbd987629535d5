"""How sure matches of an automaton are among events whose times are intervals, and what finding that out costs.

The confidence of an arrangement is the share of worlds that have its partial order and its window, and none of what is
negated in it: `match_confidence` where the pattern orders all events and nothing is negated near them,
`engine.uncertainty.absence` elsewhere. There the offset of a clock with skew is gone through, value by value, where
several of its events matter.

Costs are counted in steps of the work budget, by what is done and never by a clock, so that the same matches are found
too much everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np

from engine.events import Int64Array
from engine.kernels.automaton.imprecise import list_intruders
from engine.kernels.automaton.tables import Rows, Tables
from engine.kernels.columns.partitions import BROADCAST
from engine.kernels.confidence.ordering import Events, clock_before
from engine.kernels.confidence.skew import MAX_EVALUATIONS, TOO_MUCH, match_confidence, match_work
from engine.kernels.confidence.skew_events import time_distribution
from engine.matching.automaton.arrangement import Arrangement, Arrangements, Gap
from engine.matching.automaton.near_rows import NearRows
from engine.plan.automaton.model import AutomatonPlan
from engine.stream.store import EventStore
from engine.uncertainty.absence import joint_probability
from engine.uncertainty.differences import MAX_WORK, Budget, Difference, Time, TooMuchWorkError
from engine.uncertainty.possibilities import (
    Conditions,
    Demand,
    Possibilities,
    PossibleMatch,
    TimedEvent,
    UnknownConditionsError,
)
from engine.uncertainty.union_probability import OutOfWorkError, UnionProbability

CELLS_PER_STEP = 20
"""Cells of `engine.uncertainty.differences` in the time of a step."""
_NUMBERS_PER_STEP = 200
"""Numbers that `match_confidence` computes in the time of a step."""
_PER_DEMAND = 5
_PER_INTRUDER = 40
_PER_POSSIBLE = 400
_PER_GAP = 150
"""Steps in the time that a demand takes, what may be negated, the conditions of a match, and the position of a negated
pattern in one partition."""
_ROWS_PER_STEP = 16
"""Events around a match that are looked at in the time of a step."""
_PER_LOOK = 200
_TERMS_PER_LOOK = 64
"""Steps in the time in which `UnionProbability` looks at a match once, for each so many pairs of time and condition."""
_WORK_LIMIT = 10_000
"""Of the way to a confidence that does not depend on the length of intervals."""
_MOST_OFFSETS = 20_000
"""Combinations of clocks' offsets that one confidence may go through."""
_MOST_PARTS = 5_000
"""Ways to match the negated patterns around one match; with more, its confidence is not computed."""


class _Demands(NamedTuple):
    """What a match asks of the times of its rows `match` and of the negated ones, which follow them in `rows`: all of
    `demanded`, of each of `parts` not all; see `Difference`. `is_sequence`: the pattern orders all events."""

    match: Int64Array
    rows: list[int]
    demanded: list[Difference]
    parts: list[tuple[Difference, ...]]
    is_sequence: bool


class Confidences:
    """The confidences of matches of one automaton plan in a store as it is at one watermark."""

    def __init__(
        self,
        plan: AutomatonPlan,
        store: EventStore,
        tables: Tables,
        rows: Rows,
        near: NearRows,
        events: Events,
        arrangements: Arrangements,
    ) -> None:
        self._plan = plan
        self._store = store
        self._tables = tables
        self._rows = rows
        self._near = near
        self._events = events
        self._arrangements = arrangements
        self._times: dict[int, Time] = {}
        self._nominal: dict[int, Time] = {}
        self._left = 0

    def of(
        self,
        rows: Int64Array,
        edges: Int64Array,
        arranged: Arrangement,
        partition: int,
        left: int,
        known: dict[object, float],
        *,
        with_possible: bool,
    ) -> tuple[float, Possibilities | None, int]:
        """The confidence of a match, NaN where that would be too much work or more than `left` steps; the worlds in
        which it is one, None where these are not independent times; the steps that were spent.

        known: of other matches that the same event pays for, written.
        """
        self._left = left
        confidence, possible = math.nan, None
        try:
            demands = self._demands(rows, edges, arranged, partition)
            confidence = 0.0 if demands is None else self._confidence(demands, known)
            if with_possible and demands is not None and confidence > 0:
                possible = self._possibilities(demands)
        except (TooMuchWorkError, OutOfWorkError, UnknownConditionsError):
            confidence = math.nan
        return confidence, possible, left - self._left

    def _pay(self, steps: int) -> None:
        self._left -= steps
        if self._left < 0:
            raise TooMuchWorkError

    # ------------------------------------------------------------------ demands

    def _demands(self, rows: Int64Array, edges: Int64Array, arranged: Arrangement, partition: int) -> _Demands | None:
        """What times must be for a match to be one; None: no times are. Raises TooMuchWorkError."""
        if arranged.is_sequence and not arranged.gaps:
            return _Demands(rows, [], [], [], True)
        numbers = {row: number for number, row in enumerate(rows.tolist())}
        parts: dict[tuple[Difference, ...], None] = {}
        for gap in arranged.gaps:
            for demands in self._parts(rows, edges, arranged, gap, partition, numbers):
                if not demands:
                    return None
                parts[tuple(demands)] = None
        self._pay(_PER_DEMAND * len(arranged.pairs))
        demanded = self._demanded(rows, arranged)
        return None if demanded is None else _Demands(rows, list(numbers), demanded, list(parts), arranged.is_sequence)

    def _demanded(self, rows: Int64Array, arranged: Arrangement) -> list[Difference] | None:
        """The order and the window of a match; None when it is in order in no world."""
        found = self._in_order(arranged.pairs, rows.tolist(), range(len(rows)))
        if found is None:
            return None
        window = [Difference(j, i, -self._plan.within_ms) for i in arranged.firsts for j in arranged.lasts if i != j]
        return [*found, *window]

    def _in_order(
        self, pairs: Sequence[tuple[int, int]], rows: Sequence[int], numbers: Sequence[int]
    ) -> list[Difference] | None:
        """What the times of these rows must satisfy, the first of each pair (positions in `rows`) before the second;
        None: impossible. numbers: of their times."""
        found: list[Difference] = []
        for before, after in pairs:
            known = self._known_order(rows[before], rows[after])
            if known is False:
                return None
            if known is None:
                found.append(Difference(numbers[before], numbers[after], 1))
        return found

    def _known_order(self, before: int, after: int) -> bool | None:
        """Whether a row is before another whatever their times; None: as their times say."""
        events = self._events
        if events.lo_ms[before] == events.hi_ms[before] and events.lo_ms[after] == events.hi_ms[after]:
            if events.lo_ms[before] != events.lo_ms[after]:
                return bool(events.lo_ms[before] < events.lo_ms[after])
            return not events.strict and before < after
        if events.clock[before] >= 0 and events.clock[before] == events.clock[after]:
            return bool(clock_before(events, before, after))
        return None

    # --------------------------------------------------------------- confidence

    def _confidence(self, demands: _Demands, known: dict[object, float]) -> float:
        if demands.is_sequence and not demands.parts:
            match = demands.match
            numbers = match_work(self._events, match, 0, len(match), self._plan.within_ms, MAX_EVALUATIONS)
            self._pay(4 + int(min(numbers, 1e15)) // _NUMBERS_PER_STEP)
            confidence = float(match_confidence(self._events, match, len(match), self._plan.within_ms))
            if confidence == TOO_MUCH:
                raise TooMuchWorkError
            return confidence
        try:
            return self._joint(demands, known)
        except TooMuchWorkError:
            conditions = Conditions(self._plan.within_ms)
            possible = conditions.possibilities([self._possible(conditions, demands)])
            return self._of_union(possible)

    def _joint(self, demands: _Demands, known: dict[object, float]) -> float:
        """P(all demands hold and of each part one does not); the mean over the offsets that several times share."""
        rows = demands.rows
        demanded = self._open(demands.demanded, rows)
        if demanded is None:
            return 0.0
        parts = [own for part in demands.parts if (own := self._open(part, rows)) is not None]
        if not all(parts):
            return 0.0
        matter = {number for d in (*demanded, *(d for part in parts for d in part)) for number in d[:2]}
        by_offset: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for number in sorted(matter):
            row = rows[number]
            if (skew_ms := self._skew_ms(row)) and self._events.clock[row] >= 0:
                by_offset.setdefault((int(self._events.clock[row]), skew_ms), []).append((row, number))
        shared = {offset: members for offset, members in by_offset.items() if len(members) > 1}
        if shared:
            return self._over_offsets(demands, demanded, parts, shared)
        result = 1.0
        for own, absent in _independent(demanded, parts):
            key = (
                tuple((rows[before], rows[after], least_ms) for before, after, least_ms in own),
                tuple(tuple((rows[before], rows[after], least_ms) for before, after, least_ms in p) for p in absent),
            )
            self._pay(_PER_DEMAND)
            share = known.get(key)
            if share is None:
                share = known[key] = self._probability(demands, own, absent, {}, self._budget())
            result *= share
        return result

    def _open(self, differences: Sequence[Difference], rows: Sequence[int]) -> list[Difference] | None:
        """Those that hold in some worlds only; None when one holds in none."""
        lo, hi = self._events.lo_ms, self._events.hi_ms
        left: dict[Difference, None] = {}
        for demand in differences:
            before, after = rows[demand.before], rows[demand.after]
            if hi[after] - lo[before] < demand.least_ms:
                return None
            if lo[after] - hi[before] < demand.least_ms:
                left[demand] = None
        return list(left)

    def _over_offsets(
        self,
        demands: _Demands,
        demanded: Sequence[Difference],
        parts: Sequence[Sequence[Difference]],
        shared: dict[tuple[int, int], list[tuple[int, int]]],
    ) -> float:
        n_combinations = math.prod(2 * skew_ms + 1 for _, skew_ms in shared)
        if n_combinations > _MOST_OFFSETS:
            raise TooMuchWorkError
        total, budget = 0.0, self._budget()
        for offsets in product(*(range(-skew_ms, skew_ms + 1) for _, skew_ms in shared)):
            given = {
                number: self._time_given(row, offset_ms)
                for offset_ms, members in zip(offsets, shared.values(), strict=True)
                for row, number in members
            }
            total += self._probability(demands, demanded, parts, given, budget)
        return total / n_combinations

    def _budget(self) -> Budget:
        return Budget(min(MAX_WORK, CELLS_PER_STEP * self._left // 2))

    def _probability(
        self,
        demands: _Demands,
        demanded: Sequence[Difference],
        parts: Sequence[Sequence[Difference]],
        given: dict[int, Time],
        budget: Budget,
    ) -> float:
        """P(these hold and of each part one does not), what it takes being paid for."""
        numbers = {number for d in (*demanded, *(d for part in parts for d in part)) for number in d[:2]}
        times = {number: given.get(number) or self._time(demands.rows[number]) for number in sorted(numbers)}
        negated = [number for number in numbers if number >= len(demands.match)]
        before = budget.cells
        try:
            return joint_probability(times, demanded, negated, parts, budget)
        finally:
            self._left -= -(-(before - budget.cells) // CELLS_PER_STEP)

    def _of_union(self, possible: Possibilities) -> float:
        n_conditions = sum(len(match.conditions) + sum(map(len, match.choices)) for match in possible.matches)
        per_look = _PER_LOOK * (1 + len(possible.times) * n_conditions // _TERMS_PER_LOOK)
        evaluator = UnionProbability(possible.times, min(_WORK_LIMIT, max(self._left, 0) // per_look))
        try:
            return evaluator.of(possible.matches)
        finally:
            self._left -= per_look * (1 + evaluator.n_work)

    # ------------------------------------------------------------ possible worlds

    def _possibilities(self, demands: _Demands) -> Possibilities | None:
        if demands.is_sequence and not demands.parts:  # its demands have not been asked for
            arranged = [(number, number + 1) for number in range(len(demands.match) - 1)]
            demands = demands._replace(
                rows=demands.match.tolist(),
                demanded=[
                    *(self._in_order(arranged, demands.match.tolist(), range(len(demands.match))) or ()),
                    *([Difference(len(demands.match) - 1, 0, -self._plan.within_ms)] if arranged else ()),
                ],
            )
        self._pay(_PER_POSSIBLE + _PER_DEMAND * (len(demands.demanded) + sum(map(len, demands.parts))))
        conditions = Conditions(self._plan.within_ms)
        try:
            return conditions.possibilities([self._possible(conditions, demands)])
        except UnknownConditionsError:
            return None

    def _possible(self, conditions: Conditions, demands: _Demands) -> PossibleMatch | None:
        events = [self._event(row) for row in demands.rows]

        def of_events(differences: Sequence[Difference]) -> list[Demand]:
            return [(events[before], events[after], least_ms) for before, after, least_ms in differences]

        return conditions.of_demands(of_events(demands.demanded), map(of_events, demands.parts))

    def _event(self, row: int) -> TimedEvent:
        events, weights = self._events, self._store.weights.get(row)
        clock, skew_ms = int(events.clock[row]), self._skew_ms(row)
        if skew_ms and clock < 0:  # nobody shares its offset
            weights = self._time(row).shares
        return TimedEvent(
            event_id=self._store.ids[row],
            lo_ms=int(events.lo_ms[row]),
            hi_ms=int(events.hi_ms[row]),
            number=row,
            clock=None if clock < 0 else str(clock),
            source_seq=int(events.source_seq[row]),
            weights=None if weights is None else tuple(weights.tolist()),
            skew_ms=skew_ms,
        )

    # -------------------------------------------------------------------- times

    def _time(self, row: int) -> Time:
        found = self._times.get(row)
        if found is None:
            shares = time_distribution(self._events, row, True)
            found = self._times[row] = Time(int(self._events.lo_ms[row]), shares)
        return found

    def _time_given(self, row: int, offset_ms: int) -> Time:
        """The time of an event of a clock with skew, given the clock's offset."""
        nominal = self._nominal.get(row)
        if nominal is None:
            shares = time_distribution(self._events, row, False)
            nominal = self._nominal[row] = Time(int(self._events.lo_ms[row]) + self._skew_ms(row), shares)
        return nominal._replace(lo_ms=nominal.lo_ms + offset_ms)

    def _skew_ms(self, row: int) -> int:
        return int(self._events.skew[row]) if len(self._events.skew) else 0

    # ------------------------------------------------------------------ absence

    def _parts(
        self,
        rows: Int64Array,
        edges: Int64Array,
        arranged: Arrangement,
        gap: Gap,
        partition: int,
        numbers: dict[int, int],
    ) -> Iterator[list[Difference]]:
        """What would have to hold for each match of a negated pattern to be in its place; numbers its events, too."""
        counters = np.array(gap.counters, np.int64)
        for candidates in self._around(rows, arranged, gap, partition):
            most = max(min(100 * _MOST_PARTS, self._left), 0)
            left = np.array([most], np.int64)
            offsets, found, taken_edges, complete = list_intruders(
                self._tables, self._rows, self._events, rows, edges, gap.negation, counters, candidates, _MOST_PARTS,
                left,
            )  # fmt: skip
            self._pay(most - int(left[0]))
            if not complete:
                raise TooMuchWorkError
            for k in range(len(offsets) - 1):
                own = slice(int(offsets[k]), int(offsets[k + 1]))
                within = self._arrangements.of_part(taken_edges[own].tolist(), gap.counters)
                demands = self._in_place(rows, arranged, gap, found[own].tolist(), within, numbers)
                if demands is not None:
                    yield demands

    def _around(self, rows: Int64Array, arranged: Arrangement, gap: Gap, partition: int) -> Iterator[Int64Array]:
        """The rows that may be of a negated pattern in its place, partition by partition of a match of none."""
        lo, hi, within_ms = self._events.lo_ms, self._events.hi_ms, self._plan.within_ms
        states = self._plan.states
        negated = [variable - states.n_positive for variable in states.negations[gap.negation].variables]
        least = max(lo[rows[k]] for k in gap.left or arranged.lasts) - (0 if gap.left else within_ms)
        most = min(hi[rows[k]] for k in gap.right or arranged.firsts) + (0 if gap.right else within_ms)
        start, stop = self._near.rows_between(int(least), int(most))
        for each in [partition] if partition != BROADCAST else self._near.partitions(start, stop, int(least)):
            members = self._near.members(each, start, stop)
            members = members[self._rows.negated[negated][:, members].any(axis=0)]
            members = members[(hi[members] >= least) & (lo[members] <= most)]
            self._pay(_PER_GAP + len(members) // _ROWS_PER_STEP)
            members = members[~np.isin(members, rows)]
            if len(members):
                yield members

    def _in_place(
        self,
        rows: Int64Array,
        arranged: Arrangement,
        gap: Gap,
        part: Sequence[int],
        within: Arrangement,
        numbers: dict[int, int],
    ) -> list[Difference] | None:
        """What the times must satisfy for the rows `part` to be a match in the gap; None: they never are."""
        n, match = len(part), rows.tolist()
        pairs = [*within.pairs]
        pairs += [(n + k, i) for k in gap.left for i in within.firsts]
        pairs += [(j, n + k) for k in gap.right for j in within.lasts]
        self._pay(_PER_INTRUDER + _PER_DEMAND * len(pairs))
        own = [numbers.setdefault(row, len(numbers)) for row in part]
        found = self._in_order(pairs, [*part, *match], [*own, *range(len(match))])
        if found is None:
            return None
        within_ms = self._plan.within_ms
        if not gap.left:
            found += [Difference(k, own[i], -within_ms) for k in arranged.lasts for i in within.firsts]
        if not gap.right:
            found += [Difference(own[j], k, -within_ms) for k in arranged.firsts for j in within.lasts]
        return found


def _independent(
    demanded: Sequence[Difference], parts: Sequence[Sequence[Difference]]
) -> Iterator[tuple[list[Difference], list[tuple[Difference, ...]]]]:
    """The demands and parts in groups that share no time."""
    head: dict[int, int] = {}

    def find(number: int) -> int:
        while head.setdefault(number, number) != number:
            number = head[number]
        return number

    for part in ([demand] for demand in demanded):
        head[find(part[0].before)] = find(part[0].after)
    for absent in parts:
        for demand in absent:
            for number in demand[:2]:
                head[find(number)] = find(absent[0].before)
    groups: dict[int, tuple[list[Difference], list[tuple[Difference, ...]]]] = {}
    for demand in demanded:
        groups.setdefault(find(demand.before), ([], []))[0].append(demand)
    for absent in parts:
        groups.setdefault(find(absent[0].before), ([], []))[1].append(tuple(absent))
    yield from groups.values()


__all__ = ["CELLS_PER_STEP", "Confidences"]
