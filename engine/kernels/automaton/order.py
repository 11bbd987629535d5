"""The order in which the matches of one last event are told, and the first of them in it.

A match is spelled as numbers that compare as (first event, bindings by variable) do: a tuple is OPEN, its members, END;
an id is its rank among the ids; a variable is the rank of its name. So lists come before what continues them, and an
absent event before any. A beginning of a match, spelled as if it were complete, comes before all that becomes of it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from engine.kernels.automaton.edges import rewrite_chain
from engine.kernels.automaton.found import Found, added, emit, new_found, with_more_events, with_more_matches
from engine.kernels.automaton.tables import (
    ALWAYS,
    KLEENE,
    N_DEPTH,
    N_POSITIVE,
    NAME,
    UNBOUNDED,
    longer_chain,
    new_chain,
)
from engine.kernels.compile.ways import kernel, leaf

END, OPEN, LEAST_ID = 0, 1, 2

HAS_BOUND = 0
"""Positions in Best.state: whether `bound` is one yet, and its length."""
BOUND_LENGTH = 1


class Best(NamedTuple):
    """The first matches of one last event so far, and others that have not been sorted out yet.

    keys: int64, the spelled matches one after the other, that of match k at offsets[k] : offsets[k + 1]. bound: int64,
    the spelled match that all further ones must come before, once there are as many as are wanted. state: int64 (2,).
    """

    found: Found
    keys: npt.NDArray[np.int64]
    offsets: npt.NDArray[np.int64]
    bound: npt.NDArray[np.int64]
    state: npt.NDArray[np.int64]


@kernel
def new_best(tables):
    """None yet."""
    return Best(
        new_found(tables, np.int64(16), np.int64(64)),
        np.empty(64, np.int64),
        np.zeros(17, np.int64),
        np.empty(64, np.int64),
        np.zeros(2, np.int64),
    )


@leaf
def most_numbers(tables, n):
    """Room for a spelled match of n events."""
    return 2 + tables.scalars[N_POSITIVE] * (4 + n * (2 * tables.scalars[N_DEPTH] + 3))


@leaf
def _shared_depth(tables, one, other):
    """How many groups are around both variables."""
    a, b = tables.path_bounds[one], tables.path_bounds[other]
    most = min(tables.path_bounds[one + 1] - a, tables.path_bounds[other + 1] - b)
    depth = 0
    while depth < most and tables.paths[a + depth] == tables.paths[b + depth]:
        depth += 1
    return depth


@leaf
def _close(key, k, is_innermost, kleene, is_empty):
    """End the list of one iteration, or the tuple of its inner ones."""
    if is_innermost and not kleene:
        if is_empty:
            key[k], key[k + 1] = OPEN, END
            return k + 2
        return k
    key[k] = END
    return k + 1


@leaf
def _spell_nested(tables, chain, n, variable, ranks, key, k):
    """The bindings of a variable in repeated groups, iteration by iteration."""
    path = tables.path_bounds[variable]
    depth = tables.path_bounds[variable + 1] - path
    kleene = tables.naming[variable, KLEENE] != 0
    n_open, is_empty = 0, True
    key[k] = OPEN
    k += 1
    current = -1  # the event whose iterations are open
    for at in range(n):
        shared = _shared_depth(tables, variable, chain.variables[at])
        if shared == 0:
            continue
        same = 0
        while same < min(shared, n_open) and chain.iterations[current, same] == chain.iterations[at, same]:
            same += 1
        if same < shared:
            while n_open > same:
                k = _close(key, k, n_open == depth, kleene, is_empty)
                n_open -= 1
            while n_open < shared:
                n_open += 1
                if n_open < depth or kleene:
                    key[k] = OPEN
                    k += 1
                is_empty = True
            current = at
        if chain.variables[at] == variable:
            key[k] = LEAST_ID + ranks[chain.rows[at]]
            k += 1
            is_empty = False
            current = at
    while n_open > 0:
        k = _close(key, k, n_open == depth, kleene, is_empty)
        n_open -= 1
    key[k] = END
    return k + 1


@leaf
def _spell_flat(chain, n, variable, ranks, key, k):
    """The bindings of a variable in no group."""
    key[k] = OPEN
    k += 1
    for at in range(n):
        if chain.variables[at] == variable:
            key[k] = LEAST_ID + ranks[chain.rows[at]]
            k += 1
    key[k] = END
    return k + 1


@leaf
def _has_any(tables, chain, n, variable):
    """Whether a variable is among the bindings: it, or its outermost group, has an event."""
    nested = tables.path_bounds[variable + 1] > tables.path_bounds[variable]
    for at in range(n):
        if chain.variables[at] == variable or (nested and _shared_depth(tables, variable, chain.variables[at]) > 0):
            return True
    return False


@leaf
def spell(tables, chain, n, ranks, key):
    """Spell a match of n events; returns how many numbers that are. `key`: int64 with `most_numbers`."""
    key[0] = chain.rows[0]
    k = np.int64(1)
    for variable in range(tables.scalars[N_POSITIVE]):
        if not _has_any(tables, chain, n, variable):
            continue
        key[k] = LEAST_ID + tables.naming[variable, NAME]
        if tables.path_bounds[variable + 1] > tables.path_bounds[variable]:
            k = _spell_nested(tables, chain, n, variable, ranks, key, k + 1)
        else:
            k = _spell_flat(chain, n, variable, ranks, key, k + 1)
    key[k] = END
    return k + 1


@leaf
def _spell_least(tables, chain, n, ranks, least, j, key):
    """Spell what no continuation of n events by candidates from j on comes before; returns its length, and whether
    nothing was left open: what follows the numbers is not known otherwise."""
    key[0] = chain.rows[0]
    k = np.int64(1)
    for variable in range(tables.scalars[N_POSITIVE]):
        nested = tables.path_bounds[variable + 1] > tables.path_bounds[variable]
        if _has_any(tables, chain, n, variable):
            key[k] = LEAST_ID + tables.naming[variable, NAME]
            if nested:
                k = _spell_nested(tables, chain, n, variable, ranks, key, k + 1)
            else:
                k = _spell_flat(chain, n, variable, ranks, key, k + 1)
        elif nested or tables.naming[variable, ALWAYS] == 0 or least[variable, j] == UNBOUNDED:
            return k, False
        else:
            key[k], key[k + 1] = LEAST_ID + tables.naming[variable, NAME], OPEN
            key[k + 2], key[k + 3] = LEAST_ID + least[variable, j], END
            k += 4
    key[k] = END
    return k + 1, True


@leaf
def _compared(one, start, end, other, other_start, other_end):
    """-1, 0, 1: how two runs of numbers compare; 0 also when one begins the other, for no spelled match does."""
    n = min(end - start, other_end - other_start)
    for k in range(n):
        a, b = one[start + k], other[other_start + k]
        if a != b:
            return -1 if a < b else 1
    return 0


@leaf
def is_beyond(tables, chain, n, ranks, least, j, best, key):
    """Whether all that may become of the first n events of a chain comes after the matches that are wanted."""
    if best.state[HAS_BOUND] == 0:
        return False
    length, whole = _spell_least(tables, chain, n, ranks, least, j, key)
    order = _compared(key, np.int64(0), length, best.bound, np.int64(0), best.state[BOUND_LENGTH])
    return order > 0 or (order == 0 and whole)


@kernel
def _in_order(keys, offsets, n):
    """The numbers of n spelled matches in order, of equal ones the first alone: int64 (k,)."""
    order, other = np.arange(n), np.empty(n, np.int64)
    width = 1
    while width < n:
        start = 0
        while start < n:
            left, middle, end = start, min(start + width, n), min(start + 2 * width, n)
            right, at = middle, start
            while left < middle or right < end:
                from_left = right >= end
                if left < middle and right < end:
                    i, j = order[left], order[right]
                    from_left = _compared(keys, offsets[i], offsets[i + 1], keys, offsets[j], offsets[j + 1]) <= 0
                if from_left:
                    other[at] = order[left]
                    left += 1
                else:
                    other[at] = order[right]
                    right += 1
                at += 1
            start = end
        order, other = other, order
        width *= 2
    kept = 0
    for k in range(n):
        if kept > 0:
            i, j = order[kept - 1], order[k]
            if _compared(keys, offsets[i], offsets[i + 1], keys, offsets[j], offsets[j + 1]) == 0:
                continue
        order[kept] = order[k]
        kept += 1
    return order[:kept]


@kernel
def _sifted(tables, best, wanted):
    """Only the first `wanted` matches, in order; when there are so many the last one is the bound from now on."""
    order = _in_order(best.keys, best.offsets, best.found.counts[0])
    n = min(order.shape[0], wanted)
    found = new_found(tables, best.found.partition.shape[0], best.found.rows.shape[0])
    keys = np.empty(best.keys.shape[0], np.int64)
    offsets = np.zeros(best.offsets.shape[0], np.int64)
    for k in range(n):
        found = added(found, best.found, order[k])
        start, end = best.offsets[order[k]], best.offsets[order[k] + 1]
        offsets[k + 1] = offsets[k] + end - start
        keys[offsets[k] : offsets[k + 1]] = best.keys[start:end]
    bound = best.bound
    if n == wanted:
        length = offsets[n] - offsets[n - 1]
        if bound.shape[0] < length:
            bound = np.empty(2 * length, np.int64)
        bound[:length] = keys[offsets[n - 1] : offsets[n]]
        best.state[HAS_BOUND], best.state[BOUND_LENGTH] = 1, length
    return Best(found, keys, offsets, bound, best.state)


@kernel
def with_match(tables, store, chain, n, partition, end, ranks, wanted, best):
    """The matches with another one of n events, of which `wanted` matter: the first ones."""
    k = best.found.counts[0]
    found, keys, offsets = best.found, best.keys, best.offsets
    while found.rows.shape[0] - found.counts[1] < n:
        found = with_more_events(found)
    if k >= found.partition.shape[0]:
        found = with_more_matches(found)
        offsets = np.append(offsets, np.zeros(found.partition.shape[0] + 1 - offsets.shape[0], np.int64))
    capacity = offsets[k] + most_numbers(tables, n)
    if keys.shape[0] < capacity:
        keys = np.append(keys, np.empty(capacity, np.int64))
    best = Best(found, keys, offsets, best.bound, best.state)
    length = np.int64(0)
    if ranks.shape[0] > 0:
        length = spell(tables, chain, n, ranks, keys[offsets[k] :])
        if best.state[HAS_BOUND] != 0:
            own = offsets[k]
            if _compared(keys, own, own + length, best.bound, np.int64(0), best.state[BOUND_LENGTH]) >= 0:
                return best
    offsets[k + 1] = offsets[k] + length
    emit(tables, store, chain, n, partition, end, found)
    if wanted < UNBOUNDED // 4 and k + 1 >= 2 * wanted:
        best = _sifted(tables, best, wanted)
    return best


@kernel
def taken_over(tables, best, wanted, found):
    """The matches that were found before and the first `wanted` of the last event, in their order."""
    if best.found.counts[0] > 1:
        best = _sifted(tables, best, wanted)
    for k in range(min(best.found.counts[0], wanted)):
        found = added(found, best.found, np.int64(k))
    return found


@kernel
def listing_order(tables, rows, edges, offsets, ranks):
    """The numbers of matches by last event, first event and bindings, of equal ones the first alone: int64 (k,).

    rows, edges: int64 (m,), the events of match k are those of offsets[k] : offsets[k + 1].

    offsets: int64 (n + 1,).
    """
    n = offsets.shape[0] - 1
    keys, starts = np.empty(64, np.int64), np.zeros(n + 1, np.int64)
    chain = new_chain(tables, np.int64(66))
    for k in range(n):
        start, end = offsets[k], offsets[k + 1]
        while chain.rows.shape[0] < end - start + 2:
            chain = longer_chain(tables, chain, np.int64(0))
        rewrite_chain(tables, chain, rows[start:end], edges[start:end])
        capacity = starts[k] + 1 + most_numbers(tables, end - start)
        if keys.shape[0] < capacity:
            keys = np.append(keys, np.empty(capacity, np.int64))
        keys[starts[k]] = rows[end - 1]
        length = spell(tables, chain, end - start, ranks, keys[starts[k] + 1 :])
        starts[k + 1] = starts[k] + 1 + length
    return _in_order(keys, starts, n)
