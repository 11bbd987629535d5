"""Confidence of ordered sequences of events by dynamic programming over time (SASE++ section 4; DESIGN 4).

Each event is at one millisecond of its interval, independently of the others, by its distribution. An event is before
another when its time is smaller; two precise events of one millisecond and two events of one clock have a known order
instead, whatever their times (`engine.kernels.ordering.separated`). A sequence e1..em is a match when each event is
before the next and last - first <= WITHIN. With F_k(t) = P(e1 < ... < ek, ek at t):

    F_1 = p_1;    F_k+1(t) = p_k+1(t) * sum of F_k(s) over s < t

and where the order of two neighbours is known, F_k+1(t) = p_k+1(t) * (sum of F_k): constant work, and no array.
Rows are int64 row numbers into `Events`; distributions are float64 arrays over the milliseconds of one interval. Sums
are compensated (Neumaier), so that intervals of many thousand milliseconds keep about 1e-14.
"""

from __future__ import annotations

import numpy as np

from engine.kernels.compiling import kernel, leaf
from engine.kernels.ordering import both_precise, clock_before, may_precede, one_clock, separated

_FAR = 2**62


@kernel
def distribution(events, row, factor):
    """factor * P(the event is at each millisecond of its interval), float64 (hi - lo + 1,)."""
    lo = events.lo_ms[row]
    n = events.hi_ms[row] - lo + 1
    at = events.weight_at[row]
    if at < 0:
        return np.full(n, factor / n)
    return factor * events.weights[at : at + n]


@leaf
def total(values):
    """Compensated sum."""
    result = 0.0
    lost = 0.0
    for value in values:
        raised = result + value
        if abs(result) >= abs(value):
            lost += (result - raised) + value
        else:
            lost += (value - raised) + result
        result = raised
    return result + lost


@kernel
def follow(events, i, reached, j):
    """F of row j from F of row i (`reached`, over i's interval): p_j(t) * sum of reached(s) over s < t."""
    lo_i = events.lo_ms[i]
    n_i = reached.shape[0]
    lo_j = events.lo_ms[j]
    following = distribution(events, j, 1.0)
    summed = 0.0
    lost = 0.0
    s = 0
    for k in range(following.shape[0]):
        while s < n_i and lo_i + s < lo_j + k:
            value = reached[s]
            raised = summed + value
            lost += (summed - raised) + value if summed >= value else (value - raised) + summed
            summed = raised
            s += 1
        following[k] *= summed + lost
    return following


@kernel
def lead(events, i, j, ahead):
    """G of row i from G of row j (`ahead`, over j's interval): p_i(s) * sum of ahead(t) over t > s (backwards)."""
    lo_j = events.lo_ms[j]
    lo_i = events.lo_ms[i]
    leading = distribution(events, i, 1.0)
    summed = 0.0
    lost = 0.0
    t = ahead.shape[0] - 1
    for k in range(leading.shape[0] - 1, -1, -1):
        while t >= 0 and lo_j + t > lo_i + k:
            value = ahead[t]
            raised = summed + value
            lost += (summed - raised) + value if summed >= value else (value - raised) + summed
            summed = raised
            t -= 1
        leading[k] *= summed + lost
    return leading


@kernel
def chain_mass(events, rows, start, end):
    """P(rows[start] < ... < rows[end - 1]), the window left aside. 1.0 for a single row."""
    mass = 1.0
    plain = True  # F of the current row is mass * its distribution
    reached = np.empty(0, np.float64)
    for k in range(start + 1, end):
        i = rows[k - 1]
        j = rows[k]
        if separated(events, i, j):
            if not plain:
                mass = total(reached)
                plain = True
        elif not may_precede(events, i, j):
            return 0.0
        else:
            reached = follow(events, i, distribution(events, i, mass) if plain else reached, j)
            plain = False
    return mass if plain else total(reached)


