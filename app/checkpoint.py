"""Checkpoints: the pipeline's memory as one Arrow file, made current by a row in the store.

The file is written, flushed and renamed first; the store's transaction that holds the step's alerts then names it. A
process that dies in between leaves a file that nobody names. So memory and store always belong to the same step.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import ipc

from app.errors import CheckpointError
from app.store.models import CheckpointRow

VERSION = 1

_CONTAINER = pa.schema(
    [pa.field("name", pa.string(), nullable=False), pa.field("stream", pa.large_binary(), nullable=False)]
)
_FILE_NAME = re.compile(r"checkpoint-[0-9]{12}\.arrow(\.part)?")


@dataclass(frozen=True)
class Checkpoint:
    """Everything that a new process needs to go on."""

    number: int
    tables: Mapping[str, pa.Table]
    state: Mapping[str, Any]
    """JSON-able: read positions, watermarks."""


class CheckpointFolder:
    """Where one pipeline's checkpoints are."""

    def __init__(self, folder: Path, pipeline: str, *, durable: bool = True) -> None:
        """Not `durable`: a power cut may lose the file; the death of the process does not."""
        self._durable = durable
        self._folder = folder
        self.pipeline = pipeline

    def write(self, checkpoint: Checkpoint, now_ms: int, epoch: str = "") -> CheckpointRow:
        """Write the file; returns the row that makes it current once its transaction commits."""
        data = _pack(checkpoint)
        name = f"checkpoint-{checkpoint.number:012d}.arrow"
        try:
            self._folder.mkdir(exist_ok=True)  # its parent, the store, is never made anew: it may have been moved away
            _write_atomically(self._folder / name, data, durable=self._durable)
        except OSError as error:
            raise CheckpointError(
                f"the checkpoint {self._folder / name} cannot be written: {error.strerror}"
            ) from error
        return CheckpointRow(
            pipeline=self.pipeline,
            number=checkpoint.number,
            file=name,
            digest=_digest(data),
            version=VERSION,
            written_ms=now_ms,
            epoch=epoch,
        )

    def read(self, row: CheckpointRow) -> Checkpoint:
        """The checkpoint a row names; raises CheckpointError when the file is not what was written."""
        path = self._folder / row.file
        remedy = "remove the row with 'clustercep run --forget-position' to start afresh"
        if row.version != VERSION:
            raise CheckpointError(f"{path}: a checkpoint of version {row.version}; expected {VERSION}; {remedy}")
        try:
            data = path.read_bytes()
        except OSError as error:
            raise CheckpointError(f"{path}: cannot be read: {error.strerror}; {remedy}") from error
        if _digest(data) != row.digest:
            raise CheckpointError(f"{path}: its content is not what was written; {remedy}")
        return _unpack(data, row.number, path)

    def tidy(self, current: int) -> None:
        """Remove files that are older than the current one, and halves of a file."""
        if not self._folder.is_dir():
            return
        for path in self._folder.iterdir():
            if _FILE_NAME.fullmatch(path.name) and path.name != f"checkpoint-{current:012d}.arrow":
                path.unlink(missing_ok=True)


def _pack(checkpoint: Checkpoint) -> bytes:
    streams = []
    for table in checkpoint.tables.values():
        sink = pa.BufferOutputStream()
        with ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        streams.append(sink.getvalue().to_pybytes())
    container = pa.table({"name": list(checkpoint.tables), "stream": streams}, schema=_CONTAINER)
    schema = _CONTAINER.with_metadata({"version": str(VERSION), "state": json.dumps(checkpoint.state)})
    sink = pa.BufferOutputStream()
    with ipc.new_file(sink, schema) as writer:
        writer.write_table(container)
    return bytes(sink.getvalue().to_pybytes())


def _unpack(data: bytes, number: int, path: Path) -> Checkpoint:
    try:
        container = ipc.open_file(pa.BufferReader(data)).read_all()
        names, streams = container.column("name").to_pylist(), container.column("stream")
        tables = {name: ipc.open_stream(streams[i].as_buffer()).read_all() for i, name in enumerate(names)}
        return Checkpoint(number, tables, json.loads(container.schema.metadata[b"state"]))
    except (pa.ArrowInvalid, KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{path}: not a checkpoint: {error}") from error


def _write_atomically(path: Path, data: bytes, *, durable: bool) -> None:
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


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=32).hexdigest()
