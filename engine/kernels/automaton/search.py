"""Skip till any match over an automaton: the matches that end in given events, in the order in which they are told.

For each last event a pass backwards over the events of the window finds, for every state, the last event from which on
a match can still be completed as far as types and local predicates tell. The search forwards, depth first, takes such
events alone, so that it is given up only where a predicate between events fails, where the work for this last event is
spent, or where all that may come is after the matches that are wanted.

The work that one last event may take depends on the stream up to it alone, never on the batches that the stream came
in: it is paid from an account that each event of the stream adds to.
"""

from __future__ import annotations

import numpy as np

from engine.kernels.automaton.conditions import add_visits, add_visits_of
from engine.kernels.automaton.edges import (
    end_in,
    first_since,
    follow,
    gather,
    is_free,
    is_free_after,
    passes_having,
    rewrite_chain,
)
from engine.kernels.automaton.found import partition_of_match
from engine.kernels.automaton.order import HAS_BOUND, is_beyond, most_numbers, new_best, taken_over, with_match
from engine.kernels.automaton.tables import (
    CHECKS,
    CHECKS_END,
    EXIT_CHECKS,
    EXIT_CHECKS_END,
    HAVING,
    N_POSITIVE,
    SOURCE,
    TARGET,
    UNBOUNDED,
    VARIABLE,
    WITHIN_MS,
    longer_chain,
    new_chain,
)
from engine.kernels.compile.ways import kernel, leaf

DONE, NEEDS_RANKS, STOPPED = 0, 1, 2

BALANCE, AT_POSITION = 0, 1
"""Positions in the account: search steps that are left, and the position in the stream up to which it has been paid
in."""

VISITS_PER_STEP = 64
"""Looks at an event in a pass over many, in the time of one search step."""
EVENTS_PER_STEP = 16
"""Events of a beginning in the time of a step, when it goes on."""
VISITS_AT_CHAIN_PER_STEP = 32
"""Looks of predicates at its events in the time of a step."""
STEPS_PER_EVENT = 4
"""What it costs to tell an event of a match, for it takes memory."""


@leaf
def allowance_at(account, terms, position):
    """How much work the event at this position of the stream may take; pays in for all events up to it.

    account: int64 (2,). terms: int64 (3,): the most work for one event, the most that the account may hold, what each
    event of the stream adds.
    """
    account[BALANCE] = min(terms[1], account[BALANCE] + terms[2] * max(position + 1 - account[AT_POSITION], 0))
    account[AT_POSITION] = max(account[AT_POSITION], position + 1)
    return min(terms[0], max(account[BALANCE], 0))


@leaf
def settle(account, spent):
    """Pay for work that has been done."""
    account[BALANCE] -= spent


@leaf
def usable(tables, store, candidates, m):
    """Leave of the candidates those that some variable may take, from the first one on that may begin a match; their
    number."""
    kept, begun = 0, False
    for k in range(m):
        row = candidates[k]
        if not begun:
            for edge in range(tables.state_edges[0], tables.state_edges[1]):
                begun = begun or store.begin[tables.edges[edge, VARIABLE], row]
        if not begun:
            continue
        fits = False
        for variable in range(tables.scalars[N_POSITIVE]):
            fits = fits or store.begin[variable, row]
        if fits:
            candidates[kept] = row
            kept += 1
    return kept


