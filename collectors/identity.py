"""Event ids that do not depend on where or when an event was read.

Life-cycle events are identified by their type and their job or attempt; log lines and samples by their logical source,
type, time, attributes and ordinal among identical records. Never by a path or an offset, so the same event read live,
from history or in bulk has one id.
"""

from __future__ import annotations

from hashlib import blake2b

import numpy as np

from engine.events import Float64Array, Int64Array

ID_BYTES = 16

Field = str | int | float | None


def lifecycle_id(event_type: str, subject_id: str) -> str:
    """Id of the one event of `event_type` that a job or attempt has (32 hex digits)."""
    text = f"s{len(event_type)}:{event_type}s{len(subject_id)}:{subject_id}"
    if text.isascii():  # as _digest, without its detours
        return blake2b(text.encode(), digest_size=ID_BYTES).hexdigest()
    return _digest((event_type, subject_id))


def record_id(
    logical_source: tuple[str, ...], event_type: str, t_ms: int, values: tuple[Field, ...], ordinal: int
) -> str:
    """Id of a log record or sample; `ordinal` counts records that are equal in all else, from 0."""
    return _digest((*logical_source, event_type, t_ms, *values, ordinal))


class SeriesIdentity:
    """Ids of the samples of one series; their times are distinct, so there is no ordinal."""

    __slots__ = ("_base",)

    def __init__(self, logical_source: tuple[str, ...], event_type: str) -> None:
        self._base = blake2b(b"".join(_encode(part) for part in (*logical_source, event_type)), digest_size=ID_BYTES)

    def id_of(self, packed_sample: bytes | memoryview) -> str:
        """Id of one sample as `pack_samples` packs it."""
        digest = self._base.copy()
        digest.update(packed_sample)
        return digest.hexdigest()


SAMPLE_BYTES = 16


def pack_samples(t_ms: Int64Array, values: Float64Array) -> memoryview:
    """Time and value of each sample in SAMPLE_BYTES bytes, little-endian, one after another; shapes (n,)."""
    rows = np.empty((len(t_ms), 2), dtype="<i8")
    rows[:, 0] = t_ms
    rows[:, 1] = (np.asarray(values, np.float64) + 0.0).view(np.int64)  # + 0.0: minus zero is zero
    return memoryview(rows.tobytes())


def _digest(fields: tuple[Field, ...]) -> str:
    return blake2b(b"".join(map(_encode, fields)), digest_size=ID_BYTES).hexdigest()


def _encode(value: Field) -> bytes:
    """Type, length and text: no two different sequences of fields have one encoding, whatever the text holds."""
    if isinstance(value, str):
        text = value.encode("utf-8", "surrogateescape")
        return b"s%d:%s" % (len(text), text)
    if value is None:
        return b"n0:"
    text = repr(value).encode()
    return b"%s%d:%s" % (b"i" if isinstance(value, int) else b"f", len(text), text)
