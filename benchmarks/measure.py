"""What all benchmarks share: medians over runs, peak memory, tables."""

from __future__ import annotations

import os
import resource
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table


def size(name: str, default: int) -> int:
    """How large to measure: CLUSTERCEP_BENCH_<NAME> in the environment, else the default."""
    return int(os.environ.get(f"CLUSTERCEP_BENCH_{name}", default))


def resident_mib(pid: int | None = None, peak: bool = False) -> float:
    """Resident memory of a process (this one) now, or its peak, MiB."""
    status = Path(f"/proc/{pid or os.getpid()}/status").read_text()
    return int(status.partition("VmHWM:" if peak else "VmRSS:")[2].split()[0]) / 1024


def median_seconds(work: Callable[[], object], repeats: int = 3, warm_up: int = 1) -> float:
    """Median wall-clock seconds of `repeats` runs after `warm_up` runs that are not counted."""
    for _ in range(warm_up):
        work()
    seconds = []
    for _ in range(repeats):
        started = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds)


def peak_memory_mib() -> float:
    """Largest resident set of this process so far, MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def forget_peak() -> None:
    """Let the peak of this process begin anew at what is resident now."""
    Path("/proc/self/clear_refs").write_text("5")


def stopwatch() -> Callable[[], float]:
    """The clock of the figures: wall-clock seconds, or with CLUSTERCEP_BENCH_CLOCK=cpu the CPU time of this process.

    CPU time is what to compare on a machine that others use at the same time; it counts all threads.
    """
    chosen = os.environ.get("CLUSTERCEP_BENCH_CLOCK", "wall")
    if chosen not in ("wall", "cpu"):
        raise SystemExit(f"CLUSTERCEP_BENCH_CLOCK={chosen}: expected wall or cpu")
    return time.perf_counter if chosen == "wall" else time.process_time


def scale(n: int) -> int:
    """A number of events or jobs times CLUSTERCEP_BENCH_SCALE (1 by default), at least 1."""
    return max(1, round(n * float(os.environ.get("CLUSTERCEP_BENCH_SCALE", "1"))))


def show(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a table; numbers right-aligned and grouped by thousands."""
    table = Table(title=title, title_justify="left")
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number == 0 else "right")
    for row in rows:
        table.add_row(*(_text(value) for value in row))
    Console().print(table)


def _text(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.3f}" if abs(value) < 10 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
