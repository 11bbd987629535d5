"""The files below what was asked for, through Hadoop's FileSystem: any URL that it knows, folders with all below."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePosixPath
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spark_jobs.file_statuses import FileStatuses, ListedFile
from spark_jobs.local_paths import is_absent
from spark_jobs.session import SparkJobError

MAX_DEPTH = 64

_FILE_SYSTEM = re.compile(r"([A-Za-z][\w+.-]*:)?(//[^/]*)?")

JAVA_ERRORS = (Py4JJavaError, PySparkException)
"""What a call into the JVM raises: some of Java's exceptions come as PySpark's own."""


@dataclass(frozen=True)
class Listing:
    """What is below the paths."""

    roots: tuple[str, ...]
    """The paths as URLs."""
    files: tuple[ListedFile, ...]
    """In the order of their URLs, each once."""
    unreadable: tuple[tuple[str, str], ...]
    """(URL of a folder that could not be listed, why)."""


def list_files(spark: SparkSession, paths: Sequence[str]) -> Listing:
    """All files of the paths and below; raises SparkJobError for a path that is not there or cannot be looked at.

    A path may have Hadoop's wild cards (`hdfs://host/logs/2024-*`) where no file has that very name.
    """
    jvm: Any = spark.sparkContext._jvm
    path_of = jvm.org.apache.hadoop.fs.Path
    conf = spark.sparkContext._jsc.hadoopConfiguration()
    statuses = FileStatuses(spark)
    systems: dict[str, tuple[Any, Any]] = {}
    for text in paths:
        try:
            path, at = path_of(text), _FILE_SYSTEM.match(text)[0]  # type: ignore[index]  # it matches every text
            if at not in systems:
                systems[at] = path.getFileSystem(conf), statuses.of()
            system, named = systems[at]
            if system.exists(path):
                named.add(system.getFileStatus(path))
            elif not statuses.add(named, system.globStatus(path)):
                raise not_there(text)
        except JAVA_ERRORS as error:
            raise SparkJobError(f"{text}: {reason_of(error)}; expected a file, a folder or a URL of one") from error
    roots: list[str] = []
    found: dict[str, ListedFile] = {}
    unreadable: list[tuple[str, str]] = []
    for system, named in systems.values():
        roots.extend(statuses.urls(named))
        found.update((file.url, file) for file in _below(statuses, system, named, unreadable))
    files = tuple(found[url] for url in sorted(found))
    return Listing(tuple(dict.fromkeys(roots)), files, tuple(unreadable))


def check_local(paths: Sequence[str], *, only_named: bool = False) -> None:
    """As `list_files` raises for a path that is not there, without Spark, for those of this machine.

    only_named: as `local_paths.is_absent`.
    """
    for text in paths:
        if is_absent(text, only_named=only_named):
            raise not_there(text)


def not_there(path: str) -> SparkJobError:
    """What is said of a path where nothing is."""
    return SparkJobError(f"{path}: not there; expected a file, a folder or a URL that Hadoop can open")


def reason_of(error: Py4JJavaError | PySparkException) -> str:
    """Why Java could not do it, in its own words, in one line."""
    if isinstance(error, PySparkException):
        return (error.getMessage() or str(error)).splitlines()[0]
    text = str(error.java_exception.getMessage() or error.java_exception.toString())
    return text.splitlines()[0]


def shown(url: str) -> str:
    """A URL as people write it: files of this machine without "file:"."""
    path = url.removeprefix("file:")
    return url if path == url else "/" + path.lstrip("/")


def parts_below(url: str, roots: Sequence[str]) -> tuple[str, ...]:
    """Names of a file's folders below the root that it is in, and its own.

    Of a root that is a file itself its two last folders are given, of an RRD all from gmetad's `rrds` on.
    """
    of_file = PurePosixPath(url).parts
    if url.endswith(".rrd") and "rrds" in of_file[:-1]:
        return of_file[of_file.index("rrds") :]
    of_roots = _parts_of(tuple(roots))
    n_above = next((n for n in range(len(of_file), 0, -1) if of_file[:n] in of_roots), 0)
    return of_file[n_above:] if len(of_file) > n_above else of_file[-3:]


@lru_cache(maxsize=4)
def _parts_of(roots: tuple[str, ...]) -> frozenset[tuple[str, ...]]:
    return frozenset(PurePosixPath(root).parts for root in roots)


def _below(statuses: FileStatuses, system: Any, level: Any, unreadable: list[tuple[str, str]]) -> Iterator[ListedFile]:
    """The files among these statuses, and those of the folders and below, level by level."""
    for depth in range(MAX_DEPTH + 1):
        yield from statuses.files(level)
        folders = statuses.folders(level, links=depth == 0)
        if folders.isEmpty():
            return
        if depth == MAX_DEPTH:
            unreadable.extend((folder.toString(), f"more than {MAX_DEPTH} folders deep") for folder in folders)
            return
        try:
            level = statuses.below(system, folders)
        except JAVA_ERRORS:  # which of them it is, is not said
            level = _readable(statuses, system, folders, unreadable)


def _readable(statuses: FileStatuses, system: Any, folders: Any, unreadable: list[tuple[str, str]]) -> Any:
    """What is in those of the folders that can be listed."""
    found = statuses.of()
    for folder in folders:
        try:
            found.addAll(statuses.below(system, statuses.of(folder)))
        except JAVA_ERRORS as error:
            unreadable.append((folder.toString(), reason_of(error)))
    return found


__all__ = ["Listing", "check_local", "list_files", "not_there", "parts_below", "reason_of", "shown"]
