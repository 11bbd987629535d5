"""Rows on their way into a store: written once as the files that a commit will name, unless copies are among them.

All of it happens in a folder of its own, which no reader looks at.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import date
from itertools import groupby

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import LongType, StructField, StructType

from app.event_store.commits import StoredFile
from app.event_store.errors import StoreError
from collectors.schema import load_event_types
from collectors.time_units import DAY_MS, MAX_TIME_MS
from spark_jobs.event_store.errors import job_errors
from spark_jobs.event_store.file_system import StoreFiles
from spark_jobs.event_store.reading import FILE_PATH, scan_paths
from spark_jobs.event_store.schema import EVENTS, NEEDED, ORDER

STAGING = "_staging"
DATA = "data"

FIRST_MS = -62_135_596_800_000
"""0001-01-01, UTC; dates have four digits."""

TARGET_BYTES = 128 * 2**20
GROUP_BYTES = 32 * 2**20
"""Of a row group in memory: several tasks can read one file."""
LEAST_ROWS = 100_000
"""A file is not cut below so many rows to keep cores busy."""
MOST_ROWS = 8_000_000
"""Of a file that is written before anybody knows how many rows there are."""

GROUP, TYPE, BUNDLE = "group__", "type__", "bundle__"
"""Columns that files are written by; EVENTS has no such names. GROUP: day and a hash of the type, as one number, so
that sorting compares few strings; null: the row cannot be an event."""

_HASHES = 1 << 20
_NO_GROUP = "__HIVE_DEFAULT_PARTITION__"
_EPOCH = date(1970, 1, 1).toordinal()
TYPE_NAME = r"^[A-Za-z_][A-Za-z0-9_]{0,199}$"


@dataclass(frozen=True, slots=True)
class Staged:
    """A file that no commit names yet."""

    path: str
    """Where it lies: in the folder of the write."""
    file: StoredFile
    """As it will be called, with its statistics."""


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

    def write_events(self, events: DataFrame) -> list[Staged]:
        """The events, evaluated once, cut as they come; raises StoreError with the first row that cannot be one."""
        return self._write_spread(events.select(*EVENTS.names), (GROUP, TYPE))

    def keep(self, rows: DataFrame, name: str) -> DataFrame:
        """Evaluate rows once, for several uses."""
        place = f"{self.path}/{name}"
        self._write(rows, place)
        return self._spark.read.schema(rows.schema).parquet(self._files.full(place))

    def write_final(self, rows: DataFrame, n_rows: int, n_bytes: int) -> list[Staged]:
        """Rows of EVENTS in few files.

        `n_rows` must be what `rows` has; `n_bytes` is about what they will take.
        """
        n_parts = self._n_parts(n_rows, n_bytes)
        keyed = rows.select(*EVENTS.names)
        parted = keyed.coalesce(1) if n_parts == 1 else keyed.repartitionByRange(n_parts, _group(), "type", *ORDER)
        return _complete(self._write_spread(parted, (GROUP, TYPE)), n_rows, self._files.url)

    def write_bundles(self, rows: DataFrame, n_rows: int, n_bundles: int) -> list[Staged]:
        """As `write_final`, rows with a number BUNDLE; those of one number (of one date and type) become one file."""
        n_parts = min(n_bundles, 4 * self._spark.sparkContext.defaultParallelism)
        parted = rows.coalesce(1) if n_bundles == 1 else rows.repartition(n_parts, BUNDLE)
        return _complete(self._write_spread(parted, (GROUP, TYPE, BUNDLE)), n_rows, self._files.url)

    def rows_of(self, staged: Sequence[Staged]) -> DataFrame:
        """All rows of the files, where they lie now."""
        return scan_paths(self._spark, self._files, [one.path for one in staged])

    def place(self, staged: Sequence[Staged]) -> None:
        """Bring the files to where a commit will name them; raises StoreError, and then none is there."""
        try:
            for one in staged:
                self._files.move(one.path, one.file.path)
            for folder in sorted({one.file.path.rpartition("/")[0] for one in staged}):
                self._files.sync_folder(folder)
        except StoreError:
            self.discard([one.file for one in staged])
            raise

    def take_back(self, staged: Sequence[Staged]) -> None:
        """Undo `place`."""
        for one in staged:
            self._files.move(one.file.path, one.path)

    def discard(self, made: Sequence[StoredFile]) -> None:
        """Remove files that no commit names."""
        for file in made:
            try:
                self._files.remove(file.path)
            except StoreError:
                return  # they are swept later

    def _write_spread(self, rows: DataFrame, folders: Sequence[str]) -> list[Staged]:
        """Files of one date and type each (and one bundle), in stream order."""
        place = f"{self.path}/{uuid.uuid4().hex}"
        spread = rows.withColumns({GROUP: _group(), TYPE: sf.when(~_is_bad(), sf.col("type"))})
        with job_errors(f"{self._files.url}: cannot be written"):
            (
                spread.sortWithinPartitions(*folders, *ORDER)
                .write.partitionBy(*folders)
                .option("compression", "zstd")
                .option("maxRecordsPerFile", MOST_ROWS if BUNDLE not in folders else 0)
                .option("parquet.block.size", GROUP_BYTES)
                .option("parquet.enable.dictionary#event_id", "false")
                .parquet(self._files.full(place))
            )
        return self._described(place)

    def _n_parts(self, n_rows: int, n_bytes: int) -> int:
        cores = self._spark.sparkContext.defaultParallelism
        return max(1, math.ceil(n_bytes / self._target_bytes), min(cores, n_rows // LEAST_ROWS))

    def _described(self, place: str) -> list[Staged]:
        listed = {
            file.path.removeprefix(f"{place}/"): file
            for file in self._files.files(place)
            if file.name.endswith(".parquet")
        }
        bad = [file.path for name, file in listed.items() if name.startswith(f"{GROUP}={_NO_GROUP}/")]
        if bad:
            raise self._refused(place, bad)
        found = self._statistics(place) if listed else {}
        made: list[Staged] = []
        for name, file in listed.items():
            group, kind, *_ = (part.partition("=")[2] for part in name.split("/"))
            day = date.fromordinal(_EPOCH + int(group) // _HASHES).isoformat()
            target = f"{DATA}/date={day}/type={kind}/{uuid.uuid4().hex}.parquet"
            n_rows, min_lo_ms, max_lo_ms, max_hi_ms = found[name]
            stored = StoredFile(target, day, kind, n_rows, file.n_bytes, min_lo_ms, max_lo_ms, max_hi_ms)
            made.append(Staged(file.path, stored))
        return made

    def _statistics(self, place: str) -> Mapping[str, tuple[int, int, int, int]]:
        """By the file's name below the place; partitions that Spark finds there are of no use."""
        schema = StructType([StructField("t_lo_ms", LongType()), StructField("t_hi_ms", LongType())])
        with job_errors(f"{self._files.url}: what was written cannot be read"):
            found = (
                self._spark.read.schema(schema)
                .parquet(self._files.full(place))
                .groupBy(sf.col(FILE_PATH).alias("path"))
                .agg(sf.count("*"), sf.min("t_lo_ms"), sf.max("t_lo_ms"), sf.max("t_hi_ms"))
                .collect()
            )
        return {row[0].partition(f"/{place}/")[2]: (row[1], row[2], row[3], row[4]) for row in found}

    def _refused(self, place: str, bad: Sequence[str]) -> StoreError:
        names = ("event_id", "type", "t_lo_ms", "t_hi_ms", "source_rank", "source_seq", "origin")
        with job_errors("the staged events cannot be read"):
            rows = scan_paths(self._spark, self._files, bad).select(*names)
            n_bad, example = rows.count(), rows.orderBy(*names).first()
            n_rows = self._spark.read.schema("t_lo_ms bigint").parquet(self._files.full(place)).count()
        shown = {} if example is None else example.asDict()
        return StoreError(
            f"{n_bad} of {n_rows} events cannot be stored; found {shown}; expected a type "
            f"that is a name, values for {', '.join(NEEDED)}, and 0001-01-01 <= t_lo_ms <= t_hi_ms <= 9999-12-31"
        )

    def _write(self, rows: DataFrame, place: str) -> None:
        with job_errors(f"{self._files.url}: cannot be written"):
            rows.write.option("compression", "zstd").parquet(self._files.full(place))


