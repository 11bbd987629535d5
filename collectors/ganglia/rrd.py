"""Ganglia: the RRD files that gmetad keeps, `<root>/<cluster>/<host>/<metric>.rrd`, read while they grow.

A row that ends at `t` with step `s` is the mean over (t - s, t]: its event covers that interval. Only final rows are
read, unknown ones are skipped. Folder and file names are what the network sent: they are text, never trusted.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from collectors.base import (
    Collected,
    ProblemLog,
    SourceUnavailableError,
    next_watermark,
    read_position,
)
from collectors.files import FoundFile, require_root, walk
from collectors.ganglia.rrd_cache import RrdCache
from collectors.ganglia.rrd_file import (
    Rows,
    RrdLayout,
    has_known_before,
    layout_of,
    oldest_start_s,
    read_archives,
    read_rows,
)
from collectors.ganglia.rrd_header import RrdError, RrdHeader, RrdUnreadableError, read_header
from collectors.identity import SAMPLE_BYTES, SeriesIdentity, pack_samples
from collectors.lifecycle import clean_text
from collectors.metrics.normal import UNITS
from collectors.option_checks import check_not_negative, compiled_pattern
from collectors.schema import load_event_types
from collectors.time_units import DAY_MS, HOUR_MS, SECOND_MS
from engine.events import EventBatch

POSITION_VERSION = 1
SUMMARY_FOLDER = "__SummaryInfo__"
DEFAULT_METRICS = ("cpu_user", "cpu_system", "cpu_idle", "load_one", "bytes_in", "bytes_out")


@dataclass(frozen=True, slots=True)
class GangliaRrdOptions:
    """Where the RRDs are and which of them to read."""

    root: Path
    """Folder of gmetad's RRDs (its `rrd_rootdir`): a folder per cluster, in it one per host."""
    lateness_ms: int = 5_000
    source_rank: int = 0
    metrics: tuple[str, ...] = DEFAULT_METRICS
    metric_pattern: str | None = None
    """Regular expression; metrics whose whole name matches are read as well. ".*" reads all."""
    include_summary: bool = False
    """Read the sums over all hosts too (as hosts named __SummaryInfo__)."""
    backfill_ms: int = HOUR_MS
    """How far back the first read of a file goes, at most as far as its finest archive."""
    coarser: bool = False
    """The first read has the rows of coarser archives, too, where no known row of a finer one is: all there are."""
    silent_ms: int = 120_000
    """A file whose rows are this far behind `now_ms` no longer holds the watermark."""
    vanished_steps: int = 4
    """A host is reported as vanished when its last known sample is this many steps behind the cluster's newest."""
    forget_ms: int = DAY_MS
    """How long a file that has disappeared is remembered, and its host missed."""
    hosts: Mapping[str, str] = field(default_factory=dict)
    """Folder name -> host name as job history and logs write it."""
    units: Mapping[str, str] = field(default_factory=dict)
    """Units of further metrics."""
    daemon: str | None = None
    """Address of the rrdcached through which gmetad writes: files are flushed before they are read."""

    def __post_init__(self) -> None:
        check_not_negative("ganglia", self, ("lateness_ms", "backfill_ms", "silent_ms", "vanished_steps", "forget_ms"))
        if self.metric_pattern is not None:
            compiled_pattern("ganglia", self, "metric_pattern")


@dataclass(slots=True)
class _Series:
    """One file: what is known of it and how far it has been read."""

    cluster: str
    host: str
    metric: str
    path: str
    identities: dict[int, SeriesIdentity] = field(default_factory=dict)
    """By the length of a row in seconds."""
    stamp: tuple[int, int, int] | None = None
    header: RrdHeader | None = None
    layout: RrdLayout | None = None
    consumed_s: int | None = None
    known_s: int | None = None
    """End of the last row with a known value."""
    in_gap: bool = False
    refused: bool = False
    seen_ms: int = 0
    """When the file was last there."""

    def identity_of(self, step_s: int) -> SeriesIdentity:
        """Of rows of this length. One of a coarser archive may end when a finer one does, with the same value."""
        if step_s not in self.identities:
            is_finest = self.layout is None or step_s <= self.layout.archives[0].step_s
            coarser = () if is_finest else (f"{step_s} s",)
            name = ("ganglia", self.cluster, self.host, self.metric, *coarser)
            self.identities[step_s] = SeriesIdentity(name, "Metric")
        return self.identities[step_s]


