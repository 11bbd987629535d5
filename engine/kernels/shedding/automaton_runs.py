"""Runs of an automaton observed, valued and given up (pSPICE, sections III-C1 and III-F).

`runs`, `nodes`, `heads`, `lengths`, `counts`: see `engine.kernels.automaton.runs`. Runs are never merged: each stands
for one partial match. A run is known again after an event by its node: it has the same one if it did nothing, and what
came of it otherwise has a new node whose PARENT is the old one. The list of no partition, the last one, is left out:
its runs stand for runs of every partition that is still to come, and complete nothing themselves.
"""

from __future__ import annotations

import numpy as np

from engine.kernels.automaton.runs import EDGE, FIRST_ROW, FOLLOWING, FREE, N_LIVE, NODE, PARENT, ROW
from engine.kernels.automaton.tables import ACTIONS, ACTIONS_END, TARGET
from engine.kernels.compile.ways import leaf
from engine.kernels.shedding.observing import NOT_OFFERED
from engine.kernels.shedding.sample import is_protected


@leaf
def number_states(nodes, start, end, edges, actions, first, tops, strides, numbers, counters, states):
    """The run states of nodes start..end - 1, which stand after those that they lead from.

    edges, actions: see `engine.kernels.automaton.tables`. first: int64 (n_states,), tops, strides: int64 (n_states,
    n_counters), numbers: int64 (n_positions,), see `engine.plan.automaton.run_states`. counters: int64 (n_nodes,
    n_counters), after the node's event, states: int64 (n_nodes,); both written from `start` on.
    """
    for node in range(start, end):
        edge, parent = nodes[node, EDGE], nodes[node, PARENT]
        for k in range(counters.shape[1]):
            counters[node, k] = counters[parent, k] if parent >= 0 else 0
        for a in range(edges[edge, ACTIONS], edges[edge, ACTIONS_END]):
            counter = actions[a, 0]
            counters[node, counter] = 1 if actions[a, 1] else counters[node, counter] + 1
        state = edges[edge, TARGET]
        position = first[state]
        for k in range(counters.shape[1]):
            position += min(counters[node, k], tops[state, k]) * strides[state, k]
        states[node] = numbers[position]


@leaf
def mark_offered(
    runs, heads, first_list, last_list, t_ms, within_ms, now_ms, protected, states, state_of, marked, n_offers
):  # fmt: skip
    """Before an event at now_ms: note the state of each run of lists [first, last) that is within its window; with
    protected > 0 only of the sample that is never dropped (`engine.kernels.shedding.sample`).

    t_ms: int64 (c,), of the store. states: int64 (n_nodes,), from `number_states`. state_of: int64 (n_nodes,), all
    NOT_OFFERED, written at the nodes of runs; marked: int64 (n_runs,), written: these nodes, of which the number is
    returned. n_offers: int64 (n_run_states,), added to.
    """
    n = 0
    for chain in range(first_list, min(last_list, heads.shape[0] - 1)):
        run = heads[chain]
        while run >= 0:
            start_ms = t_ms[runs[run, FIRST_ROW]]
            if now_ms - start_ms <= within_ms and (protected == 0 or is_protected(start_ms, protected)):
                node = runs[run, NODE]
                state_of[node] = states[node]
                marked[n] = node
                n += 1
                n_offers[states[node]] += 1
            run = runs[run, FOLLOWING]
    return n


