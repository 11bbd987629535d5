"""Upkeep of the run-based runtime: expiry, reachability, the order of runs, what a match has selected."""

from __future__ import annotations

import numpy as np
from numba import njit

from engine.kernels.nfa_arrays import COMPONENT, FIRST_REGISTER, N_FREE, N_LIVE, NEXT, PARENT, PARTITION, ROW


@njit(cache=True, nogil=True)
def expire(t_ms, within_ms, runs, free, list_head, chain_length, counters, watermark_ms):
    """Remove every run that no event at or after the watermark can extend within the window."""
    for chain in range(list_head.shape[0]):
        before = -1
        run = list_head[chain]
        while run >= 0:
            following = runs[run, NEXT]
            if t_ms[runs[run, FIRST_REGISTER]] + within_ms < watermark_ms:
                if before >= 0:
                    runs[before, NEXT] = following
                else:
                    list_head[chain] = following
                free[counters[N_FREE]] = run
                counters[N_FREE] += 1
                counters[N_LIVE] -= 1
                chain_length[chain] -= 1
            else:
                before = run
            run = following


@njit(cache=True, nogil=True)
def mark_rows(numbers, marked):
    """Mark in `marked` (bool, per row) every row number of a matrix that is not -1."""
    for i in range(numbers.shape[0]):
        for k in range(numbers.shape[1]):
            if numbers[i, k] >= 0:
                marked[numbers[i, k]] = True


@njit(cache=True, nogil=True)
def mark_nodes(heads, nodes, reachable):
    """Mark in `reachable` (bool, per node) every node on a chain from one of `heads`."""
    for k in range(heads.shape[0]):
        node = heads[k]
        while node >= 0 and not reachable[node]:
            reachable[node] = True
            node = nodes[node, PARENT]


@njit(cache=True, nogil=True)
def live_runs(runs, list_head, n_live):
    """The numbers of all runs, chain after chain, each chain from its end so that re-inserting keeps its order."""
    found = np.empty(n_live, np.int64)
    chain_of = np.empty(n_live, np.int64)
    n = 0
    for chain in range(list_head.shape[0]):
        start = n
        run = list_head[chain]
        while run >= 0:
            found[n] = run
            chain_of[n] = chain
            n += 1
            run = runs[run, NEXT]
        found[start:n] = found[start:n][::-1].copy()
    return found, chain_of


@njit(cache=True, nogil=True)
def link_runs(runs, unbound, n_runs, list_head, chain_length):
    """Put the first `n_runs` runs before those of their chains, one after the other; `unbound`: bool (n_runs,)."""
    last = list_head.shape[0] - 1
    for run in range(n_runs):
        chain = last if unbound[run] else runs[run, PARTITION]
        runs[run, NEXT] = list_head[chain]
        list_head[chain] = run
        chain_length[chain] += 1


@njit(cache=True, nogil=True)
def spell_out(nodes, heads, offsets, rows, components):
    """The chains that end in `heads`, each in the order in which it was selected.

    Without room in `rows` and `components` (both empty) only offsets int64 (n + 1,) is written.
    """
    offsets[0] = 0
    for at in range(heads.shape[0]):
        n = 0
        node = heads[at]
        while node >= 0:
            n += 1
            node = nodes[node, PARENT]
        offsets[at + 1] = offsets[at] + n
        if rows.shape[0] == 0:
            continue
        node = heads[at]
        for place in range(offsets[at + 1] - 1, offsets[at] - 1, -1):
            rows[place] = nodes[node, ROW]
            components[place] = nodes[node, COMPONENT]
            node = nodes[node, PARENT]
