"""Confidence of a match whose clocks have a skew bound: one unknown offset shared by all events of a clock (DESIGN 2).

An event of a clock with bound s is at its nominal time plus the clock's offset, which is uniform over -s..s and
independent of other clocks. lo_ms..hi_ms is the hull: the nominal interval, s wider on both sides. So whatever hulls
say of order and window is certain, and between events of one clock the offset makes no difference.

A match falls into parts where the order of neighbours is certain: a part of one event always holds. Parts of several
events, and the two at the ends where the window is open, are the chains that matter. An offset that one event of them
has is part of that event's distribution. On one that several have the confidence conditions: it is the mean, over the
offset, of the product of the chains' confidences (`chain_confidence`), which are independent once it is given. Chains
without a common offset are independent to begin with. As only differences of times matter, chains of one clock alone
need no condition, and chains of two clocks alone need the difference of two offsets.

`engine.kernels.confidence.skew_offset` has that mean over one offset, `engine.kernels.confidence.skew_absence`
negation.
"""

from __future__ import annotations

import numpy as np

from engine.kernels.compile.ways import kernel, leaf
from engine.kernels.confidence.absence import total
from engine.kernels.confidence.ordering import Events, may_precede, separated
from engine.kernels.confidence.sequences import chain_confidence, chain_mass, sequence_work
from engine.kernels.confidence.skew_events import (
    has_skew,
    numbered_offsets,
    one_offset,
    own_distributions,
    shared_offsets,
)
from engine.kernels.confidence.skew_offset import TOO_MUCH, Chains, over_offset, shift

MAX_EVALUATIONS = 200_000
"""Combinations of offsets that one confidence may take."""

_BOUND_EVALUATIONS = 2_000
"""As many for a prefix, where a bound will do."""

_FAR_MS = 2**60


@leaf
def _n_evaluations(events, rows, n):
    """Combinations of offsets that the confidence of these rows takes, about; float64.

    Over the offset that reaches farthest sums are found from a few; of two that all rows follow the difference matters.
    """
    most, product = 1.0, 1.0
    n_clocks, n_rows = 0, 0
    for k in range(n):
        clock = events.clock[rows[k]]
        if clock < 0 or events.skew[rows[k]] == 0:
            continue
        is_first = True
        n_own = 0
        for other in range(n):
            if events.clock[rows[other]] == clock:
                is_first = is_first and other >= k
                n_own += 1
        if is_first and n_own > 1:
            ways = 2.0 * events.skew[rows[k]] + 1.0
            product *= ways
            most = max(most, ways)
            n_clocks += 1
            n_rows += n_own
    nodes = 4.0 * n + 8.0
    if n_rows == n and n_clocks <= 2:
        return 1.0 if n_clocks == 1 else min(2.0 * most, nodes)
    return product / most * min(most, nodes)


@leaf
def match_work(events, rows, start, n, within_ms, most):
    """The numbers that `match_confidence` of rows[:n] computes, about; float64. It goes through `most` combinations of
    offsets at most. Without skew: of rows[start:n], what is before being known."""
    if not has_skew(events, rows, n):
        return sequence_work(events, rows, start, n, within_ms)
    per_combination = sequence_work(events, rows, np.int64(0), n, within_ms) + 200.0 * n
    return 3000.0 + per_combination * min(_n_evaluations(events, rows, n), 1.0 * most)


@leaf
def prefix_work(events, rows, start, n):
    """The same for `prefix_mass`."""
    return match_work(events, rows, start, n, np.int64(_FAR_MS), _BOUND_EVALUATIONS)


@kernel
def match_confidence(events, rows, n, within_ms):
    """P(rows[0] < ... < rows[n - 1] and last - first <= within_ms) as `chain_confidence`, whatever the clocks' bounds.

    TOO_MUCH where it would take more than MAX_EVALUATIONS.
    """
    if not has_skew(events, rows, n):
        return chain_confidence(events, rows, n, within_ms)
    return _conditioned(events, rows, n, within_ms, np.int64(MAX_EVALUATIONS))


@kernel
def prefix_mass(events, rows, segment, n, before, mass):
    """A bound of P(rows[0] < ... < rows[n - 1]) that no longer match exceeds; without skew that probability itself.

    before: P(the rows before `segment` are in order), rows[segment - 1] being certainly before rows[segment]. mass: the
    bound for the rows without the last one.
    """
    if not has_skew(events, rows, n):
        return before * chain_mass(events, rows, segment, n)
    found = _conditioned(events, rows, n, np.int64(_FAR_MS), np.int64(_BOUND_EVALUATIONS))
    return mass if found == TOO_MUCH else min(found, mass)