@leaf
def count_next(
    runs, heads, first_list, last_list, nodes, n_nodes_before, n_nodes, states, rows, matched_edges, offsets, n_matches,
    state_of, n_next,
):  # fmt: skip
    """After the event: count the runs and matches that came of those noted before.

    n_nodes_before, n_nodes: before the event and now. states: int64 (n_nodes,), of all nodes now. rows, matched_edges:
    int64 (m,), offsets: int64 (n_matches + 1,), the events of the matches that it completed, as they were found.
    state_of: int64 (n_nodes,), as `mark_offered` left it. n_next: int64 (n_run_states, n_run_states + 1), added to.
    """
    n_states = n_next.shape[0]
    for chain in range(first_list, min(last_list, heads.shape[0] - 1)):
        run = heads[chain]
        while run >= 0:
            node = runs[run, NODE]
            before = node if node < n_nodes_before else nodes[node, PARENT]
            if before >= 0 and state_of[before] != NOT_OFFERED:
                n_next[state_of[before], states[node]] += 1
            run = runs[run, FOLLOWING]
    node = n_nodes_before  # each match is that of a new node, and both are in the order of the edges followed
    for match in range(n_matches):
        while node < n_nodes and not _leads_to(nodes, node, rows, matched_edges, offsets[match], offsets[match + 1]):
            node += 1
        if node == n_nodes:
            break
        parent = nodes[node, PARENT]
        if parent >= 0 and state_of[parent] != NOT_OFFERED:
            n_next[state_of[parent], n_states] += 1
        node += 1


@leaf
def _leads_to(nodes, node, rows, matched_edges, start, end):
    """Whether the events of a match are those of the path to a node."""
    for at in range(end - 1, start - 1, -1):
        if node < 0 or nodes[node, ROW] != rows[at] or nodes[node, EDGE] != matched_edges[at]:
            return False
        node = nodes[node, PARENT]
    return node < 0


@leaf
def unmark(state_of, marked, n_marked):
    """Make all of state_of, int64 (n_nodes,), NOT_OFFERED again; marked: int64 (n_runs,), from `mark_offered`."""
    for k in range(n_marked):
        state_of[marked[k]] = NOT_OFFERED


@leaf
def utilities(
    runs, heads, t_ms, within_ms, now_ms, states, events_per_ms, values, bin_events, protected, found, utility
):  # fmt: skip
    """The number and utility of each run, list after list; returns how many.

    t_ms: int64 (c,), of the store. states: int64 (n_nodes,), from `number_states`. events_per_ms: float64 (n_lists,),
    the rate of events that reach the runs of a partition. values: float64 (n_run_states, n_bins + 1), by state and bins
    of bin_events events that are left in the window, interpolated linearly.

    protected: of every so many runs one has infinite utility, chosen by its first event's time, 0 for none: they are
    the sample that is observed while others are dropped. So have those of the last list. found: int64 (n_runs,),
    utility: float64 (n_runs,), written.
    """
    n = 0
    last_bin = values.shape[1] - 1
    for chain in range(heads.shape[0]):
        run = heads[chain]
        while run >= 0:
            start_ms = t_ms[runs[run, FIRST_ROW]]
            found[n] = run
            if chain == heads.shape[0] - 1 or (protected > 0 and is_protected(start_ms, protected)):
                utility[n] = np.inf
            else:
                left_ms = max(start_ms + within_ms - now_ms, 0)
                at = min(left_ms * events_per_ms[chain] / bin_events, float(last_bin))
                before = min(int(at), last_bin - 1)
                state = states[runs[run, NODE]]
                low, high = values[state, before], values[state, before + 1]
                utility[n] = low + (high - low) * (at - before)
            n += 1
            run = runs[run, FOLLOWING]
    return n


@leaf
def give_up(runs, heads, lengths, counts, chosen):
    """Take the chosen runs out of their lists; those that stay keep their order. chosen: bool (c,), by run."""
    for chain in range(heads.shape[0]):
        before, run = -1, heads[chain]
        while run >= 0:
            following = runs[run, FOLLOWING]
            if chosen[run]:
                if before >= 0:
                    runs[before, FOLLOWING] = following
                else:
                    heads[chain] = following
                runs[run, FOLLOWING] = counts[FREE]
                counts[FREE] = run
                lengths[chain] -= 1
                counts[N_LIVE] -= 1
            else:
                before = run
            run = following


__all__ = ["count_next", "give_up", "mark_offered", "number_states", "unmark", "utilities"]
