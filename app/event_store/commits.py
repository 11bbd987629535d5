"""The log of commits: which files a store has. One JSON file per commit, numbered without a gap, never overwritten.

A reader lists the log, begins at the latest snapshot and applies what follows. A snapshot says what all commits up to
its number add up to; it is a help only, and the commits decide.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Protocol

from app.event_store.errors import StoreError

FORMAT = 1
"""Of commits and files. A program refuses what is newer."""

COMMITS = "_commits"
SNAPSHOT_EVERY = 20
_NUMBERED = re.compile(r"([0-9]{20})(\.snapshot)?\.json")


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A Parquet file with events of one type and one date (of their t_lo_ms, UTC)."""

    path: str
    """Below the store's root."""
    date: str
    """YYYY-MM-DD."""
    type: str
    n_rows: int
    n_bytes: int
    min_lo_ms: int
    max_lo_ms: int
    max_hi_ms: int

    def touches(self, from_ms: int | None, to_ms: int | None) -> bool:
        """Whether an event in it may touch the closed span; None is no border."""
        return (from_ms is None or self.max_hi_ms >= from_ms) and (to_ms is None or self.min_lo_ms <= to_ms)


@dataclass(frozen=True)
class Commit:
    """One change of a store, all of it or nothing."""

    operation: str
    """create, append, compact or delete."""
    time_ms: int
    added: tuple[StoredFile, ...] = ()
    removed: tuple[str, ...] = ()
    columns: Mapping[str, str] = field(default_factory=dict)
    """Columns of the added files and their Spark types."""
    info: Mapping[str, Any] = field(default_factory=dict)
    """What people may want to know of it."""

    def to_json(self) -> bytes:
        """As it is stored."""
        content = {"format": FORMAT, **asdict(replace(self, columns=dict(self.columns), info=dict(self.info)))}
        return (json.dumps(content, ensure_ascii=False, sort_keys=True) + "\n").encode()


@dataclass(frozen=True, slots=True)
class Appended:
    """What became of a batch: n_events = n_new + n_duplicate + n_replaced + n_overlapped."""

    n_events: int
    n_new: int
    n_duplicate: int
    """Copies that changed nothing: of stored events, or within the batch."""
    n_replaced: int
    """Stored events whose copy from a better source took their place."""
    n_files: int
    """Files that were added."""
    n_overlapped: int = 0
    """Coarser samples that were left out, as finer ones tell of their time."""
    n_superseded: int = 0
    """Stored coarser samples that finer ones took the place of."""


@dataclass(frozen=True)
class State:
    """What the commits up to a number add up to."""

    number: int
    files: Mapping[str, StoredFile]
    """By path."""
    columns: Mapping[str, str]
    """Of all files that were ever added."""

    def after(self, number: int, commit: Commit) -> State:
        """With one more commit; raises ValueError when it removes what is not there or adds what is."""
        files = dict(self.files)
        for path in commit.removed:
            if files.pop(path, None) is None:
                raise ValueError(f"it removes {path}, which the store does not have")
        for added in commit.added:
            if added.path in files:
                raise ValueError(f"it adds {added.path}, which the store has already")
            files[added.path] = added
        return State(number, files, {**self.columns, **commit.columns})


EMPTY = State(-1, {}, {})


class Folder(Protocol):
    """What a reader of the log needs of a store's folder, see `StoreFiles`."""

    def full(self, path: str) -> str:
        """The path with the store's URL before it."""
        ...

    def names(self, folder: str) -> list[str]:
        """What stands directly in a folder, in order; an absent folder is empty."""
        ...

    def read(self, path: str) -> bytes:
        """The whole content of a small file."""
        ...


class WritableFolder(Folder, Protocol):
    """What a writer needs besides; raises StoreError."""

    def exists(self, path: str) -> bool:
        """Whether there is a file or folder of this name."""
        ...

    def create_new(self, path: str, content: bytes) -> bool:
        """Write a file that nobody has written yet: with all its content, or not at all. False: somebody was first."""
        ...


