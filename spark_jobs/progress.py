"""How far a job is, on a terminal: the tasks of its stages that run, as Spark counts them."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

_LOOK_EVERY_S = 0.5


@contextmanager
def progress_bar(spark: SparkSession, what: str) -> Iterator[None]:
    """Shows `what` with a bar on standard error while the block runs; nothing where that is no terminal."""
    if not sys.stderr.isatty():
        yield
        return
    done = threading.Event()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        watcher = threading.Thread(target=_watch, args=(spark, what, shown, done), daemon=True)
        watcher.start()
        try:
            yield
        finally:
            done.set()
            watcher.join()


def _watch(spark: SparkSession, what: str, shown: Progress, done: threading.Event) -> None:
    tracker = spark.sparkContext.statusTracker()
    bar = shown.add_task(what, total=None)
    while not done.wait(_LOOK_EVERY_S):
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        n_all = sum(stage.numTasks for stage in stages if stage)
        n_done = sum(stage.numCompletedTasks for stage in stages if stage)
        shown.update(bar, total=n_all or None, completed=n_done)


__all__ = ["progress_bar"]