@leaf
def _mark(tables, store, candidates, m, completable, following, work):
    """completable[s]: the last candidate from which on state s leads to a match that the last of m candidates ends, -1:
    none. following[v, j]: the first candidate from j on that variable v may take, m if none.

    Returns whether a match can begin.
    """
    n_edges, n_positive = tables.edges.shape[0], tables.scalars[N_POSITIVE]
    completable[:] = -1
    for variable in range(n_positive):
        following[variable, m] = m
        for j in range(m - 1, -1, -1):
            following[variable, j] = j if store.begin[variable, candidates[j]] else following[variable, j + 1]
    visits = m * n_positive
    n_left = 0
    for s in range(completable.shape[0]):
        if tables.state_edges[s] < tables.state_edges[s + 1]:
            n_left += tables.edges[tables.state_edges[s], VARIABLE] < n_positive
    for j in range(m - 1, -1, -1):
        if n_left == 0:
            break
        row = candidates[j]
        visits += n_edges
        for e in range(n_edges):
            source, variable = tables.edges[e, SOURCE], tables.edges[e, VARIABLE]
            if completable[source] >= 0 or variable >= n_positive or not store.begin[variable, row]:
                continue
            target = tables.edges[e, TARGET]
            if j == m - 1:
                completes = tables.state_exits[target + 1] > tables.state_exits[target]
            else:
                completes = completable[target] > j
            if completes:
                completable[source] = j
                n_left -= 1
    work[0] -= visits // VISITS_PER_STEP
    return completable[0] >= 0


@kernel
def _least_ranks(tables, store, candidates, m, ranks):
    """int64 (n_positive, m + 1): the least rank of an event from candidate j on that a variable may take."""
    n_positive = tables.scalars[N_POSITIVE]
    least = np.full((n_positive, m + 1), UNBOUNDED, np.int64)
    for variable in range(n_positive):
        for j in range(m - 1, -1, -1):
            least[variable, j] = least[variable, j + 1]
            if store.begin[variable, candidates[j]]:
                least[variable, j] = min(least[variable, j], ranks[candidates[j]])
    return least


@kernel
def _visits_by_edge(tables):
    """int64 (n_edges, 2, 3): looks at events to follow an edge, and to end where it leads, see `add_visits`."""
    n_edges = tables.edges.shape[0]
    visits = np.zeros((n_edges, 2, 3), np.int64)
    for edge in range(n_edges):
        for ends in range(2):
            first, end = tables.edges[edge, CHECKS], tables.edges[edge, CHECKS_END]
            add_visits(tables, first, end, visits[edge, ends])
        state = tables.edges[edge, TARGET]
        for end in range(tables.state_exits[state], tables.state_exits[state + 1]):
            add_visits(tables, tables.exits[end, EXIT_CHECKS], tables.exits[end, EXIT_CHECKS_END], visits[edge, 1])
        if tables.scalars[HAVING] >= 0:
            add_visits_of(tables, tables.scalars[HAVING], visits[edge, 1])
    return visits


@leaf
def _steps(visits, n):
    """What it costs to extend a chain to n events."""
    return 1 + n // EVENTS_PER_STEP + (visits[0] + n * (visits[1] + n * visits[2])) // VISITS_AT_CHAIN_PER_STEP


@kernel
def _ended(
    tables, store, chain, visits, last, level, state, partition, ranks, wanted, work, best
):  # fmt: skip
    """Add the matches of `level` events in this state that the last event ends: (status, the best ones, the chain)."""
    if chain.rows.shape[0] < level + 3:
        chain = longer_chain(tables, chain, level)
    for edge in range(tables.state_edges[state], tables.state_edges[state + 1]):
        target = tables.edges[edge, TARGET]
        if not store.begin[tables.edges[edge, VARIABLE], last]:
            continue
        if tables.state_exits[target + 1] == tables.state_exits[target]:
            continue
        work[0] -= _steps(visits[edge, 1], level + 1)
        if work[0] < 0:
            return STOPPED, best, chain
        if not follow(tables, store, chain, np.int64(0), level, edge, last):
            continue
        end = end_in(tables, store, chain, level + 1, target)
        if end >= 0 and _is_match(tables, store, chain, level + 1, partition, work):
            if best.found.counts[0] > 0 and ranks.shape[0] == 0:
                return NEEDS_RANKS, best, chain
            work[0] -= STEPS_PER_EVENT * (level + 2)
            best = with_match(tables, store, chain, level + 1, partition, end, ranks, wanted, best)
        if work[0] < 0:
            return STOPPED, best, chain
    return DONE, best, chain


