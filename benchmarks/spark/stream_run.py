"""One run of a stream in a process of its own, as the benchmark's parent asks; what it did goes to standard output.

`python -m benchmarks.spark.stream_run` reads a `Run` as JSON from standard input. A line is printed when a micro-batch
is in the store, another one when all is done.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pyspark.sql.streaming.query import StreamingQuery

import engine
from app.config import load_settings
from app.live.assembly import checked_queries
from app.store.api import open_store
from spark_jobs.session import spark_session
from spark_jobs.stream.alerts import Written
from spark_jobs.stream.job import StreamJob, StreamOptions
from spark_jobs.stream.processor import CONF
from spark_jobs.stream.sources import FolderInput

ROOT = Path(__file__).parents[2]
IN, CHECKPOINT, FILE_OF = "in", "checkpoint", "file_of.npy"


@dataclass(frozen=True)
class Run:
    """What is asked of the process. The folder has the input, the checkpoint, the store, and which event is where."""

    folder: str
    n_buckets: int
    n_cores: int
    lateness_ms: int
    once: bool
    max_files: int | None = None
    trigger_ms: int = 0


class Printed:
    """For StreamJob.after: a line for each micro-batch that is in the store."""

    def __init__(self, file_of: np.ndarray[Any, np.dtype[np.int32]]) -> None:
        self._file_of = file_of
        self._begun_s = time.time()

    def __call__(self, written: Written) -> None:
        batch = written.batch
        called = [figures for figures in batch.buckets if "pid" in figures]
        say(
            kind="batch",
            batch=written.batch_id,
            at_s=time.time(),
            repeated=written.is_repeated,
            n_read=sum(n for (name, _, _), n in batch.counters.items() if name == "events"),
            n_late=len(batch.late),
            n_matches=len(batch.matches),
            told_by=sorted(Counter(self._last_file(row) for row in batch.matches if row.bindings).items()),
            state={f"{figures['group']}/{figures['bucket']}": figures["state_bytes"] for figures in called},
            written_bytes=sum(figures["written_bytes"] for figures in called),
            buckets_s=sum(figures["seconds"] for figures in called),
            store_s=written.seconds,
            n_buckets=len(called),
            n_restored=sum(bool(figures["restored"]) for figures in called),
        )

    def _last_file(self, row: engine.MatchRow) -> int:
        """The file that had the last of a match's events."""
        return max(int(self._file_of[int(event_id)]) for event_id in row.event_ids)


def say(**what: Any) -> None:
    """One line for the parent, at once."""
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def run_stream() -> None:
    """The process."""
    run = Run(**json.loads(sys.stdin.readline()))
    threading.Thread(target=_end_with_parent, daemon=True).start()
    folder = Path(run.folder)
    settings = load_settings(ROOT / "config.yaml", {})
    queries = checked_queries(settings)
    source = FolderInput(str(folder / IN), "parquet", max_files=run.max_files)
    options = StreamOptions(
        source,
        str(folder / CHECKPOINT),
        run.n_buckets,
        run.lateness_ms,
        idle_timeout_ms=None,
        trigger_ms=run.trigger_ms,
        once=run.once,
    )
    conf = {**CONF, "spark.driver.memory": "1g", "spark.sql.shuffle.partitions": str(run.n_buckets)}
    with (
        open_store(f"sqlite:///{folder / 'store.db'}") as store,
        spark_session("benchmark", f"local[{run.n_cores}]", conf) as spark,
    ):
        spark.sparkContext.setLogLevel("OFF")
        job = StreamJob(options, settings, queries, store, after=Printed(np.load(folder / FILE_OF)))
        query = job.start(spark)
        say(kind="started", at_s=time.time())
        query.awaitTermination()
        say(kind="done", at_s=time.time(), spark_ms=spark_ms(query))


def _end_with_parent() -> None:
    """However the benchmark ends: nothing goes on measuring for nobody."""
    sys.stdin.read()
    os.killpg(0, signal.SIGKILL)


def spark_ms(query: StreamingQuery) -> list[dict[str, Any]]:
    """What Spark says of where the time of its micro-batches went."""
    return [
        {"batch": progress.batchId, "n_rows": progress.numInputRows, **progress.durationMs}
        | {f"state_{name}": sum(getattr(s, name) for s in progress.stateOperators) for name in _STATE}
        for progress in query.recentProgress
    ]


_STATE = ("allUpdatesTimeMs", "commitTimeMs")


if __name__ == "__main__":
    run_stream()


__all__ = ["CHECKPOINT", "FILE_OF", "IN", "Run"]
