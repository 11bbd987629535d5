"""Few small files of this machine, read without a JVM by the parsers that read them on executors.

To start Spark takes seconds, and minutes on a busy machine; ten histories are read in a part of a second. What is not
plain (another file system, wild cards, links, check sums of Hadoop beside files, folders that cannot be listed) is left
to Spark, which says what there is to say about it.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from app.event_store.errors import StoreError
from collectors.base import Problem
from collectors.file_kinds import CONTAINER_LOG
from collectors.sources import SOURCE_OF_KIND
from spark_jobs.event_store.on_this_machine import read_few
from spark_jobs.event_store.schema import EVENTS, SOURCE, to_arrow_schema
from spark_jobs.file_statuses import ListedFile
from spark_jobs.ingest.files import MAX_DEPTH, Listing, parts_below, shown
from spark_jobs.ingest.frames import JOB_COLUMNS, JOB_TYPES, LOGS, in_few_batches, load_deriver, widener
from spark_jobs.ingest.kinds import IngestOptions, kind_by_name
from spark_jobs.ingest.parse import ReadFile, parse_file, parse_logs
from spark_jobs.ingest.report import MAX_FILES, MAX_PROBLEMS, MAX_ROWS, N_PLACES, Count, FileRead
from spark_jobs.ingest.rows import EVENT, FILE, HISTORY, PROBLEM, parsed_schema
from spark_jobs.ingest.time_zones import zone_problems

_LOCAL = re.compile(r"file:(?://(?=/))?(?=/)")
_ODD = re.compile(r"[^\w@%+=.,()\[\]{} ~!#$&';-]", re.ASCII)
"""In names: what Hadoop's paths may read otherwise than we do."""

_TIMES_COMPRESSED = 20
"""So many times its size a compressed file is taken to have in it."""

MAX_STORED_JOBS = 1_000_000
"""Events of stored jobs that logs are compared with."""

_FOLDER = re.compile(r"/(container_(e\d+_)?\d+_\d+_\d+_\d+|eventlog_v2_[^/]+)$")
_ROTATION = re.compile(r"(\.\d[\d-]*)?(\.gz)?$")


@dataclass(frozen=True)
class Limits:
    """Up to which an ingest is small."""

    n_files: int
    n_bytes: int


@dataclass(frozen=True)
class Parsed:
    """What the files gave, in memory."""

    events: pa.Table
    """Rows of EVENTS: of several histories of a job those of one, with the load derived."""
    notes: list[dict[str, Any]]
    """Rows of PARSED that are no events."""
    problems: list[Problem]


class _NotHere(Exception):  # noqa: N818 - a way out
    """Something that Spark has to look at."""


def listed_here(paths: Sequence[str], limits: Limits, *, only_named: bool = False) -> Listing | None:
    """As `files.list_files`; None where that has to be asked: not plain, not on this machine, or not few.

    only_named: paths without a scheme may lie on another file system.
    """
    try:
        roots = [_plain(path, only_named=only_named) for path in paths]
        found: dict[str, ListedFile] = {}
        n_bytes = 0
        for root in roots:
            for file in _below(root):
                if file.url not in found:
                    n_bytes += file.n_bytes * (_TIMES_COMPRESSED if file.url.endswith(".gz") else 1)
                found[file.url] = file
                if len(found) > limits.n_files or n_bytes > limits.n_bytes:
                    return None
    except (_NotHere, OSError, ValueError):
        return None
    files = tuple(found[url] for url in sorted(found))
    return Listing(tuple(dict.fromkeys(f"file:{root}" for root in roots)), files, ())


def stored_jobs(store_url: str) -> pa.Table | None:
    """JobStart and JobEnd events of the store, where it is here and has not too many."""
    try:
        return read_few(store_url, JOB_TYPES, JOB_COLUMNS, None, None, MAX_STORED_JOBS)
    except StoreError:
        return None  # none yet; of a damaged one the append tells


