"""Which events the baselines look at, and when: an order of (event, partition) offers.

One run per partial match looks at every event as it comes. With a buffer per component (ZStream; SASE++ section 6.2)
events wait until an event arrives that may end a match and no buffer is empty. Backtracking reads the whole window
again for each event that may end a match.
"""

from __future__ import annotations

from engine.kernels.compile.ways import leaf

AT_ONCE = 0
WHEN_ALL_BUFFERS_FILL = 1
WHOLE_WINDOW = 2

# Columns of offers.
OFFERED_ROW = 0
OFFERED_TO = 1
ENDS_WINDOW = 2


@leaf
def schedule_offers(
    mode, within, t_ms, partition_of, begin, take, previous_row, newest, offered, latest, offers, start, end
):  # fmt: skip
    """Write the offers that the rows start..end-1 of the store cause; returns (first row not done, offers written).

    t_ms, partition_of int64 (c,): of the store, partition -1 enters every partition. begin, take bool (n, c): what an
    event can be. previous_row int64 (c,): the row before in the same partition. newest int64 (p + 1,), offered int64
    (p + 1,), latest int64 (p + 1, n): newest row, last row that was offered, newest row of each step, -1 for none;
    entry 0 is for events of every partition, entry q + 1 for partition q. offers int64 (., 3): OFFERED_ROW, OFFERED_TO
    (a partition), ENDS_WINDOW (1 for the event that causes the others).

    Nothing of a row is done when `offers` might not hold what it causes.
    """
    last = begin.shape[0] - 1
    n_offers = 0
    for row in range(start, end):
        own = partition_of[row] + 1
        ends = begin[last, row] or take[last, row]
        causes = ends or mode == AT_ONCE
        first, after = (own, own + 1) if own > 0 else (1, newest.shape[0])
        if causes:
            n_needed = 0
            for q in range(first, after):
                n_needed += _waiting(mode, within, t_ms, previous_row, newest, offered, offers, row, q, own, -1)
            if n_offers + n_needed > offers.shape[0]:
                return row, n_offers
        previous_row[row] = newest[own]
        newest[own] = row
        for step in range(last + 1):
            if begin[step, row] or take[step, row]:
                latest[own, step] = row
        if not causes:
            continue
        for q in range(first, after):
            if mode == WHEN_ALL_BUFFERS_FILL and not _all_filled(within, t_ms, latest, row, q):
                continue
            n = _waiting(mode, within, t_ms, previous_row, newest, offered, offers, row, q, own, n_offers)
            n_offers += n
            if n:
                offered[q] = row
    return end, n_offers


@leaf
def _all_filled(within, t_ms, latest, row, q):
    """Each step has an event in the window that ends with this row."""
    for step in range(latest.shape[1]):
        newest = max(latest[q, step], latest[0, step])
        if newest < 0 or t_ms[row] - t_ms[newest] > within:
            return False
    return True


@leaf
def _waiting(mode, within, t_ms, previous_row, newest, offered, offers, row, q, own, at):
    """How many rows of entry q wait for `row`, itself included; they are written from `at` on unless it is -1."""
    keyed, common = newest[q], newest[0]
    if own == 0 and (keyed < 0 or t_ms[row] - t_ms[keyed] > within):
        return 0  # no match of this partition can end here
    n = 0
    if at < 0:
        n = 1  # the row itself is not linked yet
    done = -1 if mode == WHOLE_WINDOW else offered[q]
    while True:
        newer = max(keyed, common)
        if newer <= done or t_ms[row] - t_ms[newer] > within:
            break
        if at >= 0:
            offers[at + n, OFFERED_ROW] = newer
            offers[at + n, OFFERED_TO] = q - 1
            offers[at + n, ENDS_WINDOW] = 1 if n == 0 else 0
        n += 1
        if newer == keyed:
            keyed = previous_row[keyed]
        else:
            common = previous_row[common]
    if at >= 0:  # they were found newest first
        for k in range(n // 2):
            for column in range(3):
                swapped = offers[at + k, column]
                offers[at + k, column] = offers[at + n - 1 - k, column]
                offers[at + n - 1 - k, column] = swapped
    return n


@leaf
def relink_rows(n_rows, partition_of, begin, take, previous_row, newest, latest):
    """Make previous_row, newest and latest anew for the rows that a store has kept.

    previous_row, newest, latest, partition_of, begin, take: see `schedule_offers`.
    """
    newest[:] = -1
    latest[:, :] = -1
    for row in range(n_rows):
        own = partition_of[row] + 1
        previous_row[row] = newest[own]
        newest[own] = row
        for step in range(latest.shape[1]):
            if begin[step, row] or take[step, row]:
                latest[own, step] = row
