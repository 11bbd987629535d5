"""Matches of imprecise events, the confidence of each the sum over its possible worlds (SASE++ sections 4 and 5.3).

Appendix A: candidates of a window are tried in every order that shrinking intervals allow. The confidence of a sequence
is found by enumeration: a point is picked for each event from its interval, and points in the desired order add their
probability. Unlike a literal reading, points after one that is out of order are not picked.

Beside the arrays of `engine.kernels.baselines.edges`: events, see `engine.kernels.confidence.ordering`; begin, take
bool (n, c): what an event can be; members int64: rows grouped by partition, in stream order, group p being
members[starts[p + 1] : starts[p + 2]] and -1 that of the events of every partition.
"""

from __future__ import annotations

import numpy as np

from engine.kernels.baselines.edges import COMPONENT, IS_KLEENE, ROW, begins, completes, starts, takes
from engine.kernels.columns.partitions import BROADCAST
from engine.kernels.compile.ways import kernel, leaf
from engine.kernels.confidence.ordering import clock_before, may_precede, one_clock, ties_ordered
from engine.kernels.programs.opcodes import MAX_STACK

NO_WINDOW = -1

# Entries of spent.
N_POINTS = 0  # points picked
N_CREATED = 1  # partial matches
LONGEST = 2  # events of the longest one
GAVE_UP = 3
N_SPENT = 4


@kernel
def search_worlds(
    code, bounds, constants, slots, loops, edges, events, begin, take, partition, members, group_starts, lasts,
    within_ms, longest_ms, threshold, at_each_extension, most_points, spent,
):  # fmt: skip
    """All matches of confidence >= threshold, above 0, that end in one of the rows `lasts`.

    Returns match_partition (n,), match_offsets (n + 1,), match_cells (m, 2), confidence (n,); see
    `engine.matching.output.listed.ListedMatches`. at_each_extension: Algorithm 1, the confidence of each partial match
    is enumerated and one below the threshold goes no further; otherwise that of complete matches alone. spent int64
    (N_SPENT,) is added to; the search is given up when N_POINTS or N_CREATED passes most_points.

    partition int64 (n_rows,), members int64 (m,): rows grouped by partition, group_starts int64 (n_groups + 1,).
    """
    n_steps = edges.shape[0]
    final = n_steps - 1
    found_partition = np.empty(64, np.int64)
    found_offsets = np.zeros(65, np.int64)
    found_cells = np.empty((512, 2), np.int64)
    found_confidence = np.empty(64, np.float64)
    n_found = 0
    n_registers, n_slots = 2 * n_steps + 1, slots.shape[0]
    rows = np.empty(n_registers, np.int64)
    aggregates = np.empty(n_slots, np.float64)
    stack = np.empty(MAX_STACK, np.float64)
    candidates = np.empty(members.shape[0] + 1, np.int64)
    capacity = 0
    depth_rows = np.empty((0, n_registers), np.int64)
    depth_aggregates = np.empty((0, n_slots), np.float64)
    # By depth: the candidate there, what to try next (2 * candidate + (0: next step, 1: take)), its least time.
    path = np.empty((0, 3), np.int64)
    chain = np.empty((1, 2), np.int64)
    used = np.zeros(0, np.bool_)
    times = np.empty(0, np.int64)
    sums = np.empty(0, np.float64)
    for last in lasts:
        own = partition[last]
        low = own if own != BROADCAST else 0
        high = own + 1 if own != BROADCAST else group_starts.shape[0] - 2
        for key in range(low, high):
            n = _candidates(events, members, group_starts, key, last, within_ms, longest_ms, candidates)
            if not _any_begins(begin, candidates, n):
                continue
            if n > capacity:
                capacity = 2 * n
                depth_rows = np.empty((capacity, n_registers), np.int64)
                depth_aggregates = np.empty((capacity, n_slots), np.float64)
                path = np.empty((capacity, 3), np.int64)
                chain = np.empty((capacity + 1, 2), np.int64)
                used = np.zeros(capacity, np.bool_)
                times = np.empty(capacity, np.int64)
                sums = np.empty(capacity, np.float64)
            for start in range(n):
                first = candidates[start]
                if not begin[0, first] or (first == last) != (n_steps == 1 and start == n - 1):
                    continue
                if not starts(code, bounds, constants, events.columns, slots, loops, edges, first, chain, rows,
                              aggregates, stack):  # fmt: skip
                    continue
                depth = 1
                length = 0
                confidence = 1.0
                if first == last:
                    depth = 0
                    length = 1
                else:
                    used[start] = True
                    path[0, 0], path[0, 1], path[0, 2] = start, 0, events.lo_ms[first]
                    depth_rows[0] = rows
                    depth_aggregates[0] = aggregates
                spent[N_CREATED] += 1
                while depth > 0 or length > 0:
                    if length > 0:  # a complete match
                        if completes(code, bounds, constants, events.columns, loops, edges, chain, length, rows,
                                     aggregates, stack):  # fmt: skip
                            if length > 1:
                                confidence = _enumerated(
                                    events, chain, length, within_ms, times, sums, most_points, spent
                                )
                            if confidence > 0.0 and confidence >= threshold:
                                if n_found == found_partition.shape[0]:
                                    found_partition = np.concatenate((found_partition, np.empty_like(found_partition)))
                                    found_offsets = np.concatenate((found_offsets, np.empty_like(found_offsets)))
                                    found_confidence = np.concatenate(
                                        (found_confidence, np.empty_like(found_confidence))
                                    )
                                at = found_offsets[n_found]
                                while at + length > found_cells.shape[0]:
                                    found_cells = np.concatenate((found_cells, np.empty_like(found_cells)))
                                found_cells[at : at + length] = chain[:length]
                                found_partition[n_found] = key
                                found_confidence[n_found] = confidence
                                n_found += 1
                                found_offsets[n_found] = at + length
                        length = 0
                        continue
                    if spent[GAVE_UP]:
                        break
                    at, move = path[depth - 1, 1] // 2, path[depth - 1, 1] % 2
                    if at >= n:
                        depth -= 1
                        used[path[depth, 0]] = False
                        continue
                    path[depth - 1, 1] += 1
                    row = candidates[at]
                    before = chain[depth - 1, ROW]
                    here = chain[depth - 1, COMPONENT]
                    there = here + 1 - move
                    if used[at] or there == n_steps:
                        continue
                    if not (begin[there, row] if move == 0 else edges[here, IS_KLEENE] != 0 and take[here, row]):
                        continue
                    if row == last:
                        if there != final:
                            continue
                    elif there == final and edges[final, IS_KLEENE] == 0:
                        continue
                    if not may_precede(events, before, row):
                        continue
                    earliest = _shrunk(events, before, path[depth - 1, 2], row)
                    if earliest > events.hi_ms[row] or earliest - events.hi_ms[first] > within_ms:
                        continue
                    rows[:] = depth_rows[depth - 1]
                    aggregates[:] = depth_aggregates[depth - 1]
                    if move == 0:
                        holds = begins(code, bounds, constants, events.columns, slots, loops, edges, here, row, chain,
                                       depth, rows, aggregates, stack)  # fmt: skip
                    else:
                        holds = takes(code, bounds, constants, events.columns, slots, loops, edges, here, row, chain,
                                      depth, rows, aggregates, stack)  # fmt: skip
                    if not holds:
                        continue
                    spent[N_CREATED] += 1
                    if spent[N_CREATED] > most_points:
                        spent[GAVE_UP] = 1
                        break
                    spent[LONGEST] = max(spent[LONGEST], depth + 1)
                    if row == last:
                        length = depth + 1
                        continue
                    if at_each_extension and threshold > _enumerated(
                        events, chain, depth + 1, NO_WINDOW, times, sums, most_points, spent
                    ):
                        continue
                    used[at] = True
                    path[depth, 0], path[depth, 1], path[depth, 2] = at, 0, earliest
                    depth_rows[depth] = rows
                    depth_aggregates[depth] = aggregates
                    depth += 1
                for level in range(depth):
                    used[path[level, 0]] = False
                if spent[GAVE_UP]:
                    break
    return (
        found_partition[:n_found],
        found_offsets[: n_found + 1],
        found_cells[: found_offsets[n_found]],
        found_confidence[:n_found],
    )


