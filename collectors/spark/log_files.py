"""Which files are one event log: one file, or the parts in the folder of one that is rolled (`eventlog_v2_...`)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from collectors.files import FoundFile

CODEC_ENDING = re.compile(r"\.(?:lz4|lzf|snappy|zstd)$")
IN_PROGRESS = ".inprogress"
ROLLED = "eventlog_v2_"
"""How the names of folders of rolled logs begin."""
ROLLED_FOLDER = re.compile(rf"{ROLLED}(.*)", re.DOTALL)
PART = re.compile(r"events_(\d{1,9})_.+?(\.compact)?", re.DOTALL)
STATUS = "appstatus_"


@dataclass(slots=True)
class Part:
    """One file of a log."""

    number: int
    file: FoundFile
    is_compact: bool = False
    """In place of this part and all before it."""


@dataclass(slots=True)
class LogFiles:
    """One event log as it was at the scan."""

    key: str
    """Its path below the root without what changes: a log keeps it when it ends, or is copied anew."""
    name: str
    """The application's, as Spark names logs."""
    is_over: bool = False
    """Whether Spark has closed it."""
    parts: list[Part] = field(default_factory=list)

    @property
    def n_bytes(self) -> int:
        """Of all parts."""
        return sum(part.file.n_bytes for part in self.parts)


def application_name(file_name: str) -> str:
    """A log's own name without its endings."""
    return CODEC_ENDING.sub("", file_name.removesuffix(IN_PROGRESS).removesuffix(".compact"))


def part_of(folder: str | None, file_name: str) -> tuple[int, bool] | None:
    """(number, whether it is a compact one) of a file of a rolled log; None for any other."""
    if folder is None or not ROLLED_FOLDER.fullmatch(folder):
        return None
    bare = file_name.removesuffix(".compact")
    found = PART.fullmatch(CODEC_ENDING.sub("", bare))
    return (int(found[1]), bare != file_name) if found else None


def is_marker(folder: str | None, file_name: str) -> bool:
    """Whether a file says only whether a rolled log goes on."""
    return folder is not None and ROLLED_FOLDER.fullmatch(folder) is not None and file_name.startswith(STATUS)


def grouped(files: Iterable[FoundFile]) -> dict[str, LogFiles]:
    """The logs by key; what stands beside the parts of a rolled one is passed over."""
    logs: dict[str, LogFiles] = {}
    for file in files:
        folder, name = (file.parts[-2] if len(file.parts) > 1 else None), file.parts[-1]
        rolled = ROLLED_FOLDER.fullmatch(folder) if folder else None
        if rolled is None:
            key = "/".join((*file.parts[:-1], name.removesuffix(IN_PROGRESS)))
            log = logs.setdefault(key, LogFiles(key, application_name(name)))
            if not log.parts or not name.endswith(IN_PROGRESS):
                log.is_over = not name.endswith(IN_PROGRESS)
                log.parts = [Part(1, file)]
            continue
        key = "/".join(file.parts[:-1])
        log = logs.setdefault(key, LogFiles(key, rolled[1]))
        if is_marker(folder, name):
            log.is_over = log.is_over or not name.endswith(IN_PROGRESS)
        elif (part := part_of(folder, name)) is not None:
            log.parts.append(Part(part[0], file, part[1]))
    for log in logs.values():
        log.parts = _in_order(log.parts)
    return logs


def _in_order(parts: list[Part]) -> list[Part]:
    """By number, from the newest compact one on."""
    first = max((part.number for part in parts if part.is_compact), default=0)
    kept = [part for part in parts if part.number > first or (part.number == first and part.is_compact)]
    return sorted(kept, key=lambda part: part.number)


__all__ = ["IN_PROGRESS", "ROLLED", "LogFiles", "Part", "application_name", "grouped", "is_marker", "part_of"]
