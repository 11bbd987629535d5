"""Events of clocks with a skew bound: which share an unknown offset, and the distributions of those that share none.

See `engine.kernels.confidence.skew` for what an offset is.
"""

from __future__ import annotations

import numpy as np

from engine.kernels.compile.ways import kernel, leaf


@leaf
def has_skew(events, rows, n):
    """Whether one of the events has a clock with a skew bound."""
    if events.skew.shape[0] == 0:
        return False
    found = False
    for k in range(n):
        found = found or events.skew[rows[k]] > 0
    return found


@leaf
def one_offset(events, i, j):
    """Whether two events are shifted by one offset. Where a clock's bound was changed, that before is another one."""
    return events.skew[i] > 0 and events.clock[i] >= 0 and events.clock[i] == events.clock[j] and (
        events.skew[i] == events.skew[j]
    )  # fmt: skip


@kernel
def shared_offsets(events, rows, n, chain, n_chains):
    """Which positions share their offset with another that matters, bool (n,); per chain the least of its group."""
    shared = np.zeros(n, np.bool_)
    group = np.arange(n_chains)
    for k in range(n):
        if chain[k] < 0:
            continue
        for j in range(k):
            if chain[j] >= 0 and one_offset(events, rows[k], rows[j]):
                shared[k] = True
                shared[j] = True
                low = min(group[chain[k]], group[chain[j]])
                high = max(group[chain[k]], group[chain[j]])
                for c in range(n_chains):
                    if group[c] == high:
                        group[c] = low
    return shared, group


@kernel
def numbered_offsets(events, rows, at, n_rows, shared):
    """The shared offsets of some positions: per row the number of its own or -1, int64 (n_rows,); the bounds."""
    variable = np.full(n_rows, -1, np.int64)
    skews = np.zeros(n_rows + 1, np.int64)
    n_variables = 0
    for r in range(n_rows):
        if not shared[at[r]]:
            continue
        for q in range(r):
            if shared[at[q]] and one_offset(events, rows[at[q]], rows[at[r]]):
                variable[r] = variable[q]
        if variable[r] < 0:
            variable[r] = n_variables
            skews[n_variables] = events.skew[rows[at[r]]]
            n_variables += 1
    return variable, skews, n_variables


@kernel
def own_distributions(events, rows, at, n_rows, shared, lo, hi, knots, degrees):
    """Distributions as `Events` has them: of a skewed event whose offset nobody shares that of the sum of both.

    Writes where each one is no single polynomial, and what the event adds to the degree.
    """
    weight_at = np.full(n_rows, -1, np.int64)
    n_points = 0
    for r in range(n_rows):
        n_points += hi[r] - lo[r] + 1
    weights = np.empty(n_points, np.float64)
    n_points = 0
    for r in range(n_rows):
        row = rows[at[r]]
        length = hi[r] - lo[r] + 1
        knots[r, 0] = lo[r]
        knots[r, 1] = hi[r]
        knots[r, 2] = lo[r]
        knots[r, 3] = hi[r]
        degrees[r] = 1 if length > 1 else 0
        skew = 0 if shared[at[r]] else events.skew[row]
        n_nominal = length - 2 * skew
        given = _given_at(events, row)
        if given < 0 and (skew == 0 or n_nominal == 1):
            continue
        weight_at[r] = n_points
        if given < 0:
            shorter = min(n_nominal - 1, 2 * skew)
            knots[r, 2] = lo[r] + shorter
            knots[r, 3] = hi[r] - shorter
            degrees[r] = 2
            for t in range(length):
                n_ways = min(t, length - 1 - t, shorter) + 1
                weights[n_points + t] = n_ways / (n_nominal * (2.0 * skew + 1.0))
        else:
            degrees[r] = -1
            _sum_of_both(events.weights[given : given + n_nominal], skew, weights[n_points : n_points + length])
        n_points += length
    return weight_at, weights[:n_points]


@kernel
def time_distribution(events, row, with_offset):
    """P(the event is at each millisecond): of its hull, or by its own clock of its nominal interval."""
    skew = events.skew[row] if events.skew.shape[0] > 0 else 0
    n_nominal = events.hi_ms[row] - events.lo_ms[row] + 1 - 2 * skew
    given = _given_at(events, row)
    nominal = np.full(n_nominal, 1.0 / n_nominal)
    if given >= 0:
        nominal[:] = events.weights[given : given + n_nominal]
    if not with_offset or skew == 0:
        return nominal
    times = np.empty(n_nominal + 2 * skew, np.float64)
    _sum_of_both(nominal, skew, times)
    return times


@leaf
def _given_at(events, row):
    """Where the nominal distribution of a row begins in `weights`, -1: uniform."""
    at = events.weight_at[row]
    return -2 - at if at < -1 else at


@kernel
def _sum_of_both(nominal, skew, into):
    """The distribution of nominal time + offset, where the offset is uniform over -skew..skew."""
    n = nominal.shape[0]
    upto = np.zeros(n + 1, np.float64)
    for k in range(n):
        upto[k + 1] = upto[k] + nominal[k]
    for t in range(into.shape[0]):
        if skew == 0:
            into[t] = nominal[t]
        else:
            into[t] = (upto[min(t + 1, n)] - upto[max(t - 2 * skew, 0)]) / (2.0 * skew + 1.0)


__all__ = ["has_skew", "numbered_offsets", "one_offset", "own_distributions", "shared_offsets", "time_distribution"]
