"""Jobs on Spark whose processes are ended in the middle: signals to commands, and a stream that is killed with -9.

`tests/spark_jobs` tries one command every day, and the stream's repeated micro-batches by exceptions.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

from pyspark.sql import SparkSession

from spark_jobs.stream.rows import match_of
from tests.spark_jobs.conftest import spark
from tests.spark_jobs.generated_stream import drawn, told_rows, write_input
from tests.spark_jobs.parity import engine_rows
from tests.spark_jobs.stream.test_parity import NAME, compare_stream
from tests.spark_jobs.stream_fixtures import ROOT
from tests.spark_jobs.test_interruption import cancel_jobs

__all__ = ["spark"]  # a fixture

KILLED_AT = 1
"""The micro-batch."""


def test_a_signal_cancels_each_job(spark: SparkSession, tmp_path: Path) -> None:
    cancel_jobs(spark, tmp_path, {"ingest": signal.SIGINT, "query": signal.SIGTERM, "compact": signal.SIGINT})


def test_the_stream_killed_in_the_middle(spark: SparkSession, tmp_path: Path) -> None:
    """Between the transaction of a micro-batch and Spark's record of it: the micro-batch is made once more."""
    several = drawn()
    live = {own.name: engine_rows(own.query, own.stream) for own in several}
    late = write_input(tmp_path, several, seed=5)
    words = [sys.executable, "-m", "tests.spark_jobs.killed_stream", str(tmp_path), NAME, str(KILLED_AT)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr[-2000:]
    *before, killed = (
        [match_of(*json.loads(line)) for line in told_rows(tmp_path, batch_id).read_text().splitlines()]
        for batch_id in range(KILLED_AT + 1)
    )
    told = compare_stream(spark, several, live, tmp_path, late, before=[row for rows in before for row in rows])
    assert [written.is_repeated for written in told][:2] == [True, False], "the one whose transaction was made"
    again = Counter(row.event_ids for row in told[0].batch.matches)
    assert Counter(row.event_ids for row in killed) == again
