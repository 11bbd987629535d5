"""The run-based NFAb kernel for skip till next match over precise events (SASE+ sections 4.1 and 5).

Runs live in flat arrays and are chained per partition. What a run has selected is a chain of nodes that share their
prefixes: a run that proceeds and the looping self that it leaves behind point to the same nodes (the sharing that
SASE+ section 5.2 gets from versioned buffers, without Dewey numbers).
"""

from __future__ import annotations

import numpy as np
from numba import njit

from engine.kernels.nfa_arrays import (
    AFTER,
    BEGIN,
    COMPONENT,
    DECIDED_AT,
    FIRST_ABSENT,
    FIRST_PROGRAM,
    HEAD,
    LAST_ABSENT,
    LAST_LOOP,
    LAST_PROGRAM,
    N_FREE,
    N_LIVE,
    N_MATCHES,
    N_NODES,
    NEGATED_TYPE,
    NEXT,
    PARENT,
    PARTITION,
    PROCEED,
    ROW,
    STATE,
    TAKE,
)
from engine.kernels.opcodes import MAX_STACK, TRUE
from engine.kernels.predicates import all_hold, evaluate, reset_aggregates, update_aggregates


@njit(cache=True, nogil=True)
def _copy(table, at, values):
    """values = table[at], element by element: no view is made."""
    for k in range(values.shape[0]):
        values[k] = table[at, k]


@njit(cache=True, nogil=True)
def _put(table, at, values):
    """table[at] = values."""
    for k in range(values.shape[0]):
        table[at, k] = values[k]


@njit(cache=True, nogil=True)
def _loops_hold(plan, store, nodes, head, first, last, rows, aggregates, stack):
    """The programs first..last-1 hold for CURRENT = each selected event of the component that they range over."""
    current = plan.n_registers - 1
    saved_current = rows[current]
    holds = True
    for program in range(first, last):
        over = plan.loops[program, 0]
        register = 2 * over + 1
        saved_last = rows[register]
        node = head
        while node >= 0 and holds:
            if nodes[node, COMPONENT] == over:
                parent = nodes[node, PARENT]
                has_previous = parent >= 0 and nodes[parent, COMPONENT] == over
                if has_previous or plan.loops[program, 1] == 0:
                    rows[current] = nodes[node, ROW]
                    rows[register] = nodes[parent, ROW] if has_previous else -1
                    value = evaluate(
                        plan.code, plan.bounds[program], plan.bounds[program + 1],
                        plan.constants, store.columns, rows, aggregates, stack,
                    )  # fmt: skip
                    holds = value == TRUE
            node = nodes[node, PARENT]
        rows[register] = saved_last
        if not holds:
            break
    rows[current] = saved_current
    return holds


@njit(cache=True, nogil=True)
def _edge_holds(plan, store, nodes, head, step, edge, rows, aggregates, stack):
    """All predicates of one edge of a step hold; `head` is the newest node whose events loops range over."""
    return all_hold(
        plan.code, plan.bounds, plan.edges[step, edge, FIRST_PROGRAM], plan.edges[step, edge, LAST_PROGRAM],
        plan.constants, store.columns, rows, aggregates, stack,
    ) and _loops_hold(
        plan, store, nodes, head, plan.edges[step, edge, LAST_PROGRAM], plan.edges[step, edge, LAST_LOOP],
        rows, aggregates, stack,
    )  # fmt: skip