@kernel
def chain_end(events, rows, start, end, first_reached):
    """F of rows[end - 1], over its interval, from F of rows[start]."""
    reached = first_reached
    for k in range(start + 1, end):
        i = rows[k - 1]
        j = rows[k]
        if separated(events, i, j):
            reached = distribution(events, j, total(reached))
        elif may_precede(events, i, j):
            reached = follow(events, i, reached, j)
        else:
            reached = distribution(events, j, 0.0)
    return reached


@kernel
def chain_confidence(events, rows, n, within_ms):
    """P(rows[0] < ... < rows[n - 1] and last - first <= within_ms), both ends inclusive.

    Where the window is certain this is `chain_mass`. Where it is not, the joint distribution of first and last: the
    sum of lengths when the order of some neighbours is known (what is before them and what is after are independent),
    else one pass per millisecond of the first event that the window cuts.
    """
    first = rows[0]
    last = rows[n - 1]
    if n == 1:
        return 1.0
    if events.lo_ms[last] - events.hi_ms[first] > within_ms:
        return 0.0
    if events.hi_ms[last] - events.lo_ms[first] <= within_ms:
        return chain_mass(events, rows, 0, n)
    first_cut = -1
    last_cut = -1
    for k in range(n - 1):
        if separated(events, rows[k], rows[k + 1]):
            last_cut = k
            if first_cut < 0:
                first_cut = k
        elif not may_precede(events, rows[k], rows[k + 1]):
            return 0.0
    if first_cut < 0:
        return _cut_by_window(events, rows, n, within_ms)
    head = distribution(events, rows[first_cut], 1.0)
    for k in range(first_cut - 1, -1, -1):
        head = lead(events, rows[k], rows[k + 1], head)
    middle = chain_mass(events, rows, first_cut + 1, last_cut + 1) if last_cut > first_cut else 1.0
    start = last_cut + 1
    tail = chain_end(events, rows, start, n, distribution(events, rows[start], 1.0))
    result = np.empty(head.shape[0], np.float64)
    summed = 0.0
    t = 0
    for k in range(head.shape[0]):
        while t < tail.shape[0] and events.lo_ms[last] + t <= events.lo_ms[first] + k + within_ms:
            summed += tail[t]
            t += 1
        result[k] = head[k] * summed
    return middle * total(result)


@kernel
def _cut_by_window(events, rows, n, within_ms):
    """The joint of first and last where all neighbours overlap: a pass per millisecond s with s + within_ms < hi."""
    first = rows[0]
    last = rows[n - 1]
    start = distribution(events, first, 1.0)
    free = start.copy()  # from here on the window cuts nothing
    result = 0.0
    for k in range(start.shape[0]):
        latest = events.lo_ms[first] + k + within_ms
        if latest >= events.hi_ms[last]:
            break
        free[k] = 0.0
        if latest < events.lo_ms[last] or start[k] == 0.0:
            continue
        point = np.zeros(start.shape[0], np.float64)
        point[k] = start[k]
        end = chain_end(events, rows, 0, n, point)
        result += total(end[: latest - events.lo_ms[last] + 1])
    return result + total(chain_end(events, rows, 0, n, free))


# ------------------------------------------------------------------ negation


@leaf
def cumulative(events, row, time_ms):
    """P(the event is at or before this millisecond)."""
    lo = events.lo_ms[row]
    hi = events.hi_ms[row]
    if time_ms < lo:
        return 0.0
    if time_ms >= hi:
        return 1.0
    at = events.weight_at[row]
    if at < 0:
        return (time_ms - lo + 1) / (hi - lo + 1)
    return total(events.weights[at : at + time_ms - lo + 1])


@leaf
def earliest_after(events, left, left_ms, row):
    """The earliest millisecond at which `row` comes after `left` at left_ms: -_FAR always, _FAR never."""
    if both_precise(events, left, row):
        return -_FAR if may_precede(events, left, row) else _FAR
    if one_clock(events, left, row):
        return -_FAR if clock_before(events, left, row) else _FAR
    return left_ms + 1


