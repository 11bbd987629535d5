"""Whether what a job is to read lies on this machine and is not there: told before Spark starts, which takes seconds.

Only absence is judged here. What is on another file system, or what Hadoop may read otherwise, is left to it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path

LOCAL = re.compile(r"file:(?://(?=/))?(?=/(?!/))")
"""Before the path of a file of this machine."""

_OTHER = re.compile(r"//|[^/]*:")
"""Begins a host or a scheme."""

_WILD = re.compile(r"[*?\[\]{}\\]")
_MORE_THAN_FNMATCH = re.compile(r"[\[\]{}\\]")
_TELLING = {"core-site.xml": b"fs.default", "spark-defaults.conf": b"fs.default", "spark-env.sh": b"_CONF_DIR"}
"""Files of a folder of Spark's configuration, and what stands in those that may name another file system."""
_DEFAULT_FILE_SYSTEM = frozenset({"spark.hadoop.fs.defaultFS", "spark.hadoop.fs.default.name"})


def may_be_elsewhere(master: str | None, conf: Mapping[str, str], environment: Mapping[str, str] | None = None) -> bool:
    """Whether Hadoop may read a path without a scheme on another file system than this machine's."""
    given = os.environ if environment is None else environment
    if master is not None and not master.startswith("local"):
        return True
    if not _DEFAULT_FILE_SYSTEM.isdisjoint(conf):
        return True
    if any(given.get(name) for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR", "PYSPARK_SUBMIT_ARGS")):
        return True
    if "PYSPARK_GATEWAY_PORT" in given:  # spark-submit has started us
        return True
    folders = [given.get("SPARK_CONF_DIR"), str(Path(given["SPARK_HOME"], "conf")) if "SPARK_HOME" in given else None]
    return any(_says(Path(folder, name), what) for folder in folders if folder for name, what in _TELLING.items())


def is_absent(path: str, *, only_named: bool = False) -> bool:
    """Whether a path, or a pattern of Hadoop's, is one of this machine and nothing has that name.

    only_named: a path without a scheme may be one of another file system (`may_be_elsewhere`).
    """
    local = LOCAL.match(path)
    if not path or (local is None and (only_named or _OTHER.match(path))):
        return False
    try:
        absolute = os.path.normpath(Path.cwd() / path[local.end() if local else 0 :])
        return not _is_there(absolute) and not _may_match(Path("/"), Path(absolute).parts[1:])
    except (OSError, ValueError):  # not ours to look at, or no name
        return False


def _says(file: Path, what: bytes) -> bool:
    try:
        return what in file.read_bytes()
    except OSError:  # there is none
        return False


def _is_there(path: str | Path) -> bool:
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def _may_match(folder: Path, names: tuple[str, ...]) -> bool:
    """Whether the rest of a pattern may have a match below the folder."""
    for index, name in enumerate(names):
        if _MORE_THAN_FNMATCH.search(name):
            return _is_there(folder)
        if _WILD.search(name):
            if not folder.is_dir():
                return False
            found = [entry for entry in folder.iterdir() if fnmatchcase(entry.name, name)]
            return any(_may_match(entry, names[index + 1 :]) for entry in found)
        folder /= name
    return _is_there(folder)


__all__ = ["LOCAL", "is_absent", "may_be_elsewhere"]
