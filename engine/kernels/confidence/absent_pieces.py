"""Confidence with negated events by end points: polynomials on cells, not milliseconds.

A negated event r is not between left and right when it is at or before the one or at or after the other:
P(r <= left) + P(r >= right), two straight lines between end points. So F_k (`engine.kernels.confidence.sequences`) is a
polynomial on the cells between the end points of all events, and is multiplied by such lines. Where only one of the two
depends on its neighbour's time the line is a factor of that neighbour; where both do, the product of the sums is
expanded. A window that cuts joins first and last through the first known order between neighbours; without one that is
left to `engine.kernels.confidence.absence`, by milliseconds.

All functions of one pass share one grid of cells; cells: int64 (n + 1,), ascending; a function: float64 (n, n_degrees)
with the coefficients of `engine.kernels.confidence.pieces`, whose sign is free here: falling lines have negative ones.
A product with such a line at most doubles their sum, so they are few (MOST_EXPANDED) before the error comes near 1e-13.
"""

from __future__ import annotations

import numpy as np

from engine.kernels.compile.ways import apart, kernel, leaf
from engine.kernels.confidence.ordering import both_precise, clock_before, may_precede, one_clock, separated

NOT_BY_END_POINTS = -1.0

ALWAYS = 2**62

MOST_EXPANDED = 6
"""Negated events of one place that overlap both neighbours."""

MOST_NEGATED = 16


@leaf
def earliest_after(events, left, left_ms, row):
    """The earliest millisecond at which `row` comes after `left` at left_ms: -ALWAYS always, ALWAYS never."""
    if both_precise(events, left, row):
        return -ALWAYS if may_precede(events, left, row) else ALWAYS
    if one_clock(events, left, row):
        return -ALWAYS if clock_before(events, left, row) else ALWAYS
    return left_ms + 1


@leaf
def latest_before(events, row, right, right_ms):
    """The latest millisecond at which `row` comes before `right` at right_ms: ALWAYS always, -ALWAYS never."""
    if both_precise(events, row, right):
        return ALWAYS if may_precede(events, row, right) else -ALWAYS
    if one_clock(events, row, right):
        return ALWAYS if clock_before(events, row, right) else -ALWAYS
    return right_ms - 1


@leaf
def _share_until(lo, hi, time_ms):
    """P(t <= time_ms), t uniform over lo..hi."""
    return min(max((time_ms - lo + 1) / (hi - lo + 1), 0.0), 1.0)


@apart
def _times_line(values, n_degrees, cells, low, high, constant, sign, lo, hi, shift):
    """Multiply by constant + sign * P(r <= t + shift), r uniform over lo..hi, for t in low..high; returns n_degrees.

    lo - shift and hi + 1 - shift, or one less, are ends of cells where they are inside low..high: the line begins where
    its value is 0 and ends where it is 1.
    """
    sloped = 0
    for c in range(cells.shape[0] - 1):
        if cells[c] < low or cells[c] > high:
            continue
        length = cells[c + 1] - cells[c]
        slope = 0.0
        if sign != 0.0 and lo - 1 <= cells[c] + shift and cells[c + 1] - 1 + shift <= hi and length > 1:
            slope = sign / (hi - lo + 1)
            sloped = 1
        start = constant + sign * _share_until(lo, hi, cells[c] + shift)
        for d in range(n_degrees - 1, -1, -1):
            value = values[c, d]
            if slope != 0.0 and d + 1 < length:
                values[c, d + 1] += value * slope * (length - d)
            values[c, d] = value * (start + slope * d)
    return n_degrees + sloped


@apart
def _sum_below(values, n_degrees, cells):
    """Replace a function by its sum over smaller times; returns the sum over all."""
    summed = 0.0
    for c in range(cells.shape[0] - 1):
        length = cells[c + 1] - cells[c]
        after = summed
        for d in range(min(n_degrees, length) - 1, -1, -1):
            value = values[c, d] * (length - d) / (d + 1)
            after += value
            if d + 1 < length:
                values[c, d + 1] = value
        values[c, 0] = summed
        summed = after
    return summed


@leaf
def _uniform(values, cells, lo, hi):
    """Make it the distribution of an event over lo..hi; returns n_degrees."""
    for c in range(values.shape[0]):
        for d in range(values.shape[1]):
            values[c, d] = 0.0
        if lo <= cells[c] <= hi:
            values[c, 0] = 1.0 / (hi - lo + 1)
    return 1