def scattered(staged: Sequence[Staged]) -> set[tuple[str, str]]:
    """Dates and types whose rows lie in several files of few rows: better written anew."""
    by_group = sorted((one.file.date, one.file.type, one.file.n_rows) for one in staged)
    found = set[tuple[str, str]]()
    for group, files in groupby(by_group, key=lambda one: one[:2]):
        sizes = [n_rows for *_, n_rows in files]
        if len(sizes) > 1 and sum(sizes) < len(sizes) * LEAST_ROWS // 2:
            found.add(group)
    return found


def _complete(made: list[Staged], n_rows: int, url: str) -> list[Staged]:
    n_made = sum(one.file.n_rows for one in made)
    if n_made != n_rows:
        raise StoreError(f"{url}: {n_rows} rows were to be written, {n_made} are in the files; nothing is committed")
    return made


def _group() -> Column:
    """GROUP of a row: the day of t_lo_ms in UTC, whatever the session's time zone, and its type."""
    day = sf.floor(sf.col("t_lo_ms") / DAY_MS)
    number = day * _HASHES + sf.pmod(sf.xxhash64("type"), sf.lit(_HASHES))
    return sf.when(~_is_bad(), number)


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


def _is_bad() -> Column:
    missing = sf.lit(False)
    for name in NEEDED:
        missing = missing | sf.col(name).isNull()
    in_range = sf.col("t_lo_ms").between(FIRST_MS, MAX_TIME_MS) & sf.col("t_hi_ms").between(
        sf.col("t_lo_ms"), sf.lit(MAX_TIME_MS)
    )
    named = sf.col("type").isin(*load_event_types().types) | sf.col("type").rlike(TYPE_NAME)
    return missing | ~sf.coalesce(in_range & named, sf.lit(False))
