"""Skip till any match over an automaton among events that are intervals: the arrangements that some world may have.

The search goes along the pattern, not along the stream: the next event is any that may come after those that the
pattern demands before it. Operands of AND are taken one after the other, so that an arrangement is found once, whatever
the interleavings of its operands. Bounds on the times of a chain, and what can still be completed with the events of
later blocks (`engine.kernels.confidence.ordering.search_order`), cut it short; confidences are not its business.
"""

from __future__ import annotations

import numpy as np

from engine.kernels.automaton.edges import end_in, follow, passes_having, put, rewrite_chain
from engine.kernels.automaton.found import emit, partition_of_match, with_more_events, with_more_matches
from engine.kernels.automaton.search import DONE, STEPS_PER_EVENT, STOPPED, VISITS_PER_STEP
from engine.kernels.automaton.tables import (
    N_POSITIVE,
    NEGATION_START,
    OCCURRENCE,
    SOURCE,
    TARGET,
    VARIABLE,
    WITHIN_MS,
    new_chain,
)
from engine.kernels.compile.ways import kernel, leaf
from engine.kernels.confidence.ordering import both_precise, may_precede, one_clock

_ALWAYS = 2**62
_VISITS_PER_STEP = 4
"""Looks at an event that may come next, in the time of one search step."""


@leaf
def _is_unordered(tables, chain, i, j):
    """Whether two events of a chain are in different operands of one AND, in one iteration of what is around it."""
    one, other = tables.edges[chain.edges[i], OCCURRENCE], tables.edges[chain.edges[j], OCCURRENCE]
    depth = tables.parallel[one, other]
    if depth < 0:
        return False
    same = True
    for d in range(depth):
        same = same and chain.iterations[i, d] == chain.iterations[j, d]
    return same


@leaf
def _may_stand(tables, events, chain, base, n, within, earliest):
    """Whether event n may be in its place with the events base..n - 1; writes its earliest time.

    False as well when an operand of AND is taken before one that stands earlier in the pattern.
    """
    row = chain.rows[n]
    occurrence = tables.edges[chain.edges[n], OCCURRENCE]
    earliest[n] = events.lo_ms[row]
    for at in range(n - 1, base - 1, -1):
        if _is_unordered(tables, chain, at, n):
            if tables.edges[chain.edges[at], OCCURRENCE] > occurrence:
                return False
            continue
        covered = False
        for later in range(at + 1, n):
            if not _is_unordered(tables, chain, later, n) and not _is_unordered(tables, chain, at, later):
                covered = True
                break
        if covered:
            continue
        before = chain.rows[at]
        if not may_precede(events, before, row):
            return False
        if not both_precise(events, before, row) and not one_clock(events, before, row):
            earliest[n] = max(earliest[n], earliest[at] + 1)
    fits = earliest[n] <= events.hi_ms[row]
    for at in range(base, n):
        fits = fits and earliest[n] - events.hi_ms[chain.rows[at]] <= within
    return fits


@leaf
def _decided_by(tables, events, chain, n):
    """The row that decides a chain: of the events that none of it must follow the one that may end last."""
    found = np.int64(-1)
    for at in range(n - 1, -1, -1):
        is_last = True
        for later in range(at + 1, n):
            if not _is_unordered(tables, chain, at, later):
                is_last = False
                break
        if is_last:
            row = chain.rows[at]
            hi = events.hi_ms[row]
            if found < 0 or hi > events.hi_ms[found] or (hi == events.hi_ms[found] and row > found):
                found = row
    return found


