"""Backtracking: one partial match at a time, depth first over the window of each event that may end a match.

SASE+ section 5.2.2 (Figure 7): when the match at hand can go no further, the search returns to the event at which it
could have been left otherwise and reads the events from there on again. Nothing is kept between two last events.

Beside the arrays of `engine.kernels.baselines.edges`: offers, see `engine.kernels.baselines.buffers` (each window of
events ends with one that has ENDS_WINDOW); matches and counters, see `engine.kernels.baselines.runs`.
"""

from __future__ import annotations

import numpy as np

from engine.kernels.baselines.buffers import ENDS_WINDOW, OFFERED_ROW, OFFERED_TO
from engine.kernels.baselines.edges import COMPONENT, IS_KLEENE, ROW, begins, completes, starts, takes
from engine.kernels.baselines.runs import N_CELLS, N_CREATED, N_MATCHES, PEAK_LIVE, _record
from engine.kernels.compile.ways import kernel
from engine.kernels.programs.opcodes import MAX_STACK

# Entries of position.
WINDOW = 0
FIRST = 1
DEPTH = 2


@kernel
def search_windows(
    code, bounds, constants, columns, slots, loops, edges, strict_ties, t_ms, begin, take, offers, n_offers,
    position, cursor, depth_rows, depth_aggregates, chain, match_partition, match_offsets, match_cells, counters,
):  # fmt: skip
    """Search the windows one after the other; True when all are done, False when there is no room for another match.

    position int64 (3,): WINDOW (the offer that the window at hand begins with), FIRST (the offer tried as first event),
    DEPTH (events of the match at hand): all 0 at first, and where a call stopped the next one goes on. cursor int64
    (d,): for each event of the match at hand the next thing to try, 2 * offer + (0: go on to the next step, 1: take).
    depth_rows int64 (d, r), depth_aggregates float64 (d, n_slots): registers and aggregates at each depth. d is as
    large as the longest window. chain int64 (d + 1, 2).

    t_ms int64 (c,), begin, take bool (n, c): of the store.
    """
    n_steps = edges.shape[0]
    last = n_steps - 1
    rows = np.empty(depth_rows.shape[1], np.int64)
    aggregates = np.empty(depth_aggregates.shape[1], np.float64)
    stack = np.empty(MAX_STACK, np.float64)
    while position[WINDOW] < n_offers:
        end = position[WINDOW]
        while offers[end, ENDS_WINDOW] == 0:
            end += 1
        partition = offers[end, OFFERED_TO]
        while position[FIRST] <= end:
            first = position[FIRST]
            if counters[N_MATCHES] >= match_partition.shape[0] or (
                counters[N_CELLS] + end - position[WINDOW] + 1 > match_cells.shape[0]
            ):
                return False
            if position[DEPTH] == 0:
                row = offers[first, OFFERED_ROW]
                if not begin[0, row] or not starts(
                    code, bounds, constants, columns, slots, loops, edges, row, chain, rows, aggregates, stack
                ):  # fmt: skip
                    position[FIRST] += 1
                    continue
                counters[N_CREATED] += 1
                depth_rows[0] = rows
                depth_aggregates[0] = aggregates
                cursor[0] = 2 * (first + 1)
                position[DEPTH] = 1
                if first == end and n_steps == 1 and completes(
                    code, bounds, constants, columns, loops, edges, chain, 1, rows, aggregates, stack
                ):  # fmt: skip
                    _record(chain, 1, partition, match_partition, match_offsets, match_cells, counters)
                continue
            depth = position[DEPTH]
            counters[PEAK_LIVE] = max(counters[PEAK_LIVE], depth)
            at, move = cursor[depth - 1] // 2, cursor[depth - 1] % 2
            if at > end:
                position[DEPTH] -= 1
                if position[DEPTH] == 0:
                    position[FIRST] += 1
                continue
            cursor[depth - 1] += 1
            row = offers[at, OFFERED_ROW]
            here = chain[depth - 1, COMPONENT]
            there = here + 1 - move
            if strict_ties and t_ms[row] <= t_ms[chain[depth - 1, ROW]]:
                continue
            if move == 0:
                if there == n_steps or not begin[there, row]:
                    continue
            elif edges[here, IS_KLEENE] == 0 or not take[here, row]:
                continue
            if there == last and edges[last, IS_KLEENE] == 0 and at < end:
                continue  # matches that end earlier are found in their own windows
            rows[:] = depth_rows[depth - 1]
            aggregates[:] = depth_aggregates[depth - 1]
            if move == 0:
                holds = begins(code, bounds, constants, columns, slots, loops, edges, here, row, chain, depth,
                               rows, aggregates, stack)  # fmt: skip
            else:
                holds = takes(code, bounds, constants, columns, slots, loops, edges, here, row, chain, depth,
                              rows, aggregates, stack)  # fmt: skip
            if not holds:
                continue
            counters[N_CREATED] += 1
            if at == end:
                if there == last and completes(
                    code, bounds, constants, columns, loops, edges, chain, depth + 1, rows, aggregates, stack
                ):  # fmt: skip
                    _record(chain, depth + 1, partition, match_partition, match_offsets, match_cells, counters)
                continue
            depth_rows[depth] = rows
            depth_aggregates[depth] = aggregates
            cursor[depth] = 2 * (at + 1)
            position[DEPTH] = depth + 1
        position[WINDOW] = end + 1
        position[FIRST] = end + 1
    return True
