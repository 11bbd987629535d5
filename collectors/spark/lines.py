"""The lines of a log from a position on, and the position behind the last one that was taken."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from collectors.spark.codecs import PIECES, Piece, Pieces

MAX_LINE_BYTES = 1 << 25
"""A job of some ten thousand stages has its line; settings and plans of queries have long ones, too."""

_BLANK_LINES = re.compile(rb"(?:[ \t\r]*+\n)++")
"""Possessive: to be able to give back, 32 MiB of line breaks would take 3.8 GiB."""

TakeLine = Callable[[bytes, int], bool]
"""Gets a line without its line feed, and its number from 1; False refuses it, and it is offered again next time. Blank
lines are counted; most of them are not offered."""


@dataclass(slots=True)
class LinePosition:
    """How far a file has been read. Nothing of a line that is not whole is kept: it may hold secrets."""

    block: int = 0
    """Where the block begins in which the next line does."""
    skip: int = 0
    """Bytes of that block's text before the line."""
    n_lines: int = 0
    skipping: bool = False
    """In the middle of a line that is too long to take."""

    def to_json(self) -> list[Any]:
        """For a read position."""
        return [self.block, self.skip, self.n_lines, self.skipping]

    @classmethod
    def of_json(cls, saved: Sequence[Any]) -> LinePosition:
        """Back from `to_json`; raises TypeError or ValueError for anything else."""
        block, skip, n_lines, skipping = saved
        if min(int(block), int(skip), int(n_lines)) < 0:
            raise ValueError("a position before the start of a file")
        return cls(int(block), int(skip), int(n_lines), bool(skipping))


@dataclass(frozen=True, slots=True)
class ReadLines:
    """What `read_lines` found."""

    n_bytes: int
    """Of text that was looked at."""
    is_refused: bool = False
    """Whether a line was refused."""
    n_oversized: int = 0
    is_at_end: bool = False
    """Whether all whole blocks were looked at."""
    n_left: int = 0
    """Bytes of text behind the last line: of one that is not whole."""


def read_lines(
    codec: str,
    data: bytes,
    position: LinePosition,
    take: TakeLine,
    *,
    is_over: bool = False,
    max_bytes: int,
    max_line_bytes: int = MAX_LINE_BYTES,
    pieces: Pieces | None = None,
) -> ReadLines:
    """Offer the whole lines of `data`, which begins at `position.block` of the file; moves the position on.

    `is_over`: nothing more will be written, so that a last line without its line feed is one. At most `max_bytes` of
    text are looked at, and the piece that they end in. `pieces`: in place of those of the codec. Raises DamagedError
    where a block cannot be read, with all lines before it taken.
    """
    base = position.block
    skip, tail, n_tail, n_bytes, n_oversized = position.skip, list[bytes](), 0, 0, 0
    first, piece = (position.block, position.skip), None
    for piece in (pieces or PIECES[codec])(data, is_over):
        text = piece.text
        if piece.block == 0 and piece.start + len(text) < skip:
            continue  # was read
        begin = min(max(skip - piece.start, 0), len(text)) if piece.block == 0 else 0
        n_bytes += len(text) - begin
        while (end := text.find(b"\n", begin)) >= 0:
            if not tail and not position.skipping and (blank := _BLANK_LINES.match(text, begin)) is not None:
                # A file of nothing else costs no call for each.
                position.n_lines += text.count(b"\n", begin, blank.end())
                begin = blank.end()
                _move(position, base, piece, begin, codec)
                continue
            if position.skipping:
                position.skipping = False
            else:
                line = b"".join((*tail, text[begin:end]))
                if len(line) > max_line_bytes:
                    n_oversized += 1
                elif not take(line, position.n_lines + 1):
                    return ReadLines(n_bytes, True, n_oversized)
            tail, n_tail, begin = [], 0, end + 1
            position.n_lines += 1
            _move(position, base, piece, begin, codec)
        if begin < len(text):
            tail.append(text[begin:])
            n_tail += len(text) - begin
        if n_tail > max_line_bytes or (position.skipping and n_tail):
            n_oversized += not position.skipping
            position.skipping, tail, n_tail = True, [], 0
            _move(position, base, piece, len(text), codec)
        elif not n_tail:
            _move(position, base, piece, len(text), codec)  # past blocks without a text, too
        if n_bytes >= max_bytes and (position.block, position.skip) != first:
            return ReadLines(n_bytes, False, n_oversized)
    if is_over and piece is not None and tail and tail[-1].endswith(b"}"):
        if not take(b"".join(tail), position.n_lines + 1):
            return ReadLines(n_bytes, True, n_oversized)
        position.n_lines, n_tail = position.n_lines + 1, 0
        _move(position, base, piece, len(piece.text), codec)
    return ReadLines(n_bytes, False, n_oversized, True, n_tail)


def _move(position: LinePosition, base: int, piece: Piece, end: int, codec: str) -> None:
    """The next line begins behind `end` bytes of the piece."""
    if not codec:
        position.block, position.skip = base + piece.block + end, 0
    elif piece.is_last and end == len(piece.text):
        position.block, position.skip = base + piece.next_block, 0
    else:
        position.block, position.skip = base + piece.block, piece.start + end


__all__ = ["LinePosition", "ReadLines", "read_lines"]
