"""Utilities of events by decision trees (gSPICE, section III-B4)."""

from __future__ import annotations

import numpy as np

from engine.kernels.compile.ways import leaf

LEAF = -1
"""In place of the feature that a node asks for: it asks for none, and has a value."""


@leaf
def look_up(types, attributes, counts, roots, asked, limits, below, above, values, type_values, utilities):
    """The utility of each event: the mean, over the trees, of the value of the leaf that its features lead to; infinite
    for types of which `type_values` is.

    types: int64 (n,), feature 0. attributes: int64 (n_attributes, n), bins, the next features. counts: int64 (n,
    n_types), bins of the pane, those after them. roots: int64 (n_trees,), nodes. Of the nodes: asked int64 (m,), the
    feature or LEAF; limits float64 (m,), at most that much goes to `below`, more to `above`, int64 (m,), both greater
    than the node; values float64 (m,), of leaves. type_values: float64 (n_types,). utilities: float64 (n,), written.
    """
    n_attributes = attributes.shape[0]
    for k in range(types.shape[0]):
        kind = types[k]
        if type_values[kind] == np.inf:
            utilities[k] = np.inf
            continue
        total = 0.0
        for tree in range(roots.shape[0]):
            node = roots[tree]
            while asked[node] != LEAF:
                feature = asked[node]
                if feature == 0:
                    found = kind
                elif feature <= n_attributes:
                    found = attributes[feature - 1, k]
                else:
                    found = counts[k, feature - 1 - n_attributes]
                node = below[node] if found <= limits[node] else above[node]
            total += values[node]
        utilities[k] = total / roots.shape[0]


__all__ = ["LEAF", "look_up"]