@leaf
def _kind(lo, hi, tails, k, left_lo, left_hi, right_lo, right_hi):
    """0: P(r <= left) does not depend on left's time; 1: P(r >= right) not on right's; 2: both depend."""
    if not tails[k, 0] or _share_until(lo[k], hi[k], left_lo) == _share_until(lo[k], hi[k], left_hi):
        return 0
    if not tails[k, 1] or _share_until(lo[k], hi[k], right_lo - 1) == _share_until(lo[k], hi[k], right_hi - 1):
        return 1
    return 2


@leaf
def _left_line(values, n_degrees, cells, low, high, lo, hi, tails, k, right_lo):
    """Kind 1: multiply the left neighbour's function."""
    constant = 1.0 - _share_until(lo[k], hi[k], right_lo - 1) if tails[k, 1] else 0.0
    return _times_line(values, n_degrees, cells, low, high, constant, 1.0, lo[k], hi[k], 0)


@leaf
def _right_line(values, n_degrees, cells, low, high, lo, hi, tails, k, left_lo):
    """Kind 0: multiply the right neighbour's function."""
    constant = _share_until(lo[k], hi[k], left_lo) if tails[k, 0] else 0.0
    if not tails[k, 1]:
        return _times_line(values, n_degrees, cells, low, high, constant, 0.0, lo[k], hi[k], 0)
    return _times_line(values, n_degrees, cells, low, high, constant + 1.0, -1.0, lo[k], hi[k], -1)


@kernel
def _links(values, n_degrees, cells, row_lo, row_hi, known, start, end, lo, hi, tails, gaps, work):
    """From the function of event `start` to that of event `end`, in place; returns n_degrees, 0 if it cannot be done.

    row_lo, row_hi, known: int64 and bool (n,), the events and whether each is before the next in all worlds. lo, hi:
    int64 (k,), negated events; gaps: int64 (k,), behind which event; tails: bool (k, 2), whether they can be at or
    before the left neighbour, at or after the right one. work: see `absence.absent_confidence`; beyond it nothing is
    computed.
    """
    for i in range(start, end):
        j = i + 1
        both = np.empty(gaps.shape[0], np.int64)
        n_both = 0
        for k in range(gaps.shape[0]):
            if gaps[k] != i:
                continue
            kind = _kind(lo, hi, tails, k, row_lo[i], row_hi[i], row_lo[j], row_hi[j])
            if kind == 1:
                n_degrees = _left_line(values, n_degrees, cells, row_lo[i], row_hi[i], lo, hi, tails, k, row_lo[j])
            elif kind == 2:
                both[n_both] = k
                n_both += 1
        if n_both > MOST_EXPANDED:
            return 0
        work[0] += (2.0 + gaps.shape[0] + 2.0 * (1 << n_both)) * values.size
        if work[0] > work[1]:
            return n_degrees
        following = np.zeros_like(values)
        term = np.empty_like(values)
        n_most = 1
        for chosen in range(1 << n_both):
            for c in range(values.shape[0]):
                for d in range(values.shape[1]):
                    term[c, d] = values[c, d]
            n_term = n_degrees
            for b in range(n_both):
                if chosen >> b & 1:
                    k = both[b]
                    n_term = _times_line(term, n_term, cells, row_lo[i], row_hi[i], 0.0, 1.0, lo[k], hi[k], 0)
            summed = _sum_below(term, n_term, cells)
            n_term += 1
            if known[i]:
                for c in range(values.shape[0]):
                    term[c, 0] = summed
                n_term = 1
            for b in range(n_both):
                if not chosen >> b & 1:
                    k = both[b]
                    n_term = _times_line(term, n_term, cells, row_lo[j], row_hi[j], 1.0, -1.0, lo[k], hi[k], -1)
            n_most = max(n_most, n_term)
            for c in range(values.shape[0]):
                if row_lo[j] <= cells[c] <= row_hi[j]:
                    for d in range(n_term):
                        following[c, d] += term[c, d] / (row_hi[j] - row_lo[j] + 1)
        for c in range(values.shape[0]):
            for d in range(values.shape[1]):
                values[c, d] = following[c, d]
        n_degrees = n_most
        for k in range(gaps.shape[0]):
            if gaps[k] == i and _kind(lo, hi, tails, k, row_lo[i], row_hi[i], row_lo[j], row_hi[j]) == 0:
                n_degrees = _right_line(values, n_degrees, cells, row_lo[j], row_hi[j], lo, hi, tails, k, row_lo[i])
    return n_degrees


