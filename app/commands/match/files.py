"""Matches for programs: Parquet, or a stream of Arrow, written as they are found."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

import pyarrow as pa
import pyarrow.parquet as pq

import engine
from app.commands.match.output import OutputFormat, at_least_one_of
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
        if out is not None and out.is_dir():
            raise AppError(f"--out {out}: found a folder, expected the name of a file")
        with self._told():
            self._file: BinaryIO = sys.stdout.buffer if self._part is None else self._part.open("wb")
        self._sink = _Sink(self._file)
        self._writer: Any = None
        schema, sink = engine.rows_schema(resolved), pa.PythonFile(self._sink, "w")
        begin = pq.ParquetWriter if form is OutputFormat.PARQUET else pa.ipc.new_stream
        with self._whole_or_nothing():
            self._writer = begin(sink, schema)

    def write(self, rows: Sequence[engine.MatchRow] | Sequence[engine.ReferenceRow]) -> None:
        """Add rows."""
        for table in engine.rows_tables(self._resolved, rows, _bounds_of):
            with self._told():
                self._writer.write_table(table)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._give_up()
            return
        with self._whole_or_nothing():
            self._writer.close()
            self._file.flush()
            if self._part is not None and self._out is not None:
                self._file.close()
                self._part.replace(self._out)

    @contextmanager
    def _whole_or_nothing(self) -> Iterator[None]:
        try:
            with self._told():
                yield
        except AppError:
            self._give_up()
            raise

    def _give_up(self) -> None:
        """Without an end, which would make a part look like the whole."""
        self._sink.takes_no_more = True
        if self._writer is not None:
            self._writer.close()
        with suppress(OSError):
            if self._part is None:  # what waits in the buffer is not tried once more when the process ends
                os.dup2(os.open(os.devnull, os.O_WRONLY), self._file.fileno())
            else:
                self._file.close()
        if self._part is not None:
            self._part.unlink(missing_ok=True)

    @contextmanager
    def _told(self) -> Iterator[None]:
        """What the system refuses is a mistake of the user's to mend: a full disk, a folder that is not there."""
        try:
            yield
        except OSError as error:
            place = "standard output" if self._out is None else f"--out {self._out}"
            raise AppError(f"{place}: cannot be written: {error.strerror or error}") from None


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