def parsed_here(
    listing: Listing, urls: Sequence[str], options: IngestOptions, known_jobs: pa.Table | None = None
) -> Parsed | None:
    """What the files give; None where one cannot be read. `known_jobs`: as `stored_jobs`."""
    try:
        files = [_read(url, listing.roots) for url in urls]
    except OSError:
        return None
    rows = pa.Table.from_batches(in_few_batches(_tables(files, options)), parsed_schema())
    part = rows.column("part")
    notes = rows.filter(pc.not_equal(part, EVENT)).select(
        ["part", "source", "place", "kind", "message", "n_bytes", "n_events", "note", "history_id", "job_id"]
    ).to_pylist()  # fmt: skip
    aside = _set_aside(row for row in notes if row["part"] == HISTORY)
    is_event = pc.equal(part, EVENT)
    if aside:
        gone = pc.is_in(
            rows.column("history_id"), value_set=pa.array([row["history_id"] for row, _ in aside], pa.int64())
        )
        is_event = pc.and_(is_event, pc.invert(gone))
    own = rows.filter(is_event).select(EVENTS.names).cast(to_arrow_schema())
    own = pa.concat_tables([own, _load(rows, options)])
    if options.clock_skew.changes_times:
        widened = widener(options.clock_skew)(iter(own.to_batches()))
        own = pa.Table.from_batches(widened, to_arrow_schema())
    problems = [
        Problem(row["source"], row["place"], row["kind"], row["message"]) for row in notes if row["part"] == PROBLEM
    ]
    problems += [
        Problem(
            row["source"],
            row["place"],
            "second_history",
            f"another history of {row['job_id']} with different content; the fuller one counts",
        )
        for row, is_copy in aside
        if not is_copy
    ]
    problems += zone_problems(_logs_and_jobs(rows.filter(pc.equal(part, EVENT)), known_jobs))
    return Parsed(own, notes, problems)


def counted_here(parsed: Parsed) -> tuple[tuple[Count, ...], tuple[Count, ...], tuple[Count, ...]]:
    """(files read by kind, files skipped by reason, problems by source and kind)."""
    files = [row for row in parsed.notes if row["part"] == FILE]
    read = ((row["kind"], row["place"], "", row["n_bytes"]) for row in files if row["message"] is None)
    skipped = (
        (
            row["message"] if row["kind"] is None else f"{row['kind']}: {row['message']}",
            row["place"],
            "",
            row["n_bytes"],
        )
        for row in files
        if row["message"] is not None
    )
    problems = ((f"{one.source}: {one.kind}", one.place, one.message, 0) for one in parsed.problems)
    return _counts(read), _counts(skipped), _counts(problems)


def files_told(parsed: Parsed) -> tuple[FileRead, ...]:
    """As `report.told_files`."""
    rows = [row for row in parsed.notes if row["part"] == FILE and row["message"] is None]
    rows.sort(key=lambda row: (row["n_events"] > 0, row["place"]))
    names = ("place", "kind", "n_bytes", "n_events", "note")
    return tuple(FileRead(*(row[name] for name in names)) for row in rows[:MAX_FILES])


def problems_told(parsed: Parsed) -> tuple[Problem, ...]:
    """As `report.told_problems`."""
    return tuple(sorted(parsed.problems, key=lambda one: (one.place, one.kind, one.message))[:MAX_PROBLEMS])


# ---- listing ---------------------------------------------------------------------------------------------------


def _plain(text: str, *, only_named: bool) -> str:
    local = _LOCAL.match(text)
    path = text[local.end() :] if local else text
    if not local and (only_named or re.match(r"[A-Za-z][\w+.-]*:", text)):
        raise _NotHere
    absolute = os.path.normpath(Path.cwd() / path)
    for name in Path(absolute).parts[1:]:
        _check_name(name)
    return absolute


def _check_name(name: str) -> None:
    if _ODD.search(name):
        raise _NotHere


def _below(root: str) -> Iterator[ListedFile]:
    status = os.lstat(root)
    if stat.S_ISREG(status.st_mode):
        yield ListedFile(f"file:{root}", status.st_size)
        return
    if not stat.S_ISDIR(status.st_mode):
        raise _NotHere
    pending = [(root, 0)]
    while pending:
        folder, depth = pending.pop()
        if depth > MAX_DEPTH:
            raise _NotHere
        with os.scandir(folder) as entries:
            for entry in entries:
                _check_name(entry.name)
                if entry.is_symlink() or (entry.name.startswith(".") and entry.name.endswith(".crc")):
                    raise _NotHere
                if entry.is_dir(follow_symlinks=False):
                    pending.append((entry.path, depth + 1))
                elif entry.is_file(follow_symlinks=False):
                    yield ListedFile(f"file:{entry.path}", entry.stat().st_size)


def _read(url: str, roots: tuple[str, ...]) -> ReadFile:
    return ReadFile(shown(url), parts_below(url, roots), Path(shown(url)).read_bytes())


# ---- parsing ---------------------------------------------------------------------------------------------------


def _tables(files: Sequence[ReadFile], options: IngestOptions) -> Iterator[pa.Table]:
    logs: list[ReadFile] = []
    for file in files:
        if kind_by_name(file.parts, options) in LOGS:
            logs.append(file)
        else:
            yield from parse_file(file, options)
    for _, group in groupby(sorted(logs, key=_log_group), key=_log_group):
        yield from parse_logs(list(group), options)


