"""Sums of a polynomial over consecutive integers from its values at a few of them.

How probable the rest is, given the time of one event, is a polynomial of that time between two neighbouring end points
of intervals. Its mean over all milliseconds there follows from as many values as it has coefficients, whatever the
number of milliseconds. The nodes lie densely at both ends (as Chebyshev's), the weights come from the orthogonal
polynomials of the discrete measure (Gram), so that many nodes stay well conditioned.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from engine.events import Float64Array, Int64Array


@lru_cache(maxsize=4096)
def nodes_and_weights(n_points: int, degree: int) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """Nodes in 0..n_points - 1 and weights of sum 1: the mean of every polynomial of at most `degree` over all points.

    All points, with equal weights, where there are no more than a polynomial of this degree has coefficients.
    """
    n_nodes = degree + 1
    if n_points <= n_nodes:
        return tuple(range(n_points)), (1.0 / n_points,) * n_points
    nodes = _nodes(n_points, n_nodes)
    moments = np.zeros(n_nodes)
    moments[0] = 1.0
    weights = np.linalg.solve(_gram_polynomials(n_points, nodes), moments)
    return tuple(nodes.tolist()), tuple(weights.tolist())


def _nodes(n_points: int, n_nodes: int) -> Int64Array:
    """Distinct integers near Chebyshev's nodes."""
    angles = (np.arange(n_nodes) + 0.5) * np.pi / n_nodes
    nodes = np.rint((n_points - 1) * (1.0 - np.cos(angles)) / 2.0).astype(np.int64)
    for at in range(1, n_nodes):
        nodes[at] = max(nodes[at], nodes[at - 1] + 1)
    for at in range(n_nodes - 1, -1, -1):
        nodes[at] = min(nodes[at], n_points - n_nodes + at)
    return nodes


def _gram_polynomials(n_points: int, nodes: Int64Array) -> Float64Array:
    """Row k: the k-th orthonormal polynomial of the uniform measure on 0..n_points - 1 at the nodes."""
    x = nodes - (n_points - 1) / 2.0
    values = np.empty((len(nodes), len(nodes)))
    before, now, scale_before = np.zeros(len(nodes)), np.ones(len(nodes)), 0.0
    for k in range(len(nodes)):
        values[k] = now
        following = k + 1
        scale = np.sqrt(following**2 * (float(n_points) ** 2 - following**2) / (4.0 * (4.0 * following**2 - 1.0)))
        before, now, scale_before = now, (x * now - scale_before * before) / max(scale, 1e-300), scale
    return values


__all__ = ["nodes_and_weights"]
