"""The rows of one job, or of one application, of a store on this machine or anywhere."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import functions as sf

from app.event_store.commits import CommitReader, chosen_files
from app.event_store.errors import StoreError
from app.event_store.folder import LocalFolder
from spark_jobs.event_store import EventStore, reading
from spark_jobs.event_store.errors import job_errors

Rows = Callable[[Collection[str], int | None, int | None], pa.Table]
"""Of these types, of files that touch the closed span."""


def rows_here(url: str, key: str, value: str, columns: Sequence[str], read: Callable[[Rows], pa.Table]) -> pa.Table:
    """What `read` makes of the rows with this value of `key`, of a store on this machine (file:///...).

    Raises StoreError.
    """
    folder = LocalFolder(url)
    try:
        files = reading.opened(CommitReader(folder), url).files.values()

        def rows(types: Collection[str], from_ms: int | None, to_ms: int | None) -> pa.Table:
            tables = []
            for file in chosen_files(files, types, from_ms, to_ms):
                path = folder.path(file.path)
                present = set(pq.read_schema(path).names)
                if key in present:
                    names = [name for name in columns if name in present]
                    tables.append(pq.read_table(path, columns=names, filters=pc.field(key) == value, partitioning=None))
            return pa.concat_tables(tables, promote_options="permissive") if tables else pa.table({})

        return read(rows)
    except OSError as error:
        raise StoreError(f"{url}: {error.strerror or error}") from error
    except pa.ArrowException as error:
        raise StoreError(f"{url}: {str(error).splitlines()[0]}; see `clustercep store info`") from error


def rows_on_spark(
    store: EventStore, key: str, value: str, columns: Sequence[str], read: Callable[[Rows], pa.Table]
) -> pa.Table:
    """As `rows_here`, by Spark."""

    def rows(types: Collection[str], from_ms: int | None, to_ms: int | None) -> pa.Table:
        found: pa.Table = store.read(tuple(types), columns, from_ms, to_ms).where(sf.col(key) == value).toArrow()
        return found

    with job_errors(f"{store.url}: cannot be read"):
        return read(rows)


__all__ = ["Rows", "rows_here", "rows_on_spark"]
