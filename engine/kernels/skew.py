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

from engine.kernels.absence import TOO_MUCH_WORK, absent_confidence, total
from engine.kernels.compiling import kernel, leaf
from engine.kernels.confidence import chain_confidence, chain_mass
from engine.kernels.ordering import Events, may_precede, separated

TOO_MUCH = -2.0
"""In place of a confidence: more combinations of offsets than are evaluated."""

MAX_EVALUATIONS = 200_000
"""Combinations of offsets that one confidence may take."""

_BOUND_EVALUATIONS = 2_000
"""As many for a prefix, where a bound will do."""

Int64 = npt.NDArray[np.int64]

_FAR = 2**60
_MAX_DEGREE = 17


class _Chains(NamedTuple):
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
    found = _conditioned(events, rows, n, np.int64(_FAR), np.int64(_BOUND_EVALUATIONS))
    return mass if found == TOO_MUCH else min(found, mass)


@kernel
def order_is_certain(events, candidates, first, last, within_ms):
    """Whether first, last and any of the candidates between are in one certain order, inside the window.

    candidates: int64 (n,), in the order of `ordering.search_order`.
    """
    n = candidates.shape[0]
    if events.hi_ms[last] - events.lo_ms[first] > within_ms:
        return False
    if first != last and not separated(events, first, last):
        return False
    for j in range(n):
        row = candidates[j]
        if not separated(events, first, row) or not separated(events, row, last):
            return False
        for i in range(j):
            if not separated(events, candidates[i], row) and (
                may_precede(events, candidates[i], row) or may_precede(events, row, candidates[i])
            ):
                return False
    return True


# ------------------------------------------------------------------- matches


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
    shared, group = _groups(events, rows, n, chain, n_chains)
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
def _groups(events, rows, n, chain, n_chains):
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
def _group_confidence(events, rows, n, within_ms, is_open, part, chain, shared, group, number, n_chains, budget):
    """P(the chains of one group hold): the mean over the offsets that their events share."""
    at = np.empty(n, np.int64)  # positions, chain by chain
    starts = np.empty(n_chains + 1, np.int64)
    windows = np.full(n_chains, _FAR)
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
    variable, skews, n_variables = _variables(events, rows, at, n_rows, shared)
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
    weight_at, weights = _weights(events, rows, at, n_rows, shared, lo, hi, knots, degrees)
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
    chains = _Chains(gathered, starts[: n_own + 1], windows[:n_own], lo, hi - lo, variable, knots, degrees)
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
            _shift(chains, v, offsets[v])
        value, n_used = _over_offset(chains, inmost, skew, reference, n_left)
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


@kernel
def _variables(events, rows, at, n_rows, shared):
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
def _weights(events, rows, at, n_rows, shared, lo, hi, knots, degrees):
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


@leaf
def _shift(chains, own, offset_ms):
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


# ------------------------------------------------------------------ negation


@kernel
def absent_match_confidence(events, rows, n, within_ms, negated, gaps):
    """P(the rows are a match and no negated event is in its place) as `absent_confidence`, whatever the bounds.

    All offsets that two of the events share are gone through. TOO_MUCH beyond MAX_EVALUATIONS; TOO_MUCH_WORK.
    """
    n_all = n + negated.shape[0]
    every = np.empty(n_all, np.int64)
    every[:n] = rows[:n]
    every[n:] = negated
    if not has_skew(events, every, n_all):
        return absent_confidence(events, rows, n, within_ms, negated, gaps)
    at = np.empty(n_all, np.int64)  # by row number, which decides where a clock gives two events one place
    places = np.zeros(n_all, np.int64)
    for r in range(n_all):
        for q in range(n_all):
            places[r] += every[q] < every[r]
        at[places[r]] = r
    shared, _ = _groups(events, every, n_all, np.zeros(n_all, np.int64), 1)
    variable, skews, n_variables = _variables(events, every, at, n_all, shared)
    lo = np.empty(n_all, np.int64)
    hi = np.empty(n_all, np.int64)
    for r in range(n_all):
        inner = events.skew[every[at[r]]] if shared[at[r]] else 0
        lo[r] = events.lo_ms[every[at[r]]] + inner
        hi[r] = events.hi_ms[every[at[r]]] - inner
    knots = np.empty((n_all, 4), np.int64)
    degrees = np.zeros(n_all, np.int64)
    weight_at, weights = _weights(events, every, at, n_all, shared, lo, hi, knots, degrees)
    clock = np.empty(n_all, np.int64)
    source_seq = np.empty(n_all, np.int64)
    for r in range(n_all):
        row = every[at[r]]
        clock[r] = events.clock[row]
        source_seq[r] = events.source_seq[row]
        if lo[r] == hi[r] and events.skew[row] > 0:
            # Not precise, as its offset is not known: at this time, and never a millisecond later.
            hi[r] += 1
            weight_at[r] = weights.shape[0]
            weights = np.append(weights, np.array([1.0, 0.0]))
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
    values = np.empty(n_combinations, np.float64)
    for combination in range(n_combinations):
        for r in range(n_all):
            shift = offsets[variable[r]] if variable[r] >= 0 else 0
            gathered.lo_ms[r] = lo[r] + shift
            gathered.hi_ms[r] = hi[r] + shift
        values[combination] = absent_confidence(gathered, places[:n], n, within_ms, places[n:], gaps)
        if values[combination] == TOO_MUCH_WORK:
            return TOO_MUCH_WORK
        for v in range(n_variables):
            offsets[v] += 1
            if offsets[v] <= skews[v]:
                break
            offsets[v] = -skews[v]
    return min(total(values) / n_combinations, 1.0)


# ---------------------------------------------------------------- one offset


@kernel
def _over_offset(chains, own, skew, reference, n_allowed):
    """The mean over one offset, and the evaluations it took; TOO_MUCH when these are more than n_allowed.

    own: its number, -1: there is none. reference: -1, or the bound of the clock from whose offset this one is told:
    then it is the difference of two.
    """
    points, shares = _points(chains, own, skew, reference)
    if points.shape[0] > n_allowed:
        return TOO_MUCH, 0
    for k in range(points.shape[0]):
        if own >= 0:
            _shift(chains, own, points[k])
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
    room = walls.shape[0] * (2 * degree + 4)  # `_nodes` gives at most twice what is needed
    points = np.empty(room, np.int64)
    shares = np.ones(room, np.float64)
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
    difference is that of their places, by way of the window too. A wall belongs to neither side.
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
    """Solve in place: the last column becomes the solution (Gauss and Jordan, with pivots by rows)."""
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


__all__ = [
    "MAX_EVALUATIONS",
    "TOO_MUCH",
    "absent_match_confidence",
    "has_skew",
    "match_confidence",
    "one_offset",
    "order_is_certain",
    "prefix_mass",
    "time_distribution",
]
