"""What stands around the pairs of a first and a last event whose matches are searched, in order of time, and which of
it each edge may bind.
"""

from __future__ import annotations

import numpy as np

from engine.kernels.columns.partitions import BROADCAST
from engine.kernels.compile.ways import kernel, leaf
from engine.kernels.pairs.pairs import first_from
from engine.kernels.pairs.state import BEGIN, TAKE

BLOCK = 64
"""So many events are passed over together where none comes late enough."""

_SORT = 8
"""How many times longer sorting a row takes than a look at one that is in order."""


@leaf
def _is_before(events, i, j):
    """Whether i comes before j in stream order."""
    return events.lo_ms[i] < events.lo_ms[j] or (events.lo_ms[i] == events.lo_ms[j] and i < j)


@kernel
def _merged(events, one, other):
    """The rows of two lists, each in stream order, each row once."""
    if other.shape[0] == 0:
        return one.copy()
    found = np.empty(one.shape[0] + other.shape[0], np.int64)
    return found[: _merge(events, one, other, found)]


@leaf
def _merge(events, one, other, found):
    n, a, b = 0, 0, 0
    while a < one.shape[0] or b < other.shape[0]:
        if b == other.shape[0] or (a < one.shape[0] and _is_before(events, one[a], other[b])):
            found[n] = one[a]
            a += 1
        else:
            if a < one.shape[0] and one[a] == other[b]:
                a += 1
            found[n] = other[b]
            b += 1
        n += 1
    return n


@kernel
def _between(events, rows, starts, key, earliest_ms, latest_ms):
    """The rows of a group and of those in every group with such times, in stream order."""
    begin = first_from(events, rows, starts[key + 1], starts[key + 2], earliest_ms)
    end = first_from(events, rows, begin, starts[key + 2], latest_ms + 1)
    common = first_from(events, rows, starts[BROADCAST + 1], starts[BROADCAST + 2], earliest_ms)
    stop = first_from(events, rows, common, starts[BROADCAST + 2], latest_ms + 1)
    return _merged(events, rows[begin:end], rows[common:stop])


@kernel
def around(events, members, starts, pairs, begin, end):
    """The rows that may follow the first event of the pairs begin..end-1, up to the latest of their last ones, and
    these, in stream order."""
    first, last = pairs[begin, 0], pairs[end - 1, 1]
    rows = _between(events, members, starts, pairs[begin, 2], events.lo_ms[first], events.lo_ms[last])
    return _merged(events, rows, pairs[begin:end, 1])


@kernel
def positions_around(events, rows, pairs, begin, end):
    """Where rows may follow one: (after, ordinal, n): the first position after each one, which last event of the pairs
    each row is, -1 for none, and how many there are; int64 (n_rows,)."""
    after = np.empty(rows.shape[0], np.int64)
    ordinal = np.full(rows.shape[0], -1, np.int64)
    _position(events, rows, pairs, begin, end, after, ordinal)
    return after, ordinal, end - begin


@leaf
def _position(events, rows, pairs, begin, end, after, ordinal):
    n = rows.shape[0]
    stop = n
    for at in range(n - 1, -1, -1):
        if at + 1 < n and events.lo_ms[rows[at + 1]] != events.lo_ms[rows[at]]:
            stop = at + 1
        after[at] = stop if events.strict else at + 1
    at = 0
    for q in range(begin, end):
        while rows[at] != pairs[q, 1]:
            at += 1
        ordinal[at] = q - begin


@leaf
def first_after(events, rows, first):
    """The first position of a row that may follow `first`."""
    begin, end = 0, rows.shape[0]
    while begin < end:
        middle = (begin + end) // 2
        row = rows[middle]
        follows = events.lo_ms[row] > events.lo_ms[first]
        if not follows and not events.strict:
            follows = events.lo_ms[row] == events.lo_ms[first] and row > first
        if follows:
            end = middle
        else:
            begin = middle + 1
    return begin


@kernel
def reach_of(kleene, begin_ok, rows, after, ordinal, n_lasts):
    """The first last event (its ordinal, n_lasts for none) that a prefix can lead to which ends in such a row of such a
    component, as far as types and local predicates go: int64 (n_steps, n); and the one that the first event alone can
    lead to when the next may stand at a position or after it: int64 (n + 1,)."""
    n_steps = kleene.shape[0]
    n = rows.shape[0]
    reach = np.empty((n_steps, n), np.int64)
    onward = np.full((n_steps + 1, n + 1), n_lasts, np.int64)  # the same from the first such row from a position on
    for at in range(n - 1, -1, -1):
        onward[n_steps, at] = ordinal[at] if ordinal[at] >= 0 else onward[n_steps, at + 1]
        for step in range(n_steps):
            reach[step, at] = onward[n_steps if step >= n_steps - 2 else step + 1, after[at]]
        for step in range(1, n_steps - 1):
            onward[step, at] = reach[step, at] if begin_ok[step, rows[at]] else onward[step, at + 1]
    return reach, onward[n_steps if n_steps <= 2 else 1]