@kernel
def absent_by_end_points(events, rows, n, within_ms, negated, gaps, work):
    """See `absent_confidence`; NOT_BY_END_POINTS where that cannot be.

    That is with distributions given as weights, with times that contradict the order of one clock beside something
    negated, with too much to expand, for a single event, and where the window cuts a match without a known order.
    work: see `absence.absent_confidence`.
    """
    if n == 1 or negated.shape[0] > MOST_NEGATED:
        return NOT_BY_END_POINTS
    known = np.zeros(n, np.bool_)
    for k in range(n - 1):
        known[k] = separated(events, rows[k], rows[k + 1])
    row_lo = np.empty(n, np.int64)
    row_hi = np.empty(n, np.int64)
    for k in range(n):
        row_lo[k] = events.lo_ms[rows[k]]
        row_hi[k] = events.hi_ms[rows[k]]
        if events.weight_at[rows[k]] >= 0:
            return NOT_BY_END_POINTS
    lo = np.empty(negated.shape[0], np.int64)
    hi = np.empty(negated.shape[0], np.int64)
    positions = np.empty(negated.shape[0], np.int64)
    tails = np.ones((negated.shape[0], 2), np.bool_)
    n_kept = 0
    for k in range(negated.shape[0]):
        row = negated[k]
        if events.weight_at[row] >= 0:
            return NOT_BY_END_POINTS
        earliest = 0
        latest = 0
        if gaps[k] >= 0:
            earliest = earliest_after(events, rows[gaps[k]], 0, row)
        if gaps[k] < n - 1:
            latest = latest_before(events, row, rows[gaps[k] + 1], 0)
        if earliest == ALWAYS or latest == -ALWAYS:
            continue  # never in its place
        if 0 <= gaps[k] < n - 1 and known[gaps[k]] and row_hi[gaps[k]] >= row_lo[gaps[k] + 1]:
            return NOT_BY_END_POINTS
        lo[n_kept] = events.lo_ms[row]
        hi[n_kept] = events.hi_ms[row]
        positions[n_kept] = gaps[k]
        tails[n_kept, 0] = earliest != -ALWAYS
        tails[n_kept, 1] = latest != ALWAYS
        n_kept += 1
    return _absent(
        row_lo, row_hi, known, n, within_ms, lo[:n_kept], hi[:n_kept], tails[:n_kept], positions[:n_kept], work
    )


