"""Distributions over time as piecewise polynomials with positive coefficients: one step of a chain of events.

F_k(t) = P(e1 < ... < ek, and ek at t) of uniform events is a polynomial between end points of intervals
(`engine.kernels.confidence.sequences`). What is kept of it is G_k(t) = sum of F_k(s) over s < t, from the first
millisecond at which ek can be, in one of two forms:

- POLYNOMIAL: cells [z, z + h). With x = t - z, G(t) = sum over d of g_d * C(x, d) / C(h, d), d < min(h, ...): Newton's
  basis, scaled so that each coefficient is what its term comes to at the cell's end. All g_d are >= 0, in every
  operation (sums below, multiples, another cell's start and end): nothing cancels, so rounding is all there is to the
  error, and no coefficient exceeds the chain's probability, whatever the degree and the length.
- DENSE: one value per millisecond, where a distribution is given as weights, and between short intervals, where it is
  quicker (`_is_dense`).

After the last cell G is the chain's probability. A cell of h milliseconds has at most h coefficients, so the
polynomials are never more numbers than milliseconds; their work depends on the end points that the events share.

Sum below: sum of C(y, d) over y < x is C(x, d + 1). Another start: C(u + y, d) = sum over j of C(u, d - j) * C(y, j)
(Vandermonde); with this scale its weights are hypergeometric probabilities, found by their recursion.

A distribution lies in `cells` int64 (n, 2), rows (first millisecond, where its coefficients begin in `coefs`) followed
by (end millisecond, end of its coefficients), and is named by (form, row of its first cell, number of cells, total).
"""

from __future__ import annotations

from engine.kernels.compile.ways import apart, leaf
from engine.kernels.confidence.ordering import may_precede, separated

POLYNOMIAL = 0
DENSE = 1

NO_CAPACITY = -1
"""Number of cells that says: the arrays are too short; nothing of use has been written."""

SHORT_MS = 24
"""Up to this length a uniform interval that overlaps another short one is summed millisecond by millisecond."""


@leaf
def moved_start(coefs, at, n, length, offset, n_kept, into, to, scratch):
    """The first `n_kept` coefficients of a cell from its millisecond `offset` on; 0 < offset < length.

    coefs[at : at + n] are those of the whole cell, of `length`; into[to : to + n_kept] will be for a cell of length -
    offset. into[scratch : scratch + n] is overwritten.
    """
    for d in range(n):
        into[scratch + d] = 0.0
    for d in range(n_kept):
        into[to + d] = 0.0
    into[scratch] = 1.0
    rest = length - offset
    for d in range(n):
        value = coefs[at + d]
        if value != 0.0:
            for j in range(min(d + 1, n_kept)):
                into[to + j] += value * into[scratch + j]
        # From P(j of d drawn are of the rest) to d + 1 drawn.
        share = 1.0 / (length - d)
        for j in range(min(d + 1, n_kept - 1), 0, -1):
            into[scratch + j] = share * (into[scratch + j] * (offset - d + j) + into[scratch + j - 1] * (rest - j + 1))
        into[scratch] *= share * (offset - d)


@leaf
def part_of_cell(cells, coefs, c, start, length, into, to):
    """The coefficients of the `length` milliseconds of cell c from `start` on, into[to : to + n]; returns n.

    `into` is overwritten up to twice the number of the cell's coefficients after `to`.
    """
    at = cells[c, 1]
    n = cells[c + 1, 1] - at
    whole = cells[c + 1, 0] - cells[c, 0]
    kept = min(n, length)
    if start > cells[c, 0]:
        moved_start(coefs, at, n, whole, start - cells[c, 0], kept, into, to, to + kept)
        whole -= start - cells[c, 0]
    else:
        for d in range(kept):
            into[to + d] = coefs[at + d]
    if length < whole:
        factor = 1.0
        for d in range(kept):
            into[to + d] *= factor
            factor *= (length - d) / (whole - d)
    return kept


@leaf
def value_at(coefs, at, n, length, x):
    """The value of a cell's polynomial x milliseconds after its start, 0 <= x < length."""
    value = 0.0
    for d in range(min(n - 1, x), 0, -1):
        value = (value + coefs[at + d]) * (x - d + 1) / (length - d + 1)
    return value + coefs[at]


@leaf
def _is_dense(cells, form, cell, n_cells, lo, end, at, start, reach):
    """Whether the next distribution is kept by milliseconds: the one place that chooses."""
    if at >= 0:
        return True
    if form == DENSE:
        return end - lo <= SHORT_MS or 2 * (min(end, reach) - start) >= end - lo
    return (
        end - lo <= SHORT_MS
        and n_cells == 1
        and reach - cells[cell, 0] <= SHORT_MS
        and cells[cell + 1, 1] - cells[cell, 1] <= 2
    )


