"""Looking through folders that other programs write to: bounded, in a fixed order, never following folder links."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from collectors.base import ProblemLog, SourceUnavailableError

CHUNK_BYTES = 1 << 20
MAX_DEPTH = 32

ROTATED = re.compile(r"(.+)\.(?:(\d{4}-[\d-]*|\d{8,})|(\d{1,7}))", re.DOTALL)
"""Name of a rotated file: the log's own, and a date or a number that grows with age."""


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A regular file as it was at the scan."""

    path: str
    parts: tuple[str, ...]
    """Names below the root, the file's last."""
    device: int
    inode: int
    n_bytes: int
    mtime_ns: int

    @property
    def key(self) -> str:
        """Identity that a rename keeps."""
        return f"{self.device}:{self.inode}"


def log_of(name: str) -> str:
    """The name of a rotated file's log; any other name itself."""
    rotated = ROTATED.fullmatch(name)
    return rotated[1] if rotated else name


def by_age(name: str) -> tuple[str, int, str, int]:
    """To sort names by, with the files of one log from the oldest on: x.log.2, x.log.1, x.log."""
    rotated = ROTATED.fullmatch(name)
    if rotated is None:
        return name, 2, "", 0
    return (rotated[1], 0, rotated[2], 0) if rotated[2] else (rotated[1], 1, "", -int(rotated[3]))


def require_root(root: Path) -> None:
    """Raise SourceUnavailableError when `root` is no readable folder."""
    try:
        with os.scandir(root):
            return
    except OSError as error:
        raise SourceUnavailableError(
            f"folder {root}: {error.strerror or error}; expected a readable folder: create it or correct the path"
        ) from error


def walk(
    root: Path, problems: ProblemLog, wanted: Callable[[tuple[str, ...]], bool], max_depth: int = MAX_DEPTH
) -> Iterator[FoundFile]:
    """The regular files below `root` that are `wanted` by the names of their folders below the root and their own.

    In the order of their names, of a rotated log the oldest first; what cannot be read is a problem.
    """
    pending: list[tuple[str, tuple[str, ...]]] = [(os.fspath(root), ())]
    while pending:
        folder, parts = pending.pop()
        try:
            with os.scandir(folder) as entries:
                listed = sorted(entries, key=lambda entry: by_age(entry.name))
        except FileNotFoundError:
            continue  # removed since its parent was listed; whether the root is there has its own check
        except OSError as error:
            problems.report(folder, "unreadable", f"folder cannot be listed: {error.strerror or error}")
            continue
        folders = []
        for entry in listed:
            below = (*parts, entry.name)
            if entry.is_dir(follow_symlinks=False):
                if len(below) < max_depth:
                    folders.append((entry.path, below))
                continue
            if wanted(below):
                if (found := _regular(entry, below, problems)) is not None:
                    yield found
            elif "\n" in entry.name and wanted((*parts, entry.name.replace("\n", " "))):
                problems.report(entry.path, "bad_name", "a line feed in its name; the file is not read: rename it")
        pending.extend(reversed(folders))


def read_chunks(path: str, offset: int, n_bytes: int, problems: ProblemLog) -> Iterator[bytes]:
    """The bytes [offset, offset + n_bytes) that are there, piece by piece; a failure is a problem and ends them."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - paths with undecodable names stay plain strings
            file.seek(offset)
            while n_bytes > 0 and (data := file.read(min(CHUNK_BYTES, n_bytes))):
                n_bytes -= len(data)
                yield data
    except OSError as error:
        problems.report(path, "unreadable", f"file cannot be read: {error.strerror or error}")


def _regular(entry: os.DirEntry[str], parts: tuple[str, ...], problems: ProblemLog) -> FoundFile | None:
    try:
        status = entry.stat()
    except FileNotFoundError:
        return None  # moved away between the listing and now
    except OSError as error:
        problems.report(entry.path, "unreadable", f"file cannot be looked at: {error.strerror or error}")
        return None
    if not stat.S_ISREG(status.st_mode):
        return None  # a pipe or device would block
    return FoundFile(entry.path, parts, status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
