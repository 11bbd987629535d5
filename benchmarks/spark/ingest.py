"""Files to events: Spark on one and two cores, a plain loop over the same parsers, Hadoop's own JobHistoryParser.

Job histories and container logs are those of the project's recording, multiplied under other job ids; RRDs are as
gmetad makes them. CLUSTERCEP_BENCH_INGEST_COPIES: of the recording (20); CLUSTERCEP_BENCH_INGEST_HOSTS: of the RRDs,
ten metrics each (100). Hadoop's parser reads a history into objects of its own: it makes no events and no columns.
"""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.collect import write_rrds
from benchmarks.measure import show, size
from benchmarks.own_process import measured
from collectors.hadoop_ids import CONTAINER
from deploy.minicluster import packing
from spark_jobs.ingest import SPARK_CONF, chosen_files
from spark_jobs.ingest_files import list_files
from spark_jobs.ingest_frames import parsed_files
from spark_jobs.ingest_kinds import IngestOptions
from spark_jobs.ingest_parse import ReadFile, parse_file, parse_logs
from spark_jobs.ingest_rows import EVENT
from spark_jobs.session import spark_session

ARCHIVE = Path(__file__).parents[2] / "tests" / "fixtures" / "recording" / "minicluster.tar.xz"
METRICS = tuple(f"metric_{number}" for number in range(10))
OPTIONS = IngestOptions(metrics=METRICS)
WAYS = ("plain loop", "Spark, 1 core", "Spark, 2 cores", "Hadoop's JobHistoryParser")
KINDS = ("jhist", "logs", "rrds")
LIMIT_S = 600.0


def main() -> dict[str, Any]:
    """Print a table and return its figures."""
    n_copies, n_hosts = size("CLUSTERCEP_BENCH_INGEST_COPIES", 20), size("CLUSTERCEP_BENCH_INGEST_HOSTS", 100)
    rows = []
    with tempfile.TemporaryDirectory(prefix="clustercep-bench-") as folder:
        root = Path(folder)
        write_inputs(root, n_copies, n_hosts)
        for kind in KINDS:
            of_kind = {"folder": str(root / kind)}
            found = {
                WAYS[0]: measured("benchmarks.spark.ingest:in_a_loop", of_kind, LIMIT_S),
                WAYS[1]: measured("benchmarks.spark.ingest:on_spark", {**of_kind, "n_cores": 1}, LIMIT_S),
                WAYS[2]: measured("benchmarks.spark.ingest:on_spark", {**of_kind, "n_cores": 2}, LIMIT_S),
            }
            if kind == "jhist":
                found[WAYS[3]] = measured("benchmarks.spark.ingest:by_hadoop", of_kind, LIMIT_S)
            mb = sum(path.stat().st_size for path in files_of(root / kind)) / 1e6
            rows += [row_of(kind, way, mb, figures) for way, figures in found.items() if figures is not None]
    columns = ("files", "way", "MB", "events", "seconds", "MB/s per core", "events/s per core")
    show("files to events", columns, [list(row.values())[: len(columns)] for row in rows])
    return {"n_copies": n_copies, "n_hosts": n_hosts, "rows": rows}


def row_of(kind: str, way: str, mb: float, figures: dict[str, Any]) -> dict[str, Any]:
    """One row of the table."""
    core_s = figures["seconds"] * figures["n_cores"]
    return {
        "kind": kind, "way": way, "mb": round(mb, 1), "n_events": figures["n_events"],
        "seconds": round(figures["seconds"], 3), "mb_per_core_s": round(mb / core_s, 2),
        "events_per_core_s": round(figures["n_events"] / core_s), "n_cores": figures["n_cores"],
    }  # fmt: skip


# ---- what is read ----------------------------------------------------------------------------------------------


