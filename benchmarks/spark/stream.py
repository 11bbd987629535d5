"""The stream on Spark: sustained events/s, latency at parts of that, state per bucket, memory, time to recover.

Workload H with all predefined queries; files have all events of the cluster, most of which no query reads.
CLUSTERCEP_BENCH_STREAM_NODES: of the cluster (1,000: 13,620 events per second of its time); _FILES_PER_STEP: into which
15 s of it are cut (5); _STEPS: of 15 s for the rate and again for the recovery (20); _LATENCY_FILES: for each latency
(40); _BUCKETS (4) and _CORES (2) of the stream.

An event's latency goes from the appearance of its file to the end of the transaction that has it; an alert's from the
appearance of the file with the last of its events to its own transaction, so it holds the lateness, too, as fast as the
time of the input passes.
"""

from __future__ import annotations

import atexit
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.hadoop_stream import Cluster, HadoopStream
from benchmarks.measure import show, size
from benchmarks.spark.stream_run import CHECKPOINT, FILE_OF, IN, Run
from spark_jobs.event_store.schema import to_rows

ROOT = Path(__file__).parents[2]
LATENESS_MS = 30_000
SHARES = (0.5, 0.9)
WORKLOAD = "H, all predefined queries"
LIMIT_S = 300.0
_LOOK_S = 1.0
"""Between two looks at the memory of all processes, which takes a while."""

Line = dict[str, Any]


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


