"""Pairs of a first and a last event over imprecise events whose Kleene events are selected each by itself.

For each pair the number of its matches, the most confident and of these longest one, and the events that are in a
match: what a collapsed or counted row says. The last events of one first event share their candidates and one count
(`possible_orders`). A match is no more confident than the pair of its ends alone; events that certainly stand between
these and apart from each other cost no confidence, so that the longest match of those that reach the bound is found by
taking whichever ends first.
"""

from __future__ import annotations

import numpy as np

from engine.kernels.columns.partitions import BROADCAST
from engine.kernels.compile.ways import kernel, leaf
from engine.kernels.confidence.ordering import both_precise, may_precede, one_clock, separated
from engine.kernels.confidence.sequences import chain_confidence
from engine.kernels.pairs.independent import (
    CAN_BEGIN,
    CAN_TAKE,
    bind_ends,
    find_limits,
    judge_ends,
    judge_members,
)
from engine.kernels.pairs.pairs import first_from
from engine.kernels.pairs.possible_orders import count_orders, gapless, overlapping_work, step_to
from engine.kernels.pairs.search import TOLERANCE
from engine.kernels.programs.opcodes import MAX_STACK

NO_MATCH = 0
COUNTED = 1
OTHER_FORM = 2
LEFT_OUT = 3
"""What became of a pair; OTHER_FORM: it has to be counted otherwise; LEFT_OUT: nothing paid for it."""

_FREE = 40
"""So many steps for each event around a first one, and each last one, are not paid for: any count has them."""
_PER_COUNTED = 6
_PER_PAIR = 10
_PER_CANDIDATE = 8
_PER_CONFIDENCE = 150
_PER_SORTED = 9
_PER_KEPT = 10
"""Steps for one of `count_orders`, a pair, one of its events, a confidence, an event that is put in order, and one that
is kept: memory, too."""
_MOST_OVERLAPS = 4_000_000
"""Overlaps of one first event that are written down."""
_UNKNOWN = -1.0
"""A confidence that nothing is left for."""


