"""Aggregates over events ordered by a key: over a range of keys the sum of numbers, and who has the greatest rank.

What an event needs of the events before it, where one inequality on a key decides which of these it may follow
(GRETA section 4: the edges of the event trend graph, `v.x < NEXT(v).x`; there each event looks at all its
predecessors). Here the keys of all events are sorted once; an event then stands at its place among them, those that an
inequality admits are a range of positions, and a segment tree answers for a range in O(log n). Sums stop at a greatest
number, so that they cannot be had as differences of prefixes (a Fenwick tree): a range is put together from its nodes.

Places are 0..n-1. A tree is arrays of 2 * size entries, size = `tree_size(n)`: node 1 is the root, the children of node
k are 2k and 2k + 1, the leaf of a position is size + position. Bounds for keys that no event has come from a search in
the sorted keys (`first_not_below`, `first_above`).
"""

from __future__ import annotations

from engine.kernels.compile.ways import leaf

MOST = 2**62 - 1
"""Where sums stop: two of them still fit 64 bits."""

NOBODY = -1


@leaf
def tree_size(n):
    """The number of leaves of a tree over n positions, a power of two."""
    size = 1
    while size < n:
        size *= 2
    return size


@leaf
def tree_height(size):
    """Levels of a tree: nodes that an entry, and at most twice as many that a range, looks at."""
    height = 1
    while size > 1:
        size //= 2
        height += 1
    return height


@leaf
def first_not_below(keys, n, value):
    """How many of the n sorted keys are less than a value."""
    low = 0
    high = n
    while low < high:
        middle = (low + high) // 2
        if keys[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low


@leaf
def first_above(keys, n, value):
    """How many of the n sorted keys are not greater than a value."""
    low = 0
    high = n
    while low < high:
        middle = (low + high) // 2
        if keys[middle] <= value:
            low = middle + 1
        else:
            high = middle
    return low


@leaf
def clear(sums, tops):
    """Take all entries out of int64 (2 * size,) each."""
    sums[:] = 0
    tops[:] = NOBODY


@leaf
def enter(sums, tops, ranks, position, number, who):
    """Add a number above 0 at a position, once, on behalf of `who`, whose rank is ranks[who]: int64."""
    node = sums.shape[0] // 2 + position
    while node >= 1:
        sums[node] = min(sums[node] + number, MOST)
        tops[node] = _higher(ranks, tops[node], who)
        node //= 2


@leaf
def totals_between(sums, tops, ranks, low, high):
    """The sum over the positions low..high - 1, at most MOST, and who has the greatest rank there: of several the one
    of least number, NOBODY where none is."""
    size = sums.shape[0] // 2
    total = 0
    top = NOBODY
    a = size + low
    b = size + high
    while a < b:
        if a & 1:
            if sums[a] > 0:
                total = min(total + sums[a], MOST)
                top = _higher(ranks, top, tops[a])
            a += 1
        if b & 1:
            b -= 1
            if sums[b] > 0:
                total = min(total + sums[b], MOST)
                top = _higher(ranks, top, tops[b])
        a //= 2
        b //= 2
    return total, top


@leaf
def mark_between(marks, low, high):
    """Mark the positions low..high - 1 in bool (2 * size,)."""
    size = marks.shape[0] // 2
    a = size + low
    b = size + high
    while a < b:
        if a & 1:
            marks[a] = True
            a += 1
        if b & 1:
            b -= 1
            marks[b] = True
        a //= 2
        b //= 2


@leaf
def is_marked(marks, position):
    """Whether some range that was marked has this position."""
    node = marks.shape[0] // 2 + position
    found = False
    while node >= 1:
        found = found or marks[node]
        node //= 2
    return found


@leaf
def _higher(ranks, one, other):
    """Of two the one of greater rank, then of lesser number."""
    if NOBODY in (one, other):
        return max(one, other)
    if ranks[one] != ranks[other]:
        return one if ranks[one] > ranks[other] else other
    return min(one, other)


__all__ = [
    "MOST",
    "NOBODY",
    "clear",
    "enter",
    "first_above",
    "first_not_below",
    "is_marked",
    "mark_between",
    "totals_between",
    "tree_height",
    "tree_size",
]