@leaf
def latest_before(events, row, right, right_ms):
    """The latest millisecond at which `row` comes before `right` at right_ms: _FAR always, -_FAR never."""
    if both_precise(events, row, right):
        return _FAR if may_precede(events, row, right) else -_FAR
    if one_clock(events, row, right):
        return _FAR if clock_before(events, row, right) else -_FAR
    return right_ms - 1


@leaf
def absence(events, rows, n, within_ms, negated, gaps, gap, left_ms, right_ms):
    """P(no negated event of `gap` is in its place), given the times of the two events that bound it.

    gap g in 0..n - 2 is between rows[g] and rows[g + 1]; -1 is [last - WITHIN, first) and n - 1 is (last,
    first + WITHIN], for which left_ms is the time of the first and right_ms that of the last event of the match.
    negated, gaps: int64 (k,), rows of negated events (each once per gap) and their gaps.
    """
    result = 1.0
    for k in range(negated.shape[0]):
        if gaps[k] != gap:
            continue
        row = negated[k]
        if gap == -1:
            earliest = right_ms - within_ms
            latest = latest_before(events, row, rows[0], left_ms)
        elif gap == n - 1:
            earliest = earliest_after(events, rows[n - 1], right_ms, row)
            latest = left_ms + within_ms
        else:
            earliest = earliest_after(events, rows[gap], left_ms, row)
            latest = latest_before(events, row, rows[gap + 1], right_ms)
        if earliest <= latest:
            result *= 1.0 - (cumulative(events, row, latest) - cumulative(events, row, earliest - 1))
    return result


@kernel
def absent_confidence(events, rows, n, within_ms, negated, gaps):
    """P(the rows are a match and no negated event is in its place) (DESIGN 4: the joint with the neighbours).

    Negated events are independent of each other once the times of the match are given; one event may stand in one gap
    only. A pass over the chain costs the product of neighbours' lengths where something negated is between them; there
    is one pass, or one per millisecond of the first event when the window or a negation at an end needs the joint.
    """
    first = rows[0]
    last = rows[n - 1]
    at_ends = False
    between = np.zeros(n + 1, np.bool_)
    for gap in gaps:
        if gap == -1 or gap == n - 1:
            at_ends = True
        else:
            between[gap] = True
    start = distribution(events, first, 1.0)
    if not at_ends and events.hi_ms[last] - events.lo_ms[first] <= within_ms:
        return total(_chain_without(events, rows, n, within_ms, negated, gaps, between, start))
    result = 0.0
    for k in range(start.shape[0]):
        if start[k] == 0.0:
            continue
        first_ms = events.lo_ms[first] + k
        point = np.zeros(start.shape[0], np.float64)
        point[k] = start[k]
        end = _chain_without(events, rows, n, within_ms, negated, gaps, between, point)
        for t in range(end.shape[0]):
            last_ms = events.lo_ms[last] + t
            if end[t] > 0.0 and last_ms - first_ms <= within_ms:
                value = end[t]
                if at_ends:
                    value *= absence(events, rows, n, within_ms, negated, gaps, -1, first_ms, last_ms)
                    value *= absence(events, rows, n, within_ms, negated, gaps, n - 1, first_ms, last_ms)
                result += value
    return result


@kernel
def _chain_without(events, rows, n, within_ms, negated, gaps, between, start):
    """F of the last row from F of the first, each link weighted with the absence of what is negated there."""
    reached = start
    for k in range(n - 1):
        if not between[k]:
            reached = chain_end(events, rows, k, k + 2, reached)
            continue
        i = rows[k]
        j = rows[k + 1]
        known = separated(events, i, j)
        following = distribution(events, j, 1.0)
        for t in range(following.shape[0]):
            right_ms = events.lo_ms[j] + t
            summed = 0.0
            for s in range(reached.shape[0]):
                left_ms = events.lo_ms[i] + s
                if reached[s] > 0.0 and (known or left_ms < right_ms):
                    summed += reached[s] * absence(events, rows, n, within_ms, negated, gaps, k, left_ms, right_ms)
            following[t] *= summed
        reached = following
    return reached
