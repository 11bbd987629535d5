"""The run-based NFAb kernel over precise events: both contiguities and skip till next match (SASE+ sections 3 to 5).

Runs live in flat arrays and are chained per partition. What a run has selected is a chain of nodes that share their
prefixes: a run that proceeds and the looping self that it leaves behind point to the same nodes (the sharing that
SASE+ section 5.2 gets from versioned buffers, without Dewey numbers).

Arrays are passed one by one, not as tuples of arrays: each access through a tuple costs the compiled code a count of
references, which would be most of the work. What the arrays are stands in `engine.kernels.nfa_arrays`.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from engine.kernels.nfa_arrays import (
    AFTER,
    BEGIN,
    COMPONENT,
    DECIDED_AT,
    EDGES,
    FIRST_ABSENT,
    FIRST_REGISTER,
    HAVING,
    HEAD,
    IS_KLEENE,
    LAST_ABSENT,
    N_FREE,
    N_LIVE,
    N_MATCHES,
    N_NODES,
    N_REGISTERS,
    NEXT,
    PARENT,
    PARTITION,
    PARTITION_CONTIGUITY,
    PROCEED,
    ROW,
    SLOT_BASE,
    SLOT_COLUMN,
    SLOT_COMPONENT,
    SLOT_KIND,
    STATE,
    STRATEGY,
    STRICT_CONTIGUITY,
    STRICT_TIES,
    TAKE,
    WITHIN,
)
from engine.kernels.opcodes import MAX_STACK, TRUE
from engine.kernels.predicates import evaluate, reset_aggregates, update_aggregates


@njit(cache=True, nogil=True)
def _programs_hold(code, bounds, constants, columns, first, last, rows, aggregates, stack):
    for k in range(first, last):
        if evaluate(code, bounds[k], bounds[k + 1], constants, columns, rows, aggregates, stack) != TRUE:
            return False
    return True


@njit(cache=True, nogil=True)
def _loops_hold(
    code, bounds, constants, columns, loops, nodes, head, first, last, current, rows, aggregates, stack
):  # fmt: skip
    """The programs first..last-1 hold for CURRENT = each selected event of the component that they range over."""
    saved_current = rows[current]
    holds = True
    for program in range(first, last):
        over = loops[program, 0]
        register = 2 * over + 1
        saved_last = rows[register]
        node = head
        while node >= 0 and holds:
            if nodes[node, COMPONENT] == over:
                parent = nodes[node, PARENT]
                has_previous = parent >= 0 and nodes[parent, COMPONENT] == over
                if has_previous or loops[program, 1] == 0:
                    rows[current] = nodes[node, ROW]
                    rows[register] = nodes[parent, ROW] if has_previous else -1
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


@njit(cache=True, nogil=True)
def negation_fails(
    code, bounds, constants, columns, negations, scalars, t_ms, partition_of, negated, n_steps,
    negation, partition, n_rows, rows, aggregates, stack,
):  # fmt: skip
    """True when an event of the negated component stands where it must not.

    The place is strictly between the neighbours; for a leading negation [last - within, first), for a trailing one
    (last, first + within] (DESIGN 3). Rows stand in stream order, so a place is a range of rows.
    """
    after = negations[negation, AFTER]
    current = scalars[N_REGISTERS] - 1
    t_first = t_ms[rows[0]]
    if after < 0:
        start, end = 0, rows[0]
    elif after == n_steps - 1:
        start, end = rows[2 * after + 1] + 1, n_rows
    else:
        start, end = rows[2 * after + 1] + 1, rows[2 * (after + 1)]
    saved = rows[current]
    found = False
    for row in range(start, end):
        if not negated[negation, row] or (partition_of[row] != partition and partition_of[row] >= 0):
            continue
        t = t_ms[row]
        if after < 0 and t < t_ms[rows[2 * n_steps - 1]] - scalars[WITHIN]:
            continue
        if after == n_steps - 1 and t > t_first + scalars[WITHIN]:
            break
        if scalars[STRICT_TIES]:
            if after >= 0 and t <= t_ms[rows[2 * after + 1]]:
                continue
            if after < n_steps - 1 and t >= t_ms[rows[2 * (after + 1)]]:
                continue
        rows[current] = row
        if _programs_hold(
            code, bounds, constants, columns, negations[negation, FIRST_ABSENT], negations[negation, LAST_ABSENT],
            rows, aggregates, stack,
        ):  # fmt: skip
            found = True
            break
    rows[current] = saved
    return found


@njit(cache=True, nogil=True)
def _chain_room(chain_length, partition, is_new, n_chains, n_live):
    """How many runs one event may be offered to."""
    if partition < 0:
        return n_live + n_chains + 1
    return chain_length[partition] + (chain_length[n_chains - 1] if is_new else 0) + 1


@njit(cache=True, nogil=True)
def advance(
    code, bounds, constants, slots, steps, loops, negations, returns, scalars,
    t_ms, partition_of, position, previous, begin, take, negated, columns,
    runs, run_aggregates, free, list_head, chain_length, known, last_seen,
    nodes, match_fields, match_rows, match_aggregates, match_values, counters, start, end,
):  # fmt: skip
    """Process rows start..end-1 of the store; returns the first row not processed (end when all are).

    It stops early when runs, nodes or matches might not hold what the next row needs: the caller empties or grows them
    and calls again. Nothing of an unprocessed row is done.
    """
    n_steps = steps.shape[0]
    n_registers = scalars[N_REGISTERS]
    current = n_registers - 1
    n_chains = list_head.shape[0]
    unbound = n_chains - 1
    n_slots = run_aggregates.shape[1]
    n_negations = negations.shape[0]
    within, strict_ties, strategy = scalars[WITHIN], scalars[STRICT_TIES], scalars[STRATEGY]
    contiguous = strategy in (STRICT_CONTIGUITY, PARTITION_CONTIGUITY)
    kinds, owners, bases = slots[:, SLOT_KIND], slots[:, SLOT_COMPONENT], slots[:, SLOT_BASE]
    slot_columns = slots[:, SLOT_COLUMN]
    rows = np.empty(n_registers, np.int64)
    aggregates = np.empty(n_slots, np.float64)
    stack = np.empty(MAX_STACK, np.float64)
    for row in range(start, end):
        partition = partition_of[row]
        is_new = partition >= 0 and not known[partition]
        n_offers = _chain_room(chain_length, partition, is_new, n_chains, counters[N_LIVE])
        if (
            counters[N_FREE] < 2 * n_offers
            or nodes.shape[0] - counters[N_NODES] < 2 * n_offers
            or match_fields.shape[0] - counters[N_MATCHES] < 2 * n_offers
        ):
            return row
        if is_new:
            # A partition seen for the first time has all runs that broadcast events have started so far.
            known[partition] = True
            last_seen[partition] = -1
            run = list_head[unbound]
            while run >= 0:
                counters[N_FREE] -= 1
                counters[N_LIVE] += 1
                copy = free[counters[N_FREE]]
                for k in range(FIRST_REGISTER + n_registers):
                    runs[copy, k] = runs[run, k]
                for k in range(n_slots):
                    run_aggregates[copy, k] = run_aggregates[run, k]
                runs[copy, PARTITION] = partition
                runs[copy, NEXT] = list_head[partition]
                list_head[partition] = copy
                chain_length[partition] += 1
                run = runs[run, NEXT]
        # The last chain has the runs of no partition yet; a keyed event is still to come, so none completes.
        first_chain = partition if partition >= 0 else 0
        last_chain = partition + 1 if partition >= 0 else n_chains
        t = t_ms[row]
        for chain in range(first_chain, last_chain):
            if chain != unbound and not known[chain]:
                continue
            owner = chain if chain != unbound else -1
            before = -1
            if strategy == PARTITION_CONTIGUITY:
                before = previous[row]
                if partition < 0 and chain != unbound:
                    before = max(before, last_seen[chain])
            kept_head, kept_tail, n_kept = -1, -1, 0
            run = list_head[chain]
            list_head[chain] = -1  # new runs are put here: they are not offered the event that made them
            while run >= 0:
                following = runs[run, NEXT]
                here = runs[run, STATE]
                newest = runs[run, FIRST_REGISTER + 2 * here + 1]
                keep = t - t_ms[runs[run, FIRST_REGISTER]] <= within
                if keep and contiguous:
                    adjacent = position[row] == position[newest] + 1
                    if strategy == PARTITION_CONTIGUITY:
                        adjacent = before == position[newest]
                    keep = adjacent
                if keep and not (strict_ties and t <= t_ms[newest]):
                    loops_here = steps[here, IS_KLEENE] != 0
                    there = here + 1
                    begun = False
                    # ---- follow the edge to the next component
                    if there < n_steps and begin[there, row]:
                        for k in range(n_registers):
                            rows[k] = runs[run, FIRST_REGISTER + k]
                        for k in range(n_slots):
                            aggregates[k] = run_aggregates[run, k]
                        head = runs[run, HEAD]
                        e = EDGES + 3 * PROCEED
                        begun = (
                            _programs_hold(code, bounds, constants, columns, steps[here, e], steps[here, e + 1],
                                           rows, aggregates, stack)
                            and (steps[here, e + 1] == steps[here, e + 2] or _loops_hold(
                                code, bounds, constants, columns, loops, nodes, head,
                                steps[here, e + 1], steps[here, e + 2], current, rows, aggregates, stack))
                        )  # fmt: skip
                        if begun:
                            rows[2 * there] = row
                            rows[2 * there + 1] = row
                            rows[current] = row
                            e = EDGES + 3 * BEGIN
                            begun = (
                                _programs_hold(code, bounds, constants, columns, steps[there, e], steps[there, e + 1],
                                               rows, aggregates, stack)
                                and (steps[there, e + 1] == steps[there, e + 2] or _loops_hold(
                                    code, bounds, constants, columns, loops, nodes, head,
                                    steps[there, e + 1], steps[there, e + 2], current, rows, aggregates, stack))
                            )  # fmt: skip
                        if begun:
                            reset_aggregates(kinds, owners, there, aggregates)
                            update_aggregates(kinds, owners, slot_columns, bases, there, columns, row, aggregates)
                            filtered = False  # the edge is followed; a match that would come of it may be filtered
                            for negation in range(n_negations):
                                if negations[negation, DECIDED_AT] == there and negation_fails(
                                    code, bounds, constants, columns, negations, scalars, t_ms, partition_of, negated,
                                    n_steps, negation, owner, row, rows, aggregates, stack,
                                ):  # fmt: skip
                                    filtered = True
                                    break
                            if not filtered:
                                node = counters[N_NODES]
                                counters[N_NODES] += 1
                                nodes[node, ROW] = row
                                nodes[node, PARENT] = head
                                nodes[node, COMPONENT] = there
                                if there == n_steps - 1:
                                    _complete(
                                        code, bounds, constants, columns, steps, loops, negations, returns, scalars,
                                        t_ms, partition_of, negated, nodes, match_fields, match_rows, match_aggregates,
                                        match_values, counters, node, owner, row, rows, aggregates, stack,
                                    )  # fmt: skip
                                if there < n_steps - 1 or steps[there, IS_KLEENE] != 0:
                                    _new_run(
                                        runs, run_aggregates, free, list_head, chain_length, counters,
                                        there, node, owner, chain, rows, aggregates,
                                    )  # fmt: skip
                    # ---- take
                    taken = False
                    if loops_here and take[here, row]:
                        for k in range(n_registers):
                            rows[k] = runs[run, FIRST_REGISTER + k]
                        for k in range(n_slots):
                            aggregates[k] = run_aggregates[run, k]
                        head = runs[run, HEAD]
                        rows[current] = row
                        e = EDGES + 3 * TAKE
                        taken = (
                            _programs_hold(code, bounds, constants, columns, steps[here, e], steps[here, e + 1],
                                           rows, aggregates, stack)
                            and (steps[here, e + 1] == steps[here, e + 2] or _loops_hold(
                                code, bounds, constants, columns, loops, nodes, head,
                                steps[here, e + 1], steps[here, e + 2], current, rows, aggregates, stack))
                        )  # fmt: skip
                        if taken:
                            rows[2 * here + 1] = row
                            update_aggregates(kinds, owners, slot_columns, bases, here, columns, row, aggregates)
                            node = counters[N_NODES]
                            counters[N_NODES] += 1
                            nodes[node, ROW] = row
                            nodes[node, PARENT] = head
                            nodes[node, COMPONENT] = here
                            runs[run, HEAD] = node
                            for k in range(n_registers):
                                runs[run, FIRST_REGISTER + k] = rows[k]
                            for k in range(n_slots):
                                run_aggregates[run, k] = aggregates[k]
                            if here == n_steps - 1:
                                _complete(
                                    code, bounds, constants, columns, steps, loops, negations, returns, scalars,
                                    t_ms, partition_of, negated, nodes, match_fields, match_rows, match_aggregates,
                                    match_values, counters, node, owner, row, rows, aggregates, stack,
                                )  # fmt: skip
                    keep = taken if contiguous else (loops_here or not begun)
                elif contiguous:
                    keep = False
                # ---- relink or free
                if keep:
                    if kept_tail >= 0:
                        runs[kept_tail, NEXT] = run
                    else:
                        kept_head = run
                    kept_tail = run
                    n_kept += 1
                else:
                    free[counters[N_FREE]] = run
                    counters[N_FREE] += 1
                    counters[N_LIVE] -= 1
                    chain_length[chain] -= 1
                run = following
            # ---- one run for every event that can begin the pattern
            if begin[0, row]:
                rows[:] = -1
                aggregates[:] = np.nan
                rows[0] = row
                rows[1] = row
                rows[current] = row
                e = EDGES + 3 * BEGIN
                starts = _programs_hold(
                    code, bounds, constants, columns, steps[0, e], steps[0, e + 1], rows, aggregates, stack
                )
                if starts:
                    reset_aggregates(kinds, owners, 0, aggregates)
                    update_aggregates(kinds, owners, slot_columns, bases, 0, columns, row, aggregates)
                    node = counters[N_NODES]
                    counters[N_NODES] += 1
                    nodes[node, ROW] = row
                    nodes[node, PARENT] = -1
                    nodes[node, COMPONENT] = 0
                    if n_steps == 1:
                        _complete(
                            code, bounds, constants, columns, steps, loops, negations, returns, scalars,
                            t_ms, partition_of, negated, nodes, match_fields, match_rows, match_aggregates,
                            match_values, counters, node, owner, row, rows, aggregates, stack,
                        )  # fmt: skip
                    if n_steps > 1 or steps[0, IS_KLEENE] != 0:
                        _new_run(
                            runs, run_aggregates, free, list_head, chain_length, counters,
                            0, node, owner, chain, rows, aggregates,
                        )  # fmt: skip
            # ---- the new runs stand before the old ones
            if kept_tail >= 0:
                runs[kept_tail, NEXT] = -1
                newest_run = list_head[chain]
                if newest_run < 0:
                    list_head[chain] = kept_head
                else:
                    while runs[newest_run, NEXT] >= 0:
                        newest_run = runs[newest_run, NEXT]
                    runs[newest_run, NEXT] = kept_head
        if contiguous and partition >= 0:
            last_seen[partition] = position[row]
    return end


@njit(cache=True, nogil=True)
def _new_run(
    runs, run_aggregates, free, list_head, chain_length, counters, state, head, partition, chain, rows, aggregates
):  # fmt: skip
    counters[N_FREE] -= 1
    counters[N_LIVE] += 1
    run = free[counters[N_FREE]]
    runs[run, STATE] = state
    runs[run, HEAD] = head
    runs[run, PARTITION] = partition
    for k in range(rows.shape[0]):
        runs[run, FIRST_REGISTER + k] = rows[k]
    for k in range(aggregates.shape[0]):
        run_aggregates[run, k] = aggregates[k]
    runs[run, NEXT] = list_head[chain]
    list_head[chain] = run
    chain_length[chain] += 1


@njit(cache=True, nogil=True)
def _complete(
    code, bounds, constants, columns, steps, loops, negations, returns, scalars,
    t_ms, partition_of, negated, nodes, match_fields, match_rows, match_aggregates, match_values, counters,
    head, partition, n_rows, rows, aggregates, stack,
):  # fmt: skip
    """If the last component may be left now, and HAVING agrees, record the match with its RETURN values."""
    n_steps = steps.shape[0]
    last = n_steps - 1
    current = scalars[N_REGISTERS] - 1
    e = EDGES + 3 * PROCEED
    if not _programs_hold(
        code, bounds, constants, columns, steps[last, e], steps[last, e + 1], rows, aggregates, stack
    ) or not _loops_hold(
        code, bounds, constants, columns, loops, nodes, head, steps[last, e + 1], steps[last, e + 2], current,
        rows, aggregates, stack,
    ):  # fmt: skip
        return
    # What depends on the last component as a whole is decided here; trailing negations wait for the watermark.
    for negation in range(negations.shape[0]):
        if (
            negations[negation, DECIDED_AT] == last + 1
            and negations[negation, AFTER] != last
            and negation_fails(
                code, bounds, constants, columns, negations, scalars, t_ms, partition_of, negated,
                n_steps, negation, partition, n_rows, rows, aggregates, stack,
            )
        ):  # fmt: skip
            return
    having = scalars[HAVING]
    if having >= 0 and (
        evaluate(code, bounds[having], bounds[having + 1], constants, columns, rows, aggregates, stack) != TRUE
    ):
        return
    at = counters[N_MATCHES]
    counters[N_MATCHES] += 1
    match_fields[at, HEAD] = head
    match_fields[at, PARTITION] = partition
    for k in range(rows.shape[0]):
        match_rows[at, k] = rows[k]
    for k in range(aggregates.shape[0]):
        match_aggregates[at, k] = aggregates[k]
    for k in range(returns.shape[0]):
        program = returns[k]
        match_values[at, k] = evaluate(
            code, bounds[program], bounds[program + 1], constants, columns, rows, aggregates, stack
        )


__all__ = ["advance", "negation_fails"]
