"""Events that do no more than extend the only run of their partition: most of them, so they have a loop of their own.

`max(., 0)` around a number that is never negative lets it compile an index without the question whether it counts from
the end. Records: see `engine.kernels.runs.arrays`.
"""

from __future__ import annotations

from engine.kernels.compile.ways import inlined
from engine.kernels.programs.predicates import update_aggregates
from engine.kernels.runs.arrays import (
    BRANCH,
    CHAIN_HEAD,
    COMPONENT,
    EDGES,
    FIRST_REGISTER,
    HEAD,
    N_MATCHES,
    N_NODES,
    N_OFFERED,
    N_REGISTERS,
    N_STORED,
    NEXT,
    PARENT,
    PROCEED,
    ROW,
    STATE,
    STRICT_TIES,
    UNION,
    WITHIN,
)
from engine.kernels.runs.chains import END
from engine.kernels.runs.completing import record_match
from engine.kernels.runs.edges import programs_hold


@inlined
def extend_single_runs(
    plan, batch, store, partitions, runs, nodes, matches, counters, scratch, first_position, position
):  # fmt: skip
    """Process the events from `position` on that the only run of their partition takes, or ignores, by skip till next
    match without negations; returns the position of the first other one.

    Others are those that begin a run or the next component, that meet several runs, or one that has expired, whose take
    edge asks something, and those for which there may be no room.
    """
    n_steps, n_slots = plan.steps.shape[0], runs.aggregates.shape[1]
    within, strict_ties = plan.scalars[WITHIN], plan.scalars[STRICT_TIES] != 0
    fields, chains, t_ms, n_events = runs.fields, partitions.chains, store.t_ms, batch.rows.shape[0]
    while position < n_events:
        partition = batch.partition[position]
        run = chains[partition, CHAIN_HEAD] if partition >= 0 else END
        if batch.roles[0, position] and partition >= 0:
            break
        if run < 0:
            position += 1
            continue
        here = max(fields[run, STATE], 0)
        if fields[run, NEXT] != END or (here + 1 < n_steps and batch.roles[here + 1, position]):
            break
        at = max(batch.rows[position], 0)
        t = batch.t_ms[at]
        if t - t_ms[max(fields[run, FIRST_REGISTER], 0)] > within:
            break
        newest = max(fields[run, FIRST_REGISTER + 2 * here + 1], 0)
        if not batch.roles[n_steps + here, position] or (strict_ties and t <= t_ms[newest]):
            counters[N_OFFERED] += 1
            position += 1
            continue
        row, node = max(counters[N_STORED], 0), max(counters[N_NODES], 0)
        if (
            not plan.only_takes[here]
            or row >= t_ms.shape[0]
            or node >= nodes.shape[0]
            or counters[N_MATCHES] >= matches.fields.shape[0]
        ):
            break
        counters[N_OFFERED] += 1
        write_event(batch, store, row, at, partition, first_position)
        counters[N_STORED] = row + 1
        head = max(fields[run, HEAD], 0)
        nodes[node, ROW] = row
        nodes[node, PARENT] = head
        nodes[node, COMPONENT] = here
        nodes[node, BRANCH] = head if nodes[head, COMPONENT] == UNION else nodes[head, BRANCH]
        counters[N_NODES] = node + 1
        fields[run, HEAD] = node
        fields[run, FIRST_REGISTER + 2 * here + 1] = row
        if n_slots > 0:
            update_aggregates(
                plan.kinds, plan.owners, plan.slot_columns, plan.bases, here, store.columns, row, runs.aggregates[run]
            )
        if here == n_steps - 1:
            _complete(plan, store.columns, runs, matches, counters, run, node, partition, row, scratch)
        position += 1
    return position


@inlined
def write_event(batch, store, row, at, partition, first_position):
    """Write the event in row `at` of the batch to the store; first_position: of the batch in the stream."""
    store.t_ms[row] = batch.t_ms[at]
    store.partition[row] = partition
    store.position[row] = first_position + at
    store.source[row] = at
    for k in range(store.columns.shape[0]):
        store.columns[k, row] = batch.columns[k, at]


@inlined
def unpack_run(runs, run, scratch):
    """Make a run the one at hand."""
    for k in range(scratch.rows.shape[0]):
        scratch.rows[k] = runs.fields[run, FIRST_REGISTER + k]
    for k in range(scratch.aggregates.shape[0]):
        scratch.aggregates[k] = runs.aggregates[run, k]


@inlined
def _complete(plan, columns, runs, matches, counters, run, node, partition, row, scratch):
    """The event of `row` may end a match of the run."""
    unpack_run(runs, run, scratch)
    scratch.rows[plan.scalars[N_REGISTERS] - 1] = row
    leave = EDGES + 3 * PROCEED
    last = plan.steps.shape[0] - 1
    if programs_hold(plan, plan.steps[last, leave], plan.steps[last, leave + 1], columns, scratch):
        record_match(plan, columns, matches, counters, node, partition, scratch)


__all__ = ["extend_single_runs", "unpack_run", "write_event"]
