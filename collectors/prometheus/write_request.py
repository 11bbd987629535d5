"""A request of Prometheus' remote-write 1.0: snappy (block format) around a protobuf message, both from others.

The size it unpacks to stands in its head and is looked at before anything is unpacked. The message is read by a decoder
that counts as it goes: as objects of a general one two bytes may take a hundred.

message WriteRequest { repeated TimeSeries timeseries = 1; }    message Label { string name = 1; string value = 2; }
message TimeSeries { repeated Label labels = 1; repeated Sample samples = 2; }
message Sample { double value = 1; int64 timestamp = 2; }       (milliseconds)
"""

from __future__ import annotations

import math
import struct
from collections.abc import Collection, Iterator
from dataclasses import dataclass

import pyarrow as pa

from collectors.base import CollectorError
from collectors.prometheus.exposition import MAX_LABEL_CHARS, MAX_LABELS, Sample
from collectors.time_units import MAX_TIME_MS

MAX_SERIES = 100_000
MAX_SAMPLES = 200_000
"""Of one request; Prometheus sends some thousand."""

_NAME = b"\x0a\x08__name__\x12"
_DOUBLE = struct.Struct("<d")
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class WriteRequestError(CollectorError):
    """A body that is no request."""


class TooLargeError(WriteRequestError):
    """One that is larger than it may be."""


@dataclass(frozen=True, slots=True)
class WriteRequest:
    """What a request holds."""

    samples: tuple[Sample, ...]
    """Of the chosen metrics; all with a time."""
    n_others: int
    """Samples of other metrics, and those that say that a series has ended."""


def unpacked(body: bytes, max_bytes: int) -> bytes:
    """The message in a body; raises WriteRequestError."""
    n_bytes, _ = _varint(body, 0, min(len(body), 5))
    if n_bytes > max_bytes:
        raise TooLargeError(f"it unpacks to {n_bytes:,} bytes; expected at most {max_bytes:,}")
    try:
        return pa.Codec("snappy").decompress(body, decompressed_size=n_bytes, asbytes=True)  # type: ignore[no-any-return]
    except (pa.ArrowException, OSError) as error:
        raise WriteRequestError(f"expected snappy's block format: {error}") from error


def parse_write_request(data: bytes, metrics: Collection[str]) -> WriteRequest:
    """The samples of these metrics in a message; raises WriteRequestError."""
    samples: list[Sample] = []
    n_series, n_all = 0, 0
    for number, kind, start, end in _fields(data, 0, len(data)):
        if number != 1:
            continue  # metadata
        n_series += 1
        if kind != _BYTES or n_series > MAX_SERIES:
            raise WriteRequestError(f"more than {MAX_SERIES:,} series" if kind == _BYTES else "a series that is none")
        labels, ranges = list[tuple[int, int]](), list[tuple[int, int]]()
        for part, part_kind, part_start, part_end in _fields(data, start, end):
            if part in (1, 2):
                if part_kind != _BYTES:
                    raise WriteRequestError("a label or sample that is none")
                (labels if part == 1 else ranges).append((part_start, part_end))
        n_all += len(ranges)
        if len(labels) > MAX_LABELS or n_all > MAX_SAMPLES:
            raise WriteRequestError(f"more than {MAX_LABELS} labels of a series, or {MAX_SAMPLES:,} samples")
        if ranges and _name_of(data, labels) in metrics:
            samples += _samples(data, labels, ranges)
    return WriteRequest(tuple(samples), n_all - len(samples))


def _name_of(data: bytes, labels: list[tuple[int, int]]) -> str:
    for start, end in labels:
        if data.startswith(_NAME, start, end):
            return _label(data, start, end)[1]
    return next((value for name, value in (_label(data, *one) for one in labels) if name == "__name__"), "")


def _samples(data: bytes, labels: list[tuple[int, int]], ranges: list[tuple[int, int]]) -> Iterator[Sample]:
    named = dict(_label(data, start, end) for start, end in labels)
    if len(named) != len(labels):
        raise WriteRequestError("a label that is given twice")
    name = named.pop("__name__")
    for start, end in ranges:
        value, t_ms = 0.0, 0
        for number, kind, at, stop in _fields(data, start, end):
            if number == 1 and kind == _FIXED64:
                (value,) = _DOUBLE.unpack_from(data, at)
            elif number == 2 and kind == _VARINT:
                t_ms, _ = _varint(data, at, stop)
        if not 0 < t_ms <= MAX_TIME_MS:
            raise WriteRequestError(f"a sample of {t_ms} ms after the epoch")
        if math.isfinite(value):
            yield Sample(name, named, value, t_ms)


def _label(data: bytes, start: int, end: int) -> tuple[str, str]:
    texts = {1: "", 2: ""}
    for number, kind, at, stop in _fields(data, start, end):
        if number in texts:
            if kind != _BYTES or stop - at > MAX_LABEL_CHARS:
                raise WriteRequestError(f"a label of more than {MAX_LABEL_CHARS:,} bytes, or one that is none")
            try:
                texts[number] = data[at:stop].decode()
            except UnicodeDecodeError as error:
                raise WriteRequestError("a label that is no UTF-8") from error
    return texts[1], texts[2]


def _fields(data: bytes, at: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """(number, wire type, begin and end of the value) of each field between two places."""
    while at < end:
        key, at = _varint(data, at, end)
        kind = key & 7
        start = at
        if kind == _VARINT:
            _, at = _varint(data, at, end)
        elif kind == _BYTES:
            n_bytes, start = _varint(data, at, end)
            at = start + n_bytes
        elif kind in (_FIXED64, _FIXED32):
            at += 8 if kind == _FIXED64 else 4
        else:
            raise WriteRequestError(f"a field of wire type {kind}")
        if at > end:
            raise WriteRequestError("a field that ends behind its message: it is cut, or no protobuf")
        yield key >> 3, kind, start, at


def _varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    value, shift = 0, 0
    while at < end and shift < 70:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, at
        shift += 7
    raise WriteRequestError("a number that does not end: it is cut, or no protobuf")


__all__ = ["TooLargeError", "WriteRequest", "WriteRequestError", "parse_write_request", "unpacked"]
