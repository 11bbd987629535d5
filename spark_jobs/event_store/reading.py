"""Stored files as a DataFrame: nothing but the needed files and columns is read."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import StructField, StructType

from app.event_store.commits import CommitReader, State, StoredFile
from app.event_store.errors import StoreError
from spark_jobs.event_store.errors import job_errors
from spark_jobs.event_store.file_system import StoreFiles
from spark_jobs.event_store.schema import COLUMNS, EVENTS, NEEDED

FILE_PATH = "_metadata.file_path"


def check_columns(url: str, state: State) -> None:
    """Raises StoreError when the store's files have not the columns that are needed, or others under their names."""
    if not state.files:
        return
    missing = [name for name in NEEDED if name not in state.columns]
    other = [
        f"{name} ({found}; expected {COLUMNS[name]})"
        for name, found in state.columns.items()
        if name in COLUMNS and found != COLUMNS[name]
    ]
    if missing or other:
        found = f"no columns {', '.join(missing)}" if missing else f"columns of another type: {', '.join(other)}"
        raise StoreError(f"{url}: its files have {found}; update clustercep, or ingest into a new store")


def check_rewritable(url: str, state: State) -> None:
    """Raises StoreError when files have columns that this program would lose in writing them anew."""
    unknown = sorted(set(state.columns) - set(COLUMNS))
    if unknown:
        raise StoreError(
            f"{url}: some of its files have columns that this program does not know ({', '.join(unknown)}) and "
            "would lose when it merges or replaces; the store was written by a newer version of clustercep: update it"
        )


def no_store(url: str) -> StoreError:
    """What is said of a URL where no event store is."""
    return StoreError(f"{url}: no event store there; expected a folder that `clustercep ingest` made")


def opened(log: CommitReader, url: str) -> State:
    """The present state of the store at a URL; raises StoreError when there is none or it cannot be read."""
    state = log.read()
    if state.number < 0:
        raise no_store(url)
    check_columns(url, state)
    return state


def read_files(
    spark: SparkSession,
    files: StoreFiles,
    selected: Sequence[StoredFile],
    columns: Sequence[str] | None = None,
    from_ms: int | None = None,
    to_ms: int | None = None,
) -> DataFrame:
    """Columns of the events of these files that touch the closed span; absent attributes are null.

    A file without a needed column stops the job that reads it with an error that names both.
    """
    names = list(EVENTS.names if columns is None else columns)
    unknown = [name for name in names if name not in EVENTS.names]
    if unknown:
        raise StoreError(f"events have no column {', '.join(unknown)}; expected some of {', '.join(EVENTS.names)}")
    if not selected:
        return spark.createDataFrame([], StructType([EVENTS[name] for name in names]))
    rows = scan(spark, files, selected)
    if from_ms is not None:
        rows = rows.filter((sf.col("t_hi_ms") >= from_ms) | sf.col("t_hi_ms").isNull())
    if to_ms is not None:
        rows = rows.filter((sf.col("t_lo_ms") <= to_ms) | sf.col("t_lo_ms").isNull())
    return rows.select(*(_present(name) if name in NEEDED else sf.col(name) for name in names))


def scan(spark: SparkSession, files: StoreFiles, selected: Sequence[StoredFile]) -> DataFrame:
    """All rows of the files as they are."""
    return scan_paths(spark, files, [file.path for file in selected])


def scan_paths(spark: SparkSession, files: StoreFiles, paths: Sequence[str]) -> DataFrame:
    """All rows of the files below the store's root as they are."""
    nullable = StructType([StructField(field.name, field.dataType) for field in EVENTS])
    with job_errors(f"{files.url}: cannot be read"):
        return spark.read.schema(nullable).parquet(*(files.full(path) for path in paths))


def _present(name: str) -> Column:
    """The column; an error that names the file where it has no value."""
    message = sf.concat(
        sf.col(FILE_PATH), sf.lit(f": no column {name}, or no value in it; restore the file from a backup")
    )
    return sf.coalesce(sf.col(name), sf.raise_error(message).cast(EVENTS[name].dataType)).alias(name)
