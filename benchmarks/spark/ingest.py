"""Files to events, and events into a store, per core: Spark, a plain loop over the same parsers, Hadoop's own parser.

Job histories and container logs are those of the project's recording, multiplied under other job ids; RRDs are as
gmetad makes them. CLUSTERCEP_BENCH_INGEST_COPIES: of the recording (220: some 200 MB of histories);
CLUSTERCEP_BENCH_INGEST_LOG_COPIES: of its logs (15); CLUSTERCEP_BENCH_INGEST_HOSTS: of the RRDs, ten metrics each (15);
CLUSTERCEP_BENCH_INGEST_EVENTS: of workload H that are appended to an empty store (1,000,000);
CLUSTERCEP_BENCH_INGEST_RUNS: of which the median counts (3). Hadoop's parser reads a history into objects of its own:
it makes no events and no columns; MB/s is what to compare.

`fixed_s` is what the same way takes for a tenth of the files (or events), less a tenth of what it takes for all, over
nine tenths: what does not grow with the input. `mb_per_core_s` and `events_per_second` are of all seconds; those
without the fixed part are `mb_per_core_s_net` and `events_per_core_s_net`. The session's start is in none of them.
"""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from benchmarks.collectors.collect import write_rrds
from benchmarks.measure import resident_mib, show, size
from benchmarks.own_process import measured
from benchmarks.workloads.hadoop_stream import Cluster, HadoopStream
from collectors.hadoop_ids import CONTAINER
from deploy.minicluster.recording import packing
from spark_jobs.event_store import EventStore
from spark_jobs.event_store.schema import EVENTS, to_arrow_schema, to_rows
from spark_jobs.ingest.files import list_files
from spark_jobs.ingest.frames import parsed_files
from spark_jobs.ingest.job import SPARK_CONF, chosen_files
from spark_jobs.ingest.kinds import IngestOptions
from spark_jobs.ingest.parse import ReadFile, parse_file, parse_logs
from spark_jobs.ingest.rows import EVENT
from spark_jobs.session import spark_session

ARCHIVE = Path(__file__).parents[2] / "tests" / "fixtures" / "recording" / "minicluster.tar.xz"
METRICS = tuple(f"metric_{number}" for number in range(10))
OPTIONS = IngestOptions(metrics=METRICS)
LOOP, SPARK, HADOOP = "plain loop", "Spark", "Hadoop's JobHistoryParser"
TASKS = {LOOP: "in_a_loop", SPARK: "on_spark", HADOOP: "by_hadoop"}
KINDS = ("jhist", "logs", "rrds")
LIMIT_S = 600.0
TENTH = 10

Figures = dict[str, Any]


def main() -> Figures:
    """Print a table and return its figures."""
    n_runs, rows = size("INGEST_RUNS", 3), list[Figures]()
    with tempfile.TemporaryDirectory(prefix="clustercep-bench-") as folder:
        root = Path(folder)
        write_inputs(root, size("INGEST_COPIES", 220), size("INGEST_LOG_COPIES", 15), size("INGEST_HOSTS", 15))
        for kind in KINDS:
            for way, n_cores in ((LOOP, 1), (SPARK, 1), (SPARK, 2), *([(HADOOP, 1)] if kind == "jhist" else [])):
                asked: Figures = {"folder": str(root / kind), "n_runs": n_runs}
                if way == SPARK:
                    asked["n_cores"] = n_cores
                found = measured(f"benchmarks.spark.ingest:{TASKS[way]}", asked, LIMIT_S)
                rows.append(row_of(kind, way, n_cores, found))
        stream = root / "stream.parquet"
        write_events(stream, size("INGEST_EVENTS", 1_000_000))
        for n_cores in (1, 2):
            asked = {"path": str(stream), "n_runs": n_runs, "n_cores": n_cores}
            found = measured("benchmarks.spark.ingest:appended", asked, LIMIT_S)
            rows.append(row_of("append", SPARK, n_cores, found))
    columns = ("workload", "variant", "mb", "events", "seconds", "fixed_s", "mb_per_core_s", "mb_per_core_s_net",
               "events_per_core_s", "events_per_core_s_net", "peak_mb")  # fmt: skip
    show("files to events, events to a store", columns, [[row.get(name) for name in columns] for row in rows])
    return {"rows": rows, "load": os.getloadavg()}