@leaf
def _order(rows, by_rank, position_of, order):
    """The positions of the rows by rank, where all rows that may be around are known by rank; position_of: -1 for each
    row, before and after."""
    for at in range(rows.shape[0]):
        position_of[rows[at]] = at
    n = 0
    for row in by_rank:
        if position_of[row] >= 0:
            order[n] = position_of[row]
            position_of[row] = -1
            n += 1


@kernel
def choices_of(kleene, begin_ok, take_ok, rows, ordinal, reach, n_lasts, ranks, by_rank, position_of):
    """The positions of the rows that each edge may bind, in the order of ranks: (choices int64, edges int64 (2 *
    n_steps + 1,), in_order): those of edge 2 * step (begin) or 2 * step + 1 (take) are choices[edges[e]:edges[e + 1]].
    in_order: ranks ascend with time. by_rank, position_of: see `_order`."""
    n_steps = kleene.shape[0]
    final = n_steps - 1
    n = rows.shape[0]
    in_order = True
    for at in range(1, n):
        in_order = in_order and ranks[rows[at - 1]] < ranks[rows[at]]
    order = np.arange(n)
    if not in_order:
        if _SORT * n < by_rank.shape[0]:
            order = np.argsort(ranks[rows])
        else:
            _order(rows, by_rank, position_of, order)
    edges = np.zeros(2 * n_steps + 1, np.int64)
    choices = np.empty(n * max(2 * n_steps - 1, 1), np.int64)
    n_choices = 0
    for edge in range(1, 2 * n_steps):  # the first event is bound
        edges[edge] = n_choices
        step = edge // 2
        if edge % 2 == TAKE and not kleene[step]:
            continue
        for k in range(n):
            at = order[k]
            if not (begin_ok[step, rows[at]] if edge % 2 == BEGIN else take_ok[step, rows[at]]):
                continue
            if step == final and not kleene[step]:
                is_useful = ordinal[at] >= 0
            else:
                is_useful = reach[step, at] < n_lasts or (step == final and ordinal[at] >= 0)
            if is_useful:
                choices[n_choices] = at
                n_choices += 1
    edges[2 * n_steps] = n_choices
    return choices[:n_choices], edges, in_order


@kernel
def latest_of(choices):
    """The latest position of each block of choices."""
    n = choices.shape[0]
    latest = np.full(n // BLOCK + 1, -1, np.int64)
    for at in range(n):
        latest[at // BLOCK] = max(latest[at // BLOCK], choices[at])
    return latest


@kernel
def negated_around(events, denied, denied_starts, key, first, last, within_ms):
    """The rows that each negation may forbid, as far as matches reach, and where those of each begin:
    both int64."""
    n_negations = denied_starts.shape[0]
    starts = np.zeros(n_negations + 1, np.int64)
    rows = np.empty(0, np.int64)
    earliest_ms, latest_ms = events.lo_ms[first] - within_ms, events.lo_ms[last] + within_ms
    for k in range(n_negations):
        own = _between(events, denied, denied_starts[k], key, earliest_ms, latest_ms)
        rows = np.concatenate((rows, own))
        starts[k + 1] = rows.shape[0]
    return rows, starts


@leaf
def first_behind(events, rows, begin, end, row, strictly):
    """The first position in rows[begin:end] that comes after `row`, strictly: at a later time."""
    while begin < end:
        middle = (begin + end) // 2
        other = rows[middle]
        if events.lo_ms[other] > events.lo_ms[row] if strictly else _is_before(events, row, other):
            end = middle
        else:
            begin = middle + 1
    return begin


@kernel
def rows_by_rank(members, pairs, ranks):
    """All rows that may be around pairs, in the order of their ranks, each once: int64."""
    is_there = np.zeros(ranks.shape[0], np.bool_)
    is_there[members] = True
    is_there[pairs[:, 1]] = True
    rows = np.flatnonzero(is_there)
    return rows[np.argsort(ranks[rows])]


__all__ = [
    "BLOCK",
    "around",
    "choices_of",
    "first_after",
    "first_behind",
    "latest_of",
    "negated_around",
    "positions_around",
    "reach_of",
    "rows_by_rank",
]