@kernel
def count_possible(
    tables, events, begin_ok, take_ok, members, starts, pairs, longest_ms, per_pair, budget, account, free_steps
):
    """Count the pairs, int64 (n, 3): first, last, partition, those of one first event and partition together.

    tables: `independent.IndependentTables`. members, starts: rows that may be Kleene events, grouped by partition
    (`postponed_context.Groups`), each group in stream order. longest_ms: of any interval. per_pair: candidates depend
    on the last event. budget: steps for one first event, as far as account[0] pays for them; what any count takes
    costs nothing, as long as free_steps[0] has some left.

    Returns (status int8 (n,), counts int64 (n,), complete bool (n,), confidences float64 (n,), bounds int64 (n, 6),
    rows int64): of pair k the longest of the most confident matches has rows[bounds[k, 0] : bounds[k, 1]] between its
    ends, and its candidates, without the ends, are rows[bounds[k, 2] : bounds[k, 3]] and rows[bounds[k, 4] :
    bounds[k, 5]]. Pairs share what they have in common. A count that is not complete is a lower bound.

    account: int64 (2,), free_steps: int64 (1,), written.
    """
    n_pairs = pairs.shape[0]
    status = np.full(n_pairs, NO_MATCH, np.int8)
    counts = np.zeros(n_pairs, np.int64)
    complete = np.ones(n_pairs, np.bool_)
    confidences = np.zeros(n_pairs, np.float64)
    bounds = np.zeros((n_pairs, 6), np.int64)
    pool = np.empty(1024, np.int64)
    n_pool = 0
    registers = np.empty(2 * tables.n_steps + 1, np.int64)
    stack = np.empty(MAX_STACK, np.float64)
    limits = np.empty(tables.properties.shape[0], np.float64)
    some = tables.kleene > 0 and tables.kleene < tables.n_steps - 1
    n_masks = 1 << tables.properties.shape[0]
    sizes_free = tables.sizes.shape[0] == 2 and tables.sizes[1]
    roles_needed = CAN_TAKE if tables.kleene == 0 else CAN_BEGIN | CAN_TAKE
    kleene_last = tables.kleene == tables.n_steps - 1
    p = 0
    while p < n_pairs:
        if account[0] <= 0 and free_steps[0] <= 0:
            status[p:] = LEFT_OUT
            break
        first = pairs[p, 0]
        key = pairs[p, 2]
        end = p + 1
        while not per_pair and end < n_pairs and pairs[end, 0] == first and pairs[end, 2] == key:
            end += 1
        # The pairs whose ends fulfil the conditions.
        n_lasts = 0
        latest_ms = events.lo_ms[first]
        simple = gapless(events, first)
        for q in range(p, end):
            last = pairs[q, 1]
            bind_ends(tables, first, last, registers)
            find_limits(tables, events.columns, registers, stack, limits)
            mask_first, roles_last, mask_last = judge_ends(
                tables, events.columns, begin_ok, take_ok, first, last, registers, stack, limits
            )
            if mask_first < 0:
                continue
            own_last = kleene_last and first != last
            fixed = mask_first | mask_last if tables.kleene == 0 or own_last else 0
            if not sizes_free or fixed != n_masks - 1 or (own_last and roles_last & roles_needed != roles_needed):
                status[q] = OTHER_FORM
                continue
            status[q] = COUNTED
            if first == last:
                continue
            simple = simple and gapless(events, last)
            latest_ms = max(latest_ms, events.hi_ms[last])
            n_lasts += 1
        # The candidates.
        rows = _members_after(events, members, starts, key, first, latest_ms, longest_ms)
        roles = np.empty(rows.shape[0], np.int64)
        masks = np.empty(rows.shape[0], np.int64)
        bind_ends(tables, first, pairs[p, 1], registers)
        find_limits(tables, events.columns, registers, stack, limits)
        judge_members(
            tables, events.columns, begin_ok, take_ok, rows, 0, rows.shape[0], registers, stack, limits, roles, masks
        )
        n = 0
        for k in range(rows.shape[0]):
            if roles[k] & roles_needed == 0:
                continue
            simple = simple and roles[k] & roles_needed == roles_needed and gapless(events, rows[k])
            rows[n] = rows[k]
            n += 1
        rows = rows[:n]
        n_work = (_PER_CANDIDATE + _PER_SORTED) * n + _PER_PAIR * (end - p)
        free_work = min(_FREE * (n + end - p), max(free_steps[0], 0))
        if simple:
            overlap, visits = _clocks_overlap(events, first, rows, pairs, status, p, end)
            simple = not overlap
            n_work += visits // 2
        if not simple:
            for q in range(p, end):
                if status[q] == COUNTED and pairs[q, 1] != first:
                    status[q] = OTHER_FORM
        elif n_lasts > 0:
            # Half of what is free is left for confidences: rows that nothing is left to count for are told, too.
            left = (free_work // 2 + max(account[0], 0) - n_work) // _PER_COUNTED
            n_work += _PER_COUNTED * _count_lasts(
                events, rows, pairs, status, p, end, tables.within_ms, not some, min(budget, left), counts, complete,
            )  # fmt: skip
        chain = _greedy(events, first, rows) if simple else rows[:0]
        chain_hi_ms = events.hi_ms[chain]
        lo_ms = events.lo_ms[rows]
        latest = events.hi_ms[rows]
        for k in range(1, n):
            latest[k] = max(latest[k], latest[k - 1])
        if n_pool + n + chain.shape[0] > pool.shape[0]:
            pool = np.concatenate((pool, np.empty(pool.shape[0] + n + chain.shape[0], np.int64)))
        own_rows = n_pool
        own_chain = n_pool + n
        pool[own_rows:own_chain] = rows
        n_pool = own_chain + chain.shape[0]
        pool[own_chain:n_pool] = chain
        n_work += _PER_KEPT * (n_pool - own_rows)
        any_kept = False
        for q in range(p, end):
            if status[q] != COUNTED:
                continue
            if n_work > free_work + max(account[0], 0):
                status[q] = LEFT_OUT
                continue
            last = pairs[q, 1]
            if first == last:
                counts[q] = 1
                complete[q] = True
                confidences[q] = 1.0
                continue
            if n_pool + 2 * n > pool.shape[0]:
                pool = np.concatenate((pool, np.empty(pool.shape[0] + 2 * n, np.int64)))
            confidences[q], n_apart, n_between, steps = _best(
                events, first, last, rows, chain, chain_hi_ms, some, tables.within_ms, pool, n_pool,
                free_work + max(account[0], 0) - n_work,
            )  # fmt: skip
            n_work += steps
            if confidences[q] <= 0.0:
                status[q] = NO_MATCH if confidences[q] > _UNKNOWN else LEFT_OUT
                continue
            any_kept = True
            if not complete[q]:
                counts[q] = max(counts[q], 1)
            bounds[q, 0] = own_chain if n_between == 0 else n_pool
            bounds[q, 1] = own_chain + n_apart if n_between == 0 else n_pool + n_between
            n_pool += n_between
            begin_apart, end_apart, n_others, visits = _write_used(
                events, first, last, rows, lo_ms, latest, tables.within_ms, pool, n_pool
            )
            bounds[q, 2] = own_rows + begin_apart
            bounds[q, 3] = own_rows + end_apart
            bounds[q, 4] = n_pool
            n_pool += n_others
            bounds[q, 5] = n_pool
            n_work += _PER_CANDIDATE * visits + _PER_KEPT * (n_between + n_others)
        if not any_kept:
            n_pool = own_rows
        free_steps[0] -= min(n_work, free_work)
        account[0] -= max(n_work - free_work, 0)
        p = end
    return status, counts, complete, confidences, bounds, pool[:n_pool]


@kernel
def _members_after(events, members, starts, key, first, latest_ms, longest_ms):
    """The rows of a partition and of all that may follow `first` and begin by latest_ms, in stream order."""
    found = np.empty(64, np.int64)
    n = 0
    for shared in range(2):
        group = BROADCAST if shared else key
        end = starts[group + 2]
        at = first_from(events, members, starts[group + 1], end, events.lo_ms[first] - longest_ms)
        n_own = n
        while at < end and events.lo_ms[members[at]] <= latest_ms:
            row = members[at]
            at += 1
            if row == first or not may_precede(events, first, row):
                continue
            if n == found.shape[0]:
                found = np.concatenate((found, np.empty_like(found)))
            found[n] = row
            n += 1
        if shared and n > n_own and n_own > 0:
            found[:n] = np.sort(found[:n])
    return found[:n]


@leaf
def _clocks_overlap(events, first, rows, pairs, status, start, end):
    """Whether two of the events are of one clock and their intervals overlap: then their order is no matter of time.
    And at how many pairs of events that took a look."""
    n = rows.shape[0]
    visits = 0
    latest_ms = events.hi_ms[first]
    for k in range(n):
        row = rows[k]
        if events.clock[row] < 0:
            continue
        if one_clock(events, first, row) and events.lo_ms[row] <= events.hi_ms[first]:
            return True, visits
        for other in range(k + 1, n):
            if events.lo_ms[rows[other]] > events.hi_ms[row]:
                break
            visits += 1
            if one_clock(events, row, rows[other]):
                return True, visits
    for q in range(start, end):
        last = pairs[q, 1]
        if status[q] != COUNTED or events.clock[last] < 0 or last == first:
            continue
        if one_clock(events, first, last) and events.lo_ms[last] <= latest_ms:
            return True, visits
        visits += n
        for k in range(n):
            row = rows[k]
            share = events.lo_ms[row] <= events.hi_ms[last] and events.lo_ms[last] <= events.hi_ms[row]
            if share and row != last and one_clock(events, row, last):
                return True, visits
    return False, visits


@kernel
def _count_lasts(events, rows, pairs, status, start, end, within_ms, direct, budget, counts, complete):
    """Write the counts of the pairs start..end-1, which have one first event; rows: their candidates. Returns the
    steps."""
    if budget <= 0:
        counts[start:end] = 0
        complete[start:end] = False
        return 0
    first = pairs[start, 0]
    n_rows = rows.shape[0]
    capacity = n_rows + end - start
    lo = np.empty(capacity, np.int64)
    hi = np.empty(capacity, np.int64)
    member = np.zeros(capacity, np.bool_)
    last_of = np.full(capacity, -1, np.int64)
    zero_ms = events.lo_ms[first]
    n = 0
    at = 0
    q = start
    cut = False
    while at < n_rows or q < end:
        if q < end and (status[q] != COUNTED or pairs[q, 1] == first):
            q += 1
            continue
        row = rows[at] if at < n_rows else pairs[q, 1]
        if q < end:
            row = min(row, pairs[q, 1])
        lo[n] = events.lo_ms[row] - zero_ms
        hi[n] = events.hi_ms[row] - zero_ms
        if at < n_rows and rows[at] == row:
            member[n] = True
            at += 1
        if q < end and pairs[q, 1] == row:
            last_of[n] = q - start
            cut = cut or hi[n] > within_ms
            q += 1
        n += 1
    tie_first = events.lo_ms[first] == events.hi_ms[first]
    n_overlaps, n_visits = overlapping_work(lo[:n], hi[:n])
    if n_overlaps > _MOST_OVERLAPS or n_visits // 8 > budget + n:
        counts[start:end] = 0
        complete[start:end] = False
        return n
    return n_visits // 8 + count_orders(
        lo[:n], hi[:n], member[:n], last_of[:n], events.hi_ms[first] - zero_ms, tie_first, within_ms, cut, direct,
        budget, counts[start:end], complete[start:end],
    )  # fmt: skip


