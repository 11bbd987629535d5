"""Upkeep of the run-based runtime: expiry, what is still reachable, renumbering, the order of runs.

runs, chains, free, nodes, counters: see `engine.kernels.runs.arrays`.
"""

from __future__ import annotations

import numpy as np

from engine.kernels.compile.ways import kernel, leaf
from engine.kernels.runs.arrays import (
    BRANCH,
    CHAIN_HEAD,
    CHAIN_LENGTH,
    COMPONENT,
    FIRST_REGISTER,
    N_FREE,
    N_LIVE,
    NEXT,
    PARENT,
    PARTITION,
    ROW,
    UNION,
)


@leaf
def expire(t_ms, within_ms, runs, free, chains, counters, watermark_ms):
    """Remove every run that no event at or after the watermark can extend within the window.

    t_ms: int64 (c,), of the store.
    """
    for chain in range(chains.shape[0]):
        before = -1
        run = chains[chain, CHAIN_HEAD]
        while run >= 0:
            following = runs[run, NEXT]
            if t_ms[runs[run, FIRST_REGISTER]] + within_ms < watermark_ms:
                if before >= 0:
                    runs[before, NEXT] = following
                else:
                    chains[chain, CHAIN_HEAD] = following
                free[counters[N_FREE]] = run
                counters[N_FREE] += 1
                counters[N_LIVE] -= 1
                chains[chain, CHAIN_LENGTH] -= 1
            else:
                before = run
            run = following


@leaf
def mark_rows(numbers, marked):
    """Mark in `marked` (bool, per row) every row number of a matrix that is not -1.

    numbers: int64 (n, m). marked: bool (n_rows,), written.
    """
    for i in range(numbers.shape[0]):
        for k in range(numbers.shape[1]):
            if numbers[i, k] >= 0:
                marked[numbers[i, k]] = True


@leaf
def reach(nodes, n_nodes, t_ms, earliest_ms, heads, replaced, reachable, rows):
    """Which nodes and rows the histories of `heads` (int64, overwritten) still need.

    A union whose other side started before earliest_ms leads one way only: replaced int64 (n_nodes,) says which node
    stands for each from now on. reachable: bool (n_nodes,); rows: bool, per row. Nodes stand after those below them.

    t_ms: int64 (c,), of the store. heads: int64 (n,).
    """
    for node in range(n_nodes):
        replaced[node] = node
        if nodes[node, COMPONENT] == UNION and t_ms[nodes[node, BRANCH]] < earliest_ms:
            replaced[node] = replaced[nodes[node, PARENT]]
    for at in range(heads.shape[0]):
        heads[at] = replaced[heads[at]]
        reachable[heads[at]] = True
    for node in range(n_nodes - 1, -1, -1):
        if not reachable[node]:
            continue
        if nodes[node, PARENT] >= 0:
            reachable[replaced[nodes[node, PARENT]]] = True
        if nodes[node, COMPONENT] == UNION:
            reachable[replaced[nodes[node, ROW]]] = True
            rows[nodes[node, BRANCH]] = True
        else:
            rows[nodes[node, ROW]] = True


@leaf
def renumber_nodes(nodes, n_nodes, replaced, reachable, new_row, kept, new_node):
    """Copy the reachable nodes to `kept`, with rows and nodes under their new numbers; new_node: int64 (n_nodes + 1,),
    -1 for those dropped and at the end.

    replaced: int64 (n_nodes,). new_row: int64 (n_rows,). kept: int64 (n_kept, 4), written.
    """
    n = 0
    new_node[n_nodes] = -1
    for node in range(n_nodes):
        new_node[node] = -1
        if not reachable[node]:
            continue
        new_node[node] = n
        parent = nodes[node, PARENT]
        if parent >= 0:
            parent = new_node[replaced[parent]]
        kept[n, PARENT] = parent
        kept[n, COMPONENT] = nodes[node, COMPONENT]
        if nodes[node, COMPONENT] == UNION:
            kept[n, ROW] = new_node[replaced[nodes[node, ROW]]]
            kept[n, BRANCH] = new_row[nodes[node, BRANCH]]
        else:
            kept[n, ROW] = new_row[nodes[node, ROW]]
            if parent < 0:
                kept[n, BRANCH] = n
            elif kept[parent, COMPONENT] == UNION:
                kept[n, BRANCH] = parent
            else:
                kept[n, BRANCH] = kept[parent, BRANCH]
        n += 1
    return n


@kernel
def live_runs(runs, chains, n_live):
    """The numbers of all runs, chain after chain in their order, and the chain of each."""
    found = np.empty(n_live, np.int64)
    chain_of = np.empty(n_live, np.int64)
    n = 0
    for chain in range(chains.shape[0]):
        run = chains[chain, CHAIN_HEAD]
        while run >= 0:
            found[n] = run
            chain_of[n] = chain
            n += 1
            run = runs[run, NEXT]
    return found, chain_of


@leaf
def link_runs(runs, unbound, n_runs, chains):
    """Chain the first `n_runs` runs in their order; `unbound`: bool (n_runs,), those of no partition yet."""
    for run in range(n_runs - 1, -1, -1):
        chain = chains.shape[0] - 1 if unbound[run] else runs[run, PARTITION]
        runs[run, NEXT] = chains[chain, CHAIN_HEAD]
        chains[chain, CHAIN_HEAD] = run
        chains[chain, CHAIN_LENGTH] += 1


@leaf
def link_negated(partition_of, n_rows, negated, negated_before, newest_negated):
    """Chain the first `n_rows` rows by negation and partition; newest_negated: all -1 before.

    partition_of: int64 (c,). negated: bool (m, c). negated_before: int64 (m, c) and newest_negated: int64 (m, p + 1),
    written.
    """
    for negation in range(negated.shape[0]):
        for row in range(n_rows):
            if negated[negation, row]:
                position = partition_of[row] if partition_of[row] >= 0 else newest_negated.shape[1] - 1
                negated_before[negation, row] = newest_negated[negation, position]
                newest_negated[negation, position] = row
