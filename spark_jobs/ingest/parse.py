"""One file, or the files of one container or daemon, to rows: by the parsers and collectors of live detection.

Runs on executors. A collector that reads folders is given one of its own, with the files where it looks for them and a
clock past everything, until it has given all.
"""

from __future__ import annotations

import re
import tempfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from collectors.base import Collector, Problem, ProblemLog
from collectors.client.job_client_log import JobClientLogCollector, JobClientLogOptions
from collectors.file_kinds import (
    AUDIT_LOG,
    CONTAINER_LOG,
    DAEMON_LOG,
    HADOOP1,
    JHIST,
    JOB_CLIENT_LOG,
    JOB_CONF,
    RRD,
    RUMEN,
    SPARK_EVENTS,
    kind_by_content,
)
from collectors.ganglia.rrd import GangliaRrdCollector, GangliaRrdOptions
from collectors.ganglia.rrd_file import layout_of
from collectors.ganglia.rrd_header import RrdError, read_header
from collectors.history.hadoop1_history import Hadoop1Parser
from collectors.history.jhist import JhistParser
from collectors.history.job_conf import job_of_name, read_settings, settings_event
from collectors.history.rumen_trace import RumenParser
from collectors.lifecycle import EventRows, JobFacts
from collectors.logs.container_log import ContainerLogCollector, ContainerLogOptions
from collectors.logs.daemon_log import DaemonLogCollector, DaemonLogOptions
from collectors.logs.hdfs_audit import HdfsAuditCollector, HdfsAuditOptions
from collectors.logs.path_layout import PathLayout
from collectors.sources import SOURCE_OF_KIND
from collectors.spark.application import SparkApplication
from collectors.spark.log_files import ROLLED, application_name, part_of
from collectors.spark.whole_log import read_whole
from collectors.time_units import MAX_TIME_MS, SECOND_MS
from engine.events import EventBatch
from spark_jobs.ingest.kinds import IngestOptions, kind_by_name, plain_name, rrd_place
from spark_jobs.ingest.nothing_found import why_nothing
from spark_jobs.ingest.rows import event_rows, file_row, history_id_of, history_row, note_rows, problem_rows, renamed

HOSTLESS = (
    "{application}/{container}/{role}",
    "{application}/{container}.log",
    "{container}/{role}",
    "{container}.log",
)
"""Layouts that are tried behind the configured one: they know no host."""

NO_HOSTS = frozenset({"userlogs", "logs", "log", "containers", "container-logs"})
"""Folders that stand where a layout has the host, and are none."""

ABANDON_MS = 1


@dataclass(frozen=True)
class ReadFile:
    """A file and what is in it."""

    place: str
    """URL as people write it."""
    parts: tuple[str, ...]
    """Names of its folders below the folder that was asked for, and its own."""
    data: bytes

    @property
    def name(self) -> str:
        """Its own, without the ending of a compressed file."""
        return plain_name(self.parts[-1])


class _History(Protocol):
    """What a parser tells of one job."""

    @property
    def events(self) -> EventRows: ...

    @property
    def job(self) -> JobFacts | None: ...

    @property
    def finished(self) -> bool: ...

    @property
    def digest(self) -> str: ...


class Unreadable(Exception):  # noqa: N818 - a state of a file, not an error of ours
    """A file that cannot be read at all; the message says why."""


def parse_file(file: ReadFile, options: IngestOptions) -> Iterator[pa.Table]:
    """Rows of a file that stands by itself: a history, a trace or an RRD, or one that is skipped with the reason."""
    data, problems = file.data, list[Problem]()
    if file.parts[-1].endswith(".gz"):
        try:
            data, cut = decompressed(data, options.max_bytes)
        except Unreadable as error:
            yield unread(file, kind_by_name(file.parts, options), "unreadable", str(error))
            return
        if cut:
            problems.append(Problem("ingest", file.place, "truncated", "the compressed file ends too early"))
    kind, reason = kind_by_name(file.parts, options), ""
    if kind is None:
        kind, reason = kind_by_content(data)
    if kind is None:
        yield note_rows([file_row(file.place, None, len(file.data), skipped=reason), *problem_rows(problems)])
        return
    opened = ReadFile(file.place, file.parts, data)
    yield from _guarded([opened], kind, lambda: _READERS[kind](opened, options))
    if problems:
        yield note_rows(problem_rows(problems))


