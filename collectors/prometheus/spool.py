"""What senders were told is safe: a folder of segments, one JSON line for each request, flushed to the disk.

[received, sender, others, [[name, labels, [time, value, time, value, ...]], ...]]: labels stand there once a series, so
that a line is not much longer than its request, however many samples it has.

A line is either whole or was never acknowledged: one that could not be written is taken back, a process that begins
makes a segment of its own, and what an end without its line break is, nobody was told of.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from io import BytesIO
from itertools import groupby
from pathlib import Path
from typing import Any

from collectors.base import CollectorError
from collectors.network.bounded_json import loads, n_values
from collectors.prometheus.exposition import Sample

SEGMENT_BYTES = 1 << 25
MAX_LINE_BYTES = 1 << 26
MAX_VALUES = 8_000_000
"""Of a line: nothing is kept that would not be read."""
MAX_PROBLEMS = 10
"""Of one reading, as texts; further ones are counted: damage may be a page full of line breaks."""
_SHORTEST = len(b'[0,"",0,[]]\n')
"""Of a line; what is shorter is damaged without being parsed."""
_SEGMENT = re.compile(r"segment-([0-9]{12})\.jsonl")


class SpoolError(CollectorError):
    """What came cannot be kept now; it is to be sent again."""


class RecordError(CollectorError):
    """What came is more than a line may hold; it would be so another time, too."""


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
        self._path = folder
        self._n_bytes = 0

    def append(self, record: Record) -> None:
        """Returns once it would survive the machine's death; raises SpoolError or RecordError: nothing was kept."""
        line = json.dumps(
            [record.received_ms, record.sender, record.n_others, list(_series(record.samples))], separators=(",", ":")
        )
        data = line.encode() + b"\n"
        if len(data) > MAX_LINE_BYTES or n_values(data) > MAX_VALUES:
            raise RecordError(f"{len(data):,} bytes with {n_values(data):,} values as JSON; send less at once")
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
        if not self._folder.is_dir():
            self._folder.mkdir(mode=0o700, exist_ok=True)
            _flush_folder(self._folder.parent)
        number = max((number for number, _ in _named(self._folder)), default=0) + 1
        self._path = self._folder / f"segment-{number:012d}.jsonl"
        self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._n_bytes = 0
        _flush_folder(self._folder)

    def _take_back(self) -> None:
        """What was written of a line; where that fails it is the end of its segment, which readers leave out.

        An empty segment goes, too: while a disk is full there would be one for each request that is sent again.
        """
        if self._file is not None:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, self._n_bytes)
                if not self._n_bytes:
                    self._path.unlink()
        self._drop()

    def _drop(self) -> None:
        if self._file is not None:
            os.close(self._file)
        self._file = None


@dataclass(slots=True)
class _LeftOut:
    """Lines of one reading that are no records: the first as texts, how many more there are as a number."""

    folder: Path
    texts: list[str] = field(default_factory=list)
    n_more: int = 0

    def add(self, path: Path, offset: int, why: object) -> None:
        if len(self.texts) < MAX_PROBLEMS:
            self.texts.append(f"{path}:{offset}: a line that is damaged ({why}); it is left out")
        else:
            self.n_more += 1

    def told(self) -> list[str]:
        more = f"{self.folder}: {self.n_more:,} further lines that are damaged; they are left out"
        return [*self.texts, more] if self.n_more else self.texts


class SpoolReader:
    """Reads on from a place."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, place: Place, max_bytes: int) -> tuple[list[Record], Place, bool, list[str]]:
        """Records behind a place, about so many bytes of them; where they end, whether more is there, what is damaged.

        Raises SpoolError.
        """
        try:
            there = self._place_there(place)
            left_out = _LeftOut(self._folder)
            if there != place:
                left_out.texts.append(
                    f"{self._folder}: it is not the spool that was read before; it is read from its begin"
                )
            records, place, is_more = self._read(there, max_bytes, left_out)
        except OSError as error:
            raise SpoolError(f"{self._folder}: {error.strerror or error}") from error
        return records, place, is_more, left_out.told()

    def _read(self, place: Place, n_left: int, left_out: _LeftOut) -> tuple[list[Record], Place, bool]:
        records = list[Record]()
        for number, path in [one for one in _segments(self._folder) if one[0] >= place.segment]:
            offset = place.offset if number == place.segment else 0
            if n_left <= 0:
                return records, place, True
            data = _lines(path, offset, n_left)
            for line in BytesIO(data):
                if len(line) < _SHORTEST:
                    left_out.add(path, offset, "too short")
                else:
                    try:
                        records.append(_record(line))
                    except (ValueError, TypeError, LookupError, RecursionError, AttributeError) as error:
                        left_out.add(path, offset, error)
                offset += len(line)
            n_left -= len(data)
            end = _line_end(path, offset)
            if end is not None and not data:
                left_out.add(path, offset, f"more than {MAX_LINE_BYTES:,} bytes")
                offset, end = end, _line_end(path, end)
            place = Place(number, offset)
            if end is not None:
                return records, place, True
        return records, place, False

    def _place_there(self, place: Place) -> Place:
        """The place, or the begin of what is there where somebody has put another spool in its place."""
        segments = dict(_segments(self._folder))
        if not segments or place == Place():
            return place
        path = segments.get(place.segment)
        if max(segments) >= place.segment and (path is None or path.stat().st_size >= place.offset):
            return place
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


def _line_end(path: Path, offset: int) -> int | None:
    """Where the line that begins there ends; None when it does not."""
    with path.open("rb") as file:
        file.seek(offset)
        while piece := file.read(1 << 20):
            if (at := piece.find(b"\n")) >= 0:
                return offset + at + 1
            offset += len(piece)
    return None


def _record(line: bytes) -> Record:
    received_ms, sender, n_others, told = loads(line, MAX_VALUES)
    return Record(int(received_ms), str(sender), tuple(_samples(told)), int(n_others))


def _samples(told: Iterable[Any]) -> Iterable[Sample]:
    for name, labels, points in told:
        of_series = {str(k): str(v) for k, v in labels.items()}
        for t_ms, value in zip(points[::2], points[1::2], strict=True):
            yield Sample(str(name), of_series, float(value), int(t_ms))


def _series(samples: Iterable[Sample]) -> Iterator[list[Any]]:
    """Samples of a series have one mapping of labels, and come one after the other."""
    for _, group in groupby(samples, key=lambda sample: (sample.name, id(sample.labels))):
        of_series = list(group)
        points = [number for sample in of_series for number in (sample.t_ms, sample.value)]
        yield [of_series[0].name, dict(of_series[0].labels), points]


def _flush_folder(folder: Path) -> None:
    """What is new in it survives the death of the machine."""
    file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def _segments(folder: Path) -> list[tuple[int, Path]]:
    """Files alone: a pipe or a device would be read for ever."""
    return sorted((number, Path(entry)) for number, entry in _named(folder) if entry.is_file(follow_symlinks=False))


def _named(folder: Path) -> Iterator[tuple[int, os.DirEntry[str]]]:
    """Whatever is called like a segment."""
    if not folder.is_dir():
        return
    with os.scandir(folder) as entries:
        for entry in entries:
            if (match := _SEGMENT.fullmatch(entry.name)) is not None:
                yield int(match[1]), entry


def _n_bytes(folder: Path) -> int:
    n_bytes = 0
    for _, path in _segments(folder):
        with contextlib.suppress(FileNotFoundError):  # its reader needs it no more, and has just removed it
            n_bytes += path.stat().st_size
    return n_bytes


__all__ = ["Place", "Record", "RecordError", "SpoolError", "SpoolReader", "SpoolWriter"]
