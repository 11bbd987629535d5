"""Partitions by their keys: numbers in order of arrival, found through a compiled hash table."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from engine.events import BoolArray, Float64Array, Int64Array
from engine.kernels.keys import EMPTY, fill_slots, number_keys, number_known_keys

_LEAST = 64


class KeyTable:
    """Keys of `width` doubles (codes or numbers, no NaN) and their numbers 0, 1, ...; width 0: one partition."""

    def __init__(self, width: int, keys: Sequence[Sequence[float]] | Float64Array = ()) -> None:
        self._width = width
        self._n = len(keys)
        self._bits: Int64Array = np.empty((max(_LEAST, 2 * len(keys)), width), np.int64)
        self._bits[: len(keys)] = np.array(keys, np.float64).reshape(len(keys), width).view(np.int64)
        self._fill()

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
        bits = (columns + 0.0).view(np.int64)  # -0.0 is 0.0
        numbers: Int64Array = np.empty(columns.shape[1], np.int64)
        done = 0
        while True:
            done, self._n = number_keys(bits, self._slots, self._bits, self._n, numbers, done)
            if done == len(numbers):
                return numbers
            self._grow()

    def numbers_where(self, columns: Float64Array, may_add: BoolArray, absent: int) -> Int64Array:
        """The partitions of these keys; a key without a number gets one where `may_add` says so, `absent` elsewhere.

        A later key of the same call finds one that an earlier one has added.
        """
        bits = (columns + 0.0).view(np.int64)  # -0.0 is 0.0
        numbers: Int64Array = np.empty(columns.shape[1], np.int64)
        done = 0
        while True:
            done, self._n = number_known_keys(
                bits, may_add, self._slots, self._bits, self._n, numbers, done, absent
            )  # fmt: skip
            if done == len(numbers):
                return numbers
            self._grow()

    def _grow(self) -> None:
        grown = np.empty((2 * len(self._bits), self._width), np.int64)
        grown[: self._n] = self._bits[: self._n]
        self._bits = grown
        self._fill()

    def keep(self, numbers: Int64Array) -> None:
        """Forget all but these; they are numbered 0, 1, ... in this order."""
        kept = self._bits[numbers]
        self._n = len(kept)
        self._bits = np.empty((max(_LEAST, 2 * self._n), self._width), np.int64)
        self._bits[: self._n] = kept
        self._fill()

    def _fill(self) -> None:
        n_slots = 4 * _LEAST
        while n_slots < 4 * len(self._bits):
            n_slots *= 2
        self._slots: Int64Array = np.full(n_slots, EMPTY, np.int64)
        fill_slots(self._bits, self._n, self._slots)
