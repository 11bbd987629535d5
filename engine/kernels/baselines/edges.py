"""Edges of the NFAb for the baselines: may this event extend this partial match of skip till any match?

What the arrays are, for all `baseline_*` kernels (n steps, k programs, r registers, c capacity):

- code, bounds, constants: programs, see `engine.plan.programs`; columns float64 (., c): attributes by row.
- slots int32 (n_slots, 4): kind, component, column, base of each running aggregate.
- edges int64 (n, 10): IS_KLEENE, then for each of BEGIN, TAKE, PROCEED first, last, last_loop: programs [first, last)
  are evaluated once, [last, last_loop) for each event of an earlier component.
- loops int64 (k, 2): the component over whose events a program runs, and over which
  of them, `opcodes.OVER_ALL` and so on.
- chain int64 (c, 2): the events of a partial match in time order: row, component. Its length is passed beside it.
- rows int64 (r,), aggregates float64 (n_slots,), stack float64 (MAX_STACK,): see `engine.kernels.programs.predicates`.
"""

from __future__ import annotations

import numpy as np

from engine.kernels.compile.ways import leaf
from engine.kernels.programs.opcodes import OVER_ALL, OVER_PAIRS, TRUE
from engine.kernels.programs.predicates import evaluate, reset_aggregates, update_aggregates

IS_KLEENE = 0
BEGIN = 1
TAKE = 4
PROCEED = 7

ROW = 0
COMPONENT = 1


@leaf
def edge_holds(
    code, bounds, constants, columns, loops, edges, step, edge, chain, n_chain, rows, aggregates, stack
):  # fmt: skip
    """True when all programs of one edge of one step hold."""
    first, last, last_loop = edges[step, edge], edges[step, edge + 1], edges[step, edge + 2]
    for k in range(first, last):
        if evaluate(code, bounds[k], bounds[k + 1], constants, columns, rows, aggregates, stack) != TRUE:
            return False
    current = rows.shape[0] - 1
    for k in range(last, last_loop):
        over = loops[k, 0]
        saved_current, saved_last = rows[current], rows[2 * over + 1]
        holds = True
        for at in range(n_chain):
            if chain[at, COMPONENT] != over:
                continue
            has_previous = at > 0 and chain[at - 1, COMPONENT] == over
            if not has_previous and loops[k, 1] != OVER_ALL:
                continue
            rows[current] = chain[at, ROW]
            if loops[k, 1] == OVER_PAIRS:
                rows[2 * over + 1] = chain[at - 1, ROW]
            if evaluate(code, bounds[k], bounds[k + 1], constants, columns, rows, aggregates, stack) != TRUE:
                holds = False
                break
        rows[current], rows[2 * over + 1] = saved_current, saved_last
        if not holds:
            return False
    return True


@leaf
def starts(code, bounds, constants, columns, slots, loops, edges, row, chain, rows, aggregates, stack):
    """True when the event may be the first of a match; registers and aggregates are then those of that match."""
    rows[:] = -1
    aggregates[:] = np.nan
    rows[0], rows[1], rows[rows.shape[0] - 1] = row, row, row
    if not edge_holds(code, bounds, constants, columns, loops, edges, 0, BEGIN, chain, 0, rows, aggregates, stack):
        return False
    chain[0, ROW], chain[0, COMPONENT] = row, 0
    reset_aggregates(slots[:, 0], slots[:, 1], 0, aggregates)
    update_aggregates(slots[:, 0], slots[:, 1], slots[:, 2], slots[:, 3], 0, columns, row, aggregates)
    return True


@leaf
def begins(
    code, bounds, constants, columns, slots, loops, edges, here, row, chain, n_chain, rows, aggregates, stack
):  # fmt: skip
    """True when a partial match in step `here` may go on to the next step with this event.

    Chain, registers and aggregates are then those of the extended match.
    """
    there = here + 1
    if not edge_holds(
        code, bounds, constants, columns, loops, edges, here, PROCEED, chain, n_chain, rows, aggregates, stack
    ):  # fmt: skip
        return False
    rows[2 * there], rows[2 * there + 1], rows[rows.shape[0] - 1] = row, row, row
    if not edge_holds(
        code, bounds, constants, columns, loops, edges, there, BEGIN, chain, n_chain, rows, aggregates, stack
    ):  # fmt: skip
        return False
    chain[n_chain, ROW], chain[n_chain, COMPONENT] = row, there
    reset_aggregates(slots[:, 0], slots[:, 1], there, aggregates)
    update_aggregates(slots[:, 0], slots[:, 1], slots[:, 2], slots[:, 3], there, columns, row, aggregates)
    return True


@leaf
def takes(
    code, bounds, constants, columns, slots, loops, edges, here, row, chain, n_chain, rows, aggregates, stack
):  # fmt: skip
    """True when the Kleene step `here` may take this event; otherwise as `begins`."""
    rows[rows.shape[0] - 1] = row
    if not edge_holds(
        code, bounds, constants, columns, loops, edges, here, TAKE, chain, n_chain, rows, aggregates, stack
    ):  # fmt: skip
        return False
    chain[n_chain, ROW], chain[n_chain, COMPONENT] = row, here
    rows[2 * here + 1] = row
    update_aggregates(slots[:, 0], slots[:, 1], slots[:, 2], slots[:, 3], here, columns, row, aggregates)
    return True


@leaf
def completes(code, bounds, constants, columns, loops, edges, chain, n_chain, rows, aggregates, stack):
    """True when a partial match in the last step may end with the event that it has got last."""
    last = edges.shape[0] - 1
    return edge_holds(
        code, bounds, constants, columns, loops, edges, last, PROCEED, chain, n_chain, rows, aggregates, stack
    )
