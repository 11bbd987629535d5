"""Numbers for partition keys: an open-addressing hash table over columns of doubles."""

from __future__ import annotations

import numpy as np
from numba import njit

from engine.kernels.hashing import mix

EMPTY = -1


@njit(cache=True, nogil=True)
def number_keys(values, slots, keys, n_known, numbers, start):
    """Give each key the number of its partition, a new one in order of arrival if it has none yet.

    values: int64 (width, n), the bits of the doubles that make up the keys (no NaN, no -0.0). slots: int64 (a power of
    two,), numbers of partitions or EMPTY. keys: int64 (capacity, width), bits by number. numbers: int64 (n,), written
    from `start` on. Returns the first position not done (n when all are) and the number of keys known then: it stops
    when keys are full or more than half of the slots are taken, for the caller to grow them.
    """
    width, n = values.shape
    mask = slots.shape[0] - 1
    for at in range(start, n):
        slot = _hash(values, at) & mask
        while True:
            number = slots[slot]
            if number == EMPTY:
                if n_known >= keys.shape[0] or 2 * n_known >= slots.shape[0]:
                    return at, n_known
                for k in range(width):
                    keys[n_known, k] = values[k, at]
                slots[slot] = n_known
                number = n_known
                n_known += 1
                break
            same = True
            for k in range(width):
                same &= keys[number, k] == values[k, at]
            if same:
                break
            slot = (slot + 1) & mask
        numbers[at] = number
    return n, n_known


@njit(cache=True, nogil=True)
def number_known_keys(values, may_add, slots, keys, n_known, numbers, start, absent):
    """As `number_keys`, but only where may_add (bool (n,)) is a new key numbered; elsewhere it gets `absent`."""
    width, n = values.shape
    mask = slots.shape[0] - 1
    for at in range(start, n):
        slot = _hash(values, at) & mask
        while True:
            number = slots[slot]
            if number == EMPTY:
                if not may_add[at]:
                    number = absent
                    break
                if n_known >= keys.shape[0] or 2 * n_known >= slots.shape[0]:
                    return at, n_known
                for k in range(width):
                    keys[n_known, k] = values[k, at]
                slots[slot] = n_known
                number = n_known
                n_known += 1
                break
            same = True
            for k in range(width):
                same &= keys[number, k] == values[k, at]
            if same:
                break
            slot = (slot + 1) & mask
        numbers[at] = number
    return n, n_known


@njit(cache=True, nogil=True)
def fill_slots(keys, n_known, slots):
    """Enter the first `n_known` keys into empty slots."""
    mask = slots.shape[0] - 1
    slots[:] = EMPTY
    columns = keys.T
    for number in range(n_known):
        slot = _hash(columns, number) & mask
        while slots[slot] != EMPTY:
            slot = (slot + 1) & mask
        slots[slot] = number


@njit(cache=True, nogil=True)
def _hash(values, at):
    state = np.int64(0x2468ACE)
    for k in range(values.shape[0]):
        state = mix(state, values[k, at])
    return state