@kernel
def _greedy(events, first, rows):
    """Most rows that certainly come one after the other, the first of them after `first`: whichever ends first.

    Its beginning is the most that does so before any later event.
    """
    # Of those that end together precise ones come first: others of that millisecond may follow them.
    keys = 2 * events.hi_ms[rows] + (events.lo_ms[rows] < events.hi_ms[rows])
    found = np.empty(rows.shape[0], np.int64)
    n = 0
    before = first
    for k in np.argsort(keys, kind="mergesort"):
        if separated(events, before, rows[k]):
            before = rows[k]
            found[n] = before
            n += 1
    return found[:n]


@leaf
def _is_used(events, first, row, last, within_ms):
    """Whether first, row, last can be in order and in the window."""
    if separated(events, first, row) and separated(events, row, last):
        return True
    zero_ms = events.lo_ms[first]
    most_bound = events.hi_ms[first] - zero_ms
    tied = both_precise(events, first, row) and events.lo_ms[row] == zero_ms
    floor, pushed, bound, earliest = step_to(
        0, 0, most_bound, tied, events.lo_ms[row] - zero_ms, events.hi_ms[row] - zero_ms, within_ms
    )
    if earliest < 0:
        return False
    tied = both_precise(events, row, last) and events.lo_ms[row] == events.lo_ms[last]
    if tied and last < row:
        return False
    floor, pushed, bound, earliest = step_to(
        floor, pushed, bound, tied, events.lo_ms[last] - zero_ms, events.hi_ms[last] - zero_ms, within_ms
    )
    return earliest >= 0


