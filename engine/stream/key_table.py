"""Partitions by their keys: numbers in order of arrival, found through a compiled hash table.

Keys that are whole numbers close to each other, as counted ids and the codes of strings are, are found in an array by
value instead, which takes about as much memory and no hashing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from engine.events import BoolArray, Float64Array, Int64Array
from engine.kernels.columns.keys import (
    EMPTY,
    fill_slots,
    find_whole_keys,
    number_keys,
    number_known_keys,
    number_whole_keys,
    whole_range,
)

_LEAST = 64
_SPAN = 16
"""Entries by value per key, at most."""
_LEAST_SPAN = 4096


class KeyTable:
    """Keys of `width` doubles (codes or numbers, no NaN) and their numbers 0, 1, ...; width 0: one partition."""

    def __init__(self, width: int, keys: Sequence[Sequence[float]] | Float64Array = ()) -> None:
        self._width = width
        self._bits: Int64Array = np.empty((max(_LEAST, 2 * len(keys)), width), np.int64)
        self._bits[: len(keys)] = np.array(keys, np.float64).reshape(len(keys), width).view(np.int64)
        self._begin(len(keys))

    def _begin(self, n: int) -> None:
        """The first n keys are known, and how they are found is yet to be seen."""
        self._n = n
        self._slots: Int64Array | None = None
        self._positions: npt.NDArray[np.int32] | None = None
        self._low = 0
        self._again_at = 0  # keys from which on it is asked again whether an array by value would do

    def __len__(self) -> int:
        return self._n

    def key(self, number: int) -> tuple[float, ...]:
        """The key of a partition."""
        return tuple(self._bits[number].view(np.float64).tolist())

    def bits(self) -> Int64Array:
        """The bits of the keys by number, int64 (>= n, width); it stays as it is for the keys known now."""
        return self._bits

    def values(self, numbers: Int64Array | slice = slice(None)) -> Float64Array:
        """The keys of these partitions, (n, width); of all of them without numbers."""
        return self._bits[: self._n][numbers].view(np.float64)

    def all(self) -> list[tuple[float, ...]]:
        """All keys by number."""
        return [self.key(number) for number in range(self._n)]

    def columns(self, numbers: Int64Array) -> Float64Array:
        """The keys of these partitions, float64 (width, n)."""
        return np.ascontiguousarray(self._bits[numbers].view(np.float64).T)

    def numbers(self, columns: Float64Array) -> Int64Array:
        """The partitions of these keys, float64 (width, n); new keys get new numbers."""
        numbers: Int64Array = np.empty(columns.shape[1], np.int64)
        if self._width == 1 and (positions := self._numbers_by_value(columns[0])) is not None:
            self._reserve(self._n + min(columns.shape[1], len(positions)))
            keys = self._bits.view(np.float64)[:, 0]
            self._n = number_whole_keys(columns[0], self._low, positions, keys, self._n, numbers)
            return numbers
        bits = (columns + 0.0).view(np.int64)  # -0.0 is 0.0
        done = 0
        while True:
            done, self._n = number_keys(bits, self._hashed(), self._bits, self._n, numbers, done)
            if done == len(numbers):
                return numbers
            self._grow()

    def numbers_or_none(self, columns: Float64Array) -> Int64Array:
        """As `numbers`; -1 for keys that are not complete: one of their columns is NaN."""
        if self._width == 1 and self._numbers_by_value(columns[0]) is not None:
            return self.numbers(columns)
        complete = np.flatnonzero(~np.isnan(columns).any(axis=0))
        if len(complete) == columns.shape[1]:
            return self.numbers(columns)
        numbers: Int64Array = np.full(columns.shape[1], -1, np.int64)
        numbers[complete] = self.numbers(columns[:, complete])
        return numbers

    def numbers_where(self, columns: Float64Array, may_add: BoolArray, absent: int) -> Int64Array:
        """The partitions of these keys; a key without a number gets one where `may_add` says so, `absent` elsewhere.

        A later key of the same call finds one that an earlier one has added.
        """
        numbers: Int64Array = np.empty(columns.shape[1], np.int64)
        if not may_add.any() and self._width == 1 and (positions := self._numbers_by_value(columns[0, :0])) is not None:
            find_whole_keys(columns[0], self._low, positions, numbers, absent)
            return numbers
        bits = (columns + 0.0).view(np.int64)  # -0.0 is 0.0
        done = 0
        while True:
            done, self._n = number_known_keys(
                bits, may_add, self._hashed(), self._bits, self._n, numbers, done, absent
            )  # fmt: skip
            if done == len(numbers):
                return numbers
            self._grow()

    @property
    def slots(self) -> Int64Array:
        """The hash table of all keys, see `engine.kernels.columns.keys`."""
        return self._hashed()

    def reserve(self, n_more: int) -> None:
        """Make room for so many new keys in `bits` and `slots`."""
        while self._n + n_more > len(self._bits):
            self._grow()

    def entered(self, n: int) -> None:
        """A kernel has entered keys up to this number of them."""
        self._n = n

    def keep(self, numbers: Int64Array) -> None:
        """Forget all but these; they are numbered 0, 1, ... in this order."""
        kept = self._bits[numbers]
        self._bits = np.empty((max(_LEAST, 2 * len(kept)), self._width), np.int64)
        self._bits[: len(kept)] = kept
        self._begin(len(kept))

    def _reserve(self, n_keys: int) -> None:
        if n_keys > len(self._bits):
            grown = np.empty((max(n_keys, 2 * len(self._bits)), self._width), np.int64)
            grown[: self._n] = self._bits[: self._n]
            self._bits = grown

    # --------------------------------------------------------------- by value

    def _numbers_by_value(self, values: Float64Array) -> npt.NDArray[np.int32] | None:
        """The array by value, from `_low` on, that has entries for these and for the keys that are there; None where it
        would be too long."""
        if self._slots is not None and self._n < self._again_at:
            return None
        low, high, is_whole = whole_range(values)
        if not is_whole:
            return None
        if self._positions is not None and low >= self._low and high < self._low + len(self._positions):
            return self._positions
        self._again_at = 2 * self._n
        known = self._bits[: self._n].view(np.float64).reshape(self._n)
        known_low, known_high, is_whole = whole_range(known)
        low, high = min(low, known_low), max(high, known_high)
        low, high = (low, high) if low <= high else (0, 0)  # nothing is known yet
        if not is_whole or high - low >= _SPAN * (self._n + len(values)) + _LEAST_SPAN:
            return None
        margin = (high - low) // 4 + _LEAST
        self._slots, self._low = None, low - margin
        self._positions = np.zeros(high - low + 1 + 2 * margin, np.int32)
        number_whole_keys(known, self._low, self._positions, known.copy(), 0, np.empty(self._n, np.int64))
        return self._positions

    # --------------------------------------------------------------- by hash

    def _hashed(self) -> Int64Array:
        if self._slots is None:
            self._positions = None
            self._slots = self._filled()
        return self._slots

    def _grow(self) -> None:
        self._reserve(2 * len(self._bits))
        self._slots = self._filled()

    def _filled(self) -> Int64Array:
        n_slots = 4 * _LEAST
        while n_slots < 4 * len(self._bits):
            n_slots *= 2
        slots: Int64Array = np.full(n_slots, EMPTY, np.int64)
        fill_slots(self._bits, self._n, slots)
        return slots
