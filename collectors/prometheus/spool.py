"""What senders were told is safe: a folder of segments, one JSON line for each request, flushed to the disk.

A line is either whole or was never acknowledged: one that could not be written is taken back, a process that begins
makes a segment of its own, and what an end without its line break is, nobody was told of.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from collectors.base import CollectorError
from collectors.network.bounded_json import loads
from collectors.prometheus.exposition import Sample

SEGMENT_BYTES = 1 << 25
MAX_LINE_BYTES = 1 << 27
MAX_VALUES = 20_000_000
_SEGMENT = re.compile(r"segment-([0-9]{12})\.jsonl")


class SpoolError(CollectorError):
    """What came cannot be kept now; it is to be sent again."""


@dataclass(frozen=True, slots=True)
class Record:
    """One request."""

    received_ms: int
    sender: str
    samples: tuple[Sample, ...]
    n_others: int


@dataclass(frozen=True, slots=True)
class Place:
    """How far a spool has been read."""

    segment: int = 0
    offset: int = 0


class SpoolWriter:
    """Adds requests; several threads may."""

    def __init__(self, folder: Path, max_bytes: int) -> None:
        self._folder, self._max_bytes = folder, max_bytes
        self._lock = threading.Lock()
        self._file: int | None = None
        self._n_bytes = 0

    def append(self, record: Record) -> None:
        """Returns once it would survive the death of the machine; raises SpoolError, and then nothing was kept."""
        samples = [[s.name, dict(s.labels), s.t_ms, s.value] for s in record.samples]
        line = json.dumps([record.received_ms, record.sender, record.n_others, samples], separators=(",", ":"))
        data = line.encode() + b"\n"
        with self._lock:
            try:
                self._write(data)
            except OSError as error:
                self._take_back()
                raise SpoolError(f"{self._folder}: {error.strerror or error}") from error

    def close(self) -> None:
        """No more is added."""
        with self._lock:
            self._drop()

    def _write(self, data: bytes) -> None:
        if _n_bytes(self._folder) + len(data) > self._max_bytes:
            raise SpoolError(f"{self._folder} holds as much as it may ({self._max_bytes:,} bytes)")
        if self._file is None or self._n_bytes + len(data) > SEGMENT_BYTES:
            self._drop()
            self._begin()
        assert self._file is not None
        left = memoryview(data)
        while left:
            left = left[os.write(self._file, left) :]
        os.fsync(self._file)
        self._n_bytes += len(data)

    def _begin(self) -> None:
        self._folder.mkdir(mode=0o700, exist_ok=True)
        number = max((number for number, _ in _segments(self._folder)), default=0) + 1
        path = self._folder / f"segment-{number:012d}.jsonl"
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._n_bytes = 0
        folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def _take_back(self) -> None:
        """What was written of a line; where that fails it is the end of its segment, which readers leave out."""
        if self._file is not None:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, self._n_bytes)
        self._drop()

    def _drop(self) -> None:
        if self._file is not None:
            os.close(self._file)
        self._file = None


class SpoolReader:
    """Reads on from a place."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, place: Place, max_bytes: int) -> tuple[list[Record], Place, bool, list[str]]:
        """Records behind a place, about so many bytes of them; where they end, whether more is there, what is damaged.

        Raises SpoolError.
        """
        records, problems, n_left = list[Record](), list[str](), max_bytes
        try:
            place = self._place_there(place, problems)
            segments = [(number, path) for number, path in _segments(self._folder) if number >= place.segment]
            for index, (number, path) in enumerate(segments):
                offset = place.offset if number == place.segment else 0
                is_last = index == len(segments) - 1
                if n_left <= 0:
                    return records, place, True, problems
                data = _lines(path, offset, n_left)
                for line in data.splitlines(keepends=True):
                    try:
                        records.append(_record(line))
                    except (ValueError, TypeError, LookupError, RecursionError, AttributeError) as error:
                        problems.append(f"{path}:{offset}: a line that is damaged ({error}); it is left out")
                    offset += len(line)
                n_left -= len(data)
                place = Place(number, offset)
                if not is_last and _has_line(path, offset):
                    return records, place, True, problems
                if is_last and _has_line(path, offset):
                    return records, place, True, problems
        except OSError as error:
            raise SpoolError(f"{self._folder}: {error.strerror or error}") from error
        return records, place, False, problems

    def _place_there(self, place: Place, problems: list[str]) -> Place:
        """The place, or the begin of what is there where somebody has put another spool in its place."""
        segments = dict(_segments(self._folder))
        if not segments or place == Place():
            return place
        path = segments.get(place.segment)
        if max(segments) >= place.segment and (path is None or path.stat().st_size >= place.offset):
            return place
        problems.append(f"{self._folder}: it is not the spool that was read before; it is read from its begin")
        return Place()

    def remove_before(self, segment: int) -> None:
        """Segments that nobody will read again; one that cannot be removed stays."""
        with contextlib.suppress(OSError):
            for number, path in _segments(self._folder):
                if number < segment:
                    path.unlink(missing_ok=True)


def _lines(path: Path, offset: int, n_bytes: int) -> bytes:
    """Whole lines behind an offset: at least one, where there is one."""
    with path.open("rb") as file:
        file.seek(offset)
        data = file.read(n_bytes)
        if b"\n" not in data and len(data) == n_bytes:
            data += file.readline(MAX_LINE_BYTES)
    return data[: data.rfind(b"\n") + 1]


def _has_line(path: Path, offset: int) -> bool:
    with path.open("rb") as file:
        file.seek(offset)
        while piece := file.read(1 << 20):
            if b"\n" in piece:
                return True
    return False


def _record(line: bytes) -> Record:
    received_ms, sender, n_others, told = loads(line, MAX_VALUES)
    return Record(int(received_ms), str(sender), tuple(_samples(told)), int(n_others))


def _samples(told: Iterable[Any]) -> Iterable[Sample]:
    for name, labels, t_ms, value in told:
        yield Sample(str(name), {str(k): str(v) for k, v in labels.items()}, float(value), int(t_ms))


def _segments(folder: Path) -> list[tuple[int, Path]]:
    if not folder.is_dir():
        return []
    found = ((_SEGMENT.fullmatch(path.name), path) for path in folder.iterdir())
    return sorted((int(match[1]), path) for match, path in found if match is not None)


def _n_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for _, path in _segments(folder))


__all__ = ["Place", "Record", "SpoolError", "SpoolReader", "SpoolWriter"]