def row_of(kind: str, way: str, n_cores: int, found: Figures | None) -> Figures:
    """One row of the table; seconds are None where the time limit ended it."""
    row: Figures = {"workload": kind, "variant": way if way != SPARK else f"{way}, {n_cores} core{'s'[: n_cores - 1]}"}
    if found is None:
        return row | {"seconds": None, "limit_s": LIMIT_S}
    seconds, mb, events = found["seconds"], found["mb"], found["events"]
    net_s = max(seconds - found["fixed_s"], 1e-9)
    return row | {
        "mb": round(mb, 1), "events": events, "seconds": round(seconds, 3), "runs": found["runs"],
        "events_per_second": round(events / seconds), "fixed_s": round(found["fixed_s"], 3), "n_cores": n_cores,
        "mb_per_core_s": round(mb / seconds / n_cores, 2), "mb_per_core_s_net": round(mb / net_s / n_cores, 2),
        "events_per_core_s": round(events / seconds / n_cores),
        "events_per_core_s_net": round(events / net_s / n_cores), "peak_mb": round(found["peak_mb"], 1),
    }  # fmt: skip


# ---- what is read ----------------------------------------------------------------------------------------------


def write_inputs(root: Path, n_copies: int, n_log_copies: int, n_hosts: int) -> None:
    """Folders jhist, logs and rrds."""
    recording = root / "recording"
    packing.unpack(ARCHIVE, recording)
    for folder, name, n in (("history", "jhist", n_copies), ("userlogs", "logs", n_log_copies)):
        for path in sorted((recording / folder).rglob("*")):
            if not path.is_file() or (name == "jhist" and path.suffix != ".jhist"):
                continue
            below, text = str(path.relative_to(recording / folder)), path.read_text(errors="replace")
            for copy in range(n):
                target = root / name / renumbered(below, copy)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(renumbered(text, copy))
    write_rrds(root / "rrds", n_hosts, len(METRICS), n_steps=5_000)


