"""Utilities of the runs of one plan, and giving up those that are chosen (pSPICE, section III-F).

`runs`, `chains`, `nodes`, `counters`: see `engine.kernels.runs.arrays` (runs: the fields of its record).
"""

from __future__ import annotations

import numpy as np

from engine.kernels.compile.ways import leaf
from engine.kernels.runs.arrays import (
    BRANCH,
    CHAIN_HEAD,
    COMPONENT,
    FIRST_REGISTER,
    HEAD,
    NEXT,
    PARENT,
    ROW,
    STATE,
    UNION,
)
from engine.kernels.runs.chains import END, unlink
from engine.kernels.shedding.sample import is_protected


@leaf
def count_histories(nodes, n_nodes, t_ms, earliest_ms, n_histories):
    """How many partial matches each node is the newest event of: more than one where runs have been merged.

    n_histories: float64 (n_nodes,), written. t_ms: int64 (c,), of the store: the other side of a union whose start is
    before earliest_ms has left the window and does not count. Nodes stand after those below them.
    """
    for node in range(n_nodes):
        below = nodes[node, PARENT]
        n = n_histories[below] if below >= 0 else 1.0
        if nodes[node, COMPONENT] == UNION and t_ms[nodes[node, BRANCH]] >= earliest_ms:
            n += n_histories[nodes[node, ROW]]
        n_histories[node] = n


@leaf
def utilities(
    runs, chains, t_ms, within_ms, now_ms, n_histories, events_per_ms, values, bin_events, protected, found, utility
):
    """The number and utility of each run, chain after chain; returns how many.

    t_ms: int64 (c,), of the store. n_histories: float64 (n_nodes,), see `count_histories`. events_per_ms: float64 (p,),
    the rate of events that reach the runs of a partition. values: float64 (n_states, n_bins + 1), by state and bins of
    bin_events events that are left in the window, interpolated linearly. A run that stands for several partial matches
    is worth as much as all of them: it costs as one.

    protected: of every so many runs one has infinite utility, chosen by its first event's time, 0 for none: they are
    the sample that is observed while others are dropped. So have the runs of the last chain, those of no partition yet:
    they stand for runs of every partition that is still to come. found: int64 (n_runs,), utility: float64 (n_runs,),
    written.
    """
    n = 0
    last_bin = values.shape[1] - 1
    unbound = chains.shape[0] - 1
    for chain in range(chains.shape[0]):
        run = chains[chain, CHAIN_HEAD]
        while run >= 0:
            start_ms = t_ms[runs[run, FIRST_REGISTER]]
            found[n] = run
            if chain == unbound or (protected > 0 and is_protected(start_ms, protected)):
                utility[n] = np.inf
            else:
                left_ms = max(start_ms + within_ms - now_ms, 0)
                at = min(left_ms * events_per_ms[chain] / bin_events, float(last_bin))
                before = min(int(at), last_bin - 1)
                state = runs[run, STATE]
                low, high = values[state, before], values[state, before + 1]
                utility[n] = n_histories[runs[run, HEAD]] * (low + (high - low) * (at - before))
            n += 1
            run = runs[run, NEXT]
    return n


@leaf
def give_up(runs, chains, counters, chosen):
    """Unlink the chosen runs; those that stay keep their order.

    runs: the whole record. chosen: bool (c,), by run.
    """
    for chain in range(chains.shape[0]):
        before = END
        run = chains[chain, CHAIN_HEAD]
        while run != END:
            following = runs.fields[run, NEXT]
            if chosen[run]:
                unlink(runs, chains, counters, chain, before, run)
            else:
                before = run
            run = following


__all__ = ["count_histories", "give_up", "utilities"]
