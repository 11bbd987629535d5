"""What stands around the first event of many pairs: which rows may follow it, in what order, and how sure at most."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from engine.kernels.columns.partitions import BROADCAST
from engine.kernels.compile.types import BoolArray, Float64Array, Int64Array, UInt8Array
from engine.kernels.compile.ways import kernel, leaf
from engine.kernels.confidence.ordering import may_precede, one_clock, separated
from engine.kernels.confidence.skew import MAX_EVALUATIONS, TOO_MUCH, match_confidence, match_work
from engine.kernels.confidence.skew_events import has_skew
from engine.kernels.pairs.pairs import first_from
from engine.kernels.pairs.search import TOLERANCE

_MOST_COMPARED = 1024
"""Candidates of which the comparisons are kept, each with each."""
_FEW = 64
"""So few are compared with each other before the search, and it is not paid for."""

_PER_STEP = 12.0
"""Numbers that are computed for a confidence in the time of a look at an event."""
PER_ENDS = 20
"""Steps for the confidence of two events, beside what it computes."""
_ENDINGS_PER_STEP = 2
"""Rows of what may follow that are looked at in the time of a step."""
_MOST_ROUNDS = 8
"""So often what may follow through one component is gone over; then a coarser bound does."""

UNKNOWN = 2.0
"""Above all confidences: that of a pair's ends alone takes too many combinations of offsets."""


class Around(NamedTuple):
    """The n rows that may follow a first event, by rank.

    - rows int64 (n,); member bool (n,): may stand before the end; pair_of int64 (n,): the pair that it ends, -1 for
      none; bounds float64 (n,): the most that a match with that end is confident, UNKNOWN where it is not known.
    - roles bool (2 * n_steps, n): whether it may be bound by 2 * step (begin) and 2 * step + 1 (take).
    - after_first uint8 (n,): `order_of` the first event and each. order uint8 (n, n), is_ordered bool (n,): of each
      two, where that is written; without entries where they are too many, and asked each time.
    - endings float64 (n_steps, n): how confident what follows each may be at most.
    - first: the first event. latest_ms: the latest time of an end. skewed: whether clocks' offsets are shared.
    """

    rows: Int64Array
    member: BoolArray
    pair_of: Int64Array
    bounds: Float64Array
    roles: BoolArray
    after_first: UInt8Array
    order: UInt8Array
    is_ordered: BoolArray
    endings: Float64Array
    first: int
    latest_ms: int
    skewed: bool


@kernel
def around_first(
    kleene, events, begin_ok, take_ok, members, starts, pairs, begin, end, ranks, slots, longest_ms, least, within_ms
):
    """What is around the first event of the pairs begin..end-1, and the steps that it took to see.

    slots: int64, as long as `ranks`, all -1, as they are left.
    """
    first = pairs[begin, 0]
    rows, member, pair_of, bounds, latest_ms, n_work = _points(
        events, members, starts, pairs, begin, end, ranks, slots, longest_ms, least, within_ms
    )
    n = rows.shape[0]
    after_first = np.empty(n, np.uint8)
    for k in range(n):
        after_first[k] = order_of(events, first, rows[k], least)
    around = Around(
        rows,
        member,
        pair_of,
        bounds,
        _roles(kleene, begin_ok, take_ok, rows, member, pair_of),
        after_first,
        np.empty((n if n <= _MOST_COMPARED else 0, n), np.uint8),
        np.zeros(n, np.bool_),
        np.ones((kleene.shape[0], n), np.float64),
        first,
        latest_ms,
        has_skew(events, rows, n) or (events.skew.shape[0] > 0 and events.skew[first] > 0),
    )
    if n <= _FEW:
        look_ahead(kleene, events, around, least)
    return around, n_work


@leaf
def looks_ahead_later(around):
    """Whether `look_ahead` is left to a search that goes on: it has something to leave out then."""
    return _FEW < around.rows.shape[0] <= _MOST_COMPARED


@leaf
def steps_for(work):
    """Numbers computed, in looks at an event; int64."""
    return np.int64(min(work / _PER_STEP, 1e15))


