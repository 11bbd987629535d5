"""The stream on Spark: sustained events/s, latency at parts of that, state per bucket, memory, time to recover.

Workload H with all predefined queries; files have all events of the cluster, most of which no query reads.
CLUSTERCEP_BENCH_STREAM_NODES: of the cluster (1,000: 13,620 events per second of its time); _FILES_PER_STEP: into which
15 s of it are cut (5); _STEPS: of 15 s for the rate and again for the recovery (16); _LATENCY_FILES: for each latency
(30); _BUCKETS (4) and _CORES (2) of the stream. With these sizes it takes about seven minutes on two free cores; what
it is at goes to standard error.

An event's latency goes from the appearance of its file to the end of the transaction that has it; an alert's from the
appearance of the file with the last of its events to its own transaction, so it holds the lateness, too, as fast as the
time of the input passes.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import engine
from benchmarks.measure import show, size
from benchmarks.spark.stream_child import Child, Line
from benchmarks.spark.stream_run import CHECKPOINT, FILE_OF, IN, Run
from benchmarks.workloads.hadoop_stream import Cluster, HadoopStream
from spark_jobs.event_store.schema import to_rows

LATENESS_MS = 30_000
SHARES = (0.5, 0.9)
WORKLOAD = "H, all predefined queries"
N_WARM = 2
"""Micro-batches that do not count: workers start, the JVM compiles."""


@dataclass
class Input:
    """Files of the cluster's events, in order of time; of 15 s each event comes in any of their files."""

    n_nodes: int
    files_per_step: int
    n_files: int
    n_events: list[int] = field(default_factory=list)
    file_of: list[np.ndarray[Any, np.dtype[np.int32]]] = field(default_factory=list)

    def write(self, folder: Path) -> None:
        """All files, as they will appear, and which event is in which of them."""
        folder.mkdir()
        random = np.random.default_rng(1)
        n_steps = -(-self.n_files // self.files_per_step)
        for step, (batch, _) in enumerate(HadoopStream(Cluster(self.n_nodes, length_ms=n_steps * 15_000))):
            rows = to_rows(batch, "benchmark")
            among = random.integers(0, self.files_per_step, rows.num_rows)
            self.file_of.append((step * self.files_per_step + among).astype(np.int32))
            for number in range(self.files_per_step):
                part = rows.filter(pa.array(among == number))
                self.n_events.append(part.num_rows)
                pq.write_table(part, folder / f"{step * self.files_per_step + number:06d}.parquet")


def main() -> dict[str, Any]:
    """Print tables and return their figures; raises StreamError when a stream fails or stands still."""
    told = Progress()
    files_per_step, n_steps = size("STREAM_FILES_PER_STEP", 5), size("STREAM_STEPS", 16)
    n_phase, n_latency = n_steps * files_per_step, size("STREAM_LATENCY_FILES", 30)
    given = Input(size("STREAM_NODES", 1_000), files_per_step, 2 * n_phase + len(SHARES) * n_latency + 1)
    if not engine.kernels_are_compiled():
        told("compiling the matching kernels, some minutes: once per machine and version")
        engine.warm_kernels()
    with tempfile.TemporaryDirectory(prefix="clustercep-bench-") as made:
        folder = Path(made)
        told(f"making {given.n_files} files")
        given.write(folder / "made")
        (folder / IN).mkdir()
        np.save(folder / FILE_OF, np.concatenate(given.file_of))
        run = Run(
            made, size("STREAM_BUCKETS", 4), size("STREAM_CORES", 2), LATENESS_MS, once=True, max_files=files_per_step
        )
        figures: dict[str, Any] = {"n_nodes": given.n_nodes, "n_buckets": run.n_buckets, "n_cores": run.n_cores}
        told(f"rate: {n_phase} files, all there at once, {files_per_step} per micro-batch")
        sustained, figures["phases"], figures["state_bytes"] = sustained_rate(run, given, folder, n_phase)
        told.row(sustained)
        told("recovery: as many files, killed with -9 in the middle, started again")
        recovered = recovery(run, given, folder, range(n_phase, 2 * n_phase))
        told.row(recovered)
        figures["latency"] = latencies(run, given, folder, 2 * n_phase, n_latency, sustained["events_per_second"], told)
    rows = figures["rows"] = [sustained, recovered, *figures["latency"]]
    _show(figures, rows)
    return {**figures, "seconds": round(told.seconds), "load": os.getloadavg()}


class Progress:
    """What a long run is at, on standard error."""

    def __init__(self) -> None:
        self._began_s = time.monotonic()

    @property
    def seconds(self) -> float:
        """Since it began."""
        return time.monotonic() - self._began_s

    def __call__(self, what: str) -> None:
        """A line with the time."""
        minutes, seconds = divmod(int(self.seconds), 60)
        sys.stderr.write(f"[{minutes}:{seconds:02d}] stream: {what}\n")
        sys.stderr.flush()

    def row(self, row: Line) -> None:
        """Figures as soon as they are there, should a later part fail."""
        self(", ".join(f"{name} {value}" for name, value in row.items() if name != "workload"))


def _show(figures: Line, rows: Sequence[Line]) -> None:
    columns = ("variant", "events", "seconds", "events_per_second", "matches", "peak_mb")
    show(WORKLOAD, columns, [[row.get(column, "") for column in columns] for row in rows])
    show("where a micro-batch's time goes", ("of it", "median"), list(figures["phases"].items()))
    show("state, bytes by bucket", ("bucket", "bytes"), sorted(figures["state_bytes"].items()))
    again = next(row for row in rows if "first_batch_s" in row)
    steps = ("session_s", "first_batch_s", "seconds", "events_left")
    show("started again after kill -9", steps, [[again[column] for column in steps]])
    waits = ("variant", "event_median_s", "event_p95_s", "alert_median_s", "alert_p95_s", "speed")
    show("latency", waits, [[row[column] for column in waits] for row in figures["latency"]])


def appear(folder: Path, files: range) -> None:
    """Files that appear whole, in order."""
    for number in files:
        name = f"{number:06d}.parquet"
        path = folder / "made" / name
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))  # Spark takes them in this order
        path.rename(folder / IN / name)


