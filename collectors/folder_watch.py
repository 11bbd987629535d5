"""Files below a folder that is polled again and again, of which few change between two polls.

A folder is listed again when its time of change says so, or when that time was so young at the last listing that a
later change may have left it as it was. Files that are in use are looked at in every poll, all others in turn, each
once per `revisit_ms`; their folders are listed then, whatever their times say. What one poll looks at is bounded: of
more files in use those come first that were looked at longest ago, and `since_ms` says when that was.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Generic, TypeVar

from collectors.base import ProblemLog
from collectors.files import MAX_DEPTH, FoundFile, by_age

GRANULARITY_NS = 2_000_000_000
"""A time of change that is younger than this may be that of two changes: file systems count in up to 2 s."""

Identity = tuple[int, int, int]
"""Device, inode and time of change in ns."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class WatchOptions:
    """How often is looked where."""

    quiet_ms: int
    """A folder without folders and without files in use is looked at in every poll until so long after its change."""
    revisit_ms: int
    """What is not in use is looked at once in this time, as long as `max_looks` suffices."""
    max_looks: int = 20_000
    """Of each kind in one poll: files in use, their folders, other files, other folders."""
    max_new: int = 200_000
    """New files that one poll takes in; folders behind them are listed by the next one."""


@dataclass(slots=True, eq=False)
class _Folder:
    path: str
    parts: tuple[str, ...]
    changed_ms: int
    listed: Identity | None = None
    """As it was when it was listed; None: it has to be listed."""
    folders: dict[str, _Folder] = field(default_factory=dict)
    files: dict[str, _File] = field(default_factory=dict)
    n_in_use: int = 0
    """Of its files."""
    is_gone: bool = False


@dataclass(slots=True, eq=False)
class _File:
    folder: _Folder
    name: str
    listed_inode: int
    device: int
    inode: int
    in_use: bool = False

    @property
    def key(self) -> str:
        return f"{self.device}:{self.inode}"


class _Turn(Generic[T]):
    """What is looked at in turn, with the time of the last look: the one that waits longest stands first."""

    def __init__(self) -> None:
        self._looked_ms: dict[T, int] = {}

    def __len__(self) -> int:
        return len(self._looked_ms)

    def put(self, entry: T, now_ms: int) -> None:
        """It has just been looked at."""
        self._looked_ms.pop(entry, None)
        self._looked_ms[entry] = now_ms

    def drop(self, entry: T) -> None:
        """It has no turn here any more."""
        self._looked_ms.pop(entry, None)

    def next(self, n: int) -> list[T]:
        """The first `n`."""
        return list(islice(self._looked_ms, n))

    def oldest_ms(self, default: int) -> int:
        """When the first one was looked at."""
        return next(iter(self._looked_ms.values()), default)


