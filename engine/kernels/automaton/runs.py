"""Runs of an automaton over precise events: contiguity and skip till next match (SASE+ section 3.2, step 3).

Runs of a partition are a linked list; what a run has selected is a path of nodes that share their beginnings. The list
of no partition holds the runs that broadcast events alone have made: a new partition starts with a copy of them.

What one event may cost is paid from an account that each event of the stream adds to (`automaton.search`). Where that
does not suffice the runs that the event has not been offered to are given up.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from engine.kernels.automaton.edges import can_go_on, end_in, first_since, follow, is_free, passes_having, put
from engine.kernels.automaton.found import emit, partition_of_match, with_more_events
from engine.kernels.automaton.search import STEPS_PER_EVENT, allowance_at, settle
from engine.kernels.automaton.tables import BLOCKS, STRATEGY, TARGET, VARIABLE, WITHIN_MS, longer_chain, new_chain
from engine.kernels.compile.ways import kernel, leaf
from engine.kernels.programs.strategies import PARTITION_CONTIGUITY, SKIP_TILL_NEXT_MATCH, STRICT_CONTIGUITY

# Columns of Runs.runs.
STATE, NODE, FIRST_ROW, FOLLOWING = 0, 1, 2, 3

# Columns of Runs.nodes.
ROW, EDGE, PARENT = 0, 1, 2

# Places in Runs.counts.
N_NODES, N_RUNS, FREE, N_LIVE, N_OFFERED = 0, 1, 2, 3, 4


_STEPS_PER_EDGE = 3
"""What it costs to try an edge of a run: its events are gone through."""
_STEPS_PER_RUN = 3
"""What it costs to begin a run."""


class Runs(NamedTuple):
    """runs: int64 (n, 4); FOLLOWING is the next of its list, or of the free ones. nodes: int64 (n, 3). heads, lengths,
    last_seen: int64 (n_partitions + 1,), the last one for no partition: first run, number of runs, position of the
    newest event of the partition; known: bool. counts: int64 (5,): nodes, runs, first free run, live runs, and
    the pairs of a run and an event that were looked at."""

    runs: npt.NDArray[np.int64]
    nodes: npt.NDArray[np.int64]
    heads: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]
    known: npt.NDArray[np.bool_]
    last_seen: npt.NDArray[np.int64]
    counts: npt.NDArray[np.int64]


@leaf
def _new_run(state, chain, run_state, node, first_row):
    run = state.counts[FREE]
    if run >= 0:
        state.counts[FREE] = state.runs[run, FOLLOWING]
    else:
        run = state.counts[N_RUNS]
        state.counts[N_RUNS] += 1
    state.runs[run, STATE], state.runs[run, NODE] = run_state, node
    state.runs[run, FIRST_ROW], state.runs[run, FOLLOWING] = first_row, state.heads[chain]
    state.heads[chain] = run
    state.lengths[chain] += 1
    state.counts[N_LIVE] += 1


@leaf
def _free_run(state, chain, run):
    state.runs[run, FOLLOWING] = state.counts[FREE]
    state.counts[FREE] = run
    state.lengths[chain] -= 1
    state.counts[N_LIVE] -= 1


@leaf
def _length(nodes, node):
    n = 0
    while node >= 0:
        n += 1
        node = nodes[node, PARENT]
    return n


@leaf
def _unroll(tables, nodes, node, chain, n):
    """Put the n events that lead to a node onto the chain, which has room for one more."""
    for at in range(n - 1, -1, -1):
        chain.rows[at], chain.edges[at] = nodes[node, ROW], nodes[node, EDGE]
        node = nodes[node, PARENT]
    chain.counters[0, :] = 0
    for at in range(n):
        put(tables, chain, at, chain.edges[at], chain.rows[at])


@leaf
def _extended(tables, state, chain, n, edge, node, owner):
    """The run of a chain of n events, `node` before the newest, goes on if it can; whether a match may end here."""
    target = tables.edges[edge, TARGET]
    new = state.counts[N_NODES]
    state.counts[N_NODES] += 1
    state.nodes[new, ROW], state.nodes[new, EDGE], state.nodes[new, PARENT] = chain.rows[n - 1], edge, node
    if can_go_on(tables, target, chain.counters[n]):
        _new_run(state, owner, target, new, chain.rows[0])
    return tables.state_exits[target + 1] > tables.state_exits[target]


@kernel
def _advanced(tables, store, state, chain, n, edge, node, owner, partition, is_emitted, work, found):
    """A run has followed an edge: chain of n events, `node` before the newest; False when a match has no room."""
    target = tables.edges[edge, TARGET]
    if not _extended(tables, state, chain, n, edge, node, owner) or not is_emitted:
        return True
    end = end_in(tables, store, chain, n, target)
    if end < 0 or not passes_having(tables, store, chain, n) or not is_free(
        tables, store, chain, n, partition, work
    ):  # fmt: skip
        return True
    if work[0] < 0:
        return True
    work[0] -= STEPS_PER_EVENT * (n + 2)
    own = partition_of_match(tables, store, chain, n, partition)
    return emit(tables, store, chain, n, own, end, found)


@leaf
def _begin_known(state, partition, unbound):
    """A partition seen for the first time has all runs that broadcast events have started so far."""
    state.known[partition] = True
    state.last_seen[partition] = -1
    run = state.heads[unbound]
    while run >= 0:
        _new_run(state, partition, state.runs[run, STATE], state.runs[run, NODE], state.runs[run, FIRST_ROW])
        run = state.runs[run, FOLLOWING]


@leaf
def _n_offers(state, partition, unbound):
    """How many runs one event may be offered to."""
    if partition < 0:
        return state.counts[N_LIVE] + unbound + 1
    return state.lengths[partition] + 1 + (0 if state.known[partition] else state.lengths[unbound])


@kernel
def advance_runs(tables, store, position, previous, state, start, end, terms, account, was_cut, found):
    """Offer rows start..end-1 to the runs; returns the first row not processed (end when all are), and the matches.

    terms, account: see `automaton.search.list_matches`. was_cut: bool (n_rows,), written: runs have been given up.

    position, previous: int64, under contiguity: the position of each row in the stream, and that of the event before it
    in its partition. It stops early when runs, nodes or matches might not hold what the next row needs; nothing of an
    unprocessed row is done but that found.counts[2] is 1 when it was the matches.

    position, previous: int64 (n_rows,), or (0,).
    """
    unbound = state.heads.shape[0] - 1
    within, strategy = tables.scalars[WITHIN_MS], tables.scalars[STRATEGY]
    n_out = 1
    for s in range(tables.state_edges.shape[0] - 1):
        n_out = max(n_out, tables.state_edges[s + 1] - tables.state_edges[s])
    chain = new_chain(tables, np.int64(64))
    work = np.zeros(1, np.int64)
    for row in range(start, end):
        partition = store.partition[row]
        # What follows an edge is paid for, what begins is not.
        n_begin = (1 if partition >= 0 else unbound + 1) * n_out
        needed = min(_n_offers(state, partition, unbound) * n_out, terms[0] // STEPS_PER_EVENT + n_begin + n_out)
        if partition >= 0 and not state.known[partition]:
            needed += state.lengths[unbound]
        if state.nodes.shape[0] - state.counts[N_NODES] < needed:
            return row, found
        if state.runs.shape[0] - state.counts[N_LIVE] < 2 * needed:
            return row, found
        if found.partition.shape[0] - found.counts[0] < needed:
            found.counts[2] = 1
            return row, found
        if partition >= 0 and not state.known[partition]:
            _begin_known(state, partition, unbound)
        allowance = allowance_at(account, terms, position[row])
        work[0] = allowance
        first = partition if partition >= 0 else 0
        last = partition + 1 if partition >= 0 else unbound + 1
        for owner in range(first, last):
            if owner != unbound and not state.known[owner]:
                continue
            own = owner if owner != unbound else -1
            before = -1
            if strategy == PARTITION_CONTIGUITY:
                before = previous[row]
                if partition < 0 and owner != unbound:
                    before = max(before, state.last_seen[owner])
            run, kept = state.heads[owner], -1
            state.heads[owner] = -1  # new runs are put here: they are not offered the event that made them
            tail = -1
            while run >= 0:
                state.counts[N_OFFERED] += 1
                following = state.runs[run, FOLLOWING]
                node, here = state.runs[run, NODE], state.runs[run, STATE]
                newest = state.nodes[node, ROW]
                keep = store.t_ms[row] - store.t_ms[state.runs[run, FIRST_ROW]] <= within
                if keep and strategy == STRICT_CONTIGUITY:
                    keep = position[row] == position[newest] + 1
                elif keep and strategy == PARTITION_CONTIGUITY:
                    keep = before == position[newest]
                if keep and work[0] >= 0:
                    work[0] -= 1
                keep = keep and work[0] >= 0
                if keep:
                    blocked, n = False, np.int64(0)
                    for edge in range(tables.state_edges[here], tables.state_edges[here + 1]):
                        if not store.begin[tables.edges[edge, VARIABLE], row]:
                            continue
                        if n == 0:
                            n = _length(state.nodes, node)
                            work[0] -= n // 8
                            while chain.rows.shape[0] < n + 2:
                                chain = longer_chain(tables, chain, np.int64(0))
                            _unroll(tables, state.nodes, node, chain, n)
                        work[0] -= _STEPS_PER_EDGE + n // 16
                        if follow(tables, store, chain, np.int64(0), n, edge, row):
                            work[0] -= STEPS_PER_EVENT
                            blocked = blocked or tables.edges[edge, BLOCKS] != 0
                            while found.rows.shape[0] - found.counts[1] < n + 1:
                                found = with_more_events(found)
                            _advanced(
                                tables, store, state, chain, n + 1, edge, node, owner, own, owner != unbound, work,
                                found,
                            )  # fmt: skip
                    keep = strategy == SKIP_TILL_NEXT_MATCH and not blocked
                if keep:
                    state.runs[run, FOLLOWING] = kept
                    kept = run
                    if tail < 0:
                        tail = run
                else:
                    _free_run(state, owner, run)
                run = following
            # A broadcast event begins runs in all partitions: those in which its window has events are paid for, the
            # others may have been forgotten.
            if owner != last - 1 and work[0] >= 0 and first_since(store, owner, store.t_ms[row] - within) < row:
                work[0] -= _STEPS_PER_RUN
            for edge in range(tables.state_edges[0], tables.state_edges[1]):
                if (work[0] >= 0 or owner == last - 1) and store.begin[tables.edges[edge, VARIABLE], row]:
                    chain.counters[0, :] = 0
                    if follow(tables, store, chain, np.int64(0), np.int64(0), edge, row):
                        while found.rows.shape[0] - found.counts[1] < 1:
                            found = with_more_events(found)
                        _advanced(
                            tables,
                            store,
                            state,
                            chain,
                            np.int64(1),
                            edge,
                            np.int64(-1),
                            owner,
                            own,
                            owner != unbound,
                            work,
                            found,
                        )
            if tail >= 0:
                state.runs[tail, FOLLOWING] = state.heads[owner]
                state.heads[owner] = kept
        was_cut[row] = work[0] < 0
        settle(account, allowance - work[0])
        if partition >= 0 and strategy == PARTITION_CONTIGUITY:
            state.last_seen[partition] = position[row]
    return end, found
