"""What an edge of the NFAb asks for: its formula, and the absence of negated events."""

from __future__ import annotations

from engine.kernels.automaton.search import allowance_at, settle
from engine.kernels.compile.ways import leaf
from engine.kernels.programs.opcodes import OVER_ALL, OVER_PAIRS, TRUE
from engine.kernels.programs.predicates import evaluate
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


@leaf
def loops_hold(
    code, bounds, constants, columns, loops, nodes, head, first, last, rows, aggregates, stack
):  # fmt: skip
    """The programs first..last-1 hold for CURRENT = each selected event of the component that they range over."""
    current = rows.shape[0] - 1
    saved_current = rows[current]
    holds = True
    for program in range(first, last):
        over = loops[program, 0]
        register = 2 * over + 1
        saved_last = rows[register]
        node = head
        # Below the component there may be a union, but runs are not merged as long as a loop has to tell them apart.
        while node >= 0 and holds and nodes[node, COMPONENT] >= over:
            if nodes[node, COMPONENT] == over:
                parent = nodes[node, PARENT]
                has_previous = parent >= 0 and nodes[parent, COMPONENT] == over
                if has_previous or loops[program, 1] == OVER_ALL:
                    rows[current] = nodes[node, ROW]
                    if loops[program, 1] == OVER_PAIRS:
                        rows[register] = nodes[parent, ROW]
                    value = evaluate(
                        code, bounds[program], bounds[program + 1], constants, columns, rows, aggregates, stack
                    )
                    holds = value == TRUE
            node = nodes[node, PARENT]
        rows[register] = saved_last
        if not holds:
            break
    rows[current] = saved_current
    return holds


@leaf
def negation_fails(
    code, bounds, constants, columns, negations, scalars, t_ms, negated_before, newest_negated, n_steps,
    negation, partition, n_rows, rows, aggregates, stack, counters,
):  # fmt: skip
    """True when an event of the negated component stands where it must not. Each one looked at is paid for.

    The place is strictly between the neighbours; for a leading negation [last - within, first), for a trailing one
    (last, first + within] (DESIGN 3). Rows stand in stream order, so a place is a range of rows; the negated events of
    a partition, and the broadcast ones, are walked from the newest on.
    """
    after = negations[negation, AFTER]
    broadcast = newest_negated.shape[1] - 1
    if after < 0:
        start, end = 0, rows[0]
    elif after == n_steps - 1:
        start, end = rows[2 * after + 1] + 1, n_rows
    else:
        start, end = rows[2 * after + 1] + 1, rows[2 * (after + 1)]
    if newest_negated[negation, broadcast] >= start and _stands_between(
        code, bounds, constants, columns, negations, scalars, t_ms, negated_before, newest_negated, n_steps,
        negation, broadcast, start, end, rows, aggregates, stack, counters,
    ):  # fmt: skip
        return True
    return (
        partition >= 0
        and newest_negated[negation, partition] >= start
        and _stands_between(
            code, bounds, constants, columns, negations, scalars, t_ms, negated_before, newest_negated, n_steps,
            negation, partition, start, end, rows, aggregates, stack, counters,
        )
    )  # fmt: skip


@leaf
def _stands_between(
    code, bounds, constants, columns, negations, scalars, t_ms, negated_before, newest_negated, n_steps,
    negation, partition, start, end, rows, aggregates, stack, counters,
):  # fmt: skip
    """True when a negated event of one partition stands in the rows start..end-1 and all predicates hold for it."""
    after = negations[negation, AFTER]
    first_program, last_program = negations[negation, FIRST_ABSENT], negations[negation, LAST_ABSENT]
    current = rows.shape[0] - 1
    saved = rows[current]
    found = False
    row = newest_negated[negation, partition]
    while row >= start and not found:
        t = t_ms[row]
        if after < 0 and t < t_ms[rows[2 * n_steps - 1]] - scalars[WITHIN]:
            break
        counters[BALANCE] -= 1
        if row < end and not (after == n_steps - 1 and t > t_ms[rows[0]] + scalars[WITHIN]):
            tied = scalars[STRICT_TIES] != 0 and (
                (after >= 0 and t <= t_ms[rows[2 * after + 1]])
                or (after < n_steps - 1 and t >= t_ms[rows[2 * (after + 1)]])
            )
            if not tied:
                rows[current] = row
                found = True
                for k in range(first_program, last_program):
                    value = evaluate(code, bounds[k], bounds[k + 1], constants, columns, rows, aggregates, stack)
                    if value != TRUE:
                        found = False
                        break
        row = negated_before[negation, row]
    rows[current] = saved
    return found


@leaf
def undisturbed(
    code, bounds, constants, columns, negations, scalars, t_ms, negated_before, newest_negated, n_steps,
    partitions, n_rows, match_rows, match_aggregates, order, firsts, position, terms, account, counters, stack,
    stands, was_cut,
):  # fmt: skip
    """Write to stands (bool, per match) whether no trailing negation of a match, all of whose window is past, fails.

    Looked at in this order, and paid for by the stream up to their first events (firsts: their rows; terms, account:
    see `automaton_search.allowance_at`): was_cut (bool, per match) are those that nothing was left for, which do not
    stand. counters: of `nfa_arrays`, written.
    """
    for at in order:
        allowance = allowance_at(account, terms, position[firsts[at]])
        stands[at], was_cut[at] = allowance > 0, allowance <= 0
        counters[BALANCE] = allowance
        for negation in range(negations.shape[0]):
            if stands[at] and negations[negation, AFTER] == n_steps - 1 and negation_fails(
                code, bounds, constants, columns, negations, scalars, t_ms, negated_before, newest_negated, n_steps,
                negation, partitions[at], n_rows, match_rows[at], match_aggregates[at], stack, counters,
            ):  # fmt: skip
                stands[at] = False
        settle(account, allowance - counters[BALANCE])


@leaf
def append_node(nodes, counters, row, parent, component):
    """A node for an event selected after `parent` (-1: the first); returns its number."""
    node = counters[N_NODES]
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


__all__ = ["append_node", "loops_hold", "negation_fails", "undisturbed"]