@kernel
def _absent(row_lo, row_hi, known, n, within_ms, lo, hi, tails, positions, work):
    """`absent_by_end_points` of intervals."""
    first = np.int64(0)  # a constant would compile `_links` once more
    last = n - 1
    # What is negated at an end is not there when P(r <= last + shifts[k, 0]) or P(r > first + shifts[k, 1]).
    shifts = np.empty((positions.shape[0], 2), np.int64)
    kinds = np.empty(positions.shape[0], np.int64)
    bits = np.zeros(positions.shape[0], np.int64)
    n_both = 0
    for k in range(positions.shape[0]):
        shifts[k, 0] = -within_ms - 1 if positions[k] == -1 else 0
        shifts[k, 1] = -1 if positions[k] == -1 else within_ms
        kinds[k] = -1
        if positions[k] == -1 or positions[k] == last:
            kinds[k] = _end_kind(lo[k], hi[k], tails, k, shifts, row_lo[0], row_hi[0], row_lo[last], row_hi[last])
        if kinds[k] == 2:
            bits[k] = 1 << n_both
            n_both += 1
    cut = -1
    if row_hi[last] - row_lo[0] > within_ms:
        cut = _first_known(known)
        if cut < 0:
            return NOT_BY_END_POINTS
        for k in range(positions.shape[0]):
            if (
                positions[k] == cut
                and _kind(lo, hi, tails, k, row_lo[cut], row_hi[cut], row_lo[cut + 1], row_hi[cut + 1]) == 2
            ):
                bits[k] = 1 << n_both
                n_both += 1
    if n_both > MOST_EXPANDED:
        return NOT_BY_END_POINTS
    work[0] += 16.0 * (n + 2 * positions.shape[0]) ** 2
    if work[0] > work[1]:
        return 0.0
    cells = _grid(row_lo, row_hi, lo, hi, positions, within_ms, cut >= 0)
    capacity = n + positions.shape[0] + 3
    values = np.empty((cells.shape[0] - 1, capacity), np.float64)
    heads = np.empty((cells.shape[0] - 1, capacity), np.float64)
    result = 0.0
    for chosen in range(1 << n_both):
        if cut < 0:
            n_degrees = _uniform(values, cells, row_lo[0], row_hi[0])
            n_degrees = _at_end(
                values, n_degrees, cells, row_lo[0], row_hi[0], lo, hi, tails, shifts, kinds, bits, chosen, 1,
                row_lo[last], False,
            )  # fmt: skip
            n_degrees = _links(
                values, n_degrees, cells, row_lo, row_hi, known, first, last, lo, hi, tails, positions, work
            )
            if n_degrees == 0:
                return NOT_BY_END_POINTS
            n_degrees = _at_end(
                values, n_degrees, cells, row_lo[last], row_hi[last], lo, hi, tails, shifts, kinds, bits, chosen, 0,
                row_lo[0], False,
            )  # fmt: skip
            result += _sum_below(values, n_degrees, cells)
            continue
        # A cell of `later` is within_ms + 1 later than that of `cells`; `mirrored` has the cells backwards in -t.
        later = _moved(cells, within_ms + 1, False)
        mirrored = _moved(cells, 1, True)
        n_degrees = _uniform(values, later, row_lo[cut + 1], row_hi[cut + 1])
        n_head = _uniform(heads, mirrored, -row_hi[cut], -row_lo[cut])
        for k in range(positions.shape[0]):
            if positions[k] != cut:
                continue
            kind = _kind(lo, hi, tails, k, row_lo[cut], row_hi[cut], row_lo[cut + 1], row_hi[cut + 1])
            if kind == 0:
                n_degrees = _right_line(
                    values, n_degrees, later, row_lo[cut + 1], row_hi[cut + 1], lo, hi, tails, k, row_lo[cut]
                )
            elif kind == 2 and chosen & bits[k] == 0:
                n_degrees = _times_line(
                    values, n_degrees, later, row_lo[cut + 1], row_hi[cut + 1], 1.0, -1.0, lo[k], hi[k], -1
                )
            else:
                # P(r <= left) is 1 - P(-r <= -left - 1).
                rest = 1.0
                if kind == 1 and tails[k, 1]:
                    rest = 2.0 - _share_until(lo[k], hi[k], row_lo[cut + 1] - 1)
                n_head = _times_line(
                    heads, n_head, mirrored, -row_hi[cut], -row_lo[cut], rest, -1.0, -hi[k], -lo[k], -1
                )
        n_degrees = _links(
            values, n_degrees, later, row_lo, row_hi, known, cut + 1, last, lo, hi, tails, positions, work
        )
        mirrored_lo = np.empty_like(lo)
        mirrored_hi = np.empty_like(lo)
        mirrored_positions = np.empty_like(positions)
        mirrored_tails = np.empty_like(tails)
        for k in range(positions.shape[0]):
            mirrored_lo[k] = -hi[k]
            mirrored_hi[k] = -lo[k]
            mirrored_positions[k] = last - 1 - positions[k]
            mirrored_tails[k, 0] = tails[k, 1]
            mirrored_tails[k, 1] = tails[k, 0]
        n_head = _links(
            heads, n_head, mirrored, _moved(row_hi, 0, True), _moved(row_lo, 0, True), _turned(known), last - cut, last,
            mirrored_lo, mirrored_hi, mirrored_tails, mirrored_positions, work,
        )  # fmt: skip
        if n_degrees == 0 or n_head == 0:
            return NOT_BY_END_POINTS
        n_degrees = _at_end(
            values, n_degrees, later, row_lo[last], row_hi[last], lo, hi, tails, shifts, kinds, bits, chosen, 0,
            row_lo[0], False,
        )  # fmt: skip
        n_head = _at_end(
            heads, n_head, mirrored, -row_hi[0], -row_lo[0], lo, hi, tails, shifts, kinds, bits, chosen, 1,
            row_lo[last], True,
        )  # fmt: skip
        _sum_below(values, n_degrees, later)
        result += _sum_of_products(heads, n_head, values, n_degrees + 1, cells)
    return min(max(result, 0.0), 1.0)


@kernel
def _moved(times, by_ms, backwards):
    """The times, or those of -t, later by so many milliseconds, ascending."""
    moved = np.empty_like(times)
    n = times.shape[0]
    for k in range(n):
        moved[k] = by_ms - times[n - 1 - k] if backwards else by_ms + times[k]
    return moved


@kernel
def _turned(known):
    """The flags of the links of the mirrored events."""
    turned = np.zeros_like(known)
    n = known.shape[0]
    for k in range(n - 1):
        turned[n - 2 - k] = known[k]
    return turned


