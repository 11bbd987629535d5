"""Inside a file: Parquet, one run of row groups per event type, each in stream order; what its footer tells.

So the statistics of a row group name exactly one type (files of single steps are too small for that), and a narrow
span of time. Columns that a row group has no value of are not read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from engine.events import HEADER

ORDER = tuple((name, "ascending") for name in ("t_lo_ms", "source_rank", "source_seq", "event_id"))
"""Stream order, as EventBatch.sorted has it."""

GROUP_ROWS = 50_000
LOGGED_KEY = b"clustercep.logged_ms"

DATA_ERRORS = (pa.ArrowException, OSError)
"""What reading a damaged file raises."""


class LayoutError(ValueError):
    """A Parquet file that holds no events."""


@dataclass(frozen=True, slots=True)
class Group:
    """What is known of one row group without reading it."""

    index: int
    n_rows: int
    first_type: str
    last_type: str
    """In alphabetical order; equal when the group holds one type."""
    min_lo_ms: int
    max_lo_ms: int
    max_hi_ms: int
    columns: tuple[str, ...]
    """The header's, and the attributes that some row has."""
    text_bounds: Mapping[str, tuple[str, str]]
    """Of columns of text the first and the last value in the order of code points, where the footer tells."""

    def may_have(
        self,
        types: Collection[str] | None,
        from_ms: int | None,
        to_ms: int | None,
        equal: Mapping[str, str] | None = None,
    ) -> bool:
        """Whether any of its events can be of these types, touch the closed span and have these values."""
        if types is not None and not any(self.first_type <= name <= self.last_type for name in types):
            return False
        for name, value in (equal or {}).items():
            first, last = self.text_bounds.get(name, (value, value))
            if name not in self.columns or not first <= value <= last:
                return False
        return (from_ms is None or self.max_hi_ms >= from_ms) and (to_ms is None or self.min_lo_ms <= to_ms)

    def lies_within(self, from_ms: int | None, to_ms: int | None) -> bool:
        """Whether each of its events touches the closed span."""
        return (from_ms is None or self.min_lo_ms >= from_ms) and (to_ms is None or self.max_lo_ms <= to_ms)


@dataclass(frozen=True)
class Summary:
    """A file's footer."""

    metadata: pq.FileMetaData
    groups: tuple[Group, ...]
    logged_ms: int
    """When its last step was logged, on the pipeline's clock."""

    @property
    def n_rows(self) -> int:
        """Of all groups."""
        return int(self.metadata.num_rows)


def write(path: Path, table: pa.Table, logged_ms: int) -> None:
    """Write events as they are, in one row group (for single steps)."""
    pq.write_table(_with_values(table).replace_schema_metadata({LOGGED_KEY: str(logged_ms)}), path, compression="zstd")


def write_sorted(path: Path, table: pa.Table, logged_ms: int) -> None:
    """Write events by type, then in stream order."""
    table = _with_values(table).sort_by([("type", "ascending"), *ORDER])
    table = table.replace_schema_metadata({LOGGED_KEY: str(logged_ms)})
    types = table.column("type").combine_chunks().dictionary_encode()
    codes = types.indices.to_numpy(zero_copy_only=False)
    bounds = [0, *(np.flatnonzero(np.diff(codes)) + 1).tolist(), len(codes)]
    with pq.ParquetWriter(path, table.schema, compression="zstd") as writer:
        for start, stop in pairwise(bounds):
            writer.write_table(table.slice(start, stop - start), row_group_size=GROUP_ROWS)


def read_summary(source: pa.NativeFile) -> Summary:
    """The footer of an open file; raises LayoutError, and DATA_ERRORS for what is no whole Parquet file."""
    metadata = pq.ParquetFile(source).metadata
    schema = metadata.schema.to_arrow_schema()
    missing = [field.name for field in HEADER if field.name not in schema.names]
    wrong = [f.name for f in HEADER if f.name in schema.names and not schema.field(f.name).type.equals(f.type)]
    if missing or wrong:
        raise LayoutError(f"columns that are missing: {missing}, of another type: {wrong}")
    logged = (metadata.metadata or {}).get(LOGGED_KEY, b"")
    if not logged.lstrip(b"-").isdigit():
        raise LayoutError("it does not say when it was logged")
    groups = tuple(_group(metadata, i) for i in range(metadata.num_row_groups))
    return Summary(metadata, groups, int(logged))


