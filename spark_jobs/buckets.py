"""Buckets of keys: the same key is in the same bucket in every run, on every machine and in every job."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column
from pyspark.sql import functions as sf


def bucket(key: Sequence[str], n_buckets: int) -> Column:
    """The bucket, 0 to n_buckets - 1, of the columns named `key`: their XXH64 modulo the number of buckets.

    Never Python's hash(), which differs from process to process. A null counts for nothing in the hash; an event of
    which a part of the key is null is in no match, so whoever asks decides what becomes of it. Raises ValueError
    without a key, and for less than one bucket.
    """
    if not key:
        raise ValueError("no key; expected at least one attribute to tell buckets by")
    if n_buckets < 1:
        raise ValueError(f"{n_buckets} buckets; expected at least one")
    return sf.pmod(sf.xxhash64(*key), sf.lit(n_buckets)).cast("int")


__all__ = ["bucket"]
