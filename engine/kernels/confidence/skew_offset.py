"""The mean of a product of chains' confidences over one offset that they share, see `engine.kernels.confidence.skew`.

As a function of one offset a chain's confidence is a polynomial between walls: the worlds of a match are the integer
points of a polytope whose sides move with the offset; its constraints are differences of times, hence totally
unimodular, and its number of points is a polynomial while no two of its vertices meet. The sum over many offsets then
needs one evaluation more than the degree (`_nodes`). Distributions given by weights have walls everywhere; there, and
for all offsets but one, the sum is taken offset by offset.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from engine.kernels.compile.ways import kernel, leaf
from engine.kernels.confidence.absence import total
from engine.kernels.confidence.ordering import Events
from engine.kernels.confidence.sequences import chain_confidence

TOO_MUCH = -2.0
"""In place of a confidence: more combinations of offsets than are evaluated."""

Int64 = npt.NDArray[np.int64]

_MAX_DEGREE = 17


class Chains(NamedTuple):
    """Chains whose confidences depend on one another by shared offsets; rows are those of `events`, chain by chain.

    starts: int64 (n_chains + 1,), where each chain begins. windows: int64 (n_chains,), last - first is at most that.
    lo_ms: int64 (n_rows,), the times in `events` by the clock itself, for an event with a shared offset; variable:
    int64 (n_rows,), the number of that offset, else -1. length_ms: int64 (n_rows,), hi - lo. knots_ms: int64
    (n_rows, 4), the times at which an event's distribution is no single polynomial. degrees: int64 (n_rows,), what the
    event adds to the degree of the chain's confidence; -1: given weights, there is none.
    """

    events: Events
    starts: Int64
    windows: Int64
    lo_ms: Int64
    length_ms: Int64
    variable: Int64
    knots_ms: Int64
    degrees: Int64


@kernel
def over_offset(chains, own, skew, reference, n_allowed):
    """The mean over one offset, and the evaluations it took; TOO_MUCH when these are more than n_allowed.

    own: its number, -1: there is none. reference: -1, or the bound of the clock from whose offset this one is told:
    then it is the difference of two.
    """
    points, shares = _points(chains, own, skew, reference)
    if points.shape[0] > n_allowed:
        return TOO_MUCH, 0
    for k in range(points.shape[0]):
        if own >= 0:
            shift(chains, own, points[k])
        if reference >= 0:
            shares[k] *= min(2 * min(skew, reference) + 1, skew + reference + 1 - abs(points[k]))
        shares[k] *= _product(chains)
    n_ways = (2.0 * skew + 1.0) * (2.0 * max(reference, 0) + 1.0)
    return total(shares) / n_ways, points.shape[0]


@kernel
def _points(chains, own, skew, reference):
    """Where to evaluate, int64 (n,), and how many offsets each of them stands for, float64 (n,)."""
    reach = skew + max(reference, 0)
    n_offsets = 2 * reach + 1
    walls, degree = _walls(chains, own, skew, reference)
    if degree < 0 or walls.shape[0] * (degree + 2) >= n_offsets:
        return np.arange(-reach, reach + 1), np.ones(n_offsets, np.float64)
    capacity = walls.shape[0] * (2 * degree + 4)  # `_nodes` gives at most twice what is needed
    points = np.empty(capacity, np.int64)
    shares = np.ones(capacity, np.float64)
    n = 0
    for piece in range(walls.shape[0] - 1):
        points[n] = walls[piece]
        n += 1
        start = walls[piece] + 1
        nodes, node_shares = _nodes(walls[piece + 1] - start, degree + 1)
        for k in range(nodes.shape[0]):
            points[n] = start + nodes[k]
            shares[n] = node_shares[k]
            n += 1
    points[n] = reach
    return points[: n + 1], shares[: n + 1]


@kernel
def _walls(chains, own, skew, reference):
    """The offsets between which the confidence is one polynomial, ascending with both ends; its degree, -1: none.

    In a chain the k-th event less k is to be at or after the one before less k - 1: two bounds meet where their
    difference is that of their positions, by way of the window too. A wall belongs to neither side.
    """
    reach = skew + max(reference, 0)
    n_rows = chains.lo_ms.shape[0]
    found = np.empty(5 + 48 * n_rows * n_rows, np.int64)
    found[0] = -reach
    found[1] = reach
    n_found = 2
    degree = 0
    if reference >= 0:
        degree = 1
        found[2] = 0
        found[3] = skew - reference
        found[4] = reference - skew
        n_found = 5
    for c in range(chains.windows.shape[0]):
        start = chains.starts[c]
        end = chains.starts[c + 1]
        moves = False
        for r in range(start, end):
            moves = moves or chains.variable[r] == own
        if not moves:
            continue
        spare = chains.windows[c] - (end - start - 1)
        for r in range(start, end):
            if chains.degrees[r] < 0:
                return found[:0], -1
            degree += chains.degrees[r]
            if chains.variable[r] != own:
                continue
            for q in range(start, end):
                if chains.variable[q] == own:
                    continue
                moved = chains.events.lo_ms[q] - chains.lo_ms[q]
                for a in range(4):
                    for b in range(4):
                        met = chains.knots_ms[q, a] + moved - q - (chains.knots_ms[r, b] - r)
                        for side in range(-1, 2):
                            wall = met + side * spare
                            if -reach < wall < reach:
                                found[n_found] = wall
                                n_found += 1
    if degree > _MAX_DEGREE:
        return found[:0], -1
    _sort(found, n_found)
    n_kept = 1
    for k in range(1, n_found):
        if found[k] != found[n_kept - 1]:
            found[n_kept] = found[k]
            n_kept += 1
    return found[:n_kept], degree


@leaf
def _sort(values, n):
    """Sort the first n in place, by insertion over shrinking steps: the library's sort takes seconds to compile."""
    step = n // 2
    while step > 0:
        for k in range(step, n):
            value = values[k]
            to = k
            while to >= step and values[to - step] > value:
                values[to] = values[to - step]
                to -= step
            values[to] = value
        step //= 2


