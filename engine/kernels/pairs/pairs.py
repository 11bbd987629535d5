"""The pairs of first and last event between which matches may lie, and the events around each pair."""

from __future__ import annotations

import numpy as np

from engine.kernels.columns.partitions import BROADCAST
from engine.kernels.compile.ways import kernel, leaf
from engine.kernels.confidence.ordering import may_precede, one_clock
from engine.kernels.programs.predicates import evaluate, reset_aggregates, update_aggregates


@leaf
def decided_ms(events, first, last, within_ms, holds_back):
    """The time that the watermark must pass before the matches of a pair are known.

    holds_back: 0, all that may precede the last event is there; 1, a trailing negation looks up to first + WITHIN; 2,
    up to the latest such time of any match with this last event.
    """
    if holds_back == 0:
        return events.hi_ms[last]
    if holds_back == 1:
        return max(events.hi_ms[last], events.hi_ms[first] + within_ms)
    return events.hi_ms[last] + within_ms


@kernel
def pairs(
    events, lasts, partition, firsts, starts, inner, inner_starts, within_ms, longest_ms, n_steps, holds_back, after_ms,
    before_ms,
):  # fmt: skip
    """All (first, last, partition) in reach of each other that are decided in [after_ms, before_ms).

    lasts: int64, rows that can end a match, ascending. firsts, starts: rows that can start one, grouped by partition
    (`grouped`), each group in stream order (ascending lo_ms). partition: int64 (n_rows,). inner: int64, rows that can
    be the first event of each component between, grouped alike, inner_starts: int64 (n_inner, n_groups): a pair
    without an event for one of them has no match. longest_ms: length of the longest interval. n_steps: components of
    the pattern; 0 for one that binds a single event, the first and the last of its match. Returns int64 (n_pairs, 3),
    ordered by last, partition, first.
    """
    found = np.empty((64, 3), np.int64)
    n_found = 0
    n_groups = starts.shape[0] - 2  # partitions, beside BROADCAST
    for last in lasts:
        own = partition[last]
        low = own if own != BROADCAST else 0
        high = own + 1 if own != BROADCAST else n_groups
        earliest_ms = events.lo_ms[last] - (within_ms + longest_ms if n_steps > 0 else 0)
        latest_ms = events.hi_ms[last]
        for key in range(low, high):
            for shared in range(2):
                group = BROADCAST if shared else key
                begin = first_from(events, firsts, starts[group + 1], starts[group + 2], earliest_ms)
                end = first_from(events, firsts, begin, starts[group + 2], latest_ms + 1)
                if n_found + end - begin > found.shape[0]:
                    extra = max(end - begin, found.shape[0])
                    found = np.concatenate((found, np.empty((extra, 3), np.int64)))
                n_found = _pairs_of(
                    events, firsts, begin, end, last, key, inner, inner_starts, within_ms, longest_ms, n_steps,
                    holds_back, after_ms, before_ms, found, n_found,
                )  # fmt: skip
    return found[:n_found]


@kernel
def by_first(pairs, n_rows, n_partitions):
    """Pairs, int64 (n, 3), ascending by last event, in the order of first event, partition, last event.

    n_rows: above all rows; n_partitions: above all partitions.

    pairs: int64 (n, 3).
    """
    ordered = pairs
    for column in (2, 0):
        ends = np.zeros(n_partitions + 1 if column == 2 else n_rows + 1, np.int64)
        for p in range(pairs.shape[0]):
            ends[ordered[p, column] + 1] += 1
        for k in range(1, ends.shape[0]):
            ends[k] += ends[k - 1]
        into = np.empty_like(pairs)
        for p in range(pairs.shape[0]):
            key = ordered[p, column]
            at = ends[key]
            ends[key] = at + 1
            into[at, 0] = ordered[p, 0]
            into[at, 1] = ordered[p, 1]
            into[at, 2] = ordered[p, 2]
        ordered = into
    return ordered