def parse_logs(files: Sequence[ReadFile], options: IngestOptions) -> Iterator[pa.Table]:
    """Rows of the logs of one container, or of one daemon."""
    kind = kind_by_name(files[0].parts, options) or DAEMON_LOG
    opened: list[ReadFile] = []
    for file in sorted(files, key=lambda file: file.place):
        try:
            data = decompressed(file.data, options.max_bytes)[0] if file.parts[-1].endswith(".gz") else file.data
        except Unreadable as error:
            yield unread(file, kind, "unreadable", str(error))
        else:
            opened.append(ReadFile(file.place, file.parts, data))
    if opened:
        read = _LOG_READERS[kind]
        yield from _guarded(opened, kind, lambda: read(opened, options))


def unread(file: ReadFile, kind: str | None, what: str, message: str) -> pa.Table:
    """Rows of a file of which nothing could be read."""
    problem = Problem(SOURCE_OF_KIND.get(kind or "", "ingest"), file.place, what, message)
    return note_rows([file_row(file.place, kind, len(file.data), skipped=what), *problem_rows([problem])])


def decompressed(data: bytes, max_bytes: int) -> tuple[bytes, bool]:
    """(content of a gzip file, whether its end is missing); raises Unreadable for another, or one that is too large."""
    parts: list[bytes] = []
    n_bytes = 0
    while data:
        member = zlib.decompressobj(wbits=31)
        try:
            part = member.decompress(data, max_bytes - n_bytes + 1)
        except zlib.error as error:
            if parts and data.strip(b"\0"):
                raise Unreadable(f"damaged behind its first {n_bytes} decompressed bytes: {error}") from error
            if parts:
                break  # padding behind the last member
            raise Unreadable(f"named .gz, but it cannot be decompressed: {error}") from error
        n_bytes += len(part)
        if n_bytes > max_bytes:
            raise Unreadable(f"it holds more than {max_bytes} bytes; raise --max-file-size to read it")
        parts.append(part)
        if not member.eof:
            return b"".join(parts), True
        data = member.unused_data
    return b"".join(parts), False


def _guarded(files: Sequence[ReadFile], kind: str, read: Callable[[], Iterator[pa.Table]]) -> Iterator[pa.Table]:
    """What `read` gives, whole or not at all: a defect of a parser is told and costs these files alone."""
    try:
        tables = list(read())
    except Exception as error:  # noqa: BLE001 - the boundary: one bad file among a million
        for file in files:
            yield unread(file, kind, "collector_failed", f"{type(error).__name__}: {error}")
    else:
        yield from tables


# ---- files that stand by themselves ----------------------------------------------------------------------------


def _jhist(file: ReadFile, options: IngestOptions) -> Iterator[pa.Table]:
    problems = ProblemLog(SOURCE_OF_KIND[JHIST])
    place = file.place.removesuffix(".gz")
    parser = JhistParser(place, problems, options.rank(JHIST), keeps_counters=True)
    parser.feed(file.data)
    parser.close()
    yield from _histories(file, JHIST, [] if parser.refused else [parser], problems)


def _hadoop1(file: ReadFile, options: IngestOptions) -> Iterator[pa.Table]:
    problems = ProblemLog(SOURCE_OF_KIND[HADOOP1])
    parser = Hadoop1Parser(file.place, problems, options.rank(HADOOP1), keeps_counters=True)
    parser.feed(file.data)
    parser.close()
    yield from _histories(file, HADOOP1, parser.jobs, problems)