@kernel
def _search(
    tables, store, chain, visits, candidates, m, completable, following, partition, ranks, wanted, work, best
):  # fmt: skip
    """Add the matches that end in the last of m candidates to the best ones: (status, these, the chain).

    What ends at once comes before what goes on, as it does in listing order.
    """
    states = np.empty(m + 1, np.int64)
    edges = np.empty(m + 1, np.int64)
    at = np.empty(m + 1, np.int64)
    after = np.zeros(m + 1, np.int64)
    key = np.empty(0, np.int64)
    least = np.empty((0, 0), np.int64)
    level, last = np.int64(0), candidates[m - 1]
    chain.counters[0, :] = 0
    states[0], edges[0], at[0] = 0, tables.state_edges[0], 0
    status, best, chain = _ended(
        tables, store, chain, visits, last, level, states[0], partition, ranks, wanted, work, best
    )  # fmt: skip
    while level >= 0 and status == DONE:
        requested, level = _descend(
            tables, store, chain, visits, candidates, m, completable, following, states, edges, at, after,
            best.state[HAS_BOUND] != 0, level, work,
        )  # fmt: skip
        if requested == STOPPED:
            return STOPPED, best, chain
        if level < 0:
            break
        if requested == _BOUND:
            if key.shape[0] == 0:
                key = np.empty(most_numbers(tables, m), np.int64)
                least = _least_ranks(tables, store, candidates, m, ranks)
            work[0] -= level // 8
            if is_beyond(tables, chain, level + 1, ranks, least, at[level], best, key):
                continue
            level = _deeper(tables, states, edges, at, after, level)
        status, best, chain = _ended(
            tables, store, chain, visits, last, level, states[level], partition, ranks, wanted, work, best
        )  # fmt: skip
    return status, best, chain


_BOUND, _ENDS = 3, 4
"""What a search has come to: a chain that may come after all that is wanted, one that the last event may end."""


@leaf
def _descend(
    tables, store, chain, visits, candidates, m, completable, following, states, edges, at, after, has_bound, level,
    work,
):  # fmt: skip
    """Go on with the search to the next chain that asks for more than to be extended: (what it asks for, the level)."""
    last = candidates[m - 1]
    while level >= 0:
        state, edge = states[level], edges[level]
        if edge >= tables.state_edges[state + 1]:
            level -= 1
            continue
        target = tables.edges[edge, TARGET]
        j = following[tables.edges[edge, VARIABLE], at[level]]
        if j >= min(m - 1, completable[target]):
            edges[level] += 1
            at[level] = after[level]
            continue
        at[level] = j + 1
        work[0] -= _steps(visits[edge, 0], level + 1)
        if work[0] < 0:
            return STOPPED, level
        if not follow(tables, store, chain, np.int64(0), level, edge, candidates[j]):
            continue
        if has_bound:
            return _BOUND, level
        level = _deeper(tables, states, edges, at, after, level)
        if chain.rows.shape[0] < level + 3:  # `_ended` makes it longer
            return _ENDS, level
        for end in range(tables.state_edges[target], tables.state_edges[target + 1]):
            exits = tables.edges[end, TARGET]
            if (
                store.begin[tables.edges[end, VARIABLE], last]
                and tables.state_exits[exits + 1] > tables.state_exits[exits]
            ):
                return _ENDS, level
    return DONE, level


@leaf
def _deeper(tables, states, edges, at, after, level):
    """The next level, where the edge of this one leads."""
    target, here = tables.edges[edges[level], TARGET], at[level]
    level += 1
    states[level], edges[level], at[level], after[level] = target, tables.state_edges[target], here, here
    return level


@kernel
def _is_match(tables, store, chain, n, partition, work):
    """Whether a complete chain is a match of this partition; with less than no work left that is not known."""
    if partition_of_match(tables, store, chain, n, partition) != partition:
        return False
    if not passes_having(tables, store, chain, n):
        return False
    return is_free(tables, store, chain, n, partition, work) and work[0] >= 0


