"""Requests of remote write, made as Prometheus makes them."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping

import pyarrow as pa

Series = tuple[Mapping[str, str], Iterable[tuple[float, int]]]
"""(labels, with __name__; samples: value and time in ms)."""


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def part(number: int, data: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(data)) + data


def message(series: Iterable[Series]) -> bytes:
    out = b""
    for labels, samples in series:
        told = b"".join(part(1, part(1, n.encode()) + part(2, v.encode())) for n, v in sorted(labels.items()))
        for value, t_ms in samples:
            told += part(2, b"\x09" + struct.pack("<d", value) + b"\x10" + varint(t_ms & (1 << 64) - 1))
        out += part(1, told)
    return out + part(3, b"\x08\x01\x12\x01a")  # metadata


def request(*series: Series) -> bytes:
    return packed(message(series))


def packed(data: bytes) -> bytes:
    """In snappy's block format."""
    return pa.Codec("snappy").compress(data, asbytes=True)  # type: ignore[no-any-return]


def series(name: str, value: float, t_ms: int, **labels: str) -> Series:
    return {"__name__": name, "instance": "node1:9100", "job": "node", **labels}, [(value, t_ms)]
