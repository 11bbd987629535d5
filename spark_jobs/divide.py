"""From events and what a query allows to the parts that executors evaluate: one look at the keys, then the cut."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from engine import CompiledQuery, Distribution
from engine.events import AttributeType
from spark_jobs.buckets import bucket
from spark_jobs.evaluate import PART, TYPE_CODE
from spark_jobs.parts import Division, HeavyKey, has_key, key_hash
from spark_jobs.session import SparkJobError
from spark_jobs.slices import slices

N_LOOKED_AT = 1024
"""Buckets in which events are counted, to find keys that have very many."""

_IN_ALL, _IN_NONE = -1, -2
"""In place of a bucket: events that all parts need, and those whose key is null."""

ORDER = "t_lo_ms"
"""Of the rows of a part; Spark sorts by one number without comparing rows, and an engine orders the ties."""


@dataclass(frozen=True)
class Sizes:
    """`events_per_part`: how many are wanted; `least_events`: with fewer a part is not worth its own; `heavy_events`:
    a key with more is cut further."""

    events_per_part: int = 1_000_000
    least_events: int = 20_000
    heavy_events: int = 4_000_000

    def n_parts(self, n_events: int, n_everywhere: int, n_cores: int) -> int:
        """Parts for so many events, of which `n_everywhere` are needed in all of them."""
        n_own = n_events - n_everywhere
        by_size = -(-n_own // self.events_per_part)
        by_cores = min(n_cores, n_own // self.least_events)
        # Beyond the cores more parts cost what all of them need again: no more of it than of one's own.
        worth = max(by_cores, n_own // max(1, n_everywhere))
        return max(1, by_cores, min(by_size, worth))


@dataclass(frozen=True)
class Counted:
    """What one look at the events told."""

    n_events: int
    n_everywhere: int
    n_without_key: int
    n_imprecise: int
    longest_ms: int
    first_ms: int
    last_ms: int
    by_bucket: Mapping[int, int]


def count(events: DataFrame, distribution: Distribution, floats: frozenset[str]) -> Counted:
    """Count events by buckets of their keys; one pass over types, times and keys."""
    found = events.groupBy(_bucket(distribution, floats).alias("bucket")).agg(
        sf.count("*").alias("n"),
        sf.max(sf.col("t_hi_ms") - sf.col("t_lo_ms")).alias("longest_ms"),
        sf.count_if(sf.col("t_hi_ms") > sf.col("t_lo_ms")).alias("n_imprecise"),
        sf.min("t_lo_ms").alias("first_ms"),
        sf.max("t_lo_ms").alias("last_ms"),
    )
    rows = found.collect()
    by_bucket = {row["bucket"]: row["n"] for row in rows}
    return Counted(
        n_events=sum(by_bucket.values()),
        n_everywhere=by_bucket.pop(_IN_ALL, 0) if distribution.keys else 0,
        n_without_key=by_bucket.pop(_IN_NONE, 0),
        n_imprecise=sum(row["n_imprecise"] for row in rows),
        longest_ms=max((row["longest_ms"] for row in rows), default=0),
        first_ms=min((row["first_ms"] for row in rows), default=0),
        last_ms=max((row["last_ms"] for row in rows), default=0),
        by_bucket=by_bucket,
    )


def _bucket(distribution: Distribution, floats: frozenset[str]) -> Column:
    if not distribution.keys:
        return sf.lit(0)
    own = sf.when(has_key(distribution.key, floats), bucket(distribution.key, N_LOOKED_AT)).otherwise(_IN_NONE)
    return sf.when(sf.col("type").isin(sorted(distribution.keys)), own).otherwise(_IN_ALL)


def divide(
    events: DataFrame, query: CompiledQuery, counted: Counted, n_cores: int, sizes: Sizes, *, one_piece: bool = False
) -> Division:
    """The parts for these events; raises SparkJobError for a query that can be divided in no way."""
    distribution = query.distribution
    if one_piece:
        return Division({})
    check_divisible(query)
    is_sliceable = distribution.sliceable and not (distribution.needs_exact_times and counted.n_imprecise)
    longest_ms = longest_that_counts_ms(query, counted)
    n_parts = sizes.n_parts(counted.n_events, counted.n_everywhere, n_cores)
    if not distribution.keys:
        if not is_sliceable:
            return Division({})
        cut = slices(distribution, counted.first_ms, counted.last_ms, longest_ms, n_parts)
        return Division({}, slices=cut if cut.n > 1 else None)
    floats = float_names(query)
    heavy = tuple(_heavy_keys(events, distribution, counted, longest_ms, sizes, floats, is_sliceable=is_sliceable))
    n_buckets = min(n_parts, max(1, len(counted.by_bucket)))
    return Division(distribution.keys, floats, n_buckets, heavy, all_keyed=not counted.n_everywhere)


def check_divisible(query: CompiledQuery) -> None:
    """Raise SparkJobError for a query that can be divided in no way."""
    distribution = query.distribution
    if not distribution.keys and distribution.slice_obstacle is not None:
        raise SparkJobError(
            f"{query.name} cannot be divided: by key, {distribution.key_obstacle}; by time, "
            f"{distribution.slice_obstacle} (--one-slice evaluates everything in one task)"
        )


def float_names(query: CompiledQuery) -> frozenset[str]:
    """The key's attributes that are doubles."""
    attributes = query.resolved.schema.attributes
    return frozenset(name for name in query.distribution.key if attributes[name] is AttributeType.FLOAT)


