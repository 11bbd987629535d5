"""Following the edges of an automaton, ending in a state, and the absence of negated patterns."""

from __future__ import annotations

import numpy as np

from engine.kernels.automaton.conditions import holds, value_of
from engine.kernels.automaton.tables import (
    ACTIONS,
    ACTIONS_END,
    BEFORE,
    BESIDE,
    BESIDE_END,
    CHECKED,
    CHECKS,
    CHECKS_END,
    CROSSINGS,
    CROSSINGS_END,
    DEPTH,
    EXIT_CHECKS,
    EXIT_CHECKS_END,
    EXIT_CROSSINGS,
    EXIT_CROSSINGS_END,
    EXIT_GUARDS,
    EXIT_GUARDS_END,
    GUARDS,
    GUARDS_END,
    HAVING,
    N_POSITIVE,
    NEGATION_START,
    NEWEST,
    OCCURRENCE,
    STRICT_TIES,
    TARGET,
    TIME_COLUMN,
    VARIABLE,
    WITHIN_MS,
    longer_chain,
)
from engine.kernels.compile.ways import kernel, leaf
from engine.kernels.programs.opcodes import TRUE


@leaf
def _guarded(tables, first, last, counters):
    for g in range(first, last):
        count = counters[tables.guards[g, 0]]
        if count < tables.guards[g, 1] or count > tables.guards[g, 2]:
            return False
    return True


@leaf
def can_go_on(tables, state, counters):
    """Whether some edge leads on from a state with these counters, int64 (n_counters,); they stay as they are in it."""
    for edge in range(tables.state_edges[state], tables.state_edges[state + 1]):
        if _guarded(tables, tables.edges[edge, GUARDS], tables.edges[edge, GUARDS_END], counters):
            return True
    return False


@leaf
def put(tables, chain, n, edge, row):
    """Write an event as number n of the chain, with the counters after it."""
    before, after = chain.counters[n], chain.counters[n + 1]
    for k in range(before.shape[0]):
        after[k] = before[k]
    for a in range(tables.edges[edge, ACTIONS], tables.edges[edge, ACTIONS_END]):
        counter = tables.actions[a, 0]
        after[counter] = 1 if tables.actions[a, 1] else before[counter] + 1
    variable = tables.edges[edge, VARIABLE]
    chain.rows[n] = row
    chain.edges[n] = edge
    chain.variables[n] = variable
    first = tables.path_bounds[variable]
    for d in range(tables.path_bounds[variable + 1] - first):
        chain.iterations[n, d] = after[tables.paths[first + d]]


@leaf
def _time_of(tables, store, row):
    """The time that ties are about; t_ms are positions in windows of events."""
    column = tables.scalars[TIME_COLUMN]
    return store.t_ms[row] if column < 0 else np.int64(store.columns[column, row])


@leaf
def _is_tied(tables, store, chain, base, n):
    """Whether event n has the time of an earlier one (from `base` on) that it must follow: TIES STRICT."""
    occurrence = tables.edges[chain.edges[n], OCCURRENCE]
    time_ms = _time_of(tables, store, chain.rows[n])
    for at in range(n - 1, base - 1, -1):
        if _time_of(tables, store, chain.rows[at]) != time_ms:
            return False
        depth = tables.parallel[tables.edges[chain.edges[at], OCCURRENCE], occurrence]
        if depth < 0:
            return True
        for d in range(depth):
            if chain.iterations[at, d] != chain.iterations[n, d]:
                return True
    return False


@leaf
def follow(tables, store, chain, base, n, edge, row):
    """Extend a chain of n events by `row` if the formula of `edge` holds; False, with a chain of n events, otherwise.

    The chain has room for another event. `base`: where the chain of the automaton that the edge belongs to begins.
    """
    if not _guarded(tables, tables.edges[edge, GUARDS], tables.edges[edge, GUARDS_END], chain.counters[n]):
        return False
    put(tables, chain, n, edge, row)
    if tables.scalars[STRICT_TIES] and _is_tied(tables, store, chain, base, n):
        return False
    for k in range(tables.edges[edge, CHECKS], tables.edges[edge, CHECKS_END]):
        counters = chain.counters[n] if tables.checks[k, BEFORE] else chain.counters[n + 1]
        if not holds(
            tables, store.columns, chain, n + 1, tables.checks[k, CHECKED], tables.checks[k, DEPTH],
            tables.checks[k, NEWEST] != 0, counters,
        ):  # fmt: skip
            return False
    return True


