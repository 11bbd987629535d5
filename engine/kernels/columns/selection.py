"""What is chosen of listed matches one after the other: each choice rests on those before it."""

from __future__ import annotations

import numpy as np

from engine.kernels.columns.hashing import mix
from engine.kernels.compile.ways import kernel, leaf

LEAST_CAPACITY = 64
"""Slots of the smallest table of consumed events, a power of two."""


@kernel
def chosen_apart(owners, begins_ms, ends_ms, latest_ms):
    """bool (n,): which of n matches begin after the end of the one that their owner has chosen last.

    In the order of choice. owners: int64 (n,), numbers; begins_ms, ends_ms: int64 (n,); latest_ms: int64 (n_owners,),
    the end of the match chosen last by each, written.
    """
    n = owners.shape[0]
    chosen = np.zeros(n, np.bool_)
    for k in range(n):
        if begins_ms[k] > latest_ms[owners[k]]:
            latest_ms[owners[k]] = ends_ms[k]
            chosen[k] = True
    return chosen


@leaf
def _slot(table, rows, owner, event):
    """The slot of this owner's event in an open table of numbers of rows: one that has it, or an empty one (-1)."""
    last = table.shape[0] - 1
    at = mix(mix(np.int64(0x2345678), owner), event) & last
    while table[at] >= 0 and (rows[table[at], 0] != owner or rows[table[at], 1] != event):
        at = (at + 1) & last
    return at


@leaf
def _fill(table, rows, n):
    """Write n rows into an empty table."""
    table[:] = -1
    for k in range(n):
        table[_slot(table, rows, rows[k, 0], rows[k, 1])] = k


@kernel
def unconsumed(owners, matches, offsets, events, ends_ms, consumed):
    """CONSUME: (bool (n,), which of n entries bind no event that their owner has consumed; all that is consumed then).

    In listing order. owners: int64 (n,), numbers; matches: int64 (n,), what each binds is at offsets[matches[k]] :
    offsets[matches[k] + 1] of events and ends_ms, int64: numbers of events, and when these end. consumed: int64
    (m, 3), owner, event, end of what was consumed before, each once; what entries that are accepted bind is added.

    offsets: int64 (n_matches + 1,). events, ends_ms: int64 (m,).
    """
    n, n_rows = owners.shape[0], consumed.shape[0]
    accepted = np.zeros(n, np.bool_)
    capacity = LEAST_CAPACITY
    while capacity < 2 * n_rows:
        capacity *= 2
    rows = np.empty((capacity // 2, 3), np.int64)
    rows[:n_rows] = consumed
    table = np.empty(capacity, np.int64)
    _fill(table, rows, n_rows)
    for k in range(n):
        start, end = offsets[matches[k]], offsets[matches[k] + 1]
        is_free = True
        for at in range(start, end):
            if table[_slot(table, rows, owners[k], events[at])] >= 0:
                is_free = False
                break
        if not is_free:
            continue
        accepted[k] = True
        for at in range(start, end):
            if n_rows == rows.shape[0]:
                rows = np.concatenate((rows, np.empty((n_rows, 3), np.int64)))
                table = np.empty(2 * table.shape[0], np.int64)
                _fill(table, rows, n_rows)
            slot = _slot(table, rows, owners[k], events[at])
            if table[slot] < 0:
                rows[n_rows, 0], rows[n_rows, 1], rows[n_rows, 2] = owners[k], events[at], ends_ms[at]
                table[slot] = n_rows
                n_rows += 1
    return accepted, rows[:n_rows].copy()


@leaf
def _is_after(numbers, offsets, one, other):
    """Whether one sequence compares as greater than the other; one that begins the other is less."""
    a, b = offsets[one], offsets[other]
    length, other_length = offsets[one + 1] - a, offsets[other + 1] - b
    for k in range(min(length, other_length)):
        if numbers[a + k] != numbers[b + k]:
            return numbers[a + k] > numbers[b + k]
    return length > other_length


@kernel
def order_of_sequences(numbers, offsets):
    """int64 (n,): the order of n sequences of numbers as tuples compare, equal ones as they come.

    Sequence k is numbers[offsets[k] : offsets[k + 1]], int64.

    offsets: int64 (n + 1,).
    """
    n = offsets.shape[0] - 1
    order, other = np.arange(n), np.empty(n, np.int64)
    width = 1
    while width < n:
        for start in range(0, n, 2 * width):
            middle, end = min(start + width, n), min(start + 2 * width, n)
            one, two = start, middle
            for at in range(start, end):
                if one < middle and (two >= end or not _is_after(numbers, offsets, order[one], order[two])):
                    other[at] = order[one]
                    one += 1
                else:
                    other[at] = order[two]
                    two += 1
        order, other = other, order
        width *= 2
    return order


__all__ = ["chosen_apart", "order_of_sequences", "unconsumed"]
