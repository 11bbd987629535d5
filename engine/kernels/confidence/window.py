"""The window's share of a chain's probability: P(e1 < ... < em and em - e1 <= WITHIN), over `pieces`.

Where the order of some neighbours is known, first and last are independent: `joint`, a sum of products of polynomials.
Where all overlap, `cut` goes through the times of the first event in cells; both need positive terms only. Their work
depends on end points and on the number of events, not on milliseconds.
"""

from __future__ import annotations

from engine.kernels.compile.ways import apart, leaf
from engine.kernels.confidence.pieces import DENSE, NO_CAPACITY, POLYNOMIAL, advance, part_of_cell, settled, value_at


@leaf
def share_inside(events, first, last, within_ms):
    """P(last - first <= within_ms) of two rows alone, both uniform: by counting pairs."""
    length = events.hi_ms[last] - events.lo_ms[last] + 1
    before = events.lo_ms[first] + within_ms - events.lo_ms[last]  # milliseconds of last for first's earliest, less 1
    n_first = events.hi_ms[first] - events.lo_ms[first] + 1
    return (_pairs(before + n_first, length) - _pairs(before, length)) / (1.0 * n_first * length)


@leaf
def _pairs(n, length):
    """Sum of min(k, length) over 1 <= k <= n."""
    if n <= 0:
        return 0
    if n <= length:
        return n * (n + 1) // 2
    return length * (length + 1) // 2 + (n - length) * length


@apart
def joint(
    cells, coefs, form, cell, n_cells, mass, heads, head_coefs, head_form, n_head, head_mass, events, row, within_ms
):
    """Sum over the times s of `row` of p(s) * (what follows it, from s on) * (the last, up to s + within_ms).

    cells, coefs, form, cell, n_cells, mass: the distribution of the last event. heads, head_coefs, head_form, n_head,
    head_mass: that of the row's successor in mirrored time (`advance_back`) before the first known order, at cell 0;
    n_head 0 when the successor is after it. The rest of `coefs` is overwritten. Returns -1.0 when that is too short.
    """
    lo = events.lo_ms[row]
    hi = events.hi_ms[row]
    at = events.weight_at[row]
    share = 1.0 / (hi - lo + 1)
    reach = cells[cell + n_cells, 0]
    scratch = cells[cell + n_cells, 1]
    capacity = coefs.shape[0] - scratch
    end = hi + 1
    head_reach = -end  # in mirrored time; after it, that is at all times of the row, what follows is certain
    if n_head > 0:
        end = min(end, -heads[0, 0])
        head_reach = heads[n_head, 0]
    s = max(lo, cells[cell, 0] - within_ms)
    c = cell
    h = n_head - 1
    result = 0.0
    while s < end:
        t = s + within_ms + 1
        stop = end
        if t < reach:
            while cells[c + 1, 0] <= t:
                c += 1
            stop = min(stop, cells[c + 1, 0] - within_ms - 1)
        if -s < head_reach:
            while heads[h, 0] > -s:
                h -= 1
            stop = min(stop, 1 - heads[h, 0])
        else:
            stop = min(stop, 1 - head_reach)
        # A DENSE distribution is a polynomial of degree 0 in each millisecond.
        if at >= 0 or (t < reach and form == DENSE) or (-s < head_reach and head_form == DENSE):
            stop = s + 1
        if stop == s + 1:
            value = share if at < 0 else events.weights[at + s - lo]
            value *= mass if t >= reach else _height(cells, coefs, form, c, t)
            result += value * (head_mass if -s >= head_reach else _height(heads, head_coefs, head_form, h, -s))
            s = stop
            continue
        n_tail = 1 if t >= reach else cells[c + 1, 1] - cells[c, 1]
        n_ahead = 1 if -s >= head_reach else heads[h + 1, 1] - heads[h, 1]
        if 2 * n_tail + 2 * n_ahead > capacity:
            return -1.0
        if t >= reach:
            coefs[scratch] = mass
        else:
            n_tail = part_of_cell(cells, coefs, c, t, stop - s, coefs, scratch)
        if -s >= head_reach:
            coefs[scratch + n_tail] = head_mass
        else:
            n_ahead = part_of_cell(heads, head_coefs, h, 1 - stop, stop - s, coefs, scratch + n_tail)
        result += share * _sum_of_products(coefs, scratch, n_tail, scratch + n_tail, n_ahead, stop - s)
        s = stop
    return result


@leaf
def _height(cells, coefs, form, c, t):
    """The distribution's value at t, inside its cell c."""
    x = t - cells[c, 0]
    if form == DENSE:
        return coefs[cells[c, 1] + x]
    return value_at(coefs, cells[c, 1], cells[c + 1, 1] - cells[c, 1], cells[c + 1, 0] - cells[c, 0], x)


@leaf
def _sum_of_products(coefs, forward, n_forward, backward, n_backward, length):
    """Sum over x < length of two polynomials of one cell, one from its start on, one from its last millisecond back.

    Sum of C(x, b) * C(length - 1 - x, a) is C(length, a + b + 1), here over C(length, a) * C(length, b).
    """
    result = 0.0
    for a in range(n_backward):
        ratio = (length - a) / (a + 1)
        summed = 0.0
        for b in range(min(n_forward, length - a)):
            summed += ratio * coefs[forward + b]
            ratio *= (length - a - b - 1) * (b + 1) / ((a + b + 2) * (length - b))
        result += summed * coefs[backward + a]
    return result