@njit(cache=True, nogil=True)
def negation_fails(plan, store, negation, partition, n_rows, rows, aggregates, stack):
    """True when an event of the negated component stands where it must not.

    The place is strictly between the neighbours; for a leading negation [last - within, first), for a trailing one
    (last, first + within] (DESIGN 3). Rows stand in stream order, so a place is a range of rows.
    """
    n_steps = plan.step_type.shape[0]
    after = plan.negations[negation, AFTER]
    current = plan.n_registers - 1
    t_first = store.t_ms[rows[0]]
    if after < 0:
        start, end = 0, rows[0]
    elif after == n_steps - 1:
        start, end = rows[2 * after + 1] + 1, n_rows
    else:
        start, end = rows[2 * after + 1] + 1, rows[2 * (after + 1)]
    saved = rows[current]
    found = False
    for row in range(start, end):
        if store.type_index[row] != plan.negations[negation, NEGATED_TYPE]:
            continue
        if store.partition[row] != partition and store.partition[row] >= 0:
            continue
        t_ms = store.t_ms[row]
        if after < 0 and t_ms < store.t_ms[rows[2 * n_steps - 1]] - plan.within_ms:
            continue
        if after == n_steps - 1 and t_ms > t_first + plan.within_ms:
            break
        if plan.strict_ties:
            if after >= 0 and t_ms <= store.t_ms[rows[2 * after + 1]]:
                continue
            if after < n_steps - 1 and t_ms >= store.t_ms[rows[2 * (after + 1)]]:
                continue
        rows[current] = row
        if all_hold(
            plan.code, plan.bounds, plan.negations[negation, FIRST_ABSENT], plan.negations[negation, LAST_ABSENT],
            plan.constants, store.columns, rows, aggregates, stack,
        ):  # fmt: skip
            found = True
            break
    rows[current] = saved
    return found


@njit(cache=True, nogil=True)
def _negations_hold(plan, store, position, partition, n_rows, rows, aggregates, stack):
    """No negation that is decided by binding `position` is violated."""
    for negation in range(plan.negations.shape[0]):
        if plan.negations[negation, DECIDED_AT] == position and negation_fails(
            plan, store, negation, partition, n_rows, rows, aggregates, stack
        ):
            return False
    return True


@njit(cache=True, nogil=True)
def _bind_first(plan, store, component, row, rows, aggregates):
    """Bind `row` as v or v[1] of `component` and start its aggregates."""
    rows[2 * component] = row
    rows[2 * component + 1] = row
    reset_aggregates(plan.slot_kind, plan.slot_component, component, aggregates)
    update_aggregates(
        plan.slot_kind, plan.slot_component, plan.slot_column, plan.slot_base,
        component, store.columns, row, aggregates,
    )  # fmt: skip


@njit(cache=True, nogil=True)
def _emit(plan, store, matches, counters, head, partition, rows, aggregates, stack):
    """Record a match with its RETURN values, unless HAVING rejects it."""
    if plan.having >= 0:
        value = evaluate(
            plan.code, plan.bounds[plan.having], plan.bounds[plan.having + 1],
            plan.constants, store.columns, rows, aggregates, stack,
        )  # fmt: skip
        if value != TRUE:
            return
    at = counters[N_MATCHES]
    counters[N_MATCHES] += 1
    matches.fields[at, HEAD] = head
    matches.fields[at, PARTITION] = partition
    _put(matches.rows, at, rows)
    _put(matches.aggregates, at, aggregates)
    for k in range(plan.returns.shape[0]):
        program = plan.returns[k]
        matches.values[at, k] = evaluate(
            plan.code, plan.bounds[program], plan.bounds[program + 1],
            plan.constants, store.columns, rows, aggregates, stack,
        )  # fmt: skip


@njit(cache=True, nogil=True)
def _new_node(nodes, counters, row, parent, component):
    node = counters[N_NODES]
    counters[N_NODES] += 1
    nodes[node, ROW] = row
    nodes[node, PARENT] = parent
    nodes[node, COMPONENT] = component
    return node


@njit(cache=True, nogil=True)
def _new_run(runs, counters, state, head, partition, rows, aggregates, chain):
    counters[N_FREE] -= 1
    counters[N_LIVE] += 1
    run = runs.free[counters[N_FREE]]
    runs.fields[run, STATE] = state
    runs.fields[run, HEAD] = head
    runs.fields[run, PARTITION] = partition
    _put(runs.rows, run, rows)
    _put(runs.aggregates, run, aggregates)
    runs.fields[run, NEXT] = runs.list_head[chain]
    runs.list_head[chain] = run
    return run


@njit(cache=True, nogil=True)
def _complete(plan, store, nodes, matches, counters, head, partition, n_rows, rows, aggregates, stack):
    """If the last component may be left now, record the match."""
    last = plan.step_type.shape[0] - 1
    if not _edge_holds(plan, store, nodes, head, last, PROCEED, rows, aggregates, stack):
        return
    # What depends on the last component as a whole is decided here; trailing negations wait for the watermark.
    for negation in range(plan.negations.shape[0]):
        waits = plan.negations[negation, AFTER] == last
        if (
            plan.negations[negation, DECIDED_AT] == last + 1
            and not waits
            and negation_fails(plan, store, negation, partition, n_rows, rows, aggregates, stack)
        ):
            return
    _emit(plan, store, matches, counters, head, partition, rows, aggregates, stack)


