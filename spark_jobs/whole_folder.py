"""A folder of output on any Hadoop file system: it is there with all its files, or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from spark_jobs.jvm_errors import JVM_ENDED
from spark_jobs.session import SparkJobError


@contextmanager
def whole_folder(spark: SparkSession, url: str, unique: str) -> Iterator[str]:
    """The URL of a folder to write to, which becomes `url` when the block ends well, and is deleted otherwise.

    `unique`: part of its name. Raises SparkJobError when there is something at `url`, or it cannot be written.
    """
    jvm: Any = spark._jvm
    final = jvm.org.apache.hadoop.fs.Path(url)
    unfinished = jvm.org.apache.hadoop.fs.Path(final.getParent() or ".", f".{final.getName()}.{unique}")
    try:
        fs = final.getFileSystem(spark._jsc.hadoopConfiguration())
        is_there = fs.exists(final)
    except Py4JJavaError as error:
        raise SparkJobError(f"{url}: {error.java_exception.toString()}; expected a folder to write to") from error
    if is_there:
        raise SparkJobError(f"{url} is there already; name a new folder with --out")
    try:
        yield str(fs.makeQualified(unfinished).toString())
        if not fs.rename(unfinished, final):
            raise SparkJobError(f"{url} cannot be written; expected a folder that can be made")
    except BaseException:
        with suppress(*JVM_ENDED):
            fs.delete(unfinished, True)
        raise


__all__ = ["whole_folder"]
