"""How many hosts x metrics one core follows at a step of 15 s: RRD files that grow, as far as the store.

Every step, each file gets one sample (not counted: gmetad's work); then the collector, LoadStd and Balance, the shipped
queries, the event log, the checkpoint and the store are at work, and the time of all threads is taken: right after the
start, and as it is from two hours on, when as many ids of samples are remembered as ever will be (they are put in; who
wants to see them come asks for 480 steps). The baseline fetches the last step of every file with rrdtool, and does
nothing with it.
"""

from __future__ import annotations

import gc
import shutil
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import rrdtool
import yaml

from app.alerting.notifier import Notifier
from app.clock import SetClock
from app.config import load_settings
from app.live.assembly import BRIEF_MS, Live, assemble, checked_queries, checkpoint_folder, open_configured_store
from app.live.ordering.remembered_ids import OPEN, RememberedIds
from app.process.logs import configure_logs
from app.settings import Log, Settings
from benchmarks.measure import resident_mib, show, size

ROOT = Path(__file__).resolve().parents[2]
T0_S = 1_700_000_010
STEP_S = 15
SOURCE = "ganglia_rrd"
LOAD_METRIC = "cpu_user"
N_WARM_UP = 3


def main() -> dict[str, Any]:
    """Print a table and return its figures; sizes: CLUSTERCEP_BENCH_HOSTS (of the largest), ..._METRICS, ..._STEPS."""
    configure_logs(Log(level="error"))
    n_hosts, n_metrics, n_steps = size("HOSTS", 500), size("METRICS", 20), size("STEPS", 7)
    rows = []
    for hosts in sorted({max(1, n_hosts // 20), max(1, n_hosts // 5), n_hosts}):
        with tempfile.TemporaryDirectory(prefix="clustercep-bench-") as folder:
            rows.append(measure(Path(folder), hosts, n_metrics, n_steps))
    names = {
        "n_hosts": "hosts", "n_files": "files", "fetch_cpu_s": "fetch", "fresh_cpu_s": "young", "cpu_s": "old",
        "wall_s": "wall", "ratio": "ratio", "checkpoint_mb": "MB", "memory_mib": "MiB",
        "hosts_x_metrics_per_core": "1 core",
    }  # fmt: skip
    show(
        f"hosts x metrics: seconds in each step of {STEP_S} s (medians of {n_steps} steps)",
        list(names.values()),
        [[row[name] for name in names] for row in rows],
    )
    largest = rows[-1]
    print(
        f"{largest['n_files']:,} hosts x metrics take {largest['cpu_s']:.2f} s of one core in each step of "
        f"{STEP_S} s, {largest['fresh_cpu_s']:.2f} s right after the start"
    )
    return {"step_s": STEP_S, "sizes": rows}


class Followed:
    """One cluster and the path that follows it."""

    def __init__(self, live: Live, clock: SetClock, files: Sequence[Path], checkpoints: Path) -> None:
        self._live = live
        self._clock = clock
        self._files = files
        self._checkpoints = checkpoints
        self._n_steps = 0

    def steps(self, n: int) -> tuple[float, float, float, float]:
        """Over `n` steps the medians of the path's CPU seconds, its wall seconds, CPU seconds of the fetch alone; and
        what of the checkpoint was written in each, in the mean, MB.
        """
        figures, n_bytes = [], 0
        for _ in range(n):
            before = sizes(self._checkpoints)
            now_s = T0_S + self._n_steps * STEP_S
            grow(self._files, now_s, self._n_steps)
            self._clock.advance_to(now_s * 1_000 + 500)
            self._n_steps += 1
            gc.collect()
            figures.append((*step(self._live, self._clock.now_ms()), fetch(self._files, now_s)))
            n_bytes += sum(n for name, n in sizes(self._checkpoints).items() if name not in before)
        cpu_s, wall_s, fetch_s = (statistics.median(column) for column in zip(*figures, strict=True))
        return cpu_s, wall_s, fetch_s, n_bytes / n / 1e6

    def age(self) -> None:
        """Remember as many ids as after hours."""
        order = self._live.pipeline.order
        tables, state = order.save()
        ids, chosen = RememberedIds(), np.random.default_rng(1)
        ids.restore(tables[OPEN], order.sealed())
        for n_steps in range(BRIEF_MS // 1_000 // STEP_S):
            until_ms = np.full(len(self._files), self._clock.now_ms() + n_steps * STEP_S * 1_000)
            ids.add(pa.array([chosen.bytes(16).hex() for _ in self._files], pa.string()), pa.array(until_ms))
        order.restore({**tables, OPEN: ids.save(), **ids.sealed()}, state, self._clock.now_ms())


def measure(folder: Path, n_hosts: int, n_metrics: int, n_steps: int) -> dict[str, Any]:
    """One cluster, young and old."""
    metrics = (LOAD_METRIC, *(f"metric_{i}" for i in range(1, n_metrics)))
    files = write_files(folder / "rrds", n_hosts, metrics)
    settings = settings_of(folder, metrics)
    clock = SetClock(T0_S * 1_000)
    with open_configured_store(settings) as store:
        queries = checked_queries(settings)
        followed = Followed(
            assemble(settings, queries, store, Notifier(store, {}, clock), clock.now_ms()),
            clock,
            files,
            checkpoint_folder(settings),
        )
        followed.steps(N_WARM_UP)
        fresh_s, _, fetch_s, _ = followed.steps(n_steps)
        followed.age()
        followed.steps(1)
        cpu_s, wall_s, _, checkpoint_mb = followed.steps(n_steps)
        events = {row.type: row.value for row in store.statistics("events")}
    assert events["Metric"] >= len(files) * 2 * n_steps, "samples were missed"
    return {
        "n_hosts": n_hosts,
        "n_metrics": n_metrics,
        "n_files": len(files),
        "n_load_std": events["LoadStd"],
        "fetch_cpu_s": round(fetch_s, 3),
        "fresh_cpu_s": round(fresh_s, 3),
        "cpu_s": round(cpu_s, 3),
        "wall_s": round(wall_s, 3),
        "ratio": round(cpu_s / fetch_s, 2),
        "checkpoint_mb": round(checkpoint_mb, 1),
        "kept_mb": round(sum(sizes(checkpoint_folder(settings)).values()) / 1e6, 1),
        "memory_mib": round(resident_mib()),
        "hosts_x_metrics_per_core": round(len(files) * STEP_S / cpu_s),
    }


def step(live: Live, now_ms: int) -> tuple[float, float]:
    """One poll and one step of the pipeline: CPU seconds of all threads, wall seconds."""
    wall, cpu = time.perf_counter(), time.process_time()
    live.poll(SOURCE, now_ms)
    live.pipeline.step(now_ms)
    return time.process_time() - cpu, time.perf_counter() - wall


def sizes(folder: Path) -> dict[str, int]:
    """Bytes of each file."""
    return {path.name: path.stat().st_size for path in folder.iterdir()} if folder.is_dir() else {}


def fetch(files: Sequence[Path], now_s: int) -> float:
    """CPU seconds of reading the last sample of every file, and nothing else."""
    started = time.process_time()
    for path in files:
        rrdtool.fetch(str(path), "AVERAGE", "-s", str(now_s - STEP_S), "-e", str(now_s - 1))
    return time.process_time() - started


def grow(files: Sequence[Path], now_s: int, number: int) -> None:
    """A sample for every file, as gmetad does."""
    for idx, path in enumerate(files):
        rrdtool.update(str(path), f"{now_s}:{(idx * 7 + number * 13) % 101}")


def write_files(folder: Path, n_hosts: int, metrics: Sequence[str]) -> list[Path]:
    """Files as gmetad makes them, but that their coarse archives (which nobody reads here) are short: so many fit."""
    folder.mkdir(parents=True)
    model = folder / "model"
    start_s = T0_S - STEP_S
    rrdtool.create(
        str(model), "-b", str(start_s), "-s", str(STEP_S), "DS:sum:GAUGE:120:U:U",
        "RRA:AVERAGE:0.5:1:5856", "RRA:AVERAGE:0.5:4:100", "RRA:AVERAGE:0.5:40:100",
    )  # fmt: skip
    files = []
    for host in range(n_hosts):
        (folder / "cluster" / f"node{host}").mkdir(parents=True)
        for metric in metrics:
            files.append(folder / "cluster" / f"node{host}" / f"{metric}.rrd")
            shutil.copyfile(model, files[-1])
    model.unlink()
    return files


def settings_of(folder: Path, metrics: Sequence[str]) -> Settings:
    """One source, with the shipped queries and a store of its own; all else as shipped."""
    path = folder / "config.yaml"
    source = {"enabled": True, "directory": str(folder / "rrds"), "metrics": list(metrics), "lateness": "0 s"}
    config = {
        "sources": {SOURCE: source},
        "load": {"metric": LOAD_METRIC},
        "queries": {"directory": str(ROOT / "queries")},
        "store": {"directory": str(folder / "data")},
    }
    path.write_text(yaml.safe_dump(config))
    return load_settings(path, {})
