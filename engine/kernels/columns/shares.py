"""What each of several threads takes of a batch: its rows, and their texts and numbers as they are stored."""

from __future__ import annotations

import numpy as np

from engine.kernels.compile.ways import kernel, leaf

BLOCK = 1024
_ODD = np.uint64(0x9E3779B97F4A7C15)
_TURN = np.uint64(29)
_HIGH = np.uint64(33)
_LOW = np.uint64(2**31 - 1)
_MAGNITUDE = np.uint64(2**63 - 1)
_INFINITY = np.uint64(0x7FF0000000000000)


@kernel
def rows_of_shard(keys, number, n_shards, t_ms, rows, times, own):
    """Write the rows whose key hashes to a shard, and those without all of a key, their times and keys.

    keys: (width, n), float64, NaN where an attribute is absent, or int64, which have the shards of the doubles that
    they are. t_ms, rows, times: int64 (n,); own: float64 (width, n). Returns how many rows there are, and the bits
    of the greatest absolute value in `keys`, those of a NaN where there is one. A key has the same shard in every batch
    and process. Products are taken modulo 2**64, of which Python warns where this is not compiled.

    keys: float64 or int64 (width, n).
    """
    width, n = keys.shape
    block = np.empty(BLOCK, np.float64)
    bits = block.view(np.uint64)
    state = np.empty(BLOCK, np.uint64)
    shard = np.empty(BLOCK, np.int32)
    own_shard = np.int32(number)
    last = np.int32(n_shards - 1)
    n_rows = np.uint64(0)  # as an index it need not be compared with 0
    greatest = np.uint64(0)
    for start in range(0, n, BLOCK):
        size = min(BLOCK, n - start)
        state[:] = 0
        largest = np.uint64(0)
        for k in range(width):
            stored = keys[k, start : start + size]
            for at in range(size):
                block[at] = stored[at] + 0.0  # -0.0 is 0.0
            for at in range(size):
                mixed = (state[at] ^ bits[at]) * _ODD
                state[at] = mixed ^ (mixed >> _TURN)
            for at in range(size):
                largest = max(largest, bits[at] & _MAGNITUDE)
        if n_shards & (n_shards - 1) == 0:
            for at in range(size):
                shard[at] = np.int32((state[at] * _ODD) >> _HIGH) & last
        else:
            for at in range(size):
                shard[at] = np.int32((state[at] * _ODD) >> _HIGH) % np.int32(n_shards)
        greatest = max(greatest, largest)
        if largest > _INFINITY:
            for k in range(width):
                for at in range(size):
                    if np.isnan(keys[k, start + at]):
                        shard[at] = own_shard
        first = np.int64(n_rows)
        for at in range(size):
            rows[n_rows] = start + at
            n_rows += np.uint64(shard[at] == own_shard)
        for j in range(first, np.int64(n_rows)):
            times[j] = t_ms[np.uint64(rows[j])]
        for k in range(width):
            stored = keys[k]
            doubles = own[k]
            for j in range(first, np.int64(n_rows)):
                doubles[j] = stored[np.uint64(rows[j])]
    return n_rows, greatest


@kernel
def number_texts(offsets, base, words, masks, rows, slots, firsts, counts, numbers):
    """Give the texts of some rows numbers in order of arrival; returns how many texts there are, -1 for too many.

    offsets: int32 (n + 1,), the bytes of each text, `base` is the first of all; words: uint64, eight bytes each, and
    one word more than there are. masks: uint64 (9,), the first 0 to 8 bytes of a word. rows: int64 (m,), empty: all of
    them. slots: int64 (a power of two,), all -1; firsts, counts: int64, at most half as many, for each number the first
    of its rows, and how many there are. numbers: int32 (m,).

    firsts, counts: int64 (capacity,), written.
    """
    mask = slots.shape[0] - 1
    starts = np.empty(firsts.shape[0], np.uint64)
    lengths = np.empty(firsts.shape[0], np.int64)
    n_texts = 0
    all_rows = rows.shape[0] == 0
    for k in range(numbers.shape[0]):
        row = k if all_rows else rows[k]
        begin = np.int64(offsets[row]) - base
        length = np.int64(offsets[row + 1]) - base - begin
        start = _word(words, begin) & masks[min(length, 8)]
        folded = np.int64((start ^ (start >> np.uint64(31))) & _LOW)
        slot = (((folded ^ length) * 0x5BD1E995) >> 20) & mask
        while True:
            number = slots[slot]
            if number < 0:
                if n_texts == firsts.shape[0]:
                    return -1
                number = n_texts
                slots[slot] = number
                firsts[number], starts[number], lengths[number], counts[number] = row, start, length, 0
                n_texts += 1
                break
            same = starts[number] == start and lengths[number] == length
            if same and length > 8:
                other = np.int64(offsets[firsts[number]]) - base
                at = 8
                while same and at < length:
                    left = masks[min(length - at, 8)]
                    same = (_word(words, begin + at) & left) == (_word(words, other + at) & left)
                    at += 8
            if same:
                break
            slot = (slot + 1) & mask
        numbers[k] = number
        counts[number] += 1
    return n_texts


@leaf
def _word(words, at):
    """The eight bytes from byte `at` on."""
    shift = np.uint64(8 * (at & 7))
    high = words[(at >> 3) + 1] << np.uint64(8)
    return (words[at >> 3] >> shift) | (high << (np.uint64(56) - shift))


@leaf
def widen_rows(values, rows, doubles):
    """Write some of the numbers, int64, as float64 (m,); returns the least and the greatest of them and 0.

    values: int64 (n,). rows: int64 (m,). doubles: float64 (m,), written.
    """
    low = np.int64(0)
    high = np.int64(0)
    for k in range(rows.shape[0]):
        value = values[rows[k]]
        low = min(low, value)
        high = max(high, value)
        doubles[k] = value
    return low, high


__all__ = ["number_texts", "rows_of_shard", "widen_rows"]