@njit(cache=True, nogil=True)
def _begin_next(plan, store, runs, nodes, matches, counters, run, row, partition, chain, rows, aggregates, stack):
    """Follow the edge from a run's component to the next one with `row`; True when its formula holds."""
    n_steps = plan.step_type.shape[0]
    here = runs.fields[run, STATE]
    there = here + 1
    if plan.step_type[there] != store.type_index[row]:
        return False
    _copy(runs.rows, run, rows)
    _copy(runs.aggregates, run, aggregates)
    head = runs.fields[run, HEAD]
    if not _edge_holds(plan, store, nodes, head, here, PROCEED, rows, aggregates, stack):
        return False
    rows[2 * there] = row
    rows[2 * there + 1] = row
    rows[plan.n_registers - 1] = row
    if not _edge_holds(plan, store, nodes, head, there, BEGIN, rows, aggregates, stack):
        return False
    _bind_first(plan, store, there, row, rows, aggregates)
    if not _negations_hold(plan, store, there, partition, row, rows, aggregates, stack):
        return True  # the edge is followed; the match that would come of it is filtered
    head = _new_node(nodes, counters, row, head, there)
    if there == n_steps - 1:
        _complete(plan, store, nodes, matches, counters, head, partition, row, rows, aggregates, stack)
    if there < n_steps - 1 or plan.kleene[there]:
        _new_run(runs, counters, there, head, partition, rows, aggregates, chain)
    return True


@njit(cache=True, nogil=True)
def _take(plan, store, runs, nodes, matches, counters, run, row, partition, rows, aggregates, stack):
    """Let a looping run take `row` as its next Kleene event; True when the take edge's formula holds."""
    n_steps = plan.step_type.shape[0]
    here = runs.fields[run, STATE]
    if not plan.kleene[here] or plan.step_type[here] != store.type_index[row]:
        return False
    _copy(runs.rows, run, rows)
    _copy(runs.aggregates, run, aggregates)
    rows[plan.n_registers - 1] = row
    if not _edge_holds(plan, store, nodes, runs.fields[run, HEAD], here, TAKE, rows, aggregates, stack):
        return False
    rows[2 * here + 1] = row
    update_aggregates(
        plan.slot_kind, plan.slot_component, plan.slot_column, plan.slot_base,
        here, store.columns, row, aggregates,
    )  # fmt: skip
    head = _new_node(nodes, counters, row, runs.fields[run, HEAD], here)
    runs.fields[run, HEAD] = head
    _put(runs.rows, run, rows)
    _put(runs.aggregates, run, aggregates)
    if here == n_steps - 1:
        _complete(plan, store, nodes, matches, counters, head, partition, row, rows, aggregates, stack)
    return True


@njit(cache=True, nogil=True)
def _start(plan, store, runs, nodes, matches, counters, row, partition, chain, rows, aggregates, stack):
    """Start a run with `row` if it can begin the pattern (one run per such event)."""
    if plan.step_type[0] != store.type_index[row]:
        return
    rows[:] = -1
    aggregates[:] = np.nan
    rows[0] = row
    rows[1] = row
    rows[plan.n_registers - 1] = row
    if not _edge_holds(plan, store, nodes, -1, 0, BEGIN, rows, aggregates, stack):
        return
    _bind_first(plan, store, 0, row, rows, aggregates)
    if plan.step_type.shape[0] > 1 and not _negations_hold(plan, store, 0, partition, row, rows, aggregates, stack):
        return
    head = _new_node(nodes, counters, row, -1, 0)
    is_last = plan.step_type.shape[0] == 1
    if is_last and _negations_hold(plan, store, 0, partition, row, rows, aggregates, stack):
        _complete(plan, store, nodes, matches, counters, head, partition, row, rows, aggregates, stack)
    if not is_last or plan.kleene[0]:
        _new_run(runs, counters, 0, head, partition, rows, aggregates, chain)


