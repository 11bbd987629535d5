"""Small text files on any Hadoop file system, through the driver's JVM."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from spark_jobs.session import SparkJobError


class HadoopFiles:
    """Files below one URL; a plain path is one of this machine."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        self._jvm: Any = spark._jvm
        self._root = root
        with _told(root):
            self._fs = self._path("").getFileSystem(spark._jsc.hadoopConfiguration())

    @property
    def root(self) -> str:
        """The URL with its scheme."""
        return str(self._fs.makeQualified(self._path("")).toString())

    def url(self, name: str) -> str:
        """Of a file or folder below."""
        return f"{self.root}/{name}"

    def make(self, name: str = "") -> str:
        """Make a folder, if it is not there; returns its URL."""
        with _told(name or self._root):
            self._fs.mkdirs(self._path(name))
        return self.url(name) if name else self.root

    def names(self, folder: str) -> list[str]:
        """What is in a folder, in order of name; nothing when there is no such folder."""
        with _told(folder):
            if not self._fs.exists(self._path(folder)):
                return []
            return sorted(str(status.getPath().getName()) for status in self._fs.listStatus(self._path(folder)))

    def read(self, name: str) -> str | None:
        """The text of a file, None without one."""
        path = self._path(name)
        with _told(name):
            if not self._fs.exists(path):
                return None
            stream = self._fs.open(path)
            try:
                data = self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream)
            finally:
                stream.close()
        return bytes(data).decode()

    def write(self, name: str, text: str) -> None:
        """Replace a file by one with this text, whole at once."""
        folder, _, last = name.rpartition("/")
        part = self._path(f"{folder}/.{last}.part" if folder else f".{last}.part")
        with _told(name):
            stream = self._fs.create(part, True)
            try:
                stream.write(bytearray(text.encode()))
            finally:
                stream.close()
            target = self._path(name)
            if not self._fs.rename(part, target):  # some file systems rename over a file, some refuse
                self._fs.delete(target, False)
                if not self._fs.rename(part, target):
                    raise SparkJobError(f"{self.url(name)} cannot be written; expected a folder that can be written")

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(f"{self._root}/{name}" if name else self._root)


@contextmanager
def _told(what: str) -> Iterator[None]:
    try:
        yield
    except Py4JJavaError as error:
        reason = str(error.java_exception.getMessage()).split("\n", 1)[0]
        raise SparkJobError(f"{what}: {reason}; expected a place that can be read and written") from error


__all__ = ["HadoopFiles"]
