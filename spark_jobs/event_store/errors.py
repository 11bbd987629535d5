"""What Spark's exceptions mean for a user: one line with the file, what was found and what to do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from app.event_store.errors import StoreError
from spark_jobs.event_store.file_system import reason_of

_FILE = re.compile(r"data/date=[^/\s]+/type=[^/\s]+/[^/\s]+\.parquet")
_LINE = 400
_FULL = (
    "No space left on device",
    "Disk quota exceeded",
    "File too large",
    "DSQuotaExceededException",
    "could only be written to 0 of",
)
OUT_OF_REACH = re.compile(
    r"(?:Connect|ConnectTimeout|SocketTimeout|NoRouteToHost|UnknownHost|SafeMode|Standby|Retriable)Exception"
    r"|Name node is in safe mode|End of File Exception between|Failed on local exception|Connection re(?:set|fused)"
    r"|Could not obtain block|Filesystem closed"
)
"""So Hadoop's clients say that a file system does not answer now, or not as it should."""
_DAMAGED = (
    "is not a Parquet file",
    "ParquetDecodingException",
    "CANNOT_READ_FILE",
    "FAILED_READ_FILE",
    "PATH_NOT_FOUND",
)


@contextmanager
def job_errors(place: str) -> Iterator[None]:
    """Spark's failures as StoreError: `place` says what was being done where."""
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        raise StoreError(f"{place}: {explained(error)}") from error


def explained(error: PySparkException | Py4JJavaError) -> str:
    """The innermost reason, the file it names, and the remedy where there is one."""
    text = str(error)
    reason = reason_of(error) if isinstance(error, Py4JJavaError) else _first_line(text)
    damaged = _FILE.search(text)
    if any(mark in text for mark in _FULL):
        full = next(mark for mark in _FULL if mark in text)
        return f"{full}; nothing of it is visible; make room and do it again"
    if OUT_OF_REACH.search(text) or OUT_OF_REACH.search(getattr(error, "_stackTrace", None) or ""):
        return f"its file system does not answer ({reason}); nothing is lost; do it again when it does"
    if damaged is not None and any(mark in text for mark in _DAMAGED):
        name = damaged[0]
        return f"{name} is damaged or missing ({reason}); restore it from a backup"
    return reason


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0][:_LINE]
