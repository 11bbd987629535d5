"""One run per partial match for skip till any match: SASE+'s own evaluation (SASE+ section 5, SASE++ section 4).

Every event that a run can take clones it. The run that was cloned stays behind, until its window has passed; a clone
points to it, so a run is the newest event of its partial match and the chain of its ancestors the others.

Beside the arrays of `engine.kernels.baselines.edges`:

- runs int64 (c, 5 + r): PARENT (run), STATE (step), LENGTH (events), NEXT (run of the partition), EVENT (row),
  registers. run_aggregates float64 (c, n_slots). free int64 (c,): stack of unused runs.
- list_head, list_length int64 (p,): the live runs of each partition.
- offers, begin, take: see `engine.kernels.baselines.buffers`. started int64 (n_offers,): the run that an offer starts.
- match_offsets int64 (., ): end of each match in match_cells int64 (., 2): row, component. match_partition int64 (.,).
- counters int64: see below.
"""

from __future__ import annotations

import numpy as np

from engine.kernels.baselines.buffers import OFFERED_ROW, OFFERED_TO
from engine.kernels.baselines.edges import (
    COMPONENT,
    IS_KLEENE,
    PROCEED,
    ROW,
    TAKE,
    begins,
    completes,
    starts,
    takes,
)
from engine.kernels.compile.ways import kernel, leaf
from engine.kernels.programs.opcodes import MAX_STACK

# Columns of runs.
PARENT = 0
STATE = 1
LENGTH = 2
NEXT = 3
EVENT = 4
REGISTERS = 5

# Entries of counters.
N_FREE = 0
N_LIVE = 1
PEAK_LIVE = 2
N_CREATED = 3
N_MATCHES = 4
N_CELLS = 5
LONGEST = 6
NEEDED_RUNS = 7
NEEDED_MATCHES = 8
NEEDED_CELLS = 9
N_COUNTERS = 10


@kernel
def start_runs(
    code, bounds, constants, columns, slots, loops, edges, begin, offers, started, n_offers, runs, run_aggregates,
    free, counters,
):  # fmt: skip
    """Run initialisation: a run for every offer whose event may be the first of a match. `free` must hold them all."""
    rows = np.empty(runs.shape[1] - REGISTERS, np.int64)
    aggregates = np.empty(run_aggregates.shape[1], np.float64)
    stack = np.empty(MAX_STACK, np.float64)
    chain = np.empty((1, 2), np.int64)
    for k in range(n_offers):
        started[k] = -1
        row = offers[k, OFFERED_ROW]
        if begin[0, row] and starts(
            code, bounds, constants, columns, slots, loops, edges, row, chain, rows, aggregates, stack
        ):  # fmt: skip
            started[k] = _new_run(runs, run_aggregates, free, counters, -1, 0, 1, row, rows, aggregates)


@kernel
def match_runs(
    code, bounds, constants, columns, slots, loops, edges, within, strict_ties, t_ms, begin, take,
    offers, started, start, end, runs, run_aggregates, free, list_head, list_length, chain,
    match_partition, match_offsets, match_cells, counters,
):  # fmt: skip
    """Pattern matching: make the offers start..end-1; returns the first that was not made.

    It stops early when runs or matches might not hold what the next offer needs (NEEDED_... say what that is); nothing
    of that offer is done.

    t_ms int64 (c,): of the store. counters int64 (N_COUNTERS,).
    """
    n_steps = edges.shape[0]
    last = n_steps - 1
    rows = np.empty(runs.shape[1] - REGISTERS, np.int64)
    aggregates = np.empty(run_aggregates.shape[1], np.float64)
    stack = np.empty(MAX_STACK, np.float64)
    for k in range(start, end):
        row, partition = offers[k, OFFERED_ROW], offers[k, OFFERED_TO]
        t = t_ms[row]
        if not _capacity(begin, take, row, partition, runs, list_head, list_length, chain, match_partition, match_cells,
                     counters, last):  # fmt: skip
            return k
        new_head, new_tail, n_new = -1, -1, 0
        kept_head, kept_tail, n_kept = -1, -1, 0
        run = list_head[partition]
        while run >= 0:
            following = runs[run, NEXT]
            if t - t_ms[runs[run, REGISTERS]] > within:
                free[counters[N_FREE]] = run
                counters[N_FREE] += 1
                run = following
                continue
            if kept_tail >= 0:
                runs[kept_tail, NEXT] = run
            else:
                kept_head = run
            kept_tail = run
            n_kept += 1
            here = runs[run, STATE]
            if not (strict_ties and t <= t_ms[runs[run, EVENT]]):
                for move in range(2):
                    there = here + 1 - move
                    if move == 0:
                        if there == n_steps or not begin[there, row]:
                            continue
                    elif edges[here, IS_KLEENE] == 0 or not take[here, row]:
                        continue
                    n_chain = runs[run, LENGTH]
                    for register in range(rows.shape[0]):
                        rows[register] = runs[run, REGISTERS + register]
                    for slot in range(aggregates.shape[0]):
                        aggregates[slot] = run_aggregates[run, slot]
                    if _looks_back(edges, here, there, move):
                        _trace(runs, run, chain)
                    if move == 0:
                        holds = begins(code, bounds, constants, columns, slots, loops, edges, here, row, chain,
                                       n_chain, rows, aggregates, stack)  # fmt: skip
                    else:
                        holds = takes(code, bounds, constants, columns, slots, loops, edges, here, row, chain,
                                      n_chain, rows, aggregates, stack)  # fmt: skip
                    if not holds:
                        continue
                    if there == last and completes(
                        code, bounds, constants, columns, loops, edges, chain, n_chain + 1, rows, aggregates, stack
                    ):  # fmt: skip
                        _trace(runs, run, chain)
                        _record(chain, n_chain + 1, partition, match_partition, match_offsets, match_cells, counters)
                    if there == last and edges[there, IS_KLEENE] == 0:
                        counters[N_CREATED] += 1  # it ends as it is made
                        continue
                    clone = _new_run(
                        runs, run_aggregates, free, counters, run, there, n_chain + 1, row, rows, aggregates
                    )  # fmt: skip
                    runs[clone, NEXT] = new_head
                    new_head = clone
                    n_new += 1
                    if new_tail < 0:
                        new_tail = clone
            run = following
        run = started[k]
        if run >= 0:
            for register in range(rows.shape[0]):
                rows[register] = runs[run, REGISTERS + register]
            for slot in range(aggregates.shape[0]):
                aggregates[slot] = run_aggregates[run, slot]
            chain[0, ROW], chain[0, COMPONENT] = row, 0
            if n_steps == 1 and completes(
                code, bounds, constants, columns, loops, edges, chain, 1, rows, aggregates, stack
            ):  # fmt: skip
                _record(chain, 1, partition, match_partition, match_offsets, match_cells, counters)
            runs[run, NEXT] = new_head
            new_head = run
            n_new += 1
            if new_tail < 0:
                new_tail = run
        if kept_tail >= 0:
            runs[kept_tail, NEXT] = -1
        if new_tail >= 0:
            runs[new_tail, NEXT] = kept_head
        list_head[partition] = new_head if new_head >= 0 else kept_head
        counters[N_LIVE] += n_kept + n_new - list_length[partition]
        list_length[partition] = n_kept + n_new
        counters[PEAK_LIVE] = max(counters[PEAK_LIVE], counters[N_LIVE])
    return end