@apart
def advance(cells, coefs, form, cell, n_cells, mass, lo, hi, share, weights, at, step, to_cell, to_coef):
    """The distribution of the next event, over lo..hi, when it must come after the one given; at to_cell, to_coef.

    Its probability of each millisecond is `share`, or weights[at], weights[at + step], ... where at >= 0. n_cells 0: an
    event before cells[cell, 0], with probability `mass`. Returns (form, n_cells, end of its coefficients, mass).
    """
    start = max(lo, cells[cell, 0])
    reach = cells[cell + n_cells, 0]
    end = hi + 1
    if start >= end:
        if to_cell >= cells.shape[0]:
            return POLYNOMIAL, NO_CAPACITY, to_coef, 0.0
        cells[to_cell, 0] = end
        cells[to_cell, 1] = to_coef
        return POLYNOMIAL, 0, to_coef, 0.0
    overlap = max(min(end, reach) - start, 0)
    if _is_dense(cells, form, cell, n_cells, lo, end, at, start, reach):
        if to_coef + end - start > coefs.shape[0] or to_cell + 2 > cells.shape[0]:
            return DENSE, NO_CAPACITY, to_coef, 0.0
        if at >= 0:
            at += (start - lo) * step
        mass = _by_milliseconds(cells, coefs, form, cell, mass, start, end, reach, share, weights, at, step, to_coef)
        cells[to_cell, 0] = start
        cells[to_cell, 1] = to_coef
        cells[to_cell + 1, 0] = end
        cells[to_cell + 1, 1] = to_coef + end - start
        return DENSE, 1, to_coef + end - start, mass
    n_read = overlap if form == DENSE else cells[cell + n_cells, 1] - cells[cell, 1]
    n_made = overlap if form == DENSE else n_cells
    if to_coef + 2 * n_read + n_made + 4 > coefs.shape[0] or to_cell + n_made + 2 > cells.shape[0]:
        return POLYNOMIAL, NO_CAPACITY, to_coef, 0.0
    out = to_coef
    made = to_cell
    summed = 0.0
    if form == DENSE:
        lost = 0.0
        base = cells[cell, 1] - cells[cell, 0]
        for t in range(start, start + overlap):
            cells[made, 0] = t
            cells[made, 1] = out
            made += 1
            coefs[out] = summed + lost
            out += 1
            value = share * coefs[base + t]
            raised = summed + value
            lost += (summed - raised) + value if summed >= value else (value - raised) + summed
            summed = raised
        summed += lost
    else:
        for c in range(cell, cell + n_cells):
            if cells[c + 1, 0] <= start:
                continue
            if cells[c, 0] >= end:
                break
            cells[made, 0] = max(cells[c, 0], start)
            cells[made, 1] = out
            made += 1
            out, summed = _next_cell(cells, coefs, c, start, end, share, summed, out)
    if end > reach:
        length = end - max(start, reach)
        cells[made, 0] = end - length
        cells[made, 1] = out
        made += 1
        coefs[out] = summed
        value = share * mass * length
        if length > 1:
            coefs[out + 1] = value
            out += 1
        out += 1
        summed += value
    cells[made, 0] = end
    cells[made, 1] = out
    return POLYNOMIAL, made - to_cell, out, summed


@leaf
def _next_cell(cells, coefs, c, start, end, share, summed, out):
    """The part of cell c inside start..end - 1, times `share`, summed below, at `out`: (end of it, sum at its end)."""
    at = cells[c, 1]
    n = cells[c + 1, 1] - at
    length = min(cells[c + 1, 0], end) - max(cells[c, 0], start)
    if length < cells[c + 1, 0] - cells[c, 0]:
        n = part_of_cell(cells, coefs, c, max(cells[c, 0], start), length, coefs, out + 1)
        at = out + 1
    coefs[out] = summed
    for d in range(n):
        value = share * coefs[at + d] * (length - d) / (d + 1)
        summed += value
        coefs[out + 1 + d] = value
    return out + min(n + 1, length), summed


@leaf
def _by_milliseconds(cells, coefs, form, cell, mass, start, end, reach, share, weights, at, step, out):
    """`advance` where the result is dense; sums are compensated (Neumaier). Returns the mass."""
    summed = 0.0
    lost = 0.0
    c = cell
    base = cells[cell, 1] - cells[cell, 0]
    for t in range(start, end):
        coefs[out] = summed + lost
        out += 1
        if t >= reach:
            below = mass
        elif form == DENSE:
            below = coefs[base + t]
        else:
            while cells[c + 1, 0] <= t:
                c += 1
            z = cells[c, 0]
            below = value_at(coefs, cells[c, 1], cells[c + 1, 1] - cells[c, 1], cells[c + 1, 0] - z, t - z)
        value = share * below
        if at >= 0:
            value = weights[at] * below
            at += step
        raised = summed + value
        lost += (summed - raised) + value if summed >= value else (value - raised) + summed
        summed = raised
    return summed + lost