@dataclass(slots=True)
class _Samples:
    """Rows of one poll, flat: one entry of `series` and `counts` per read."""

    series: list[_Series] = field(default_factory=list)
    first_end_s: list[int] = field(default_factory=list)
    step_s: list[int] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    values: list[float | None] = field(default_factory=list)

    def add(self, series: _Series, rows: Rows) -> None:
        self.series.append(series)
        self.first_end_s.append(rows.first_end_s)
        self.step_s.append(rows.step_s)
        self.counts.append(len(rows.values))
        self.values.extend(rows.values)


class GangliaRrdCollector:
    """Metric events from gmetad's RRDs."""

    name = "ganglia_rrd"

    def __init__(self, options: GangliaRrdOptions) -> None:
        self._options = options
        self._root = options.root.absolute()
        self._pattern = re.compile(options.metric_pattern) if options.metric_pattern else None
        self._wanted_names = frozenset(options.metrics)
        self._units = {**UNITS, **options.units}
        self._problems = ProblemLog(self.name, max_remembered=100_000)
        self._cache = RrdCache(options.daemon) if options.daemon is not None else None
        self._series: dict[tuple[str, ...], _Series] = {}
        self._restored: dict[tuple[str, ...], tuple[int, int | None, bool]] = {}
        self._watermark_ms: int | None = None

    def poll(self, now_ms: int) -> Collected:
        """The rows that became final; raises SourceUnavailableError when the root cannot be read."""
        require_root(self._root)
        samples = _Samples()
        self._flush(now_ms)
        for file in walk(self._root, self._problems, self._wanted, max_depth=3):
            series = self._series_of(file)
            series.seen_ms = now_ms
            try:
                self._read(series, file, now_ms, samples)
            except RrdUnreadableError as error:
                series.stamp = None  # permissions change without the file
                self._problems.report(file.path, "unreadable", str(error))
            except RrdError as error:
                kind = "not_rrd" if series.layout is None else "corrupt"
                self._problems.report(file.path, kind, f"{error}; the file is skipped until it changes")
        self._forget(now_ms)
        events = self._events(samples)
        self._report_vanished(now_ms // 1000)
        return Collected(events, self._advance(now_ms), self._problems.drain())

    def checkpoint(self) -> dict[str, Any]:
        """The end of the last row read of each file."""
        files = {
            "/".join(parts): [series.consumed_s, series.known_s, series.in_gap]
            for parts, series in self._series.items()
            if series.consumed_s is not None
        }
        files |= {"/".join(parts): list(position) for parts, position in self._restored.items()}
        return {"version": POSITION_VERSION, "watermark_ms": self._watermark_ms, "files": files}

    def restore(self, position: Mapping[str, Any]) -> None:
        """Take up a position; raises PositionError when it is not one of this collector's."""
        self._watermark_ms, self._restored = read_position(position, POSITION_VERSION, _positions)
        self._series = {}

    # ---- reading -----------------------------------------------------------------------------------------------

    def _flush(self, now_ms: int) -> None:
        """What rrdcached holds back of the files that have a row to come by now; new ones are at their next poll."""
        if self._cache is None:
            return
        due = [
            series.path
            for series in self._series.values()
            if series.layout is not None
            and series.consumed_s is not None
            and series.consumed_s + series.layout.step_s <= now_ms // 1000
        ]
        place = self._cache.address
        try:
            flushed = self._cache.flush(due)
        except SourceUnavailableError as error:
            message = f"{error}; files are read as they are, which may be some time behind"
            self._problems.report(place, "cache_unavailable", message)
            return
        if due:
            self._problems.forget((place, "cache_unavailable"))
        if flushed.refused:
            path, reason = next(iter(flushed.refused.items()))
            message = f"{len(flushed.refused):,} files are not flushed, the first: {path}: {reason}"
            self._problems.report(place, "not_flushed", message)
        elif due:
            self._problems.forget((place, "not_flushed"))

    def _wanted(self, parts: tuple[str, ...]) -> bool:
        if not parts[-1].endswith(".rrd") or (SUMMARY_FOLDER in parts and not self._options.include_summary):
            return False
        metric = parts[-1][: -len(".rrd")]
        if metric not in self._wanted_names and not (self._pattern and self._pattern.fullmatch(metric)):
            return False
        if len(parts) == 3:
            return True
        if SUMMARY_FOLDER not in parts:
            folder = "/".join((str(self._root), *parts[:-1]))
            self._problems.report(folder, "misplaced", "RRDs that are not at <cluster>/<host>/<metric>.rrd; skipped")
        return False

    def _series_of(self, file: FoundFile) -> _Series:
        series = self._series.get(file.parts)
        if series is None:
            cluster, folder, name = (clean_text(part) for part in file.parts)
            host = self._options.hosts.get(folder, folder)
            metric = name[: -len(".rrd")]
            series = _Series(cluster, host, metric, file.path)
            position = self._restored.pop(file.parts, None)
            if position is not None:
                series.consumed_s, series.known_s, series.in_gap = position
            self._series[file.parts] = series
        return series

    def _forget(self, now_ms: int) -> None:
        """Positions of files that are not there (any more); a host is missed for a day."""
        self._restored.clear()
        oldest_ms = now_ms - self._options.forget_ms
        self._series = {parts: series for parts, series in self._series.items() if series.seen_ms >= oldest_ms}

    def _read(self, series: _Series, file: FoundFile, now_ms: int, samples: _Samples) -> None:
        stamp = (file.inode, file.n_bytes, file.mtime_ns)
        if stamp != series.stamp:
            series.stamp, series.refused = stamp, True
            header = read_header(file.path, series.header)
            if series.header is None or header.fixed is not series.header.fixed:
                series.layout, series.identities = layout_of(header), {}
            series.header, series.refused = header, False
            self._problems.forget((file.path, "corrupt"))
        if series.refused or series.layout is None or series.header is None:
            return
        # Files of a replay are complete from the start: their rows come out as `now_ms` reaches them.
        step_s = series.layout.step_s
        final_s = min(series.header.updated_s, now_ms // 1000) // step_s * step_s
        start_s, finest = series.consumed_s, series.layout.archives[0]
        if start_s is None and self._options.coarser:
            for rows in read_archives(file.path, series.header, series.layout, final_s):
                if rows.step_s == finest.step_s:
                    self._note_gaps(series, rows)
                samples.add(series, rows)
            series.consumed_s = final_s
            return
        oldest_s = oldest_start_s(finest, series.header.updated_s)
        if start_s is None:
            start_s = max(oldest_s, (now_ms - self._options.backfill_ms) // 1000)
        else:
            self._note_missed(oldest_s, now_ms)
        if final_s <= start_s:
            return
        for rows in read_rows(file.path, series.header, series.layout, start_s, final_s):
            self._note_gaps(series, rows)
            samples.add(series, rows)
        series.consumed_s = final_s

    def _note_missed(self, oldest_s: int, now_ms: int) -> None:
        """Report once what stands in no finest archive any more, as nothing was read for so long."""
        if self._watermark_ms is None or oldest_s * 1000 <= self._watermark_ms:
            return
        missed_s = oldest_s - self._watermark_ms // 1000
        message = (
            f"{missed_s} s of samples from {self._watermark_ms // 1000} s after the epoch on are left out: nothing was "
            "read for longer than the finest archives reach back; `clustercep ingest` reads the coarser ones"
        )
        self._problems.report(str(self._root), "missed", message, key=("missed", now_ms))

    def _note_gaps(self, series: _Series, rows: Rows) -> None:
        """Report each run of unknown rows once; before the first value that a file ever had there is no gap."""
        known = [value is not None and math.isfinite(value) for value in rows.values]
        if series.known_s is None and not known[0] and not series.in_gap and series.layout and series.header:
            before_s = rows.first_end_s - rows.step_s
            if has_known_before(series.path, series.layout, series.header.updated_s, before_s):
                self._open_gap(series, before_s)
        for i, is_known in enumerate(known):
            end_s = rows.first_end_s + i * rows.step_s
            if is_known:
                series.known_s, series.in_gap = end_s, False
            elif not series.in_gap and series.known_s is not None:
                self._open_gap(series, series.known_s)

    def _open_gap(self, series: _Series, from_s: int) -> None:
        series.in_gap = True
        message = f"no known value from {from_s} s after the epoch on; unknown samples are left out"
        self._problems.report(series.path, "unknown_samples", message, key=(series.path, "gap", from_s))

    # ---- events ------------------------------------------------------------------------------------------------

    def _events(self, samples: _Samples) -> EventBatch:
        if not samples.values:
            return EventBatch.empty()
        counts = np.asarray(samples.counts, np.int64)
        values = np.array(samples.values, np.float64)
        read_idx = np.repeat(np.arange(len(counts)), counts)
        within = np.arange(len(values)) - np.repeat(np.cumsum(counts) - counts, counts)
        step_s = np.asarray(samples.step_s, np.int64)[read_idx]
        end_s = np.asarray(samples.first_end_s, np.int64)[read_idx] + within * step_s
        known = np.isfinite(values)
        read_idx, values, step_s, end_s = read_idx[known], values[known], step_s[known], end_s[known]
        t_hi_ms = end_s * 1000
        packed = pack_samples(t_hi_ms, values)
        identities = [series.identity_of(step) for series, step in zip(samples.series, samples.step_s, strict=True)]
        ids = [
            identities[idx].id_of(packed[row * SAMPLE_BYTES : (row + 1) * SAMPLE_BYTES])
            for row, idx in enumerate(read_idx.tolist())
        ]
        of_read = pa.array(read_idx)

        def column(texts: Iterable[str | None]) -> pa.Array:
            return pa.array(list(texts), pa.string()).take(of_read)

        return EventBatch.from_columns(
            {
                "event_id": ids,
                "type": pa.array(["Metric"], pa.string()).take(pa.array(np.zeros(len(ids), np.int64))),
                "t_lo_ms": t_hi_ms - step_s * 1000 + 1,
                "t_hi_ms": t_hi_ms,
                "source_rank": np.full(len(ids), self._options.source_rank, np.int32),
                "source_seq": end_s // step_s,
                "clock_id": column(f"ganglia:{series.cluster}" for series in samples.series),
                "origin": column(clean_text(series.path) for series in samples.series),
                "host": column(series.host for series in samples.series),
                "name": column(series.metric for series in samples.series),
                "value": values,
                "unit": column(self._units.get(series.metric) for series in samples.series),
                "resolution_ms": step_s * SECOND_MS,
            },
            load_event_types(),
        )

    # ---- hosts and watermark -----------------------------------------------------------------------------------

    def _report_vanished(self, now_s: int) -> None:
        last_s: dict[tuple[str, str], int] = {}
        step_of: dict[str, int] = {}
        for series in self._series.values():
            if series.layout is not None and series.header is not None:
                key = (series.cluster, series.host)
                seen_s = min(series.header.updated_s, now_s) if series.known_s is None else series.known_s
                last_s[key] = max(last_s.get(key, 0), seen_s)
                step_of[series.cluster] = max(step_of.get(series.cluster, 0), series.layout.step_s)
        newest_s: dict[str, int] = {}
        for (cluster, _), seen_s in last_s.items():
            newest_s[cluster] = max(newest_s.get(cluster, 0), seen_s)
        for (cluster, host), seen_s in last_s.items():
            behind_s = newest_s[cluster] - seen_s
            if behind_s > self._options.vanished_steps * step_of[cluster]:
                message = f"cluster {cluster!r}: no known sample for {behind_s} s while other hosts go on"
                self._problems.report(host, "host_vanished", message, key=(cluster, host, "vanished"))
            else:
                self._problems.forget((cluster, host, "vanished"))

    def _advance(self, now_ms: int) -> int:
        """Rows still to come end after what each file that is not silent has given; never back."""
        watermark_ms = now_ms - self._options.lateness_ms
        for series in self._series.values():
            if series.consumed_s is not None and series.consumed_s * 1000 >= now_ms - self._options.silent_ms:
                watermark_ms = min(watermark_ms, series.consumed_s * 1000 + 1)
        self._watermark_ms = next_watermark(self._watermark_ms, watermark_ms, now_ms)
        return self._watermark_ms


def _positions(
    position: Mapping[str, Any],
) -> tuple[int | None, dict[tuple[str, ...], tuple[int, int | None, bool]]]:
    watermark_ms = position["watermark_ms"]
    files = {
        tuple(str(key).split("/")): (int(consumed_s), None if known_s is None else int(known_s), bool(in_gap))
        for key, (consumed_s, known_s, in_gap) in position["files"].items()
    }
    return (None if watermark_ms is None else int(watermark_ms)), files


__all__ = ["DEFAULT_METRICS", "GangliaRrdCollector", "GangliaRrdOptions"]