@leaf
def _capacity(
    begin, take, row, partition, runs, list_head, list_length, chain, match_partition, match_cells, counters, last
):  # fmt: skip
    """Whether there is room for all that one offer may make; otherwise NEEDED_... are set."""
    counters[NEEDED_RUNS] = 2 * list_length[partition]
    n_matches, n_cells = 1, 1
    if begin[last, row] or take[last, row]:
        run = list_head[partition]
        while run >= 0:
            if runs[run, STATE] >= last - 1:
                n_matches += 2
                n_cells += 2 * (runs[run, LENGTH] + 1)
            run = runs[run, NEXT]
    counters[NEEDED_MATCHES] = n_matches
    counters[NEEDED_CELLS] = n_cells
    return (
        counters[NEEDED_RUNS] <= counters[N_FREE]
        and counters[N_MATCHES] + n_matches <= match_partition.shape[0]
        and counters[N_CELLS] + n_cells <= match_cells.shape[0]
        and counters[LONGEST] + 2 <= chain.shape[0]
    )


@leaf
def _looks_back(edges, here, there, move):
    """Whether a predicate of this move ranges over the events of an earlier component."""
    last = edges.shape[0] - 1
    if move == 0:
        found = edges[here, PROCEED + 2] > edges[here, PROCEED + 1] or edges[there, 3] > edges[there, 2]
    else:
        found = edges[here, TAKE + 2] > edges[here, TAKE + 1]
    return found or (there == last and edges[last, PROCEED + 2] > edges[last, PROCEED + 1])


@leaf
def _trace(runs, run, chain):
    """Write the events of a run in time order."""
    while run >= 0:
        at = runs[run, LENGTH] - 1
        chain[at, ROW] = runs[run, EVENT]
        chain[at, COMPONENT] = runs[run, STATE]
        run = runs[run, PARENT]


@leaf
def _new_run(runs, run_aggregates, free, counters, parent, state, length, row, rows, aggregates):
    counters[N_FREE] -= 1
    counters[N_CREATED] += 1
    counters[LONGEST] = max(counters[LONGEST], length)
    run = free[counters[N_FREE]]
    runs[run, PARENT] = parent
    runs[run, STATE] = state
    runs[run, LENGTH] = length
    runs[run, EVENT] = row
    for register in range(rows.shape[0]):
        runs[run, REGISTERS + register] = rows[register]
    for slot in range(aggregates.shape[0]):
        run_aggregates[run, slot] = aggregates[slot]
    return run


@leaf
def _record(chain, n_chain, partition, match_partition, match_offsets, match_cells, counters):
    at = counters[N_CELLS]
    for k in range(n_chain):
        match_cells[at + k, ROW] = chain[k, ROW]
        match_cells[at + k, COMPONENT] = chain[k, COMPONENT]
    counters[N_CELLS] += n_chain
    match_partition[counters[N_MATCHES]] = partition
    counters[N_MATCHES] += 1
    match_offsets[counters[N_MATCHES]] = counters[N_CELLS]


@leaf
def drop_expired_runs(t_ms, within, watermark_ms, runs, free, list_head, list_length, counters):
    """Free the runs whose window the watermark has passed.

    t_ms int64 (c,): of the store. counters int64 (N_COUNTERS,).
    """
    for partition in range(list_head.shape[0]):
        kept = -1
        n_kept = 0
        run = list_head[partition]
        list_head[partition] = -1
        while run >= 0:
            following = runs[run, NEXT]
            if t_ms[runs[run, REGISTERS]] + within < watermark_ms:
                free[counters[N_FREE]] = run
                counters[N_FREE] += 1
            else:
                if kept >= 0:
                    runs[kept, NEXT] = run
                else:
                    list_head[partition] = run
                runs[run, NEXT] = -1
                kept = run
                n_kept += 1
            run = following
        counters[N_LIVE] += n_kept - list_length[partition]
        list_length[partition] = n_kept
