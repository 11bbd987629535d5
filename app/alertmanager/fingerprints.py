"""Alertmanager's name of a set of labels: FNV-1a of 64 bits over names and values in order, each ended by 0xff."""

from __future__ import annotations

from collections.abc import Mapping

_OFFSET = 14_695_981_039_346_656_037
_PRIME = 1_099_511_628_211
_MASK = 2**64 - 1
_END = b"\xff"
"""No byte of UTF-8."""


def label_fingerprint(labels: Mapping[str, str]) -> str:
    """In 16 hexadecimal digits; the labels are those that Alertmanager knows, without empty ones."""
    parts: list[bytes] = []
    for name in sorted(labels, key=lambda name: name.encode("utf-8", "replace")):
        parts += name.encode("utf-8", "replace"), _END, labels[name].encode("utf-8", "replace"), _END
    value = _OFFSET
    for byte in b"".join(parts):
        value = ((value ^ byte) * _PRIME) & _MASK
    return f"{value:016x}"


__all__ = ["label_fingerprint"]
