"""Matches of an automaton as arrays that grow while they are found."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from engine.kernels.automaton.edges import write_values
from engine.kernels.automaton.tables import MUST_BE_KEYED, N_DEPTH
from engine.kernels.compile.ways import kernel, leaf


class Found(NamedTuple):
    """Room for matches: partition, exit int64 (k,); offsets int64 (k + 1,); values float64 (k, n_returns); of their
    events rows, edges int64 (m,), iterations int64 (m, depth). counts: int64 (3,): matches, events, and what the
    search says beside them."""

    partition: npt.NDArray[np.int64]
    exit: npt.NDArray[np.int64]
    offsets: npt.NDArray[np.int64]
    values: npt.NDArray[np.float64]
    rows: npt.NDArray[np.int64]
    edges: npt.NDArray[np.int64]
    iterations: npt.NDArray[np.int64]
    counts: npt.NDArray[np.int64]


@kernel
def new_found(tables, n_matches, n_events):
    """Empty arrays for so many matches and events of theirs."""
    return Found(
        np.empty(n_matches, np.int64),
        np.empty(n_matches, np.int64),
        np.zeros(n_matches + 1, np.int64),
        np.empty((n_matches, tables.returns.shape[0]), np.float64),
        np.empty(n_events, np.int64),
        np.empty(n_events, np.int64),
        np.zeros((n_events, tables.scalars[N_DEPTH]), np.int64),
        np.zeros(3, np.int64),
    )


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
    capacity = 2 * found.rows.shape[0] + 16
    rows, edges = np.empty(capacity, np.int64), np.empty(capacity, np.int64)
    iterations = np.zeros((capacity, found.iterations.shape[1]), np.int64)
    rows[:m], edges[:m], iterations[:m] = found.rows[:m], found.edges[:m], found.iterations[:m]
    return Found(
        found.partition, found.exit, found.offsets, found.values, rows, edges, iterations, found.counts
    )  # fmt: skip


@kernel
def with_more_matches(found):
    """The same matches with twice the room for more of them."""
    k = found.counts[0]
    capacity = 2 * found.partition.shape[0] + 16
    partition, exit = np.empty(capacity, np.int64), np.empty(capacity, np.int64)
    offsets, values = np.zeros(capacity + 1, np.int64), np.empty((capacity, found.values.shape[1]), np.float64)
    partition[:k], exit[:k] = found.partition[:k], found.exit[:k]
    offsets[: k + 1], values[:k] = found.offsets[: k + 1], found.values[:k]
    return Found(
        partition, exit, offsets, values, found.rows, found.edges, found.iterations, found.counts
    )  # fmt: skip


@kernel
def added(found, other, number):
    """The matches with that match of the other ones."""
    start, end = other.offsets[number], other.offsets[number + 1]
    n = end - start
    while found.rows.shape[0] - found.counts[1] < n:
        found = with_more_events(found)
    if found.counts[0] >= found.partition.shape[0]:
        found = with_more_matches(found)
    k, m = found.counts[0], found.counts[1]
    found.partition[k], found.exit[k] = other.partition[number], other.exit[number]
    found.values[k] = other.values[number]
    found.rows[m : m + n], found.edges[m : m + n] = other.rows[start:end], other.edges[start:end]
    found.iterations[m : m + n] = other.iterations[start:end]
    found.offsets[k + 1] = m + n
    found.counts[0], found.counts[1] = k + 1, m + n
    return found


@leaf
def partition_of_match(tables, store, chain, n, partition):
    """The partition of a match: BROADCAST (-1) when all its events are of broadcast types."""
    if not tables.scalars[MUST_BE_KEYED]:
        return partition
    for at in range(n):
        if store.partition[chain.rows[at]] >= 0:
            return partition
    return -1
