"""Confidence of ordered sequences of events by dynamic programming over time (SASE++ section 4; DESIGN 4).

Each event is at one millisecond of its interval, independently of the others, by its distribution. An event is before
another when its time is smaller; two precise events of one millisecond and two events of one clock have a known order
instead, whatever their times (`engine.kernels.confidence.ordering.separated`). A sequence e1..em is a match when each
event is before the next and last - first <= WITHIN. With F_k(t) = P(e1 < ... < ek, ek at t):

    F_1 = p_1;    F_k+1(t) = p_k+1(t) * sum of F_k(s) over s < t

and where the order of two neighbours is known, F_k+1(t) = p_k+1(t) * (sum of F_k): constant work, and nothing to keep.
F is a piecewise polynomial (`engine.kernels.confidence.pieces`), so the work depends on the end points that overlapping
events share, not on milliseconds; distributions given as weights go by milliseconds. `engine.kernels.confidence.window`
has the window.

Rows are int64 row numbers into `Events`. Two forms:

- Of one sequence: `chain_mass` (without the window), `chain_confidence`.
- Event by event along a depth first search: `new_chain` (once); `begin_chain(chain, row)`; for a chain of depth + 1
  events, `extend_chain(chain, events, depth, row)` returns the probability of the chain with `row` behind it and
  keeps it as depth + 1, so that another row can be tried at the same depth, or the search can go on from there or back;
  `confidence_of_chain(chain, events, depth, within_ms)` adds the window. Both leaves return NO_CHAIN_CAPACITY (-1.0)
  when the arrays are too short: `chain = wider_chain(chain)` and call again. An extension costs what the new event
  overlaps; where the window is not certain, the events up to the first known order are looked at once for all that
  follow.

Neither form knows of bounds of clocks (`Events.skew`, `engine.kernels.confidence.skew`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from engine.kernels.compile.ways import apart, inlined, kernel, leaf
from engine.kernels.confidence.absence import absent_confidence, distribution
from engine.kernels.confidence.ordering import may_precede, separated
from engine.kernels.confidence.pieces import NO_CAPACITY, POLYNOMIAL, advance_to, alone, run
from engine.kernels.confidence.window import cut, joint, share_inside

NO_CHAIN_CAPACITY = -1.0

TOLERANCE = 1e-12
"""Confidences that differ by less are equal, and `CONFIDENCE >= c` admits from c - TOLERANCE on: they are computed to
about a tenth of this. The one place for all runtimes; the oracle states it anew, as what the clause means."""

_FIRST_CAPACITY = 32
"""Cells, and half of the coefficients, that most chains do with; arrays that are too short give way to longer ones."""


@leaf
def sequence_work(events, rows, start, n, within_ms):
    """The numbers that `chain_confidence` of rows[start : n] computes, about; float64."""
    longest = 1
    together = 1
    weighted = 0
    for k in range(start + 1, n):
        together = 1 if separated(events, rows[k - 1], rows[k]) else together + 1
        longest = max(longest, together)
        if events.weight_at[rows[k]] >= 0:
            weighted += events.hi_ms[rows[k]] - events.lo_ms[rows[k]]
    work = 1.0 * (n - start) + 2.0 * weighted
    if longest > 1:
        work += 100.0 + 1.0 * longest**3
        if longest == n - start and events.hi_ms[rows[n - 1]] - events.lo_ms[rows[start]] > within_ms:
            work += 8.0 * longest**4
    return work


@kernel
def chain_mass(events, rows, start, end):
    """P(rows[start] < ... < rows[end - 1]), the window left aside. 1.0 for a single row."""
    k = start + 1
    while k < end and separated(events, rows[k - 1], rows[k]):
        k += 1
    if k >= end:
        return 1.0
    capacity = _FIRST_CAPACITY
    while True:
        cells = np.empty((capacity, 2), np.int64)
        coefs = np.empty(2 * capacity, np.float64)
        _, n_cells, _, mass = run(cells, coefs, events, rows, k - 1, end, False, 0, 0)
        if n_cells != NO_CAPACITY:
            return mass
        capacity *= 4


@kernel
def chain_confidence(events, rows, n, within_ms):
    """P(rows[0] < ... < rows[n - 1] and last - first <= within_ms), both ends inclusive."""
    if n == 1:
        return 1.0
    if events.lo_ms[rows[n - 1]] - events.hi_ms[rows[0]] > within_ms:
        return 0.0
    if events.hi_ms[rows[n - 1]] - events.lo_ms[rows[0]] <= within_ms:
        return chain_mass(events, rows, 0, n)
    capacity = _FIRST_CAPACITY
    while True:
        cells = np.empty((capacity, 2), np.int64)
        coefs = np.empty(2 * capacity, np.float64)
        confidence = _with_window(cells, coefs, events, rows, n, within_ms)
        if confidence != NO_CHAIN_CAPACITY:
            return confidence
        capacity *= 4


@leaf
def _with_window(cells, coefs, events, rows, n, within_ms):
    """`chain_confidence` where the window is not certain."""
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
        return cut(cells, coefs, events, rows, n, within_ms, 0, 0)
    if first_cut == 0 and last_cut == n - 2 and events.weight_at[rows[0]] < 0 and events.weight_at[rows[n - 1]] < 0:
        _, n_cells, _, middle = run(cells, coefs, events, rows, 1, n - 1, False, 0, 0)
        if n_cells == NO_CAPACITY:
            return NO_CHAIN_CAPACITY
        return middle * share_inside(events, rows[0], rows[n - 1], within_ms)
    head_form, n_head, coef, head_mass = POLYNOMIAL, 0, 0, 1.0
    if first_cut > 0:
        head_form, n_head, coef, head_mass = _head_of(cells, coefs, events, rows, first_cut)
    if n_head == NO_CAPACITY:
        return NO_CHAIN_CAPACITY
    above = n_head + 1
    form, n_cells, mass, middle = POLYNOMIAL, 0, head_mass, 1.0
    for part in range(2):
        start = first_cut + 1 if part == 0 else last_cut + 1
        if mass <= 0.0:
            return 0.0
        middle = mass
        end = n if part else last_cut + 1
        form, n_cells, _, mass = run(cells, coefs, events, rows, start, end, False, above, coef)
        if n_cells == NO_CAPACITY:
            return NO_CHAIN_CAPACITY
    if n_cells == 0 and mass > 0.0:
        form, n_cells, _, _ = alone(cells, coefs, events, rows[n - 1], False, 1.0, above, coef)
        if n_cells == NO_CAPACITY:
            return NO_CHAIN_CAPACITY
    if mass <= 0.0:
        return 0.0
    share = joint(
        cells,
        coefs,
        form,
        above,
        n_cells,
        mass,
        cells,
        coefs,
        head_form,
        n_head,
        head_mass,
        events,
        rows[0],
        within_ms,
    )
    return share if share < 0.0 else middle * share


@apart
def _head_of(heads, head_coefs, events, rows, last):
    """The distribution of rows[1] before rows[2] < ... < rows[last] in mirrored time, as `run` returns it."""
    form, n_cells, coef_end, mass = run(heads, head_coefs, events, rows, 1, last + 1, True, 0, 0)
    if n_cells == 0 and mass > 0.0:
        form, n_cells, coef_end, mass = alone(heads, head_coefs, events, rows[1], True, mass, 0, 0)
    return form, n_cells, coef_end, mass


# ------------------------------------------------------------------ event by event


class Chain(NamedTuple):
    """A chain of events with what is known of each of its prefixes: index d is the prefix of d + 1 events.

    rows: int64 (n_depths,). mass: float64 (n_depths + 1,), the prefix's probability without the window. positions:
    int64 (n_depths + 1, 6), columns below. cells, coefs: distributions of last events
    (`engine.kernels.confidence.pieces`), one above the other. heads, head_coefs: see `confidence_of_chain`; the last
    row of positions and mass is about it.
    """

    rows: npt.NDArray[np.int64]
    mass: npt.NDArray[np.float64]
    positions: npt.NDArray[np.int64]
    cells: npt.NDArray[np.int64]
    coefs: npt.NDArray[np.float64]
    heads: npt.NDArray[np.int64]
    head_coefs: npt.NDArray[np.float64]


_FORM = 0
_CELL = 1  # where its cells begin, or may
_N_CELLS = 2  # 0: the last event's own distribution times the mass, not written down
_COEF = 3  # where coefficients of the next depth may begin
_CUT = 4  # the depth of the event before the first known order, -1: all overlap
_STAMP = 5  # a number no other prefix has had; in the last row, of the prefix whose head is kept
_LAST_STAMP = 4  # in the last row


@kernel
def new_chain(n_depths):
    """Room for a chain of up to n_depths events."""
    return Chain(
        np.empty(n_depths, np.int64),
        np.empty(n_depths + 1, np.float64),
        np.zeros((n_depths + 1, 6), np.int64),
        np.empty((_FIRST_CAPACITY, 2), np.int64),
        np.empty(2 * _FIRST_CAPACITY, np.float64),
        np.empty((_FIRST_CAPACITY, 2), np.int64),
        np.empty(2 * _FIRST_CAPACITY, np.float64),
    )


@kernel
def wider_chain(chain):
    """The same chain in arrays of four times the length."""
    n = chain.cells.shape[0]
    cells = np.empty((4 * n, 2), np.int64)
    cells[:n] = chain.cells
    heads = np.empty((4 * n, 2), np.int64)
    heads[:n] = chain.heads
    coefs = np.empty(8 * n, np.float64)
    coefs[: 2 * n] = chain.coefs
    head_coefs = np.empty(8 * n, np.float64)
    head_coefs[: 2 * n] = chain.head_coefs
    return Chain(chain.rows, chain.mass, chain.positions, cells, coefs, heads, head_coefs)


@leaf
def _position(chain, depth, row, mass, form, cell, n_cells, coef, first_cut):
    chain.rows[depth] = row
    chain.mass[depth] = mass
    stamp = chain.positions[chain.rows.shape[0], _LAST_STAMP] + 1
    chain.positions[chain.rows.shape[0], _LAST_STAMP] = stamp
    chain.positions[depth, _FORM] = form
    chain.positions[depth, _CELL] = cell
    chain.positions[depth, _N_CELLS] = n_cells
    chain.positions[depth, _COEF] = coef
    chain.positions[depth, _CUT] = first_cut
    chain.positions[depth, _STAMP] = stamp


@leaf
def begin_chain(chain, row):
    """The chain is this row."""
    _position(chain, 0, row, 1.0, POLYNOMIAL, 0, 0, 0, -1)


@inlined
def extend_chain(chain, events, depth, row):
    """P(the events 0..depth of the chain are in order, and then `row`), the window left aside; kept as depth + 1.

    0.0 (nothing is kept) where that cannot be; NO_CHAIN_CAPACITY when the arrays are too short.
    """
    last = chain.rows[depth]
    if separated(events, last, row):
        cell = chain.positions[depth, _CELL]
        if chain.positions[depth, _N_CELLS] > 0:
            cell += chain.positions[depth, _N_CELLS] + 1
        first_cut = chain.positions[depth, _CUT]
        if first_cut < 0:
            first_cut = depth
        mass = chain.mass[depth]
        _position(chain, depth + 1, row, mass, POLYNOMIAL, cell, 0, chain.positions[depth, _COEF], first_cut)
        return mass
    if not may_precede(events, last, row):
        return 0.0
    return _extend_overlapping(chain, events, depth, row)


@apart
def _extend_overlapping(chain, events, depth, row):
    """`extend_chain` where the row overlaps the last event."""
    if not _is_written(chain, events, depth):
        return NO_CHAIN_CAPACITY
    cell = chain.positions[depth, _CELL]
    n_cells = chain.positions[depth, _N_CELLS]
    above = cell + n_cells + 1
    form, n_cells, coef, mass = advance_to(
        chain.cells,
        chain.coefs,
        chain.positions[depth, _FORM],
        cell,
        n_cells,
        chain.mass[depth],
        events,
        row,
        False,
        above,
        chain.positions[depth, _COEF],
    )
    if n_cells == NO_CAPACITY:
        return NO_CHAIN_CAPACITY
    if mass > 0.0:
        _position(chain, depth + 1, row, mass, form, above, n_cells, coef, chain.positions[depth, _CUT])
    return mass


@leaf
def _is_written(chain, events, depth):
    """Write the last event's distribution down, unless it is; False when the arrays are too short."""
    if chain.positions[depth, _N_CELLS] > 0:
        return True
    form, n_cells, coef, _ = alone(
        chain.cells,
        chain.coefs,
        events,
        chain.rows[depth],
        False,
        chain.mass[depth],
        chain.positions[depth, _CELL],
        chain.positions[depth, _COEF],
    )
    if n_cells == NO_CAPACITY:
        return False
    chain.positions[depth, _FORM] = form
    chain.positions[depth, _N_CELLS] = n_cells
    chain.positions[depth, _COEF] = coef
    return True


