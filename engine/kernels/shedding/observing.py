"""What becomes of the runs of a partition by one event (pSPICE, section III-C1).

`runs`, `chains`, `nodes`, `steps`: see `engine.kernels.runs.arrays` (runs: the fields of its record; of the matches
too). A run is known again after an event by the node of its newest event: it has the same one if it did nothing, and
what came of it otherwise is a new node whose PARENT is the old one. That holds also for runs that are merged into
another one by the event: a union stands above their new nodes.
"""

from __future__ import annotations

from engine.kernels.compile.ways import leaf
from engine.kernels.runs.arrays import (
    CHAIN_HEAD,
    COMPONENT,
    FIRST_REGISTER,
    HEAD,
    IS_KLEENE,
    NEXT,
    PARENT,
    STATE,
    UNION,
)
from engine.kernels.shedding.sample import is_protected

NOT_OFFERED = -1
"""State of a node that is the newest of no run that the event is offered to."""


@leaf
def mark_offered(
    runs, chains, first_chain, last_chain, t_ms, within_ms, now_ms, protected, state_of, marked, n_offers
):  # fmt: skip
    """Before an event at now_ms: note the state of each run of chains [first, last) that is within its window; with
    protected > 0 only of the sample that is never dropped (`engine.kernels.shedding.sample`).

    t_ms: int64 (c,), of the store. state_of: int64 (n_nodes,), all NOT_OFFERED, written at the newest nodes of runs;
    marked: int64 (n_runs,), written: these nodes, of which the number is returned. n_offers: int64 (n_states,), added
    to.
    """
    n = 0
    for chain in range(first_chain, last_chain):
        run = chains[chain, CHAIN_HEAD]
        while run >= 0:
            start_ms = t_ms[runs[run, FIRST_REGISTER]]
            if now_ms - start_ms <= within_ms and (protected == 0 or is_protected(start_ms, protected)):
                state = runs[run, STATE]
                state_of[runs[run, HEAD]] = state
                marked[n] = runs[run, HEAD]
                n += 1
                n_offers[state] += 1
            run = runs[run, NEXT]
    return n


@leaf
def count_next(
    runs, chains, first_chain, last_chain, nodes, n_nodes_before, n_nodes, steps, matches, n_matches, state_of, n_next
):
    """After the event: count the runs and matches that came of those noted before.

    n_nodes_before, n_nodes: before the event and now. matches: int64 (c, 4), the fields of those completed by it,
    n_matches of them. state_of: int64 (n_nodes,), as `mark_offered` left it. n_next: int64 (n_states, n_states + 1),
    added to.
    """
    n_steps = steps.shape[0]
    for chain in range(first_chain, last_chain):
        run = chains[chain, CHAIN_HEAD]
        while run >= 0:
            head = runs[run, HEAD]
            if head < n_nodes_before and state_of[head] != NOT_OFFERED:
                n_next[state_of[head], runs[run, STATE]] += 1
            run = runs[run, NEXT]
    for node in range(n_nodes_before, n_nodes):
        component = nodes[node, COMPONENT]
        if component == UNION or nodes[node, PARENT] < 0:
            continue
        before = state_of[nodes[node, PARENT]]
        if before != NOT_OFFERED and (component < n_steps - 1 or steps[component, IS_KLEENE] != 0):
            n_next[before, component] += 1
    for match in range(n_matches):
        parent = nodes[matches[match, HEAD], PARENT]
        if parent >= 0 and state_of[parent] != NOT_OFFERED:
            n_next[state_of[parent], n_steps] += 1


@leaf
def unmark(state_of, marked, n_marked):
    """Make all of state_of, int64 (n_nodes,), NOT_OFFERED again; marked: int64 (n_runs,), from `mark_offered`."""
    for k in range(n_marked):
        state_of[marked[k]] = NOT_OFFERED


__all__ = ["NOT_OFFERED", "count_next", "mark_offered", "unmark"]