def longest_that_counts_ms(query: CompiledQuery, counted: Counted) -> int:
    """The longest interval of an event that can take part: longer ones are refused, or all imprecise ones."""
    taken = max((member.longest_interval_ms or 0 for member in query.chain), default=0)
    return min(counted.longest_ms, taken)


def _heavy_keys(
    events: DataFrame,
    distribution: Distribution,
    counted: Counted,
    longest_ms: int,
    sizes: Sizes,
    floats: frozenset[str],
    *,
    is_sliceable: bool,
) -> list[HeavyKey]:
    full = [number for number, n in counted.by_bucket.items() if n > sizes.heavy_events]
    if not full:
        return []
    key = distribution.key
    of_full = events.where(sf.col("type").isin(sorted(distribution.keys)) & has_key(key, floats))
    of_full = of_full.where(bucket(key, N_LOOKED_AT).isin(full))
    by_hash = of_full.groupBy(key_hash(key).alias("hash")).agg(
        sf.count("*").alias("n"), sf.min("t_lo_ms").alias("first_ms"), sf.max("t_lo_ms").alias("last_ms")
    )
    found = []
    for row in by_hash.where(sf.col("n") > sizes.heavy_events).collect():
        cut = None
        if is_sliceable:
            n_wanted = -(-row["n"] // sizes.events_per_part)
            cut = slices(distribution, row["first_ms"], row["last_ms"], longest_ms, n_wanted)
        found.append(HeavyKey(row["hash"], row["n"], None if cut is None or cut.n == 1 else cut))
    return sorted(found, key=lambda heavy: (-heavy.n_events, heavy.hash))


def in_parts(events: DataFrame, query: CompiledQuery, counted: Counted, division: Division) -> DataFrame:
    """Each event in every part that needs it: a partition for each part, sorted by ORDER, with the column PART.

    What the other columns tell, or a number does, is not carried along: TYPE_CODE takes the place of the type, and of
    precise events there is no t_hi_ms.
    """
    if division.is_one_each:  # an array for each event, and taking it apart, is a good part of the whole
        placed = events.withColumn(PART, division.part()).where(sf.col(PART).isNotNull())
    else:
        placed = events.withColumn(PART, sf.explode(division.parts()))
    coded = placed.withColumn(TYPE_CODE, _code(type_names(query))).drop("type")
    if not counted.n_imprecise:
        coded = coded.drop("t_hi_ms")
    return coded.repartitionById(division.n_parts, PART).sortWithinPartitions(ORDER)


def type_names(query: CompiledQuery) -> tuple[str, ...]:
    """The types that the query reads, each at its TYPE_CODE."""
    return tuple(sorted(query.distribution.types))


def _code(names: Sequence[str]) -> Column:
    chosen = sf.lit(len(names) - 1)
    for number, name in reversed(list(enumerate(names[:-1]))):
        chosen = sf.when(sf.col("type") == name, number).otherwise(chosen)
    return chosen


__all__ = [
    "ORDER",
    "Counted",
    "Sizes",
    "check_divisible",
    "count",
    "divide",
    "float_names",
    "in_parts",
    "longest_that_counts_ms",
    "type_names",
]
