"""Which events of a batch come while an event that can begin a match is within reach of them."""

from __future__ import annotations

import numpy as np

from engine.kernels.compile.ways import kernel, leaf
from engine.kernels.runs.arrays import CHAIN_HEAD, FIRST_REGISTER, NEXT

NEVER_MS = -(2**62)
"""No event that can begin a match yet; with a window added it is still before every time."""


@kernel
def live_rows(rows, starts, partition, lo_ms, hi_ms, within_ms, last_ms, shared_ms):
    """Those of `rows` that a start precedes by at most `within_ms`, and the starts: int64, ascending.

    rows: int64, row numbers in stream order. starts: int64, those of them that can begin a match. partition: int64 per
    row, -1 for all partitions. last_ms: int64 (n_partitions,), for each the latest end of a start in it, NEVER_MS
    without one; shared_ms: int64 (2,), the same for starts of all partitions, and for any start. Both are brought up to
    date.

    rows: int64 (n,). starts: int64 (n_starts,). partition, lo_ms, hi_ms: int64 (n_rows,).
    """
    found = np.empty(rows.shape[0], np.int64)
    n_found = 0
    at = 0
    for row in rows:
        own = partition[row]
        if at < starts.shape[0] and starts[at] == row:
            at += 1
            if own >= 0:
                last_ms[own] = max(last_ms[own], hi_ms[row])
            else:
                shared_ms[0] = max(shared_ms[0], hi_ms[row])
            shared_ms[1] = max(shared_ms[1], hi_ms[row])
        reach = max(last_ms[own], shared_ms[0]) if own >= 0 else shared_ms[1]
        if lo_ms[row] <= reach + within_ms:
            found[n_found] = row
            n_found += 1
    return found[:n_found]


@kernel
def link_rows(rows, every, partition, lo_ms, hi_ms, n_partitions):
    """The precise ones of `rows` (int64, ascending), or of all, linked by partition (int64 per row, -1 for none).

    Returns int64 (n_partitions,), the first row of each partition, and int64 (n,), the one that follows each; -1: none.

    rows: int64 (n,). partition, lo_ms, hi_ms: int64 (n_rows,).
    """
    first = np.full(n_partitions, -1, np.int64)
    following = np.full(partition.shape[0], -1, np.int64)
    for k in range((partition if every else rows).shape[0] - 1, -1, -1):
        row = k if every else rows[k]
        own = partition[row]
        if own >= 0 and lo_ms[row] == hi_ms[row]:
            following[row] = first[own]
            first[own] = row
    return first, following


@kernel
def claim_partitions(rows, partition, own, absent, claimed):
    """The partitions of `rows` that have no number of their own yet, in order of arrival: int64.

    own: int64 (n_partitions,), their numbers, `absent` without one; it is set to `claimed` for those that are returned.

    rows: int64 (n,). partition: int64 (n_rows,).
    """
    found = np.empty(min(rows.shape[0], own.shape[0]), np.int64)
    n_found = 0
    for row in rows:
        of = partition[row]
        if of >= 0 and own[of] == absent:
            own[of] = claimed
            found[n_found] = of
            n_found += 1
    return found[:n_found]


@kernel
def runs_reach(own, chains, runs, stored_ms, within_ms):
    """How long the newest run of each partition lives, int64 (n,), NEVER_MS without one.

    own: int64 (n,), their numbers among `chains`, negative without one. chains, runs: see `engine.kernels.runs.arrays`;
    stored_ms: the times of the rows that runs have selected.

    stored_ms: int64 (capacity,).
    """
    until_ms = np.full(own.shape[0], NEVER_MS, np.int64)
    for of in range(own.shape[0]):
        if own[of] >= 0 and own[of] < chains.shape[0] - 1:
            run = chains[own[of], CHAIN_HEAD]
            while run >= 0:
                until_ms[of] = max(until_ms[of], stored_ms[runs[run, FIRST_REGISTER]] + within_ms)
                run = runs[run, NEXT]
    return until_ms


