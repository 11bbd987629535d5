"""One RRD file: what it holds, its final rows at the finest resolution that still has them, or those of all archives.

A row of any archive ends at a multiple of its step since the epoch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import rrdtool

from collectors.ganglia.rrd_header import RrdError, RrdHeader, read_header
from collectors.metrics.resolution import overlapped

VALUE_SOURCE = "sum"
"""gmetad's data source of a host's metric; summaries have "num" beside it."""

MAX_TORN_READS = 4

RRDTOOL_ERRORS = (rrdtool.OperationalError, rrdtool.ProgrammingError, UnicodeError, SystemError)
"""SystemError: what the binding raises when the text in a file is not UTF-8."""


@dataclass(frozen=True, slots=True)
class Archive:
    """One round-robin archive of averages."""

    step_s: int
    n_rows: int


@dataclass(frozen=True, slots=True)
class RrdLayout:
    """What does not change in the life of the file."""

    step_s: int
    value_idx: int
    archives: tuple[Archive, ...]
    """Of averages, finest first, each with another step."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows at one resolution: row i ends at `first_end_s + i * step_s`; None or NaN is unknown."""

    first_end_s: int
    step_s: int
    values: Sequence[float | None]


def layout_of(header: RrdHeader) -> RrdLayout:
    """The data source and the archives of averages; raises RrdError when gmetad has not written the file."""
    if VALUE_SOURCE in header.sources:
        value_idx = header.sources.index(VALUE_SOURCE)
    elif len(header.sources) == 1:
        value_idx = 0
    else:
        raise RrdError(f"data sources {sorted(header.sources)}; expected 'sum' or a single one: not written by gmetad")
    n_rows: dict[int, int] = {}
    for name, steps, rows in header.archives:
        if name == "AVERAGE":  # of two with the same step the longer one has what the other has
            n_rows[header.step_s * steps] = max(rows, n_rows.get(header.step_s * steps, 0))
    if not n_rows:
        raise RrdError("no archive of averages; not written by gmetad")
    return RrdLayout(header.step_s, value_idx, tuple(Archive(*archive) for archive in sorted(n_rows.items())))


def oldest_start_s(archive: Archive, updated_s: int) -> int:
    """Where the oldest row of the archive begins."""
    return updated_s // archive.step_s * archive.step_s - archive.n_rows * archive.step_s


def read_rows(path: str, header: RrdHeader, layout: RrdLayout, start_s: int, end_s: int) -> list[Rows]:
    """The rows of the finest archive that end in (start_s, end_s], as far as it still has them: none or one read.

    All are final: end_s is at most the file's last update in `header`.
    """
    finest = layout.archives[0]

    def read(updated_s: int) -> list[Rows]:
        lower_s = -(-max(start_s, oldest_start_s(finest, updated_s)) // finest.step_s) * finest.step_s
        upper_s = end_s // finest.step_s * finest.step_s
        return [_fetch(path, layout.value_idx, finest.step_s, lower_s, upper_s)] if lower_s < upper_s else []

    return _untorn(path, header, read)


def read_archives(path: str, header: RrdHeader, layout: RrdLayout, end_s: int) -> list[Rows]:
    """All rows that end by `end_s`, the finest archive first; end_s is as for `read_rows`.

    Rows of coarser archives that a known row of a finer one touches are unknown: it tells of that time.
    """

    def read(updated_s: int) -> list[Rows]:
        reads = [
            (archive.step_s, oldest_start_s(archive, updated_s), end_s // archive.step_s * archive.step_s)
            for archive in layout.archives
        ]
        return [_fetch(path, layout.value_idx, *read) for read in reads if read[1] < read[2]]

    return _each_time_once(_untorn(path, header, read))


def _untorn(path: str, header: RrdHeader, read: Callable[[int], list[Rows]]) -> list[Rows]:
    """What `read` gives of the file as it was last updated at a time.

    When the file is updated during the read it is read again, so that no row is taken for its neighbour.
    """
    for _ in range(MAX_TORN_READS):
        rows = read(header.updated_s)
        before, header = header, read_header(path, header)
        if header == before:
            return rows
    raise RrdError(f"it was updated during each of {MAX_TORN_READS} reads; it is read again at the next poll")


def _each_time_once(archives: list[Rows]) -> list[Rows]:
    if len(archives) < 2:
        return archives
    values = np.concatenate([np.array(rows.values, np.float64) for rows in archives])
    step_s = np.concatenate([np.full(len(rows.values), rows.step_s) for rows in archives])
    end_s = np.concatenate([rows.first_end_s + np.arange(len(rows.values)) * rows.step_s for rows in archives])
    known = np.isfinite(values)
    values[overlapped(np.zeros_like(end_s), end_s - step_s + 1, end_s, step_s, known)] = np.nan
    cuts = np.cumsum([len(rows.values) for rows in archives])[:-1]
    parts = np.split(values, cuts)
    return [replace(rows, values=part.tolist()) for rows, part in zip(archives, parts, strict=True)]


def has_known_before(path: str, layout: RrdLayout, updated_s: int, before_s: int) -> bool:
    """Whether any archive still has a known row that ends at or before `before_s`."""
    for archive in layout.archives:
        start_s, end_s = oldest_start_s(archive, updated_s), before_s // archive.step_s * archive.step_s
        if end_s > start_s:
            rows = _fetch(path, layout.value_idx, archive.step_s, start_s, end_s)
            if any(value is not None and math.isfinite(value) for value in rows.values):
                return True
    return False


def _fetch(path: str, value_idx: int, step_s: int, start_s: int, end_s: int) -> Rows:
    if not _is_utf8(path):
        raise RrdError("its path is not UTF-8, which rrdtool cannot open: rename the folder or file")
    try:
        (from_s, _, found_step_s), _, rows = rrdtool.fetch(
            path, "AVERAGE", "-r", str(step_s), "-s", str(start_s), "-e", str(end_s)
        )
    except RRDTOOL_ERRORS as error:
        raise RrdError(str(error)) from error
    if found_step_s != step_s:
        raise RrdError(
            f"rows of {found_step_s} s where the archive of {step_s} s should have them; the file is damaged"
        )
    first, last = (start_s - from_s) // step_s, (end_s - from_s) // step_s
    return Rows(start_s + step_s, step_s, [row[value_idx] for row in rows[first:last]])


def _is_utf8(path: str) -> bool:
    """The binding crashes the process on a path that cannot be encoded."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True
