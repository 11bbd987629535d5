"""What Spark says of a store's file that could not be read, as one line for an operator."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException

from spark_jobs.event_store.errors import explained

FILE = "data/date=2026-11-01/type=Mapper/0a.parquet"
UNREAD = f"[FAILED_READ_FILE.NO_HINT] Encountered error while reading file hdfs://m:8020/store/{FILE}."


class Failed(PySparkException):
    """With the JVM's stack, as the exceptions of Spark have it."""

    def __init__(self, trace: str) -> None:
        super().__init__(UNREAD)
        self._stackTrace = trace


@pytest.mark.parametrize(
    ("trace", "begins"),
    [
        ("Caused by: java.io.IOException: expected magic number at tail", f"{FILE} is damaged or missing ("),
        ("Caused by: java.net.ConnectException: Connection refused", "its file system does not answer ("),
        ("Caused by: RemoteException: Zero blocklocations. Name node is in safe mode.", "its file system does not"),
    ],
)
def test_what_is_out_of_reach_is_not_damaged(trace: str, begins: str) -> None:
    assert explained(Failed(trace)).startswith(begins)