@kernel
def list_matches(tables, store, position, ranks, lasts, first_last, most, terms, account, was_cut, found):
    """Add the matches that end in lasts[first_last] and later ones, in order, until there are `most`.

    position: int64 (n_rows,), positions in the stream. ranks: int64 (n_rows,), the positions of ids among all ids
    around; empty while nobody needs them. lasts: int64, rows that may end a match; a broadcast row ends matches of
    every partition. terms, account: see `allowance_at`. was_cut: bool (n_lasts,), written: not all matches of a last
    event are there. Returns (status, number of the last event, the matches): with NEEDS_RANKS it is to be asked again
    from that one on, with ranks.

    lasts: int64 (n_lasts,).
    """
    n_partitions = store.starts.shape[0] - 2
    candidates = np.empty(256, np.int64)
    following = np.empty((tables.scalars[N_POSITIVE], 257), np.int64)
    completable = np.empty(tables.state_edges.shape[0] - 1, np.int64)
    chain = new_chain(tables, np.int64(66))
    work = np.zeros(1, np.int64)
    visits = _visits_by_edge(tables)
    for number in range(first_last, lasts.shape[0]):
        last = lasts[number]
        wanted = most - found.counts[0]
        if wanted <= 0:
            return DONE, number, found
        allowance = allowance_at(account, terms, position[last])
        work[0] = allowance
        best = new_best(tables)
        status = DONE
        least = store.t_ms[last] - tables.scalars[WITHIN_MS]
        own = store.partition[last]
        begin, stop = (own, own + 1) if own >= 0 else (-1, n_partitions)
        for partition in range(begin, stop):
            from_own = first_since(store, np.int64(partition), least)
            if partition >= 0 and from_own > last:
                continue
            earliest = min(first_since(store, np.int64(-1), least), from_own)
            m = gather(store, partition, earliest, last + 1, candidates)
            if m > candidates.shape[0]:
                candidates = np.empty(2 * m, np.int64)
                following = np.empty((tables.scalars[N_POSITIVE], 2 * m + 1), np.int64)
                gather(store, partition, earliest, last + 1, candidates)
            work[0] -= 1 + m // VISITS_PER_STEP
            if work[0] < 0:
                status = STOPPED
                break
            m = usable(tables, store, candidates, m)
            if m == 0 or not _mark(tables, store, candidates, m, completable, following, work):
                continue
            status, best, chain = _search(
                tables, store, chain, visits, candidates, m, completable, following, np.int64(partition), ranks,
                wanted, work, best,
            )  # fmt: skip
            if status != DONE:
                break
        if status == NEEDS_RANKS:
            return NEEDS_RANKS, number, found
        was_cut[number] = status == STOPPED
        settle(account, allowance - work[0])
        found = taken_over(tables, best, wanted, found)
    return DONE, lasts.shape[0], found


@kernel
def free_after(tables, store, position, partition, exit, offsets, rows, edges, terms, account, was_cut):
    """bool (n,): which of n matches have no negated pattern in a position at their end.

    All events up to first + WITHIN are in the store, and the matches are in the order of their first events. Their
    events: rows, edges at offsets[k] : offsets[k + 1]. terms, account: see `allowance_at`; a match is paid for at the
    position of its first event. was_cut: bool (n,), written: that was not enough, and it is not known.

    position: int64 (n_rows,), positions in the stream. partition, exit: int64 (n,), of the matches, and the edges by
    which they end. offsets: int64 (n + 1,); rows, edges: int64 (m,).
    """
    n = partition.shape[0]
    free = np.zeros(n, np.bool_)
    chain = new_chain(tables, np.int64(66))
    work = np.zeros(1, np.int64)
    for k in range(n):
        start, end = offsets[k], offsets[k + 1]
        while chain.rows.shape[0] < end - start + 2:
            chain = longer_chain(tables, chain, np.int64(0))
        length = rewrite_chain(tables, chain, rows[start:end], edges[start:end])
        allowance = allowance_at(account, terms, position[rows[start]])
        work[0] = allowance - 1
        free[k] = is_free_after(tables, store, chain, np.int64(length), partition[k], exit[k], work) and work[0] >= 0
        was_cut[k] = work[0] < 0
        settle(account, allowance - work[0])
    return free
