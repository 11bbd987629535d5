"""Chains of events of one partition, from each back to the one before it.

A row that may be a first event, a Kleene event or a last event knows the first events and the Kleene events before it,
so that a last event walks back over its window alone, however many partitions there are (the shared pass of SASE++
section 5.1). Chains are the same for all queries that keep the same events, whatever their windows are.
"""

from __future__ import annotations

import numpy as np

from engine.kernels.compile.ways import inlined, kernel, leaf

FIRST = 0
MEMBER = 1


@inlined
def may_end(begin_ok, take_ok, kleene, row):
    """Whether a row may be the last event of a match."""
    last_step = begin_ok.shape[0] - 1
    return begin_ok[last_step, row] or (kleene == last_step and take_ok[last_step, row])


@leaf
def enter_rows(partition, begin_ok, take_ok, kleene, shared_first, shared_member, heads, before, start, end):
    """Enter the rows start..end-1 into the chains.

    partition: int64 (>= end,), -1 for events of all partitions. begin_ok, take_ok: bool (n_steps, >= end).
    shared_first, shared_member: these events are broadcast. heads: int64 (2, n_partitions + 1), for FIRST and MEMBER
    the newest row of each partition, from -1 on; before: int64 (2, >= end), for each row that is one of these or may
    end a match the one before it. -1: none.
    """
    for row in range(start, end):
        own = partition[row] + 1
        begins = begin_ok[0, row]
        is_member = take_ok[kleene, row] or (kleene > 0 and begin_ok[kleene, row])
        ends = may_end(begin_ok, take_ok, kleene, row)
        if begins or ends:
            before[FIRST, row] = heads[FIRST, 0 if shared_first else own]
        if is_member or ends:
            before[MEMBER, row] = heads[MEMBER, 0 if shared_member else own]
        if begins:
            heads[FIRST, own] = row
        if is_member:
            heads[MEMBER, own] = row


@inlined
def firsts_of(t_ms, begin_ok, before, last, within_ms, firsts):
    """Write the rows that a match which ends in `last` may begin with, ascending; returns their number, or -1 for no
    room."""
    oldest_ms = t_ms[last] - within_ms
    n = 0
    row = last if begin_ok.shape[0] == 1 and begin_ok[0, last] else before[FIRST, last]
    while row >= 0 and t_ms[row] >= oldest_ms:
        if n == firsts.shape[0]:
            return -1
        firsts[n] = row
        n += 1
        row = before[FIRST, row]
    _turn_round(firsts, n)
    return n


@inlined
def members_between(before, first, last, members):
    """Write the rows between two that may be Kleene events, ascending; returns their number, or -1 for no room."""
    n = 0
    row = before[MEMBER, last]
    while row > first:
        if n == members.shape[0]:
            return -1
        members[n] = row
        n += 1
        row = before[MEMBER, row]
    _turn_round(members, n)
    return n


@inlined
def _turn_round(rows, n):
    """Bring the first n into the opposite order."""
    low = 0
    high = n - 1
    while low < high:
        rows[low], rows[high] = rows[high], rows[low]
        low += 1
        high -= 1


@kernel
def find_pairs(t_ms, partition, begin_ok, take_ok, before, kleene, within_ms, start, end, most):
    """The pairs of a first and a last event where the latter is one of the rows start..end-1, and the first row whose
    pairs are not among them: it stops once there are `most`.

    t_ms: int64 (>= end,), ascending. partition, begin_ok, take_ok, before: see `enter_rows`. Pairs: int64 (n, 3):
    first, last, partition; by last, then first.
    """
    pairs = np.empty((256, 3), np.int64)
    firsts = np.empty(256, np.int64)
    n_pairs = 0
    row = start
    while row < end and n_pairs < most:
        if may_end(begin_ok, take_ok, kleene, row):
            n = firsts_of(t_ms, begin_ok, before, row, within_ms, firsts)
            while n < 0:
                firsts = np.empty(4 * firsts.shape[0], np.int64)
                n = firsts_of(t_ms, begin_ok, before, row, within_ms, firsts)
            while n_pairs + n > pairs.shape[0]:
                pairs = np.concatenate((pairs, np.empty_like(pairs)))
            for k in range(n):
                pairs[n_pairs, 0] = firsts[k]
                pairs[n_pairs, 1] = row
                pairs[n_pairs, 2] = partition[row]
                n_pairs += 1
        row += 1
    return pairs[:n_pairs], row


@leaf
def longest_path(before, pairs):
    """The most members that any of the pairs may have, and two.

    pairs: int64 (n_pairs, 3). before: int64 (n_kinds, n_rows), see `members_between`.
    """
    longest = 0
    last = -1
    for p in range(pairs.shape[0]):  # the first pair of a last event has the earliest first one
        if pairs[p, 1] == last:
            continue
        last = pairs[p, 1]
        n = 0
        row = before[MEMBER, last]
        while row > pairs[p, 0]:
            n += 1
            row = before[MEMBER, row]
        longest = max(longest, n)
    return longest + 2


__all__ = ["FIRST", "MEMBER", "enter_rows", "find_pairs", "firsts_of", "longest_path", "may_end", "members_between"]