@kernel
def _conditioned(events, rows, n, within_ms, budget):
    """The confidence of rows of which some have skew; TOO_MUCH beyond `budget` combinations of offsets."""
    if n == 1:
        return 1.0
    first = rows[0]
    last = rows[n - 1]
    known = 2 * events.skew[first] if one_offset(events, first, last) else 0
    if events.lo_ms[last] - events.hi_ms[first] + known > within_ms:
        return 0.0
    is_open = events.hi_ms[last] - events.lo_ms[first] - known > within_ms
    part = np.zeros(n, np.int64)
    for k in range(1, n):
        cut = separated(events, rows[k - 1], rows[k])
        if not cut and not may_precede(events, rows[k - 1], rows[k]):
            return 0.0
        part[k] = part[k - 1] + 1 if cut else part[k - 1]
    # Chains by position, -1 for what does not matter; the ends are one chain (number 0) where the window is open.
    chain = np.full(n, -1, np.int64)
    n_chains = 1 if is_open else 0
    k = 0
    while k < n:
        end = k + 1
        while end < n and part[end] == part[k]:
            end += 1
        if is_open and (k == 0 or end == n):
            chain[k:end] = 0
        elif end - k > 1:
            chain[k:end] = n_chains
            n_chains += 1
        k = end
    shared, group = shared_offsets(events, rows, n, chain, n_chains)
    result = 1.0
    for number in range(n_chains):
        if group[number] != number:
            continue
        value = _group_confidence(
            events, rows, n, within_ms, is_open, part, chain, shared, group, number, n_chains, budget
        )
        if value == TOO_MUCH or value <= 0.0:
            return value
        result *= value
    return min(result, 1.0)


@kernel
def _group_confidence(events, rows, n, within_ms, is_open, part, chain, shared, group, number, n_chains, budget):
    """P(the chains of one group hold): the mean over the offsets that their events share."""
    at = np.empty(n, np.int64)  # positions, chain by chain
    starts = np.empty(n_chains + 1, np.int64)
    windows = np.full(n_chains, _FAR_MS)
    n_rows = 0
    n_own = 0
    later = np.int64(0)  # the last part comes so much later: then its order after the first one is certain
    for c in range(n_chains):
        if group[c] != number:
            continue
        starts[n_own] = n_rows
        for k in range(n):
            if chain[k] == c:
                at[n_rows] = k
                n_rows += 1
        if c == 0 and is_open:
            windows[n_own] = within_ms
            for r in range(1, n_rows):
                if part[at[r]] != part[at[r - 1]]:
                    later = max(later, events.hi_ms[rows[at[r - 1]]] - events.lo_ms[rows[at[r]]] + 1)
            windows[n_own] += later
        n_own += 1
    starts[n_own] = n_rows
    variable, skews, n_variables = numbered_offsets(events, rows, at, n_rows, shared)
    lo = np.empty(n_rows, np.int64)
    hi = np.empty(n_rows, np.int64)
    for r in range(n_rows):
        row = rows[at[r]]
        inner = events.skew[row] if shared[at[r]] else 0
        added = later if part[at[r]] > 0 and chain[at[r]] == 0 and is_open else 0
        lo[r] = events.lo_ms[row] + inner + added
        hi[r] = events.hi_ms[row] - inner + added
    knots = np.empty((n_rows, 4), np.int64)
    degrees = np.zeros(n_rows, np.int64)  # what each event adds to the degree; -1: given weights
    weight_at, weights = own_distributions(events, rows, at, n_rows, shared, lo, hi, knots, degrees)
    gathered = Events(
        lo.copy(),
        hi.copy(),
        np.full(n_rows, -1, np.int64),
        np.zeros(n_rows, np.int64),
        weight_at,
        weights,
        np.empty((0, n_rows), np.float64),
        True,  # an event that has skew is not precise, whatever the offset: equal times are not in order
        np.empty(0, np.int64),
    )
    # Chains of the events of two clocks alone depend on the difference of their offsets, of one clock on none.
    alone = n_variables > 0
    for r in range(n_rows):
        alone = alone and variable[r] >= 0
    reference = np.int64(-1)
    if alone and n_variables <= 2:
        reference = skews[0]
        n_variables -= 1
        for r in range(n_rows):
            variable[r] -= 1
        skews[0] = skews[1]
    chains = Chains(gathered, starts[: n_own + 1], windows[:n_own], lo, hi - lo, variable, knots, degrees)
    inmost = -1 if n_variables == 0 else 0
    skew = np.int64(0)
    n_outer = 1
    for v in range(n_variables):
        if skews[v] > skews[inmost]:
            inmost = v
        skew = skews[inmost]
    for v in range(n_variables):
        if v != inmost:
            n_outer *= 2 * skews[v] + 1
            if n_outer > budget:
                return TOO_MUCH
    offsets = -skews[:n_variables]
    values = np.empty(n_outer, np.float64)
    n_left = budget
    for combination in range(n_outer):
        for v in range(n_variables):
            shift(chains, v, offsets[v])
        value, n_used = over_offset(chains, inmost, skew, reference, n_left)
        n_left -= n_used
        if value == TOO_MUCH:
            return TOO_MUCH
        values[combination] = value
        for v in range(n_variables):
            if v == inmost:
                continue
            offsets[v] += 1
            if offsets[v] <= skews[v]:
                break
            offsets[v] = -skews[v]
    return total(values) / n_outer


__all__ = ["MAX_EVALUATIONS", "TOO_MUCH", "match_confidence", "match_work", "prefix_mass", "prefix_work"]
