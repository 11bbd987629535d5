"""The run-based NFAb kernel over precise events: both contiguities and skip till next match (SASE+ sections 3 to 5).

Runs live in flat arrays and are chained per partition. What a run has selected is a chain of nodes that share their
prefixes: a run that proceeds and the looping self that it leaves behind point to the same nodes (the sharing that
SASE+ section 5.2 gets from versioned buffers, without Dewey numbers). Runs that have become equivalent are merged
(section 5.3, `engine.kernels.runs.merging`). An event is stored only when a run selects it, or when it is negated.

Most events do no more than to extend the only run of their partition: a loop of their own takes them
(`engine.kernels.runs.single_run`), and leaves everything else to the loop here.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from engine.kernels.columns.partitions import BROADCAST, NOWHERE
from engine.kernels.compile.ways import inlined, leaf
from engine.kernels.programs.predicates import reset_aggregates, update_aggregates
from engine.kernels.programs.strategies import PARTITION_CONTIGUITY, SKIP_TILL_NEXT_MATCH
from engine.kernels.runs.arrays import (
    AT_POSITION,
    BALANCE,
    BEGIN,
    CAPACITY,
    CHAIN_HEAD,
    CHAIN_LENGTH,
    DECIDED_AT,
    EDGES,
    FIRST_REGISTER,
    HAS_BROADCAST,
    HEAD,
    IS_KLEENE,
    IS_KNOWN,
    LAST_POSITION,
    LAST_T,
    MERGES,
    N_CUT,
    N_FREE,
    N_LIVE,
    N_MATCHES,
    N_NODES,
    N_OFFERED,
    N_STORED,
    NEXT,
    PROCEED,
    RATE,
    STATE,
    STRATEGY,
    STRICT_TIES,
    TAKE,
    WITHIN,
)
from engine.kernels.runs.chains import END, begin_run, keep_oldest, know_partition, unlink, unlink_merged
from engine.kernels.runs.completing import complete
from engine.kernels.runs.edges import append_node, loops_hold, negation_fails, programs_hold
from engine.kernels.runs.merging import merge_equivalent
from engine.kernels.runs.single_run import extend_single_runs, unpack_run, write_event

WORK_PER_NODE = 12
"""What it costs to select an event, in offers of an event to a run: it takes memory."""
RUNS_KEPT = 64
"""So many runs of a partition go on, the oldest, when the account is empty."""

_START = -2  # stands after the runs of a chain for the one that the event at hand may begin


class _Offer(NamedTuple):
    """An event that is offered to the runs of one chain: its place among those offered, its row in the store, where
    the event before it stands in the stream as far as the strategy asks; the partition of runs that it begins."""

    position: int
    row: int
    t_ms: int
    before: int
    chain: int
    partition: int


@leaf
def advance(
    plan, batch, store, partitions, runs, nodes, matches, counters, scratch, first_position, start
):  # fmt: skip
    """Process the events batch.rows[start], ...; returns the first position not processed (their number when all are).

    Arguments: see `engine.kernels.runs.arrays`; first_position: of the batch in the stream. It stops early when store,
    runs, nodes or matches might not hold what the next event needs: the caller empties or grows them and calls again.
    Nothing of an unprocessed event is done.
    """
    n_negations, scalars = plan.negations.shape[0], plan.scalars
    chains, seen = partitions.chains, partitions.seen
    batch_rows, batch_partition, roles = batch.rows, batch.partition, batch.roles
    first_negated = 2 * plan.steps.shape[0]
    unbound = chains.shape[0] - 1
    has_broadcast, strategy = scalars[HAS_BROADCAST] != 0, scalars[STRATEGY]
    follows = strategy == SKIP_TILL_NEXT_MATCH and not has_broadcast and n_negations == 0
    n_events = batch_rows.shape[0]
    position = max(start, 0)
    while position < n_events:
        if follows:
            position = extend_single_runs(
                plan, batch, store, partitions, runs, nodes, matches, counters, scratch, first_position, position
            )
            if position == n_events:
                break
        partition = batch_partition[position]
        if partition == NOWHERE:
            position += 1
            continue
        at = max(batch_rows[position], 0)
        negates = False
        for negation in range(n_negations):
            negates = negates or roles[first_negated + negation, position]
        is_new = has_broadcast and partition >= 0 and seen[partition, IS_KNOWN] == 0
        if partition == BROADCAST:
            n_offers = counters[N_LIVE] + unbound + 1
        else:
            n_offers = chains[partition, CHAIN_LENGTH] + (chains[unbound, CHAIN_LENGTH] if is_new else 0)
            if n_offers == 0 and not roles[0, position] and not negates:
                if has_broadcast:
                    seen[partition, LAST_POSITION] = first_position + at
                    seen[partition, LAST_T] = batch.t_ms[at]
                position += 1
                continue
        n_offers += 1
        if not _has_capacity(store, nodes, matches, counters, n_offers):
            return position
        _pay(scalars, chains, runs, counters, partition, n_offers, first_position + at)
        # The event stands at the end of the store, to be overwritten if nothing selects it.
        row = max(counters[N_STORED], 0)
        write_event(batch, store, row, at, partition, first_position)
        n_nodes = counters[N_NODES]
        if is_new:
            know_partition(runs, partitions, counters, partition)
        # The last chain has the runs of no partition yet; a keyed event is still to come, so none completes.
        first_chain = partition if partition >= 0 else 0
        last_chain = partition + 1 if partition >= 0 else unbound + 1
        for chain in range(first_chain, last_chain):
            if has_broadcast and chain != unbound and seen[chain, IS_KNOWN] == 0:
                continue
            before = first_position + at - 1
            if strategy == PARTITION_CONTIGUITY:
                before = batch.previous[at]
                if partition < 0 and chain != unbound:
                    before = max(before, seen[chain, LAST_POSITION])
            owner = chain if chain != unbound else BROADCAST
            offer = _Offer(position, row, batch.t_ms[at], before, chain, owner)
            _offer_to_chain(plan, batch, store, partitions, runs, nodes, matches, counters, scratch, offer)
        counters[BALANCE] -= WORK_PER_NODE * (counters[N_NODES] - n_nodes)
        if negates or counters[N_NODES] > n_nodes:
            for negation in range(n_negations):
                own_chain = partition if partition >= 0 else unbound
                _link_negated(plan, batch, store, partitions.newest_negated, negation, own_chain, position, row)
            counters[N_STORED] += 1
        if has_broadcast and partition >= 0:
            seen[partition, LAST_POSITION] = first_position + at
            seen[partition, LAST_T] = batch.t_ms[at]
        position += 1
    return n_events


@inlined
def _has_capacity(store, nodes, matches, counters, n_offers):
    """Whether there is room for whatever comes of so many offers of an event."""
    return (
        counters[N_STORED] < store.t_ms.shape[0]
        and counters[N_FREE] >= 2 * n_offers
        and nodes.shape[0] - counters[N_NODES] >= 4 * n_offers
        and matches.fields.shape[0] - counters[N_MATCHES] >= 2 * n_offers
    )


@inlined
def _pay(scalars, chains, runs, counters, partition, n_offers, position):
    """Pay for the offers of an event: runs that nobody has paid for are given up. position: in the stream."""
    due = position + 1 - counters[AT_POSITION]
    counters[BALANCE] = min(scalars[CAPACITY], counters[BALANCE] + scalars[RATE] * max(due, 0))
    counters[AT_POSITION] += max(due, 0)
    if n_offers > max(counters[BALANCE], RUNS_KEPT):
        counters[N_CUT] += 1
        kept = max(counters[BALANCE], RUNS_KEPT)
        for chain in range(max(partition, 0), partition + 1 if partition >= 0 else chains.shape[0]):
            kept -= keep_oldest(runs, chains, counters, chain, max(kept, 0))
    counters[BALANCE] -= n_offers


@inlined
def _link_negated(plan, batch, store, newest_negated, negation, chain, position, row):
    """Chain the event to those that this negation has accepted before, if it accepts it."""
    store.negated[negation, row] = batch.roles[2 * plan.steps.shape[0] + negation, position]
    if store.negated[negation, row]:
        store.negated_before[negation, row] = newest_negated[negation, chain]
        newest_negated[negation, chain] = row


@inlined
def _offer_to_chain(plan, batch, store, partitions, runs, nodes, matches, counters, scratch, offer):
    """Offer an event to each run of a chain, and to the one that it may begin; runs that it has begun are offered the
    next one."""
    n_steps, strategy = plan.steps.shape[0], plan.scalars[STRATEGY]
    fields, chains, chain = runs.fields, partitions.chains, offer.chain
    begins = batch.roles[0, offer.position]
    tail, fresh_head, fresh_tail, n_changed = END, END, END, 0
    run = chains[chain, CHAIN_HEAD]
    if run == END and begins:
        run = _START
    while run != END:
        here, keep, may_move = -1, False, True
        following = END
        if run >= 0:
            counters[N_OFFERED] += 1
            following = fields[run, NEXT]
            here = fields[run, STATE]
            newest = fields[run, FIRST_REGISTER + 2 * here + 1]
            keep = offer.t_ms - store.t_ms[fields[run, FIRST_REGISTER]] <= plan.scalars[WITHIN]
            if keep and strategy != SKIP_TILL_NEXT_MATCH:
                keep = offer.before == store.position[newest]
            may_move = keep and not (plan.scalars[STRICT_TIES] != 0 and offer.t_ms <= store.t_ms[newest])
        there = max(here + 1, 0)
        loops_here = here >= 0 and plan.steps[here, IS_KLEENE] != 0
        tries_begin = may_move and there < n_steps and batch.roles[there, offer.position]
        tries_take = may_move and loops_here and batch.roles[n_steps + here, offer.position]
        begun, taken = False, False
        if tries_begin or tries_take:
            begun, taken, fresh = _follow_edges(
                plan, store, partitions, runs, nodes, matches, counters, scratch, offer, run, here, tries_begin,
                tries_take,
            )  # fmt: skip
            if fresh != END:
                if fresh_tail >= 0:
                    fields[fresh_tail, NEXT] = fresh
                else:
                    fresh_head = fresh
                fresh_tail = fresh
                runs.changed[n_changed] = fresh
                n_changed += 1
            if taken:
                runs.changed[n_changed] = run
                n_changed += 1
        # ---- ignore, or give up
        if run >= 0:
            if may_move:
                keep = taken if strategy != SKIP_TILL_NEXT_MATCH else (loops_here or not begun)
            elif strategy != SKIP_TILL_NEXT_MATCH:
                keep = False
            if keep:
                tail = run
            else:
                unlink(runs, chains, counters, chain, tail, run)
        if following == END and run >= 0 and begins:
            following = _START
        run = following
    if fresh_head >= 0:
        if tail >= 0:
            fields[tail, NEXT] = fresh_head
        else:
            chains[chain, CHAIN_HEAD] = fresh_head
    if (
        plan.scalars[MERGES] != 0
        and n_changed > 1
        and merge_equivalent(plan, store.columns, runs, nodes, n_changed, counters, scratch)
    ):
        unlink_merged(runs, chains, counters, chain)


@inlined
def _follow_edges(
    plan, store, partitions, runs, nodes, matches, counters, scratch, offer, run, here, tries_begin, tries_take
):  # fmt: skip
    """Follow the edges of a run for an event: leave the component and begin the next one with it; take it.

    run: _START for one that it may begin. Returns whether the next component is begun (also where what comes of it is
    filtered), whether the event is taken, and the run that goes on from there, END for none.
    """
    last = plan.steps.shape[0] - 1
    columns, rows, row = store.columns, scratch.rows, offer.row
    head = END
    if run >= 0:
        unpack_run(runs, run, scratch)
        head = runs.fields[run, HEAD]
    else:
        for k in range(rows.shape[0]):
            rows[k] = -1
        for k in range(scratch.aggregates.shape[0]):
            scratch.aggregates[k] = np.nan
    rows[rows.shape[0] - 1] = row
    begun, taken, fresh = False, False, END
    if tries_begin and (here < 0 or _edge_holds(plan, columns, nodes, here, PROCEED, head, scratch)):
        there = here + 1
        rows[2 * there] = row
        rows[2 * there + 1] = row
        begun = _edge_holds(plan, columns, nodes, there, BEGIN, head, scratch)
        if begun and _begins(plan, store, partitions, counters, scratch, offer, there):
            node = append_node(nodes, counters, row, head, there)
            if there < last or plan.steps[there, IS_KLEENE] != 0:
                fresh = begin_run(
                    runs, partitions, counters, offer.chain, there, node, offer.partition, scratch
                )  # fmt: skip
            if there == last:
                _leave_last(plan, store, partitions, nodes, matches, counters, scratch, offer, node)
    if tries_take and _edge_holds(plan, columns, nodes, here, TAKE, head, scratch):
        taken = True
        rows[2 * here + 1] = row
        if scratch.aggregates.shape[0] > 0:
            update_aggregates(
                plan.kinds, plan.owners, plan.slot_columns, plan.bases, here, columns, row, scratch.aggregates
            )
            for k in range(scratch.aggregates.shape[0]):
                runs.aggregates[run, k] = scratch.aggregates[k]
        node = append_node(nodes, counters, row, head, here)
        runs.fields[run, HEAD] = node
        runs.fields[run, FIRST_REGISTER + 2 * here + 1] = row
        if here == last:
            _leave_last(plan, store, partitions, nodes, matches, counters, scratch, offer, node)
    return begun, taken, fresh


@inlined
def _edge_holds(plan, columns, nodes, step, edge, head, scratch):
    """Whether the formula of an edge holds for the run at hand. head: its last node. columns: of the store."""
    at = EDGES + 3 * edge
    first, last, last_loop = plan.steps[step, at], plan.steps[step, at + 1], plan.steps[step, at + 2]
    if not programs_hold(plan, first, last, columns, scratch):
        return False
    return last == last_loop or loops_hold(plan, columns, nodes, head, last, last_loop, scratch)


@inlined
def _begins(plan, store, partitions, counters, scratch, offer, step):
    """Aggregate the first event of a component; False where something negated before it filters what comes of it."""
    if scratch.aggregates.shape[0] > 0:
        reset_aggregates(plan.kinds, plan.owners, step, scratch.aggregates)
        update_aggregates(
            plan.kinds, plan.owners, plan.slot_columns, plan.bases, step, store.columns, offer.row, scratch.aggregates
        )
    for negation in range(plan.negations.shape[0]):
        if plan.negations[negation, DECIDED_AT] == step and negation_fails(
            plan, store, partitions.newest_negated, negation, offer.partition, offer.row, scratch, counters
        ):
            return False
    return True


@inlined
def _leave_last(plan, store, partitions, nodes, matches, counters, scratch, offer, node):
    """Complete the match of the run at hand if the last component may end with the event. node: of the event."""
    if _edge_holds(plan, store.columns, nodes, plan.steps.shape[0] - 1, PROCEED, node, scratch):
        complete(
            plan, store, partitions.newest_negated, matches, counters, node, offer.partition, offer.row, scratch
        )  # fmt: skip


__all__ = ["advance"]
