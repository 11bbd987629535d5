"""Where a report goes: a local folder, or any file system that Hadoop knows. See app.reports.folder for the layout."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from app.reports.folder import LATEST, RUNS, latest_text, removable, run_name, write_tables
from spark_jobs.session import SparkJobError

N_RUNS_KEPT = 3


def publish(
    spark: SparkSession, target: str, report: str, tables: Mapping[str, pa.Table], summary: Mapping[str, Any]
) -> str:
    """Write a run of a report below `target` (a path, or a URL) and make it the latest; returns where it is.

    Before the last step, one rename, nothing of it counts. The driver writes: reports are small, and a local folder is
    the driver's, wherever executors run. Raises SparkJobError when it cannot be written.
    """
    run = run_name(int(summary["made_ms"]), secrets.token_hex(4))
    folder = local_folder(target)
    try:
        if folder is not None:
            return str(_publish_locally(folder / report, run, report, dict(tables), dict(summary)))
        with tempfile.TemporaryDirectory(prefix="clustercep-report-") as made:
            write_tables(Path(made) / run, report, dict(tables), dict(summary))
            return _publish_by_hadoop(spark, f"{target.rstrip('/')}/{report}", run, Path(made))
    except (OSError, Py4JJavaError) as error:
        reason = error.java_exception.toString() if isinstance(error, Py4JJavaError) else str(error)
        raise SparkJobError(
            f"{target}: the report {report} cannot be written: {reason}; the one before still counts. Make room or "
            "name another place with --out"
        ) from error


def local_folder(target: str) -> Path | None:
    """The folder that a path or a file: URL names; None for what only Hadoop can reach."""
    parts = urlsplit(target)
    if parts.scheme == "file":
        return Path(unquote(parts.path))
    return None if "://" in target else Path(target)


def _publish_locally(folder: Path, run: str, report: str, tables: dict[str, pa.Table], summary: dict[str, Any]) -> Path:
    place = folder / RUNS / run
    try:
        write_tables(place, report, tables, summary)
        new = folder / f"{LATEST}.{run}"
        new.write_text(latest_text(run), encoding="utf-8")
        os.replace(new, folder / LATEST)  # noqa: PTH105 - the word for what happens
    except OSError:
        shutil.rmtree(place, ignore_errors=True)
        raise
    for old in removable([path.name for path in (folder / RUNS).iterdir()], N_RUNS_KEPT):
        shutil.rmtree(folder / RUNS / old, ignore_errors=True)
    return place


def _publish_by_hadoop(spark: SparkSession, folder: str, run: str, made: Path) -> str:
    hadoop = spark._jvm.org.apache.hadoop.fs  # type: ignore[union-attr]
    context = spark._jsc.hadoopConfiguration()
    place = hadoop.Path(f"{folder}/{RUNS}/{run}")
    files = place.getFileSystem(context)
    files.mkdirs(place.getParent())
    files.copyFromLocalFile(False, True, hadoop.Path((made / run).as_uri()), place)
    (made / LATEST).write_text(latest_text(run), encoding="utf-8")
    new = hadoop.Path(f"{folder}/{LATEST}.{run}")
    files.copyFromLocalFile(False, True, hadoop.Path((made / LATEST).as_uri()), new)
    overwrite = spark.sparkContext._gateway.new_array(hadoop.Options.Rename, 1)  # type: ignore[union-attr]
    overwrite[0] = hadoop.Options.Rename.OVERWRITE
    # A FileContext knows no default authority: hdfs:///... is made complete by its file system.
    latest = files.makeQualified(hadoop.Path(f"{folder}/{LATEST}"))
    hadoop.FileContext.getFileContext(files.getUri(), context).rename(files.makeQualified(new), latest, overwrite)
    names = [status.getPath().getName() for status in files.listStatus(place.getParent())]
    for old in removable(names, N_RUNS_KEPT):
        files.delete(hadoop.Path(f"{folder}/{RUNS}/{old}"), True)
    return str(place)
