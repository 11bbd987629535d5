"""Rows on their way into a store: first as they come, then as the files that a commit will name.

All of it happens in a folder of its own, which no reader looks at.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import LongType, StringType, StructField, StructType

from spark_jobs.event_store.commits import StoredFile
from spark_jobs.event_store.errors import job_errors
from spark_jobs.event_store.file_system import StoreError, StoreFiles
from spark_jobs.event_store.schema import EVENTS, NEEDED, ORDER

STAGING = "_staging"
DATA = "data"

DAY_MS = 86_400_000
FIRST_MS = -62_135_596_800_000
"""0001-01-01, UTC; dates have four digits."""
LAST_MS = 253_402_300_799_999
"""The end of 9999-12-31, UTC."""

TARGET_BYTES = 128 * 2**20
GROUP_BYTES = 32 * 2**20
"""Of a row group in memory: several tasks can read one file."""
LEAST_ROWS = 100_000
"""A file is not cut below so many rows to keep cores busy."""

DATE, TYPE, ROW, TIE, BUNDLE = "date__", "type__", "row__", "tie__", "bundle__"
"""Columns of staged rows beside those of EVENTS, which have no such names."""

_TYPE_NAME = r"^[A-Za-z_][A-Za-z0-9_]{0,199}$"


@dataclass(frozen=True)
class Group:
    """What staged rows of one type and date have in common."""

    type: str
    date: str
    n_rows: int
    min_lo_ms: int
    max_lo_ms: int


class Staging:
    """The folder of one write."""

    def __init__(self, spark: SparkSession, files: StoreFiles, target_bytes: int = TARGET_BYTES) -> None:
        self._spark = spark
        self._files = files
        self._target_bytes = target_bytes
        self.path = f"{STAGING}/{uuid.uuid4().hex}"

    @contextmanager
    def opened(self) -> Iterator[Staging]:
        """Whatever is left of it is removed at the end; what cannot be is swept later."""
        try:
            yield self
        finally:
            with suppress(StoreError):  # the error that counts is on its way, and readers never look here
                self._files.remove(self.path)

    def write_raw(self, events: DataFrame) -> DataFrame:
        """The events as they come, evaluated once; with date, row number and a hash of the whole row."""
        place = f"{self.path}/raw"
        rows = events.select(*EVENTS.names).select(
            "*",
            date_of("t_lo_ms").alias(DATE),
            sf.monotonically_increasing_id().alias(ROW),
            sf.xxhash64(*EVENTS.names).alias(TIE),
        )
        self._write(rows, place)
        return self._read(place, rows.schema)

    def keep(self, rows: DataFrame, name: str) -> DataFrame:
        """Evaluate rows once, for several uses."""
        place = f"{self.path}/{name}"
        self._write(rows, place)
        return self._read(place, rows.schema)

    def size_bytes(self, name: str) -> int:
        """Of the rows that were written under this name."""
        return sum(file.n_bytes for file in self._files.files(f"{self.path}/{name}"))

    def write_final(self, rows: DataFrame, n_rows: int, n_bytes: int) -> list[StoredFile]:
        """Rows of EVENTS and DATE as files in their place, in stream order, not yet named by a commit.

        `n_rows` must be what `rows` has; `n_bytes` is about what they will take.
        """
        n_parts = self._n_parts(n_rows, n_bytes)
        keyed = rows.withColumn(BUNDLE, sf.lit(0))
        if n_parts == 1:
            return self._write_spread(keyed.coalesce(1), n_rows)
        return self._write_spread(keyed.repartitionByRange(n_parts, DATE, "type", *ORDER), n_rows)

    def write_bundles(self, rows: DataFrame, n_rows: int, n_bundles: int) -> list[StoredFile]:
        """As `write_final`, rows with a number BUNDLE; those of one number (of one date and type) become one file."""
        if n_bundles == 1:
            return self._write_spread(rows.coalesce(1), n_rows)
        n_parts = min(n_bundles, 4 * self._spark.sparkContext.defaultParallelism)
        return self._write_spread(rows.repartition(n_parts, BUNDLE), n_rows)

    def _write_spread(self, rows: DataFrame, n_rows: int) -> list[StoredFile]:
        place = f"{self.path}/{uuid.uuid4().hex}"
        folders = (DATE, TYPE, BUNDLE)
        spread = rows.select(*EVENTS.names, DATE, sf.col("type").alias(TYPE), BUNDLE)
        with job_errors(f"{self._files.url}: cannot be written"):
            (
                spread.sortWithinPartitions(*folders, *ORDER)
                .write.partitionBy(*folders)
                .option("compression", "zstd")
                .option("parquet.block.size", GROUP_BYTES)
                .option("parquet.enable.dictionary#event_id", "false")
                .parquet(self._files.full(place))
            )
        made = self._described(place)
        n_made = sum(file.n_rows for file in made.values())
        if n_made != n_rows:
            raise StoreError(
                f"{self._files.url}: {n_rows} rows were to be written, {n_made} are in the files; nothing is committed"
            )
        try:
            for path, file in made.items():
                self._files.move(path, file.path)
            for folder in sorted({file.path.rpartition("/")[0] for file in made.values()}):
                self._files.sync_folder(folder)
        except StoreError:
            self.discard(list(made.values()))
            raise
        return list(made.values())

    def discard(self, made: Sequence[StoredFile]) -> None:
        """Remove files that no commit names."""
        for file in made:
            try:
                self._files.remove(file.path)
            except StoreError:
                return  # they are swept later

    def _n_parts(self, n_rows: int, n_bytes: int) -> int:
        cores = self._spark.sparkContext.defaultParallelism
        return max(1, math.ceil(n_bytes / self._target_bytes), min(cores, n_rows // LEAST_ROWS))

    def _described(self, place: str) -> dict[str, StoredFile]:
        """By their present paths: the files as they will be called, with their statistics."""
        listed = [file for file in self._files.files(place) if file.name.endswith(".parquet")]
        found = self._statistics(place)
        made: dict[str, StoredFile] = {}
        for file in listed:
            *_, date_part, type_part, bundle_part, name = file.path.split("/")
            date, kind, bundle = (part.partition("=")[2] for part in (date_part, type_part, bundle_part))
            n_rows, min_lo_ms, max_lo_ms, max_hi_ms = found[date, kind, bundle, name]
            target = f"{DATA}/date={date}/type={kind}/{uuid.uuid4().hex}.parquet"
            made[file.path] = StoredFile(target, date, kind, n_rows, file.n_bytes, min_lo_ms, max_lo_ms, max_hi_ms)
        return made

    def _statistics(self, place: str) -> Mapping[tuple[str, str, str, str], tuple[int, int, int, int]]:
        schema = StructType(
            [
                StructField("t_lo_ms", LongType()),
                StructField("t_hi_ms", LongType()),
                StructField(DATE, StringType()),
                StructField(TYPE, StringType()),
                StructField(BUNDLE, StringType()),
            ]
        )
        with job_errors(f"{self._files.url}: what was written cannot be read"):
            found = (
                self._read(place, schema)
                .groupBy(DATE, TYPE, BUNDLE, sf.col("_metadata.file_name").alias("name"))
                .agg(sf.count("*"), sf.min("t_lo_ms"), sf.max("t_lo_ms"), sf.max("t_hi_ms"))
                .collect()
            )
        return {(row[0], row[1], row[2], row[3]): (row[4], row[5], row[6], row[7]) for row in found}

    def _write(self, rows: DataFrame, place: str) -> None:
        with job_errors(f"{self._files.url}: cannot be written"):
            rows.write.option("compression", "zstd").parquet(self._files.full(place))

    def _read(self, place: str, schema: StructType) -> DataFrame:
        return self._spark.read.schema(schema).parquet(self._files.full(place))


def date_of(column: str) -> Column:
    """YYYY-MM-DD of a time in ms, UTC whatever the session's time zone."""
    days = sf.floor(sf.col(column) / DAY_MS).cast("int")
    return sf.date_add(sf.lit("1970-01-01").cast("date"), days).cast("string")


