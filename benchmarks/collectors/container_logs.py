"""Polls over many container logs: the first, further ones, and the first one after a restart.

    CLUSTERCEP_BENCH_CONTAINER_LOGS=100000    how many logs, each of a container of its own

Most are of containers that ended long ago; some grow by a line between polls. The read position is saved as the live
path saves it: through the order's state and a checkpoint file.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

from app.live.checkpoint import Checkpoint, CheckpointFolder
from app.live.intake import Intake, Source
from app.live.ordering.deduplicate import Deduplicator
from app.live.ordering.order import Order
from app.live.ordering.watermarks import Watermarks
from benchmarks.measure import resident_mib, show, size
from collectors.logs.container_log import ContainerLogCollector, ContainerLogOptions

LOGS_OF_AN_APPLICATION = 20
N_HOSTS = 50
N_GROWING = 500
OLD_S = 86_400.0
LINE = "2023-11-15 00:00:{:02},000 INFO [main] org.apache.hadoop.mapred.MapTask: bufstart = 0; bufvoid = 104857600\n"
DONE = (
    "2023-11-15 00:00:59,000 INFO [main] org.apache.hadoop.mapred.Task: Task 'attempt_1700000000000_{}_m_{}_0' done.\n"
)


def main() -> dict[str, Any]:
    """Print a table and return its figures."""
    n_files = size("CONTAINER_LOGS", 100_000)
    folder = Path(tempfile.mkdtemp(prefix="clustercep-bench-"))
    try:
        growing = write_logs(folder / "userlogs", n_files)
        figures = measure(folder, growing)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    rows = [[name, *figure.values()] for name, figure in figures.items()]
    columns = ("poll", "seconds", "CPU s", "events", "written MB", "checkpoint MB", "resident MiB")
    show(f"{n_files:,} container logs", columns, rows)
    return {"n_files": n_files, **figures}


def measure(folder: Path, growing: list[Path]) -> dict[str, dict[str, float]]:
    """The polls in their order."""
    checkpoints = CheckpointFolder(folder / "checkpoints", "live", durable=False)
    order, source = new_order(), new_source(folder)
    now_ms = time.time_ns() // 1_000_000
    number = 0

    def poll(source: Source, passed_ms: int = 15_000) -> dict[str, float]:
        nonlocal now_ms, number
        now_ms, number = now_ms + passed_ms, number + 1
        started, cpu = time.perf_counter(), time.process_time()
        intake: Intake = source.poll(now_ms)
        order.advance([intake], now_ms)
        tables, state = order.save()
        before = _sizes(folder / "checkpoints")
        checkpoints.write(Checkpoint(number, tables, {"order": state}, order.sealed()), now_ms)
        figure = {"seconds": time.perf_counter() - started, "cpu_s": time.process_time() - cpu}
        figure["n_events"] = float(len(intake.events))
        there = _sizes(folder / "checkpoints")
        figure["written_mb"] = sum(there[name] for name in there.keys() - before.keys()) / 1e6
        checkpoints.tidy(number)
        figure["checkpoint_mb"] = sum(_sizes(folder / "checkpoints").values()) / 1e6
        figure["resident_mib"] = resident_mib()
        return {name: round(value, 3) for name, value in figure.items()}

    figures = {"first": poll(source)}
    figures["second, nothing new"] = poll(source)
    figures["third, nothing new"] = poll(source)
    grow(growing)
    figures[f"{len(growing)} have grown"] = poll(source)
    figures["after the containers' end"] = poll(source, 700_000)
    figures["later, nothing new"] = poll(source)
    _, state = order.save()
    saved = _position(order, state)
    again = new_source(folder)
    again.restore(saved)
    figures["first after a restart"] = poll(again)
    return figures


def _sizes(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_size for path in folder.glob("*")}


def _position(order: Order, state: dict[str, Any]) -> Any:
    positions: Any = getattr(order, "positions", None) or state["positions"]
    return positions["container_log"]


def new_order() -> Order:
    """An order of one source."""
    return Order(Deduplicator({"container_log": 0}, 86_400_000), Watermarks(["container_log"], 60_000, 0))


def new_source(folder: Path) -> Source:
    """A collector that has not read anything."""
    return Source(ContainerLogCollector(ContainerLogOptions(folder / "userlogs")))


def write_logs(root: Path, n_files: int) -> list[Path]:
    """Logs of ended containers, a day old; returns those that will grow."""
    now_s = time.time()
    growing = []
    for i in range(n_files):
        application = i // LOGS_OF_AN_APPLICATION
        folder = root / f"node{application % N_HOSTS}" / f"application_1700000000000_{application:05}"
        path = folder / f"container_1700000000000_{application:05}_01_{i % LOGS_OF_AN_APPLICATION + 2:06}" / "syslog"
        path.parent.mkdir(parents=True, exist_ok=True)
        ended = DONE.format(f"{application:05}", f"{i:06}")
        path.write_text("".join(LINE.format(second) for second in range(20)) + ended)
        if i % (n_files // min(n_files, N_GROWING)) == 0:
            growing.append(path)
        else:
            os.utime(path, (now_s - OLD_S, now_s - OLD_S))
    return growing


def grow(paths: list[Path]) -> None:
    """By a line each."""
    for path in paths:
        with path.open("a") as file:
            file.write(LINE.format(59))
