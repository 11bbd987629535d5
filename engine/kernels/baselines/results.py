"""Result construction of the baselines: what is decided once all events of a match are known."""

from __future__ import annotations

import numpy as np

from engine.kernels.compile.ways import kernel, leaf
from engine.kernels.programs.opcodes import MAX_STACK, TRUE
from engine.kernels.programs.predicates import evaluate, reset_aggregates, update_aggregates


@kernel
def construct_results(
    code, bounds, constants, columns, slots, negations, returns, having, n_steps, within, strict_ties, t_ms,
    partition_of, negated, n_rows, match_partition, match_offsets, match_rows, match_components, kept, values,
):  # fmt: skip
    """For each match: kept (n,) says whether negations and HAVING let it pass; values (n, n_returns) are its RETURN.

    negations int64 (m, 3): the step after which a negated component stands (-1: before the first), and its programs
    [first, last). negated bool (m, c): events that may be it. returns int64: programs. having: a program or -1.
    match_...: see `engine.matching.output.listed.ListedMatches`. n_rows: rows of the store.

    code, bounds, constants, columns, slots: see `engine.kernels.baselines.edges`. kept bool (n,), values float64
    (n, n_returns): written. match_partition int64 (n,), match_offsets int64 (n + 1,),
    match_rows, match_components int64 (cells,). returns int64 (n_returns,).
    """
    rows = np.empty(2 * n_steps + 1, np.int64)
    aggregates = np.empty(slots.shape[0], np.float64)
    stack = np.empty(MAX_STACK, np.float64)
    for match in range(match_partition.shape[0]):
        start, end = match_offsets[match], match_offsets[match + 1]
        rows[:] = -1
        aggregates[:] = np.nan
        before = -1
        for at in range(start, end):
            row, component = match_rows[at], match_components[at]
            if component != before:
                rows[2 * component] = row
                reset_aggregates(slots[:, 0], slots[:, 1], component, aggregates)
                before = component
            rows[2 * component + 1] = row
            update_aggregates(slots[:, 0], slots[:, 1], slots[:, 2], slots[:, 3], component, columns, row, aggregates)
        rows[2 * n_steps] = match_rows[end - 1]
        kept[match] = having < 0 or (
            evaluate(code, bounds[having], bounds[having + 1], constants, columns, rows, aggregates, stack) == TRUE
        )
        for k in range(negations.shape[0]):
            kept[match] = kept[match] and not _occurs(
                code, bounds, constants, columns, negations, k, n_steps, within, strict_ties, t_ms, partition_of,
                negated, n_rows, match_partition[match], rows, aggregates, stack,
            )  # fmt: skip
        if kept[match]:
            for k in range(returns.shape[0]):
                program = returns[k]
                values[match, k] = evaluate(
                    code, bounds[program], bounds[program + 1], constants, columns, rows, aggregates, stack
                )


@leaf
def _occurs(
    code, bounds, constants, columns, negations, k, n_steps, within, strict_ties, t_ms, partition_of, negated, n_rows,
    partition, rows, aggregates, stack,
):  # fmt: skip
    """Whether an event of a negated component stands in its position: strictly between its neighbours, for a leading
    one in [last - within, first), for a trailing one in (last, first + within] (DESIGN 3)."""
    after = negations[k, 0]
    is_leading, is_trailing = after < 0, after == n_steps - 1
    left = 0 if is_leading else rows[2 * after + 1] + 1
    right = n_rows if is_trailing else rows[2 * (after + 1)]
    earliest = t_ms[rows[2 * n_steps - 1]] - within
    latest = t_ms[rows[0]] + within
    for row in range(left, right):
        if not negated[k, row] or (partition_of[row] >= 0 and partition_of[row] != partition):
            continue
        t = t_ms[row]
        if (is_leading and t < earliest) or (is_trailing and t > latest):
            continue
        if strict_ties and not is_leading and t <= t_ms[rows[2 * after + 1]]:
            continue
        if strict_ties and not is_trailing and t >= t_ms[rows[2 * (after + 1)]]:
            continue
        rows[2 * n_steps] = row
        found = True
        for program in range(negations[k, 1], negations[k, 2]):
            value = evaluate(code, bounds[program], bounds[program + 1], constants, columns, rows, aggregates, stack)
            if value != TRUE:
                found = False
                break
        if found:
            return True
    return False
