"""Skip till any match over an automaton: the matches that end in given events, depth first.

For each last event a pass backwards over the events of the window marks, for every edge and event, whether the match
can still be completed as far as types and local predicates tell. The search forwards follows marked edges alone, so
that it is given up only where a predicate between events fails.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from engine.kernels.automaton_edges import end_in, first_since, follow, gather, is_free, passes_having, write_values
from engine.kernels.automaton_tables import (
    MUST_BE_KEYED,
    N_POSITIVE,
    SOURCE,
    TARGET,
    VARIABLE,
    WITHIN_MS,
    new_chain,
)
from engine.kernels.compiling import kernel, leaf

DONE, FULL = 0, 1


class Found(NamedTuple):
    """Room for matches: partition, exit int64 (k,); offsets int64 (k + 1,); values float64 (k, n_returns); of their
    events rows, edges int64 (m,), iterations int64 (m, depth). counts: int64 (3,): matches, events, search steps that
    the budget did not cover."""

    partition: npt.NDArray[np.int64]
    exit: npt.NDArray[np.int64]
    offsets: npt.NDArray[np.int64]
    values: npt.NDArray[np.float64]
    rows: npt.NDArray[np.int64]
    edges: npt.NDArray[np.int64]
    iterations: npt.NDArray[np.int64]
    counts: npt.NDArray[np.int64]


@kernel
def emit(tables, store, chain, n, partition, end, found):
    """Add a match of n events; False when there is no room for it."""
    k, m = found.counts[0], found.counts[1]
    if k >= found.partition.shape[0] or m + n > found.rows.shape[0]:
        return False
    found.partition[k] = partition
    found.exit[k] = end
    write_values(tables, store, chain, n, found.values[k])
    found.rows[m : m + n] = chain.rows[:n]
    found.edges[m : m + n] = chain.edges[:n]
    found.iterations[m : m + n] = chain.iterations[:n]
    found.offsets[k + 1] = m + n
    found.counts[0] = k + 1
    found.counts[1] = m + n
    return True


@kernel
def with_more_events(found):
    """The same matches with twice the room for events."""
    m = found.counts[1]
    room = 2 * found.rows.shape[0] + 16
    rows, edges = np.empty(room, np.int64), np.empty(room, np.int64)
    iterations = np.zeros((room, found.iterations.shape[1]), np.int64)
    rows[:m], edges[:m], iterations[:m] = found.rows[:m], found.edges[:m], found.iterations[:m]
    return Found(
        found.partition, found.exit, found.offsets, found.values, rows, edges, iterations, found.counts
    )  # fmt: skip


@leaf
def partition_of_match(tables, store, chain, n, partition):
    """The partition of a match: BROADCAST (-1) when all its events are of broadcast types."""
    if not tables.scalars[MUST_BE_KEYED]:
        return partition
    for at in range(n):
        if store.partition[chain.rows[at]] >= 0:
            return partition
    return -1


@kernel
def _mark(tables, store, candidates, m, following):
    """following[e, j]: the first candidate from j on that edge e may take on the way to the last candidate, m if none.

    Returns whether a match can begin.
    """
    n_states = tables.state_edges.shape[0] - 1
    n_edges = tables.edges.shape[0]
    alive = np.zeros(n_states, np.bool_)
    reached = np.zeros(n_states, np.bool_)
    following[:, m] = m
    for j in range(m - 1, -1, -1):
        row = candidates[j]
        for e in range(n_edges):
            following[e, j] = following[e, j + 1]
            variable = tables.edges[e, VARIABLE]
            if variable >= tables.scalars[N_POSITIVE] or not store.begin[variable, row]:
                continue
            target = tables.edges[e, TARGET]
            completes = tables.state_exits[target + 1] > tables.state_exits[target] if j == m - 1 else alive[target]
            if completes:
                following[e, j] = j
                reached[tables.edges[e, SOURCE]] = True
        for s in range(n_states):
            alive[s] = alive[s] or reached[s]
    return alive[0]


@kernel
def _search(tables, store, chain, candidates, m, following, partition, budget, found):
    """Add the matches that end in the last of m candidates; FULL when there is no room for them."""
    states = np.empty(m + 1, np.int64)
    edges = np.empty(m + 1, np.int64)
    at = np.empty(m + 1, np.int64)
    level, steps = np.int64(0), 0
    chain.counters[0, :] = 0
    states[0], edges[0], at[0] = 0, tables.state_edges[0], 0
    while level >= 0:
        state, edge = states[level], edges[level]
        if edge >= tables.state_edges[state + 1]:
            level -= 1
            continue
        j = following[edge, at[level]]
        if j >= m:
            edges[level] += 1
            at[level] = _first_of(chain, candidates, level, m)
            continue
        at[level] = j + 1
        steps += 1
        if steps > budget:
            found.counts[2] += 1
            return DONE
        if not follow(tables, store, chain, np.int64(0), level, edge, candidates[j]):
            continue
        target = tables.edges[edge, TARGET]
        if j == m - 1:
            end = end_in(tables, store, chain, level + 1, target)
            if end >= 0 and not _accept(tables, store, chain, level + 1, partition, end, found):
                return FULL
        else:
            level += 1
            states[level], edges[level], at[level] = target, tables.state_edges[target], j + 1
    return DONE


@kernel
def _first_of(chain, candidates, level, m):
    """The first candidate after the newest event of a chain of `level` events."""
    if level == 0:
        return 0
    return np.searchsorted(candidates[:m], chain.rows[level - 1]) + 1


@kernel
def _accept(tables, store, chain, n, partition, end, found):
    """Add a complete chain if it is a match of this partition; False when there is no room."""
    own = partition_of_match(tables, store, chain, n, partition)
    if own != partition or not passes_having(tables, store, chain, n):
        return True
    return not is_free(tables, store, chain, n, partition) or emit(tables, store, chain, n, partition, end, found)


@kernel
def list_matches(tables, store, lasts, first_last, first_partition, budget, found):
    """Add the matches that end in lasts[first_last], from partition `first_partition` on, and in all later ones.

    lasts: int64, rows that may end a match. A broadcast row ends matches of every partition. budget: search steps per
    last event and partition. Returns (status, number of the last event, partition, matches and events before it): with
    FULL not all matches of that one are there.
    """
    n_partitions = store.starts.shape[0] - 2
    candidates = np.empty(256, np.int64)
    following = np.empty((tables.edges.shape[0], 257), np.int64)
    chain = new_chain(tables, np.int64(258))
    for number in range(first_last, lasts.shape[0]):
        last = lasts[number]
        own = store.partition[last]
        begin, stop = (own, own + 1) if own >= 0 else (-1, n_partitions)
        if number == first_last:
            begin = max(begin, first_partition)
        least = store.t_ms[last] - tables.scalars[WITHIN_MS]
        for partition in range(begin, stop):
            earliest = min(first_since(store, np.int64(-1), least), first_since(store, np.int64(partition), least))
            m = gather(store, partition, earliest, last + 1, candidates)
            if m > candidates.shape[0]:
                candidates = np.empty(2 * m, np.int64)
                following = np.empty((tables.edges.shape[0], 2 * m + 1), np.int64)
                chain = new_chain(tables, 2 * m + 2)
                gather(store, partition, earliest, last + 1, candidates)
            if m == 0 or not _mark(tables, store, candidates, m, following):
                continue
            n_matches, n_events = found.counts[0], found.counts[1]
            if _search(tables, store, chain, candidates, m, following, partition, budget, found) == FULL:
                return FULL, number, partition, n_matches, n_events
    return DONE, lasts.shape[0], 0, found.counts[0], found.counts[1]