def sustained_rate(run: Run, given: Input, folder: Path, n_files: int) -> tuple[Line, dict[str, float], dict[str, int]]:
    """All files there at once; the micro-batches after the first ones count."""
    appear(folder, range(n_files))
    child = Child(run, "sustained")
    told = list(child.batches())
    batch_of = batches_of_files(folder)
    began, last = told[N_WARM - 1], next(line for line in told if line["batch"] == max(batch_of.values()))
    n_events = sum(given.n_events[number] for number in range(n_files) if batch_of[number] > began["batch"])
    seconds = last["at_s"] - began["at_s"]
    state = {bucket: n for line in told for bucket, n in line["state"].items()}
    row = {
        "workload": WORKLOAD, "variant": "sustained", "events": n_events, "seconds": round(seconds, 2),
        "events_per_second": round(n_events / seconds), "matches": sum(line["n_matches"] for line in told),
        "events_read": sum(line["n_read"] for line in told[N_WARM:]), "late": sum(line["n_late"] for line in told),
        "micro_batches": last["batch"] - began["batch"], "peak_mb": round(child.peak_mb),
    }  # fmt: skip
    return row, phases(child.lines, told[N_WARM:]), state


def phases(lines: Sequence[Line], told: Sequence[Line]) -> dict[str, float]:
    """Medians over those of these micro-batches that had events, of where their time went, in ms."""
    by_batch = {line["batch"]: line for line in told}
    spark = [p for line in lines if line["kind"] == "done" for p in line["spark_ms"] if p["n_rows"]]
    found: dict[str, list[float]] = {}
    for progress in spark:
        if (own := by_batch.get(progress["batch"])) is None:
            continue
        more = {
            "all buckets' steps": own["buckets_s"] * 1e3,
            "transaction": own["store_s"] * 1e3,
            "buckets restored": own["n_restored"],
            "state written, bytes": own["written_bytes"],
        }
        for name, value in {**progress, **more}.items():
            found.setdefault(name, []).append(value)
    return {name: median(values) for name, values in found.items() if name != "batch"}