@apart
def alone(cells, coefs, events, row, backward, mass, to_cell, to_coef):
    """The distribution of a row, times `mass`, when nothing of what came before matters; as `advance` returns it.

    backward: in mirrored time, -t.
    """
    length = events.hi_ms[row] - events.lo_ms[row] + 1
    at = events.weight_at[row]
    n = length if at >= 0 else min(length, 2)
    if to_cell + 2 > cells.shape[0] or to_coef + n > coefs.shape[0]:
        return POLYNOMIAL, NO_CAPACITY, to_coef, mass
    cells[to_cell, 0] = -events.hi_ms[row] if backward else events.lo_ms[row]
    cells[to_cell, 1] = to_coef
    cells[to_cell + 1, 0] = cells[to_cell, 0] + length
    cells[to_cell + 1, 1] = to_coef + n
    coefs[to_coef + n - 1] = mass
    coefs[to_coef] = 0.0
    if at < 0:
        return POLYNOMIAL, 1, to_coef + n, mass
    summed = 0.0
    lost = 0.0
    for k in range(length):
        coefs[to_coef + k] = mass * (summed + lost)
        value = events.weights[at + length - 1 - k if backward else at + k]
        raised = summed + value
        lost += (summed - raised) + value if summed >= value else (value - raised) + summed
        summed = raised
    return DENSE, 1, to_coef + length, mass


@leaf
def advance_to(cells, coefs, form, cell, n_cells, mass, events, row, backward, to_cell, to_coef):
    """`advance` to a row of events; backward: in mirrored time, so that what is given comes after the row."""
    lo = events.lo_ms[row]
    hi = events.hi_ms[row]
    share = 1.0 / (hi - lo + 1)
    at = events.weight_at[row]
    step = 1
    if backward:
        at = at if at < 0 else at + hi - lo
        step = -1
        lo, hi = -hi, -lo
    return advance(cells, coefs, form, cell, n_cells, mass, lo, hi, share, events.weights, at, step, to_cell, to_coef)


@leaf
def settled(cells, coefs, cell, n_cells, to_cell, to_coef):
    """Move a distribution down to to_cell, to_coef; returns the end of its coefficients."""
    by = cells[cell, 1] - to_coef
    end = cells[cell + n_cells, 1]
    for k in range(cells[cell, 1], end):
        coefs[k - by] = coefs[k]
    for k in range(n_cells + 1):
        cells[to_cell + k, 0] = cells[cell + k, 0]
        cells[to_cell + k, 1] = cells[cell + k, 1] - by
    return end - by


@apart
def run(cells, coefs, events, rows, start, end, backward, to_cell, to_coef):
    """The distribution of rows[end - 1] after rows[start] < ... < rows[end - 2], at to_cell, to_coef.

    backward: that of rows[start] before rows[start + 1] < ... < rows[end - 1], in mirrored time. As `advance` returns
    it; n_cells 0 where nothing has been written: the row at the end is alone, or the mass is 0.
    """
    form = POLYNOMIAL
    n_cells = 0
    coef_end = to_coef
    mass = 1.0
    for k in range(start + 1, end):
        i = rows[k - 1] if not backward else rows[start + end - k]
        j = rows[k] if not backward else rows[start + end - k - 1]
        if separated(events, j, i) if backward else separated(events, i, j):
            n_cells = 0
        elif not (may_precede(events, j, i) if backward else may_precede(events, i, j)):
            return POLYNOMIAL, 0, to_coef, 0.0
        else:
            if n_cells == 0:
                form, n_cells, coef_end, mass = alone(cells, coefs, events, i, backward, mass, to_cell, to_coef)
                if n_cells == NO_CAPACITY:
                    return form, n_cells, coef_end, mass
            above = to_cell + n_cells + 1
            form, n_cells, coef_end, mass = advance_to(
                cells, coefs, form, to_cell, n_cells, mass, events, j, backward, above, coef_end
            )
            if n_cells == NO_CAPACITY:
                return form, n_cells, coef_end, mass
            if mass <= 0.0:
                return POLYNOMIAL, 0, to_coef, 0.0
            coef_end = settled(cells, coefs, above, n_cells, to_cell, to_coef)
    return form, n_cells, coef_end, mass


__all__ = [
    "DENSE",
    "NO_CAPACITY",
    "POLYNOMIAL",
    "SHORT_MS",
    "advance",
    "advance_to",
    "alone",
    "part_of_cell",
    "run",
    "settled",
    "value_at",
]
