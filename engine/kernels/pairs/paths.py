"""Matches as paths of a trie: what they have in common stands once. How searches write them, and how they are read."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from engine.kernels.compile.types import Int32Array, Int64Array
from engine.kernels.compile.ways import kernel, leaf
from engine.kernels.pairs.pairs import replay
from engine.kernels.programs.opcodes import MAX_STACK

_FIRST_CAPACITY = 64


class Paths(NamedTuple):
    """Room for nodes and matches, filled from the beginning.

    node_parent int32, node_row int64, node_step int32 (n_nodes,): an event behind those of the node before it, -1 for
    none, and its component. match_node int32, match_pair int64 (n,): a match is the path to its node, and then the last
    event of its pair, unless that is the first one.
    """

    node_parent: Int32Array
    node_row: Int64Array
    node_step: Int32Array
    match_node: Int32Array
    match_pair: Int64Array


@kernel
def new_paths():
    """Room for a few."""
    return Paths(
        np.empty(_FIRST_CAPACITY, np.int32),
        np.empty(_FIRST_CAPACITY, np.int64),
        np.empty(_FIRST_CAPACITY, np.int32),
        np.empty(_FIRST_CAPACITY, np.int32),
        np.empty(_FIRST_CAPACITY, np.int64),
    )


@leaf
def has_capacity(paths, n_nodes, n_matches, depth):
    """Whether there is room for one more match, of so many events beside its last one."""
    return n_nodes + depth <= paths.node_row.shape[0] and n_matches < paths.match_node.shape[0]


@kernel
def wider_paths(paths, n_nodes, n_matches, depth):
    """The same in arrays with room for one more match, of so many events beside its last one."""
    node_parent, node_row, node_step, match_node, match_pair = paths
    if n_nodes + depth > node_row.shape[0]:
        extra = max(node_row.shape[0], depth)
        node_parent = np.concatenate((node_parent, np.empty(extra, np.int32)))
        node_row = np.concatenate((node_row, np.empty(extra, np.int64)))
        node_step = np.concatenate((node_step, np.empty(extra, np.int32)))
    if n_matches == match_node.shape[0]:
        match_node = np.concatenate((match_node, np.empty_like(match_node)))
        match_pair = np.concatenate((match_pair, np.empty_like(match_pair)))
    return Paths(node_parent, node_row, node_step, match_node, match_pair)


@kernel
def filled(paths, n_nodes, n_matches):
    """What has been written."""
    return Paths(
        paths.node_parent[:n_nodes],
        paths.node_row[:n_nodes],
        paths.node_step[:n_nodes],
        paths.match_node[:n_matches],
        paths.match_pair[:n_matches],
    )


@leaf
def add_match(paths, chain, steps, node, depth, pair, n_nodes, n_matches):
    """Write the match of chain[0..depth] and then the last event of its pair; how many nodes there are then.

    steps: of which component each event is. node: int64, the node of each prefix of the chain, -1 where it has none
    yet; those of this chain are written.
    """
    at = depth
    while at >= 0 and node[at] < 0:
        at -= 1
    while at < depth:
        at += 1
        paths.node_parent[n_nodes] = node[at - 1] if at > 0 else -1
        paths.node_row[n_nodes] = chain[at]
        paths.node_step[n_nodes] = steps[at]
        node[at] = n_nodes
        n_nodes += 1
    paths.match_node[n_matches] = node[depth]
    paths.match_pair[n_matches] = pair
    return n_nodes


@kernel
def spell_steps(node_parent, node_row, node_step, match_node, match_last, final):
    """The events of each match in order: offsets int64 (n + 1,), rows int64 (m,), steps int64 (m,).

    match_last: int64 (n,), the last event, of component `final`, -1 where the node is already it.

    node_parent, node_step: int32 (n_nodes,). node_row: int64 (n_nodes,). match_node: int32 (n,).
    """
    n = match_node.shape[0]
    offsets = np.zeros(n + 1, np.int64)
    for k in range(n):
        length = 1 if match_last[k] >= 0 else 0
        node = match_node[k]
        while node >= 0:
            length += 1
            node = node_parent[node]
        offsets[k + 1] = offsets[k] + length
    rows = np.empty(offsets[n], np.int64)
    steps = np.empty(offsets[n], np.int64)
    for k in range(n):
        at = offsets[k + 1]
        if match_last[k] >= 0:
            at -= 1
            rows[at] = match_last[k]
            steps[at] = final
        node = match_node[k]
        while node >= 0:
            at -= 1
            rows[at] = node_row[node]
            steps[at] = node_step[node]
            node = node_parent[node]
    return offsets, rows, steps


@kernel
def replay_steps(tables, columns, offsets, rows, steps, programs):
    """`postponed_pairs.replay` of each match: float64 (n, n_programs).

    columns: float64 (n_columns, n_rows). offsets, rows, steps: int64 (n + 1,), (m,), (m,), as of `spell_steps`.
    programs: int64 (n_programs,).
    """
    stack = np.empty(MAX_STACK, np.float64)
    values = np.empty((offsets.shape[0] - 1, programs.shape[0]), np.float64)
    for k in range(values.shape[0]):
        own = rows[offsets[k] : offsets[k + 1]]
        values[k] = replay(tables, columns, own, steps[offsets[k] : offsets[k + 1]], programs, stack)
    return values


__all__ = ["Paths", "add_match", "filled", "has_capacity", "new_paths", "replay_steps", "spell_steps", "wider_paths"]