@kernel
def near_starts(starts, others, partition, first, following, t_ms, within_ms, until_ms, own):
    """The rows that runs may select: those of a partition at most `within_ms` after a start, and `others`.

    starts, others: int64, ascending, of partitions that are numbered (others of none are left out). partition, first,
    following: see `link_rows`. until_ms: see `runs_reach`. own: int64 per partition.
    Returns int64 (k,), the rows, ascending, and their partitions by `own`. The work is in proportion to what is
    returned, but for a look at all marks, eight at a time.

    t_ms: int64 (n_rows,). own, until_ms: int64 (n_partitions,).
    """
    marks = np.zeros((t_ms.shape[0] + 7) // 8 * 8, np.uint8)
    n_marked = 0
    for row in starts:
        if partition[row] >= 0:
            marks[row] = 2
            n_marked += 1
    for row in others:
        if partition[row] >= 0 and marks[row] == 0:
            marks[row] = 1
            n_marked += 1
    for of in range(first.shape[0]):
        if until_ms[of] != NEVER_MS:
            n_marked += _mark(marks, first[of], following, t_ms, until_ms[of])
    for row in starts:
        if partition[row] >= 0:
            n_marked += _mark(marks, following[row], following, t_ms, t_ms[row] + within_ms)
    rows, partitions = np.empty(n_marked, np.int64), np.empty(n_marked, np.int64)
    eights = marks.view(np.int64)
    k = 0
    for eight in range(eights.shape[0]):
        if eights[eight] == 0:
            continue
        for row in range(8 * eight, 8 * eight + 8):
            if marks[row] != 0:
                rows[k] = row
                partitions[k] = own[partition[row]]
                k += 1
    return rows, partitions


@leaf
def _mark(marks, row, following, t_ms, until_ms):
    """Mark the rows from `row` on up to a time, or to the next start, which goes on from there; returns how many."""
    n_marked = 0
    while row >= 0 and marks[row] != 2 and t_ms[row] <= until_ms:
        n_marked += marks[row] == 0
        marks[row] = 1
        row = following[row]
    return n_marked


@kernel
def live_among(marks, n_marked, partition, lo_ms, hi_ms, within_ms, until_ms, own):
    """Of the marked rows those that `near_starts` would return, looked at one after the other, and their partitions.

    marks: uint8, a multiple of eight, 1 for a row that some edge accepts, 2 for a start, 3 for one that needs none.
    until_ms is brought up to date.

    marks: uint8 (8 k,). partition, lo_ms, hi_ms: int64 (n_rows,). own, until_ms: int64 (n_partitions,).
    """
    rows, partitions = np.empty(n_marked, np.int64), np.empty(n_marked, np.int64)
    eights = marks.view(np.int64)
    k = 0
    for eight in range(eights.shape[0]):
        if eights[eight] == 0:
            continue
        for row in range(8 * eight, 8 * eight + 8):
            of = partition[row] if marks[row] != 0 else -1
            if of < 0 or lo_ms[row] != hi_ms[row]:
                continue
            if marks[row] >= 2 or lo_ms[row] <= until_ms[of]:
                if marks[row] == 2:
                    until_ms[of] = lo_ms[row] + within_ms
                rows[k] = row
                partitions[k] = own[of]
                k += 1
    return rows[:k], partitions[:k]


@leaf
def mark_found(rows, found, marks):
    """Set marks, bool (k,), of those of `rows`, int64 (k,), that are among `found`; both ascend.

    found: int64 (m,).
    """
    at = 0
    for k in range(rows.shape[0]):
        while at < found.shape[0] and found[at] < rows[k]:
            at += 1
        if at == found.shape[0]:
            return
        if found[at] == rows[k]:
            marks[k] = True


__all__ = [
    "NEVER_MS",
    "claim_partitions",
    "link_rows",
    "live_among",
    "live_rows",
    "mark_found",
    "near_starts",
    "runs_reach",
]