@kernel
def _completable(tables, store, candidates, m, blocks, due, ordered, work):
    """bool (n_blocks + 1, n_states, 2): whether events of block b and later ones lead from a state to an end.

    The last index: whether candidate `due` is among those before; where the pattern orders all events (`ordered`) it
    must be the last one, and nothing goes on from there. Also the first block that is written: those before it have
    nothing to add.
    """
    n_states = tables.state_edges.shape[0] - 1
    n_edges = tables.edges.shape[0]
    n_blocks = blocks[m - 1] + 1
    found = np.empty((n_blocks + 1, n_states, 2), np.bool_)
    found[n_blocks] = False
    n_before = 1 if ordered else 2
    n_left = 0  # what may still become True
    for s in range(n_states):
        is_left = False
        for e in range(tables.state_edges[s], tables.state_edges[s + 1]):
            is_left = is_left or tables.edges[e, VARIABLE] < tables.scalars[N_POSITIVE]
        n_left += n_before if is_left else 0
    begins, visits, settled = m, 0, n_blocks
    for block in range(n_blocks - 1, -1, -1):
        if n_left == 0:
            break
        settled = block
        ends = begins
        while begins > 0 and blocks[begins - 1] == block:
            begins -= 1
        found[block] = found[block + 1]
        changed = True
        while changed:
            changed = False
            for e in range(n_edges):
                variable = tables.edges[e, VARIABLE]
                if variable >= tables.scalars[N_POSITIVE]:
                    continue
                source, target = tables.edges[e, SOURCE], tables.edges[e, TARGET]
                if found[block, source, 0] and found[block, source, n_before - 1]:
                    continue
                exits = tables.state_exits[target + 1] > tables.state_exits[target]
                visits += 1 + ends - begins
                for j in range(begins, ends):
                    if not store.begin[variable, candidates[j]]:
                        continue
                    for before in range(n_before):
                        after = j == due or (before == 1 and not ordered)
                        if found[block, source, before]:
                            continue
                        if (after and exits) or found[block, target, 1 if after else 0]:
                            found[block, source, before] = True
                            n_left -= 1
                            changed = True
    work[0] -= visits // VISITS_PER_STEP
    return found, settled


@kernel
def list_arrangements(tables, store, events, candidates, blocks, ordered, partition, due, most, work, found):
    """Add the arrangements of m candidates that candidate number `due` decides: (status, all that were found).

    candidates, blocks: int64 (m,), see `search_order`; blocks are all 0 where AND leaves events unordered, which
    `ordered` denies. most: matches after which the search stops. work: int64 (1,), the search steps that are left.
    """
    m = candidates.shape[0]
    completable, settled = _completable(tables, store, candidates, m, blocks, due, ordered, work)
    chain = new_chain(tables, m + 2)
    earliest = np.empty(m + 2, np.int64)
    states, edges, at = np.empty(m + 2, np.int64), np.empty(m + 2, np.int64), np.empty(m + 2, np.int64)
    begins, chosen = np.empty(m + 2, np.int64), np.empty(m + 2, np.int64)
    has_due = np.zeros(m + 2, np.bool_)
    used = np.zeros(m, np.bool_)
    within = tables.scalars[WITHIN_MS]
    first_of_block = np.zeros(m, np.int64)
    for j in range(1, m):
        first_of_block[j] = first_of_block[j - 1] if blocks[j] == blocks[j - 1] else j
    level = np.int64(0)
    chain.counters[0, :] = 0
    states[0], edges[0], at[0], begins[0] = 0, tables.state_edges[0], 0, 0
    if not completable[settled, 0, 0]:
        return DONE, found
    following = np.empty((tables.scalars[N_POSITIVE], m + 1), np.int64)  # the next candidate that a variable may take
    for variable in range(tables.scalars[N_POSITIVE]):
        following[variable, m] = m
        for j in range(m - 1, -1, -1):
            following[variable, j] = j if store.begin[variable, candidates[j]] else following[variable, j + 1]
    visits = 0
    while level >= 0:
        edge = edges[level]
        if edge >= tables.state_edges[states[level] + 1]:
            level -= 1
            if level >= 0:
                used[chosen[level]] = False
            continue
        variable, target = tables.edges[edge, VARIABLE], tables.edges[edge, TARGET]
        j = at[level]
        if variable >= tables.scalars[N_POSITIVE]:
            j = m
        else:
            j = following[variable, j]
            if ordered and not completable[settled, target, 0]:  # no other can be the last one
                j = due if j <= due else m
        if j >= m:
            edges[level] += 1
            at[level] = begins[level]
            continue
        at[level] = j + 1
        visits += 1
        if visits == _VISITS_PER_STEP:
            visits = 0
            work[0] -= 1
        row = candidates[j]
        if used[j] or not store.begin[variable, row]:
            continue
        is_now = j == due or (has_due[level] and not ordered)
        goes_on = completable[max(blocks[j], settled), target, 1 if is_now else 0]
        ends = is_now and tables.state_exits[target + 1] > tables.state_exits[target]
        if not goes_on and not ends:
            continue
        work[0] -= 1 + level // 4
        if work[0] < 0:
            return STOPPED, found
        put(tables, chain, level, edge, row)
        if not _may_stand(tables, events, chain, np.int64(0), level, within, earliest):
            continue
        if not follow(tables, store, chain, np.int64(0), level, edge, row):
            continue
        if ends and _decided_by(tables, events, chain, level + 1) == candidates[due]:
            end = end_in(tables, store, chain, level + 1, target)
            if end >= 0 and _is_match(tables, store, chain, level + 1, partition):
                work[0] -= STEPS_PER_EVENT * (level + 2)
                if work[0] < 0 or found.counts[0] >= most:
                    return STOPPED, found
                while found.rows.shape[0] - found.counts[1] < level + 1:
                    found = with_more_events(found)
                if found.counts[0] >= found.partition.shape[0]:
                    found = with_more_matches(found)
                emit(tables, store, chain, level + 1, partition, end, found)
        if goes_on:
            used[j], chosen[level], has_due[level + 1] = True, j, is_now
            level += 1
            states[level], edges[level] = target, tables.state_edges[target]
            begins[level] = first_of_block[j]
            at[level] = begins[level]
    return DONE, found