@inlined
def confidence_of_chain(chain, events, depth, within_ms):
    """`chain_confidence` of the events 0..depth; NO_CHAIN_CAPACITY when the arrays are too short.

    Where the window is not certain and the order of some neighbours is known, the distribution of the second event in
    mirrored time, before what follows it up to the first known order, is kept for all chains that begin alike. Where
    all neighbours overlap, the window is evaluated for this chain alone.
    """
    if depth == 0 or events.hi_ms[chain.rows[depth]] - events.lo_ms[chain.rows[0]] <= within_ms:
        return chain.mass[depth]
    if events.lo_ms[chain.rows[depth]] - events.hi_ms[chain.rows[0]] > within_ms:
        return 0.0
    return _confidence_in_window(chain, events, depth, within_ms)


@apart
def _confidence_in_window(chain, events, depth, within_ms):
    """`confidence_of_chain` where the window is not certain."""
    first_cut = chain.positions[depth, _CUT]
    if first_cut < 0:
        above = chain.positions[depth, _CELL] + chain.positions[depth, _N_CELLS] + 1
        coef = chain.positions[depth, _COEF]
        return cut(chain.cells, chain.coefs, events, chain.rows, depth + 1, within_ms, above, coef)
    first = chain.rows[0]
    last = chain.rows[depth]
    if (
        first_cut == 0
        and chain.positions[depth, _N_CELLS] == 0
        and events.weight_at[first] < 0
        and events.weight_at[last] < 0
    ):
        return chain.mass[depth] * share_inside(events, first, last, within_ms)
    if not _is_written(chain, events, depth):
        return NO_CHAIN_CAPACITY
    head = chain.rows.shape[0]
    if chain.positions[head, _STAMP] != chain.positions[first_cut, _STAMP]:
        chain.positions[head, _STAMP] = 0
        head_form, n_head, head_mass = POLYNOMIAL, 0, 1.0
        if first_cut > 0:
            head_form, n_head, _, head_mass = _head_of(chain.heads, chain.head_coefs, events, chain.rows, first_cut)
            if n_head == NO_CAPACITY:
                return NO_CHAIN_CAPACITY
        chain.positions[head, _STAMP] = chain.positions[first_cut, _STAMP]
        chain.positions[head, _FORM] = head_form
        chain.positions[head, _N_CELLS] = n_head
        chain.mass[head] = head_mass
    share = joint(
        chain.cells,
        chain.coefs,
        chain.positions[depth, _FORM],
        chain.positions[depth, _CELL],
        chain.positions[depth, _N_CELLS],
        chain.mass[depth],
        chain.heads,
        chain.head_coefs,
        chain.positions[head, _FORM],
        chain.positions[head, _N_CELLS],
        chain.mass[head],
        events,
        first,
        within_ms,
    )
    return share if share < 0.0 else min(share / chain.mass[first_cut], chain.mass[depth])


__all__ = [
    "NO_CHAIN_CAPACITY",
    "TOLERANCE",
    "Chain",
    "absent_confidence",
    "begin_chain",
    "chain_confidence",
    "chain_mass",
    "confidence_of_chain",
    "distribution",
    "extend_chain",
    "new_chain",
    "sequence_work",
    "wider_chain",
]
