"""The run-based NFAb kernel over precise events: both contiguities and skip till next match (SASE+ sections 3 to 5).

Runs live in flat arrays and are chained per partition. What a run has selected is a chain of nodes that share their
prefixes: a run that proceeds and the looping self that it leaves behind point to the same nodes (the sharing that
SASE+ section 5.2 gets from versioned buffers, without Dewey numbers). Runs that have become equivalent are merged
(section 5.3, `engine.kernels.runs.merging`). An event is stored only when a run selects it, or when it is negated.

Most events do no more than to extend the only run of their partition: an inner loop takes them, and leaves everything
else to the loop around it.

Arrays are passed one by one, not as tuples of arrays: each access through a tuple costs the compiled code a count of
references, which would be most of the work. `max(., 0)` around a number that is never negative lets it compile an index
without the question whether it counts from the end. What the arrays are stands in `engine.kernels.runs.arrays`.
"""

from __future__ import annotations

import numpy as np

from engine.kernels.columns.partitions import BROADCAST, NOWHERE
from engine.kernels.compile.ways import kernel, leaf
from engine.kernels.programs.opcodes import (
    AGG_COUNT,
    AGG_COUNT_EVENTS,
    AGG_LAG,
    AGG_M2,
    AGG_MEAN,
    AGG_MIN,
    AGG_SUM,
    MAX_STACK,
    TRUE,
)
from engine.kernels.programs.predicates import added, evaluate, is_of_nothing, reset_aggregates, update_aggregates
from engine.kernels.programs.strategies import PARTITION_CONTIGUITY, SKIP_TILL_NEXT_MATCH
from engine.kernels.runs.arrays import (
    AFTER,
    AT_POSITION,
    BALANCE,
    BEGIN,
    BRANCH,
    CAPACITY,
    CHAIN_HEAD,
    CHAIN_LENGTH,
    COMPONENT,
    DECIDED_AT,
    EDGES,
    FIRST_REGISTER,
    FIRST_ROW,
    HAS_BROADCAST,
    HAVING,
    HEAD,
    IS_KLEENE,
    IS_KNOWN,
    LAST_POSITION,
    LAST_ROW,
    LAST_T,
    MERGES,
    N_BEGUN,
    N_CUT,
    N_FREE,
    N_LIVE,
    N_MATCHES,
    N_NODES,
    N_OFFERED,
    N_REGISTERS,
    N_STORED,
    NEXT,
    PARENT,
    PARTITION,
    PROCEED,
    RATE,
    ROW,
    SLOT_BASE,
    SLOT_COLUMN,
    SLOT_COMPONENT,
    SLOT_KIND,
    STATE,
    STRATEGY,
    STRICT_TIES,
    TAKE,
    UNION,
    WITHIN,
)
from engine.kernels.runs.edges import append_node, loops_hold, negation_fails
from engine.kernels.runs.merging import MERGED_AWAY, merge_equivalent

WORK_PER_NODE = 12
"""What it costs to select an event, in offers of an event to a run: it takes memory."""
RUNS_KEPT = 64
"""So many runs of a partition go on, the oldest, when the account is empty."""

_END = -1
_START = -2  # stands after the runs of a chain for the one that the event at hand may begin

# What is asked of an edge, one after the other; the first three are edges.
_BEGIN = BEGIN
_TAKE = TAKE
_LEAVE = PROCEED
_COMPLETE = 3  # leave the last component
_DONE = 4


