"""Which ids were seen, until when: sorted panes of 24 bytes per id, each written once.

Ids come in by the step; one open pane takes them until it is full, then it is sealed and never changes again. So what a
step has to write is the open pane, however many ids are remembered, and looking one up is a binary search per pane.
An id falls out at its own time; a pane of which less than half is left is dissolved, what is left of it goes through
the open one once more. So what is kept is at most twice what is remembered.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from engine.events import FOREVER_MS, BoolArray, Int64Array

Uint64Array = np.ndarray[tuple[int], np.dtype[np.uint64]]
ByteMatrix = np.ndarray[tuple[int, int], np.dtype[np.uint8]]

SCHEMA = pa.schema(
    [
        pa.field("high", pa.uint64(), nullable=False),
        pa.field("low", pa.uint64(), nullable=False),
        pa.field("until_ms", pa.int64(), nullable=False),
    ]
)
"""An id's 128 bits, in two halves, and the last watermark at which it is remembered."""

PANE_IDS = 16_384
"""A pane of this many ids is sealed: at most 393 kB are written again in the next step."""

OPEN, SEALED = "open", "sealed-"
"""Names of saved panes."""

_HEX_CHARS = 32
_NO_DIGIT = 255
_DIGITS = np.full(256, _NO_DIGIT, np.uint8)
_DIGITS[np.frombuffer(b"0123456789abcdef", np.uint8)] = np.arange(16)
_PASSED = b"passed_ms"


@dataclass(frozen=True)
class Keys:
    """128 bits per id."""

    high: Uint64Array
    low: Uint64Array

    def __len__(self) -> int:
        return len(self.high)


class Pane:
    """Ids in the order of their bits; never changed."""

    def __init__(self, table: pa.Table) -> None:
        """`table`: of SCHEMA, sorted by `high`."""
        self.table = table.combine_chunks()
        self.keys = Keys(_numbers(self.table, "high"), _numbers(self.table, "low"))
        self.until_ms: Int64Array = _numbers(self.table, "until_ms")
        middle = len(self) // 2
        self.half_until_ms = int(np.partition(self.until_ms, middle)[middle]) if len(self) else FOREVER_MS
        """The last watermark at which at least half of the pane is remembered."""

    def __len__(self) -> int:
        return len(self.until_ms)

    def n_alive(self, passed_ms: int) -> int:
        """How many are remembered at this watermark."""
        return int(np.count_nonzero(self.until_ms >= passed_ms))

    def alive(self, passed_ms: int) -> pa.Table:
        """Those that are remembered at this watermark."""
        return self.table.filter(pa.array(self.until_ms >= passed_ms))

    def mark(self, keys: Keys, passed_ms: int, found: BoolArray) -> None:
        """Set `found` where a key is here and remembered; keys in the order of `high` are found quickest."""
        place = np.searchsorted(self.keys.high, keys.high)
        candidates = np.flatnonzero(place < len(self))
        while len(candidates):
            at = place[candidates]
            same = self.keys.high[at] == keys.high[candidates]
            candidates, at = candidates[same], at[same]
            hit = (self.keys.low[at] == keys.low[candidates]) & (self.until_ms[at] >= passed_ms)
            found[candidates[hit]] = True
            # Of equal first halves (of one id that was forgotten and came again, or by chance) the next may be it.
            place[candidates] += 1
            candidates = candidates[~hit & (at + 1 < len(self))]


