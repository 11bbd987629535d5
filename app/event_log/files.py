"""Names of the log's files, and which of them count.

A file holds the events of one lane of the steps `first` to `last` of one epoch: `live-EPOCH-FIRST-LAST.parquet`. An
epoch is one unbroken sequence of checkpoints: a start without a past begins another one, so that its numbers never meet
old ones. The live lane of an epoch has every event id once; the history lane (finished jobs that are looked at as a
whole) may repeat what the live lane has.
The name is all that decides: a file counts when its epoch and its last step are committed, and no file of a wider range
holds its events, too (merging writes the wide file first and removes the narrow ones afterwards).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

PART = ".part"
LIVE = "live"
HISTORY = "history"
_NAME = re.compile(r"(live|history)-([0-9a-f]{16})-([0-9]{12})-([0-9]{12})\.parquet")


@dataclass(frozen=True, slots=True, order=True)
class LogFile:
    """One file: the events of a lane of steps first..last (both inclusive) of an epoch."""

    lane: str
    epoch: str
    first: int
    last: int

    @property
    def name(self) -> str:
        """Of the file."""
        return f"{self.lane}-{self.epoch}-{self.first:012d}-{self.last:012d}.parquet"

    @classmethod
    def parse(cls, name: str) -> LogFile | None:
        """None: not a file of the log."""
        found = _NAME.fullmatch(name)
        if found is None or int(found[3]) > int(found[4]):
            return None
        return cls(found[1], found[2], int(found[3]), int(found[4]))

    def covers(self, other: LogFile) -> bool:
        """Whether this file holds all that the other one does."""
        same = (self.lane, self.epoch) == (other.lane, other.epoch)
        return same and self.first <= other.first and other.last <= self.last


@dataclass(frozen=True)
class Listing:
    """What is in the folder."""

    files: tuple[LogFile, ...]
    """In order of (lane, epoch, first, last)."""
    parts: tuple[str, ...]
    """Halves of files that a dead process left, or that are being written."""
    foreign: tuple[str, ...]
    """Whatever else is there."""


def list_folder(folder: Path) -> Listing:
    """An absent folder is empty; raises OSError when it cannot be read."""
    try:
        with os.scandir(folder) as entries:
            found = sorted((entry.name, entry.is_file()) for entry in entries)
    except FileNotFoundError:
        found = []
    files: list[LogFile] = []
    parts: list[str] = []
    foreign: list[str] = []
    for name, is_file in found:
        file = LogFile.parse(name) if is_file else None  # who opens a pipe waits for ever
        if file is not None:
            files.append(file)
        else:
            is_part = is_file and name.endswith(PART) and LogFile.parse(name.removesuffix(PART)) is not None
            (parts if is_part else foreign).append(name)
    return Listing(tuple(sorted(files)), tuple(parts), tuple(foreign))


def uncovered(files: Iterable[LogFile]) -> list[LogFile]:
    """The files whose events no wider file holds, in order of (lane, epoch, first)."""
    widest: list[LogFile] = []
    for file in sorted(files, key=lambda f: (f.lane, f.epoch, f.first, -f.last)):
        if not widest or not widest[-1].covers(file):
            widest.append(file)
    return widest


def committed(files: Iterable[LogFile], positions: Mapping[str, int]) -> list[LogFile]:
    """The files of committed steps; `positions`: the last committed step of each epoch that the store knows."""
    return [file for file in files if file.last <= positions.get(file.epoch, -1)]


def sync_folder(folder: Path) -> None:
    """Names that were made, replaced or removed survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