@kernel
def advance(
    code, bounds, constants, slots, steps, loops, negations, returns, live, live_states, scalars,
    batch_t, batch_rows, batch_partition, batch_previous, batch_roles, batch_columns,
    t_ms, partition_of, position, source, columns, negated, negated_before,
    chains, seen, newest_negated,
    runs, run_aggregates, free, changed, table,
    nodes, match_fields, match_rows, match_aggregates, match_values, counters, first_position, start,
):  # fmt: skip
    """Process the events batch_rows[start], ...; returns the first place not processed (their number when all are).

    It stops early when the store, runs, nodes or matches might not hold what the next event needs: the caller empties
    or grows them and calls again. Nothing of an unprocessed event is done.
    """
    n_steps = steps.shape[0]
    n_registers = scalars[N_REGISTERS]
    current = n_registers - 1
    unbound = chains.shape[0] - 1
    n_slots = run_aggregates.shape[1]
    n_negations = negations.shape[0]
    within, strict_ties, strategy = scalars[WITHIN], scalars[STRICT_TIES], scalars[STRATEGY]
    has_broadcast, merges, having = scalars[HAS_BROADCAST] != 0, scalars[MERGES] != 0, scalars[HAVING]
    kinds, owners, bases = slots[:, SLOT_KIND], slots[:, SLOT_COMPONENT], slots[:, SLOT_BASE]
    slot_columns = slots[:, SLOT_COLUMN]
    rows = np.empty(n_registers, np.int64)
    aggregates = np.empty(n_slots, np.float64)
    stack = np.empty(MAX_STACK, np.float64)
    number = np.empty(1, np.float64)
    bits = number.view(np.int64)
    follows = strategy == SKIP_TILL_NEXT_MATCH and not has_broadcast and n_negations == 0
    only_takes = np.empty(n_steps, np.bool_)
    for k in range(n_steps):
        only_takes[k] = _only_takes(steps, k)
    left_from, left_to = steps[n_steps - 1, EDGES + 3 * PROCEED], steps[n_steps - 1, EDGES + 3 * PROCEED + 1]
    n_events = batch_rows.shape[0]
    place = max(start, 0)
    while place < n_events:
        # ---- events that extend the only run of their partition, or that it ignores
        while follows and place < n_events:
            partition = batch_partition[place]
            run = chains[partition, CHAIN_HEAD] if partition >= 0 else _END
            if batch_roles[0, place] and partition >= 0:
                break
            if run < 0:
                place += 1
                continue
            here = max(runs[run, STATE], 0)
            if runs[run, NEXT] != _END or (here + 1 < n_steps and batch_roles[here + 1, place]):
                break
            at = max(batch_rows[place], 0)
            t = batch_t[at]
            if t - t_ms[max(runs[run, FIRST_REGISTER], 0)] > within:
                break
            newest = max(runs[run, FIRST_REGISTER + 2 * here + 1], 0)
            if not batch_roles[n_steps + here, place] or (strict_ties != 0 and t <= t_ms[newest]):
                counters[N_OFFERED] += 1
                place += 1
                continue
            row, node = max(counters[N_STORED], 0), max(counters[N_NODES], 0)
            if (
                not only_takes[here]
                or row >= t_ms.shape[0]
                or node >= nodes.shape[0]
                or counters[N_MATCHES] >= match_fields.shape[0]
            ):
                break
            counters[N_OFFERED] += 1
            t_ms[row] = t
            partition_of[row] = partition
            position[row] = first_position + at
            source[row] = at
            for k in range(columns.shape[0]):
                columns[k, row] = batch_columns[k, at]
            counters[N_STORED] = row + 1
            head = max(runs[run, HEAD], 0)
            nodes[node, ROW] = row
            nodes[node, PARENT] = head
            nodes[node, COMPONENT] = here
            nodes[node, BRANCH] = head if nodes[head, COMPONENT] == UNION else nodes[head, BRANCH]
            counters[N_NODES] = node + 1
            runs[run, HEAD] = node
            runs[run, FIRST_REGISTER + 2 * here + 1] = row
            for slot in range(n_slots - 1, -1, -1):  # as `update_aggregates`, where they stand
                if owners[slot] != here:
                    continue
                kind = kinds[slot]
                old = run_aggregates[run, slot]
                if kind == AGG_COUNT_EVENTS:
                    run_aggregates[run, slot] = old + 1.0
                elif kind == AGG_LAG:
                    run_aggregates[run, slot] = run_aggregates[run, bases[slot]]
                elif kind != AGG_M2:
                    value = columns[slot_columns[slot], row]
                    if value != value:  # noqa: PLR0124  # NaN differs from itself
                        continue
                    if kind == AGG_COUNT:
                        run_aggregates[run, slot] = old + 1.0
                    elif kind == AGG_MEAN:
                        if is_of_nothing(old):
                            run_aggregates[run, slot] = value
                            run_aggregates[run, slot + 1] = value - value
                        else:
                            mean = added(old, (value - old) / (run_aggregates[run, slot - 1] + 1.0))
                            run_aggregates[run, slot] = mean
                            run_aggregates[run, slot + 1] += (value - old) * (value - mean)
                    elif kind == AGG_SUM:
                        run_aggregates[run, slot] = added(old, value)
                    elif old != old:  # noqa: PLR0124
                        run_aggregates[run, slot] = value
                    elif kind == AGG_MIN:
                        run_aggregates[run, slot] = value if value < old else old
                    else:
                        run_aggregates[run, slot] = value if value > old else old
            if here == n_steps - 1:
                for k in range(n_registers):
                    rows[k] = runs[run, FIRST_REGISTER + k]
                rows[current] = row
                for k in range(n_slots):
                    aggregates[k] = run_aggregates[run, k]
                holds = True
                for k in range(left_from, left_to):
                    if evaluate(code, bounds[k], bounds[k + 1], constants, columns, rows, aggregates, stack) != TRUE:
                        holds = False
                        break
                if holds and having >= 0:
                    value = evaluate(
                        code, bounds[having], bounds[having + 1], constants, columns, rows, aggregates, stack
                    )
                    holds = value == TRUE
                if holds:  # as `_complete`: without negations no match waits
                    match = max(counters[N_MATCHES], 0)
                    counters[N_MATCHES] = match + 1
                    match_fields[match, HEAD] = node
                    match_fields[match, PARTITION] = partition
                    match_fields[match, FIRST_ROW] = rows[0]
                    match_fields[match, LAST_ROW] = row
                    for k in range(returns.shape[0]):
                        program = max(returns[k], 0)
                        match_values[match, k] = evaluate(
                            code, bounds[program], bounds[program + 1], constants, columns, rows, aggregates, stack
                        )
            place += 1
        if place == n_events:
            break
        # ---- any other event
        partition = batch_partition[place]
        if partition == NOWHERE:
            place += 1
            continue
        at = max(batch_rows[place], 0)
        begins = batch_roles[0, place]
        negates = False
        for negation in range(n_negations):
            negates = negates or batch_roles[2 * n_steps + negation, place]
        t = batch_t[at]
        is_new = has_broadcast and partition >= 0 and seen[partition, IS_KNOWN] == 0
        if partition == BROADCAST:
            n_offers = counters[N_LIVE] + unbound + 1
        else:
            n_offers = chains[partition, CHAIN_LENGTH] + (chains[unbound, CHAIN_LENGTH] if is_new else 0)
            if n_offers == 0 and not begins and not negates:
                if has_broadcast:
                    seen[partition, LAST_POSITION] = first_position + at
                    seen[partition, LAST_T] = t
                place += 1
                continue
        n_offers += 1
        row = max(counters[N_STORED], 0)
        if (
            row >= t_ms.shape[0]
            or counters[N_FREE] < 2 * n_offers
            or nodes.shape[0] - counters[N_NODES] < 4 * n_offers
            or match_fields.shape[0] - counters[N_MATCHES] < 2 * n_offers
        ):
            return place
        # ---- what the event may cost: runs that nobody has paid for are given up
        due = first_position + at + 1 - counters[AT_POSITION]
        counters[BALANCE] = min(scalars[CAPACITY], counters[BALANCE] + scalars[RATE] * max(due, 0))
        counters[AT_POSITION] += max(due, 0)
        if n_offers > max(counters[BALANCE], RUNS_KEPT):
            counters[N_CUT] += 1
            kept = max(counters[BALANCE], RUNS_KEPT)
            for chain in range(max(partition, 0), partition + 1 if partition >= 0 else unbound + 1):
                kept -= _keep_oldest(runs, free, chains, counters, chain, max(kept, 0))
        counters[BALANCE] -= n_offers
        # ---- the event stands at the end of the store, to be overwritten if nothing selects it
        t_ms[row] = t
        partition_of[row] = partition
        position[row] = first_position + at
        source[row] = at
        for k in range(columns.shape[0]):
            columns[k, row] = batch_columns[k, at]
        n_nodes = counters[N_NODES]
        if is_new:
            _know(runs, run_aggregates, free, chains, seen, counters, partition, unbound)
        # The last chain has the runs of no partition yet; a keyed event is still to come, so none completes.
        first_chain = partition if partition >= 0 else 0
        last_chain = partition + 1 if partition >= 0 else unbound + 1
        for chain in range(first_chain, last_chain):
            if has_broadcast and chain != unbound and seen[chain, IS_KNOWN] == 0:
                continue
            owner = chain if chain != unbound else BROADCAST
            before = first_position + at - 1
            if strategy == PARTITION_CONTIGUITY:
                before = batch_previous[at]
                if partition < 0 and chain != unbound:
                    before = max(before, seen[chain, LAST_POSITION])
            tail, fresh_head, fresh_tail, n_changed = _END, _END, _END, 0
            run = chains[chain, CHAIN_HEAD]
            if run == _END and begins:
                run = _START
            while run != _END:
                here, head, keep, may_move = -1, -1, False, True
                following = _END
                if run >= 0:
                    counters[N_OFFERED] += 1
                    following = runs[run, NEXT]
                    here = runs[run, STATE]
                    head = runs[run, HEAD]
                    newest = runs[run, FIRST_REGISTER + 2 * here + 1]
                    keep = t - t_ms[runs[run, FIRST_REGISTER]] <= within
                    if keep and strategy != SKIP_TILL_NEXT_MATCH:
                        keep = before == position[newest]
                    may_move = keep and not (strict_ties != 0 and t <= t_ms[newest])
                there = max(here + 1, 0)
                loops_here = here >= 0 and steps[here, IS_KLEENE] != 0
                tries_begin = may_move and there < n_steps and batch_roles[there, place]
                tries_take = may_move and loops_here and batch_roles[n_steps + here, place]
                begun, taken = False, False
                if tries_begin or tries_take:
                    if run >= 0:
                        for k in range(n_registers):
                            rows[k] = runs[run, FIRST_REGISTER + k]
                        for k in range(n_slots):
                            aggregates[k] = run_aggregates[run, k]
                    else:
                        rows[:] = -1
                        aggregates[:] = np.nan
                # ---- follow the edges: leave the component and begin the next one with the event; take it
                phase = _DONE
                if tries_begin:
                    phase = _LEAVE if here >= 0 else _BEGIN
                elif tries_take:
                    phase = _TAKE
                node = head
                while phase != _DONE:
                    then = _TAKE if tries_take and phase != _TAKE and not taken else _DONE
                    of = here
                    if phase == _BEGIN:
                        of = there
                        rows[2 * there] = row
                        rows[2 * there + 1] = row
                    elif phase == _COMPLETE:
                        of = n_steps - 1
                    rows[current] = row
                    e = EDGES + 3 * (PROCEED if phase == _COMPLETE else phase)
                    holds = True
                    for k in range(steps[of, e], steps[of, e + 1]):
                        if (
                            evaluate(code, bounds[k], bounds[k + 1], constants, columns, rows, aggregates, stack)
                            != TRUE
                        ):
                            holds = False
                            break
                    if holds and steps[of, e + 1] != steps[of, e + 2]:
                        holds = loops_hold(
                            code, bounds, constants, columns, loops, nodes, node if phase == _COMPLETE else head,
                            steps[of, e + 1], steps[of, e + 2], rows, aggregates, stack,
                        )  # fmt: skip
                    if phase == _LEAVE:
                        phase = _BEGIN if holds else then
                    elif phase == _BEGIN:
                        phase = then
                        begun = holds
                        filtered = False  # the edge is followed; a match that would come of it may be filtered
                        if begun:
                            if n_slots > 0:
                                reset_aggregates(kinds, owners, there, aggregates)
                                update_aggregates(kinds, owners, slot_columns, bases, there, columns, row, aggregates)
                            for negation in range(n_negations):
                                if negations[negation, DECIDED_AT] == there and negation_fails(
                                    code, bounds, constants, columns, negations, scalars, t_ms, negated_before,
                                    newest_negated, n_steps, negation, owner, row, rows, aggregates, stack, counters,
                                ):  # fmt: skip
                                    filtered = True
                                    break
                        if begun and not filtered:
                            node = append_node(nodes, counters, row, head, there)
                            if there == n_steps - 1:
                                phase = _COMPLETE
                            if there < n_steps - 1 or steps[there, IS_KLEENE] != 0:
                                fresh = free[counters[N_FREE] - 1]
                                _fill_run(runs, run_aggregates, fresh, there, node, owner, rows, aggregates)
                                counters[N_FREE] -= 1
                                counters[N_LIVE] += 1
                                counters[N_BEGUN] += 1
                                chains[chain, CHAIN_LENGTH] += 1
                                if fresh_tail >= 0:
                                    runs[fresh_tail, NEXT] = fresh
                                else:
                                    fresh_head = fresh
                                fresh_tail = fresh
                                changed[n_changed] = fresh
                                n_changed += 1
                    elif phase == _TAKE:
                        phase = _DONE
                        taken = holds
                        if taken:
                            rows[2 * here + 1] = row
                            if n_slots > 0:
                                update_aggregates(kinds, owners, slot_columns, bases, here, columns, row, aggregates)
                                for k in range(n_slots):
                                    run_aggregates[run, k] = aggregates[k]
                            node = append_node(nodes, counters, row, head, here)
                            runs[run, HEAD] = node
                            runs[run, FIRST_REGISTER + 2 * here + 1] = row
                            changed[n_changed] = run
                            n_changed += 1
                            if here == n_steps - 1:
                                phase = _COMPLETE
                    else:
                        phase = then
                        if holds:
                            _complete(
                                code, bounds, constants, columns, negations, returns, scalars, t_ms, negated_before,
                                newest_negated, match_fields, match_rows, match_aggregates, match_values, counters,
                                n_steps, node, owner, row, rows, aggregates, stack,
                            )  # fmt: skip
                # ---- ignore, or give up
                if run >= 0:
                    if may_move:
                        keep = taken if strategy != SKIP_TILL_NEXT_MATCH else (loops_here or not begun)
                    elif strategy != SKIP_TILL_NEXT_MATCH:
                        keep = False
                    if keep:
                        tail = run
                    else:
                        _unlink(runs, free, chains, counters, chain, tail, run)
                if following == _END and run >= 0 and begins:
                    following = _START
                run = following
            # ---- runs that the event has begun are offered the next one
            if fresh_head >= 0:
                if tail >= 0:
                    runs[tail, NEXT] = fresh_head
                else:
                    chains[chain, CHAIN_HEAD] = fresh_head
            if (
                merges
                and n_changed > 1
                and merge_equivalent(
                    runs, run_aggregates, columns, nodes, live, live_states, changed, n_changed, table, counters,
                    number, bits,
                )
            ):  # fmt: skip
                _unlink_merged(runs, free, chains, counters, chain)
        counters[BALANCE] -= WORK_PER_NODE * (counters[N_NODES] - n_nodes)
        if negates or counters[N_NODES] > n_nodes:
            for negation in range(n_negations):
                negated[negation, row] = batch_roles[2 * n_steps + negation, place]
                if negated[negation, row]:
                    own_chain = partition if partition >= 0 else unbound
                    negated_before[negation, row] = newest_negated[negation, own_chain]
                    newest_negated[negation, own_chain] = row
            counters[N_STORED] += 1
        if has_broadcast and partition >= 0:
            seen[partition, LAST_POSITION] = first_position + at
            seen[partition, LAST_T] = t
        place += 1
    return batch_rows.shape[0]