@leaf
def _is_match(tables, store, chain, n, partition):
    """Whether a complete chain is one of this partition and HAVING is true of it."""
    if partition_of_match(tables, store, chain, n, partition) != partition:
        return False
    return passes_having(tables, store, chain, n)


@kernel
def list_intruders(tables, store, events, match_rows, match_edges, negation, counters, candidates, most, work):
    """What of the candidates may match a negated pattern beside a match, in some world.

    counters: int64 (n_counters,), the iterations that its place is in. Returns (offsets, rows, edges), int64 (k + 1,),
    (m,), (m,), and whether `most` of them, and the search steps of `work`, int64 (1,), sufficed.

    What goes on after a complete one is left out where the order of events is that of their times: it is in its place
    only where the shorter one is, too.

    candidates: int64 (n,), rows. match_rows, match_edges: int64 (m,), the events of the match and the edges that took
    them.
    """
    n, m = match_rows.shape[0], candidates.shape[0]
    chain = new_chain(tables, n + m + 2)
    rewrite_chain(tables, chain, match_rows, match_edges)
    chain.counters[n, :] = counters
    earliest = np.empty(n + m + 2, np.int64)
    states, edges, at = np.empty(m + 2, np.int64), np.empty(m + 2, np.int64), np.empty(m + 2, np.int64)
    chosen = np.empty(m + 2, np.int64)
    used = np.zeros(m, np.bool_)
    offsets = np.zeros(most + 1, np.int64)
    rows, taken = np.empty(64, np.int64), np.empty(64, np.int64)
    n_found = 0
    by_times = True
    for j in range(m):
        by_times = by_times and events.clock[candidates[j]] < 0
    level = np.int64(0)
    states[0] = tables.negations[negation, NEGATION_START]
    edges[0], at[0] = tables.state_edges[states[0]], 0
    while level >= 0:
        edge = edges[level]
        if edge >= tables.state_edges[states[level] + 1]:
            level -= 1
            if level >= 0:
                used[chosen[level]] = False
            continue
        j = at[level]
        if j >= m:
            edges[level] += 1
            at[level] = 0
            continue
        at[level] += 1
        row, variable = candidates[j], tables.edges[edge, VARIABLE]
        if used[j] or not store.negated[variable - tables.scalars[N_POSITIVE], row]:
            continue
        work[0] -= 1 + (n + level) // 8
        if work[0] < 0:
            return offsets[: n_found + 1], rows, taken, False
        put(tables, chain, n + level, edge, row)
        if not _may_stand(tables, events, chain, n, n + level, np.int64(_ALWAYS), earliest):
            continue
        if not follow(tables, store, chain, n, n + level, edge, row):
            continue
        target = tables.edges[edge, TARGET]
        if end_in(tables, store, chain, n + level + 1, target) >= 0:
            if n_found == most:
                return offsets[: n_found + 1], rows, taken, False
            start = offsets[n_found]
            end = start + level + 1
            if end > rows.shape[0]:
                rows = np.append(rows, np.empty(end + 64, np.int64))
                taken = np.append(taken, np.empty(end + 64, np.int64))
            rows[start:end] = chain.rows[n : n + level + 1]
            taken[start:end] = chain.edges[n : n + level + 1]
            n_found += 1
            offsets[n_found] = end
            if by_times:
                continue
        used[j], chosen[level] = True, j
        level += 1
        states[level], edges[level], at[level] = target, tables.state_edges[target], 0
    return offsets[: n_found + 1], rows, taken, True


__all__ = ["list_arrangements", "list_intruders"]