class Child:
    """A stream in a process of its own: its lines with the time, and the most memory of all its processes."""

    def __init__(self, run: Run) -> None:
        self.began_s = time.time()
        self.lines: list[Line] = []
        self.peak_mb = 0.0
        self._look_s = 0.0
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.spark.stream_run"],
            cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            start_new_session=True,
        )  # fmt: skip
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(asdict(run)) + "\n")
        self._process.stdin.flush()
        self._told: queue.SimpleQueue[Line | None] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()
        atexit.register(self.kill)

    def next(self, timeout_s: float = LIMIT_S) -> Line | None:
        """The next line; None when the process has ended; raises TimeoutError."""
        ends_s = time.monotonic() + timeout_s
        while (left_s := ends_s - time.monotonic()) > 0:
            self._look()
            try:
                line = self._told.get(timeout=min(_LOOK_S, left_s))
            except queue.Empty:
                continue
            if line is not None:
                self.lines.append(line)
            return line
        raise TimeoutError(f"the stream has told nothing for {timeout_s} s")

    def batches(self) -> Iterator[Line]:
        """Lines of micro-batches until the process ends."""
        while (line := self.next()) is not None:
            if line["kind"] == "batch":
                yield line

    def kill(self) -> None:
        """With -9, and all of its processes."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for text in self._process.stdout:
            if text.startswith("{"):
                self._told.put(json.loads(text))
        self._told.put(None)

    def _look(self) -> None:
        if time.monotonic() < self._look_s:
            return
        self._look_s = time.monotonic() + _LOOK_S
        self.peak_mb = max(self.peak_mb, memory_mb(self._process.pid))


def memory_mb(session: int) -> float:
    """Memory of all processes of a session, what they share counted once."""
    total_kib = 0
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and os.getsid(int(entry.name)) == session:
                rolled = (entry / "smaps_rollup").read_text()
                total_kib += int(rolled.partition("\nPss:")[2].split()[0])
        except (OSError, IndexError, ValueError):
            continue  # it has ended meanwhile
    return total_kib * 1024 / 1e6


def main() -> dict[str, Any]:
    """Print tables and return their figures."""
    files_per_step, n_steps = size("STREAM_FILES_PER_STEP", 5), size("STREAM_STEPS", 20)
    n_phase, n_latency = n_steps * files_per_step, size("STREAM_LATENCY_FILES", 40)
    given = Input(size("STREAM_NODES", 1_000), files_per_step, 2 * n_phase + len(SHARES) * n_latency)
    rows: list[Line] = []
    with tempfile.TemporaryDirectory(prefix="clustercep-bench-") as made:
        folder = Path(made)
        given.write(folder / "made")
        (folder / IN).mkdir()
        np.save(folder / FILE_OF, np.concatenate(given.file_of))
        run = Run(
            made, size("STREAM_BUCKETS", 4), size("STREAM_CORES", 2), LATENESS_MS, once=True, max_files=files_per_step
        )
        figures: dict[str, Any] = {"n_nodes": given.n_nodes, "n_buckets": run.n_buckets, "n_cores": run.n_cores}
        sustained, figures["phases"], figures["state_bytes"] = sustained_rate(run, given, folder, n_phase)
        rows.append(sustained)
        rows.append(recovery(run, given, folder, range(n_phase, 2 * n_phase)))
        rate = sustained["events_per_second"]
        figures["latency"] = latencies(run, given, folder, 2 * n_phase, n_latency, rate)
    rows += figures["latency"]
    columns = ("variant", "events", "seconds", "events_per_second", "matches", "peak_mb")
    show(WORKLOAD, columns, [[row.get(column, "") for column in columns] for row in rows])
    show("where a micro-batch's time goes", ("of it", "ms"), list(figures["phases"].items()))
    show("state, bytes by bucket", ("bucket", "bytes"), sorted(figures["state_bytes"].items()))
    waits = ("variant", "event_median_s", "event_p95_s", "alert_median_s", "alert_p95_s", "speed")
    show("latency", waits, [[row[column] for column in waits] for row in figures["latency"]])
    return {**figures, "rows": rows, "load": os.getloadavg()}


def appear(folder: Path, files: range) -> None:
    """Files that appear whole, in order."""
    for number in files:
        name = f"{number:06d}.parquet"
        path = folder / "made" / name
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))  # Spark takes them in this order
        path.rename(folder / IN / name)


def sustained_rate(run: Run, given: Input, folder: Path, n_files: int) -> tuple[Line, dict[str, float], dict[str, int]]:
    """All files there at once; the micro-batches after the first, which starts the workers, count."""
    appear(folder, range(n_files))
    child = Child(run)
    told = list(child.batches())
    batch_of = batches_of_files(folder)
    first, last = told[0], [line for line in told if line["batch"] <= max(batch_of.values())][-1]
    counted = [number for number in range(n_files) if batch_of[number] > first["batch"]]
    seconds = last["at_s"] - first["at_s"]
    n_events = sum(given.n_events[number] for number in counted)
    state = {bucket: n for line in told for bucket, n in line["state"].items()}
    row = {
        "workload": WORKLOAD, "variant": "sustained", "events": n_events, "seconds": round(seconds, 2),
        "events_per_second": round(n_events / seconds), "matches": sum(line["n_matches"] for line in told),
        "events_read": sum(line["n_read"] for line in told[1:]), "late": sum(line["n_late"] for line in told),
        "micro_batches": last["batch"] - first["batch"], "peak_mb": round(child.peak_mb),
    }  # fmt: skip
    return row, phases(child.lines, told), state


def phases(lines: Sequence[Line], told: Sequence[Line]) -> dict[str, float]:
    """Medians over the micro-batches with events, but for the first, of what they say of their time, in ms."""
    by_batch = {line["batch"]: line for line in told}
    spark = [p for line in lines if line["kind"] == "done" for p in line["spark_ms"] if p["batch"] and p["n_rows"]]
    found: dict[str, list[float]] = {}
    for progress in spark:
        own = by_batch[progress["batch"]]
        more = {"all buckets' steps": own["buckets_s"] * 1e3, "buckets restored": own["n_restored"]}
        for name, value in {**progress, **more, "state written, bytes": own["written_bytes"]}.items():
            found.setdefault(name, []).append(value)
    return {name: median(values) for name, values in found.items() if name != "batch"}


def recovery(run: Run, given: Input, folder: Path, files: range) -> Line:
    """Killed with -9 in the middle, started again: until its first micro-batch is in the store, and until all are."""
    appear(folder, files)
    first = Child(run)
    n_before = 0
    for n_before, _ in enumerate(first.batches(), 1):
        if n_before >= len(files) // given.files_per_step // 2:
            break
    first.kill()
    n_events = sum(given.n_events[number] for number in files)
    again = Child(run)
    told = list(again.batches())
    batch_of = batches_of_files(folder)
    last = max(batch_of[number] for number in files)
    left = [number for number in files if batch_of[number] >= told[0]["batch"]]
    caught_up = next(line["at_s"] for line in told if line["batch"] == last)
    return {
        "workload": WORKLOAD, "variant": "killed and started again", "events": n_events,
        "events_left": sum(given.n_events[number] for number in left),
        "first_batch_s": round(told[0]["at_s"] - again.began_s, 2), "seconds": round(caught_up - again.began_s, 2),
        "repeated": sum(line["repeated"] for line in told), "matches": sum(line["n_matches"] for line in told),
        "peak_mb": round(again.peak_mb),
    }  # fmt: skip


def latencies(run: Run, given: Input, folder: Path, first: int, n_files: int, rate: float) -> list[Line]:
    """Files appear one by one, at a share of the sustained rate."""
    child = Child(replace(run, once=False, max_files=None))
    appeared: dict[int, float] = {}
    rows: list[Line] = []
    ready = next(line for line in iter(child.next, None) if line["kind"] == "started")
    assert ready
    _one_by_one(child, given, folder, range(first, first + 1), rate, appeared)  # the workers start
    first += 1
    for share in SHARES:
        files = range(first, min(first + n_files, given.n_files))
        first = files.stop
        n_lines, began_s = len(child.lines), time.time()
        _one_by_one(child, given, folder, files, share * rate, appeared)
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
        rows.append({
            "workload": WORKLOAD, "variant": f"at {share:.0%} of the maximum", "events": len(events),
            "seconds": round(seconds, 2), "events_per_second": round(len(events) / seconds),
            "matches": len(alerts), "peak_mb": round(child.peak_mb),
            "speed": round(share * rate / (given.n_nodes * Cluster.events_per_node_s), 2),
            **_quantiles("event", events), **_quantiles("alert", alerts),
        })  # fmt: skip
    child.kill()
    return rows


def _one_by_one(
    child: Child, given: Input, folder: Path, files: range, events_per_s: float, appeared: dict[int, float]
) -> None:
    """Until all of them are in the store."""
    at_s = time.time()
    for number in files:
        appear(folder, range(number, number + 1))
        appeared[number] = time.time()
        at_s += given.n_events[number] / events_per_s
        while (left_s := at_s - time.time()) > 0:
            try:
                child.next(left_s)
            except TimeoutError:
                break
    while True:
        told = {line["batch"] for line in child.lines if line["kind"] == "batch"}
        batch_of = batches_of_files(folder)
        if all(batch_of.get(number, -1) in told for number in files):
            return
        child.next()


def batches_of_files(folder: Path) -> dict[int, int]:
    """The micro-batch of each file, as Spark's checkpoint says."""
    found: dict[int, int] = {}
    for path in (folder / CHECKPOINT / "sources" / "0").glob("[0-9]*"):
        for line in path.read_text().splitlines()[1:]:
            entry = json.loads(line)
            found[int(Path(entry["path"]).stem)] = entry["batchId"]
    return found


def _quantiles(of: str, waits: Any) -> dict[str, float | None]:
    if not len(waits):
        return {f"{of}_median_s": None, f"{of}_p95_s": None}
    return {
        f"{of}_median_s": round(float(np.quantile(waits, 0.5)), 2),
        f"{of}_p95_s": round(float(np.quantile(waits, 0.95)), 2),
    }


__all__ = ["main"]