@leaf
def _pairs_of(
    events, firsts, begin, end, last, key, inner, inner_starts, within_ms, longest_ms, n_steps, holds_back, after_ms,
    before_ms, found, n_found,
):  # fmt: skip
    """Write the pairs of firsts[begin:end] with one last event from found[n_found] on; returns how many there are."""
    for at in range(begin, end):
        first = firsts[at]
        if first == last:
            if n_steps > 1:
                continue
        elif n_steps == 0 or not may_precede(events, first, last):
            continue
        if events.lo_ms[last] - events.hi_ms[first] > within_ms:
            continue
        known = decided_ms(events, first, last, within_ms, holds_back)
        if known < after_ms or known >= before_ms:
            continue
        if not _all_between(events, inner, inner_starts, key, first, last, longest_ms):
            continue
        found[n_found, 0] = first
        found[n_found, 1] = last
        found[n_found, 2] = key
        n_found += 1
    return n_found


@leaf
def _all_between(events, inner, inner_starts, key, first, last, longest_ms):
    """Whether for each component between the ends some row may lie there, of the partition or of all."""
    for component in range(inner_starts.shape[0]):
        found = False
        for group in (key, BROADCAST):
            start = inner_starts[component, group + 1]
            end = inner_starts[component, group + 2]
            at = first_from(events, inner, start, end, events.lo_ms[first] - longest_ms)
            while not found and at < end and events.lo_ms[inner[at]] <= events.hi_ms[last]:
                row = inner[at]
                at += 1
                found = events.hi_ms[row] >= events.lo_ms[first] and row not in (first, last)
        if not found:
            return False
    return True


@kernel
def around(events, members, starts, key, first, last, longest_ms, before_ms, after_ms):
    """The rows of a group and of BROADCAST that may lie in [first - before_ms, last + after_ms], without the two.

    members: int64 (m,). starts: int64 (n_groups + 1,).
    """
    earliest = events.lo_ms[first] - before_ms
    latest = events.hi_ms[last] + after_ms
    found = np.empty(16, np.int64)
    n_found = 0
    for shared in range(2):
        group = BROADCAST if shared else key
        start = starts[group + 1]
        end = starts[group + 2]
        at = first_from(events, members, start, end, earliest - longest_ms)
        while at < end and events.lo_ms[members[at]] <= latest:
            row = members[at]
            at += 1
            if events.hi_ms[row] < earliest or row in (first, last):
                continue
            if n_found == found.shape[0]:
                found = np.concatenate((found, np.empty_like(found)))
            found[n_found] = row
            n_found += 1
    return found[:n_found]


@kernel
def inside(events, rows, first, last):
    """Those rows that may come after `first` and before `last`."""
    kept = np.empty(rows.shape[0], np.int64)
    n_kept = 0
    for row in rows:
        after = may_precede(events, first, row) or one_clock(events, first, row)
        if after and (may_precede(events, row, last) or one_clock(events, row, last)):
            kept[n_kept] = row
            n_kept += 1
    return kept[:n_kept]


@leaf
def first_from(events, rows, start, end, time_ms):
    """The first position in rows[start:end] whose lo_ms is not before time_ms (rows are in that order)."""
    while start < end:
        middle = (start + end) // 2
        if events.lo_ms[rows[middle]] < time_ms:
            start = middle + 1
        else:
            end = middle
    return start


@kernel
def replay(tables, columns, chain, steps, programs, stack):
    """The values of `programs` for a complete match: float64 (n_programs,).

    chain, steps: int64 (n,), the events in order and the component of each.
    """
    rows = np.full(2 * tables.kleene.shape[0] + 1, -1, np.int64)
    aggregates = np.full(tables.kinds.shape[0], np.nan)
    previous = np.int64(-1)
    for at in range(chain.shape[0]):
        step = steps[at]
        if step != previous:
            rows[2 * step] = chain[at]
            reset_aggregates(tables.kinds, tables.owners, step, aggregates)
        rows[2 * step + 1] = chain[at]
        rows[rows.shape[0] - 1] = chain[at]
        if tables.kinds.shape[0]:
            update_aggregates(
                tables.kinds, tables.owners, tables.slot_columns, tables.bases, step, columns, chain[at], aggregates
            )
        previous = step
    values = np.empty(programs.shape[0], np.float64)
    for k in range(programs.shape[0]):
        start = tables.bounds[programs[k]]
        end = tables.bounds[programs[k] + 1]
        values[k] = evaluate(tables.code, start, end, tables.constants, columns, rows, aggregates, stack)
    return values


__all__ = ["around", "by_first", "decided_ms", "first_from", "inside", "pairs", "replay"]