def recovery(run: Run, given: Input, folder: Path, files: range) -> Line:
    """Killed with -9 in the middle, started again: until its first micro-batch is in the store, and until all are."""
    appear(folder, files)
    first = Child(run, "to be killed")
    n_wanted = max(1, len(files) // given.files_per_step // 2)
    n_before = sum(1 for _, _ in zip(range(n_wanted), first.batches(), strict=False))
    first.kill()
    n_events = sum(given.n_events[number] for number in files)
    again = Child(run, "started again")
    told = list(again.batches())
    started = next(line for line in again.lines if line["kind"] == "started")
    batch_of = batches_of_files(folder)
    last = max(batch_of[number] for number in files)
    left = [number for number in files if batch_of[number] >= told[0]["batch"]]
    caught_up = next(line["at_s"] for line in told if line["batch"] == last)
    return {
        "workload": WORKLOAD, "variant": "killed and started again", "events": n_events,
        "micro_batches_before": n_before, "events_left": sum(given.n_events[number] for number in left),
        "session_s": round(started["at_s"] - again.began_s, 2),
        "first_batch_s": round(told[0]["at_s"] - again.began_s, 2), "seconds": round(caught_up - again.began_s, 2),
        "repeated": sum(line["repeated"] for line in told), "restored": told[0]["n_restored"],
        "matches": sum(line["n_matches"] for line in told), "peak_mb": round(again.peak_mb),
    }  # fmt: skip


def latencies(
    run: Run, given: Input, folder: Path, first: int, n_files: int, rate: float, told: Progress
) -> list[Line]:
    """Files appear one by one, at a share of the sustained rate."""
    told("latency: the stream starts")
    child = Child(replace(run, once=False, max_files=None), "latency")
    appeared: dict[int, float] = {}
    rows: list[Line] = []
    child.await_kind("started")
    _one_by_one(child, given, folder, range(first, first + 1), rate, appeared)  # the workers start
    first += 1
    for share in SHARES:
        files = range(first, first + n_files)
        first = files.stop
        told(f"latency at {share:.0%} of the maximum: {n_files} files, one by one")
        rows.append(_latency(child, given, folder, files, share * rate, appeared))
        rows[-1]["variant"] = f"at {share:.0%} of the maximum"
        told.row(rows[-1])
    child.kill()
    return rows


def _latency(child: Child, given: Input, folder: Path, files: range, rate: float, appeared: dict[int, float]) -> Line:
    n_lines, began_s = len(child.lines), time.time()
    _one_by_one(child, given, folder, files, rate, appeared)
    told = [line for line in child.lines[n_lines:] if line["kind"] == "batch"]
    batch_of, done_at = batches_of_files(folder), {line["batch"]: line["at_s"] for line in told}
    events = np.repeat(
        [done_at[batch_of[number]] - appeared[number] for number in files],
        [given.n_events[number] for number in files],
    )
    alerts = [
        line["at_s"] - appeared[number] for line in told for number, n in line["told_by"] if number in files
        for _ in range(n)
    ]  # fmt: skip
    seconds = max(done_at.values()) - began_s
    return {
        "workload": WORKLOAD, "variant": "", "events": len(events),
        "seconds": round(seconds, 2), "events_per_second": round(len(events) / seconds),
        "micro_batches": len(told), "matches": len(alerts), "peak_mb": round(child.peak_mb),
        "speed": round(rate / (given.n_nodes * Cluster.events_per_node_s), 2),
        **_quantiles("event", events), **_quantiles("alert", alerts),
    }  # fmt: skip


def _one_by_one(
    child: Child, given: Input, folder: Path, files: range, events_per_s: float, appeared: dict[int, float]
) -> None:
    """Until all of them are in the store."""
    at_s = time.time()
    for number in files:
        appear(folder, range(number, number + 1))
        appeared[number] = time.time()
        at_s += given.n_events[number] / events_per_s
        child.until(at_s)
    while True:
        told = {line["batch"] for line in child.lines if line["kind"] == "batch"}
        batch_of = batches_of_files(folder)
        if all(batch_of.get(number, -1) in told for number in files):
            return
        child.await_kind("batch")


def batches_of_files(folder: Path) -> dict[int, int]:
    """The micro-batch of each file, as Spark's checkpoint says.

    The source numbers its own batches, only those with files; up to which of them a micro-batch goes is in its offsets.
    """
    checkpoint = folder / CHECKPOINT
    ends = {}
    for path in (checkpoint / "offsets").glob("[0-9]*"):
        of_files = path.read_text().splitlines()[2]
        if of_files != "-":
            ends[int(path.name)] = int(json.loads(of_files)["logOffset"])
    found: dict[int, int] = {}
    for path in (checkpoint / "sources" / "0").glob("[0-9]*"):
        for line in path.read_text().splitlines()[1:]:
            entry = json.loads(line)
            batches = [batch for batch, end in ends.items() if end >= entry["batchId"]]
            if batches:
                found[int(Path(entry["path"]).stem)] = min(batches)
    return found


def _quantiles(of: str, waits: Any) -> dict[str, float | None]:
    if not len(waits):
        return {f"{of}_median_s": None, f"{of}_p95_s": None}
    return {
        f"{of}_median_s": round(float(np.quantile(waits, 0.5)), 2),
        f"{of}_p95_s": round(float(np.quantile(waits, 0.95)), 2),
    }


__all__ = ["main"]
