"""Matches for programs: Parquet, or a stream of Arrow, written as they are found."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

import pyarrow as pa
import pyarrow.parquet as pq

import engine
from app.commands.match_output import OutputFormat, at_least_one_of
from app.errors import AppError


class MatchFile:
    """The rows of one query in a file, or on standard output: of one schema, see `engine.rows_schema`.

    A named file is there when all of it is; before that, and after an error, what was there stays.
    """

    def __init__(self, resolved: engine.ResolvedQuery, form: OutputFormat, out: Path | None) -> None:
        """Raises AppError where nothing can be written."""
        self._resolved = resolved
        self._out = out
        self._part = None if out is None else out.with_name(f".{out.name}.{os.getpid()}.part")
        if out is None and sys.stdout.isatty():
            raise AppError(
                f"--format {form}: found a terminal, expected a file; give --out FILE, or redirect the output"
            )
        try:
            self._file: BinaryIO = sys.stdout.buffer if self._part is None else self._part.open("wb")
        except OSError as error:
            raise AppError(f"--out {out}: cannot be written: {error.strerror or error}") from None
        self._sink = _Sink(self._file)
        schema, sink = engine.rows_schema(resolved), pa.PythonFile(self._sink, "w")
        self._writer = (
            pq.ParquetWriter(sink, schema) if form is OutputFormat.PARQUET else pa.ipc.new_stream(sink, schema)
        )

    def write(self, rows: Sequence[engine.MatchRow] | Sequence[engine.ReferenceRow]) -> None:
        """Add rows."""
        for table in engine.rows_tables(self._resolved, rows, _bounds_of):
            self._writer.write_table(table)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._sink.takes_no_more = kind is not None  # no end that would make a part look like the whole
        self._writer.close()
        self._file.flush()
        if self._part is None or self._out is None:
            return
        self._file.close()
        if kind is None:
            self._part.replace(self._out)
        else:
            self._part.unlink()


class _Sink:
    """A file that knows how much was written to it: standard output, which may be a pipe, does not."""

    closed = False
    takes_no_more = False

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._n = 0

    def write(self, data: bytes) -> int:
        self._n += len(data)
        return len(data) if self.takes_no_more else self._file.write(data)

    def tell(self) -> int:
        return self._n

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        """Who has opened it closes it."""


def _bounds_of(row: engine.MatchRow | engine.ReferenceRow) -> tuple[float, float] | None:
    known = at_least_one_of(row)
    return None if known is None else (known.lower, known.upper)


__all__ = ["MatchFile"]
