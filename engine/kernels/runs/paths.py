"""From the nodes of completed runs to matches: the histories that a merged run stands for, and their events.

nodes, t_ms: see `engine.kernels.runs.arrays`; heads int64 (n,): the last nodes of runs, earliest_ms int64 (n,): no
history of the run that begins earlier counts, counts int64 (n,).
"""

from __future__ import annotations

import numpy as np

from engine.kernels.compile.ways import kernel, leaf
from engine.kernels.runs.arrays import BRANCH, COMPONENT, PARENT, ROW, UNION


@kernel
def count_histories(nodes, t_ms, heads, earliest_ms, most, counts):
    """Write to counts int64 (n,) how many histories end in each head whose first event is not before earliest_ms, in
    all at most `most`: the first ones.

    The one of a head that started last always is. A union leads on at least one side to a history that counts, and
    unions are reached without walking the nodes between them: linear in the number of histories.
    """
    ways = np.empty(64, np.int64)
    for at in range(heads.shape[0]):
        n = 0
        ways[0] = heads[at]
        n_ways = 1
        while n_ways > 0 and n < most:
            n_ways -= 1
            node = _branch(nodes, ways[n_ways])
            while nodes[node, COMPONENT] == UNION:
                if t_ms[nodes[node, BRANCH]] >= earliest_ms[at]:
                    if n_ways == ways.shape[0]:
                        ways = _longer(ways)
                    ways[n_ways] = nodes[node, ROW]
                    n_ways += 1
                node = _branch(nodes, nodes[node, PARENT])
            n += 1
        counts[at] = n
        most -= n


@kernel
def bound_histories(nodes, t_ms, heads, earliest_ms, most_events, of_all, counts):
    """Leave of the histories that are counted the first ones that have `most_events` events together, and one more.

    counts: int64 (n,), written. of_all: also heads of one history alone have to pay. Returns whether some are left out.
    """
    ways = np.empty(64, np.int64)
    lengths = np.empty(64, np.int64)
    n_events = 0
    for at in range(heads.shape[0]):
        if n_events > most_events:
            counts[at] = 0
            continue
        if counts[at] == 1 and not of_all:
            continue
        ways[0] = heads[at]
        lengths[0] = 0
        n_ways = 1
        n = 0
        while n_ways > 0 and n < counts[at] and n_events <= most_events:
            n_ways -= 1
            node, length = ways[n_ways], lengths[n_ways]
            while node >= 0:
                if nodes[node, COMPONENT] == UNION:
                    if t_ms[nodes[node, BRANCH]] >= earliest_ms[at]:
                        if n_ways == ways.shape[0]:
                            ways, lengths = _longer(ways), _longer(lengths)
                        ways[n_ways], lengths[n_ways] = nodes[node, ROW], length
                        n_ways += 1
                else:
                    length += 1
                node = nodes[node, PARENT]
            n_events += length
            n += 1
        counts[at] = n
    return n_events > most_events


@kernel
def first_rows(nodes, t_ms, heads, earliest_ms, counts, first):
    """Write to first int64 (sum of counts,) the first row of each history, in the order of `spell_out`."""
    ways = np.empty(64, np.int64)
    n = 0
    for at in range(heads.shape[0]):
        ways[0] = heads[at]
        n_ways = 1
        stop = n + counts[at]
        while n < stop:
            n_ways -= 1
            node = _branch(nodes, ways[n_ways])
            while nodes[node, COMPONENT] == UNION:
                if t_ms[nodes[node, BRANCH]] >= earliest_ms[at]:
                    if n_ways == ways.shape[0]:
                        ways = _longer(ways)
                    ways[n_ways] = nodes[node, ROW]
                    n_ways += 1
                node = _branch(nodes, nodes[node, PARENT])
            first[n] = nodes[node, ROW]
            n += 1


@kernel
def spell_out(nodes, t_ms, heads, earliest_ms, counts, offsets, rows, components):
    """The events of each history that counts, each history from its first event on: rows[offsets[k]:offsets[k + 1]].

    counts: int64 (n,), so many histories of each head, the first ones. Without room in `rows` and `components` (both
    empty) only offsets int64 (number of histories + 1,) is written.
    """
    ways = np.empty(64, np.int64)
    lengths = np.empty(64, np.int64)
    walked = np.empty(256, np.int64)  # the nodes of the history at hand, from its last on
    n = 0
    offsets[0] = 0
    for at in range(heads.shape[0]):
        ways[0] = heads[at]
        lengths[0] = 0
        n_ways = 1
        stop = n + counts[at]
        while n < stop:
            n_ways -= 1
            node, length = ways[n_ways], lengths[n_ways]
            while node >= 0:
                if nodes[node, COMPONENT] == UNION:
                    if t_ms[nodes[node, BRANCH]] >= earliest_ms[at]:
                        if n_ways == ways.shape[0]:
                            ways, lengths = _longer(ways), _longer(lengths)
                        ways[n_ways], lengths[n_ways] = nodes[node, ROW], length
                        n_ways += 1
                else:
                    if length == walked.shape[0]:
                        walked = _longer(walked)
                    walked[length] = node
                    length += 1
                node = nodes[node, PARENT]
            offsets[n + 1] = offsets[n] + length
            if rows.shape[0] > 0:
                for k in range(length):
                    rows[offsets[n] + k] = nodes[walked[length - 1 - k], ROW]
                    components[offsets[n] + k] = nodes[walked[length - 1 - k], COMPONENT]
            n += 1


@leaf
def _branch(nodes, node):
    """The nearest union at or below a node, or else the first node of its history."""
    return node if nodes[node, COMPONENT] == UNION else nodes[node, BRANCH]


@kernel
def _longer(array):
    longer = np.empty(2 * array.shape[0], np.int64)
    longer[: array.shape[0]] = array
    return longer


__all__ = ["bound_histories", "count_histories", "first_rows", "spell_out"]
