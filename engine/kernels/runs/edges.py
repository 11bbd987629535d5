"""What an edge of the NFAb asks for: its formula, and the absence of negated events.

Records of arrays: see `engine.kernels.runs.arrays`.
"""

from __future__ import annotations

from engine.kernels.automaton.search import allowance_at, settle
from engine.kernels.compile.ways import inlined, leaf
from engine.kernels.programs.opcodes import OVER_ALL, OVER_PAIRS, TRUE
from engine.kernels.programs.predicates import all_hold, evaluate
from engine.kernels.runs.arrays import (
    AFTER,
    BALANCE,
    BRANCH,
    COMPONENT,
    FIRST_ABSENT,
    LAST_ABSENT,
    N_NODES,
    PARENT,
    ROW,
    STRICT_TIES,
    UNION,
    WITHIN,
)


@inlined
def value_of(plan, program, columns, scratch):
    """The value of a program for the run at hand; columns: of the store."""
    return evaluate(
        plan.code, plan.bounds[program], plan.bounds[program + 1], plan.constants, columns, scratch.rows,
        scratch.aggregates, scratch.stack,
    )  # fmt: skip


@inlined
def programs_hold(plan, first, last, columns, scratch):
    """Whether the programs first..last-1 hold for the run at hand; mostly there are none."""
    return first == last or all_hold(
        plan.code, plan.bounds, first, last, plan.constants, columns, scratch.rows, scratch.aggregates, scratch.stack
    )


@leaf
def loops_hold(plan, columns, nodes, head, first, last, scratch):
    """The programs first..last-1 hold for CURRENT = each selected event of the component that they range over."""
    rows = scratch.rows
    current = rows.shape[0] - 1
    saved_current = rows[current]
    holds = True
    for program in range(first, last):
        over = plan.loops[program, 0]
        register = 2 * over + 1
        saved_last = rows[register]
        node = head
        # Below the component there may be a union, but runs are not merged as long as a loop has to tell them apart.
        while node >= 0 and holds and nodes[node, COMPONENT] >= over:
            if nodes[node, COMPONENT] == over:
                parent = nodes[node, PARENT]
                has_previous = parent >= 0 and nodes[parent, COMPONENT] == over
                if has_previous or plan.loops[program, 1] == OVER_ALL:
                    rows[current] = nodes[node, ROW]
                    if plan.loops[program, 1] == OVER_PAIRS:
                        rows[register] = nodes[parent, ROW]
                    holds = value_of(plan, program, columns, scratch) == TRUE
            node = nodes[node, PARENT]
        rows[register] = saved_last
        if not holds:
            break
    rows[current] = saved_current
    return holds


@leaf
def negation_fails(plan, store, newest_negated, negation, partition, n_rows, scratch, counters):
    """True when an event of the negated component stands where it must not. Each one looked at is paid for.

    The position is strictly between the neighbours; for a leading negation [last - within, first), for a trailing one
    (last, first + within] (DESIGN 3). Rows stand in stream order, so a position is a range of rows; the negated events
    of a partition, and the broadcast ones, are walked from the newest on.
    """
    rows = scratch.rows
    after = plan.negations[negation, AFTER]
    broadcast = newest_negated.shape[1] - 1
    if after < 0:
        start, end = 0, rows[0]
    elif after == plan.steps.shape[0] - 1:
        start, end = rows[2 * after + 1] + 1, n_rows
    else:
        start, end = rows[2 * after + 1] + 1, rows[2 * (after + 1)]
    newest = newest_negated[negation, broadcast]
    if newest >= start and _stands_between(plan, store, negation, newest, start, end, scratch, counters):
        return True
    if partition < 0:
        return False
    newest = newest_negated[negation, partition]
    return newest >= start and _stands_between(plan, store, negation, newest, start, end, scratch, counters)


@leaf
def _stands_between(plan, store, negation, newest, start, end, scratch, counters):
    """True when a negated event of the partition of `newest` stands in the rows start..end-1 and its formula holds."""
    rows, t_ms = scratch.rows, store.t_ms
    n_steps = plan.steps.shape[0]
    within_ms, strict_ties = plan.scalars[WITHIN], plan.scalars[STRICT_TIES] != 0
    after = plan.negations[negation, AFTER]
    current = rows.shape[0] - 1
    saved = rows[current]
    found = False
    row = newest
    while row >= start and not found:
        t = t_ms[row]
        if after < 0 and t < t_ms[rows[2 * n_steps - 1]] - within_ms:
            break
        counters[BALANCE] -= 1
        if row < end and not (after == n_steps - 1 and t > t_ms[rows[0]] + within_ms):
            tied = strict_ties and (
                (after >= 0 and t <= t_ms[rows[2 * after + 1]])
                or (after < n_steps - 1 and t >= t_ms[rows[2 * (after + 1)]])
            )
            if not tied:
                rows[current] = row
                found = programs_hold(
                    plan, plan.negations[negation, FIRST_ABSENT], plan.negations[negation, LAST_ABSENT], store.columns,
                    scratch,
                )  # fmt: skip
        row = store.negated_before[negation, row]
    rows[current] = saved
    return found


@leaf
def undisturbed(
    plan, store, newest_negated, partitions, n_rows, matches, order, firsts, terms, account, scratch, counters, stands,
    was_cut,
):  # fmt: skip
    """Write to stands, bool (n,), whether no trailing negation of a match, all of whose window is past, fails.

    partitions, firsts: int64 (n,), of the matches their partitions and the rows of their first events. n_rows: of the
    store. Looked at by `order`, int64 (n,), and paid for by the stream up to their first events (terms, account: see
    `automaton.search.allowance_at`): was_cut, bool (n,), are those that nothing was left for, which do not stand.
    counters: see `engine.kernels.runs.arrays`, written.
    """
    for at in order:
        allowance = allowance_at(account, terms, store.position[firsts[at]])
        stands[at], was_cut[at] = allowance > 0, allowance <= 0
        counters[BALANCE] = allowance
        for k in range(scratch.rows.shape[0]):
            scratch.rows[k] = matches.rows[at, k]
        for k in range(scratch.aggregates.shape[0]):
            scratch.aggregates[k] = matches.aggregates[at, k]
        for negation in range(plan.negations.shape[0]):
            if (
                stands[at]
                and plan.negations[negation, AFTER] == plan.steps.shape[0] - 1
                and negation_fails(plan, store, newest_negated, negation, partitions[at], n_rows, scratch, counters)
            ):
                stands[at] = False
        settle(account, allowance - counters[BALANCE])


@leaf
def append_node(nodes, counters, row, parent, component):
    """A node for an event selected after `parent` (-1: the first); returns its number."""
    node = max(counters[N_NODES], 0)
    counters[N_NODES] += 1
    nodes[node, ROW] = row
    nodes[node, PARENT] = parent
    nodes[node, COMPONENT] = component
    if parent < 0:
        nodes[node, BRANCH] = node
    elif nodes[parent, COMPONENT] == UNION:
        nodes[node, BRANCH] = parent
    else:
        nodes[node, BRANCH] = nodes[parent, BRANCH]
    return node


__all__ = ["append_node", "loops_hold", "negation_fails", "programs_hold", "undisturbed", "value_of"]
