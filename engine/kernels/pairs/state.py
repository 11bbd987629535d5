"""State of a partial match under construction: registers, aggregates and the predicates of each edge.

Shared by the search (`pairs.search`) and the dynamic program (`pairs.counting`). rows: int64 (n_registers,), see
`engine.plan.programs`; aggregates: float64 (n_slots,). Local predicates are not evaluated here: they are masks.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from engine.kernels.compile.ways import kernel, leaf
from engine.kernels.confidence.ordering import both_precise, may_precede, one_clock, separated
from engine.kernels.programs.opcodes import AGG_COUNT, AGG_COUNT_EVENTS, AGG_LAG, FALSE, OVER_ALL, OVER_PAIRS, TRUE
from engine.kernels.programs.predicates import all_hold, evaluate, reset_aggregates, update_aggregates

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
Float64 = npt.NDArray[np.float64]
Bool = npt.NDArray[np.bool_]

BEGIN = 0
TAKE = 1
PROCEED = 2

ABSENT = 0
UNCERTAIN = 1
PRESENT = 2
"""What is known of a negated event in its place; the greatest decides over several: one that is there in every world
leaves no match, whatever the others."""


class Tables(NamedTuple):
    """A plan as arrays; the same for every pair of first and last event.

    code, bounds, constants: the programs. kinds, owners, slot_columns, bases: int32 (n_slots,).
    kleene: bool (n_steps,).
    edges: int32 (n_steps, 3, 2), programs [from, to) of each edge that are not local.
    loops: int32 (k, 5): step, edge, program, over, which (`opcodes.OVER_ALL` and so on).
    hoisted: int32 (k, 3), loops that refer to nothing but the events they range over and events known from the start:
    over, program, which.
    falling: int32 (k, 2), step and program of predicates that stay false once they are false while that step takes
    events.
    finals: int32 (k,), programs of the complete match.
    negations: int32 (n_negations, 4): after, decided_at, programs [from, to).
    key_registers: bool (n_steps, n_registers) and key_slots: bool (n_steps, n_slots): what later predicates of a match
    in that step still read.
    caps: float64 (n_slots,), the count above which all counts are alike.
    known_last: the last event is bound from the start (it is a single component).
    within_ms: the window, inclusive.
    """

    code: Int32
    bounds: Int32
    constants: Float64
    kinds: Int32
    owners: Int32
    slot_columns: Int32
    bases: Int32
    kleene: Bool
    edges: Int32
    loops: Int32
    hoisted: Int32
    falling: Int32
    finals: Int32
    negations: Int32
    key_registers: Bool
    key_slots: Bool
    caps: Float64
    known_last: bool
    within_ms: int


@kernel
def unbound(tables, last):
    """Registers before the first event is bound; the last one is known when it is a single component."""
    n_steps = tables.kleene.shape[0]
    rows = np.full(2 * n_steps + 1, -1, np.int64)
    if tables.known_last:
        rows[2 * n_steps - 2] = last
        rows[2 * n_steps - 1] = last
    return rows


@leaf
def begins(tables, events, step, row, rows, aggregates, stack):
    """Bind `row` as the first (or only) event of `step`; False when a predicate does not hold."""
    current = rows.shape[0] - 1
    rows[2 * step] = row
    rows[2 * step + 1] = row
    rows[current] = row
    first = tables.edges[step, BEGIN, 0]
    last = tables.edges[step, BEGIN, 1]
    if not all_hold(tables.code, tables.bounds, first, last, tables.constants, events.columns, rows, aggregates, stack):
        return False
    if not _hoisted_hold(tables, events, step, False, rows, aggregates, stack):
        return False
    reset_aggregates(tables.kinds, tables.owners, step, aggregates)
    count_in(
        tables.kinds,
        tables.owners,
        tables.slot_columns,
        tables.bases,
        tables.caps,
        step,
        events.columns,
        row,
        aggregates,
    )
    return _may_still_hold(tables, events, step, rows, aggregates, stack)


@leaf
def takes(tables, events, step, row, rows, aggregates, stack):
    """Bind `row` as the next event of the Kleene component `step`; False when a predicate does not hold."""
    rows[rows.shape[0] - 1] = row
    first = tables.edges[step, TAKE, 0]
    last = tables.edges[step, TAKE, 1]
    if not all_hold(tables.code, tables.bounds, first, last, tables.constants, events.columns, rows, aggregates, stack):
        return False
    if not _hoisted_hold(tables, events, step, True, rows, aggregates, stack):
        return False
    rows[2 * step + 1] = row
    count_in(
        tables.kinds,
        tables.owners,
        tables.slot_columns,
        tables.bases,
        tables.caps,
        step,
        events.columns,
        row,
        aggregates,
    )
    return _may_still_hold(tables, events, step, rows, aggregates, stack)


@leaf
def leaves(tables, events, step, rows, aggregates, stack):
    """Whether the predicates on completing `step` hold (loops apart)."""
    first = tables.edges[step, PROCEED, 0]
    last = tables.edges[step, PROCEED, 1]
    return all_hold(tables.code, tables.bounds, first, last, tables.constants, events.columns, rows, aggregates, stack)


@leaf
def completes(tables, events, rows, aggregates, stack):
    """Whether the predicates of the complete match (HAVING) hold."""
    for program in tables.finals:
        start = tables.bounds[program]
        end = tables.bounds[program + 1]
        if evaluate(tables.code, start, end, tables.constants, events.columns, rows, aggregates, stack) != TRUE:
            return False
    return True


@leaf
def loops_hold(tables, events, step, edge, chain, steps, n, rows, aggregates, stack):
    """Whether the loops of one edge hold for each event of the component that they range over.

    chain, steps: int64 (>= n,): the rows bound so far in order and the component of each. Registers are restored.
    """
    current = rows.shape[0] - 1
    for k in range(tables.loops.shape[0]):
        if tables.loops[k, 0] != step or tables.loops[k, 1] != edge:
            continue
        program = tables.loops[k, 2]
        over = tables.loops[k, 3]
        which = tables.loops[k, 4]
        was_current = rows[current]
        was_last = rows[2 * over + 1]
        holds = True
        previous = -1
        for at in range(n):
            if steps[at] != over:
                continue
            if which == OVER_ALL or previous >= 0:
                rows[current] = chain[at]
                if which == OVER_PAIRS:
                    rows[2 * over + 1] = previous
                start = tables.bounds[program]
                end = tables.bounds[program + 1]
                value = evaluate(tables.code, start, end, tables.constants, events.columns, rows, aggregates, stack)
                if value != TRUE:
                    holds = False
                    break
            previous = chain[at]
        rows[current] = was_current
        rows[2 * over + 1] = was_last
        if not holds:
            return False
    return True


@leaf
def negated_between(tables, events, k, row, left, right, first, last, rows, aggregates, stack):
    """Whether the event `row` stands where negation k forbids one: ABSENT, PRESENT or UNCERTAIN.

    left, right: the neighbours' rows (the first and the last event of the match for a negation at an end).
    """
    n_steps = tables.kleene.shape[0]
    after = tables.negations[k, 0]
    side_left = _is_before(events, left, row) if after >= 0 else _within(events, row, last, tables.within_ms)
    if side_left == ABSENT:
        return ABSENT
    side_right = (
        _is_before(events, row, right) if after < n_steps - 1 else _within(events, first, row, tables.within_ms)
    )
    if side_right == ABSENT:
        return ABSENT
    current = rows.shape[0] - 1
    was_current = rows[current]
    rows[current] = row
    holds = all_hold(
        tables.code,
        tables.bounds,
        tables.negations[k, 2],
        tables.negations[k, 3],
        tables.constants,
        events.columns,
        rows,
        aggregates,
        stack,
    )
    rows[current] = was_current
    if not holds:
        return ABSENT
    return PRESENT if side_left == PRESENT and side_right == PRESENT else UNCERTAIN


@leaf
def _is_outside(tables, events, after, row, left, right):
    """Whether times alone tell that an event stands in no gap between its neighbours."""
    return (after >= 0 and events.hi_ms[row] < events.lo_ms[left]) or (
        after < tables.kleene.shape[0] - 1 and events.lo_ms[row] > events.hi_ms[right]
    )


@leaf
def n_negated_at(tables, events, negated, decided_at, first, last, rows):
    """How many events `negations_at` looks at, those that times alone tell left out; at most."""
    n_visits = 0
    for k in range(tables.negations.shape[0]):
        if tables.negations[k, 1] == decided_at:
            after = tables.negations[k, 0]
            left = rows[2 * after + 1] if after >= 0 else first
            right = rows[2 * after + 2] if after + 1 < tables.kleene.shape[0] else last
            for row in negated:
                n_visits += not _is_outside(tables, events, after, row, left, right)
    return n_visits


@leaf
def negations_at(tables, events, negated, negated_ok, decided_at, first, last, rows, aggregates, stack):
    """The worst answer of `negated_between` over the negations decided when `decided_at` is bound.

    negated: int64 (k,), rows of negated types around the match; negated_ok: bool (n_negations, n_rows), their local
    predicates. Neighbours come from the registers; `first` and `last` are the ends of the match.
    """
    worst = ABSENT
    for k in range(tables.negations.shape[0]):
        if tables.negations[k, 1] != decided_at:
            continue
        after = tables.negations[k, 0]
        before_row = rows[2 * after + 1] if after >= 0 else first
        after_row = rows[2 * after + 2] if after + 1 < tables.kleene.shape[0] else last
        for row in negated:
            if not negated_ok[k, row] or row in (before_row, after_row):
                continue
            if _is_outside(tables, events, after, row, before_row, after_row):
                continue
            found = negated_between(tables, events, k, row, before_row, after_row, first, last, rows, aggregates, stack)
            if found == PRESENT:
                return PRESENT
            worst = max(worst, found)
    return worst


@leaf
def _is_before(events, i, j):
    if separated(events, i, j):
        return PRESENT
    if both_precise(events, i, j) or one_clock(events, i, j):
        return ABSENT
    return UNCERTAIN if may_precede(events, i, j) else ABSENT


@leaf
def _within(events, i, j, within_ms):
    """Whether j - i <= within_ms: always PRESENT, never ABSENT."""
    if events.hi_ms[j] - events.lo_ms[i] <= within_ms:
        return PRESENT
    return ABSENT if events.lo_ms[j] - events.hi_ms[i] > within_ms else UNCERTAIN


@leaf
def count_in(kinds, owners, slot_columns, bases, caps, step, columns, row, aggregates):
    """Add the event of `row` to the aggregates of `step`; counts stop at their caps."""
    update_aggregates(kinds, owners, slot_columns, bases, step, columns, row, aggregates)
    for slot in range(kinds.shape[0]):
        if kinds[slot] in (AGG_COUNT_EVENTS, AGG_COUNT, AGG_LAG) and aggregates[slot] > caps[slot]:
            aggregates[slot] = caps[slot]


@leaf
def _hoisted_hold(tables, events, step, has_previous, rows, aggregates, stack):
    for k in range(tables.hoisted.shape[0]):
        if tables.hoisted[k, 0] != step or (tables.hoisted[k, 2] != OVER_ALL and not has_previous):
            continue
        program = tables.hoisted[k, 1]
        start = tables.bounds[program]
        end = tables.bounds[program + 1]
        if evaluate(tables.code, start, end, tables.constants, events.columns, rows, aggregates, stack) != TRUE:
            return False
    return True


@leaf
def _may_still_hold(tables, events, step, rows, aggregates, stack):
    for k in range(tables.falling.shape[0]):
        if tables.falling[k, 0] != step:
            continue
        program = tables.falling[k, 1]
        start = tables.bounds[program]
        end = tables.bounds[program + 1]
        if evaluate(tables.code, start, end, tables.constants, events.columns, rows, aggregates, stack) == FALSE:
            return False
    return True


@kernel
def free_edges(tables):
    """For each 2 * step (begin) and 2 * step + 1 (take) whether binding an event asks for nothing: bool."""
    n_steps = tables.kleene.shape[0]
    free = np.zeros(2 * n_steps, np.bool_)
    for step in range(n_steps):
        for edge in (BEGIN, TAKE):
            asks = tables.edges[step, edge, 0] != tables.edges[step, edge, 1] or tables.kinds.shape[0] > 0
            for k in range(tables.hoisted.shape[0]):
                asks = asks or tables.hoisted[k, 0] == step
            for k in range(tables.falling.shape[0]):
                asks = asks or tables.falling[k, 0] == step
            for k in range(tables.loops.shape[0]):
                asks = asks or (tables.loops[k, 0] == step and tables.loops[k, 1] == edge)
            free[2 * step + edge] = not asks
    return free


__all__ = [
    "ABSENT",
    "BEGIN",
    "PRESENT",
    "PROCEED",
    "TAKE",
    "UNCERTAIN",
    "Tables",
    "begins",
    "completes",
    "count_in",
    "free_edges",
    "leaves",
    "loops_hold",
    "n_negated_at",
    "negated_between",
    "negations_at",
    "takes",
    "unbound",
]
