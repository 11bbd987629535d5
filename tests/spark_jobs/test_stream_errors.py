"""What Spark says of failed streams, in the forms in which it was seen, as one line for an operator."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException

from spark_jobs.stream_errors import reason_of

CHECKPOINT = "file:///var/lib/stream"
PLAN = "=== Streaming Query ===\ncheckpointLocation=file:///var/lib/stream\n+- Source[file:/var/lib/stream/heartbeats]"
REMEDY = (
    "restore the checkpoint from a backup, or name a new checkpoint folder: alerts keep their ids, matches are counted "
    "again"
)
SEEN = {
    "a file of the input": (
        "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file file:///in/0001.parquet. \n at x",
        "file:///in/0001.parquet cannot be read (NO_HINT): put a whole file in its place, or leave such files out with "
        "--skip-damaged",
    ),
    "state without a name": (
        "[STREAM_FAILED] terminated with exception: Traceback (most recent call last):\n"
        "py4j.protocol.Py4JJavaError: An error occurred while calling o912.getResult.\n"
        "Caused by: org.apache.spark.SparkException: [CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error occurred during "
        f"loading state.  SQLSTATE: 58030\nCaused by: java.lang.NullPointerException\n{PLAN}",
        f"file:///var/lib/stream/state is damaged or missing (java.lang.NullPointerException): {REMEDY}",
    ),
    "a file of the checkpoint": (
        "[STREAM_FAILED] terminated\nCaused by: java.io.FileNotFoundException: File "
        f"file:/var/lib/stream/state/0/0/3.changelog does not exist\n{PLAN}",
        "/var/lib/stream/state/0/0/3.changelog is damaged or missing (java.io.FileNotFoundException: File "
        f"file:/var/lib/stream/state/0/0/3.changelog does not exist): {REMEDY}",
    ),
    "a file of the checkpoint that is there already": (
        "[STREAM_FAILED] Query terminated with exception: Multiple streaming queries are concurrently using "
        f"file:/var/lib/stream/commits. SQLSTATE: XXKST\n{PLAN}",
        "/var/lib/stream/commits: another stream goes on from this checkpoint, or its files were replaced: "
        f"let one stream use it; if there is no other, {REMEDY}",
    ),
    "something else": (f"[STREAM_FAILED] x\nValueError: three\n{PLAN}", "ValueError: three"),
}


@pytest.mark.parametrize(("said", "expected"), SEEN.values(), ids=SEEN)
def test_one_line_with_the_place(said: str, expected: str) -> None:
    assert reason_of(PySparkException(said), CHECKPOINT) == expected
