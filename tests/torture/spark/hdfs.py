"""A NameNode that is killed and started again while event store or checkpoint are in its HDFS."""

from __future__ import annotations

import dataclasses
import shutil
import time
from pathlib import Path

from deploy.minicluster import settings
from deploy.minicluster.cluster import find_java
from deploy.minicluster.errors import StartError
from deploy.minicluster.hdfs import Hdfs
from tests.torture.spark.inputs import Histories, Waiting
from tests.torture.spark.lives import ROOT, Life, Spark
from tests.torture.spark.tally import Tally, found_by

INSTALL = "deploy/minicluster/install.sh"
MOST_AWAY_S = 15.0
"""Beside the time of its start: Hadoop's clients try to connect for ten seconds."""
MOST_FILES = 3
"""New ones of the stream in a life."""
STORE, CHECKPOINT = "/store", "/checkpoint"


def why_not() -> str | None:
    """Why there can be no HDFS here, with the command that installs it; None: it is there."""
    library = ROOT / settings.load().library_dir
    try:
        find_java()
    except StartError as error:
        return f"Hadoop is not installed: {error}; run {INSTALL}"
    if not list(library.glob("hadoop-common-*.jar")):
        return f"Hadoop is not installed: no jars in {library}; run {INSTALL}"
    return None


def namenode_restarts(tally: Tally, spark: Spark, folder: Path, until_s: float, n_stream_files: int) -> None:
    """Ingests, compactions and a stream, each with a restart; then what they stored is compared."""
    shipped = settings.load()
    work = dataclasses.replace(shipped, work_dir=folder / "work", library_dir=ROOT / shipped.library_dir)
    with Hdfs(work) as hdfs:
        restarts = _Restarts(tally, spark, hdfs, folder)
        histories, files = Histories(folder / "in"), Waiting(folder / "stream", n_stream_files)
        words = histories.words(f"{hdfs.url}{STORE}")
        words["stream"] = files.words("restarted", f"--checkpoint={hdfs.url}{CHECKPOINT}")
        for command, own in words.items():
            tally.succeeded(command, spark.whole(own))
        turns = list[str]()
        while time.monotonic() < until_s or not tally.restarts.keys() >= {"ingest", "stream"}:
            turns = turns or spark.drawn.sample(["ingest", "stream", "store", "ingest", "stream"], 5)
            command = turns.pop()
            if command == "stream" and not files.grow(spark.drawn.randint(1, MOST_FILES)):
                break
            if command != "stream":
                histories.grow()
            restarts.during(command, words[command])
            if command != "stream":
                restarts.content(histories.folder, whole=False)
        for command in ("ingest", "store", "stream"):
            tally.succeeded(command, spark.whole(words[command]))
        restarts.content(histories.folder, whole=True)
    tally.succeeded("stream", spark.whole(files.words("whole")))
    found, expected = (found_by(files.folder / name) for name in ("restarted", "whole"))
    tally.same("stream from a checkpoint on HDFS", found, expected)


@dataclasses.dataclass
class _Restarts:
    """Of one NameNode."""

    tally: Tally
    spark: Spark
    hdfs: Hdfs
    folder: Path

    def during(self, command: str, words: list[str]) -> None:
        """A command and a restart; it succeeds, or says what is out of reach."""
        away_s = self.spark.drawn.uniform(0, MOST_AWAY_S)

        def restart() -> None:
            self.hdfs.kill_namenode()
            time.sleep(away_s)
            self.hdfs.start_namenode()

        life, is_done = self.spark.disturbed(words, restart)
        if not is_done:
            self.tally.whole += 1
            self.tally.succeeded(command, life)
            return
        self.tally.restarts[command] += 1
        if life.code:
            self.tally.ended += 1
            self._is_told(command, life)

    def _is_told(self, command: str, life: Life) -> None:
        place = self.hdfs.url.partition("://")[2]
        said = f"{command}, NameNode restarted: {life.told[-600:].strip()}"
        self.tally.expect(place in life.told, f"the message does not name it: {said}")
        self.tally.expect("damaged" not in life.told, f"what is out of reach is not damaged: {said}")
        self.tally.expect("Traceback" not in life.told, f"a traceback: {said}")

    def content(self, source: Path, *, whole: bool) -> None:
        """Of the event store, as Hadoop's shell copies it: only what is closed, for it cannot read what is not."""
        copy = self.folder / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        copy.mkdir()
        (copy / "_commits").mkdir()
        self.hdfs.copy_out(f"{STORE}/data", copy)
        self.hdfs.copy_out(f"{STORE}/_commits/0*", copy / "_commits")
        self.tally.content("event store on HDFS", copy, source, whole=whole)
