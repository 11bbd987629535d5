"""From a run that has left its last component to a match. Records: see `engine.kernels.runs.arrays`."""

from __future__ import annotations

from engine.kernels.compile.ways import leaf
from engine.kernels.programs.opcodes import TRUE
from engine.kernels.runs.arrays import AFTER, DECIDED_AT, FIRST_ROW, HAVING, HEAD, LAST_ROW, N_MATCHES, PARTITION
from engine.kernels.runs.edges import negation_fails, value_of


@leaf
def record_match(plan, columns, matches, counters, head, partition, scratch):
    """The last component of the run at hand has been left: if HAVING agrees, a match with its RETURN values.

    head: its last node. columns: of the store.
    """
    having = plan.scalars[HAVING]
    if having >= 0 and value_of(plan, having, columns, scratch) != TRUE:
        return
    match = max(counters[N_MATCHES], 0)
    counters[N_MATCHES] = match + 1
    matches.fields[match, HEAD] = head
    matches.fields[match, PARTITION] = partition
    matches.fields[match, FIRST_ROW] = scratch.rows[0]
    matches.fields[match, LAST_ROW] = scratch.rows[2 * plan.steps.shape[0] - 1]
    for k in range(matches.rows.shape[1]):
        matches.rows[match, k] = scratch.rows[k]
    for k in range(matches.aggregates.shape[1]):
        matches.aggregates[match, k] = scratch.aggregates[k]
    for k in range(plan.returns.shape[0]):
        matches.values[match, k] = value_of(plan, max(plan.returns[k], 0), columns, scratch)


@leaf
def complete(plan, store, newest_negated, matches, counters, head, partition, n_rows, scratch):
    """As `record_match`, unless something negated that depends on the last component as a whole stands in the way.

    Trailing negations wait for the watermark.
    """
    last = plan.steps.shape[0] - 1
    for negation in range(plan.negations.shape[0]):
        if (
            plan.negations[negation, DECIDED_AT] == last + 1
            and plan.negations[negation, AFTER] != last
            and negation_fails(plan, store, newest_negated, negation, partition, n_rows, scratch, counters)
        ):
            return
    record_match(plan, store.columns, matches, counters, head, partition, scratch)


__all__ = ["complete", "record_match"]
