"""Folders that somebody has poisoned: what is polled from them goes on, ends soon and tells a bounded number of things.

Each round makes folders as the collectors look for them, with hostile files among right ones, polls them, changes files
between and during polls, and restarts the collectors from their positions.
"""

from __future__ import annotations

import gzip
import json
import os
import random
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa

from collectors.base import Collected, Collector, Problem
from collectors.client.job_client_log import JobClientLogCollector, JobClientLogOptions
from collectors.ganglia.rrd import GangliaRrdCollector, GangliaRrdOptions
from collectors.history.job_history import JobHistoryCollector, JobHistoryOptions
from collectors.logs.container_log import ContainerLogCollector, ContainerLogOptions
from collectors.logs.daemon_log import DaemonLogCollector, DaemonLogOptions
from collectors.logs.hdfs_audit import HdfsAuditCollector, HdfsAuditOptions
from collectors.prometheus.prometheus import PrometheusCollector, PrometheusOptions
from collectors.prometheus.readings import READINGS
from collectors.prometheus.remote_write import RemoteWriteCollector, RemoteWriteOptions
from collectors.prometheus.spool import Record, SpoolWriter
from collectors.prometheus.write_request import parse_write_request
from collectors.spark.spark_events import SparkEventsCollector, SparkEventsOptions
from spark_jobs.ingest.frames import LOGS
from spark_jobs.ingest.kinds import IngestOptions, kind_by_name
from spark_jobs.ingest.parse import ReadFile, parse_file, parse_logs
from spark_jobs.ingest.rows import PROBLEM
from tests.collectors import histories as h
from tests.collectors import reducer_logs as logs
from tests.collectors import rrds
from tests.collectors.client import consoles
from tests.collectors.history.test_hadoop1_history import HISTORY
from tests.collectors.history.test_rumen_trace import job, text_of
from tests.collectors.logs.test_daemon_log import NODE
from tests.collectors.positions import saved
from tests.collectors.prometheus import exporters
from tests.collectors.prometheus import writes as write
from tests.collectors.spark import logs as spark_logs
from tests.torture.campaign import Given, Verdict
from tests.torture.inputs.hostile_bytes import mutated
from tests.torture.readers.peers_and_settings import CONFIGURATION

MOST_ROWS = 100
"""Of problems of one file in one poll."""
POLL_LIMIT_S = 120
"""A poll that takes longer hangs."""
N_FILES, N_POLLS = 12, 6
NOW_MS = logs.DAY_MS + 86_400_000
MAX_INGESTED_BYTES = 1 << 24

NAMES = (
    "line\nfeed",
    "esc\x1b[2J",
    "tab\t",
    "back\\slash",
    "…",
    "%s",
    "-rf",
    "$(reboot)",
    "a" * 200,
    "\udcff",
    " ",
    '"',
)
_COLUMNS = ("source", "place", "kind", "message")
"""Of folders and files, in front of what belongs there."""


@dataclass(frozen=True)
class Kind:
    """Files of one kind and who reads them."""

    right: Callable[[random.Random], bytes]
    place: Callable[[int], tuple[str, ...]]
    """Folders and name of the file of this number."""
    reader: Callable[[Path], Collector]


_AUDIT = "".join(
    f"{logs.stamp(1_000 * n)} INFO FSNamesystem.audit: allowed=true\tugi=ann{n % 3} (auth:SIMPLE)\t"
    f"ip=/10.0.0.{n % 5}\tcmd=open\tsrc=/data/part-{n}\tdst=null\tperm=null\tproto=rpc\tcallerContext=CLI\n"
    for n in range(200)
)


def _daemon(chosen: random.Random) -> bytes:
    return "".join(f"{logs.stamp(ms)} INFO {logger}: {message}\n" for ms, logger, message in NODE).encode()


def _of_lists(root: Path) -> PrometheusCollector:
    options = PrometheusOptions(files=(root / "*.json",))
    return PrometheusCollector(options, lambda _url, _http: exporters.Exporter(exporters.recorded(1)))


def _spooled(chosen: random.Random) -> bytes:
    """What the receiver of remote write keeps of some requests."""
    samples = [write.series("node_load1", 0.5, NOW_MS - ago_ms) for ago_ms in (40_000, 20_000, 5_000)]
    with TemporaryDirectory() as name:
        writer = SpoolWriter(Path(name), 1 << 20)
        for sample in samples:
            found = parse_write_request(write.message([sample]), {"node_load1"}).samples
            writer.append(Record(NOW_MS - 1_000, "n1", found, 0))
        writer.close()
        return b"".join(path.read_bytes() for path in sorted(Path(name).iterdir()))