def _log_group(file: ReadFile) -> str:
    """As `frames` puts files together."""
    folder = file.place.rpartition("/")[0]
    return folder if _FOLDER.search(folder) else _ROTATION.sub("", file.place)


def _logs_and_jobs(events: pa.Table, known_jobs: pa.Table | None) -> Iterator[dict[str, Any]]:
    """Rows for `time_zones`: each log's events of a job whose history is known."""
    is_log = pc.equal(events.column(SOURCE), SOURCE_OF_KIND[CONTAINER_LOG])
    told = events.filter(pc.and_(pc.invert(is_log), pc.is_in(events.column("type"), value_set=pa.array(JOB_TYPES))))
    tables = [told.select(JOB_COLUMNS)]
    if known_jobs is not None and set(JOB_COLUMNS) <= set(known_jobs.column_names):
        tables.append(known_jobs.select(JOB_COLUMNS))
    spans: dict[str, dict[str, int]] = {}
    for row in pa.concat_tables(tables, promote_options="permissive").to_pylist():
        span = spans.setdefault(row["job_id"], {})
        if row["type"] == "JobStart":
            span["start_ms"] = min(row["t_lo_ms"], span.get("start_ms", row["t_lo_ms"]))
        else:
            span["end_ms"] = max(row["t_hi_ms"], span.get("end_ms", row["t_hi_ms"]))
    logs = events.filter(is_log)
    place = pc.replace_substring_regex(logs.column("origin"), r":\d+$", "")
    grouped = logs.append_column("log", place).group_by(["job_id", "log"])
    for row in grouped.aggregate([("t_lo_ms", "min"), ("t_hi_ms", "max"), ("event_id", "count")]).to_pylist():
        span = spans.get(row["job_id"], {})
        if len(span) == 2:
            times = {"first_ms": row["t_lo_ms_min"], "last_ms": row["t_hi_ms_max"], "n_events": row["event_id_count"]}
            yield {"job_id": row["job_id"], "place": row["log"], **times, **span}


def _set_aside(histories: Iterable[dict[str, Any]]) -> list[tuple[dict[str, Any], bool]]:
    """As `frames.set_aside`: (row of a history that does not count, whether the one that does has its content)."""
    by_job: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in histories:
        by_job.setdefault((row["source"], row["job_id"]), []).append(row)
    found = []
    for rows in by_job.values():
        first, *others = sorted(rows, key=lambda row: (row["kind"], -row["n_events"], row["place"], row["history_id"]))
        found += [(row, row["message"] == first["message"]) for row in others]
    return found


def _load(rows: pa.Table, options: IngestOptions) -> pa.Table:
    """As `frames.load_of`."""
    is_sample = pc.and_(pc.equal(rows.column("type"), "Metric"), pc.equal(rows.column("name"), options.load.metric))
    is_sample = pc.and_(is_sample, pc.is_null(rows.column("kind")))  # not of coarser archives
    samples = rows.filter(pc.fill_null(is_sample, False)).select(EVENTS.names).cast(to_arrow_schema())
    if not len(samples):
        return samples
    numbered = enumerate(samples.column("event_id").to_pylist())
    first = sorted({event_id: place for place, event_id in reversed([*numbered])}.values())
    keys = [(name, "ascending") for name in ("clock_id", "t_hi_ms", "host")]
    samples = samples.take(pa.array(first)).sort_by(keys)
    derived = load_deriver(options)(iter(samples.combine_chunks().to_batches()))
    return pa.Table.from_batches(derived, to_arrow_schema())


def _counts(told: Iterable[tuple[str, str, str, int]]) -> tuple[Count, ...]:
    by_name: dict[str, list[tuple[str, str, int]]] = {}
    for name, place, text, n_bytes in told:
        by_name.setdefault(name, []).append((place, text, n_bytes or 0))
    counts = []
    for name, rows in sorted(by_name.items())[:MAX_ROWS]:
        first = sorted({(place, text) for place, text, _ in rows})[:N_PLACES]
        texts = tuple(text for _, text in first)
        places = tuple(place for place, _ in first)
        counts.append(Count(name, len(rows), places, sum(n for *_, n in rows), texts if any(texts) else ()))
    return tuple(counts)


__all__ = [
    "Limits",
    "Parsed",
    "counted_here",
    "files_told",
    "listed_here",
    "parsed_here",
    "problems_told",
    "stored_jobs",
]
