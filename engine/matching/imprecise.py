"""Matches of an automaton among events whose times are intervals (skip till any match): which there are, how sure.

Nothing is decided before the watermark has passed the latest end of a match: all that may be in it, or between its
events, is there then. A kernel lists the arrangements that some world may have; the confidence of each is the share of
worlds that have its partial order and its window, and none of what is negated in it: `match_confidence` where the
pattern orders all events and nothing is negated near them, `engine.uncertainty.absence` elsewhere. There the offset of
a clock with skew is gone through, value by value, where several of its events matter.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np

from engine.events import FOREVER_MS, BoolArray, Float64Array, Int64Array
from engine.kernels import automaton_search
from engine.kernels.automaton_imprecise import list_arrangements, list_intruders
from engine.kernels.automaton_tables import STRICT_TIES, Rows, Tables
from engine.kernels.ordering import Events, clock_before, search_order
from engine.kernels.skew import TOO_MUCH, match_confidence
from engine.kernels.skew_events import time_distribution
from engine.language import ast
from engine.matching.arrangement import Arrangement, Arrangements, Gap
from engine.matching.automaton_memory import Pending, room, taken
from engine.matching.automaton_precise import Listed
from engine.matching.postponed_context import events_of
from engine.matching.store import BROADCAST, EventStore
from engine.matching.work import WorkAccount
from engine.plan.automaton_model import AutomatonPlan
from engine.uncertainty.absence import joint_probability
from engine.uncertainty.differences import Budget, Difference, Time, TooMuchWorkError, undecided
from engine.uncertainty.possibilities import (
    Conditions,
    Demand,
    Possibilities,
    PossibleMatch,
    TimedEvent,
    UnknownConditionsError,
)
from engine.uncertainty.union_probability import OutOfWorkError, UnionProbability

MOST_MATCHES = 50_000
"""Matches of one advance: their confidences are computed one by one, in some 0.1 ms each."""
_WORK_LIMIT = 10_000
"""Of the way to a confidence that does not depend on the length of intervals: about two seconds."""
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


class ImpreciseMatching:
    """The matches of one automaton plan in a store as it is at one watermark."""

    def __init__(
        self,
        plan: AutomatonPlan,
        store: EventStore,
        tables: Tables,
        rows: Rows,
        arrangements: Arrangements,
        work: WorkAccount,
    ) -> None:
        self._plan = plan
        self._store = store
        scalars = tables.scalars.copy()
        scalars[STRICT_TIES] = 0  # the order is what the intervals say, see `Events.strict`
        self._tables = tables._replace(scalars=scalars)
        self._rows = rows
        self._events: Events = events_of(store, strict=plan.ties is ast.Ties.STRICT)
        self._arrangements = arrangements
        self._work = work
        self._times: dict[int, Time] = {}
        self._nominal: dict[int, Time] = {}
        self._depth = max((len(path) for path in plan.states.paths), default=0)

    # ------------------------------------------------------------------ listing

    def matches(self, after_ms: int, before_ms: int, most: int) -> tuple[Listed, bool]:
        """The arrangements whose latest end is in [after_ms, before_ms), each once, `most` at most, and whether there
        are more; by the events that decide them, which end last."""
        n, store = len(self._store), self._store
        due = (store.t_hi_ms[:n] >= after_ms) & (store.t_hi_ms[:n] < min(before_ms, FOREVER_MS))
        due &= self._rows.begin[:, :n].any(axis=0)
        lasts = np.flatnonzero(due)
        parts = [taken(room(len(self._plan.returns), self._depth))]
        cut: list[tuple[int, int]] = []
        n_found, unfinished = 0, False
        for last in lasts[np.lexsort((lasts, store.t_hi_ms[lasts]))].tolist():
            own = int(store.partition[last])
            left = np.array([self._work.allowance_at(int(store.position[last]))], np.int64)
            allowance, stopped = int(left[0]), False
            for partition in (own,) if own != BROADCAST else range(BROADCAST, store.n_partitions):
                candidates = self._near(self._members(partition), last)
                if len(candidates) and not stopped:
                    part, stopped = self._decided_by(last, candidates, partition, most - n_found + 1, left)
                    parts.append(part)
                    n_found += part.n_matches
            self._work.settle(allowance - int(left[0]))
            if n_found > most:
                unfinished = True
                break
            if stopped:
                cut.append((int(store.position[last]), int(store.t_hi_ms[last])))
        found = Pending.joined(parts)
        if unfinished:
            found = found.chosen(np.arange(most))
        return Listed(found, tuple(cut)), unfinished

    def _members(self, partition: int) -> Int64Array:
        """The rows of a partition and those of all, in order."""
        starts, members = self._rows.starts, self._rows.members
        shared = members[starts[0] : starts[1]]
        if partition == BROADCAST:
            return shared
        return np.sort(np.concatenate([shared, members[starts[partition + 1] : starts[partition + 2]]]))

    def _near(self, rows: Int64Array, last: int) -> Int64Array:
        """Those that may be in a match that this row decides."""
        lo, hi, within_ms = self._events.lo_ms, self._events.hi_ms, self._plan.within_ms
        near: BoolArray = (hi[rows] >= lo[last] - within_ms) & (lo[rows] <= hi[last])
        rows = rows[near]
        rows = rows[self._rows.begin[:, rows].any(axis=0)]
        starts = rows[self._rows.begin[list(self._plan.starts)][:, rows].any(axis=0)]
        return rows[hi[rows] >= lo[starts].min()] if len(starts) else rows[:0]

    def _decided_by(
        self, last: int, candidates: Int64Array, partition: int, most: int, left: Int64Array
    ) -> tuple[Pending, bool]:
        ordered = self._arrangements.are_sequences
        blocks = np.zeros(len(candidates), np.int64)
        if ordered:
            candidates, blocks, _ = search_order(self._events, candidates)
        status, found = list_arrangements(
            self._tables, self._rows, self._events, candidates, blocks, ordered, partition,
            int(np.flatnonzero(candidates == last)[0]), most, left, room(len(self._plan.returns), self._depth),
        )  # fmt: skip
        return self._distinct(taken(found)), status != automaton_search.DONE

    def _distinct(self, found: Pending) -> Pending:
        """Each arrangement of the same events in the same variables and iterations once."""
        seen: set[tuple[object, ...]] = set()
        kept = []
        for number in range(found.n_matches):
            own = slice(int(found.offsets[number]), int(found.offsets[number + 1]))
            arranged = self._arrangements.of_match(found.edges[own].tolist(), int(found.exit[number]))
            variables = self._variables(found.edges[own])
            order = np.argsort(variables, kind="stable")
            rows = found.rows[own]
            identity = (
                variables[order].tobytes(),
                rows[order].tobytes(),
                found.iterations[own][order].tobytes(),
                frozenset((int(rows[i]), int(rows[j])) for i, j in arranged.pairs),
                arranged.gaps,
            )
            if identity not in seen:
                seen.add(identity)
                kept.append(number)
        return found if len(kept) == found.n_matches else found.chosen(np.array(kept, np.int64))

    def _variables(self, edges: Int64Array) -> Int64Array:
        states = self._plan.states
        return np.array([states.occurrences[states.edges[e].occurrence].variable for e in edges.tolist()], np.int64)

    # --------------------------------------------------------------- confidence

    def confidences(self, found: Pending) -> Float64Array:
        """The confidence of each match, NaN where it would be too much work."""
        result = np.empty(found.n_matches)
        for number in range(found.n_matches):
            try:
                demands = self._demands(found, number)
                result[number] = 0.0 if demands is None else self._confidence(demands)
            except (TooMuchWorkError, OutOfWorkError, UnknownConditionsError):
                result[number] = np.nan
        return result

    def possibilities(self, found: Pending, number: int) -> Possibilities | None:
        """The worlds in which a match is one, as conditions on the times of its events and of negated ones; None where
        these are not independent times."""
        conditions = Conditions(self._plan.within_ms)
        demands = self._demands(found, number)
        assert demands is not None, "a match is one in some world"
        try:
            return conditions.possibilities([self._possible(conditions, demands)])
        except UnknownConditionsError:
            return None

    def ends(self, found: Pending) -> Int64Array:
        """Which of its events are the first and the last of each match, (n, 2): where AND leaves events unordered the
        last is the one that may end last of those that none must follow, the first that of the others in the stream."""
        result = np.zeros((found.n_matches, 2), np.int64)
        result[:, 1] = np.diff(found.offsets) - 1
        if self._arrangements.are_sequences:
            return result
        hi = self._events.hi_ms
        for number in range(found.n_matches):
            own = slice(int(found.offsets[number]), int(found.offsets[number + 1]))
            arranged = self._arrangements.of_match(found.edges[own].tolist(), int(found.exit[number]))
            if not arranged.is_sequence:
                rows = found.rows[own].tolist()
                last = max(arranged.lasts, key=lambda k: (hi[rows[k]], rows[k]))
                result[number] = min((k for k in range(len(rows)) if k != last), key=rows.__getitem__), last
        return result

    def _demands(self, found: Pending, number: int) -> _Demands | None:
        """What times must be for a match to be one; None: no times are. Raises TooMuchWorkError."""
        own = slice(int(found.offsets[number]), int(found.offsets[number + 1]))
        rows, edges, partition = found.rows[own], found.edges[own], int(found.partition[number])
        arranged = self._arrangements.of_match(edges.tolist(), int(found.exit[number]))
        numbers = {int(row): number for number, row in enumerate(rows.tolist())}
        parts: dict[tuple[Difference, ...], None] = {}
        for gap in arranged.gaps:
            for demands in self._parts(rows, edges, arranged, gap, partition, numbers):
                if not demands:
                    return None
                parts[tuple(demands)] = None
        demanded = self._demanded(rows, arranged)
        return None if demanded is None else _Demands(rows, list(numbers), demanded, list(parts), arranged.is_sequence)

    def _confidence(self, demands: _Demands) -> float:
        if demands.is_sequence and not demands.parts:
            match = demands.match
            confidence = float(match_confidence(self._events, match, len(match), self._plan.within_ms))
            if confidence == TOO_MUCH:
                raise TooMuchWorkError
            return confidence
        try:
            return self._joint(demands)
        except TooMuchWorkError:
            conditions = Conditions(self._plan.within_ms)
            possible = conditions.possibilities([self._possible(conditions, demands)])
            return UnionProbability(possible.times, _WORK_LIMIT).of(possible.matches)

    def _joint(self, demands: _Demands) -> float:
        """P(all demands hold and of each part one does not); the mean over the offsets that several times share."""
        times = {number: self._time(row) for number, row in enumerate(demands.rows)}
        negated = range(len(demands.match), len(demands.rows))
        open_demands = undecided(demands.demanded, times)
        if open_demands is None:
            return 0.0
        matter = {number for d in (*open_demands, *(d for part in demands.parts for d in part)) for number in d[:2]}
        by_offset: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for number, row in enumerate(demands.rows):
            if number in matter and (skew_ms := self._skew_ms(row)) and self._events.clock[row] >= 0:
                by_offset.setdefault((int(self._events.clock[row]), skew_ms), []).append((row, number))
        shared = {offset: members for offset, members in by_offset.items() if len(members) > 1}
        if not shared:
            return joint_probability(times, demands.demanded, negated, demands.parts)
        n_combinations = math.prod(2 * skew_ms + 1 for _, skew_ms in shared)
        if n_combinations > _MOST_OFFSETS:
            raise TooMuchWorkError
        total, budget = 0.0, Budget()
        for offsets in product(*(range(-skew_ms, skew_ms + 1) for _, skew_ms in shared)):
            for offset_ms, members in zip(offsets, shared.values(), strict=True):
                times |= {number: self._time_given(row, offset_ms) for row, number in members}
            total += joint_probability(times, demands.demanded, negated, demands.parts, budget)
        return total / n_combinations

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

    def _demanded(self, rows: Int64Array, arranged: Arrangement) -> list[Difference] | None:
        """The order and the window of a match; None when it is in order in no world."""
        numbers = {int(row): number for number, row in enumerate(rows.tolist())}
        found = self._in_order([(int(rows[i]), int(rows[j])) for i, j in arranged.pairs], numbers)
        if found is None:
            return None
        window = [Difference(j, i, -self._plan.within_ms) for i in arranged.firsts for j in arranged.lasts if i != j]
        return [*found, *window]

    def _in_order(self, pairs: Sequence[tuple[int, int]], numbers: dict[int, int]) -> list[Difference] | None:
        """What the times of these rows must satisfy, the first of each pair before the second; None: impossible."""
        found: list[Difference] = []
        for before, after in pairs:
            known = self._known_order(before, after)
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
        left = np.array([100 * _MOST_PARTS], np.int64)
        for candidates in self._around(rows, arranged, gap, partition):
            offsets, found, taken_edges, complete = list_intruders(
                self._tables, self._rows, self._events, rows, edges, gap.negation, counters, candidates, _MOST_PARTS,
                left,
            )  # fmt: skip
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
        partitions = [partition] if partition != BROADCAST else range(BROADCAST, self._store.n_partitions)
        for each in partitions:
            members = self._members(each)
            members = members[self._rows.negated[negated][:, members].any(axis=0)]
            members = members[(hi[members] >= least) & (lo[members] <= most)]
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
        for row in part:
            numbers.setdefault(row, len(numbers))
        pairs = [(part[i], part[j]) for i, j in within.pairs]
        pairs += [(int(rows[k]), part[i]) for k in gap.left for i in within.firsts]
        pairs += [(part[j], int(rows[k])) for k in gap.right for j in within.lasts]
        found = self._in_order(pairs, numbers)
        if found is None:
            return None
        within_ms = self._plan.within_ms
        if not gap.left:
            found += [Difference(k, numbers[part[i]], -within_ms) for k in arranged.lasts for i in within.firsts]
        if not gap.right:
            found += [Difference(numbers[part[j]], k, -within_ms) for k in arranged.firsts for j in within.lasts]
        return found


__all__ = ["MOST_MATCHES", "ImpreciseMatching"]
