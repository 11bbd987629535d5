"""Upkeep of the run-based runtime: expiry, reachability, the order of runs, what a match has selected."""

from __future__ import annotations

import numpy as np
from numba import njit

from engine.kernels.nfa_arrays import COMPONENT, N_FREE, N_LIVE, NEXT, PARENT, ROW


@njit(cache=True, nogil=True)
def expire(plan, store, runs, counters, watermark_ms):
    """Remove every run that no event at or after the watermark can extend within the window."""
    for chain in range(runs.list_head.shape[0]):
        before = -1
        run = runs.list_head[chain]
        while run >= 0:
            following = runs.fields[run, NEXT]
            if store.t_ms[runs.rows[run, 0]] + plan.within_ms < watermark_ms:
                if before >= 0:
                    runs.fields[before, NEXT] = following
                else:
                    runs.list_head[chain] = following
                runs.free[counters[N_FREE]] = run
                counters[N_FREE] += 1
                counters[N_LIVE] -= 1
            else:
                before = run
            run = following


@njit(cache=True, nogil=True)
def mark_nodes(heads, nodes, reachable):
    """Mark in `reachable` (bool, per node) every node on a chain from one of `heads`."""
    for k in range(heads.shape[0]):
        node = heads[k]
        while node >= 0 and not reachable[node]:
            reachable[node] = True
            node = nodes[node, PARENT]


@njit(cache=True, nogil=True)
def live_runs(runs, n_live):
    """The numbers of all runs, chain after chain, each chain from its end so that re-inserting keeps its order."""
    found = np.empty(n_live, np.int64)
    chain_of = np.empty(n_live, np.int64)
    n = 0
    for chain in range(runs.list_head.shape[0]):
        start = n
        run = runs.list_head[chain]
        while run >= 0:
            found[n] = run
            chain_of[n] = chain
            n += 1
            run = runs.fields[run, NEXT]
        found[start:n] = found[start:n][::-1].copy()
    return found, chain_of


@njit(cache=True, nogil=True)
def selected_rows(nodes, head):
    """Rows and components on the chain that ends in `head`, in the order in which they were selected."""
    n = 0
    node = head
    while node >= 0:
        n += 1
        node = nodes[node, PARENT]
    rows = np.empty(n, np.int64)
    components = np.empty(n, np.int64)
    node = head
    for at in range(n - 1, -1, -1):
        rows[at] = nodes[node, ROW]
        components[at] = nodes[node, COMPONENT]
        node = nodes[node, PARENT]
    return rows, components
