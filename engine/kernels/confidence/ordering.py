"""Order of events in possible worlds: what may come before what, what must, and an order to search in.

Shared by all kernels of the postponed runtime. An event is a row number into the arrays of `Events`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from engine.kernels.compile.ways import kernel, leaf

_NO_SKEW: npt.NDArray[np.int64] = np.empty(0, np.int64)


class Events(NamedTuple):
    """Columns of a store, each (n_rows,) or longer; times in milliseconds, both ends of an interval inclusive.

    clock, source_seq: int64; clock -1 is a clock of its own. weight_at: int64, where in `weights` the probabilities of
    lo_ms..hi_ms of this row begin, -1: uniform. columns: float64 (n_columns, n_rows). `strict`: precise events of one
    millisecond are not ordered (TIES STRICT); otherwise by row number. skew: int64, by how much the offset of the row's
    clock has widened lo_ms..hi_ms on both sides; no entries: no row has any. Of a row with skew the probabilities, if
    given, are those of its nominal times, and begin at -2 - weight_at (see `engine.kernels.confidence.skew`).
    """

    lo_ms: npt.NDArray[np.int64]
    hi_ms: npt.NDArray[np.int64]
    clock: npt.NDArray[np.int64]
    source_seq: npt.NDArray[np.int64]
    weight_at: npt.NDArray[np.int64]
    weights: npt.NDArray[np.float64]
    columns: npt.NDArray[np.float64]
    strict: bool
    skew: npt.NDArray[np.int64] = _NO_SKEW


@leaf
def both_precise(events, i, j):
    """True when neither timestamp is an interval."""
    return events.lo_ms[i] == events.hi_ms[i] and events.lo_ms[j] == events.hi_ms[j]


@leaf
def one_clock(events, i, j):
    """True when the order of the two is known from their clock: one clock, and not both precise."""
    return events.clock[i] >= 0 and events.clock[i] == events.clock[j] and not both_precise(events, i, j)


@leaf
def clock_before(events, i, j):
    """For two events of one clock: whether i comes before j there, by (nominal time, source_seq, row).

    Where their clock alone makes them imprecise they are ordered as precise events are.
    """
    hi_i = events.hi_ms[i]
    hi_j = events.hi_ms[j]
    if events.skew.shape[0] > 0:
        hi_i -= events.skew[i]
        hi_j -= events.skew[j]
        if hi_i == hi_j and hi_i == events.lo_ms[i] + events.skew[i] and hi_j == events.lo_ms[j] + events.skew[j]:
            return i < j and not events.strict
    if hi_i != hi_j:
        return hi_i < hi_j
    if events.source_seq[i] != events.source_seq[j]:
        return events.source_seq[i] < events.source_seq[j]
    return i < j


@leaf
def ties_ordered(events, i, j):
    """For precise i and j at one millisecond: whether i comes before j there (stream order, unless ties are strict)."""
    return both_precise(events, i, j) and i < j and not events.strict


@leaf
def may_precede(events, i, j):
    """Whether i comes before j in at least one possible world."""
    if one_clock(events, i, j):
        return clock_before(events, i, j)
    if events.lo_ms[i] < events.hi_ms[j]:
        return True
    return events.lo_ms[i] == events.hi_ms[j] and ties_ordered(events, i, j)


@leaf
def separated(events, i, j):
    """Whether i comes before j in every possible world: where j is does not depend on where i is."""
    if one_clock(events, i, j):
        return clock_before(events, i, j)
    if events.hi_ms[i] < events.lo_ms[j]:
        return True
    return events.hi_ms[i] == events.lo_ms[j] and ties_ordered(events, i, j)


@kernel
def search_order(events, candidates):
    """Sort candidates so that blocks of them can be searched one after the other.

    Returns (rows, blocks, least_lo_ms), each int64 (n,): the rows by latest time; the number of each one's block; and
    the earliest possible time of any row in this or a later block. No row of a later block may precede one of an
    earlier block; precise events, disjoint intervals and events of one clock give blocks of one row.

    candidates: int64 (n,), rows.
    """
    n = candidates.shape[0]
    rows = candidates[np.argsort(events.hi_ms[candidates], kind="mergesort")]
    # Insertion sort: what is left to order are events that end at one time.
    for at in range(1, n):
        row = rows[at]
        to = at
        while to > 0 and _sorts_before(events, row, rows[to - 1]):
            rows[to] = rows[to - 1]
            to -= 1
        rows[to] = row
    is_precise = True
    by_offsets = False
    for a in range(n):
        is_precise = is_precise and events.lo_ms[rows[a]] == events.hi_ms[rows[a]]
        by_offsets = by_offsets or (events.skew.shape[0] > 0 and events.skew[rows[a]] > 0)
    reach = np.arange(n)
    earliest = np.empty(n, np.int64)  # of this one and those behind it
    for b in range(n - 1, -1, -1):
        earliest[b] = events.lo_ms[rows[b]] if b == n - 1 else min(events.lo_ms[rows[b]], earliest[b + 1])
    far = 0
    for a in range(0 if is_precise else n):  # precise events stand in their order, or at one time
        # Behind `far` all begin after this one has ended; of one clock none is before it there, unless by its offset.
        while far < n - 1 and earliest[far + 1] <= events.hi_ms[rows[a]]:
            far += 1
        for b in range(n - 1 if by_offsets else far, a, -1):
            if may_precede(events, rows[b], rows[a]):
                reach[a] = b
                break
    blocks = np.empty(n, np.int64)
    block = -1
    end = -1
    for a in range(n):
        if a > end:
            block += 1
            end = reach[a]
        elif reach[a] > end:
            end = reach[a]
        blocks[a] = block
    least = np.empty(n, np.int64)
    low = np.int64(2**62)
    a = n - 1
    while a >= 0:
        start = a
        while start >= 0 and blocks[start] == blocks[a]:
            low = min(low, events.lo_ms[rows[start]])
            start -= 1
        least[start + 1 : a + 1] = low
        a = start
    return rows, blocks, least


@leaf
def _sorts_before(events, i, j):
    if events.hi_ms[i] != events.hi_ms[j]:
        return events.hi_ms[i] < events.hi_ms[j]
    if one_clock(events, i, j):
        return clock_before(events, i, j)
    if events.lo_ms[i] != events.lo_ms[j]:
        return events.lo_ms[i] < events.lo_ms[j]
    return i < j


@kernel
def order_is_certain(events, candidates, first, last, within_ms):
    """Whether first, last and any of the candidates between are in one certain order, inside the window.

    candidates: int64 (n,), in the order of `search_order`.
    """
    n = candidates.shape[0]
    if events.hi_ms[last] - events.lo_ms[first] > within_ms:
        return False
    if first != last and not separated(events, first, last):
        return False
    for j in range(n):
        row = candidates[j]
        if not separated(events, first, row) or not separated(events, row, last):
            return False
        for i in range(j):
            if not separated(events, candidates[i], row) and (
                may_precede(events, candidates[i], row) or may_precede(events, row, candidates[i])
            ):
                return False
    return True
