"""What Hadoop's FileSystem says of many files, for a few calls into the JVM instead of several for each file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

_BETWEEN = "\0"
"""Which no name of a file has."""


@dataclass(frozen=True, slots=True)
class ListedFile:
    """A file as the file system lists it."""

    url: str
    n_bytes: int


class FileStatuses:
    """Lists of Hadoop's FileStatus that stay in the JVM, where all of a list are asked together.

    A call into the JVM takes a tenth of a millisecond and more, which for folders of a hundred thousand histories adds
    up to minutes. So methods are made objects that Java's own lists apply to each of their elements.
    """

    def __init__(self, spark: SparkSession) -> None:
        jvm: Any = spark.sparkContext._jvm
        self._jvm = jvm
        gateway: Any = spark.sparkContext._gateway
        self._no_paths = gateway.new_array(jvm.org.apache.hadoop.fs.Path, 0)
        self._no_classes = gateway.new_array(jvm.java.lang.Class, 0)
        self._class: Any = jvm.java.lang.Class.forName
        self._list: Any = jvm.java.util.ArrayList
        self._join: Any = jvm.java.lang.String.join
        path, length = self._getter("getPath"), self._getter("getLen")
        self._path = self._as("function.UnaryOperator", path)
        self._url = self._as("function.UnaryOperator", self._text_of(path))
        self._length = self._as("function.UnaryOperator", self._text_of(length))
        self._is_file, self._is_folder, self._is_link = (
            self._as("function.Predicate", self._getter(name)) for name in ("isFile", "isDirectory", "isSymlink")
        )
        # Py4J finds no method that takes an array of any objects.
        methods, array = self._handles(), self._class("[Ljava.lang.Object;")
        as_list = methods.findStatic(self._class("java.util.Arrays"), "asList", self._kind("java.util.List", array))
        of_list = self._kind("[Ljava.lang.Object;", array)
        as_array = methods.findVirtual(self._class("java.util.ArrayList"), "toArray", of_list)
        self._as_list = self._as("function.Function", as_list.asFixedArity())
        self._as_array = self._as("function.BiFunction", as_array)

    def of(self, *elements: Any) -> Any:
        """A list of statuses, or of paths."""
        found = self._list()
        for element in elements:
            found.add(element)
        return found

    def add(self, statuses: Any, more: Any) -> bool:
        """Put an array of statuses, or None, behind those of a list; whether there were any."""
        return more is not None and bool(statuses.addAll(self._as_list.apply(more)))

    def urls(self, statuses: Any) -> list[str]:
        """What they are called."""
        return self._texts(statuses, self._url)

    def files(self, statuses: Any) -> list[ListedFile]:
        """Those that are files."""
        files = self._list(statuses)
        files.removeIf(self._is_folder)
        files.removeIf(self._is_link)
        return [
            ListedFile(url, int(n_bytes))
            for url, n_bytes in zip(self._texts(files, self._url), self._texts(files, self._length), strict=True)
        ]

    def folders(self, statuses: Any, *, links: bool) -> Any:
        """The paths of those that are folders, a list; `links`: and of those that lead to something."""
        folders = self._list(statuses)
        folders.removeIf(self._is_file)
        if not links:
            folders.removeIf(self._is_link)
        folders.replaceAll(self._path)
        return folders

    def below(self, system: Any, folders: Any) -> Any:
        """What is in all of the folders; raises Py4JJavaError where one of them cannot be listed."""
        return self._list(self._as_list.apply(system.listStatus(self._as_array.apply(folders, self._no_paths))))

    def _texts(self, statuses: Any, getter: Any) -> list[str]:
        if statuses.isEmpty():
            return []
        answers = self._list(statuses)
        answers.replaceAll(getter)
        return str(self._join(_BETWEEN, answers)).split(_BETWEEN)

    # ---- methods as objects: java.lang.invoke ----

    def _as(self, interface: str, handle: Any) -> Any:
        proxies = self._jvm.java.lang.invoke.MethodHandleProxies
        return proxies.asInterfaceInstance(self._class(f"java.util.{interface}"), handle)

    def _getter(self, name: str) -> Any:
        method = self._class("org.apache.hadoop.fs.FileStatus").getMethod(name, self._no_classes)
        return self._handles().unreflect(method)

    def _text_of(self, getter: Any) -> Any:
        """String.valueOf what it gets."""
        anything = self._class("java.lang.Object")
        value_of = self._handles().findStatic(
            self._class("java.lang.String"), "valueOf", self._kind("java.lang.String", anything)
        )
        got = getter.asType(getter.type().changeReturnType(anything))
        return self._jvm.java.lang.invoke.MethodHandles.filterReturnValue(got, value_of)

    def _kind(self, returned: str, taken: Any) -> Any:
        return self._jvm.java.lang.invoke.MethodType.methodType(self._class(returned), taken)

    def _handles(self) -> Any:
        return self._jvm.java.lang.invoke.MethodHandles.publicLookup()


__all__ = ["FileStatuses", "ListedFile"]
