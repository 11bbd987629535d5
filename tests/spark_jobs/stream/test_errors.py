"""What Spark says of failed streams, in the forms in which it was seen, as one line for an operator."""

from __future__ import annotations

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from spark_jobs.stream.errors import reason_of

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


class Failed(PySparkException):
    """With the JVM's stack, as the exceptions of Spark have it."""

    def __init__(self, said: str, trace: str) -> None:
        super().__init__(said)
        self._stackTrace = f"org.apache.spark.sql.streaming.StreamingQueryException: {trace}"


SPARK = "org.apache.spark.sql.execution.streaming"
OF_STACK = {
    "a commit with bytes that are no text": (
        f"Input length = 1\n{PLAN}\n\tat {SPARK}.runtime.StreamExecution.run(StreamExecution.scala:236)\n"
        "Caused by: java.nio.charset.MalformedInputException: Input length = 1\n"
        "\tat java.base/java.io.BufferedReader.readLine(BufferedReader.java:396)\n"
        f"\tat {SPARK}.checkpointing.CommitLog$.readCommitMetadata(CommitLog.scala:114)\n"
        f"\tat {SPARK}.runtime.MicroBatchExecution.initializeExecution(MicroBatchExecution.scala:551)",
        "file:///var/lib/stream/commits is damaged or missing "
        f"(java.nio.charset.MalformedInputException: Input length = 1): {REMEDY}",
    ),
    "a schema of the state that is cut": (
        "\nCaused by: java.io.EOFException\n\tat java.base/java.io.DataInputStream.readUTF(DataInputStream.java:558)\n"
        f"\tat {SPARK}.state.SchemaHelper$SchemaReader.$anonfun$readJsonSchema$1(SchemaHelper.scala:49)\n"
        f"\tat {SPARK}.runtime.MicroBatchExecution.runBatch(MicroBatchExecution.scala:1363)",
        f"file:///var/lib/stream/state is damaged or missing (java.io.EOFException): {REMEDY}",
    ),
    "an error of the JVM while the state is read": (
        f"\nCaused by: java.lang.OutOfMemoryError: Java heap space\n\tat {SPARK}.state.RocksDB.load(RocksDB.scala:9)",
        "[STREAM_FAILED] terminated with exception:  SQLSTATE: XXKST",
    ),
    "a function of ours": (
        "\nCaused by: org.apache.spark.api.python.PythonException: three\n"
        "\tat org.apache.spark.api.python.BasePythonRunner.read(PythonRunner.scala:500)\n"
        f"\tat {SPARK}.state.StateStoreRDD.compute(StateStoreRDD.scala:130)",
        "[STREAM_FAILED] terminated with exception:  SQLSTATE: XXKST",
    ),
    "a file system that does not answer": (
        f"\nCaused by: java.net.ConnectException: Connection refused\n\tat {SPARK}.checkpointing.CommitLog.add(",
        "file:///var/lib/stream: its file system does not answer (java.net.ConnectException: Connection refused): "
        "see to that",
    ),
    "a disk that is full": (
        f"\nCaused by: java.io.IOException: No space left on device\n\tat {SPARK}.checkpointing.CommitLog.add(",
        "file:///var/lib/stream: java.io.IOException: No space left on device: make room",
    ),
}


class NotOfSparkError(Py4JJavaError):
    """As py4j says exceptions that PySpark does not know."""

    def __init__(self, trace: str) -> None:
        self._trace = trace

    def __str__(self) -> str:
        return f"An error occurred while calling o877.start.\n: {self._trace}"


def test_metadata_that_are_cut() -> None:
    trace = (
        "com.fasterxml.jackson.core.io.JsonEOFException: Unexpected end-of-input\n at [Source: REDACTED; column: 23]\n"
        "\tat org.json4s.jackson.JsonMethods.parse(JsonMethods.scala:39)\n"
        f"\tat {SPARK}.runtime.StreamMetadata$.read(StreamMetadata.scala:60)"
    )
    assert reason_of(NotOfSparkError(trace), CHECKPOINT) == (
        "file:///var/lib/stream/metadata is damaged or missing (com.fasterxml.jackson.core.io.JsonEOFException: "
        f"Unexpected end-of-input): {REMEDY}"
    )
    assert reason_of(NotOfSparkError("java.lang.Exception: x\n\tat y"), CHECKPOINT) == "java.lang.Exception: x"


@pytest.mark.parametrize(("trace", "expected"), OF_STACK.values(), ids=OF_STACK)
def test_the_stack_tells_what_the_reason_does_not(trace: str, expected: str) -> None:
    said = f"[STREAM_FAILED] terminated with exception:  SQLSTATE: XXKST\n{PLAN}"
    assert reason_of(Failed(said, trace), CHECKPOINT) == expected


@pytest.mark.parametrize(("said", "expected"), SEEN.values(), ids=SEEN)
def test_one_line_with_the_place(said: str, expected: str) -> None:
    assert reason_of(PySparkException(said), CHECKPOINT) == expected