@leaf
def _only_takes(steps, step):
    """Whether an event that a component may take by itself asks nothing else on its way: no predicate on the take edge,
    and after the last component none over events selected one by one."""
    take, leave = EDGES + 3 * TAKE, EDGES + 3 * PROCEED
    plain = steps[step, IS_KLEENE] != 0 and steps[step, take] == steps[step, take + 2]
    return plain and (step < steps.shape[0] - 1 or steps[step, leave + 1] == steps[step, leave + 2])


@leaf
def _know(runs, run_aggregates, free, chains, seen, counters, partition, unbound):
    """A partition seen for the first time has all runs that broadcast events have started so far."""
    seen[partition, IS_KNOWN] = 1
    tail = _END
    run = chains[unbound, CHAIN_HEAD]
    while run != _END:
        counters[N_FREE] -= 1
        counters[N_LIVE] += 1
        copy = free[counters[N_FREE]]
        for k in range(runs.shape[1]):
            runs[copy, k] = runs[run, k]
        for k in range(run_aggregates.shape[1]):
            run_aggregates[copy, k] = run_aggregates[run, k]
        runs[copy, PARTITION] = partition
        runs[copy, NEXT] = _END
        if tail >= 0:
            runs[tail, NEXT] = copy
        else:
            chains[partition, CHAIN_HEAD] = copy
        tail = copy
        chains[partition, CHAIN_LENGTH] += 1
        run = runs[run, NEXT]