@njit(cache=True, nogil=True)
def _visit(plan, store, runs, nodes, matches, counters, row, partition, chain, rows, aggregates, stack):
    """Offer `row` to every run of one chain that existed before it, then let it start a run of its own."""
    t_ms = store.t_ms[row]
    before = -1
    run = runs.list_head[chain]
    # New runs are put in front of the chain, so they are not offered the event that made them.
    first_old = run
    while run >= 0:
        following = runs.fields[run, NEXT]
        here = runs.fields[run, STATE]
        remove = t_ms - store.t_ms[runs.rows[run, 0]] > plan.within_ms
        usable = not remove and not (plan.strict_ties and t_ms <= store.t_ms[runs.rows[run, 2 * here + 1]])
        if usable:
            begun = False
            if here + 1 < plan.step_type.shape[0]:
                begun = _begin_next(
                    plan, store, runs, nodes, matches, counters, run, row, partition, chain, rows, aggregates, stack
                )
            if plan.kleene[here]:
                _take(plan, store, runs, nodes, matches, counters, run, row, partition, rows, aggregates, stack)
            else:
                remove = begun
        if remove:
            if before >= 0:
                runs.fields[before, NEXT] = following
            elif runs.list_head[chain] == run:
                runs.list_head[chain] = following
            else:  # new runs stand in front of the first old one
                front = runs.list_head[chain]
                while runs.fields[front, NEXT] != run:
                    front = runs.fields[front, NEXT]
                runs.fields[front, NEXT] = following
            runs.free[counters[N_FREE]] = run
            counters[N_FREE] += 1
            counters[N_LIVE] -= 1
        else:
            before = run
        run = following
    _start(plan, store, runs, nodes, matches, counters, row, partition, chain, rows, aggregates, stack)
    return first_old


@njit(cache=True, nogil=True)
def _chain_length(runs, chain):
    n = 0
    run = runs.list_head[chain]
    while run >= 0:
        n += 1
        run = runs.fields[run, NEXT]
    return n


@njit(cache=True, nogil=True)
def advance(plan, store, runs, nodes, matches, counters, start, end):
    """Process rows start..end-1 of the store; returns the first row not processed (end when all are).

    It stops early when runs, nodes or matches might not hold what the next row needs: the caller empties or grows them
    and calls again. Nothing of an unprocessed row is done.
    """
    n_partitions = runs.known.shape[0]
    rows = np.empty(plan.n_registers, np.int64)
    aggregates = np.empty(plan.slot_kind.shape[0], np.float64)
    stack = np.empty(MAX_STACK, np.float64)
    for row in range(start, end):
        partition = store.partition[row]
        if partition >= 0:
            is_new = not runs.known[partition]
            n_new = _chain_length(runs, n_partitions) if is_new else 0
            n_offers = _chain_length(runs, partition) + n_new + 1
        else:
            n_new = 0
            n_offers = counters[N_LIVE] + n_partitions + 1
        if (
            counters[N_FREE] < n_offers + n_new
            or nodes.shape[0] - counters[N_NODES] < 2 * n_offers
            or matches.fields.shape[0] - counters[N_MATCHES] < 2 * n_offers
        ):
            return row
        if partition >= 0:
            if is_new:
                # A partition seen for the first time has all runs that broadcast events have started so far.
                runs.known[partition] = True
                run = runs.list_head[n_partitions]
                while run >= 0:
                    _copy(runs.rows, run, rows)
                    _copy(runs.aggregates, run, aggregates)
                    _new_run(
                        runs,
                        counters,
                        runs.fields[run, STATE],
                        runs.fields[run, HEAD],
                        partition,
                        rows,
                        aggregates,
                        partition,
                    )
                    run = runs.fields[run, NEXT]
            first_chain, last_chain = partition, partition + 1
        else:
            # The last chain has the runs of no partition yet; a keyed event is still to come, so none completes.
            first_chain, last_chain = 0, n_partitions + 1
        for chain in range(first_chain, last_chain):
            if chain == n_partitions or runs.known[chain]:
                owner = chain if chain < n_partitions else -1
                _visit(plan, store, runs, nodes, matches, counters, row, owner, chain, rows, aggregates, stack)
    return end
