"""Following text files that other programs append to, rotate, cut and replace: complete lines only, each once.

A file is known by device and inode, so one that log4j or logrotate renames is read to its end under its new name. A
file that shrinks, or whose beginning changes, is read again from its start.
"""

from __future__ import annotations

from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any

import pyarrow as pa

from collectors.base import Lasting, ProblemLog
from collectors.files import FoundFile, read_chunks

MAX_LINE_BYTES = 1 << 20
FINGERPRINT_BYTES = 256

SETTLE_AT = 1_000
"""Saved positions that have changed are apart from the others until there are so many, or a quarter of all."""

SCHEMA = pa.schema(
    [
        pa.field("device", pa.uint64(), nullable=False),
        pa.field("inode", pa.uint64(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("n_lines", pa.int64(), nullable=False),
        pa.field("fingerprint", pa.binary(), nullable=False),
        pa.field("n_fingerprint", pa.int32(), nullable=False),
        pa.field("skipping", pa.bool_(), nullable=False),
    ]
)
"""Saved positions; an offset of GONE is that of a file whose position is kept no more."""
GONE = -1

TakeLine = Callable[[bytes, int], bool]
"""Gets a line without its line feed, and its number from 1; False refuses it, and it is offered again next time."""

TakeBlock = Callable[[bytes, int], int]
"""Gets whole lines, the last with its line feed, and the number of the first from 1; returns how many bytes of whole
lines from the first on it has taken, the others are offered again next time."""


@dataclass(slots=True)
class TailPosition:
    """How far a file has been read."""

    offset: int = 0
    n_lines: int = 0
    fingerprint: str = ""
    """Digest of the first `n_fingerprint` bytes."""
    n_fingerprint: int = 0
    skipping: bool = False
    """In the middle of a line that is too long to take."""
    n_looked_at: int = -1
    """Size of the file when all of it had been offered, an unfinished last line excepted."""


@dataclass
class LogTail:
    """The positions of many files."""

    problems: ProblemLog
    begins_record: Callable[[bytes], bool]
    """Whether a line begins as records of such logs do: a file whose first lines all do not is of another kind."""
    expected: str = "begins with a time as Hadoop's log lines do"
    """What that is, in words."""
    positions: dict[str, TailPosition] = field(default_factory=dict)
    goes_on: bool = False
    """Whether `read_new` came further and has left something for next time."""
    _idle: dict[str, tuple[int, int]] = field(default_factory=dict)
    """File that ends in the middle of a line, or holds none -> (its size, since when it has had it)."""
    _settled: pa.Table = field(default_factory=SCHEMA.empty_table)
    _changed: set[str] = field(default_factory=set)
    """Files whose position is not as it is in `_settled`."""

    def has_news(self, file: FoundFile) -> bool:
        """True when the file has bytes that were not read, or fewer than were."""
        position = self.positions.get(file.key)
        if position is None:
            return file.n_bytes > 0
        return file.n_bytes not in (position.offset, position.n_looked_at)

    def read_new(self, files: Iterable[FoundFile], max_bytes: int, read: Callable[[FoundFile, int], int]) -> bool:
        """Read those with news until `max_bytes` have been looked at; whether others had to be left for next time.

        `read` gets a file and how many bytes of it may be looked at, and returns how many were.
        """
        is_behind = came_further = False
        for file in files:
            if not self.has_news(file):
                continue
            if max_bytes <= 0:
                is_behind = True
                continue
            before = self._offset(file)
            max_bytes -= read(file, max_bytes)
            came_further = came_further or self._offset(file) != before
            # The last one, too, may have more than could be looked at.
            is_behind = is_behind or (max_bytes <= 0 and self.has_news(file))
        self.goes_on = is_behind and came_further
        return is_behind

    def _offset(self, file: FoundFile) -> int:
        position = self.positions.get(file.key)
        return 0 if position is None else position.offset

    def read(self, file: FoundFile, max_bytes: int, take: TakeLine) -> int:
        """Offer the complete new lines one by one; returns how many bytes were looked at."""

        def take_block(data: bytes, number: int) -> int:
            n_taken = 0
            for line in data.split(b"\n")[:-1]:
                if not take(line, number):
                    break
                n_taken += len(line) + 1
                number += 1
            return n_taken

        return self.read_blocks(file, max_bytes, take_block)

    def read_blocks(self, file: FoundFile, max_bytes: int, take: TakeBlock) -> int:
        """Offer the complete new lines, many at a time; returns how many bytes were looked at."""
        position = self._position(file)
        self._changed.add(file.key)
        n_looked_at = 0
        tail = b""
        is_known_kind = position.offset > 0
        begins = b""
        for data in read_chunks(
            file.path, position.offset, min(file.n_bytes - position.offset, max_bytes), self.problems
        ):
            if position.offset == 0 and n_looked_at == 0:
                begins = data[: len(BOM_UTF8)]
                position.n_fingerprint = min(FINGERPRINT_BYTES, len(data))
                position.fingerprint = _digest(data[: position.n_fingerprint])
            n_looked_at += len(data)
            whole, tail = _cut(tail + data)
            if whole and position.skipping:
                rest = whole.index(b"\n") + 1
                position.skipping, whole = False, whole[rest:]
                position.offset, position.n_lines = position.offset + rest, position.n_lines + 1
            if whole:
                n_bom = 0
                if not position.offset and whole.startswith(BOM_UTF8):
                    n_bom, whole = len(BOM_UTF8), whole[len(BOM_UTF8) :]
                is_known_kind = is_known_kind or any(map(self.begins_record, whole.split(b"\n")))
                n_taken = take(whole, position.n_lines + 1)
                if n_taken:
                    position.offset += n_taken + n_bom
                    position.n_lines += whole.count(b"\n", 0, n_taken)
                if n_taken < len(whole):
                    return n_looked_at
            if len(tail) > MAX_LINE_BYTES:
                place = f"{file.path}:{position.n_lines + 1}"
                self.problems.report(place, "oversized_record", f"a line longer than {MAX_LINE_BYTES} bytes; skipped")
                position.offset += len(tail)
                position.skipping, tail = True, b""
        if not is_known_kind and (position.n_lines or b"\0" in tail):
            message = f"none of its first {position.n_lines} lines {self.expected}: no log?"
            if begins.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
                message += " It begins as UTF-16 does; expected UTF-8: convert it (iconv -f UTF-16 -t UTF-8)"
            self.problems.report(file.path, "not_log", message, key=(file.key, "form"))
        if position.offset + len(tail) == file.n_bytes:
            position.n_looked_at = file.n_bytes
        return n_looked_at

    def take_up_copy(self, file: FoundFile, others: Iterable[str]) -> None:
        """What was read of one of the files `others`, by key, is not read again in a new file that begins as it did.

        logrotate's copytruncate and rsync leave such copies under another inode.
        """
        if file.key in self.positions:
            return
        known = [self.positions[key] for key in others if key in self.positions]
        copied = [p for p in known if 0 < p.offset <= file.n_bytes and self._begins_as_before(p, file)]
        if copied:
            self.positions[file.key] = replace(max(copied, key=lambda p: p.offset), n_looked_at=-1)
            self._changed.add(file.key)

    def report_idle(self, file: FoundFile, now_ms: int, quiet_ms: int) -> None:
        """Report a file that has stayed empty, or ended in the middle of a line, for `quiet_ms`."""
        position = self.positions.get(file.key)
        if file.n_bytes and (position is None or not position.offset < file.n_bytes == position.n_looked_at):
            self._idle.pop(file.key, None)
            return
        n_bytes, since_ms = self._idle.get(file.key, (-1, 0))
        if n_bytes != file.n_bytes:
            self._idle[file.key] = (file.n_bytes, now_ms)
        elif now_ms - since_ms >= quiet_ms:
            if position is None or not file.n_bytes:
                self.problems.report(file.path, "empty", "it has stayed empty", key=(file.key, "empty"))
            else:
                place = f"{file.path}:{position.n_lines + 1}"
                message = "its last line breaks off; what stands before is used"
                self.problems.report(place, "truncated", message, key=(file.key, "form"))

    def is_idle(self, file: FoundFile, now_ms: int, quiet_ms: int) -> bool:
        """Whether it is empty, or ends in the middle of a line, for less than `quiet_ms`."""
        found = self._idle.get(file.key)
        return found is not None and now_ms - found[1] < quiet_ms

    def keep(self, keys: set[str]) -> None:
        """Forget files that are gone."""
        self.forget(self.positions.keys() - keys)
        self._idle = {key: idle for key, idle in self._idle.items() if key in keys}

    def forget(self, keys: Collection[str]) -> None:
        """These files are gone."""
        for key in keys:
            if self.positions.pop(key, None) is not None:
                self._changed.add(key)
            self._idle.pop(key, None)

    def tables(self) -> dict[str, Lasting | pa.Table]:
        """For a read position: the positions of `SCHEMA` that stay as they are, and those that have changed since."""
        if len(self._changed) > max(SETTLE_AT, self._settled.num_rows // 4):
            self._settled, self._changed = _table(self.positions.items()), set()
        gone = TailPosition(offset=GONE)
        return {
            "settled": Lasting(self._settled),
            "changed": _table((key, self.positions.get(key, gone)) for key in sorted(self._changed)),
        }

    def restore_tables(self, saved: Mapping[str, Any]) -> None:
        """Back from `tables`; raises TypeError, ValueError or KeyError for anything else."""
        settled, changed = (t.table if isinstance(t, Lasting) else t for t in (saved["settled"], saved["changed"]))
        positions = _positions(settled)
        later = _positions(changed)
        positions.update(later)
        self.positions = {key: position for key, position in positions.items() if position.offset != GONE}
        self._settled, self._changed = settled, set(later)

    def to_json(self) -> dict[str, Any]:
        """As JSON-able values."""
        return {
            key: [p.offset, p.n_lines, p.fingerprint, p.n_fingerprint, p.skipping] for key, p in self.positions.items()
        }

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Back from `to_json`; raises TypeError or ValueError for anything else."""
        self._settled, self._changed = SCHEMA.empty_table(), set(saved)
        self.positions = {
            str(key): TailPosition(int(offset), int(n_lines), str(fingerprint), int(n_fingerprint), bool(skipping))
            for key, (offset, n_lines, fingerprint, n_fingerprint, skipping) in saved.items()
        }

    def _position(self, file: FoundFile) -> TailPosition:
        position = self.positions.setdefault(file.key, TailPosition())
        if position.offset > file.n_bytes or not self._begins_as_before(position, file):
            message = "it was cut or replaced; it is read again from its start"
            self.problems.report(file.path, "truncated", message, key=(file.key, "truncated", file.mtime_ns))
            position = self.positions[file.key] = TailPosition()
        return position

    def _begins_as_before(self, position: TailPosition, file: FoundFile) -> bool:
        if position.offset == 0:
            return True
        return (
            _digest(b"".join(read_chunks(file.path, 0, position.n_fingerprint, self.problems))) == position.fingerprint
        )


def _table(positions: Iterable[tuple[str, TailPosition]]) -> pa.Table:
    columns: list[list[Any]] = [[] for _ in SCHEMA]
    for key, p in positions:
        device, _, inode = key.partition(":")
        fingerprint = bytes.fromhex(p.fingerprint)
        row = int(device), int(inode), p.offset, p.n_lines, fingerprint, p.n_fingerprint, p.skipping
        for column, value in zip(columns, row, strict=True):
            column.append(value)
    return pa.table(columns, schema=SCHEMA)


def _positions(table: Any) -> dict[str, TailPosition]:
    if not isinstance(table, pa.Table) or not table.schema.equals(SCHEMA):
        raise ValueError("positions of files in other columns")
    columns = [table.column(name).to_pylist() for name in SCHEMA.names]
    return {
        f"{device}:{inode}": TailPosition(offset, n_lines, fingerprint.hex(), n_fingerprint, skipping)
        for device, inode, offset, n_lines, fingerprint, n_fingerprint, skipping in zip(*columns, strict=True)
    }


def _cut(data: bytes) -> tuple[bytes, bytes]:
    """(whole lines, the beginning of a further one)."""
    end = data.rfind(b"\n") + 1
    return data[:end], data[end:]


def _digest(data: bytes) -> str:
    return blake2b(data, digest_size=16).hexdigest()