@leaf
def end_in(tables, store, chain, n, state):
    """The exit by which a chain of n events ends in `state`, -1 when there is none."""
    for end in range(tables.state_exits[state], tables.state_exits[state + 1]):
        if not _guarded(tables, tables.exits[end, EXIT_GUARDS], tables.exits[end, EXIT_GUARDS_END], chain.counters[n]):
            continue
        passed = True
        for k in range(tables.exits[end, EXIT_CHECKS], tables.exits[end, EXIT_CHECKS_END]):
            if not holds(
                tables, store.columns, chain, n, tables.checks[k, CHECKED], tables.checks[k, DEPTH],
                tables.checks[k, NEWEST] != 0,
                chain.counters[n],
            ):  # fmt: skip
                passed = False
                break
        if passed:
            return end
    return -1


@leaf
def passes_having(tables, store, chain, n):
    """Whether HAVING is true of a match of n events."""
    having = tables.scalars[HAVING]
    return having < 0 or value_of(tables, store.columns, chain, n, having, np.int64(0)) == TRUE


@leaf
def write_values(tables, store, chain, n, values):
    """The results of RETURN for a match of n events; NaN is NULL."""
    for k in range(tables.returns.shape[0]):
        values[k] = value_of(tables, store.columns, chain, n, tables.returns[k], np.int64(0))


# ------------------------------------------------------------------- absence


@leaf
def first_since(store, partition, least):
    """The first row of a partition alone whose time is not before `least`; their number when there is none.

    Rows of one partition are in order of time, those of several need not be.
    """
    start, end = store.starts[partition + 1], store.starts[partition + 2]
    stop = end
    while start < end:
        middle = (start + end) // 2
        if store.t_ms[store.members[middle]] < least:
            start = middle + 1
        else:
            end = middle
    return store.members[start] if start < stop else store.t_ms.shape[0]


@kernel
def gather(store, partition, start_row, end_row, out):
    """Write the rows in [start_row, end_row) that belong to a partition (broadcast ones, too) to `out`, in order.

    Returns their number, which may be more than `out` holds: then call again with more room.
    """
    b, b_end = store.starts[0], store.starts[1]
    p, p_end = b_end, b_end
    if partition >= 0:
        p, p_end = store.starts[partition + 1], store.starts[partition + 2]
    b += np.searchsorted(store.members[b:b_end], start_row)
    p += np.searchsorted(store.members[p:p_end], start_row)
    n = 0
    while True:
        from_b = b < b_end and store.members[b] < end_row
        from_p = p < p_end and store.members[p] < end_row
        if not from_b and not from_p:
            return n
        if from_b and (not from_p or store.members[b] < store.members[p]):
            row = store.members[b]
            b += 1
        else:
            row = store.members[p]
            p += 1
        if n < out.shape[0]:
            out[n] = row
        n += 1


@leaf
def _left_of(tables, chain, n_before, negation, counters):
    """Which of the first events of the chain bounds the position of a negated pattern on the left, -1 for none: the
    latest that does not belong to another operand of an AND around it."""
    first, last = tables.negations[negation, BESIDE], tables.negations[negation, BESIDE_END]
    for at in range(n_before - 1, -1, -1):
        occurrence = tables.edges[chain.edges[at], OCCURRENCE]
        is_beside = False
        for k in range(first, last):
            if tables.beside[k, 0] == occurrence:
                is_beside = True
                path = tables.path_bounds[chain.variables[at]]
                for d in range(tables.beside[k, 1]):
                    if chain.iterations[at, d] != counters[tables.paths[path + d]]:
                        is_beside = False
        if not is_beside:
            return at
    return -1


