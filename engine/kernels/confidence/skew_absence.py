"""Confidence of a match with negated events among clocks with a skew bound, see `engine.kernels.confidence.skew`."""

from __future__ import annotations

import numpy as np

from engine.kernels.compile.ways import kernel
from engine.kernels.confidence.absence import TOO_MUCH_WORK, absent_confidence, total
from engine.kernels.confidence.ordering import Events, clock_before
from engine.kernels.confidence.skew import MAX_EVALUATIONS
from engine.kernels.confidence.skew_events import has_skew, numbered_offsets, own_distributions, shared_offsets
from engine.kernels.confidence.skew_offset import TOO_MUCH


@kernel
def absent_match_confidence(events, rows, n, within_ms, negated, gaps, work):
    """P(the rows are a match and no negated event is in its place) as `absent_confidence`, whatever the bounds.

    All offsets that two of the events share are gone through. TOO_MUCH beyond MAX_EVALUATIONS; TOO_MUCH_WORK. work: see
    `absent_confidence`.
    """
    n_all = n + negated.shape[0]
    work[0] += n_all
    every = np.empty(n_all, np.int64)
    every[:n] = rows[:n]
    every[n:] = negated
    if not has_skew(events, every, n_all):
        return absent_confidence(events, rows, n, within_ms, negated, gaps, work)
    at = np.empty(n_all, np.int64)  # by row number, which decides where a clock gives two events one place
    positions = np.zeros(n_all, np.int64)
    for r in range(n_all):
        for q in range(n_all):
            positions[r] += every[q] < every[r]
        at[positions[r]] = r
    shared, _ = shared_offsets(events, every, n_all, np.zeros(n_all, np.int64), 1)
    variable, skews, n_variables = numbered_offsets(events, every, at, n_all, shared)
    lo = np.empty(n_all, np.int64)
    hi = np.empty(n_all, np.int64)
    for r in range(n_all):
        inner = events.skew[every[at[r]]] if shared[at[r]] else 0
        lo[r] = events.lo_ms[every[at[r]]] + inner
        hi[r] = events.hi_ms[every[at[r]]] - inner
    knots = np.empty((n_all, 4), np.int64)
    degrees = np.zeros(n_all, np.int64)
    weight_at, weights = own_distributions(events, every, at, n_all, shared, lo, hi, knots, degrees)
    clock = np.empty(n_all, np.int64)
    source_seq = np.zeros(
        n_all, np.int64
    )  # the position in its clock's order, which may go by row number where times tie
    for r in range(n_all):
        row = every[at[r]]
        clock[r] = events.clock[row]
        for other in every:
            source_seq[r] += clock[r] >= 0 and events.clock[other] == clock[r] and clock_before(events, other, row)
        if lo[r] == hi[r] and events.skew[row] > 0:
            # Not precise, as its offset is not known: at this time, and never a millisecond earlier. Its end stays what
            # it is: the order of one clock goes by that.
            lo[r] -= 1
            weight_at[r] = weights.shape[0]
            weights = np.append(weights, np.array([0.0, 1.0]))
    gathered = Events(
        lo.copy(),
        hi.copy(),
        clock,
        source_seq,
        weight_at,
        weights,
        np.empty((0, n_all), np.float64),
        events.strict,
        np.empty(0, np.int64),
    )
    n_combinations = 1
    for v in range(n_variables):
        n_combinations *= 2 * skews[v] + 1
        if n_combinations > MAX_EVALUATIONS:
            return TOO_MUCH
    offsets = -skews[:n_variables]
    work[0] += 1.0 * n_all * n_all
    if work[0] + n_combinations * n_all > work[1]:
        return TOO_MUCH_WORK
    values = np.empty(n_combinations, np.float64)
    for combination in range(n_combinations):
        work[0] += n_all
        for r in range(n_all):
            shift = offsets[variable[r]] if variable[r] >= 0 else 0
            gathered.lo_ms[r] = lo[r] + shift
            gathered.hi_ms[r] = hi[r] + shift
        values[combination] = absent_confidence(gathered, positions[:n], n, within_ms, positions[n:], gaps, work)
        if values[combination] == TOO_MUCH_WORK:
            return TOO_MUCH_WORK
        for v in range(n_variables):
            offsets[v] += 1
            if offsets[v] <= skews[v]:
                break
            offsets[v] = -skews[v]
    return min(total(values) / n_combinations, 1.0)


__all__ = ["absent_match_confidence"]