@kernel
def _points(events, members, starts, pairs, begin, end, ranks, slots, longest_ms, least, within_ms):
    """The rows that may follow the first event of the pairs begin..end-1, by rank, and what they can be.

    slots: int64, as long as `ranks`, all -1, as they are left. Returns (rows int64 (n,), member bool (n,), pair_of
    int64 (n,): the pair that it ends, -1 for none, bounds float64 (n,): the most that a match with that end is
    confident, the latest time of an end that reaches `least`, and the steps that these bounds took).
    """
    first = pairs[begin, 0]
    key = pairs[begin, 2]
    latest_ms = events.lo_ms[first]
    for q in range(begin, end):
        latest_ms = max(latest_ms, events.hi_ms[pairs[q, 1]])
    found = np.empty(64, np.int64)
    n = 0
    n_own = 0
    n_work = 0
    clocked = events.clock[first] >= 0
    for shared in range(2):
        n_own = n
        group = BROADCAST if shared else key
        stop = starts[group + 2]
        at = first_from(events, members, starts[group + 1], stop, events.lo_ms[first] - longest_ms)
        while at < stop and events.lo_ms[members[at]] <= latest_ms:
            row = members[at]
            at += 1
            if row == first or events.hi_ms[row] < events.lo_ms[first]:
                continue
            if not may_precede(events, first, row) and not one_clock(events, first, row):
                continue
            clocked = clocked or events.clock[row] >= 0
            if n == found.shape[0]:
                found = np.concatenate((found, np.empty_like(found)))
            found[n] = row
            n += 1
    found = found[:n]
    if 0 < n_own < n:  # each group is in stream order
        found = np.sort(found)
    rows = np.empty(n + end - begin, np.int64)
    member = np.zeros(n + end - begin, np.bool_)
    pair_of = np.full(n + end - begin, -1, np.int64)
    bounds = np.ones(n + end - begin, np.float64)
    ends = np.empty(2, np.int64)
    ends[0] = first
    n_points = 0
    at = 0
    q = begin
    latest_ms = events.lo_ms[first]
    while at < n or q < end:
        if q < end and pairs[q, 1] == first:
            q += 1
            continue
        row = found[at] if at < n else pairs[q, 1]
        if q < end:
            row = min(row, pairs[q, 1])
        rows[n_points] = row
        if at < n and found[at] == row:
            member[n_points] = True
            at += 1
        if q < end and pairs[q, 1] == row:
            ends[1] = row
            certain = events.hi_ms[row] - events.lo_ms[first] <= within_ms
            if certain and separated(events, first, row):
                bound = 1.0
            elif is_simple(events, first, row, within_ms):
                bound = _share_before(events, first, row)
                bound = min(bound + TOLERANCE, 1.0) if bound > 0.0 else 0.0
            else:
                n_work += PER_ENDS + steps_for(match_work(events, ends, np.int64(0), 2, within_ms, MAX_EVALUATIONS))
                bound = match_confidence(events, ends, 2, within_ms)
            if bound == TOO_MUCH:
                bound = UNKNOWN
            # Among events of one clock, whose order is no matter of time, another may be better than the ends alone.
            if clocked or (bound > 0.0 and bound >= least):
                bounds[n_points] = bound
                pair_of[n_points] = q
                latest_ms = max(latest_ms, events.hi_ms[row])
            q += 1
        n_points += 1
    by_rank = _by_rank(ranks, rows[:n_points], slots)
    return rows[by_rank], member[by_rank], pair_of[by_rank], bounds[by_rank], latest_ms, n_work


@kernel
def _by_rank(ranks, rows, slots):
    """The positions of the rows by their ranks, which differ: int64 (n,). slots: see `_points`."""
    n = rows.shape[0]
    if n == 0:
        return np.empty(0, np.int64)
    least = ranks[rows[0]]
    most = least
    for k in range(n):
        least = min(least, ranks[rows[k]])
        most = max(most, ranks[rows[k]])
    if most - least > 8 * n:
        return np.argsort(ranks[rows])
    for k in range(n):
        slots[ranks[rows[k]]] = k
    positions = np.empty(n, np.int64)
    at = 0
    for rank in range(least, most + 1):
        if slots[rank] >= 0:
            positions[at] = slots[rank]
            slots[rank] = -1
            at += 1
    return positions if at == n else np.argsort(ranks[rows])


@kernel
def _roles(kleene, begin_ok, take_ok, rows, member, pair_of):
    """Whether each row may be bound by 2 * step (begin) and 2 * step + 1 (take), bool (2 * n_steps, n)."""
    n_steps = kleene.shape[0]
    roles = np.zeros((2 * n_steps, rows.shape[0]), np.bool_)
    for step in range(n_steps):
        final = step == n_steps - 1
        for k in range(rows.shape[0]):
            useful = (member[k] and (kleene[step] or not final)) or (final and pair_of[k] >= 0)
            roles[2 * step, k] = useful and begin_ok[step, rows[k]]
            roles[2 * step + 1, k] = useful and kleene[step] and take_ok[step, rows[k]]
    return roles


@kernel
def look_ahead(kleene, events, around, least):
    """Find the endings of all rows, and take roles from those with none; returns the steps that it took."""
    n = around.rows.shape[0]
    n_work = 0
    for k in range(n):
        if not around.is_ordered[k]:
            n_work += order_row(events, around, k, least)
    final = kleene.shape[0] - 1
    for k in range(n):
        if around.pair_of[k] < 0:
            around.endings[final, k] = 0.0
        elif not around.skewed and separated(events, around.first, around.rows[k]):
            around.endings[final, k] = min(around.bounds[k], 1.0)
    n_visits = _find_endings(
        kleene, events, around.rows, around.order, around.roles, least, around.skewed, around.endings
    )
    return n_work + n_visits // _ENDINGS_PER_STEP


