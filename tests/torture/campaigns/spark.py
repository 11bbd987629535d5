"""`kill -9` of driver, JVM and Python workers of jobs on Spark; two ingests at once; damaged stores and checkpoints; a
NameNode that is killed and started again.

Ingest and compaction share one event store that grows, the stream a folder of event files; what they end with is
compared with what a stream has that nobody disturbed, and with the histories that were there.
"""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.torture.campaign import Given, Verdict
from tests.torture.spark.damage import damage_all, damaged_checkpoint, damaged_store
from tests.torture.spark.hdfs import namenode_restarts, why_not
from tests.torture.spark.inputs import Histories, Waiting
from tests.torture.spark.lives import VICTIMS, Spark
from tests.torture.spark.tally import Tally, found_by

N_STREAM_FILES = 120
"""More than there are lives."""
LEAST_INGESTS = 2 * len(VICTIMS)
"""Rounds in which each victim is killed in an ingest and in a compaction."""


def run(given: Given) -> Verdict:
    """A quarter of the time each: ingest and compaction, the stream, the NameNode, damage."""
    if (missing := why_not()) is not None:
        return Verdict("nothing was tried", (missing,))
    started_s, quarter_s = time.monotonic(), given.minutes * 60 / 4
    tally, folder = Tally(), given.folder

    def drawing(part: str) -> Spark:
        """What a part draws does not depend on how much time others had."""
        return Spark(random.Random(f"{given.seed}/{part}"))

    store, files = folder / "store", Waiting(folder / "stream", N_STREAM_FILES)
    ingest(tally, drawing("ingest"), Histories(folder / "in"), store, until(started_s + quarter_s, LEAST_INGESTS))
    stream(tally, drawing("stream"), files, until(started_s + 2 * quarter_s, len(VICTIMS)))
    namenode_restarts(tally, drawing("hdfs"), folder / "hdfs", started_s + 3 * quarter_s, N_STREAM_FILES)
    damage(tally, drawing("damage"), folder, store, files, started_s + 4 * quarter_s)
    return Verdict(tally.figures(), tuple(tally.failures))


def until(end_s: float, least: int) -> Iterator[int]:
    """Rounds, as long as there is time, but at least so many."""
    for number in itertools.count():
        if number >= least and time.monotonic() >= end_s:
            return
        yield number


def ingest(tally: Tally, spark: Spark, histories: Histories, store: Path, rounds: Iterable[object]) -> None:
    """Ingests and compactions that are killed while the input grows; two at once; then the content."""
    words = histories.words(str(store))
    tally.succeeded("ingest", spark.whole(words["ingest"]))
    turns = list[tuple[str, str]]()
    for _ in rounds:
        turns = turns or in_any_order(spark.drawn, "ingest", "store")
        command, victim = turns.pop()
        histories.grow()
        tally.note(command, spark.killed(words[command], victim))
        tally.content("event store", store, histories.folder, whole=False)
    histories.grow()
    for life in spark.at_once([words["ingest"], words["ingest"]]):
        tally.succeeded("two ingests at once", life)
    tally.content("event store after two ingests at once", store, histories.folder, whole=True)
    tally.succeeded("store", spark.whole(words["store"]))
    tally.content("compacted event store", store, histories.folder, whole=True)


def stream(tally: Tally, spark: Spark, files: Waiting, rounds: Iterable[object]) -> None:
    """A stream that is killed again and again, one file more in each life; an undisturbed one beside it."""
    words = files.words("killed")
    tally.succeeded("stream", spark.whole(words))
    turns = list[tuple[str, str]]()
    for _ in rounds:
        tally.expect(files.grow(), "stream: no file is left")
        turns = turns or in_any_order(spark.drawn, "stream")
        command, victim = turns.pop()
        tally.note(command, spark.killed(words, victim))
    for own in (words, files.words("whole")):
        tally.succeeded("stream", spark.whole(own))
    tally.same("stream", *(found_by(files.folder / name) for name in ("killed", "whole")))


def damage(tally: Tally, spark: Spark, folder: Path, store: Path, files: Waiting, until_s: float) -> None:
    """What ingest and stream left, one damaged file at a time."""
    sorts = [*damaged_store(tally, spark, folder, store), *damaged_checkpoint(tally, spark, files, "whole")]
    damage_all(spark, sorts, until_s)


def in_any_order(drawn: random.Random, *commands: str) -> list[tuple[str, str]]:
    """Each command with each victim."""
    turns = [(command, victim) for command in commands for victim in VICTIMS]
    return drawn.sample(turns, len(turns))


__all__ = ["run"]
