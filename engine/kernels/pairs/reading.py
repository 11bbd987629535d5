"""Matches that are paths of a trie, spelled out for Arrow: most of a path is that of the match before it."""

from __future__ import annotations

from engine.kernels.compile.ways import leaf


@leaf
def list_lengths(
    node_parent, match_node, match_pair, pairs, pair_lo_ms, pair_hi_ms, n_single, most, depth, offsets, partition,
    times_ms,
):  # fmt: skip
    """Where the Kleene events of each match begin: offsets int32 (n + 1,), filled unless there are more than `most`;
    and what precise matches have from their pairs: partition int64 (n,), times_ms int64 (2, n), of the first event and
    of the last, filled.

    Returns the length of the longest path, and how many events there are.

    node_parent: int32 (n_nodes,), a node after the one before it, -1 for none; depth: int32 (n_nodes,), filled, of a
    root 1. match_node, match_pair: int32 (n,). pairs: int64 (n_pairs, >= 3); pair_lo_ms, pair_hi_ms: int64 (n_pairs,).
    The last event of a pair comes after the path where it is not the first one. n_single: events of a match that are
    not of the Kleene component.
    """
    longest, n_members = 0, 0
    for node in range(node_parent.shape[0]):
        before = node_parent[node]
        depth[node] = 1 if before < 0 else depth[before] + 1
        longest = max(longest, depth[node])
    offsets[0] = 0
    for k in range(match_node.shape[0]):
        pair = match_pair[k]
        partition[k] = pairs[pair, 2]
        times_ms[0, k] = pair_lo_ms[pair]
        times_ms[1, k] = pair_hi_ms[pair]
        length = 1 if pairs[pair, 0] != pairs[pair, 1] else 0
        if match_node[k] >= 0:
            length += depth[match_node[k]]
        n_members += length - n_single
        if n_members <= most:
            offsets[k + 1] = n_members
    return longest, n_members


@leaf
def fill_lists(
    node_parent, node_code, depth, match_node, match_pair, pairs, last_code, kleene, n_after, offsets, path, codes,
    members, singles,
):  # fmt: skip
    """The events of each match: members int32 (m,), those of the Kleene component, and singles int32 (n_steps, n).

    node_code: int32 (n_nodes,), last_code: int32 (n_pairs,). kleene: its position; n_after: the components behind it.
    path, codes: int32 (longest + 2,), scratch: the nodes of the match before and what they stand for, by depth.
    Others as `list_lengths` has them.

    node_parent, depth: int32 (n_nodes,). match_node, match_pair: int32 (n,). pairs: int64 (n_pairs, >= 3). offsets:
    int32 (n + 1,).
    """
    n_known = 0  # nodes of `path` that are one another's parents
    for k in range(match_node.shape[0]):
        node = match_node[k]
        length = depth[node] if node >= 0 else 0
        at = length
        while at > 0 and (at > n_known or path[at] != node):
            path[at] = node
            codes[at - 1] = node_code[node]
            node = node_parent[node]
            at -= 1
        n_known = length
        pair = match_pair[k]
        if pairs[pair, 0] != pairs[pair, 1]:
            codes[length] = last_code[pair]
            length += 1
        for position in range(kleene):
            singles[position, k] = codes[position]
        begin = offsets[k]
        for m in range(length - n_after - kleene):
            members[begin + m] = codes[kleene + m]
        for position in range(n_after):
            singles[kleene + 1 + position, k] = codes[length - n_after + position]


__all__ = ["fill_lists", "list_lengths"]
