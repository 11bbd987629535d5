"""The text of event logs as Spark compresses them, block by block: a file that grows is read as far as it goes.

Spark closes a zstd frame with each flush; blocks of lz4 (LZ4BlockOutputStream) and snappy (SnappyOutputStream) hold
some ten kilobytes. What a block unpacks to is bounded before it is unpacked, or while it is.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from collectors.base import CollectorError

PIECE_BYTES = 1 << 20
MAX_BLOCK_BYTES = 1 << 25
"""Text of a block of lz4 (its format's most) or snappy."""
MAX_FRAME_BYTES = 1 << 32
"""Text of a zstd frame: what a million tasks tell between two flushes."""

LZ4_MAGIC, SNAPPY_MAGIC, ZSTD_MAGIC = b"LZ4Block", b"\x82SNAPPY\x00", b"\x28\xb5\x2f\xfd"
LZF_BEGINS = re.compile(rb"ZV[\0\x01]")
"""Of what Spark can write, too, and what is not read."""
_LZ4_HEADER = struct.Struct("<8sBiii")
_LZ4_RAW, _LZ4_PACKED = 0x10, 0x20
_SNAPPY_HEADER_BYTES = 16
_SNAPPY_CHUNK = struct.Struct(">I")
_ZSTD_SKIPPABLE = range(0x184D2A50, 0x184D2A60)


class DamagedError(CollectorError):
    """Bytes that are no block of this codec, or one that unpacks to too much."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Some text of a log."""

    block: int
    """Where the block begins that it is of, and where the one behind that does; in bytes of the file."""
    next_block: int
    start: int
    """Bytes of the block's text before it."""
    text: bytes
    is_last: bool
    """Whether it ends its block."""


Pieces = Callable[[bytes, bool], Iterator[Piece]]
"""Of bytes that begin with a block; whether nothing more will be written. A block that is not whole ends them, unless
nothing more comes: what can be told of it then is."""


def codec_of(begin: bytes) -> str:
    """By how a file begins: lz4, snappy, zstd, or "" for plain text."""
    for name, magic in (("lz4", LZ4_MAGIC), ("snappy", SNAPPY_MAGIC), ("zstd", ZSTD_MAGIC)):
        if begin.startswith(magic):
            return name
    return ""


def begin_of_text(data: bytes) -> bytes:
    """Some of the text that compressed or plain `data` begins with; empty when there is none to be had."""
    try:
        return next((piece.text for piece in PIECES[codec_of(data)](data, True) if piece.text), b"")
    except DamagedError:
        return b""


def _plain(data: bytes, _is_over: bool) -> Iterator[Piece]:
    for at in range(0, len(data), PIECE_BYTES):
        text = data[at : at + PIECE_BYTES]
        yield Piece(at, at + len(text), 0, text, True)


def _lz4(data: bytes, _is_over: bool) -> Iterator[Piece]:
    at, codec = 0, pa.Codec("lz4_raw")
    while at + _LZ4_HEADER.size <= len(data):
        magic, token, n_packed, n_bytes, _checksum = _LZ4_HEADER.unpack_from(data, at)
        if magic != LZ4_MAGIC or not 0 <= n_bytes <= MAX_BLOCK_BYTES or not 0 <= n_packed <= MAX_BLOCK_BYTES:
            raise DamagedError(f"no lz4 block at byte {at}")
        begin, end = at + _LZ4_HEADER.size, at + _LZ4_HEADER.size + n_packed
        if end > len(data):
            return
        method = token & 0xF0
        if method == _LZ4_RAW and n_packed == n_bytes:
            text = data[begin:end]
        elif method == _LZ4_PACKED:
            text = _unpacked(codec, data[begin:end], n_bytes, at)
        else:
            raise DamagedError(f"no lz4 block at byte {at}")
        yield Piece(at, end, 0, text, True)
        at = end


def _snappy(data: bytes, _is_over: bool) -> Iterator[Piece]:
    at, codec = 0, pa.Codec("snappy")
    while at + _SNAPPY_CHUNK.size <= len(data):
        if data.startswith(SNAPPY_MAGIC, at):  # of the stream, and of each that was appended to it
            if at + _SNAPPY_HEADER_BYTES > len(data):
                return
            yield Piece(at, at + _SNAPPY_HEADER_BYTES, 0, b"", True)
            at += _SNAPPY_HEADER_BYTES
            continue
        (n_packed,) = _SNAPPY_CHUNK.unpack_from(data, at)
        if n_packed > MAX_BLOCK_BYTES:
            raise DamagedError(f"no snappy block at byte {at}")
        begin, end = at + _SNAPPY_CHUNK.size, at + _SNAPPY_CHUNK.size + n_packed
        if end > len(data):
            return
        text = _unpacked(codec, data[begin:end], _snappy_length(data[begin:end], at), at)
        yield Piece(at, end, 0, text, True)
        at = end


def _snappy_length(packed: bytes, at: int) -> int:
    n_bytes = 0
    for number, byte in enumerate(packed[:5]):
        n_bytes |= (byte & 0x7F) << (7 * number)
        if byte < 0x80:
            if n_bytes > MAX_BLOCK_BYTES:
                break
            return n_bytes
    raise DamagedError(f"no snappy block at byte {at}, or one of more than {MAX_BLOCK_BYTES:,} bytes")


def _unpacked(codec: pa.Codec, packed: bytes, n_bytes: int, at: int) -> bytes:
    if not n_bytes:
        return b""
    try:
        text: bytes = codec.decompress(packed, decompressed_size=n_bytes, asbytes=True)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise DamagedError(f"the block at byte {at} cannot be unpacked") from error
    if len(text) != n_bytes:
        raise DamagedError(f"the block at byte {at} unpacks to {len(text)} bytes, its head says {n_bytes}")
    return text


def _zstd(data: bytes, is_over: bool) -> Iterator[Piece]:
    at = 0
    while at < len(data):
        end = zstd_frame_end(data, at)
        if end is None and not is_over:
            return
        yield from _of_frame(data, at, len(data) if end is None else end, is_whole=end is not None)
        at = len(data) if end is None else end


def frame_pieces(data: bytes) -> Iterator[Piece]:
    """The text of one whole frame of zstd; raises DamagedError."""
    return _of_frame(data, 0, len(data), is_whole=True)


def _of_frame(data: bytes, at: int, end: int, *, is_whole: bool) -> Iterator[Piece]:
    start, before = 0, b""
    if int.from_bytes(data[at : at + 4], "little") in _ZSTD_SKIPPABLE:
        yield Piece(at, end, 0, b"", is_whole)
        return
    try:
        with pa.CompressedInputStream(pa.py_buffer(memoryview(data)[at:end]), "zstd") as stream:
            while text := stream.read(PIECE_BYTES):
                if before:
                    yield Piece(at, end, start, before, False)
                    start += len(before)
                if start + len(text) > MAX_FRAME_BYTES:
                    raise DamagedError(f"the frame at byte {at} unpacks to more than {MAX_FRAME_BYTES:,} bytes")
                before = text
    except (pa.ArrowException, OSError) as error:
        if not is_whole:
            yield Piece(at, end, start, before, False)
            return
        raise DamagedError(f"the frame at byte {at} cannot be unpacked") from error
    yield Piece(at, end, start, before, is_whole)


def zstd_frame_end(data: bytes, at: int) -> int | None:
    """Where the frame (RFC 8878, 3.1) that begins at `at` ends; None when it is not whole. Raises DamagedError."""
    magic = data[at : at + 4]
    if int.from_bytes(magic, "little") in _ZSTD_SKIPPABLE and len(magic) == 4:
        end = at + 8 + int.from_bytes(data[at + 4 : at + 8], "little")
        return end if at + 8 <= len(data) and end <= len(data) else None
    if not ZSTD_MAGIC.startswith(magic):
        raise DamagedError(f"no zstd frame at byte {at}")
    if at + 5 > len(data):
        return None
    descriptor = data[at + 4]
    place, is_whole = zstd_next_block(data, at + _head_bytes(descriptor))
    end = place + (4 if descriptor & 4 else 0)
    return end if is_whole and end <= len(data) else None


def zstd_first_block(data: bytes) -> int | None:
    """Where the first block of the frame begins that `data` begins with; None: that is not to be told yet."""
    if len(data) < 5 or not data.startswith(ZSTD_MAGIC):
        return None
    return _head_bytes(data[4])


def zstd_next_block(data: bytes, place: int) -> tuple[int, bool]:
    """(where the block behind those that are whole begins, whether the last of the frame is among these).

    `place`: where a block begins. Raises DamagedError.
    """
    while place + 3 <= len(data):
        block = int.from_bytes(data[place : place + 3], "little")
        kind = block >> 1 & 3
        if kind == 3:
            raise DamagedError(f"no zstd block at byte {place}")
        end = place + 3 + (1 if kind == 1 else block >> 3)
        if end > len(data):
            break
        if block & 1:
            return end, True
        place = end
    return place, False


def _head_bytes(descriptor: int) -> int:
    """Of a frame before its first block, by the descriptor in its fifth byte."""
    is_single = bool(descriptor & 0x20)
    n_size = (1 if is_single else 0, 2, 4, 8)[descriptor >> 6]
    return 5 + (not is_single) + (0, 1, 2, 4)[descriptor & 3] + n_size


PIECES: Mapping[str, Pieces] = {"": _plain, "lz4": _lz4, "snappy": _snappy, "zstd": _zstd}

__all__ = [
    "LZF_BEGINS",
    "PIECES",
    "DamagedError",
    "Piece",
    "begin_of_text",
    "codec_of",
    "frame_pieces",
    "zstd_first_block",
    "zstd_frame_end",
    "zstd_next_block",
]