def check_columns(events: DataFrame) -> None:
    """Raises StoreError unless the frame has the columns of EVENTS with their types, in any order."""
    found = {field.name: field.dataType for field in events.schema}
    problems = [
        f"{field.name}: {'no such column' if field.name not in found else found[field.name].simpleString()}; "
        f"expected {field.dataType.simpleString()}"
        for field in EVENTS
        if found.get(field.name) != field.dataType
    ]
    problems += [f"{name}: belongs to no event type; expected none" for name in sorted(set(found) - set(EVENTS.names))]
    if problems:
        raise StoreError("events cannot be stored; " + "; ".join(problems))


def groups_of(raw: DataFrame) -> list[Group]:
    """Types and dates of staged rows; raises StoreError with the first row that cannot be an event."""
    bad = _is_bad()
    with job_errors("the staged events cannot be read"):
        found = (
            raw.groupBy("type", DATE)
            .agg(sf.count("*"), sf.min("t_lo_ms"), sf.max("t_lo_ms"), sf.count_if(bad))
            .collect()
        )
        n_bad = sum(row[5] for row in found)
        if n_bad:
            names = ("event_id", "type", "t_lo_ms", "t_hi_ms", "source_rank", "source_seq", "origin")
            example = raw.filter(bad).select(*names).orderBy(*names).first()
            shown = {} if example is None else example.asDict()
            raise StoreError(
                f"{n_bad} of {sum(row[2] for row in found)} events cannot be stored; found {shown}; expected a type "
                f"that is a name, values for {', '.join(NEEDED)}, and 0001-01-01 <= t_lo_ms <= t_hi_ms <= 9999-12-31"
            )
    return [Group(*row[:5]) for row in found]


def _is_bad() -> Column:
    missing = sf.lit(False)
    for name in NEEDED:
        missing = missing | sf.col(name).isNull()
    in_range = sf.col("t_lo_ms").between(FIRST_MS, LAST_MS) & sf.col("t_hi_ms").between(
        sf.col("t_lo_ms"), sf.lit(LAST_MS)
    )
    return missing | ~sf.coalesce(in_range & sf.col("type").rlike(_TYPE_NAME), sf.lit(False))