def _rumen(file: ReadFile, options: IngestOptions) -> Iterator[pa.Table]:
    problems = ProblemLog(SOURCE_OF_KIND[RUMEN])
    parser = RumenParser(file.place, problems, options.rank(RUMEN))
    parser.parse(file.data)
    yield from _histories(file, RUMEN, parser.jobs, problems)


def _job_conf(file: ReadFile, options: IngestOptions) -> Iterator[pa.Table]:
    problems, job_id = ProblemLog(SOURCE_OF_KIND[JOB_CONF]), job_of_name(file.name)
    settings = None if job_id is None else read_settings(file.data, file.place, problems)
    n_events = 0
    if job_id is not None and settings is not None:
        rows = settings_event(job_id, settings, options.rank(JOB_CONF), file.place)
        n_events = len(rows)
        yield event_rows(rows.take_batch(), SOURCE_OF_KIND[JOB_CONF])
    skipped = "unreadable" if settings is None else None
    notes = [file_row(file.place, JOB_CONF, len(file.data), n_events, skipped)]
    yield note_rows([*notes, *problem_rows(problems.drain())])


def _histories(file: ReadFile, kind: str, told: Sequence[_History], problems: ProblemLog) -> Iterator[pa.Table]:
    source, notes, n_all = SOURCE_OF_KIND[kind], list[dict[str, Any]](), 0
    for number, history in enumerate(told):
        if history.job is None:
            continue
        history_id, n_events = history_id_of(file.place, number), len(history.events)
        n_all += n_events
        job_id, digest = history.job.job_id, history.digest
        notes.append(history_row(source, file.place, history_id, job_id, digest, n_events, finished=history.finished))
        yield event_rows(history.events.take_batch(), source, history_id)
    unreadable, drained = None if told else "unreadable", problems.drain()
    note = why_nothing(kind, file.data, drained) if told and not n_all else None
    notes.append(file_row(file.place, kind, len(file.data), n_all, unreadable, note))
    yield note_rows([*notes, *problem_rows(drained)])


def _rrd(file: ReadFile, options: IngestOptions) -> Iterator[pa.Table]:
    place = rrd_place(file.parts)
    if place is None:  # asked of the name before
        raise Unreadable("not at <cluster>/<host>/<metric>.rrd")
    cluster, host, metric = place
    with tempfile.TemporaryDirectory(prefix="clustercep-") as folder:
        root = Path(folder)
        path = _written(root, (cluster, host, f"{metric}.rrd"), file.data)
        collector = GangliaRrdCollector(
            GangliaRrdOptions(
                root,
                source_rank=options.rank(RRD),
                metrics=options.metrics,
                backfill_ms=MAX_TIME_MS,
                coarser=True,
                hosts=options.hosts,
            )
        )
        yield from _collected(collector, RRD, {str(path): file}, _finest_ms(path))


def _job_client_log(file: ReadFile, options: IngestOptions) -> Iterator[pa.Table]:
    named = re.fullmatch(options.client_pattern, file.name) if options.client_pattern is not None else None
    with tempfile.TemporaryDirectory(prefix="clustercep-") as folder:
        path = _written(Path(folder), ("client.log",), file.data)  # recognised by its content, whatever its name
        collector = JobClientLogCollector(
            JobClientLogOptions(
                Path(folder),
                host=(named.groupdict().get("host") if named else None) or options.client_host,
                hosts=options.hosts,
                zone=options.client_zone,
                source_rank=options.rank(JOB_CLIENT_LOG),
                hold_ms=ABANDON_MS,
                hold_future=False,
                max_bytes_per_poll=_enough([file]),
            )
        )
        yield from _collected(collector, JOB_CLIENT_LOG, {str(path): file})


def _finest_ms(path: Path) -> int | None:
    """Resolution of an RRD's finest archive; None for what is none: its collector tells."""
    try:
        return layout_of(read_header(str(path))).archives[0].step_s * SECOND_MS
    except RrdError:
        return None


def _spark_log(file: ReadFile, options: IngestOptions) -> Iterator[pa.Table]:
    yield from _spark_events([file], options, application_name(file.name))


