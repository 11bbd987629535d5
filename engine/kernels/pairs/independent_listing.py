"""Listing where Kleene events are selected independently: matches as nodes of a trie, in batches of bounded size.

A match is the path to a node and the last event of its pair; matches that begin alike share the nodes of what they have
in common, so that one match costs one node where every prefix of a selection is one, whatever its length. Nothing is
tried in vain: a branch is entered only when some match comes of it (`independent.completions`).
"""

from __future__ import annotations

import numpy as np

from engine.kernels.compile.ways import kernel, leaf
from engine.kernels.pairs.independent import (
    CAN_BEGIN,
    CAN_TAKE,
    bind_ends,
    completions,
    find_limits,
    judge_ends,
    judge_members,
)
from engine.kernels.pairs.independent_chains import members_between
from engine.kernels.programs.opcodes import MAX_STACK

PAIR = 0
DEPTH = 1


@kernel
def list_pairs(
    tables,
    columns,
    begin_ok,
    take_ok,
    before,
    pairs,
    ranks,
    cursor,
    path,
    node_parent,
    node_row,
    match_node,
    match_pair,
):
    """Write the next matches of the pairs; returns (number of nodes, number of matches), 0 matches at the end.

    pairs, before: see `independent_chains`. ranks: int64 (n_rows,) for matches of a pair in the order of their events'
    ranks (a shorter one before those that go on), or empty for the order of time. cursor: int64 (2,), where to go on:
    the pair, and the depth of the path inside it (0 at first). path: int64 (3, `longest_path`), scratch that is kept
    between calls: member, state, next choice of each depth.

    node_parent: int32 (n_nodes,), the node before, -1 for the first event of a pair. node_row: int64 (n_nodes,), its
    event. match_node, match_pair: int32 (n,), the node and the pair whose last event ends it. A call ends when fewer
    nodes are free than the longest path has; every batch has all nodes of its matches.
    """
    n_masks = 1 << tables.properties.shape[0]
    top = tables.sizes.shape[0] - 1
    n_states = (top + 1) * n_masks
    registers = np.empty(2 * tables.n_steps + 1, np.int64)
    stack = np.empty(MAX_STACK, np.float64)
    limits = np.empty(tables.properties.shape[0], np.float64)
    capacity = path.shape[1]
    members = np.empty(capacity, np.int64)
    roles = np.empty(capacity, np.int64)
    masks = np.empty(capacity, np.int64)
    order = np.empty(capacity, np.int64)
    further = np.empty((capacity + 1, n_states), np.int32)
    ways = np.empty(n_states, np.int64)
    node_at = np.empty(capacity + 1, np.int32)
    most_nodes = node_row.shape[0]
    most_matches = match_node.shape[0]
    n_nodes = 0
    n_matches = 0
    while cursor[PAIR] < pairs.shape[0]:
        p = cursor[PAIR]
        first = pairs[p, 0]
        last = pairs[p, 1]
        bind_ends(tables, first, last, registers)
        find_limits(tables, columns, registers, stack, limits)
        mask_first, roles_last, mask_last = judge_ends(
            tables, columns, begin_ok, take_ok, first, last, registers, stack, limits
        )
        if mask_first < 0:
            cursor[PAIR] += 1
            continue
        n = members_between(before, first, last, members)
        judge_members(tables, columns, begin_ok, take_ok, members, 0, n, registers, stack, limits, roles, masks)
        own_last = tables.kleene == tables.n_steps - 1 and first != last
        completions(tables, own_last, roles_last, mask_last, 0, n, roles, masks, further, ways)
        in_time = ranks.shape[0] == 0
        for j in range(n + 1):
            order[j] = j
        if not in_time:
            _sort_by_rank(members, n, ranks, last if own_last else -1, order)
        depth = cursor[DEPTH]
        if depth == 0:
            path[0, 0] = -1
            path[1, 0] = n_masks + mask_first if tables.kleene == 0 else 0
            path[2, 0] = -1
            depth = 1
            if ways[path[1, 0]] == 0:
                cursor[PAIR] += 1
                continue
        # The path so far stands in this batch too.
        if n_nodes + depth + 2 > most_nodes:
            cursor[DEPTH] = depth
            return n_nodes, n_matches
        for d in range(depth):
            node_parent[n_nodes] = node_at[d - 1] if d > 0 else -1
            node_row[n_nodes] = first if d == 0 else members[path[0, d]]
            node_at[d] = n_nodes
            n_nodes += 1
        while depth > 0:
            d = depth - 1
            at = path[0, d]
            state = path[1, d]
            if n_nodes + 1 > most_nodes or n_matches + 1 > most_matches:
                cursor[DEPTH] = depth
                return n_nodes, n_matches
            choice = path[2, d]
            if choice < 0:  # the node itself, unless its last event comes among the choices
                path[2, d] = at + 1 if in_time else 0
                if not own_last and further[n, state] >= 0:
                    match_node[n_matches] = node_at[d]
                    match_pair[n_matches] = p
                    n_matches += 1
                continue
            if choice > n:
                depth -= 1
                continue
            path[2, d] = choice + 1
            j = order[choice]
            if j == n:
                if own_last and further[n, state] >= 0:
                    match_node[n_matches] = node_at[d]
                    match_pair[n_matches] = p
                    n_matches += 1
                continue
            if j <= at or not roles[j] & (CAN_BEGIN if state < n_masks else CAN_TAKE):
                continue
            to = min(state // n_masks + 1, top) * n_masks + (state % n_masks | masks[j])
            if further[j + 1, to] < 0:
                continue
            path[0, depth] = j
            path[1, depth] = to
            path[2, depth] = -1
            node_parent[n_nodes] = node_at[d]
            node_row[n_nodes] = members[j]
            node_at[depth] = n_nodes
            n_nodes += 1
            depth += 1
        cursor[PAIR] += 1
        cursor[DEPTH] = 0
    return n_nodes, n_matches


@kernel
def _sort_by_rank(members, n, ranks, last, order):
    """order[:n + 1] becomes the members by rank; n stands for the last event, at the end unless it is one of them."""
    size = n + 1 if last >= 0 else n
    keys = np.empty(size, np.int64)
    for j in range(n):
        keys[j] = ranks[members[j]]
    if last >= 0:
        keys[n] = ranks[last]
    order[:size] = np.argsort(keys)
    if last < 0:
        order[n] = n


@leaf
def spell_out(node_parent, node_row, match_node, match_last, offsets, rows):
    """The events of each match, in order: offsets int64 (n + 1,), and rows when it is not empty.

    match_last: int64 (n,), the last event, -1 where the node is already it.

    node_parent: int32 (n_nodes,). node_row: int64 (n_nodes,). match_node: int32 (n,). rows: int64 (m,).
    """
    offsets[0] = 0
    for k in range(match_node.shape[0]):
        length = 1 if match_last[k] >= 0 else 0
        node = match_node[k]
        while node >= 0:
            length += 1
            node = node_parent[node]
        offsets[k + 1] = offsets[k] + length
    if rows.shape[0] == 0:
        return
    for k in range(match_node.shape[0]):
        at = offsets[k + 1] - 1
        if match_last[k] >= 0:
            rows[at] = match_last[k]
            at -= 1
        node = match_node[k]
        while node >= 0:
            rows[at] = node_row[node]
            at -= 1
            node = node_parent[node]


__all__ = ["list_pairs", "spell_out"]
