"""How far a job is, on a terminal: the tasks of its stages that run, as Spark counts them."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

_LOOK_EVERY_S = 0.5

Tell = Callable[[int, int], None]
"""Told how many tasks are done, and how many there are."""


@contextmanager
def progress_bar(spark: SparkSession, what: str) -> Iterator[None]:
    """Shows `what` with a bar on standard error while the block runs; nothing where that is no terminal."""
    if not sys.stderr.isatty():
        yield
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        bar = shown.add_task(what, total=None)
        with watched(spark, lambda n_done, n_all: shown.update(bar, total=n_all or None, completed=n_done)):
            yield


@contextmanager
def watched(spark: SparkSession, tell: Tell) -> Iterator[None]:
    """Tells of the tasks of the stages that run, whenever they have changed, while the block runs."""
    done = threading.Event()
    watcher = threading.Thread(target=_watch, args=(spark, tell, done), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()


def _watch(spark: SparkSession, tell: Tell, done: threading.Event) -> None:
    tracker = spark.sparkContext.statusTracker()
    told = (0, 0)
    while not done.wait(_LOOK_EVERY_S):
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        n_all = sum(stage.numTasks for stage in stages if stage)
        n_done = sum(stage.numCompletedTasks for stage in stages if stage)
        if (n_done, n_all) != told:
            told = (n_done, n_all)
            tell(*told)


__all__ = ["progress_bar", "watched"]
