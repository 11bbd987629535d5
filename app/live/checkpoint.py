"""Checkpoints: the pipeline's memory as Arrow files, made current by a row in the store.

The last few are kept: a database that was restored, or whose standby lacked the last steps, may go on from one of them.
One file per step holds what changes; tables that never change are files of their own, written once, and the step's file
says which belong to it, with their digests. All are written, flushed and renamed first; the store's transaction that
holds the step's alerts then names the step's file. A process that dies in between leaves files that nobody names. So
memory and store always belong to the same step.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from operator import attrgetter
from pathlib import Path
from typing import Any

import pyarrow as pa
import structlog
from pyarrow import ipc

from app.alerting.recording.episodes import CreatedAlert
from app.alerting.text import iso
from app.errors import CheckpointError
from app.json_text import json_text
from app.process.private import PRIVATE
from app.store.models import CheckpointRow
from app.store.storable import storable_text

log = structlog.get_logger(__name__)

VERSION = 2
_READABLE = (1, VERSION)
"""Version 1 had no tables that last."""

_CONTAINER = pa.schema(
    [pa.field("name", pa.string(), nullable=False), pa.field("stream", pa.large_binary(), nullable=False)]
)
KEPT = 3
"""Checkpoints that stay, with the current one."""

_FILE_NAME = re.compile(r"(checkpoint-[0-9]{12}\.arrow|told-[0-9]{12}\.json|lasting-[0-9a-f]{64}\.arrow)(\.part)?")
_created_values = attrgetter(*(part.name for part in fields(CreatedAlert)))
_EPOCH = re.compile(r"[0-9a-f]{16}")
"""Anything else in its place is damage, which the digest tells."""
_FIRST = f"checkpoint-{1:012d}.arrow"
_REMEDY = (
    "put back what was there, or start afresh with 'clustercep run --forget-position': what sources still have is read "
    "again, and what the store has is known by its ids"
)


@dataclass(frozen=True)
class Checkpoint:
    """Everything that a new process needs to go on."""

    number: int
    tables: Mapping[str, pa.Table]
    state: Mapping[str, Any]
    """JSON-able: read positions, watermarks."""
    lasting: Mapping[str, pa.Table] = field(default_factory=dict)
    """Tables that never change: whoever has one gives the same object each time, and it is written once."""


class CheckpointFolder:
    """Where one pipeline's checkpoints are."""

    def __init__(self, folder: Path, pipeline: str, *, durable: bool = True) -> None:
        """Not `durable`: a power cut may lose the file; the death of the process does not."""
        self._durable = durable
        self._folder = folder
        self.pipeline = pipeline
        self._lasting: dict[int, tuple[pa.Table, str]] = {}
        """By identity: a table and the digest under which it was written; no other table takes its place meanwhile."""
        self._whole: set[str] = set()
        """Digests of files that this process wrote, or read and found whole."""
        self._named: dict[int, frozenset[str]] = {}
        """By number of a checkpoint: all its files."""

    def write(self, checkpoint: Checkpoint, now_ms: int, epoch: str = "") -> CheckpointRow:
        """Write what is not there yet; returns the row that makes it current once its transaction commits."""
        name = _name(checkpoint.number)
        try:
            # Its parent, the store, is never made anew: it may have been moved away.
            self._folder.mkdir(PRIVATE, exist_ok=True)
            digests = self._write_lasting(checkpoint.lasting)
            data = _pack(checkpoint, digests, epoch)
            _write_atomically(self._folder / name, data, durable=self._durable)
        except OSError as error:
            raise CheckpointError(
                f"the checkpoint {self._folder / name} cannot be written: {error.strerror}"
            ) from error
        self._named[checkpoint.number] = frozenset((name, *map(_lasting_name, digests.values())))
        return CheckpointRow(
            pipeline=self.pipeline,
            number=checkpoint.number,
            file=name,
            digest=_digest(data),
            version=VERSION,
            written_ms=now_ms,
            epoch=epoch,
            place=storable_text(f"{socket.gethostname()}:{self._folder.absolute()}", 4_096),
        )

    def note(self, number: int, told: Sequence[CreatedAlert], *, more: bool = False) -> None:
        """Keep which alerts a step creates, before its transaction commits: were the database to forget it, they would
        be created again, and told under the same ids. `more`: beside those of an earlier transaction of the step."""
        if told:
            path = self._folder / _told_name(number)
            line = json_text([_created_values(alert) for alert in told]).encode()
            try:
                if more and path.exists():
                    _append(path, b"\n" + line, durable=self._durable)
                else:
                    _write_atomically(path, pa.py_buffer(line), durable=self._durable)
            except OSError as error:
                raise CheckpointError(f"{path} cannot be written: {error.strerror}") from error

    def created_after(self, number: int) -> list[CreatedAlert]:
        """The alerts that steps after this one created, as far as they are still kept."""
        told: list[CreatedAlert] = []
        for path in sorted(self._files()):
            if path.match("told-*.json") and path.name > _told_name(number):
                told += _created_in(path)
        return told

    def n_forgotten(self, row: CheckpointRow) -> int:
        """How many steps were committed after a row, at least: the database knows nothing of them."""
        later = self._numbers()
        return max(0, later[-1] - 1 - row.number) if later else 0

    def read(self, row: CheckpointRow) -> Checkpoint:
        """The checkpoint a row names; raises CheckpointError when its files are not what was written."""
        path = self._folder / row.file
        if row.version not in _READABLE:
            raise CheckpointError(f"{path}: a checkpoint of version {row.version}; expected {VERSION}; {_REMEDY}")
        if (refused := self._refusal(row)) is not None:
            raise CheckpointError(refused)
        container = _unpack(_content(path, row.digest), path)
        try:
            metadata = {b"lasting": b"{}"} if row.version == 1 else {}
            metadata |= container.schema.metadata
            digests: Mapping[str, str] = json.loads(metadata[b"lasting"])
            streams = zip(container.column("name").to_pylist(), container.column("stream"), strict=True)
            tables = {name: ipc.open_stream(stream.as_buffer()).read_all() for name, stream in streams}
            state = json.loads(metadata[b"state"])
        except (pa.ArrowInvalid, KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"{path}: not a checkpoint: {error}") from error
        lasting = {name: self._read_lasting(digest) for name, digest in digests.items()}
        self._named[row.number] = frozenset((row.file, *map(_lasting_name, digests.values())))
        return Checkpoint(row.number, tables, state, lasting)

    def refuse_without_row(self) -> None:
        """For a store that knows no checkpoint; raises CheckpointError where one went with another database.

        The file of a first step is there when a process died in it: nothing had been told by then.
        """
        later = [path for path in self._files() if path.name > _FIRST and path.match("checkpoint-*.arrow")]
        if later:
            raise CheckpointError(
                f"{max(later)} is of a database that is not there: the store knows no checkpoint. Put the database "
                "back; or start afresh with 'clustercep run --forget-position': what sources still have is read "
                "again, and alerts that were told before are told again"
            )

    def _refusal(self, row: CheckpointRow) -> str | None:
        """Why the folder and the database do not belong together, if one of them was replaced."""
        path, numbers = self._folder / row.file, self._numbers()
        stands = f"the database stands at checkpoint {row.number} of {iso(row.written_ms)}"
        if not numbers:
            there = f"; it was written to {row.place}: start clustercep there" if row.place else ""
            return f"{stands}, {self._folder} holds none{there}; or {_REMEDY}"
        epoch = self._epoch_of(numbers[-1])
        if _EPOCH.fullmatch(epoch) and row.epoch and epoch != row.epoch:
            return (
                f"{stands}, {self._folder / _name(numbers[-1])} is of another start than the database (it was restored "
                f"from a backup, or is another one); {_REMEDY}"
            )
        if path.exists():
            return None
        if numbers[-1] > row.number:
            return (
                f"{stands}, {self._folder} holds {numbers[0]} to {numbers[-1]}: the database is older, as one restored "
                "from a backup, or a standby that lacked the last steps. Put the newer database back; or start afresh "
                "with 'clustercep run --forget-position': what sources still have is read again, and alerts that were "
                f"told since {iso(row.written_ms)} may be told again"
            )
        return f"{stands}, {self._folder} holds {numbers[0]} to {numbers[-1]}: the folder is older; {_REMEDY}"

    def _epoch_of(self, number: int) -> str:
        return self._metadata(number).get(b"epoch", b"").decode(errors="ignore")

    def _metadata(self, number: int) -> dict[bytes, bytes]:
        """Of a file, without reading it whole; empty when it cannot be read."""
        try:
            with pa.OSFile(str(self._folder / _name(number)), "rb") as file, ipc.open_file(file) as reader:
                return dict(reader.schema.metadata or {})
        except (OSError, pa.ArrowInvalid):
            return {}

    def _files_of(self, number: int) -> frozenset[str]:
        if number not in self._named:
            try:
                digests = json.loads(self._metadata(number).get(b"lasting", b"{}"))
            except ValueError:  # damaged; if it is the current one, reading it says so
                digests = {}
            self._named[number] = frozenset((_name(number), *map(_lasting_name, digests.values())))
        return self._named[number] | {_told_name(number)}

    def _numbers(self) -> list[int]:
        """Of the checkpoints in the folder, ascending."""
        return sorted(int(path.stem[-12:]) for path in self._files() if path.match("checkpoint-*.arrow"))

    def forget(self) -> None:
        """Remove all checkpoints, once their store names none of them."""
        for path in self._files():
            path.unlink(missing_ok=True)
        self._named = {}

    def _files(self) -> list[Path]:
        there = self._folder.iterdir() if self._folder.is_dir() else ()
        return [path for path in there if _FILE_NAME.fullmatch(path.name)]

    def tidy(self, current: int) -> None:
        """Remove what neither the current checkpoint, which was written or read here, names nor those before it that
        are kept."""
        if current not in self._named:
            return
        kept = [number for number in self._numbers() if number <= current][-KEPT:]
        named = frozenset().union(*map(self._files_of, kept))
        self._named = {number: self._named[number] for number in kept}
        for path in self._files():
            if path.name not in named:
                path.unlink(missing_ok=True)

    def _write_lasting(self, tables: Mapping[str, pa.Table]) -> dict[str, str]:
        """Digests by the names of tables; their files are there afterwards, also when somebody had removed one."""
        there = {path.name for path in self._folder.iterdir()}
        known, self._lasting = self._lasting, {}
        digests = {}
        for name, table in tables.items():
            _, digest = known.get(id(table), (table, ""))
            if not digest or _lasting_name(digest) not in there:
                digest = self._write_one(_stream(table), there)
            self._lasting[id(table)] = (table, digest)
            digests[name] = digest
        self._whole &= set(digests.values())
        return digests

    def _write_one(self, data: pa.Buffer, there: set[str]) -> str:
        digest = _digest(data)
        name = _lasting_name(digest)
        # What an earlier process left under the name may be a file that a power cut emptied.
        if digest not in self._whole or name not in there:
            _write_atomically(self._folder / name, data, durable=self._durable)
            self._whole.add(digest)
        return digest

    def _read_lasting(self, digest: str) -> pa.Table:
        path = self._folder / _lasting_name(digest)
        data = _content(path, digest)
        try:
            table = ipc.open_stream(pa.BufferReader(data)).read_all()
        except pa.ArrowInvalid as error:
            raise CheckpointError(f"{path}: not a part of a checkpoint: {error}") from error
        self._whole.add(digest)
        return table


