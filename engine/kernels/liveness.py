"""Which events of a batch come while an event that can begin a match is within reach of them."""

from __future__ import annotations

import numpy as np
from numba import njit

NEVER_MS = -(2**62)
"""No event that can begin a match yet; with a window added it is still before every time."""


@njit(cache=True, nogil=True)
def live_rows(rows, starts, partition, lo_ms, hi_ms, within_ms, last_ms, shared_ms):
    """Those of `rows` that a start precedes by at most `within_ms`, and the starts: int64, ascending.

    rows: int64, row numbers in stream order. starts: int64, those of them that can begin a match. partition: int64 per
    row, -1 for all partitions. last_ms: int64 (n_partitions,), for each the latest end of a start in it, NEVER_MS
    without one; shared_ms: int64 (2,), the same for starts of all partitions, and for any start. Both are brought up to
    date.
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


__all__ = ["NEVER_MS", "live_rows"]
