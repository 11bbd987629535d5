"""Bytes that nobody would write: of what is right, with parts that are cut, repeated, exchanged or foreign."""

from __future__ import annotations

import random

MOST_BYTES = 1 << 20

FOREIGN = (
    b"",
    b"\0",
    b"\xff\xfe",
    b"\xef\xbb\xbf",
    b"\r",
    b"\n",
    b"\x1b[31m",
    b"\xed\xa0\x80",
    "\u202e\u2028\u017f\uff11".encode(),
    b"-1",
    b"1e999",
    b"NaN",
    b"null",
    b"{}",
    b"[]",
    b'""',
    b'"',
    b"\\",
    b"\\u0000",
    b"\\ud800",
    b"%s%n",
    b"../../../etc/passwd",
    b"<script>",
    b"9" * 30,
    b"9" * 5_000,
)
"""Put between the bytes, or in place of some."""

NUMBERS = (b"0", b"-1", b"0.5", b"2147483648", b"9223372036854775807", b"9223372036854775808", b"7" * 40)
OPENING = (b"[", b'{"a":', b"(", b"<", b"\\", b"[]{} A ", b"a" * 7, b"\n", b"\0", b"9", b" ", b'"a",', b"{},", b"\t.")
"""Repeated until the text is long."""


def mutated(chosen: random.Random, data: bytes, other: bytes = b"", most_bytes: int = MOST_BYTES) -> bytes:
    """One to six changes; one in eight makes it long."""
    for _ in range(chosen.randint(1, 6)):
        data = _CHANGES[chosen.randrange(len(_CHANGES))](chosen, data, other)
    if chosen.randrange(8) == 0:
        data = _lengthened(chosen, data, most_bytes)
    return data[:most_bytes]


def _span(chosen: random.Random, data: bytes, longest: int = 400) -> tuple[int, int]:
    start = chosen.randint(0, len(data))
    return start, min(len(data), start + chosen.choice((0, 1, 1, 2, 8, 64, longest)))


def _exchanged(chosen: random.Random, data: bytes, other: bytes) -> bytes:
    start, end = _span(chosen, data)
    return data[:start] + chosen.choice(FOREIGN) + data[end:]


def _flipped(chosen: random.Random, data: bytes, other: bytes) -> bytes:
    if not data:
        return data
    changed = bytearray(data)
    for _ in range(chosen.randint(1, 8)):
        changed[chosen.randrange(len(changed))] = chosen.randrange(256)
    return bytes(changed)


def _repeated(chosen: random.Random, data: bytes, other: bytes) -> bytes:
    start, end = _span(chosen, data)
    return data[:start] + data[start:end] * chosen.choice((2, 3, 50)) + data[end:]


def _moved(chosen: random.Random, data: bytes, other: bytes) -> bytes:
    (start, end), at = _span(chosen, data), chosen.randint(0, len(data))
    return data[:at] + data[start:end] + data[at:]


def _crossed(chosen: random.Random, data: bytes, other: bytes) -> bytes:
    start, end = _span(chosen, other, 4_000)
    at = chosen.randint(0, len(data))
    return data[:at] + other[start:end] + data[at:]


def _cut(chosen: random.Random, data: bytes, other: bytes) -> bytes:
    return data[: chosen.randint(0, len(data))]


def _number(chosen: random.Random, data: bytes, other: bytes) -> bytes:
    """Another number in place of one."""
    places = [i for i in range(len(data)) if data[i : i + 1].isdigit()] if len(data) < 50_000 else []
    if not places:
        return data
    start = chosen.choice(places)
    end = start + 1
    while data[end : end + 1].isdigit():
        end += 1
    value = chosen.choice(
        (b"0", b"-1", b"2147483648", b"9223372036854775807", b"9223372036854775808", b"0.5", b"7" * 40)
    )
    return data[:start] + value + data[end:]


def _lengthened(chosen: random.Random, data: bytes, most_bytes: int) -> bytes:
    start, end = _span(chosen, data, 64)
    unit = chosen.choice((*OPENING, data[start:end] or b"x"))
    length = chosen.choice((10_000, 100_000, most_bytes))
    return data[:start] + unit * (length // len(unit)) + data[start:]


_CHANGES = (_exchanged, _exchanged, _flipped, _repeated, _moved, _crossed, _cut, _number, _number)

__all__ = ["MOST_BYTES", "mutated"]
