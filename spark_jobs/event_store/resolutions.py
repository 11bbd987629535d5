"""Samples out of RRDs at several resolutions: which staged ones do not count, which stored ones finer ones supersede.

A staged sample does not count where a finer one of its series, staged or stored, touches it; a stored one does not any
more where a finer staged one that counts touches it. So no two samples of a series that differ in resolution tell of
one time.

Where the steps of all archives divide each other, to touch a coarser sample is to be within it, and what is within a
sample is within every coarser one that has this within. So whatever keeps a sample out, another one does that counts
itself; what is stored at the end are the samples that no finer one touches, in whatever order files came.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from app.event_store.commits import StoredFile
from collectors.file_kinds import RRD
from collectors.metrics.resolution import overlapped
from collectors.sources import SOURCE_OF_KIND
from engine.events import BoolArray, Int64Array
from spark_jobs.event_store.duplicates import FILE, ROW, STAGED
from spark_jobs.event_store.reading import FILE_PATH
from spark_jobs.event_store.schema import SOURCE

SAMPLE = "Metric"
SAMPLE_SOURCE = SOURCE_OF_KIND[RRD]
SERIES = ("clock_id", "host", "name")
SAMPLE_COLUMNS = (SOURCE, *SERIES, "event_id", "t_lo_ms", "t_hi_ms", "skew_ms", "resolution_ms")

_IS_NEW, _LO, _HI, _RESOLUTION = "is_new__", "lo__", "hi__", "resolution__"
_HASHES = ("series_1__", "series_2__")
_FOUND = f"type string, event_id string, {STAGED} string, {ROW} bigint, {FILE} string"


def left_out(
    series: Int64Array, t_lo_ms: Int64Array, t_hi_ms: Int64Array, resolution_ms: Int64Array, is_new: BoolArray
) -> BoolArray:
    """Which samples do not count, shapes (n,): see above. The others are stored."""
    everything = np.ones(len(series), np.bool_)
    refused = overlapped(series, t_lo_ms, t_hi_ms, resolution_ms, everything) & is_new
    superseded = overlapped(series, t_lo_ms, t_hi_ms, resolution_ms, is_new & ~refused) & ~is_new
    return refused | superseded


def touched(files: Iterable[StoredFile], new: Iterable[StoredFile]) -> list[StoredFile]:
    """The files whose samples may touch those of the new files, at whatever resolution."""
    spans = [(one.min_lo_ms, one.max_hi_ms) for one in new if one.type == SAMPLE]
    return [file for file in files if file.type == SAMPLE and any(file.touches(*span) for span in spans)]


# ---- in memory -------------------------------------------------------------------------------------------------


def left_out_here(new: pa.Table, stored: pa.Table) -> tuple[BoolArray, BoolArray]:
    """As `left_out`, for rows with SAMPLE_COLUMNS, samples of RRDs all."""
    rows = pa.concat_tables([new.select(SAMPLE_COLUMNS), stored.select(SAMPLE_COLUMNS)]).combine_chunks()
    names = pc.binary_join_element_wise(*(pc.fill_null(rows.column(name), "") for name in SERIES), "\0")
    series = names.combine_chunks().dictionary_encode().indices.to_numpy().astype(np.int64)
    # Without what clocks may be off.
    skew_ms = pc.fill_null(rows.column("skew_ms"), 0).to_numpy()
    lo_ms, hi_ms = rows.column("t_lo_ms").to_numpy() + skew_ms, rows.column("t_hi_ms").to_numpy() - skew_ms
    # Those of a version before have the length of their interval.
    told_ms = pc.coalesce(rows.column("resolution_ms"), pa.array(hi_ms - lo_ms + 1)).to_numpy()
    found = left_out(series, lo_ms, hi_ms, told_ms, np.arange(len(rows)) < len(new))
    return found[: len(new)], found[len(new) :]


# ---- on Spark --------------------------------------------------------------------------------------------------


def left_out_rows(staged: DataFrame, stored: DataFrame | None) -> DataFrame | None:
    """As `left_out`, of rows of files: such as `duplicates.losers` gives. None: all samples have one resolution."""
    nothing = sf.lit(None)
    rows = _samples(staged, sf.col(FILE_PATH), sf.col("_metadata.row_index"), nothing)
    if stored is not None:
        rows = rows.unionAll(_samples(stored, nothing, nothing, sf.col("_metadata.file_name")))
    bounds = rows.agg(sf.min(_RESOLUTION), sf.max(_RESOLUTION)).first()
    if bounds is None or bounds[0] == bounds[1]:
        return None
    # Most samples are of the finest resolution, and what is said of them is only where they are.
    is_coarser = sf.col(_RESOLUTION) > sf.lit(bounds[0])
    lean = {name: sf.when(is_coarser, sf.col(name)) for name in ("event_id", STAGED, ROW, FILE)}
    ordered = rows.withColumns(lean).repartition(*_HASHES).sortWithinPartitions(*_HASHES)
    return ordered.mapInArrow(_found, _FOUND)


def _samples(rows: DataFrame, staged: Column, row: Column, file: Column) -> DataFrame:
    """Of rows of files; `staged`, `row`, `file`: what says which row it is, as `duplicates` has it."""
    is_sample = (sf.col("type") == SAMPLE) & (sf.col(SOURCE) == SAMPLE_SOURCE)
    skew_ms = sf.coalesce(sf.col("skew_ms"), sf.lit(0))
    lo_ms, hi_ms = sf.col("t_lo_ms") + skew_ms, sf.col("t_hi_ms") - skew_ms
    return rows.where(is_sample).select(
        sf.xxhash64(*SERIES).alias(_HASHES[0]),
        sf.xxhash64(sf.lit(1), *SERIES).alias(_HASHES[1]),
        lo_ms.alias(_LO),
        hi_ms.alias(_HI),
        sf.coalesce(sf.col("resolution_ms"), hi_ms - lo_ms + 1).alias(_RESOLUTION),
        sf.col("event_id"),
        staged.cast("string").alias(STAGED),
        row.cast("bigint").alias(ROW),
        file.cast("string").alias(FILE),
        file.isNull().alias(_IS_NEW),
    )


def _found(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for rows in _whole_series(batches):
        series = np.cumsum(_begins(rows)) - 1
        lo_ms, hi_ms, resolution_ms, is_new = (
            rows.column(name).to_numpy() for name in (_LO, _HI, _RESOLUTION, _IS_NEW)
        )
        gone = rows.filter(pa.array(left_out(series, lo_ms, hi_ms, resolution_ms, is_new)))
        kind = pa.array([SAMPLE] * len(gone), pa.string())
        columns = [kind, *(gone.column(name) for name in ("event_id", STAGED, ROW, FILE))]
        yield from pa.table(columns, names=["type", "event_id", STAGED, ROW, FILE]).to_batches()


def _whole_series(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Rows that come series by series, cut only where one begins."""
    held: list[pa.RecordBatch] = []
    for batch in batches:
        rows = pa.Table.from_batches([*held, batch])
        last = int(np.flatnonzero(_begins(rows))[-1]) if len(rows) else 0
        if last:
            yield rows.slice(0, last)
            held = rows.slice(last).to_batches()
        else:
            held = rows.to_batches()
    if held:
        yield pa.Table.from_batches(held)


def _begins(rows: pa.Table) -> BoolArray:
    """Where another series begins."""
    begins = np.zeros(len(rows), np.bool_)
    begins[:1] = True
    for name in _HASHES:
        hashes = rows.column(name).to_numpy()
        begins[1:] |= hashes[1:] != hashes[:-1]
    return begins


__all__ = ["SAMPLE", "SAMPLE_COLUMNS", "SAMPLE_SOURCE", "left_out", "left_out_here", "left_out_rows", "touched"]