@lru_cache(1)
def _rrd() -> bytes:
    with TemporaryDirectory() as name:
        path = Path(name) / "model.rrd"
        rrds.write_rrd(path, [1.0, None, 2.5])
        return path.read_bytes()


def _of_configured_jobs(root: Path) -> JobHistoryCollector:
    """Histories are right, the configurations beside them may be anything."""
    for number in range(N_FILES):
        history = root / f"job_1700000000000_{number:04}-1.jhist"
        if not history.exists():
            history.write_bytes(h.whole_history())
    return JobHistoryCollector(JobHistoryOptions((root,), quiet_ms=20_000, counters=True))


KINDS: dict[str, Kind] = {
    "container logs": Kind(
        lambda chosen: logs.hadoop2_log().encode(),
        lambda n: (f"node{n}", logs.APPLICATION, f"{logs.CONTAINER[:-2]}{n % 100:02}", "syslog"),
        lambda root: ContainerLogCollector(ContainerLogOptions(root, abandon_ms=20_000, revisit_ms=20_000)),
    ),
    "daemon logs": Kind(
        _daemon,
        lambda n: (f"hadoop-yarn-nodemanager-node{n}.log",),
        lambda root: DaemonLogCollector(DaemonLogOptions(root)),
    ),
    "HDFS audit logs": Kind(
        lambda chosen: _AUDIT.encode(),
        lambda n: (f"hdfs-audit-nn{n}.log",),
        lambda root: HdfsAuditCollector(HdfsAuditOptions(root)),
    ),
    "job client logs": Kind(
        lambda chosen: consoles.console(chosen.choice((consoles.HADOOP3, consoles.HADOOP1))).encode(),
        lambda n: (f"run{n % 3}", f"job{n}.log"),
        lambda root: JobClientLogCollector(JobClientLogOptions(root, revisit_ms=20_000)),
    ),
    "Spark event logs": Kind(
        lambda chosen: spark_logs.recorded(chosen.choice(spark_logs.CODECS)),
        lambda n: (f"{spark_logs.APPLICATION}_{n}",),
        lambda root: SparkEventsCollector(SparkEventsOptions(root, quiet_ms=20_000, hold_future=False)),  # of later
    ),
    "job history": Kind(
        lambda chosen: h.whole_history(),
        lambda n: (f"{n % 3}", f"job_1700000000000_{n:04}-1.jhist"),
        lambda root: JobHistoryCollector(JobHistoryOptions((root,), quiet_ms=20_000)),
    ),
    "lists of targets": Kind(
        lambda chosen: json.dumps([{"targets": ["n1:9100", "n2:9100"], "labels": {"cluster": "c"}}]).encode(),
        lambda n: (f"targets{n}.json",),
        _of_lists,
    ),
    "job configurations": Kind(
        lambda chosen: CONFIGURATION,
        lambda n: (f"job_1700000000000_{n:04}_conf.xml",),
        _of_configured_jobs,
    ),
    "remote write": Kind(
        _spooled,
        lambda n: (f"segment-{n + 1:012}.jsonl",),
        lambda root: RemoteWriteCollector(
            RemoteWriteOptions(root, (READINGS["load_one"],), step_ms=1_000, settle_ms=1_000)
        ),
    ),
    "RRDs": Kind(
        lambda chosen: _rrd(),
        lambda n: ("cluster", f"node{n}", "cpu_user.rrd"),
        lambda root: GangliaRrdCollector(
            GangliaRrdOptions(root, metrics=("cpu_user",), backfill_ms=NOW_MS - rrds.T0_MS + 1)
        ),
    ),
    # What is read in bulk alone lies in a folder that is followed for histories of now.
    "Hadoop 1 histories": Kind(
        lambda chosen: HISTORY,
        lambda n: (f"{n % 3}", f"n1_1262401440000_job_201001020304_{n:04}_u_name"),
        lambda root: JobHistoryCollector(JobHistoryOptions((root,), quiet_ms=20_000)),
    ),
    "Rumen traces": Kind(
        lambda chosen: text_of(job(), job(jobID="job_201001020304_0008")),
        lambda n: (f"trace{n}.json",),
        lambda root: JobHistoryCollector(JobHistoryOptions((root,), quiet_ms=20_000)),
    ),
}

# ---- poisons ---------------------------------------------------------------------------------------------------

Poison = Callable[[random.Random, Path, bytes], None]
"""Puts a hostile file at a path; gets what would be right there."""


def _pipe(chosen: random.Random, path: Path, right: bytes) -> None:
    os.mkfifo(path)


def _circle(chosen: random.Random, path: Path, right: bytes) -> None:
    path.symlink_to(chosen.choice([path.parent, path, path.parent.parent]))
    with suppress(OSError):
        (path.parent / "circle").symlink_to(path.parent.parent)


