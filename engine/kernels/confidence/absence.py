"""Confidence of a sequence with negated events that may be in their place (DESIGN 4: the joint with the neighbours).

Here by milliseconds: F_k (`engine.kernels.confidence.sequences`) is an array over the milliseconds of an interval.
"""

from __future__ import annotations

import numpy as np

from engine.kernels.compile.ways import kernel, leaf
from engine.kernels.confidence.absent_pieces import (
    NOT_BY_END_POINTS,
    absent_by_end_points,
    earliest_after,
    latest_before,
)
from engine.kernels.confidence.ordering import may_precede, separated

TOO_MUCH_WORK = -4.0
"""In place of a confidence."""

MOST_STEPS = 3e8
"""A few seconds."""

QUICK_STEPS = 200
"""What takes fewer is not worth the end points: the one place that chooses."""


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
def absent_confidence(events, rows, n, within_ms, negated, gaps, work):
    """P(the rows are a match and no negated event is in its place) (DESIGN 4: the joint with the neighbours).

    Where the order of two neighbours is known and nothing negated may be between them a match falls apart: what is
    between its first part and its last one is independent of these, and they are of each other unless the window, or
    something negated at an end, joins them. work: float64 (2,), the numbers that were computed, and how many may be;
    TOO_MUCH_WORK when that is not enough.
    """
    for k in range(n - 1):
        if not may_precede(events, rows[k], rows[k + 1]):
            return 0.0
    is_joint = events.hi_ms[rows[n - 1]] - events.lo_ms[rows[0]] > within_ms
    between = np.zeros(n + 1, np.bool_)
    for gap in gaps:
        is_joint = is_joint or gap == -1 or gap == n - 1
        between[gap] = True
    work[0] += n
    ends = np.empty(n, np.int64)  # of the parts
    n_parts = 0
    for k in range(n):
        if k == n - 1 or (not between[k] and separated(events, rows[k], rows[k + 1])):
            ends[n_parts] = k + 1
            n_parts += 1
    if is_joint and (n_parts < 3 or not separated(events, rows[ends[0] - 1], rows[ends[n_parts - 2]])):
        return _of_parts(events, rows[:n], within_ms, negated, gaps, work)
    result = 1.0
    for p in range(n_parts):
        start = ends[p - 1] if p > 0 else 0
        if ends[p] - start == 1 or (is_joint and (p == 0 or p == n_parts - 1)):
            continue
        own = (gaps >= start) & (gaps < ends[p] - 1)
        share = _of_parts(events, rows[start : ends[p]], within_ms, negated[own], gaps[own] - start, work)
        if share == TOO_MUCH_WORK or share <= 0.0:
            return share
        result *= share
    if is_joint:
        start, head = ends[n_parts - 2], ends[0]
        joined = np.concatenate((rows[:head], rows[start:n]))
        own = (gaps < head - 1) | (gaps >= start)
        positions = gaps[own].copy()
        for k in range(positions.shape[0]):
            if positions[k] >= start:
                positions[k] -= start - head
        share = _of_parts(events, joined, within_ms, negated[own], positions, work)
        if share == TOO_MUCH_WORK:
            return share
        result *= share
    return result


@kernel
def _of_parts(events, rows, within_ms, negated, gaps, work):
    """`absent_confidence` of all at once.

    Negated events are independent of each other once the times of the match are given; one event may stand in one gap
    only (gaps: see `absence`). By end points (`engine.kernels.confidence.absent_pieces`) where that is possible and
    quicker, else by milliseconds; TOO_MUCH_WORK when that would take more than MOST_STEPS.
    """
    n = rows.shape[0]
    n_steps = _steps(events, rows, n, within_ms, gaps)
    if n_steps > QUICK_STEPS:
        confidence = absent_by_end_points(events, rows, n, within_ms, negated, gaps, work)
        if confidence != NOT_BY_END_POINTS:
            return TOO_MUCH_WORK if work[0] > work[1] else confidence
        if n_steps > min(MOST_STEPS, work[1] - work[0]):
            return TOO_MUCH_WORK
    work[0] += n_steps
    return _by_milliseconds(events, rows, n, within_ms, negated, gaps)


@leaf
def _steps(events, rows, n, within_ms, gaps):
    """Evaluations of a negated event that `_by_milliseconds` takes, about."""
    steps = 0.0
    for gap in gaps:
        if 0 <= gap < n - 1:
            length = 1.0 * (events.hi_ms[rows[gap]] - events.lo_ms[rows[gap]] + 1)
            steps += length * (events.hi_ms[rows[gap + 1]] - events.lo_ms[rows[gap + 1]] + 1)
    for k in range(n):
        steps += events.hi_ms[rows[k]] - events.lo_ms[rows[k]] + 1
    if n == 1:
        return steps * gaps.shape[0]
    joint = events.hi_ms[rows[n - 1]] - events.lo_ms[rows[0]] > within_ms
    for gap in gaps:
        joint = joint or gap == -1 or gap == n - 1
    if joint:
        steps += (events.hi_ms[rows[n - 1]] - events.lo_ms[rows[n - 1]] + 1) * gaps.shape[0]
        steps *= events.hi_ms[rows[0]] - events.lo_ms[rows[0]] + 1
    return steps


@kernel
def _by_milliseconds(events, rows, n, within_ms, negated, gaps):
    """`absent_confidence` by milliseconds.

    A pass over the chain costs the product of neighbours' lengths where something negated is between them; there is one
    pass, or one per millisecond of the first event when the window or a negation at an end needs the joint.
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
    if n == 1:
        for k in range(start.shape[0]):
            time_ms = events.lo_ms[first] + k
            for gap in range(-1, 1):
                start[k] *= absence(events, rows, n, within_ms, negated, gaps, gap, time_ms, time_ms)
        return total(start)
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


__all__ = ["TOO_MUCH_WORK", "absent_confidence", "chain_end", "distribution", "total"]