@kernel
def _intrudes(tables, store, chain, n, negation, counters, candidates, m, work):
    """Whether some of the m candidate rows match a negated pattern beside a match of n events (any match).

    work: int64 (1,), search steps that are left; below 0 the search has been given up, and the answer is no.
    """
    capacity = n + m + 1
    while chain.rows.shape[0] < capacity:
        chain = longer_chain(tables, chain, n)
    saved = chain.counters[n].copy()
    chain.counters[n, :] = counters
    states = np.empty(m + 1, np.int64)
    at_candidate = np.empty(m + 1, np.int64)
    at_edge = np.empty(m + 1, np.int64)
    level = np.int64(0)
    states[0], at_candidate[0] = tables.negations[negation, NEGATION_START], 0
    at_edge[0] = tables.state_edges[states[0]]
    found = False
    while level >= 0 and not found and work[0] >= 0:
        state = states[level]
        if at_candidate[level] >= m:
            level -= 1
            continue
        row, edge = candidates[at_candidate[level]], at_edge[level]
        if edge >= tables.state_edges[state + 1]:
            at_candidate[level] += 1
            at_edge[level] = tables.state_edges[state]
            continue
        at_edge[level] += 1
        if not store.negated[tables.edges[edge, VARIABLE] - tables.scalars[N_POSITIVE], row]:
            continue
        work[0] -= 1 + (n + level) // 16
        if follow(tables, store, chain, n, n + level, edge, row):
            state = tables.edges[edge, TARGET]
            found = end_in(tables, store, chain, n + level + 1, state) >= 0
            following = at_candidate[level] + 1
            level += 1
            states[level], at_candidate[level], at_edge[level] = state, following, tables.state_edges[state]
    chain.counters[n, :] = saved
    return found


@kernel
def _is_violated(tables, store, chain, n, partition, negation, left, right, counters, work):
    """Whether a negated pattern is in its position: after event `left` of the match of n events and before `right`;
    -1: bounded by the window. work: see `_intrudes`."""
    within, strict = tables.scalars[WITHIN_MS], tables.scalars[STRICT_TIES]
    first, last = chain.rows[0], chain.rows[n - 1]
    start_row = chain.rows[left] + 1 if left >= 0 else 0
    end_row = chain.rows[right] if right >= 0 else store.t_ms.shape[0]
    least = store.t_ms[last] - within if left < 0 else -(2**62)
    most = store.t_ms[first] + within if right < 0 else 2**62
    after = _time_of(tables, store, chain.rows[left]) if strict and left >= 0 else -(2**62)
    before = _time_of(tables, store, chain.rows[right]) if strict and right >= 0 else 2**62
    candidates = np.empty(64, np.int64)
    m = gather(store, partition, start_row, end_row, candidates)
    if m > candidates.shape[0]:
        candidates = np.empty(m, np.int64)
        gather(store, partition, start_row, end_row, candidates)
    work[0] -= 1 + m * (n + 4) // 64
    kept = np.int64(0)
    for k in range(m):
        row = candidates[k]
        if work[0] < 0:
            break
        if store.t_ms[row] < least or store.t_ms[row] > most:
            continue
        if strict and not after < _time_of(tables, store, row) < before:
            continue
        is_own = False
        for at in range(n):
            is_own = is_own or chain.rows[at] == row
        if not is_own:
            candidates[kept] = row
            kept += 1
    return kept > 0 and _intrudes(tables, store, chain, n, negation, counters, candidates, kept, work)


@kernel
def is_free(tables, store, chain, n, partition, work):
    """Whether no negated pattern is in a position before or between the events of a match of n events.

    work: int64 (1,), search steps that are left; with less than none afterwards that is not known.
    """
    if tables.negations.shape[0] == 0:
        return True
    for at in range(n):
        edge = chain.edges[at]
        for k in range(tables.edges[edge, CROSSINGS], tables.edges[edge, CROSSINGS_END]):
            negation = tables.crossings[k, 0]
            counters = (chain.counters[at + 1] if tables.crossings[k, 1] else chain.counters[at]).copy()
            left = _left_of(tables, chain, at, negation, counters)
            if _is_violated(tables, store, chain, n, partition, negation, left, at, counters, work):
                return False
    return True


@kernel
def is_free_after(tables, store, chain, n, partition, end, work):
    """Whether no negated pattern is in a position at the end of a match of n events that ends by the exit `end`.

    All events up to first + WITHIN are in the store. work: see `is_free`.
    """
    for k in range(tables.exits[end, EXIT_CROSSINGS], tables.exits[end, EXIT_CROSSINGS_END]):
        negation = tables.crossings[k, 0]
        counters = chain.counters[n].copy()
        left = _left_of(tables, chain, n, negation, counters)
        if _is_violated(tables, store, chain, n, partition, negation, left, np.int64(-1), counters, work):
            return False
    return True


@leaf
def rewrite_chain(tables, chain, rows, edges):
    """Put a match back onto a chain that has room for it."""
    chain.counters[0, :] = 0
    for n in range(rows.shape[0]):
        put(tables, chain, n, edges[n], rows[n])
    return rows.shape[0]