@apart
def cut(cells, coefs, events, rows, n, within_ms, cell, coef):
    """The chain's probability where all neighbours overlap; -1.0 if cells or coefs, from cell and coef on, are short.

    The times s of the first event fall into cells [s, stop) without an end point inside, neither there nor within_ms
    later. i events are in the cell together with the first, b in that of the last, within_ms later, the others between
    the two. With x the first one's time in the cell, the former have C(length - 1 - x, i - 1) ways to be in order, the
    latter C(x + 1, b): summed over x that is C(length + 1, i + b), or C(length, i) for b = 0. What is between does not
    depend on x.
    """
    first = rows[0]
    last = rows[n - 1]
    free = max(events.lo_ms[first], events.hi_ms[last] - within_ms)  # from here on the window cuts nothing
    result = 0.0
    s = max(events.lo_ms[first], events.lo_ms[last] - within_ms)
    while s <= events.hi_ms[first]:
        stop = events.hi_ms[first] + 1 if s >= free else _next_end(events, rows, n, within_ms, s, free)
        if s < free and stop - s > within_ms:
            value = (stop - s) * _probability(events, first, s)
            for k in range(1, n):
                value *= _probability(events, rows[k], s) * (within_ms + 1 - k) / k
        else:
            value = _from_cell(cells, coefs, events, rows, n, within_ms, s, stop, s >= free, cell, coef)
        if value < 0.0:
            return -1.0
        result += value
        s = stop
    return result


@leaf
def _next_end(events, rows, n, within_ms, s, limit):
    """The end of the cell that begins at s."""
    stop = limit
    for k in range(n):
        lo = events.lo_ms[rows[k]]
        end = events.hi_ms[rows[k]] + 1
        if events.weight_at[rows[k]] >= 0 and (lo <= s < end or lo <= s + within_ms < end):
            return s + 1
        if s < lo < stop:
            stop = lo
        if s < end < stop:
            stop = end
        if s < lo - within_ms < stop:
            stop = lo - within_ms
        if s < end - within_ms < stop:
            stop = end - within_ms
    return stop


@leaf
def _probability(events, row, time_ms):
    lo = events.lo_ms[row]
    hi = events.hi_ms[row]
    if time_ms < lo or time_ms > hi:
        return 0.0
    at = events.weight_at[row]
    return 1.0 / (hi - lo + 1) if at < 0 else events.weights[at + time_ms - lo]


@apart
def _from_cell(cells, coefs, events, rows, n, within_ms, s, stop, is_free, cell, coef):
    """`cut` with the first event in s..stop - 1; is_free: the window does not cut there. -1.0 for want of room."""
    if coef + n + 1 > coefs.shape[0]:
        return -1.0
    if is_free:
        coefs[coef] = 1.0
        return _between(cells, coefs, events, rows, 0, n, s, events.hi_ms[rows[n - 1]], cell, coef, 1)
    length = stop - s
    result = 0.0
    ways = 1.0 * (length + 1)  # C(length + 1, i) times the probabilities, with the first i events in the cell
    ways_alone = 1.0 * length  # C(length, i)
    for i in range(1, min(n, length) + 1):
        p = _probability(events, rows[i - 1], s)
        if i > 1:
            ways *= (length + 2 - i) / i
            ways_alone *= (length + 1 - i) / i
        ways *= p
        ways_alone *= p
        if p == 0.0:
            break
        if i == n:
            result += ways_alone
            break
        # coefs[coef + b]: with the last b events in the last one's cell.
        coefs[coef] = ways_alone
        most = 0
        x = ways
        for b in range(1, n - i + 1):
            x *= _probability(events, rows[n - b], s + within_ms) * (length + 2 - i - b) / (i + b)
            if x <= 0.0:
                break
            coefs[coef + b] = x
            most = b
        value = _between(cells, coefs, events, rows, i, n, stop, s + within_ms - 1, cell, coef, most + 1)
        if value < 0.0:
            return -1.0
        result += value
    return result


@apart
def _between(cells, coefs, events, rows, i, n, start, end, cell, coef, n_ways):
    """The sum over j > n - n_ways of P(rows[i] < ... < rows[j - 1], all in start..end) * coefs[coef + n - j].

    -1.0 for want of room.
    """
    if cell >= cells.shape[0]:
        return -1.0
    cells[cell, 0] = start
    form = POLYNOMIAL
    n_cells = 0
    base = coef + n_ways
    coef_end = base
    mass = 1.0
    result = coefs[coef + n - i] if n - i < n_ways else 0.0
    for k in range(i, n):
        row = rows[k]
        lo = max(events.lo_ms[row], start)
        hi = min(events.hi_ms[row], end)
        if lo > hi:
            break
        at = events.weight_at[row]
        if at >= 0:
            at += lo - events.lo_ms[row]
        share = 1.0 / (events.hi_ms[row] - events.lo_ms[row] + 1)
        above = cell if n_cells == 0 else cell + n_cells + 1
        form, n_cells, coef_end, mass = advance(
            cells, coefs, form, cell, n_cells, mass, lo, hi, share, events.weights, at, 1, above, coef_end
        )
        if n_cells == NO_CAPACITY:
            return -1.0
        if mass <= 0.0:
            break
        coef_end = settled(cells, coefs, above, n_cells, cell, base)
        if n - k - 1 < n_ways:
            result += mass * coefs[coef + n - k - 1]
    return result


__all__ = ["cut", "joint", "share_inside"]
