"""The Spark session of a job: on this machine, or on a cluster that a URL names."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from app.errors import AppError

LOCAL_MASTER = "local[*]"

_ALWAYS = {
    "spark.sql.session.timeZone": "UTC",  # dates of the store are those of UTC
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
_ON_THIS_MACHINE = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}


class SparkJobError(AppError):
    """A job that cannot be done as asked; says where, what was found, what was expected and what to do."""


@contextmanager
def spark_session(
    name: str, master: str | None = None, conf: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """A session for the time of a job; raises SparkJobError when it cannot be had.

    Without `master`: what spark-submit was given, else all cores of this machine. `conf`: settings that take the place
    of these here, by their Spark names.
    """
    builder = SparkSession.builder.appName(name)
    chosen = dict(_ALWAYS)
    if master is None or master.startswith("local"):
        chosen |= _ON_THIS_MACHINE
        # Else the workers are whatever `python3` is on the path, without this program's packages.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    for key, value in {**chosen, **(conf or {})}.items():
        builder = builder.config(key, value)
    if master is not None:
        builder = builder.master(master)
    try:
        spark = builder.getOrCreate()
    except (PySparkException, RuntimeError) as error:
        raise SparkJobError(f"Spark did not start on {master or LOCAL_MASTER}: {error}") from error
    try:
        yield spark
    finally:
        spark.stop()