@leaf
def _fill_run(runs, run_aggregates, run, state, head, partition, rows, aggregates):
    runs[run, STATE] = state
    runs[run, HEAD] = head
    runs[run, PARTITION] = partition
    runs[run, NEXT] = _END
    for k in range(rows.shape[0]):
        runs[run, FIRST_REGISTER + k] = rows[k]
    for k in range(aggregates.shape[0]):
        run_aggregates[run, k] = aggregates[k]


@leaf
def _unlink(runs, free, chains, counters, chain, before, run):
    """Free a run; `before` is the one that stays before it in the chain, or none."""
    if before >= 0:
        runs[before, NEXT] = runs[run, NEXT]
    else:
        chains[chain, CHAIN_HEAD] = runs[run, NEXT]
    free[counters[N_FREE]] = run
    counters[N_FREE] += 1
    counters[N_LIVE] -= 1
    chains[chain, CHAIN_LENGTH] -= 1


@leaf
def _keep_oldest(runs, free, chains, counters, chain, most):
    """Give up the runs of a chain but for the `most` oldest; how many stay."""
    n, before = 0, _END
    run = chains[chain, CHAIN_HEAD]
    while run != _END:
        following = runs[run, NEXT]
        if n < most:
            n += 1
            before = run
        else:
            _unlink(runs, free, chains, counters, chain, before, run)
        run = following
    return n