def read_whole(path: Path) -> pa.Table:
    """All events of a file; raises FileNotFoundError, and DATA_ERRORS when it is damaged."""
    with pa.OSFile(str(path), "rb") as source:
        return pq.ParquetFile(source).read()


def unite(tables: Iterable[pa.Table]) -> pa.Table:
    """One table with the rows of all in their order; columns that some lack are null there.

    Numbers of different kinds become doubles; raises pa.ArrowException when an attribute is text in one table and a
    number in another.
    """
    found = list(tables)
    if not found:
        return HEADER.empty_table()
    plain = [table.replace_schema_metadata(None) for table in found]
    return pa.concat_tables(plain, promote_options="permissive").combine_chunks()


def touching(table: pa.Table, types: Collection[str] | None, from_ms: int | None, to_ms: int | None) -> pa.Table:
    """The rows of these types whose interval touches the closed span."""
    mask: pa.ChunkedArray | None = None
    for wanted in (
        None if types is None else pc.is_in(table.column("type"), value_set=pa.array(sorted(types), pa.string())),
        None if from_ms is None else pc.greater_equal(table.column("t_hi_ms"), from_ms),
        None if to_ms is None else pc.less_equal(table.column("t_lo_ms"), to_ms),
    ):
        if wanted is not None:
            mask = wanted if mask is None else pc.and_(mask, wanted)
    return table if mask is None else table.filter(mask)


def has_values(table: pa.Table, equal: Mapping[str, str]) -> pa.ChunkedArray:
    """Which rows have these values in these columns; at least one is asked for."""
    mask: pa.ChunkedArray | None = None
    for name, value in equal.items():
        wanted = pc.fill_null(pc.equal(table.column(name), value), False)
        mask = wanted if mask is None else pc.and_(mask, wanted)
    assert mask is not None
    return mask


def latest(table: pa.Table, column: str) -> pa.Table:
    """Each value of a column of text once, with the latest t_hi_ms of the rows that have it."""
    found = table.group_by(column).aggregate([("t_hi_ms", "max")])
    values = found.column(column).cast(pa.string())  # files may differ in how they have it
    return pa.table({column: values, "t_hi_ms": found.column("t_hi_ms_max")})


def latest_of(tables: Sequence[pa.Table], column: str) -> dict[str, int]:
    """By value, of all that `latest` found in some row groups."""
    if not tables:
        return {}
    found = latest(pa.concat_tables(tables), column)
    pairs = zip(found.column(column).to_pylist(), found.column("t_hi_ms").to_pylist(), strict=True)
    return {value: time_ms for value, time_ms in pairs if value is not None}


def _with_values(table: pa.Table) -> pa.Table:
    """Without the attributes that no row has."""
    kept = [n for n in table.column_names if n in HEADER.names or table.column(n).null_count < table.num_rows]
    return table.select(kept)


def _group(metadata: pq.FileMetaData, index: int) -> Group:
    group = metadata.row_group(index)
    columns: list[str] = []
    text_bounds: dict[str, tuple[str, str]] = {}
    found = {}
    for i in range(group.num_columns):
        column = group.column(i)
        name, statistics = column.path_in_schema.split(".")[0], column.statistics
        found[name] = statistics
        n_nulls = 0 if statistics is None or statistics.null_count is None else statistics.null_count
        if name in HEADER.names or n_nulls < group.num_rows:
            columns.append(name)
        if statistics is not None and statistics.has_min_max and isinstance(statistics.min, str):
            text_bounds[name] = statistics.min, statistics.max
    bounds = [found[name] for name in ("type", "t_lo_ms", "t_hi_ms")]
    if any(statistics is None or not statistics.has_min_max for statistics in bounds):
        raise LayoutError("a row group without statistics of type and time")
    event_type, lo, hi = bounds
    return Group(
        index=index,
        n_rows=int(group.num_rows),
        first_type=event_type.min,
        last_type=event_type.max,
        min_lo_ms=int(lo.min),
        max_lo_ms=int(lo.max),
        max_hi_ms=int(hi.max),
        columns=tuple(dict.fromkeys(columns)),
        text_bounds=text_bounds,
    )