def write_events(path: Path, n_events: int) -> None:
    """Events of workload H as rows of the store, and beside them the first tenth in a file of their own."""
    for place, n in ((path, n_events), (path.with_name(f"{path.name}.tenth"), n_events // TENTH)):
        n_left = n
        with pq.ParquetWriter(place, to_arrow_schema()) as writer:
            for batch, _ in HadoopStream(Cluster()):
                rows = to_rows(batch, "job_history").slice(0, n_left)
                writer.write_table(rows)
                n_left -= rows.num_rows
                if not n_left:
                    break


def renumbered(text: str, copy: int) -> str:
    """The same of another cluster's start, which all ids of jobs, applications and containers begin with."""
    return re.sub(r"(?<=_)(\d{13})(?=_\d{4})", lambda found: str(int(found[1]) + copy), text)


def copy_of(path: Path) -> str:
    """What `renumbered` has put into the name."""
    found = re.search(r"\d{13}", path.name)
    return found[0] if found else ""


def files_of(folder: Path) -> Iterator[Path]:
    """Those that an ingest would read."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and (path.suffix in (".jhist", ".rrd") or path.name.startswith("syslog")):
            yield path


def tenth_of(folder: str) -> list[Path]:
    """Every tenth file."""
    return list(files_of(Path(folder)))[::TENTH]


# ---- the ways, each in a process of its own --------------------------------------------------------------------


def in_a_loop(folder: str, n_runs: int) -> Figures:
    """One process, one file after the other."""

    def read(paths: list[Path]) -> int:
        groups: dict[Path, list[Path]] = {}
        for path in paths:
            groups.setdefault(path.parent if CONTAINER.fullmatch(path.parent.name) else path, []).append(path)
        n_events = 0
        for group in groups.values():
            files = [ReadFile(str(p), p.relative_to(folder).parts, p.read_bytes()) for p in group]
            is_log = group[0].name.startswith("syslog")
            for rows in parse_logs(files, OPTIONS) if is_log else parse_file(files[0], OPTIONS):
                n_events += rows.column("part").to_pylist().count(EVENT)
        return n_events

    return timed(read, folder, n_runs) | {"peak_mb": resident_mib(peak=True)}


def on_spark(folder: str, n_runs: int, n_cores: int) -> Figures:
    """The job's own frames, up to the parsed rows."""
    conf = {"spark.driver.memory": "1g", "spark.sql.shuffle.partitions": str(n_cores), **SPARK_CONF}
    with spark_session("benchmark", f"local[{n_cores}]", conf) as spark:

        def read(paths: list[Path]) -> int:
            every = len(paths) == n_files
            listing = list_files(spark, [folder] if every else list(map(str, paths)))
            wanted, _ = chosen_files(listing, OPTIONS)
            return parsed_files(spark, listing, wanted, OPTIONS).where(f"part = '{EVENT}'").count()

        n_files = len(list(files_of(Path(folder))))
        return timed(read, folder, n_runs) | {"peak_mb": peak_of_all_mib()}


def by_hadoop(folder: str, n_runs: int) -> Figures:
    """Hadoop's parser in a JVM, one file after the other. What counts as its events: two of a job, three of an attempt;
    ours makes more of a successful map."""
    with spark_session("benchmark", "local[1]", {"spark.driver.memory": "1g"}) as spark:
        jvm: Any = spark.sparkContext._jvm
        parser = jvm.org.apache.hadoop.mapreduce.jobhistory.JobHistoryParser
        conf = spark.sparkContext._jsc.hadoopConfiguration()
        system = jvm.org.apache.hadoop.fs.FileSystem.getLocal(conf)
        told = list[Any]()

        def read(paths: list[Path]) -> int:
            told[:] = [parser(system, jvm.org.apache.hadoop.fs.Path(f"file:{path}")).parse() for path in paths]
            return len(told)

        found = timed(read, folder, n_runs) | {"peak_mb": peak_of_all_mib()}
        paths = list(files_of(Path(folder)))
        read([path for path in paths if copy_of(path) == copy_of(paths[0])])  # the others are copies of these
        n_attempts = sum(len(task.getAllTaskAttempts()) for job in told for task in job.getAllTasks().values())
        found["events"] = round((2 + 3 * n_attempts / len(told)) * found["events"])
        return found


def appended(path: str, n_runs: int, n_cores: int) -> Figures:
    """`EventStore.append` of all rows of a file to an empty store; of the first tenth of them: see `write_events`."""
    conf = {"spark.driver.memory": "2g", "spark.sql.shuffle.partitions": str(n_cores), **SPARK_CONF}
    with spark_session("benchmark", f"local[{n_cores}]", conf) as spark, tempfile.TemporaryDirectory() as folder:
        medians, n_events = list[float](), 0
        for place in (path, f"{path}.tenth"):
            n_events = pq.read_metadata(place).num_rows
            seconds = [_append_s(spark, place, f"{folder}/{n_events}-{run}", n_events) for run in range(n_runs + 1)]
            medians.append(statistics.median(seconds[1:]))
        return {
            "events": pq.read_metadata(path).num_rows, "mb": Path(path).stat().st_size / 1e6, "runs": n_runs,
            "seconds": medians[0], "fixed_s": fixed_of(*medians), "peak_mb": peak_of_all_mib(),
        }  # fmt: skip


def _append_s(spark: SparkSession, path: str, url: str, n_events: int) -> float:
    rows = spark.read.schema(EVENTS).parquet(path)
    store = EventStore.create(spark, url)
    started = time.perf_counter()
    done = store.append(rows)
    seconds = time.perf_counter() - started
    assert done.n_new == n_events, done
    return seconds


def timed(read: Callable[[list[Path]], int], folder: str, n_runs: int) -> Figures:
    """Medians after a run that does not count: compiled code, started workers."""
    everything, tenth = list(files_of(Path(folder))), tenth_of(folder)
    n_events = read(everything)
    seconds: dict[bool, list[float]] = {True: [], False: []}
    for _ in range(n_runs):
        for whole, paths in ((True, everything), (False, tenth)):
            started = time.perf_counter()
            read(paths)
            seconds[whole].append(time.perf_counter() - started)
    whole_s, tenth_s = statistics.median(seconds[True]), statistics.median(seconds[False])
    return {
        "events": n_events, "mb": sum(path.stat().st_size for path in everything) / 1e6, "runs": n_runs,
        "seconds": whole_s, "fixed_s": fixed_of(whole_s, tenth_s),
    }  # fmt: skip


def fixed_of(whole_s: float, tenth_s: float) -> float:
    """What does not grow with the input, when the rest grows in proportion; at least 0."""
    return max(0.0, (tenth_s - whole_s / TENTH) * TENTH / (TENTH - 1))


def peak_of_all_mib() -> float:
    """Largest resident sets of this process and of all that it has started: the JVM and its Python workers."""
    found, todo = 0.0, [os.getpid()]
    while todo:
        pid = todo.pop()
        listed = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False)  # own children
        todo += [int(line) for line in listed.stdout.split()]
        try:
            found += resident_mib(pid, peak=True)
        except (OSError, IndexError):
            continue  # it has ended since
    return found
