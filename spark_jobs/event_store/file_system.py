"""The store's file operations: through Hadoop's FileSystem in the driver's JVM, so that any Hadoop URL works.

What `create_new` rests on, by file system:
- local: the whole text in a file of another name, synced, then a hard link, which fails when the name is taken;
- HDFS (also viewfs, webhdfs): the same with a rename that does not overwrite, one atomic operation of the NameNode;
- all others: `create` without overwriting. Object stores show a file when it is closed, and where the connector asks
  the store itself whether the name is free (abfs; gs; s3a from Hadoop 3.4.2 on, unless
  fs.s3a.create.conditional.enabled is off) there is exactly one winner. On a connector that only looks first, two
  writers need a lock of their own.
Everything else needs no more than that a file that was written can be read under its name.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import SparkSession

from app.event_store.errors import StoreError
from app.event_store.folder import rooted

_RENAMES_ATOMICALLY = frozenset({"hdfs", "viewfs", "webhdfs", "swebhdfs"})
_LINE = 300


@dataclass(frozen=True, slots=True)
class Listed:
    """A file in a folder of the store."""

    path: str
    """Below the store's root, with slashes."""
    n_bytes: int
    modified_ms: int

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]


class StoreFiles:
    """The folder of one store. Paths are relative to it; raises StoreError with the path and Hadoop's reason."""

    def __init__(self, spark: SparkSession, url: str) -> None:
        self.url = rooted(url)
        jvm: Any = spark._jvm
        self._jvm = jvm
        context: Any = spark.sparkContext
        self._gateway = context._gateway
        session: Any = spark._jsparkSession
        with _told("open", self.url):
            self._conf = session.sessionState().newHadoopConf()
            self._path: Any = jvm.org.apache.hadoop.fs.Path  # each name of it is a question to the JVM
            root: Any = self._path(self.url)
            self._fs: Any = root.getFileSystem(self._conf)
            self.scheme = str(self._fs.getUri().getScheme())
            self._prefix = str(self._fs.makeQualified(root).toString()).rstrip("/")

    def full(self, path: str) -> str:
        """The path with the store's URL before it."""
        return f"{self.url}/{path}" if path else self.url

    def exists(self, path: str) -> bool:
        """Whether there is a file or folder of this name."""
        with _told("look for", self.full(path)):
            return bool(self._fs.exists(self._at(path)))

    def names(self, folder: str) -> list[str]:
        """What stands directly in a folder, in order; an absent folder is empty."""
        with _told("list", self.full(folder)):
            if not self._fs.exists(self._at(folder)):
                return []
            return sorted(str(status.getPath().getName()) for status in self._fs.listStatus(self._at(folder)))

    def files(self, folder: str) -> list[Listed]:
        """All files below a folder, in order of their paths; an absent folder is empty."""
        with _told("list", self.full(folder)):
            if not self._fs.exists(self._at(folder)):
                return []
            found: list[Listed] = []
            statuses = self._fs.listFiles(self._at(folder), True)
            while statuses.hasNext():
                status = statuses.next()
                path = str(status.getPath().toString()).removeprefix(self._prefix).lstrip("/")
                found.append(Listed(path, int(status.getLen()), int(status.getModificationTime())))
        return sorted(found, key=lambda file: file.path)

    def size_bytes(self, path: str) -> int | None:
        """Length of a file; None when there is none of this name."""
        with _told("look for", self.full(path)):
            try:
                return int(self._fs.getFileStatus(self._at(path)).getLen())
            except Py4JJavaError as error:
                if _class_of(error) == "java.io.FileNotFoundException":
                    return None
                raise

    def read(self, path: str) -> bytes:
        """The whole content of a small file."""
        with _told("read", self.full(path)):
            stream = self._fs.open(self._at(path))
            try:
                return bytes(stream.readAllBytes())
            finally:
                stream.close()

    def create_new(self, path: str, content: bytes) -> bool:
        """Write a file that nobody has written yet: with all its content, or not at all. False: somebody was first."""
        if self.scheme == "file":
            return self._create_by_link(path, content)
        if self.scheme in _RENAMES_ATOMICALLY:
            return self._create_by_rename(path, content)
        with _told("write", self.full(path)):
            try:
                self._write(path, content)
            except Py4JJavaError as error:
                if _class_of(error).endswith("FileAlreadyExistsException") or self._is_taken(path, content):
                    return False
                raise
        return True

    def move(self, path: str, to: str) -> None:
        """Rename a file; the folders on the way are made."""
        with _told("move", self.full(path)):
            target = self._at(to)
            self._fs.mkdirs(target.getParent())
            if not self._fs.rename(self._at(path), target):
                raise StoreError(f"{self.full(path)} cannot be moved to {self.full(to)}; may the folder be written to?")
        if self.scheme == "file":
            sync(self._local(to))

    def make_folder(self, path: str) -> None:
        """With the folders above it."""
        with _told("make", self.full(path)):
            if not self._fs.mkdirs(self._at(path)):
                raise StoreError(f"{self.full(path)} cannot be made; may the folder above it be written to?")

    def remove(self, path: str) -> bool:
        """Remove a file, or a folder with all that is in it; False when it was not there."""
        with _told("remove", self.full(path)):
            return bool(self._fs.delete(self._at(path), True))

    def remove_empty_folders(self, folder: str, before_ms: int) -> None:
        """Folders directly in `folder`, last changed before a time, in which no file is."""
        with _told("list", self.full(folder)):
            if not self._fs.exists(self._at(folder)):
                return
            for status in self._fs.listStatus(self._at(folder)):
                path = f"{folder}/{status.getPath().getName()}"
                if status.isDirectory() and status.getModificationTime() < before_ms and not self.files(path):
                    self._fs.delete(status.getPath(), True)

    def sync_folder(self, path: str) -> None:
        """Names in a local folder survive a power cut; elsewhere the file system sees to that."""
        if self.scheme == "file":
            sync(self._local(path))

    def _create_by_link(self, path: str, content: bytes) -> bool:
        return create_by_link(self._local(path), content)

    def _create_by_rename(self, path: str, content: bytes) -> bool:
        folder, _, name = path.rpartition("/")
        part = f"{folder}/.{name}.{uuid.uuid4().hex}"
        with _told("write", self.full(path)):
            try:
                self._write(part, content)
                context = self._jvm.org.apache.hadoop.fs.FileContext.getFileContext(self._at("").toUri(), self._conf)
                no_options = self._gateway.new_array(self._jvm.org.apache.hadoop.fs.Options.Rename, 0)
                try:
                    context.rename(self._at(part), self._at(path), no_options)
                except Py4JJavaError as error:
                    if _class_of(error).endswith("FileAlreadyExistsException"):
                        return False
                    raise
            finally:
                self._fs.delete(self._at(part), False)
        return True

    def _write(self, path: str, content: bytes) -> None:
        stream = self._fs.create(self._at(path), False)
        try:
            stream.write(bytearray(content))
        finally:
            stream.close()

    def _is_taken(self, path: str, content: bytes) -> bool:
        """Whether the name belongs to somebody else's content: connectors have own exceptions for that."""
        return bool(self._fs.exists(self._at(path))) and self.read(path) != content

    def _at(self, path: str) -> Any:
        return self._path(f"{self._prefix}/{path}" if path else self._prefix)

    def _local(self, path: str) -> Path:
        return Path(str(self._at(path).toUri().getPath()))