def _nowhere(chosen: random.Random, path: Path, right: bytes) -> None:
    path.symlink_to("/dev/zero" if chosen.randrange(2) else path.parent / "nowhere")


def _folder(chosen: random.Random, path: Path, right: bytes) -> None:
    path.mkdir()
    (path / path.name).write_bytes(right)


def _deep(chosen: random.Random, path: Path, right: bytes) -> None:
    deep = path.parent.joinpath(*["d"] * 60)
    deep.mkdir(parents=True, exist_ok=True)
    (deep / path.name).write_bytes(right)


def _binary(chosen: random.Random, path: Path, right: bytes) -> None:
    path.write_bytes(chosen.randbytes(chosen.choice((1, 4_096, 1 << 20))))


def _long_lines(chosen: random.Random, path: Path, right: bytes) -> None:
    unit = chosen.choice((b"x", b"[", b"9", b"\0", right[:-1].replace(b"\n", b" ")))
    path.write_bytes(right + unit * ((12 << 20) // len(unit)) + b"\n" + right)


def _many_problems(chosen: random.Random, path: Path, right: bytes) -> None:
    lines = (f'{{"type":"T{n}","event":{{"x":{{"jobid":{n}}}}}}}\n{{"type":{n}\n'.encode() for n in range(20_000))
    path.write_bytes(right + b"".join(lines))


def _cut(chosen: random.Random, path: Path, right: bytes) -> None:
    path.write_bytes(right[: chosen.randrange(len(right))])


def _mutated(chosen: random.Random, path: Path, right: bytes) -> None:
    path.write_bytes(mutated(chosen, right))


def _bomb(chosen: random.Random, path: Path, right: bytes) -> None:
    path.with_name(path.name + ".gz").write_bytes(gzip.compress(right + b"\0" * (64 << 20), 1))


def _closed(chosen: random.Random, path: Path, right: bytes) -> None:
    path.write_bytes(right)
    path.chmod(0)


def _named(chosen: random.Random, path: Path, right: bytes) -> None:
    folder = path.parent / (chosen.choice(NAMES) + "x")
    with suppress(FileExistsError):
        folder.mkdir()
    (folder / path.name).write_bytes(right)
    (path.parent / (chosen.choice(NAMES) + path.name)).write_bytes(right)


POISONS: tuple[Poison, ...] = (
    _pipe, _circle, _nowhere, _folder, _deep, _binary, _long_lines, _many_problems, _cut, _mutated, _bomb, _closed,
    _named,
)  # fmt: skip


# ---- rounds ----------------------------------------------------------------------------------------------------


@dataclass
class Seen:
    """What the rounds showed."""

    n_rounds: int = 0
    n_files: Counter[str] = field(default_factory=Counter)
    n_polls: int = 0
    most_rows: int = 0
    longest_s: float = 0.0
    """Of one poll, by its processor time."""
    failures: list[str] = field(default_factory=list)


def run(given: Given) -> Verdict:
    """Rounds until the time is over."""
    seen, ends_s = Seen(), time.monotonic() + 60 * given.minutes
    while time.monotonic() < ends_s and len(seen.failures) < 20:
        one_round(given.seed + seen.n_rounds, given.folder / "round", seen)
        shutil.rmtree(given.folder / "round", ignore_errors=True)
    poisons = ", ".join(f"{name} {n:,}" for name, n in sorted(seen.n_files.items()))
    figures = (
        f"{seen.n_rounds:,} rounds, {seen.n_polls:,} polls of {sum(seen.n_files.values()):,} files ({poisons}); "
        f"at most {seen.most_rows} problem rows of one file and poll (bound {MOST_ROWS}), {seen.longest_s:.1f} s of "
        "processor time per poll"
    )
    return Verdict(figures, tuple(seen.failures))


def one_round(seed: int, folder: Path, seen: Seen) -> None:
    """Every kind once, in folders of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, (name, kind) in enumerate(KINDS.items()):
        chosen = random.Random(seed * len(KINDS) + number)
        _round(name, kind, chosen, folder / name.replace(" ", "_"), seen, seed)
    seen.n_rounds += 1


def _round(name: str, kind: Kind, chosen: random.Random, root: Path, seen: Seen, seed: int) -> None:
    root.mkdir()
    used = [_placed(kind, chosen, root, number, seen) for number in range(N_FILES)]
    reader = kind.reader(root)
    for number in range(N_POLLS):
        try:
            with _limited():
                started_s = time.process_time()
                polled = reader.poll(NOW_MS + number * 15_000)
                seen.longest_s = max(seen.longest_s, time.process_time() - started_s)
                if chosen.randrange(3) == 0:
                    reader, before = kind.reader(root), reader
                    reader.restore(saved(before.checkpoint()))
        except Exception as error:  # noqa: BLE001 - whatever it is, it is a finding
            seen.failures.append(f"seed {seed}, {name} ({', '.join(used)}): {type(error).__name__}: {str(error)[:300]}")
            return
        seen.n_polls += 1
        _judge(f"seed {seed}, {name}", polled, seen)
        _change(kind, chosen, root)
    _ingest(name, root, seen, seed)


def _placed(kind: Kind, chosen: random.Random, root: Path, number: int, seen: Seen) -> str:
    path = root.joinpath(*kind.place(number))
    path.parent.mkdir(parents=True, exist_ok=True)
    right = kind.right(chosen)
    if number % 4 == 0:
        path.write_bytes(right)
        return "right"
    poison = chosen.choice(POISONS)
    poison(chosen, path, right)
    name = poison.__name__.removeprefix("_")
    seen.n_files[name] += 1
    return name


def _change(kind: Kind, chosen: random.Random, root: Path) -> None:
    """What others do to files between two polls: append, cut, replace, rename, remove."""
    for _ in range(3):
        path = root.joinpath(*kind.place(chosen.randrange(N_FILES)))
        with suppress(OSError):
            if not path.is_file() or path.is_symlink():
                continue
            match chosen.randrange(5):
                case 0:
                    with path.open("ab") as file:
                        file.write(mutated(chosen, kind.right(chosen), most_bytes=1 << 16))
                case 1:
                    os.truncate(path, chosen.randrange(1 + path.stat().st_size))
                case 2:
                    other = path.with_name("other")
                    other.write_bytes(mutated(chosen, kind.right(chosen), most_bytes=1 << 16))
                    other.replace(path)
                case 3:
                    path.rename(path.with_name(path.name + ".1"))
                case _:
                    path.unlink()


def _judge(what: str, polled: Collected, seen: Seen) -> None:
    polled.events.validate()
    _judge_rows(what, polled.problems, seen)
    bad = [p for p in polled.problems if not (p.place.isprintable() and p.message.isprintable())]
    if bad:
        seen.failures.append(f"{what}: expected text that can be shown, found {bad[0]!r}")


def _judge_rows(what: str, problems: Sequence[Problem], seen: Seen) -> None:
    rows = rows_of_files(problems)
    most, n = max(rows.items(), key=lambda item: item[1], default=("", 0))
    seen.most_rows = max(seen.most_rows, n)
    if n > MOST_ROWS:
        seen.failures.append(f"{what}: expected at most {MOST_ROWS} problem rows of one file, found {n} of {most}")


def rows_of_files(problems: Sequence[Problem]) -> Counter[str]:
    """How many rows of the store the problems of one poll become, by file: a row is a place and a kind."""
    rows = {(p.place, p.kind) for p in problems}
    return Counter(place.rpartition(":")[0] if place.rpartition(":")[2].isdigit() else place for place, _ in rows)


def _ingest(name: str, root: Path, seen: Seen, seed: int) -> None:
    """The same regular files as history is read."""
    for path in sorted(path for path in root.rglob("*") if path.is_file() and not path.is_symlink()):
        # Names come from Hadoop's file systems, which give text: what is none has been replaced.
        below = tuple(os.fsencode(part).decode("utf-8", "replace") for part in path.relative_to(root).parts)
        file = ReadFile("file:/x/" + "/".join(below), below, path.read_bytes())
        try:
            with _limited():
                tables = list(parsed(file))
        except Exception as error:  # noqa: BLE001 - a finding, too
            seen.failures.append(f"seed {seed}, ingest of {name}, {path}: {type(error).__name__}: {str(error)[:300]}")
            continue
        rows = [row for table in tables for row in table.to_pylist() if row.get("part") == PROBLEM]
        told = [Problem(*(row[column] for column in _COLUMNS)) for row in rows]
        _judge_rows(f"seed {seed}, ingest of {name}", told, seen)
        for problem in told:
            if problem.kind == "collector_failed":  # a defect that an ingest survives
                seen.failures.append(f"seed {seed}, ingest of {name}, {path}: {problem.message[:300]}")


def parsed(file: ReadFile) -> Iterator[pa.Table]:
    """A file by itself, as an ingest reads it."""
    options = IngestOptions(max_bytes=MAX_INGESTED_BYTES)
    return parse_logs([file], options) if kind_by_name(file.parts, options) in LOGS else parse_file(file, options)


@contextmanager
def _limited() -> Iterator[None]:
    """What hangs is interrupted."""

    def over(*_: object) -> None:
        raise TimeoutError(f"no end after {POLL_LIMIT_S} s")

    before = signal.signal(signal.SIGALRM, over)
    signal.alarm(POLL_LIMIT_S)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


__all__ = ["Seen", "one_round", "rows_of_files", "run"]