@leaf
def _unlink_merged(runs, free, chains, counters, chain):
    before = _END
    run = chains[chain, CHAIN_HEAD]
    while run != _END:
        following = runs[run, NEXT]
        if runs[run, STATE] == MERGED_AWAY:
            _unlink(runs, free, chains, counters, chain, before, run)
        else:
            before = run
        run = following


@leaf
def _complete(
    code, bounds, constants, columns, negations, returns, scalars, t_ms, negated_before, newest_negated,
    match_fields, match_rows, match_aggregates, match_values, counters,
    n_steps, head, partition, n_rows, rows, aggregates, stack,
):  # fmt: skip
    """The last component has been left: if HAVING agrees, record the match with its RETURN values."""
    last = n_steps - 1
    # What depends on the last component as a whole is decided here; trailing negations wait for the watermark.
    for negation in range(negations.shape[0]):
        if (
            negations[negation, DECIDED_AT] == last + 1
            and negations[negation, AFTER] != last
            and negation_fails(
                code, bounds, constants, columns, negations, scalars, t_ms, negated_before, newest_negated,
                n_steps, negation, partition, n_rows, rows, aggregates, stack, counters,
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
    match_fields[at, FIRST_ROW] = rows[0]
    match_fields[at, LAST_ROW] = rows[2 * last + 1]
    for k in range(match_rows.shape[1]):
        match_rows[at, k] = rows[k]
    for k in range(match_aggregates.shape[1]):
        match_aggregates[at, k] = aggregates[k]
    for k in range(returns.shape[0]):
        program = returns[k]
        match_values[at, k] = evaluate(
            code, bounds[program], bounds[program + 1], constants, columns, rows, aggregates, stack
        )


__all__ = ["advance"]