@leaf
def _write_used(events, first, last, rows, lo_ms, latest, within_ms, pool, n):
    """Which rows are in a match of the pair: (begin, end, k, looks): rows[begin:end] certainly stand between, k others
    of so many that were looked at are written from pool[n] on.

    lo_ms, latest: int64, when each row begins, and when it and all before it have ended; both ascend.
    """
    begin = np.searchsorted(lo_ms, events.hi_ms[first], side="right")
    end = max(begin, np.searchsorted(latest, events.lo_ms[last]))
    latest_ms = events.hi_ms[last]
    n_others = 0
    visits = 0
    k = 0
    while k < rows.shape[0] and lo_ms[k] <= latest_ms:
        if begin <= k < end:
            k = end
            continue
        row = rows[k]
        k += 1
        visits += 1
        if row != last and _is_used(events, first, row, last, within_ms):
            pool[n + n_others] = row
            n_others += 1
    return begin, end, n_others, visits


@kernel
def _best(events, first, last, rows, chain, chain_hi_ms, some, within_ms, longest, start, limit):
    """The best match of a pair: (confidence, k, n, steps): the events between its ends are the first k of `chain`
    (`_greedy`, chain_hi_ms: when they end), or, where n is not 0, n that are written from longest[start] on. some:
    there has to be one. The confidence is _UNKNOWN where more than `limit` steps would be needed."""
    certain = separated(events, first, last) and events.hi_ms[last] - events.lo_ms[first] <= within_ms
    confidence = 1.0
    n_work = 0
    if not certain:
        confidence = chain_confidence(events, np.array([first, last]), 2, within_ms)
        n_work = _PER_CONFIDENCE
    n_apart = 0
    before_ms = events.lo_ms[last]
    while n_apart < chain.shape[0] and (chain_hi_ms[n_apart] < before_ms or separated(events, chain[n_apart], last)):
        n_apart += 1
    n_work += n_apart // 4
    if not some or n_apart > 0 or confidence <= 0.0:
        return confidence, n_apart, 0, n_work
    trio = np.array([first, first, last])
    confidence = 0.0
    n_between = 0
    for k in range(rows.shape[0]):
        row = rows[k]
        if events.lo_ms[row] > events.hi_ms[last]:
            break
        if n_work > limit:
            return _UNKNOWN, 0, 0, n_work
        if row == last or not may_precede(events, row, last):
            continue
        trio[1] = row
        n_work += 2 * _PER_CONFIDENCE
        found = chain_confidence(events, trio, 3, within_ms)
        if found <= 0.0 or found <= confidence - TOLERANCE:
            continue
        # What certainly stands on one side of it costs nothing.
        after = _greedy(events, row, rows)
        n_work += _PER_SORTED * rows.shape[0]
        n_before = 0
        while n_before < chain.shape[0] and separated(events, chain[n_before], row):
            n_before += 1
        n_after = 0
        while n_after < after.shape[0] and separated(events, after[n_after], last):
            n_after += 1
        if found > confidence + TOLERANCE or n_before + 1 + n_after > n_between:
            n_between = n_before + 1 + n_after
            longest[start : start + n_before] = chain[:n_before]
            longest[start + n_before] = row
            longest[start + n_before + 1 : start + n_between] = after[:n_after]
        confidence = max(confidence, found)
    return confidence, 0, n_between, n_work


__all__ = ["COUNTED", "LEFT_OUT", "NO_MATCH", "OTHER_FORM", "count_possible"]