def _spark_parts(files: Sequence[ReadFile], options: IngestOptions) -> Iterator[pa.Table]:
    numbered = [(part_of(ROLLED, file.name) or (0, False), file) for file in files]
    first = max((number for (number, is_compact), _ in numbered if is_compact), default=0)
    for (number, is_compact), file in numbered:
        if number < first or (number == first and not is_compact):
            reason = "a part that a compact one stands for"
            yield note_rows([file_row(file.place, SPARK_EVENTS, len(file.data), skipped=reason)])
    kept = [(n, file) for (n, is_compact), file in numbered if n > first or (n == first and is_compact)]
    ordered = [file for _, file in sorted(kept, key=lambda part: part[0])]
    yield from _spark_events(ordered, options, application_name(ordered[0].name).split("_", 2)[-1])


def _spark_events(files: Sequence[ReadFile], options: IngestOptions, name: str) -> Iterator[pa.Table]:
    """Of the parts of one log, in their order."""
    source, application = SOURCE_OF_KIND[SPARK_EVENTS], SparkApplication.named(name)
    for file in files:
        problems = ProblemLog(source)
        rank = options.rank(SPARK_EVENTS)
        events = read_whole(file.place, file.data, application, problems, rank, options.hosts, options.max_bytes)
        drained = problems.drain()
        note = None if len(events) else why_nothing(SPARK_EVENTS, file.data, drained)
        yield event_rows(events, source)
        noted = file_row(file.place, SPARK_EVENTS, len(file.data), len(events), None, note)
        yield note_rows([noted, *problem_rows(drained)])


_READERS: Mapping[str, Callable[[ReadFile, IngestOptions], Iterator[pa.Table]]] = {
    JHIST: _jhist,
    HADOOP1: _hadoop1,
    RUMEN: _rumen,
    RRD: _rrd,
    JOB_CONF: _job_conf,
    JOB_CLIENT_LOG: _job_client_log,
    SPARK_EVENTS: _spark_log,
}


# ---- logs ------------------------------------------------------------------------------------------------------


def _container_logs(files: Sequence[ReadFile], options: IngestOptions) -> Iterator[pa.Table]:
    layout, places = _places_of(files[0], options)
    if layout is None:
        for file in files:
            yield note_rows([file_row(file.place, CONTAINER_LOG, len(file.data), skipped="of no known layout")])
        return
    with tempfile.TemporaryDirectory(prefix="clustercep-") as folder:
        root, written = Path(folder), dict[str, ReadFile]()
        host = places.get("host")
        for file in files:
            name = file.name if "role" in places else f"{places['container']}.log"
            parts = [part for part in (host, places.get("application")) if part]
            below = [places["container"], name] if "role" in places else [name]
            written[str(_written(root, (*parts, *below), file.data))] = file
        names = ("{host}/" if host else "") + ("{application}/" if "application" in places else "")
        collector = ContainerLogCollector(
            ContainerLogOptions(
                root,
                layout=names + ("{container}/{role}" if "role" in places else "{container}.log"),
                roles=options.roles,
                host=options.container_host,
                hosts=options.hosts,
                zone=options.container_zone,
                source_rank=options.rank(CONTAINER_LOG),
                abandon_ms=ABANDON_MS,
                hold_future=False,
                max_bytes_per_poll=_enough(files),
            )
        )
        yield from _collected(collector, CONTAINER_LOG, written)


def _daemon_logs(files: Sequence[ReadFile], options: IngestOptions) -> Iterator[pa.Table]:
    with tempfile.TemporaryDirectory(prefix="clustercep-") as folder:
        written = {str(_written(Path(folder), (file.name,), file.data)): file for file in files}
        collector = DaemonLogCollector(
            DaemonLogOptions(
                Path(folder),
                name_pattern=options.daemon_pattern,
                hosts=options.hosts,
                zone=options.daemon_zone,
                source_rank=options.rank(DAEMON_LOG),
                client_trace=options.client_trace,
                hold_future=False,
                max_bytes_per_poll=_enough(files),
            )
        )
        yield from _collected(collector, DAEMON_LOG, written)


