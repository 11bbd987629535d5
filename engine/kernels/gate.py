"""Which events can be part of a match at all: a first event must lie before them, within the window.

Everything else is dropped before it is stored (window push-down, SASE+ section 4.2), so that the store holds the
neighbourhoods of first events alone.
"""

from __future__ import annotations

from numba import njit

BROADCAST = -1


@njit(cache=True, nogil=True)
def live_rows(t_ms, firsts, latest_ms, within_ms, live):
    """Write the rows after a first event of any partition and within its window; returns their number.

    t_ms: int64 (n,), ascending. firsts: int64, rows, ascending. latest_ms: the time of the newest first event of
    earlier batches. live: int64 (n,).
    """
    n = 0
    row = 0
    until_ms = latest_ms + within_ms
    for k in range(firsts.shape[0] + 1):
        stop = firsts[k] + 1 if k < firsts.shape[0] else t_ms.shape[0]
        while row < stop and t_ms[row] <= until_ms:
            live[n] = row
            n += 1
            row += 1
        row = stop
        if k < firsts.shape[0]:
            until_ms = t_ms[firsts[k]] + within_ms
    return n


@njit(cache=True, nogil=True)
def keep_live(t_ms, rows, partition, is_first, is_free, latest_ms, within_ms, kept):
    """Mark the rows that a first event of their partition lets pass; returns how many.

    rows: int64 (k,), ascending, into t_ms; partition, is_first, is_free: of these rows. Free rows pass always.
    partition: -1 for the events of every partition, -2 for those of one that has had no first event.
    latest_ms: int64 (n_partitions + 1,), the time of the newest first event by partition + 1, updated.
    """
    n = 0
    for k in range(rows.shape[0]):
        now = t_ms[rows[k]]
        own = partition[k]
        passes = is_first[k] or is_free[k] or now - latest_ms[0] <= within_ms
        if not passes and own > BROADCAST:
            passes = now - latest_ms[own + 1] <= within_ms
        if not passes and own == BROADCAST:
            passes = True  # some partition has a first event: `live_rows`
        if is_first[k]:
            latest_ms[own + 1] = max(latest_ms[own + 1], now)
        kept[k] = passes
        n += passes
    return n


__all__ = ["keep_live", "live_rows"]