@leaf
def _candidates(events, members, group_starts, key, last, within_ms, longest_ms, candidates):
    """Write the rows that may be in a match that ends in `last`, itself the last of them; how many they are."""
    n = 0
    reach = events.lo_ms[last] - within_ms
    for group in (BROADCAST, key):
        low, high = group_starts[group + 1], group_starts[group + 2]
        end = high
        while low < high:
            middle = (low + high) // 2
            if events.lo_ms[members[middle]] < reach - longest_ms:
                low = middle + 1
            else:
                high = middle
        while low < end and events.lo_ms[members[low]] <= events.hi_ms[last]:
            row = members[low]
            low += 1
            if row != last and events.hi_ms[row] >= reach and may_precede(events, row, last):
                candidates[n] = row
                n += 1
    candidates[n] = last
    return n + 1


@leaf
def _any_begins(begin, candidates, n):
    found = False
    for at in range(n):
        found = found or begin[0, candidates[at]]
    return found


@leaf
def _shrunk(events, before, before_ms, row):
    """The least time that `row` can have after `before`, which is at before_ms or later."""
    if one_clock(events, before, row) or ties_ordered(events, before, row):
        return events.lo_ms[row]
    return max(events.lo_ms[row], before_ms + 1)


@leaf
def _share(events, row, t_ms):
    """Its probability at a time; of a uniform one in shares of which it has hi - lo + 1."""
    if events.weight_at[row] < 0:
        return 1.0
    return events.weights[events.weight_at[row] + t_ms - events.lo_ms[row]]


@leaf
def _enumerated(events, chain, n_chain, within_ms, times, sums, most_points, spent):
    """The confidence of the first n_chain events of a chain, by their points; within_ms NO_WINDOW: in order alone.

    times int64, sums float64 (n_chain,): the points picked, and what those after each add up to. Uniform shares are
    counted, and divided in the end, so that sums are exact up to 2^53.
    """
    k = 0
    times[0] = events.lo_ms[chain[0, ROW]] - 1
    sums[0] = 0.0
    while True:
        row = chain[k, ROW]
        times[k] += 1
        if times[k] > events.hi_ms[row]:
            if k == 0:
                break
            k -= 1
            sums[k] += _share(events, chain[k, ROW], times[k]) * sums[k + 1]
            continue
        spent[N_POINTS] += 1
        if k > 0:
            before = chain[k - 1, ROW]
            if one_clock(events, before, row):
                if not clock_before(events, before, row):
                    continue
            elif times[k - 1] >= times[k] and not ties_ordered(events, before, row):
                continue
        if k < n_chain - 1:
            k += 1
            times[k] = events.lo_ms[chain[k, ROW]] - 1
            sums[k] = 0.0
        elif within_ms == NO_WINDOW or times[k] - times[0] <= within_ms:
            sums[k] += _share(events, row, times[k])
        if spent[N_POINTS] > most_points:
            spent[GAVE_UP] = 1
            return 0.0
    total = sums[0]
    for at in range(n_chain):
        row = chain[at, ROW]
        if events.weight_at[row] < 0:
            total /= events.hi_ms[row] - events.lo_ms[row] + 1
    return total
