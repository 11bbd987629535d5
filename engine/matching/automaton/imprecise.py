"""Matches of an automaton among events whose times are intervals (skip till any match): which there are, how sure.

Nothing is decided before the watermark has passed the latest end of a match: all that may be in it, or between its
events, is there then. A kernel lists the arrangements that some world may have; `engine.matching.automaton.confidence`
tells how sure each is.

Last events are gone through by their latest ends, whatever the division of the stream into steps, and each is paid for
by the query's account (`engine.matching.work_account`): its search, its matches and their confidences. A match that
waits for what is negated at its end is paid for by an account of its own, with those that begin with the same event.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from engine.events import FOREVER_MS, BoolArray, Float64Array, Int64Array
from engine.kernels.automaton import search as automaton_search
from engine.kernels.automaton.imprecise import list_arrangements
from engine.kernels.automaton.tables import STRICT_TIES, Tables
from engine.kernels.columns.partitions import BROADCAST
from engine.kernels.confidence.ordering import Events, search_order
from engine.matching.automaton.arrangement import Arrangements
from engine.matching.automaton.confidence import Confidences
from engine.matching.automaton.memory import Pending, empty_matches, taken
from engine.matching.automaton.near_rows import NearRows
from engine.matching.automaton.precise import PreciseSearch
from engine.matching.output.listed import Cut
from engine.matching.work_account import WorkAccount
from engine.plan.automaton.model import AutomatonPlan
from engine.stream.intervals import events_of
from engine.stream.store import EventStore
from engine.uncertainty.possibilities import Possibilities

PER_MATCH = 200
"""Steps in the time that a match takes beside its search and its confidence: to tell it apart, to make its row."""
PER_PARTITION = 150
"""Steps in the time that a last event takes in one partition before its search."""
_CANDIDATES_PER_STEP = 4
"""Events around a last one that are looked at in the time of a step before its search."""


class Decided(NamedTuple):
    """Matches of which it is known how sure they are.

    confidence: float64 (n,), above 0. ends: int64 (n, 2), see `ListedMatches.ends`. possible: see `Matches.possible`.
    cut: the last events of which some matches are missing.
    """

    found: Pending
    confidence: Float64Array
    ends: Int64Array
    possible: tuple[Possibilities | None, ...] | None
    cut: Cut


class ImpreciseMatching:
    """The matches of one automaton plan in a store as it is at one watermark.

    precise: finds what is decided by events that have no imprecise one near them, so that it does not matter in which
    step an imprecise event comes. work: pays for last events. after: pays for matches that wait for what is negated at
    their end. with_possible: whether it is wanted in which worlds matches are some.
    """

    def __init__(
        self,
        plan: AutomatonPlan,
        store: EventStore,
        tables: Tables,
        precise: PreciseSearch,
        arrangements: Arrangements,
        work: WorkAccount,
        after: WorkAccount,
        *,
        with_possible: bool,
    ) -> None:
        self._plan = plan
        self._store = store
        scalars = tables.scalars.copy()
        scalars[STRICT_TIES] = 0  # the order is what the intervals say, see `Events.strict`
        self._tables = tables._replace(scalars=scalars)
        self._precise = precise
        self._rows = rows = precise.rows()
        self._events: Events = events_of(store, strict=plan.strict_ties)
        self._arrangements = arrangements
        self._work = work
        self._after = after
        self._with_possible = with_possible
        self._near = NearRows(store, rows)
        self._apart = self._near.apart(plan.within_ms)
        self._confidences = Confidences(plan, store, self._tables, rows, self._near, self._events, arrangements)
        states = plan.states
        self._depth = max((len(path) for path in states.paths), default=0)
        self._none = taken(empty_matches(len(plan.returns), self._depth, 0, 0))
        self._waiting: BoolArray = np.array([bool(end.crossings) for end in states.exits], np.bool_)
        self._variable = np.array([states.occurrences[edge.occurrence].variable for edge in states.edges], np.int64)
        n = len(store)
        self._ends_one: BoolArray = np.any(rows.begin[_last_variables(plan)][:, :n], axis=0)
        self._begins: BoolArray = np.any(rows.begin[:, :n], axis=0)
        self._starts: BoolArray = np.any(rows.begin[list(plan.starts)][:, :n], axis=0)

    # ------------------------------------------------------------------ listing

    def decide(self, pending: Pending, after_ms: int, before_ms: int, most: int) -> tuple[Decided, Pending, bool]:
        """The matches that are decided between two watermarks, those that go on waiting, and whether there are more.

        pending: matches that wait for what is negated at their end. most: matches after which the search stops.
        """
        parts: list[Decided] = []
        waiting = [pending]
        n_found, unfinished = 0, False
        for lasts in self._lasts(after_ms, before_ms):
            if self._apart[lasts[0]]:
                part, own, unfinished = self._of_precise(lasts, most - n_found)
            else:
                part, own, unfinished = self._of_last(int(lasts[0]), most - n_found)
            parts.append(part)
            waiting.append(own)
            n_found += len(part.confidence) + own.n_matches
            if unfinished:
                break
        still, due = self._due(Pending.joined(waiting), before_ms)
        parts += due
        return self._joined(parts), still, unfinished

    def _lasts(self, after_ms: int, before_ms: int) -> list[Int64Array]:
        """The events whose latest ends are in [after_ms, before_ms), by these: alone, or those together that follow
        each other and have precise events before them."""
        n, store = len(self._store), self._store
        due = (store.t_hi_ms[:n] >= after_ms) & (store.t_hi_ms[:n] < min(before_ms, FOREVER_MS))
        due &= self._ends_one
        lasts = np.flatnonzero(due)
        lasts = lasts[np.lexsort((lasts, store.t_hi_ms[lasts]))]
        apart = self._apart[lasts]
        changes = np.flatnonzero(~(apart[1:] & apart[:-1])) + 1
        return np.split(lasts, changes) if len(lasts) else []

    def _of_precise(self, lasts: Int64Array, most: int) -> tuple[Decided, Pending, bool]:
        """What events decide whose matches are of precise ones: what they do where all are."""
        found, cut = self._precise.list_at(lasts, most + 1)
        unfinished = found.n_matches > most
        if unfinished:
            found = found.chosen(np.arange(most))
        waits = self._waiting[found.exit]
        part = self._certain(found.chosen(np.flatnonzero(~waits)), cut)
        return part, found.chosen(np.flatnonzero(waits)), unfinished

    def _certain(self, found: Pending, cut: Cut) -> Decided:
        n = found.n_matches
        ends = np.stack([np.zeros(n, np.int64), np.diff(found.offsets) - 1], axis=1)
        possible = (Possibilities.certain(),) * n if self._with_possible else None
        return Decided(found, np.ones(n), ends, possible, cut)

    def _of_last(self, last: int, most: int) -> tuple[Decided, Pending, bool]:
        """What an event decides: its matches, those of them that wait, and whether there are more than `most`."""
        allowance = self._work.allowance_at(int(self._store.position[last]))
        if not allowance:
            return self._nothing(cut=(self._cut(last),)), self._none, False
        # What the search finds is to be told: half is for that, and half of it for confidences.
        capacity_for = min(most, allowance // (4 * PER_MATCH)) + 1
        left = np.array([allowance // 2], np.int64)
        found, stopped = self._arranged(last, capacity_for, left)
        spent = allowance // 2 - int(left[0]) + PER_MATCH * found.n_matches
        unfinished = found.n_matches > most
        if unfinished:
            found = found.chosen(np.arange(most))
        waits = self._waiting[found.exit]
        part, steps = self._sure(found.chosen(np.flatnonzero(~waits)), max(allowance - spent, 0))
        self._work.settle(spent + steps)
        if stopped and not unfinished:
            part = part._replace(cut=tuple(dict.fromkeys((*part.cut, self._cut(last)))))
        return part, found.chosen(np.flatnonzero(waits)), unfinished

    def _arranged(self, last: int, most: int, left: Int64Array) -> tuple[Pending, bool]:
        """The arrangements that an event decides, `most` at most, and whether there may be more."""
        parts = [self._none]
        n_found, stopped = 0, False
        own = int(self._store.partition[last])
        lo, hi = int(self._events.lo_ms[last]), int(self._events.hi_ms[last])
        start, stop = self._near.rows_between(lo - self._plan.within_ms, hi)
        for partition in [own] if own != BROADCAST else self._near.partitions(start, stop, lo - self._plan.within_ms):
            candidates = self._usable(self._near.members(partition, start, stop), last)
            left[0] -= PER_PARTITION + len(candidates) // _CANDIDATES_PER_STEP
            if not len(candidates):
                continue
            if left[0] < 0 or n_found >= most:
                stopped = True
                break
            part, stopped = self._decided_by(last, candidates, partition, most - n_found, left)
            parts.append(part)
            n_found += part.n_matches
            if stopped:
                break
        return Pending.joined(parts), stopped

    def _usable(self, rows: Int64Array, last: int) -> Int64Array:
        """Those of the rows that may be in a match that this one decides."""
        lo, hi, within_ms = self._events.lo_ms, self._events.hi_ms, self._plan.within_ms
        near: BoolArray = (hi[rows] >= lo[last] - within_ms) & (lo[rows] <= hi[last]) & self._begins[rows]
        rows = rows[near]
        starts = rows[self._starts[rows]]
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
            int(np.flatnonzero(candidates == last)[0]), most, left, empty_matches(len(self._plan.returns), self._depth),
        )  # fmt: skip
        return self._distinct(taken(found)), status != automaton_search.DONE

    def _distinct(self, found: Pending) -> Pending:
        """Each arrangement of the same events in the same variables and iterations once."""
        if found.n_matches < 2:
            return found
        seen: set[tuple[object, ...]] = set()
        kept = []
        variables, are_sequences = self._variable[found.edges], self._arrangements.are_sequences
        bounds, exits = found.offsets.tolist(), found.exit.tolist()
        for number in range(found.n_matches):
            own = slice(bounds[number], bounds[number + 1])
            arranged = self._arrangements.of_match(found.edges[own].tolist(), exits[number])
            rows, named, iterations = found.rows[own], variables[own], found.iterations[own]
            identity: tuple[object, ...]
            if are_sequences:
                identity = named.tobytes(), rows.tobytes(), iterations.tobytes(), arranged.gaps
            else:
                order = np.argsort(named, kind="stable")
                pairs = frozenset((int(rows[i]), int(rows[j])) for i, j in arranged.pairs)
                positions = named[order].tobytes(), rows[order].tobytes(), iterations[order].tobytes()
                identity = *positions, pairs, arranged.gaps
            if identity not in seen:
                seen.add(identity)
                kept.append(number)
        return found if len(kept) == found.n_matches else found.chosen(np.array(kept, np.int64))

    # ------------------------------------------------------------------ deciding

    def _due(self, waiting: Pending, before_ms: int) -> tuple[Pending, list[Decided]]:
        """The matches that go on waiting for what is negated at their end, and those that nothing can change now."""
        if not waiting.n_matches:
            return waiting, []
        store = self._store
        ends = waiting.offsets[:-1, None] + self._ends(waiting)
        first, last = waiting.rows[ends[:, 0]], waiting.rows[ends[:, 1]]
        hi = store.t_hi_ms
        due: BoolArray = hi[first] + self._plan.within_ms < before_ms
        # By the time that they are decided: the same for every division into steps.
        order = np.lexsort((last, hi[last], first, hi[first]))
        order = order[due[order]]
        found: list[Decided] = []
        for numbers in _runs_of(order, first):
            row = int(first[numbers[0]])
            if self._is_alone(row):
                found.append(self._certain(*self._precise.free_after(waiting.chosen(numbers))))
                continue
            part, steps = self._sure(waiting.chosen(numbers), self._after.allowance_at(int(store.position[row])))
            self._after.settle(steps)
            found.append(part)
        return waiting.chosen(np.flatnonzero(~due)), found

    def _is_alone(self, first: int) -> bool:
        """Whether all events within the window around a first one are precise."""
        lo, hi, within_ms = self._events.lo_ms, self._events.hi_ms, self._plan.within_ms
        rows = np.arange(*self._near.rows_between(int(lo[first]) - within_ms, int(hi[first]) + within_ms))
        return bool(((lo[rows] == hi[rows]) | (hi[rows] < lo[first] - within_ms)).all())

    def _sure(self, found: Pending, left: int) -> tuple[Decided, int]:
        """Matches with their confidences as far as so many steps go, and the steps that were spent."""
        if not found.n_matches:
            return self._nothing(), 0
        ends = self._ends(found)
        confidence = np.full(found.n_matches, np.nan)
        possible: list[Possibilities | None] = []
        known: dict[object, float] = {}
        spent = 0
        for number in range(found.n_matches):
            own = slice(int(found.offsets[number]), int(found.offsets[number + 1]))
            arranged = self._arrangements.of_match(found.edges[own].tolist(), int(found.exit[number]))
            confidence[number], worlds, steps = self._confidences.of(
                found.rows[own], found.edges[own], arranged, int(found.partition[number]), left - spent, known,
                with_possible=self._with_possible,
            )  # fmt: skip
            possible.append(worlds)
            spent += steps
            if spent >= left:
                break
        unknown = np.flatnonzero(np.isnan(confidence))
        lasts = found.rows[found.offsets[unknown] + ends[unknown, 1]].tolist()
        sure = np.flatnonzero(confidence > 0)
        return Decided(
            found.chosen(sure),
            confidence[sure],
            ends[sure],
            tuple(possible[number] for number in sure.tolist()) if self._with_possible else None,
            tuple(dict.fromkeys(map(self._cut, lasts))),
        ), spent

    def _ends(self, found: Pending) -> Int64Array:
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

    def _cut(self, row: int) -> tuple[int, int]:
        return int(self._store.position[row]), int(self._store.t_hi_ms[row])

    def _nothing(self, cut: Cut = ()) -> Decided:
        possible = () if self._with_possible else None
        return Decided(self._none, np.empty(0), np.empty((0, 2), np.int64), possible, cut)

    def _joined(self, parts: list[Decided]) -> Decided:
        parts = [self._nothing(), *parts]
        return Decided(
            Pending.joined([part.found for part in parts]),
            np.concatenate([part.confidence for part in parts]),
            np.concatenate([part.ends for part in parts]),
            tuple(each for part in parts for each in part.possible or ()) if self._with_possible else None,
            tuple(dict.fromkeys(each for part in parts for each in part.cut)),
        )


def _last_variables(plan: AutomatonPlan) -> list[int]:
    """Variables whose event may decide a match: none of the others must follow it."""
    states = plan.states
    ends = {end.state for end in states.exits}
    last = {edge.occurrence for edge in states.edges if edge.target in ends}
    last |= {pair.left for pair in states.parallel if pair.right in last}
    last |= {pair.right for pair in states.parallel if pair.left in last}
    found = {states.occurrences[occurrence].variable for occurrence in last}
    return sorted(variable for variable in found if variable < states.n_positive)


def _runs_of(order: Int64Array, first: Int64Array) -> Iterator[Int64Array]:
    """The numbers in `order`, those with the same first event together."""
    if len(order):
        yield from np.split(order, np.flatnonzero(np.diff(first[order])) + 1)


__all__ = ["PER_MATCH", "PER_PARTITION", "Decided", "ImpreciseMatching"]