def write_inputs(root: Path, n_copies: int, n_hosts: int) -> None:
    """Folders jhist, logs and rrds."""
    recording = root / "recording"
    packing.unpack(ARCHIVE, recording)
    for copy in range(n_copies):
        for folder, name in (("history", "jhist"), ("userlogs", "logs")):
            for path in sorted((recording / folder).rglob("*")):
                if path.is_file() and (path.suffix == ".jhist" or folder == "userlogs"):
                    below = path.relative_to(recording / folder)
                    target = root / name / renumbered(str(below), copy)
                    target.parent.mkdir(parents=True, exist_ok=True)
                    target.write_text(renumbered(path.read_text(errors="replace"), copy))
    write_rrds(root / "rrds", n_hosts, len(METRICS), n_steps=5_000)


def renumbered(text: str, copy: int) -> str:
    """The same of another cluster's start, which all ids of jobs, applications and containers begin with."""
    return re.sub(r"(?<=_)(\d{13})(?=_\d{4})", lambda found: str(int(found[1]) + copy), text)


def files_of(folder: Path) -> Iterator[Path]:
    """Those that an ingest would read."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and (path.suffix in (".jhist", ".rrd") or path.name.startswith("syslog")):
            yield path


# ---- the ways, each in a process of its own --------------------------------------------------------------------


def in_a_loop(folder: str) -> dict[str, Any]:
    """One process, one file after the other; the second of two runs counts."""
    groups: dict[Path, list[Path]] = {}
    for path in files_of(Path(folder)):
        groups.setdefault(path.parent if CONTAINER.fullmatch(path.parent.name) else path, []).append(path)

    def read() -> int:
        n_events = 0
        for paths in groups.values():
            files = [ReadFile(str(p), p.relative_to(folder).parts, p.read_bytes()) for p in paths]
            is_log = paths[0].name.startswith("syslog")
            for rows in parse_logs(files, OPTIONS) if is_log else parse_file(files[0], OPTIONS):
                n_events += rows.column("part").to_pylist().count(EVENT)
        return n_events

    read()
    started = time.perf_counter()
    n_events = read()
    return {"seconds": time.perf_counter() - started, "n_events": n_events, "n_cores": 1}


def on_spark(folder: str, n_cores: int) -> dict[str, Any]:
    """The job's own frames, up to the parsed rows; the second of two runs counts: the first starts Python."""
    conf = {"spark.driver.memory": "1g", "spark.sql.shuffle.partitions": str(n_cores), **SPARK_CONF}
    with spark_session("benchmark", f"local[{n_cores}]", conf) as spark:

        def read() -> int:
            listing = list_files(spark, [folder])
            wanted, _ = chosen_files(listing, OPTIONS)
            return parsed_files(spark, listing, wanted, OPTIONS).where(f"part = '{EVENT}'").count()

        read()
        started = time.perf_counter()
        n_events = read()
        seconds = time.perf_counter() - started
    return {"seconds": seconds, "n_events": n_events, "n_cores": n_cores}


def by_hadoop(folder: str) -> dict[str, Any]:
    """Hadoop's parser in a JVM, one file after the other; the second of two runs counts. Its events: those that ours
    makes of what it has read: two of a job, three of an attempt, one more of a successful map."""
    with spark_session("benchmark", "local[1]", {"spark.driver.memory": "1g"}) as spark:
        jvm: Any = spark.sparkContext._jvm
        conf = spark.sparkContext._jsc.hadoopConfiguration()
        system = jvm.org.apache.hadoop.fs.FileSystem.getLocal(conf)
        paths = [jvm.org.apache.hadoop.fs.Path(f"file:{path}") for path in files_of(Path(folder))]

        def read() -> list[Any]:
            return [jvm.org.apache.hadoop.mapreduce.jobhistory.JobHistoryParser(system, path).parse() for path in paths]

        read()
        started = time.perf_counter()
        jobs = read()
        seconds = time.perf_counter() - started
        n_attempts = sum(len(task.getAllTaskAttempts()) for job in jobs for task in job.getAllTasks().values())
    return {"seconds": seconds, "n_events": 2 * len(jobs) + 3 * n_attempts, "n_cores": 1}