@kernel
def _grid(row_lo, row_hi, lo, hi, positions, within_ms, is_joint):
    """Ascending ends of cells."""
    n = row_lo.shape[0]
    ends = np.empty(4 * (n + 2 * lo.shape[0]), np.int64)
    at = 0
    for k in range(n):
        ends[at] = row_lo[k]
        ends[at + 1] = row_hi[k] + 1
        at += 2
    for k in range(lo.shape[0]):
        by = 0
        if positions[k] == -1:
            by = within_ms + 1
        elif positions[k] == n - 1:
            by = -within_ms - 1
        ends[at] = lo[k]
        ends[at + 1] = hi[k] + 1
        ends[at + 2] = lo[k] + by
        ends[at + 3] = hi[k] + 1 + by
        at += 4
    if is_joint:
        for k in range(at):
            ends[at + k] = ends[k] - within_ms - 1
        at *= 2
    n_distinct = 0
    for k in range(at):
        end = ends[k]
        to = n_distinct
        while to > 0 and ends[to - 1] > end:
            to -= 1
        if to > 0 and ends[to - 1] == end:
            continue
        for later in range(n_distinct, to, -1):
            ends[later] = ends[later - 1]
        ends[to] = end
        n_distinct += 1
    cells = np.empty(n_distinct, np.int64)
    for k in range(n_distinct):
        cells[k] = ends[k]
    return cells


@leaf
def _varies(lo, hi, low, high, shift):
    return _share_until(lo, hi, low + shift) != _share_until(lo, hi, high + shift)


@leaf
def _end_kind(lo, hi, tails, k, shifts, first_lo, first_hi, last_lo, last_hi):
    """Of what is negated at an end, 0: does not depend on the last event's time; 1: not on the first's; 2: on both."""
    if not tails[k, 0] or not _varies(lo, hi, last_lo, last_hi, shifts[k, 0]):
        return 0
    if not tails[k, 1] or not _varies(lo, hi, first_lo, first_hi, shifts[k, 1]):
        return 1
    return 2


@leaf
def _first_known(known):
    """The first event after which the order is known; -1: none."""
    for k in range(known.shape[0] - 1):
        if known[k]:
            return k
    return -1


@apart
def _at_end(
    values, n_degrees, cells, low, high, lo, hi, tails, shifts, kinds, bits, chosen, side, other, mirrored
):  # fmt: skip
    """Multiply the function of the last event (side 0) or of the first (1) by what is negated at the ends.

    `chosen`: the bits of those that depend on both and are taken at the last event (elsewhere: at the left one). other:
    a time of the other event.
    """
    for k in range(kinds.shape[0]):
        if (
            kinds[k] < 0
            or (kinds[k] < 2 and kinds[k] == side)
            or (kinds[k] == 2 and (chosen & bits[k] == 0) != (side == 1))
        ):
            continue
        constant = 0.0
        if kinds[k] < 2 and tails[k, 1 - side]:
            until = _share_until(lo[k], hi[k], other + shifts[k, 1 - side])
            constant = until if side == 1 else 1.0 - until
        sign = 1.0 if tails[k, side] else 0.0
        if side == 0:
            n_degrees = _times_line(values, n_degrees, cells, low, high, constant, sign, lo[k], hi[k], shifts[k, 0])
        elif mirrored:
            n_degrees = _times_line(
                values, n_degrees, cells, low, high, constant, sign, -hi[k], -lo[k], -shifts[k, 1] - 1
            )
        else:
            n_degrees = _times_line(
                values, n_degrees, cells, low, high, constant + sign, -sign, lo[k], hi[k], shifts[k, 1]
            )
    return n_degrees


@leaf
def _sum_of_products(heads, n_head, values, n_degrees, cells):
    """Sum over all times of two functions, `heads` on the cells backwards (see `window._sum_of_products`)."""
    result = 0.0
    n = cells.shape[0] - 1
    for c in range(n):
        length = cells[c + 1] - cells[c]
        for a in range(min(n_head, length)):
            ratio = (length - a) / (a + 1)
            summed = 0.0
            for b in range(min(n_degrees, length - a)):
                summed += ratio * values[c, b]
                ratio *= (length - a - b - 1) * (b + 1) / ((a + b + 2) * (length - b))
            result += summed * heads[n - 1 - c, a]
    return result


__all__ = ["ALWAYS", "NOT_BY_END_POINTS", "absent_by_end_points", "earliest_after", "latest_before"]
