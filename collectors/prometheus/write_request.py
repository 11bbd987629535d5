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
MAX_OTHER_FIELDS = 200_000
"""Metadata, exemplars, labels that are too many: what is passed over costs time, too, and takes two bytes each."""

_NAME = b"\x0a\x08__name__\x12"
_DOUBLE = struct.Struct("<d")
_STALE = b"\x02\x00\x00\x00\x00\x00\xf0\x7f"
"""The one of the NaNs that says that a series has ended (Prometheus, model/value/value.go)."""
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class WriteRequestError(CollectorError):
    """A body that is no request."""


class TooLargeError(WriteRequestError):
    """One that is larger than it may be."""


class _SeriesError(WriteRequestError):
    """A series that is not taken; those beside it are of other exporters."""


@dataclass(slots=True)
class _PassedOver:
    """Fields of a message that mean nothing here."""

    n_left: int

    def count(self) -> None:
        self.n_left -= 1
        if self.n_left < 0:
            raise WriteRequestError("more fields that are no series, label or sample than any request has")


@dataclass(frozen=True, slots=True)
class WriteRequest:
    """What a request holds."""

    samples: tuple[Sample, ...]
    """Of the chosen metrics; all with a time. NaN says that a series has ended."""
    n_others: int
    """Samples of other metrics, those without a number, and those that are refused."""
    refused: str = ""
    """Why some of the chosen series are not taken; empty when all are."""


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
    """The samples of these metrics in a message; raises WriteRequestError.

    A series with labels or times that cannot be is refused alone: a request has those of many exporters, and is not
    sent again.
    """
    samples: list[Sample] = []
    passed_over = _PassedOver(MAX_OTHER_FIELDS)
    refused = ""
    n_series, n_all = 0, 0
    for number, kind, start, end in _fields(data, 0, len(data)):
        if number != 1:
            passed_over.count()  # metadata
            continue
        n_series += 1
        if kind != _BYTES or n_series > MAX_SERIES:
            raise WriteRequestError(f"more than {MAX_SERIES:,} series" if kind == _BYTES else "a series that is none")
        labels, ranges = _parts(data, start, end, MAX_SAMPLES - n_all, passed_over)
        n_all += len(ranges)
        try:
            if ranges and _name_of(data, labels, passed_over) in metrics:
                samples += _samples(data, labels, ranges, passed_over)
        except _SeriesError as error:
            refused = refused or str(error)
    return WriteRequest(tuple(samples), n_all - len(samples), refused)


def _parts(
    data: bytes, start: int, end: int, most_samples: int, passed_over: _PassedOver
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Where labels and samples of a series are, of labels one more than it may have."""
    labels, ranges = list[tuple[int, int]](), list[tuple[int, int]]()
    for part, kind, at, stop in _fields(data, start, end):
        if part in (1, 2) and kind != _BYTES:
            raise WriteRequestError("a label or sample that is none")
        if part == 1 and len(labels) <= MAX_LABELS:
            labels.append((at, stop))
        elif part == 2:
            if len(ranges) >= most_samples:
                raise WriteRequestError(f"more than {MAX_SAMPLES:,} samples")
            ranges.append((at, stop))
        else:
            passed_over.count()
    return labels, ranges


def _name_of(data: bytes, labels: list[tuple[int, int]], passed_over: _PassedOver) -> str:
    for start, end in labels:
        if data.startswith(_NAME, start, end):
            return _label(data, start, end, passed_over)[1]
    named = (_label(data, *one, passed_over) for one in labels)
    return next((value for name, value in named if name == "__name__"), "")


def _samples(
    data: bytes, labels: list[tuple[int, int]], ranges: list[tuple[int, int]], passed_over: _PassedOver
) -> list[Sample]:
    if len(labels) > MAX_LABELS:
        raise _SeriesError(f"a series of more than {MAX_LABELS} labels")
    named = dict(_label(data, start, end, passed_over) for start, end in labels)
    if len(named) != len(labels):
        raise _SeriesError("a label that is given twice")
    name = named.pop("__name__")
    samples: list[Sample] = []
    for start, end in ranges:
        value, t_ms, is_stale = 0.0, 0, False
        for place, (number, kind, at, stop) in enumerate(_fields(data, start, end)):
            if place > 1:
                passed_over.count()
            if number == 1 and kind == _FIXED64:
                (value,) = _DOUBLE.unpack_from(data, at)
                is_stale = data[at:stop] == _STALE
            elif number == 2 and kind == _VARINT:
                t_ms, _ = _varint(data, at, stop)
        if not 0 < t_ms <= MAX_TIME_MS:
            raise _SeriesError(f"{name}: a sample of {t_ms} ms after the epoch")
        if math.isfinite(value) or is_stale:
            samples.append(Sample(name, named, value, t_ms))
    return samples


def _label(data: bytes, start: int, end: int, passed_over: _PassedOver) -> tuple[str, str]:
    texts = {1: "", 2: ""}
    for place, (number, kind, at, stop) in enumerate(_fields(data, start, end)):
        if place > 1:
            passed_over.count()
        if number in texts:
            if kind != _BYTES:
                raise WriteRequestError("a label that is none")
            if stop - at > MAX_LABEL_CHARS:
                raise _SeriesError(f"a label of more than {MAX_LABEL_CHARS:,} bytes")
            try:
                texts[number] = data[at:stop].decode()
            except UnicodeDecodeError as error:
                raise _SeriesError("a label that is no UTF-8") from error
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
