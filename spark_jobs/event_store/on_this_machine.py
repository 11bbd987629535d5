"""Few events of a store that lies on this machine, read without a JVM: before Spark has started they are there."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from app.event_store.commits import CommitReader, StoredFile, chosen_files
from app.event_store.folder import LocalFolder, is_here, rooted
from spark_jobs.event_store import reading
from spark_jobs.event_store.schema import NEEDED


def are_few(url: str, files: Collection[StoredFile], most_events: int) -> bool:
    """Whether the store at a URL is on this machine, and these of its files have no more events."""
    return is_here(url) and sum(file.n_rows for file in files) <= most_events


def read_few(
    url: str,
    types: Collection[str],
    columns: Sequence[str],
    from_ms: int | None,
    to_ms: int | None,
    most_events: int,
) -> pa.Table | None:
    """The events that `EventStore.read` would give, in no order; absent attributes are null or no column at all.

    None: the store is elsewhere, its files have more than `most_events`, or cannot be read as they should; what is
    wrong with them Spark tells, which reads them next. Raises StoreError as `EventStore.open` does.
    """
    if not is_here(url):
        return None
    place = rooted(url)
    folder = LocalFolder(place)
    try:
        files = chosen_files(reading.opened(CommitReader(folder), place).files.values(), types, from_ms, to_ms)
        if not are_few(place, files, most_events):
            return None
        return events_of([folder.path(file.path) for file in files], columns, from_ms, to_ms)
    except (OSError, pa.ArrowException):
        return None


def check_is_there(url: str) -> None:
    """Raises StoreError, as `EventStore.open` does, where a URL is of this machine and no store is there."""
    if not is_here(url):
        return
    place = rooted(url)
    try:
        is_there = CommitReader(LocalFolder(place)).latest() >= 0
    except OSError:  # Spark tells what is wrong
        return
    if not is_there:
        raise reading.no_store(place)


def events_of(
    paths: Sequence[Path], columns: Sequence[str], from_ms: int | None = None, to_ms: int | None = None
) -> pa.Table | None:
    """These columns of the events of Parquet files that touch the closed span; None where a needed value is missing.

    Raises OSError or pa.ArrowException for what cannot be read.
    """
    touching = None
    for bound, column, keeps in ((from_ms, "t_hi_ms", pc.greater_equal), (to_ms, "t_lo_ms", pc.less_equal)):
        if bound is not None:
            own = keeps(pc.field(column), bound) | pc.field(column).is_null()
            touching = own if touching is None else touching & own
    tables = []
    for path in paths:
        present = set(pq.read_schema(path).names)
        found = pq.read_table(path, columns=[name for name in columns if name in present], filters=touching)
        if any(name not in present or found.column(name).null_count for name in columns if name in NEEDED):
            return None
        tables.append(found)
    return pa.concat_tables(tables, promote_options="default") if tables else pa.table({})


__all__ = ["are_few", "check_is_there", "events_of", "read_few"]
