"""A JVM that ends while a call into it waits: whatever the call then raises, it is told as what it is."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark import SparkContext
from pyspark.errors import PySparkException

from spark_jobs import interruption
from spark_jobs.session import SparkJobError
from spark_jobs.stream import job as stream_job

RAISED = [
    Py4JError("An error occurred while calling o1.sc"),
    Py4JNetworkError("Answer from Java side is empty"),
    ConnectionRefusedError(111, "Connection refused"),  # the answer was an error, and PySpark asks which one
    ConnectionResetError(104, "Connection reset by peer"),
    BrokenPipeError(32, "Broken pipe"),
]


class Ended:
    """Any object of a JVM that ends: each call raises the error."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def __getattr__(self, name: str) -> Any:
        def call(*_args: object) -> NoReturn:
            raise self._error

        return call


@pytest.mark.parametrize("error", RAISED, ids=repr)
def test_cancelling_is_silent(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[object] = []
    monkeypatch.setattr(threading, "excepthook", told.append)
    monkeypatch.setattr(SparkContext, "_active_spark_context", SimpleNamespace(_jsc=Ended(error)))
    interruption.cancel_jobs()
    assert told == []


@pytest.mark.parametrize("error", RAISED, ids=repr)
@pytest.mark.parametrize("is_asked_why", [False, True])
def test_a_stream_says_that_it_goes_on(error: Exception, is_asked_why: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    first = PySparkException("the stream stopped") if is_asked_why else error
    query = SimpleNamespace(awaitTermination=Ended(first).call, stop=Ended(error).call)
    job = SimpleNamespace(start=lambda _spark: query, options=SimpleNamespace(checkpoint="/c"))
    if is_asked_why:
        monkeypatch.setattr(stream_job, "reason_of", Ended(error).call)
    with pytest.raises(SparkJobError, match="Spark's own process has ended; the stream goes on from its checkpoint"):
        stream_job.run(job, None, threading.Event())  # type: ignore[arg-type]