@contextmanager
def _told(action: str, place: str) -> Iterator[None]:
    """Hadoop's exceptions as one line that names the place."""
    try:
        yield
    except Py4JJavaError as error:
        raise StoreError(f"{place}: cannot {action} it: {reason_of(error)}") from error
    except Py4JError as error:
        raise StoreError(f"{place}: cannot {action} it: {error}; has the Spark session ended?") from error


def reason_of(error: Py4JJavaError) -> str:
    """Class and first line of the innermost cause of a Java exception."""
    cause = error.java_exception
    while cause.getCause() is not None:
        cause = cause.getCause()
    message = str(cause.getMessage() or "").strip().partition("\n")[0]
    name = str(cause.getClass().getSimpleName())
    return f"{name}: {message[:_LINE]}" if message else name


def _class_of(error: Py4JJavaError) -> str:
    return str(error.java_exception.getClass().getName())


def create_by_link(target: Path, content: bytes) -> bool:
    """A local file with all its content, or none; False: the name is taken."""
    part = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
    try:
        part.parent.mkdir(parents=True, exist_ok=True)
        with part.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(part, target)
        except FileExistsError:
            return False
        sync(target.parent)
    except OSError as error:
        reason = error.strerror or str(error)
        raise StoreError(f"{target}: cannot be written: {reason}; nothing of it is visible") from None
    finally:
        part.unlink(missing_ok=True)
    return True


def sync(path: Path) -> None:
    """A file or folder survives a power cut from here on; raises StoreError."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise StoreError(f"{path}: cannot be synced to disk: {error.strerror or error}") from None
