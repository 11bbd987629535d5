"""The packets of gmond and gmetric since Ganglia 3.1, in XDR: a value, or what a metric is (metadata).

A number of 4 bytes says which: 128 metadata, 129 to 135 a value as unsigned short, short, int, unsigned int, string,
float or double, 136 a request for metadata. Behind it stand host, name and whether the host is another than the
sender's (then as IP:NAME), of a value a format for printing and the value, of metadata type, name, unit, slope, TMAX,
DMAX and further texts. Texts have their length before them and are filled up to 4 bytes.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass

from collectors.base import CollectorError
from collectors.printable import printable

MAX_BYTES = 8_192
"""gmond sends 1,472 at most (`max_udp_msg_len`)."""
MAX_TEXT_CHARS = 255
METADATA, STRING, REQUEST = 128, 133, 136
_NUMBERS = {129: ">I", 130: ">i", 131: ">i", 132: ">I", 134: ">f", 135: ">d"}
"""In XDR shorts take 4 bytes, too."""


class PacketError(CollectorError):
    """A packet that is none of these; `kind` is a slug for counting."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


@dataclass(frozen=True, slots=True)
class Packet:
    """What every packet says."""

    host: str
    address: str
    """Of a spoofed host; empty where the packet is of its sender."""
    name: str


@dataclass(frozen=True, slots=True)
class Value(Packet):
    """What was measured."""

    value: float | None
    """None: a text that is no number."""


@dataclass(frozen=True, slots=True)
class Metadata(Packet):
    """What a metric is."""

    type: str
    unit: str


def parse_packet(data: bytes) -> Value | Metadata | None:
    """None for a request for metadata, which asks other gmonds; raises PacketError."""
    if len(data) > MAX_BYTES:
        raise PacketError("too_large", f"more than {MAX_BYTES:,} bytes")
    reader = _Xdr(data)
    kind = reader.number(">I")
    if kind == REQUEST:
        return None
    if kind not in {METADATA, STRING, *_NUMBERS}:
        raise PacketError("unknown", f"a packet of kind {kind}; expected 128 to 136, as Ganglia 3.1 and later send")
    host, name, is_spoofed = reader.text(), reader.text(), reader.number(">I")
    address = ""
    if is_spoofed:
        address, _, host = host.rpartition(":")
    if not host or not name:
        raise PacketError("no_name", "a packet without the name of its host or metric")
    host, address = printable(host, MAX_TEXT_CHARS), printable(address, MAX_TEXT_CHARS)
    if kind == METADATA:
        told_type, _ = reader.text(), reader.text()
        return Metadata(host, address, name, told_type, reader.text())
    reader.text()  # the format
    value = _number(reader.text()) if kind == STRING else float(reader.number(_NUMBERS[int(kind)]))
    return Value(host, address, name, value + 0.0 if value is not None and math.isfinite(value) else None)


class _Xdr:
    """Reads one after another; what stands behind is not looked at."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def number(self, form: str) -> int | float:
        try:
            (found,) = struct.unpack_from(form, self._data, self._at)
        except struct.error as error:
            raise PacketError("truncated", f"a packet of {len(self._data)} bytes that is cut") from error
        self._at += struct.calcsize(form)
        return found  # type: ignore[no-any-return]

    def text(self) -> str:
        n_bytes = int(self.number(">I"))
        end = self._at + n_bytes
        if end > len(self._data):
            raise PacketError("truncated", f"a packet of {len(self._data)} bytes that is cut")
        # Packets wait for a poll by the hundred thousand: none has a name that is longer.
        found = self._data[self._at : min(end, self._at + 4 * MAX_TEXT_CHARS)].decode("utf-8", "replace")
        self._at = end + -n_bytes % 4
        return found[:MAX_TEXT_CHARS]


def _number(text: str) -> float | None:
    try:
        return float(text) if len(text) <= 64 else None
    except ValueError:
        return None


__all__ = ["MAX_BYTES", "Metadata", "Packet", "PacketError", "Value", "parse_packet"]