@kernel
def _find_endings(kleene, events, rows, order, roles, least, skewed, endings):
    """How confident what follows each row can be at most: `endings`, float64 (n_steps, n), where the last component's
    say what the end of a match allows, 0.0 for rows that are none. Returns how many pairs of rows were looked at.

    A chain of events is no more confident than its beginning times its rest: that the beginning is in order makes its
    last event later, and the rest less likely. Nor than its order times its window, since the window asks for a later
    first event and an earlier last one. So a product over neighbours bounds all that may follow, and rows whose bound
    is below `least` are taken from `roles` (`_roles`). Without it all selections of Kleene events would be gone through
    that end too late for what has to follow. order: `order_row` of all rows. skewed: offsets that events share undo
    that argument; then rows are left out only where nothing can follow.
    """
    n = order.shape[0]
    final = kleene.shape[0] - 1
    latest_first = np.argsort(rows)[::-1]  # so that what follows is known before what it follows
    own = np.empty(n, np.int64)
    following = np.empty(n, np.int64)
    n_visits = 0
    for step in range(final, -1, -1):
        best = endings[step]
        n_own = 0
        n_next = 0
        for k in latest_first:
            if roles[2 * step, k] or roles[2 * step + 1, k]:
                own[n_own] = k
                n_own += 1
            if step < final and roles[2 * step + 2, k]:
                following[n_next] = k
                n_next += 1
        if step < final:
            best[:] = 0.0
            for k in own[:n_own]:
                for to in following[:n_next]:
                    if order[k, to] != 0:
                        best[k] = max(best[k], _ending(events, rows, order, k, to, endings[step + 1, to], skewed))
            n_visits += n_own * n_next
        n_rounds = 0
        is_changed = kleene[step]
        while is_changed and n_rounds < _MOST_ROUNDS:  # through other events of its own
            is_changed = False
            n_rounds += 1
            n_visits += n_own * n_own
            for k in own[:n_own]:
                for to in own[:n_own]:
                    if best[to] > best[k] and roles[2 * step + 1, to] and order[k, to] != 0:
                        bound = _ending(events, rows, order, k, to, best[to], skewed)
                        if bound > best[k]:
                            best[k] = bound
                            is_changed = True
        if is_changed:  # no ending is better than the best
            best[own[:n_own]] = np.max(best)
        for k in own[:n_own]:
            leads_on = best[k] > 0.0 and best[k] >= least
            roles[2 * step, k] &= leads_on
            roles[2 * step + 1, k] &= leads_on
    return n_visits


@leaf
def _ending(events, rows, order, k, to, after, skewed):
    """At most so confident is row `to` behind row `k`, where `after` bounds what follows `to`."""
    if skewed or order[k, to] == 2:
        return after
    return after * _share_before(events, rows[k], rows[to])


@leaf
def order_row(events, around, i, least):
    """Write `order_of` one row and each other; the steps that it took."""
    rows = around.rows
    for j in range(rows.shape[0]):
        around.order[i, j] = order_of(events, rows[i], rows[j], least) if i != j else np.uint8(0)
    around.is_ordered[i] = True
    return rows.shape[0]


@leaf
def order_of(events, i, j, least):
    """0: i is before j in no world, or in too few for a match with both next to each other; 1: in some; 2: in all."""
    if separated(events, i, j):
        return np.uint8(2)
    if not may_precede(events, i, j) or _share_before(events, i, j) < least:
        return np.uint8(0)
    return np.uint8(1)


@leaf
def is_simple(events, first, last, within_ms):
    """Whether two events alone are a match with the probability `_share_before`."""
    weighted = events.weight_at[first] >= 0 or events.weight_at[last] >= 0
    skewed = events.skew.shape[0] > 0 and (events.skew[first] > 0 or events.skew[last] > 0)
    if weighted or skewed or events.hi_ms[last] - events.lo_ms[first] > within_ms:
        return False
    return not separated(events, first, last) and not one_clock(events, first, last)


@leaf
def _share_before(events, i, j):
    """P(i before j) for uniform times that overlap; 1.0 for others."""
    skewed = events.skew.shape[0] > 0 and (events.skew[i] > 0 or events.skew[j] > 0)
    if skewed or events.weight_at[i] >= 0 or events.weight_at[j] >= 0:
        return 1.0
    n_i = events.hi_ms[i] - events.lo_ms[i] + 1
    n_j = events.hi_ms[j] - events.lo_ms[j] + 1
    after = events.hi_ms[j] - events.lo_ms[i]  # so many milliseconds of i are before the last one of j
    return (_pairs_up_to(after, n_i) - _pairs_up_to(after - n_j, n_i)) / (1.0 * n_i * n_j)


@leaf
def _pairs_up_to(after, n):
    """The sum over k up to `after` of the number of the first n milliseconds that are among the first k."""
    if after <= 0:
        return 0.0
    if after <= n:
        return 0.5 * after * (after + 1)
    return 0.5 * n * (n + 1) + 1.0 * n * (after - n)


__all__ = [
    "PER_ENDS",
    "UNKNOWN",
    "Around",
    "around_first",
    "is_simple",
    "look_ahead",
    "looks_ahead_later",
    "order_of",
    "order_row",
    "steps_for",
]
