"""Few small files into an empty store: what `clustercep ingest` takes from start to end, without and with Spark.

CLUSTERCEP_BENCH_SMALL_FILES: files, histories and container logs of the project's recording under other ids (100);
CLUSTERCEP_BENCH_SMALL_RUNS: of which the median counts (3). `seconds` is what a clock on the wall says, `cpu_seconds`
what the processor worked for the command and all that it started: on a busy machine the second is the one to compare.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.measure import show, size
from benchmarks.spark.ingest import files_of, write_inputs

WAYS = {"without Spark": (), "with Spark": ("--master=local[*]",)}
LIMIT_S = 900.0


def main() -> dict[str, Any]:
    """Print a table and return its figures."""
    n_files, n_runs = size("SMALL_FILES", 100), size("SMALL_RUNS", 3)
    with tempfile.TemporaryDirectory(prefix="clustercep-bench-") as folder:
        root = Path(folder)
        write_inputs(root / "all", max(1, n_files // 10), 1, 1)
        few = root / "few"
        n_bytes = chosen(root / "all", few, n_files)
        rows = [row_of(way, words, root, few, n_runs) | {"mb": round(n_bytes / 1e6, 1)} for way, words in WAYS.items()]
    columns = ("variant", "mb", "seconds", "cpu_seconds")
    show(f"{n_files} files into an empty store", columns, [[row[name] for name in columns] for row in rows])
    return {"rows": rows, "load": os.getloadavg()}


def chosen(everything: Path, few: Path, n_files: int) -> int:
    """Links to so many of the files, of both kinds in turn; returns their bytes."""
    histories, logs = (list(files_of(everything / name)) for name in ("jhist", "logs"))
    half = min(n_files // 2, len(logs))
    paths = [*logs[:half], *histories[: n_files - half]]
    for path in paths:
        target = few / path.relative_to(everything)
        target.parent.mkdir(parents=True, exist_ok=True)
        os.link(path, target)  # a symbolic one would be left to Spark
    return sum(path.stat().st_size for path in paths)


def row_of(way: str, words: tuple[str, ...], root: Path, few: Path, n_runs: int) -> dict[str, Any]:
    """Medians of a way."""
    walls, cpus = list[float](), list[float]()
    for run in range(n_runs):
        store = root / f"{way.replace(' ', '-')}-{run}"
        before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        command = [sys.executable, "-m", "spark_jobs.ingest.job", f"--store={store}", "--config=config.yaml", *words]
        subprocess.run([*command, str(few)], check=True, capture_output=True, timeout=LIMIT_S)
        walls.append(time.perf_counter() - started)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpus.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    medians = {"seconds": statistics.median(walls), "cpu_seconds": statistics.median(cpus)}
    return {"variant": way, "runs": n_runs} | {name: round(value, 2) for name, value in medians.items()}


if __name__ == "__main__":
    main()