class RememberedIds:
    """A set of ids that fall out at times of their own."""

    def __init__(self, pane_ids: int = PANE_IDS) -> None:
        """`pane_ids`: a pane of so many is sealed."""
        self._pane_ids = pane_ids
        self._open = Pane(SCHEMA.empty_table())
        self._sealed: list[Pane] = []
        self._passed_ms = -FOREVER_MS

    def __len__(self) -> int:
        return sum(pane.n_alive(self._passed_ms) for pane in self._panes())

    @property
    def n_kept(self) -> int:
        """With those that are forgotten, but whose pane is not dissolved yet."""
        return sum(map(len, self._panes()))

    def hold(self, ids: pa.ChunkedArray | pa.Array) -> BoolArray:
        """Per id (a string) whether it is remembered."""
        found = np.zeros(len(ids), np.bool_)
        if not len(ids) or not self.n_kept:
            return found
        keys = keys_of(ids)
        order = np.argsort(keys.high)
        keys, in_order = Keys(keys.high[order], keys.low[order]), np.zeros(len(ids), np.bool_)
        for pane in self._panes():
            pane.mark(keys, self._passed_ms, in_order)
        found[order] = in_order
        return found

    def add(self, ids: pa.ChunkedArray | pa.Array, until_ms: pa.ChunkedArray | pa.Array) -> None:
        """Remember ids as long as the watermark is at most `until_ms` (int64, per id)."""
        if len(ids):
            keys = keys_of(ids)
            self._take(pa.table([pa.array(keys.high), pa.array(keys.low), until_ms], schema=SCHEMA))

    def go_back(self, watermark_ms: int) -> None:
        """The watermark was ahead: ids are remembered by this one; those of dissolved panes are gone."""
        self._passed_ms = min(self._passed_ms, watermark_ms)

    def forget(self, watermark_ms: int) -> None:
        """Those whose time is before the watermark are not remembered any more."""
        self._passed_ms = max(self._passed_ms, watermark_ms)
        dissolved = [pane for pane in self._sealed if pane.half_until_ms < self._passed_ms]
        self._sealed = [pane for pane in self._sealed if pane.half_until_ms >= self._passed_ms]
        if self._open.half_until_ms < self._passed_ms:
            self._open = Pane(self._open.alive(self._passed_ms))
        for pane in dissolved:
            self._take(pane.alive(self._passed_ms))

    def _take(self, table: pa.Table) -> None:
        self._open = Pane(_sorted(pa.concat_tables([self._open.table, table])))
        if len(self._open) >= self._pane_ids:
            self._open = Pane(self._open.alive(self._passed_ms))
        if len(self._open) >= self._pane_ids:
            self._sealed.append(self._open)
            self._open = Pane(SCHEMA.empty_table())

    def _panes(self) -> Iterator[Pane]:
        yield from self._sealed
        yield self._open

    def save(self) -> pa.Table:
        """What changes with each step; `sealed` has the rest."""
        return self._open.table.replace_schema_metadata({_PASSED: str(self._passed_ms)})

    def sealed(self) -> dict[str, pa.Table]:
        """The tables of the sealed panes; of a pane it is the same object each time."""
        return {f"{SEALED}{number}": pane.table for number, pane in enumerate(self._sealed)}

    def restore(self, opened: pa.Table, sealed: Mapping[str, pa.Table]) -> None:
        """Take over what `save` and `sealed` returned; raises KeyError or ValueError when it is something else."""
        self._passed_ms = int((opened.schema.metadata or {})[_PASSED])
        panes = [_checked(table) for table in (opened, *sealed.values())]
        self._open, *self._sealed = (Pane(table) for table in panes)


def keys_of(ids: pa.ChunkedArray | pa.Array) -> Keys:
    """The bits of ids: 32 small hexadecimal digits are themselves, all else is hashed (BLAKE2b)."""
    if isinstance(ids, pa.ChunkedArray):
        ids = ids.combine_chunks()
    digits = _hex_digits(ids)
    if digits is not None:
        values = _DIGITS[digits]
        is_hex = (values != _NO_DIGIT).all(axis=1)
        packed = (values[:, 0::2] << 4) | values[:, 1::2]
        for row in np.flatnonzero(~is_hex):
            packed[row] = np.frombuffer(_hashed(ids[row].as_py()), np.uint8)
        joined = np.ascontiguousarray(packed)
    else:
        texts = (bytes.fromhex(text) if _is_hex(text) else _hashed(text) for text in ids.to_pylist())
        joined = np.frombuffer(b"".join(texts), np.uint8)
    halves = joined.view(">u8").reshape(-1, 2).astype(np.uint64)
    return Keys(np.ascontiguousarray(halves[:, 0]), np.ascontiguousarray(halves[:, 1]))


def _hex_digits(ids: pa.Array) -> ByteMatrix | None:
    """The characters of ids that all have 32 bytes, uint8 (n, 32); None otherwise."""
    _, offsets_buffer, data = ids.buffers()
    if data is None or not pa.types.is_string(ids.type):
        return None
    offsets = np.frombuffer(offsets_buffer, np.int32)[ids.offset : ids.offset + len(ids) + 1]
    if not (np.diff(offsets) == _HEX_CHARS).all():
        return None
    return np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]].reshape(-1, _HEX_CHARS)


def _is_hex(text: str) -> bool:
    return len(text) == _HEX_CHARS and all(char in "0123456789abcdef" for char in text)


def _hashed(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16, person=b"clustercep-id").digest()


def _sorted(table: pa.Table) -> pa.Table:
    order = np.argsort(_numbers(table.combine_chunks(), "high"), kind="stable")
    return table.take(pa.array(order)).combine_chunks()


def _checked(table: pa.Table) -> pa.Table:
    plain = table.select(SCHEMA.names).replace_schema_metadata(None).cast(SCHEMA)
    high = _numbers(plain.combine_chunks(), "high")
    if (high[1:] < high[:-1]).any():
        raise ValueError("remembered ids that are not in order")
    return plain


def _numbers(table: pa.Table, name: str) -> Any:
    """A column as it is stored: int64 or uint64."""
    return table.column(name).to_numpy()
