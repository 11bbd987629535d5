"""Which parts the events of a query are divided into, and the parts that each event goes to.

A part is a bucket of keys, or a slice of time. A key with more events than a part may have is cut further by time where
the query allows it, else it is a part of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as sf

from engine.events import FOREVER_MS
from spark_jobs.buckets import bucket
from spark_jobs.slices import Slices

Range = tuple[int, int]
EVERYTHING: Range = (-FOREVER_MS, FOREVER_MS)


@dataclass(frozen=True)
class HeavyKey:
    """A key (or several, of one hash) with more events than a part may have, and the slices that it is cut into."""

    hash: int
    n_events: int
    slices: Slices | None

    @property
    def n_parts(self) -> int:
        """Parts that it has for itself."""
        return 1 if self.slices is None else self.slices.n


@dataclass(frozen=True)
class Division:
    """Parts are numbered from 0: buckets of keys, then the heavy keys'; or slices of time; or a single one.

    `keys`: see `engine.Distribution`, empty where nothing is divided by key. `floats`: the doubles among the key.
    `all_keyed`: whether there are no events of types without the key, which all parts need.
    """

    keys: Mapping[str, tuple[str, ...]]
    floats: frozenset[str] = frozenset()
    n_buckets: int = 0
    heavy: tuple[HeavyKey, ...] = ()
    slices: Slices | None = None
    all_keyed: bool = False

    @property
    def n_parts(self) -> int:
        """All parts."""
        if not self.keys:
            return 1 if self.slices is None else self.slices.n
        return self.n_buckets + sum(key.n_parts for key in self.heavy)

    @property
    def ranges(self) -> dict[int, Range]:
        """The times in which the rows of a part begin, of those that share a key, or everything, with others."""
        if not self.keys:
            return {} if self.slices is None else {n: self.slices.own(n) for n in range(self.slices.n)}
        found: dict[int, Range] = {}
        for start, key in self._starts():
            if key.slices is not None:
                found |= {start + n: key.slices.own(n) for n in range(key.slices.n)}
        return found

    @property
    def is_one_each(self) -> bool:
        """Whether no event goes to several parts."""
        return self.all_keyed and all(key.slices is None for key in self.heavy)

    def part(self) -> Column:
        """The part of an event where `is_one_each`; null for one in none."""
        key = next(iter(self.keys.values()))
        chosen = bucket(key, self.n_buckets)
        for start, heavy in self._starts():
            chosen = sf.when(key_hash(key) == heavy.hash, sf.lit(start)).otherwise(chosen)
        return sf.when(has_key(key, self.floats), chosen)

    def parts(self) -> Column:
        """The parts of an event (columns type, t_lo_ms, t_hi_ms and the key's): an array, empty for one in none."""
        nowhere = sf.array().cast("array<int>")
        if not self.keys:
            return sf.array(sf.lit(0)) if self.slices is None else self._sliced(0, self.slices)
        key = next(iter(self.keys.values()))
        by_key = sf.array(bucket(key, self.n_buckets))
        everywhere = [sf.sequence(sf.lit(0), sf.lit(self.n_buckets - 1))]
        for start, heavy in self._starts():
            parts = sf.array(sf.lit(start)) if heavy.slices is None else self._sliced(start, heavy.slices)
            by_key = sf.when(key_hash(key) == heavy.hash, parts).otherwise(by_key)
            everywhere.append(parts)
        is_keyed = sf.col("type").isin(sorted(self.keys))
        return sf.when(~is_keyed, sf.concat(*everywhere)).when(has_key(key, self.floats), by_key).otherwise(nowhere)

    def _starts(self) -> list[tuple[int, HeavyKey]]:
        """The heavy keys with the numbers of their first parts."""
        found, start = [], self.n_buckets
        for key in self.heavy:
            found.append((start, key))
            start += key.n_parts
        return found

    def _sliced(self, start: int, slices: Slices) -> Column:
        numbers = slices.columns(sf.col("t_lo_ms"), sf.col("t_hi_ms"))
        return sf.transform(numbers, lambda number: number + sf.lit(start))


def key_hash(key: Sequence[str]) -> Column:
    """What `spark_jobs.buckets.bucket` divides."""
    return sf.xxhash64(*key)


def has_key(key: Sequence[str], floats: Collection[str]) -> Column:
    """Whether an event has all of its key; one that has not is in no match. NaN, of `floats`, counts as null."""
    known = sf.lit(True)
    for name in key:
        known = known & sf.col(name).isNotNull()
        if name in floats:
            known = known & ~sf.isnan(name)
    return known


__all__ = ["EVERYTHING", "Division", "HeavyKey", "Range", "has_key", "key_hash"]