class FolderWatch:
    """The wanted regular files below a root; links to folders are not followed."""

    def __init__(
        self,
        root: Path,
        problems: ProblemLog,
        wanted: Callable[[tuple[str, ...]], bool],
        options: WatchOptions,
        file_clock_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        """`wanted`: by the names of a file's folders below the root and its own; `file_clock_ns`: the clock that times
        of change come from, whatever time the polls go by."""
        self._root = _Folder(os.fspath(root), (), 0)
        self._problems = problems
        self._wanted = wanted
        self._options = options
        self._file_clock_ns = file_clock_ns
        self._busy_folders, self._quiet_folders = _Turn[_Folder](), _Turn[_Folder]()
        self._busy_files, self._quiet_files = _Turn[_File](), _Turn[_File]()
        self._to_list: list[_Folder] = [self._root]
        self._files: dict[str, _File] = {}
        self._found: dict[_File, FoundFile] = {}
        self._gone: set[str] = set()
        self._n_new = 0
        """Files that this poll has taken in."""
        self._last_ms: int | None = None

    @property
    def is_behind(self) -> bool:
        """Folders are known that have not been listed yet."""
        return bool(self._to_list)

    def keys(self) -> set[str]:
        """Of all files that are known to be there."""
        return set(self._files)

    def look(self, now_ms: int) -> list[FoundFile]:
        """The files that were looked at by name, of a rotated log the oldest first; `settle` ends the poll."""
        self._found, self._n_new = {}, 0
        passed_ms = 0 if self._last_ms is None else max(0, now_ms - self._last_ms)
        self._last_ms = now_ms
        others = self._share(self._quiet_folders, passed_ms), self._share(self._quiet_files, passed_ms)
        for folder in self._busy_folders.next(self._options.max_looks):
            self._look_at_folder(folder, now_ms)
        self._list_waiting(now_ms)
        for file in self._busy_files.next(self._options.max_looks):
            self._look_at_file(file, now_ms)
        self._to_list += others[0]
        for file in others[1]:
            self._look_at_file(file, now_ms)
        self._list_waiting(now_ms)
        return sorted(self._found.values(), key=lambda file: (file.parts[:-1], by_age(file.parts[-1])))

    def settle(self, now_ms: int, in_use: Callable[[FoundFile], bool]) -> None:
        """Say which of the files that were looked at have to be looked at by the next poll."""
        for file, found in self._found.items():
            if file.folder.files.get(file.name) is not file:
                continue
            is_used = in_use(found)
            if is_used != file.in_use:
                file.in_use = is_used
                file.folder.n_in_use += 1 if is_used else -1
                if is_used:
                    self._place(file.folder, now_ms)
            (self._quiet_files if is_used else self._busy_files).drop(file)
            (self._busy_files if is_used else self._quiet_files).put(file, now_ms)
        self._found = {}

    def take_gone(self) -> set[str]:
        """Keys of files that are there no more, since the last call."""
        gone, self._gone = self._gone, set()
        return {key for key in gone if key not in self._files}

    def since_ms(self, now_ms: int) -> int:
        """Whatever is in use was looked at then or later."""
        return min(now_ms, self._busy_files.oldest_ms(now_ms), self._busy_folders.oldest_ms(now_ms))

    # ---- folders -----------------------------------------------------------------------------------------------

    def _share(self, turn: _Turn[T], passed_ms: int) -> list[T]:
        n = -(-len(turn) * passed_ms // max(1, self._options.revisit_ms))
        return turn.next(min(n, self._options.max_looks))

    def _look_at_folder(self, folder: _Folder, now_ms: int) -> None:
        try:
            status = os.stat(folder.path)  # noqa: PTH116 - paths with undecodable names stay plain strings
        except FileNotFoundError:
            self._remove_folder(folder)
        except OSError as error:
            self._unlistable(folder, error, now_ms)
        else:
            if _identity(status) != folder.listed:
                self._to_list.append(folder)
            else:
                self._place(folder, now_ms)

    def _list_waiting(self, now_ms: int) -> None:
        """List what has to be listed, with what turns up below it, in the order of the names."""
        waiting = sorted(dict.fromkeys(self._to_list), key=lambda folder: folder.parts, reverse=True)
        self._to_list = []
        while waiting and self._n_new < self._options.max_new:
            folder = waiting.pop()
            if not folder.is_gone:
                waiting += reversed(self._list(folder, now_ms))
        self._to_list += waiting

    def _list(self, folder: _Folder, now_ms: int) -> list[_Folder]:
        """Compare a folder with what is known of it; returns the new ones in it."""
        try:
            status = os.stat(folder.path)  # noqa: PTH116 - before the listing: what changes meanwhile is seen next time
            with os.scandir(folder.path) as entries:
                listed = sorted(entries, key=lambda entry: entry.name)
        except (FileNotFoundError, NotADirectoryError):
            self._remove_folder(folder)
            return []
        except OSError as error:
            self._unlistable(folder, error, now_ms)
            return []
        is_young = self._file_clock_ns() - status.st_mtime_ns < GRANULARITY_NS
        if folder.listed is None and not folder.files and not folder.folders:
            folder.changed_ms = min(now_ms, status.st_mtime_ns // 1_000_000)
        elif _identity(status) != folder.listed:
            folder.changed_ms = now_ms
        folder.listed = None if is_young else _identity(status)
        files, folders, new = folder.files, folder.folders, []
        folder.files, folder.folders, folder.n_in_use = {}, {}, 0
        for entry in listed:
            if entry.is_dir(follow_symlinks=False):
                below = (*folder.parts, entry.name)
                if entry.name in folders:
                    folder.folders[entry.name] = folders.pop(entry.name)
                elif len(below) < MAX_DEPTH:
                    new.append(_Folder(entry.path, below, now_ms))
                    folder.folders[entry.name] = new[-1]
            elif (file := self._listed_file(folder, entry, files, now_ms)) is not None:
                folder.files[entry.name] = file
                folder.n_in_use += file.in_use
        for file in files.values():
            self._remove_file(file)
        for old in folders.values():
            self._remove_folder(old)
        self._place(folder, now_ms)
        return new

    def _listed_file(
        self, folder: _Folder, entry: os.DirEntry[str], known: dict[str, _File], now_ms: int
    ) -> _File | None:
        file = known.get(entry.name)
        if file is not None and file.listed_inode == entry.inode():
            return known.pop(entry.name)
        below = (*folder.parts, entry.name)
        if not self._wanted(below):
            if "\n" in entry.name and self._wanted((*folder.parts, entry.name.replace("\n", " "))):
                message = "a line feed in its name; the file is not read: rename it"
                self._problems.report(entry.path, "bad_name", message)
            return None
        found = self._status_of(entry.path, below)
        if found is None:
            return None
        file = _File(folder, entry.name, entry.inode(), found.device, found.inode)
        self._files[file.key] = file
        self._found[file] = found
        self._n_new += 1
        self._quiet_files.put(file, now_ms)
        return file

    def _place(self, folder: _Folder, now_ms: int) -> None:
        is_new = now_ms - folder.changed_ms < self._options.quiet_ms
        is_busy = folder.folders or folder.n_in_use or folder.listed is None or is_new
        (self._quiet_folders if is_busy else self._busy_folders).drop(folder)
        (self._busy_folders if is_busy else self._quiet_folders).put(folder, now_ms)

    def _unlistable(self, folder: _Folder, error: OSError, now_ms: int) -> None:
        folder.listed = None
        self._problems.report(folder.path, "unreadable", f"folder cannot be listed: {error.strerror or error}")
        self._place(folder, now_ms)

    def _remove_folder(self, folder: _Folder) -> None:
        below = [folder]
        while below:
            old = below.pop()
            below += old.folders.values()
            for file in old.files.values():
                self._remove_file(file)
            old.files, old.folders, old.listed, old.n_in_use = {}, {}, None, 0
            old.is_gone = old is not self._root
            self._busy_folders.drop(old)
            self._quiet_folders.drop(old)
        if folder is self._root:
            self._to_list.append(folder)

    # ---- files -------------------------------------------------------------------------------------------------

    def _look_at_file(self, file: _File, now_ms: int) -> None:
        if file.folder.files.get(file.name) is not file:
            return
        (self._busy_files if file.in_use else self._quiet_files).put(file, now_ms)
        found = self._status_of(os.path.join(file.folder.path, file.name), (*file.folder.parts, file.name))  # noqa: PTH118
        if found is None or found.key != file.key:
            self._remove_file(file)
            del file.folder.files[file.name]
            file.folder.n_in_use -= file.in_use
            self._to_list.append(file.folder)
            return
        self._found[file] = found

    def _remove_file(self, file: _File) -> None:
        self._busy_files.drop(file)
        self._quiet_files.drop(file)
        self._found.pop(file, None)
        if self._files.get(file.key) is file:
            del self._files[file.key]
            self._gone.add(file.key)

    def _status_of(self, path: str, parts: tuple[str, ...]) -> FoundFile | None:
        """The file as it is now; None when it is gone, or no regular file: a pipe or device would block."""
        try:
            status = os.stat(path)  # noqa: PTH116
        except FileNotFoundError:
            return None
        except OSError as error:
            self._problems.report(path, "unreadable", f"file cannot be looked at: {error.strerror or error}")
            return None
        if not stat.S_ISREG(status.st_mode):
            return None
        return FoundFile(path, parts, status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


def _identity(status: os.stat_result) -> Identity:
    return status.st_dev, status.st_ino, status.st_mtime_ns


__all__ = ["FolderWatch", "WatchOptions"]