class CommitReader:
    """The log of one store; raises StoreError for a damaged commit and for one of a newer version."""

    def __init__(self, files: Folder) -> None:
        self._folder = files

    def latest(self) -> int:
        """Number of the last commit, -1 when there is none."""
        return max(self._listed()[0], default=-1)

    def read(self, known: State = EMPTY) -> State:
        """The present state; `known` is one that was read before."""
        numbers, snapshots = self._listed()
        if not numbers:
            return EMPTY
        state = known
        for number in sorted((n for n in snapshots if known.number < n <= max(numbers)), reverse=True):
            snapshot = self._snapshot(number)
            if snapshot is not None:
                state = snapshot
                break
        for number in range(state.number + 1, max(numbers) + 1):
            if number not in numbers:
                # A reader that has not looked since commits were swept begins anew, at a snapshot.
                if known.number >= 0:
                    return self.read()
                place = self._folder.full(path_of(number))
                raise StoreError(f"{place} is missing, though later commits are there; restore it from a backup")
            try:
                state = state.after(number, self.commit(number))
            except ValueError as error:
                raise self._damaged(path_of(number), str(error)) from None
        return state

    def commit(self, number: int) -> Commit:
        """One commit."""
        path = path_of(number)
        content = self._content(path)
        try:
            return Commit(
                operation=str(content["operation"]),
                time_ms=int(content["time_ms"]),
                added=tuple(map(_file_of, content["added"])),
                removed=tuple(map(str, content["removed"])),
                columns=_texts(content["columns"]),
                info=dict(content["info"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise self._damaged(path, _plain(error)) from None

    def commits(self, above: int) -> list[tuple[int, Commit]]:
        """The commits after a number that are still there, in order."""
        return [(number, self.commit(number)) for number in sorted(self._listed()[0]) if number > above]

    def oldest_needed(self) -> int:
        """Number of the first commit or snapshot that the state is read from; one snapshot is kept in reserve."""
        numbers, snapshots = self._listed()
        if not numbers:
            return 0
        usable = sorted(number for number in snapshots if number in numbers and self._snapshot(number) is not None)
        return usable[-2] if len(usable) > 1 else 0

    def _listed(self) -> tuple[set[int], set[int]]:
        found = [match for name in self._folder.names(COMMITS) if (match := _NUMBERED.fullmatch(name))]
        return {int(match[1]) for match in found if not match[2]}, {int(match[1]) for match in found if match[2]}

    def _snapshot(self, number: int) -> State | None:
        """None: it cannot be used, and an earlier one and more commits tell the same."""
        path = snapshot_path_of(number)
        try:
            content = self._content(path)
            files = [_file_of(item) for item in content["files"]]
            return State(number, {file.path: file for file in files}, _texts(content["columns"]))
        except NewerFormatError:
            raise
        except (StoreError, KeyError, TypeError, ValueError):
            return None

    def _content(self, path: str) -> dict[str, Any]:
        try:
            content = json.loads(self._folder.read(path).decode("utf-8"))
            if not isinstance(content, dict):
                raise TypeError("no JSON object")
            found = content["format"]
            if not isinstance(found, int) or isinstance(found, bool):
                raise TypeError(f"format {found!r} is no number")
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise self._damaged(path, _plain(error)) from None
        if found > FORMAT:
            raise NewerFormatError(
                f"{self._folder.full(path)}: found format {found}; this program knows formats up to {FORMAT}; "
                "the store was written by a newer version of clustercep: update this one"
            )
        return content

    def _damaged(self, path: str, reason: str) -> StoreError:
        return StoreError(f"{self._folder.full(path)}: a damaged commit: {reason}; restore this file from a backup")


class CommitLog(CommitReader):
    """The log of a store that can be written to."""

    def __init__(self, files: WritableFolder) -> None:
        super().__init__(files)
        self._files = files

    def try_commit(self, base: State, commit: Commit) -> State | None:
        """The state after the commit; None when somebody else's came after `base` first.

        Raises NotCommittedError when it is certain that the commit is not there, StoreError when nothing is certain.
        """
        number = base.number + 1
        state = base.after(number, commit)
        path, content = path_of(number), commit.to_json()
        try:
            if not self._files.create_new(path, content):
                return None
        except StoreError as error:
            if not self._is_there(path, content):
                raise NotCommittedError(str(error)) from error
        if number % SNAPSHOT_EVERY == 0 and number:
            with suppress(StoreError):  # the commit stands, and readers do without
                self._save_snapshot(state)
        return state

    def _is_there(self, path: str, content: bytes) -> bool:
        return self._files.exists(path) and self._files.read(path) == content

    def _save_snapshot(self, state: State) -> None:
        content = {
            "format": FORMAT,
            "columns": dict(state.columns),
            "files": [asdict(file) for file in state.files.values()],
        }
        text = json.dumps(content, ensure_ascii=False, sort_keys=True) + "\n"
        self._files.create_new(snapshot_path_of(state.number), text.encode())


class NotCommittedError(StoreError):
    """A commit that cannot be written, and is not there."""


class NewerFormatError(StoreError):
    """A store of a newer version."""


def chosen_files(
    files: Collection[StoredFile], types: Collection[str] | None, from_ms: int | None, to_ms: int | None
) -> list[StoredFile]:
    """The files that may hold such events, in order of date, type and time."""
    found = [file for file in files if (types is None or file.type in types) and file.touches(from_ms, to_ms)]
    return sorted(found, key=lambda file: (file.date, file.type, file.min_lo_ms, file.path))


def path_of(number: int) -> str:
    """Of a commit, below the store's root."""
    return f"{COMMITS}/{number:020d}.json"


def number_of(name: str) -> int | None:
    """Of a commit or snapshot; None: neither."""
    found = _NUMBERED.fullmatch(name)
    return int(found[1]) if found else None


def snapshot_path_of(number: int) -> str:
    """Of the snapshot after a commit."""
    return f"{COMMITS}/{number:020d}.snapshot.json"


def _file_of(item: Mapping[str, Any]) -> StoredFile:
    texts = {name: item[name] for name in ("path", "date", "type")}
    numbers = {name: item[name] for name in ("n_rows", "n_bytes", "min_lo_ms", "max_lo_ms", "max_hi_ms")}
    if not all(isinstance(value, str) for value in texts.values()):
        raise TypeError(f"a file without path, date or type: {texts}")
    if not all(isinstance(value, int) for value in numbers.values()):
        raise TypeError(f"{texts['path']}: a statistic that is no whole number: {numbers}")
    if not re.fullmatch(r"data/[^/]+/[^/]+/[^/]+", texts["path"]):
        raise ValueError(f"found the file {texts['path']}; expected files below data/DATE/TYPE")
    return StoredFile(**texts, **numbers)


def _texts(value: Any) -> dict[str, str]:
    return {str(name): str(text) for name, text in dict(value).items()}


def _plain(error: Exception) -> str:
    return f"it lacks {error}" if isinstance(error, KeyError) else str(error)