def _name(number: int) -> str:
    return f"checkpoint-{number:012d}.arrow"


def _told_name(number: int) -> str:
    return f"told-{number:012d}.json"


def _created_in(path: Path) -> list[CreatedAlert]:
    """Of all lines: those of each transaction are one. A line that was not written to its end is of none."""
    told: list[CreatedAlert] = []
    try:
        for line in path.read_bytes().split(b"\n"):
            try:
                told += [CreatedAlert(*values) for values in json.loads(line)]
            except (TypeError, ValueError) as error:
                log.warning("alerts that were told before may be told again", file=str(path), reason=str(error))
    except OSError as error:
        log.warning("alerts that were told before may be told again", file=str(path), reason=str(error))
    return told


def _lasting_name(digest: str) -> str:
    return f"lasting-{digest}.arrow"


def _content(path: Path, digest: str) -> bytes:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read: {error.strerror}; {_REMEDY}") from error
    if _digest(data) != digest:
        raise CheckpointError(f"{path}: its content is not what was written; {_REMEDY}")
    return data


def _stream(table: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def _pack(checkpoint: Checkpoint, digests: Mapping[str, str], epoch: str) -> pa.Buffer:
    streams = [_stream(table).to_pybytes() for table in checkpoint.tables.values()]
    container = pa.table({"name": list(checkpoint.tables), "stream": streams}, schema=_CONTAINER)
    described = {
        "version": str(VERSION), "epoch": epoch,
        "state": json.dumps(checkpoint.state), "lasting": json.dumps(digests),
    }  # fmt: skip
    sink = pa.BufferOutputStream()
    with ipc.new_file(sink, _CONTAINER.with_metadata(described)) as writer:
        writer.write_table(container)
    return sink.getvalue()


def _unpack(data: bytes, path: Path) -> pa.Table:
    try:
        return ipc.open_file(pa.BufferReader(data)).read_all()
    except pa.ArrowInvalid as error:
        raise CheckpointError(f"{path}: not a checkpoint: {error}") from error


def _append(path: Path, data: bytes, *, durable: bool) -> None:
    with path.open("ab") as file:
        file.write(data)
        if durable:
            file.flush()
            os.fsync(file.fileno())


def _write_atomically(path: Path, data: pa.Buffer, *, durable: bool) -> None:
    part = path.with_name(path.name + ".part")
    with part.open("wb") as file:
        file.write(data)
        if durable:
            file.flush()
            os.fsync(file.fileno())
    part.replace(path)
    if not durable:
        return
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _digest(data: pa.Buffer | bytes) -> str:
    return hashlib.blake2b(data, digest_size=32).hexdigest()
