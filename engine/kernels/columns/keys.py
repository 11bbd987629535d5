"""Numbers for partition keys: an open-addressing hash table over columns of doubles.

Keys of one column that are whole numbers close to each other need none: an array by value does.
"""

from __future__ import annotations

import numpy as np

from engine.kernels.columns.hashing import mix
from engine.kernels.compile.ways import leaf

EMPTY = -1


@leaf
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


@leaf
def number_known_keys(values, may_add, slots, keys, n_known, numbers, start, absent):
    """As `number_keys`, but only where may_add (bool (n,)) is a new key numbered; elsewhere it gets `absent`.

    values: int64 (width, n). slots: int64 (a power of two,). keys: int64 (width, capacity). numbers: int64 (n,),
    written.
    """
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


@leaf
def fill_slots(keys, n_known, slots):
    """Enter the first `n_known` keys into empty slots.

    slots: int64 (a power of two,). keys: int64 (width, capacity).
    """
    mask = slots.shape[0] - 1
    slots[:] = EMPTY
    columns = keys.T
    for number in range(n_known):
        slot = _hash(columns, number) & mask
        while slots[slot] != EMPTY:
            slot = (slot + 1) & mask
        slots[slot] = number


@leaf
def whole_range(values):
    """The least and the greatest of some doubles as int64, NaN left out, and whether all are whole numbers below 2**53.

    Of no doubles the least is greater than the greatest.

    values: float64 (n,).
    """
    low, high = np.int64(2**62), np.int64(-(2**62))
    for k in range(values.shape[0]):
        value = values[k]
        if -9007199254740992.0 < value < 9007199254740992.0:
            whole = np.int64(value)
            if whole != value:
                return low, high, False
            low = min(low, whole)
            high = max(high, whole)
        elif value == value:  # noqa: PLR0124  # NaN differs from itself
            return low, high, False
    return low, high, True


@leaf
def number_whole_keys(values, low, positions, keys, n_known, numbers):
    """As `number_keys` for one column of whole numbers, -1 for NaN; returns how many keys are known then.

    values: float64 (n,), each NaN or from `low` on. positions: int32, by value - low the number of its key + 1, 0 for
    none. keys: float64, with room for n more. `max(., 0)`: see `engine.kernels.runs.single_run`.

    positions: int32 (range of the values,). keys: float64 (capacity,). numbers: int64 (n,), written.
    """
    for at in range(values.shape[0]):
        value = values[at]
        number = -1
        if value == value:  # noqa: PLR0124
            position = max(np.int64(value) - low, 0)
            number = positions[position] - 1
            if number < 0:
                number = n_known
                keys[number] = low + position
                n_known += 1
                positions[position] = n_known
        numbers[at] = number
    return n_known


@leaf
def find_whole_keys(values, low, positions, numbers, absent):
    """The numbers of keys known to `number_whole_keys`, `absent` for others.

    values: float64 (n,). positions: int32 (range of the values known,). numbers: int64 (n,), written.
    """
    for at in range(values.shape[0]):
        value = values[at]
        number = absent
        if low <= value < low + positions.shape[0]:
            position = max(np.int64(value) - low, 0)
            if low + position == value and positions[position] != 0:
                number = positions[position] - 1
        numbers[at] = number


@leaf
def find_key(values, at, slots, keys):
    """The number of one key, column `at` of `values`, or EMPTY."""
    mask = slots.shape[0] - 1
    slot = _hash(values, at) & mask
    while slots[slot] != EMPTY:
        number = slots[slot]
        same = True
        for k in range(values.shape[0]):
            same &= keys[number, k] == values[k, at]
        if same:
            return number
        slot = (slot + 1) & mask
    return EMPTY


@leaf
def enter_key(values, at, slots, keys, number):
    """Give a key that has none its number; there must be room for it, see `KeyTable.reserve`."""
    mask = slots.shape[0] - 1
    slot = _hash(values, at) & mask
    while slots[slot] != EMPTY:
        slot = (slot + 1) & mask
    slots[slot] = number
    for k in range(values.shape[0]):
        keys[number, k] = values[k, at]


@leaf
def _hash(values, at):
    state = np.int64(0x2468ACE)
    for k in range(values.shape[0]):
        state = mix(state, values[k, at])
    return state