@kernel
def _nodes(n_points, n_needed):
    """Points of 0..n_points - 1 and their shares, such that the sum of a polynomial of a degree below n_needed over all
    of them is that of the nodes alone. Shares are positive for any number of points, n_needed being at most
    _MAX_DEGREE + 1: nothing cancels. Where there are few points: all of them.
    """
    if n_points < 2 * n_needed:
        return np.arange(n_points), np.ones(n_points, np.float64)
    nodes = np.empty(n_needed, np.int64)
    for k in range(n_needed):
        # Roots of the Chebyshev polynomial, as quadrature on an interval has them, on the points there are.
        nodes[k] = np.int64(np.round((n_points - 1) * (1.0 - np.cos(np.pi * (k + 0.5) / n_needed)) / 2.0))
    # Discrete Legendre polynomials are orthogonal to 1 over the points, but for the first one.
    matrix = np.empty((n_needed, n_needed + 1), np.float64)
    for k in range(n_needed):
        x = (2.0 * nodes[k] - n_points + 1.0) / n_points
        before = 0.0
        value = 1.0
        for j in range(n_needed):
            matrix[j, k] = value
            narrow = j * (1.0 - (j / n_points) ** 2)
            value, before = ((2.0 * j + 1.0) * x * value - narrow * before) / (j + 1.0), value
    matrix[:, n_needed] = 0.0
    matrix[0, n_needed] = n_points
    _solve(matrix)
    return nodes, matrix[:, n_needed].copy()


@leaf
def _solve(matrix):
    """Solve in position: the last column becomes the solution (Gauss and Jordan, with pivots by rows)."""
    n = matrix.shape[0]
    for k in range(n):
        pivot = k
        for i in range(k + 1, n):
            if abs(matrix[i, k]) > abs(matrix[pivot, k]):
                pivot = i
        for j in range(n + 1):
            matrix[k, j], matrix[pivot, j] = matrix[pivot, j], matrix[k, j]
        for i in range(n):
            if i != k:
                factor = matrix[i, k] / matrix[k, k]
                for j in range(k, n + 1):
                    matrix[i, j] -= factor * matrix[k, j]
    for k in range(n):
        matrix[k, n] /= matrix[k, k]


@leaf
def shift(chains, own, offset_ms):
    """Give one shared offset a value."""
    for r in range(chains.lo_ms.shape[0]):
        if chains.variable[r] == own:
            chains.events.lo_ms[r] = chains.lo_ms[r] + offset_ms
            chains.events.hi_ms[r] = chains.lo_ms[r] + offset_ms + chains.length_ms[r]


@kernel
def _product(chains):
    """P(all chains hold), given the offsets."""
    result = 1.0
    for c in range(chains.windows.shape[0]):
        rows = np.arange(chains.starts[c], chains.starts[c + 1])
        result *= chain_confidence(chains.events, rows, rows.shape[0], chains.windows[c])
        if result <= 0.0:
            return 0.0
    return result


__all__ = ["TOO_MUCH", "Chains", "over_offset", "shift"]