def _audit_logs(files: Sequence[ReadFile], options: IngestOptions) -> Iterator[pa.Table]:
    with tempfile.TemporaryDirectory(prefix="clustercep-") as folder:
        written = {str(_written(Path(folder), (file.name,), file.data)): file for file in files}
        collector = HdfsAuditCollector(
            HdfsAuditOptions(
                Path(folder),
                name_pattern=options.audit_pattern,
                host=options.audit_host,
                hosts=options.hosts,
                zone=options.audit_zone,
                source_rank=options.rank(AUDIT_LOG),
                hold_future=False,
                max_bytes_per_poll=_enough(files),
            )
        )
        yield from _collected(collector, AUDIT_LOG, written)


_LOG_READERS: Mapping[str, Callable[[Sequence[ReadFile], IngestOptions], Iterator[pa.Table]]] = {
    CONTAINER_LOG: _container_logs,
    DAEMON_LOG: _daemon_logs,
    AUDIT_LOG: _audit_logs,
    SPARK_EVENTS: _spark_parts,
}


def _places_of(file: ReadFile, options: IngestOptions) -> tuple[str | None, Mapping[str, str]]:
    """(layout, its places) of a container's file: the configured layout, from the folder asked for or from one below
    it; else one without a host."""
    parts = (*file.parts[:-1], file.name)
    for text in (options.layout, *HOSTLESS):
        layout = PathLayout.of(text, frozenset({"container"}))
        for first in range(len(parts)):
            found = layout.match(parts[first:])
            if found is not None and (found.get("host") or "") not in NO_HOSTS:
                return text, found
    return None, {}


def _enough(files: Sequence[ReadFile]) -> int:
    return sum(len(file.data) for file in files) + 1


def _written(root: Path, parts: Sequence[str], data: bytes) -> Path:
    path = root.joinpath(*parts)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def _collected(
    collector: Collector, kind: str, written: Mapping[str, ReadFile], coarser_than_ms: int | None = None
) -> Iterator[pa.Table]:
    """All that a collector gives of its folder: the second poll, later, gives what waited for more.

    coarser_than_ms: as in `event_rows`.
    """
    polls = [collector.poll(MAX_TIME_MS), collector.poll(MAX_TIME_MS + ABANDON_MS)]
    names = {path: file.place for path, file in written.items()}
    events = renamed(EventBatch.concat(polled.events for polled in polls), names)
    problems = [_at_home(problem, names) for polled in polls for problem in polled.problems]
    refused = {p.place for p in problems if p.kind in ("unreadable", "not_rrd", "corrupt")}
    yield event_rows(events, SOURCE_OF_KIND[kind], coarser_than_ms=coarser_than_ms)
    notes = []
    for file, n_events in zip(written.values(), _n_by_file(events, list(written.values())), strict=True):
        skipped = "unreadable" if file.place in refused else None
        own = [problem for problem in problems if problem.place.startswith(file.place)]
        note = None if n_events or skipped else why_nothing(kind, file.data, own)
        notes.append(file_row(file.place, kind, len(file.data), n_events, skipped, note))
    yield note_rows([*notes, *problem_rows(problems)])


def _n_by_file(events: EventBatch, files: Sequence[ReadFile]) -> list[int]:
    """Events of each of the files that were read together; what has another origin (a container) is of the first."""
    if len(files) == 1:
        return [len(events)]
    origins = events.table.column("origin")
    counts = [pc.sum(pc.starts_with(origins, f"{file.place}:")).as_py() or 0 for file in files]
    counts[0] += len(events) - sum(counts)
    return counts


def _at_home(problem: Problem, names: Mapping[str, str]) -> Problem:
    place, message = problem.place, problem.message
    for path, address in names.items():
        place, message = place.replace(path, address), message.replace(path, address)
    return Problem(problem.source, place, problem.kind, message)
