"""Frames of zstd whose text takes several polls: each goes on where it was stopped, and is unpacked once.

A position names the block in which the next line begins, and how much of its text comes before; found again by that
alone, a frame with gigabytes of text would be unpacked from its begin at each poll. What is kept here is memory, no
part of a position: after a restart a frame is unpacked from its begin once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from collectors.spark.codecs import PIECES, Piece, frame_pieces, zstd_first_block, zstd_frame_end, zstd_next_block

MAX_OPEN = 2
"""Frames that are kept, each with its compressed bytes (64 MiB at most) and the text of a line that is not whole."""
MAX_WAITING = 10_000
"""Frames that are still written, of which is known how far their blocks are there."""

_Place = tuple[str, int]
"""Path of a file, and where in it the frame begins."""


class _OpenFrame:
    """A whole frame and how far it is unpacked."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self._source = frame_pieces(data)
        self._kept: list[Piece] = []

    def pieces(self) -> Iterator[Piece]:
        """From the first that is kept on."""
        yield from tuple(self._kept)
        for piece in self._source:
            self._kept.append(piece)
            yield piece

    def forget(self, skip: int) -> None:
        """The first `skip` bytes of its text are not asked for again."""
        self._kept = [piece for piece in self._kept if piece.start + len(piece.text) > skip or piece.is_last]


class OpenFrames:
    """Of all files of a collector."""

    def __init__(self) -> None:
        self._open: dict[_Place, _OpenFrame] = {}
        self._waiting: dict[_Place, int] = {}

    def data_at(self, path: str, block: int) -> bytes | None:
        """The bytes of the frame that is open there; None: none is, the file has to be read."""
        frame = self._open.get((path, block))
        return None if frame is None else frame.data

    def is_waiting(self, path: str, block: int, n_file_bytes: int, read: Callable[[int, int], bytes]) -> bool:
        """Whether the frame that begins there is still written; only what is new of it is looked at.

        `read`: bytes of the file from a place on, so many at most.
        """
        place = self._waiting.get((path, block))
        if place is None:
            return False
        if place >= n_file_bytes:
            return True
        found, is_whole = zstd_next_block(read(place, n_file_bytes - place), 0)
        if is_whole:
            del self._waiting[path, block]
            return False
        self._waiting[path, block] = place + found
        return True

    def pieces(self, path: str, block: int) -> Callable[[bytes, bool], Iterator[Piece]]:
        """As codecs.PIECES, of the bytes of `path` from `block` on."""

        def found(data: bytes, is_over: bool) -> Iterator[Piece]:
            end = zstd_frame_end(data, 0) if data else None
            if end is None:
                self._wait(path, block, data)
                yield from PIECES["zstd"](data, is_over)
                return
            yield from self._frame(path, block, data[:end]).pieces()
            for piece in PIECES["zstd"](data[end:], is_over):
                yield Piece(piece.block + end, piece.next_block + end, piece.start, piece.text, piece.is_last)

        return found

    def settle(self, path: str, before: int, block: int, skip: int) -> None:
        """The next line begins in `block`, behind `skip` bytes of its text; what was asked for last began `before`."""
        if block != before:
            self.discard(path, before)
        elif (frame := self._open.get((path, block))) is not None:
            frame.forget(skip)

    def discard(self, path: str, block: int) -> None:
        """That frame is read no further, or is another one now."""
        self._open.pop((path, block), None)
        self._waiting.pop((path, block), None)

    def _frame(self, path: str, block: int, data: bytes) -> _OpenFrame:
        frame = self._open.pop((path, block), None)
        if frame is None or frame.data != data:
            frame = _OpenFrame(data)
        self._open[path, block] = frame
        while len(self._open) > MAX_OPEN:
            del self._open[next(iter(self._open))]  # the one that was asked for longest ago
        return frame

    def _wait(self, path: str, block: int, data: bytes) -> None:
        first = zstd_first_block(data)
        if first is not None:
            if len(self._waiting) >= MAX_WAITING:
                self._waiting.clear()
            self._waiting[path, block] = block + zstd_next_block(data, first)[0]


__all__ = ["MAX_OPEN", "OpenFrames"]
