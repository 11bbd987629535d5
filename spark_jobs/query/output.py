"""What becomes of the rows of a query: printed as `clustercep match` does, or written, whole or not at all."""

from __future__ import annotations

import csv
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

import pyarrow as pa

import engine
from app.commands.match.output import print_table
from spark_jobs.match_rows import json_line
from spark_jobs.session import SparkJobError

Batches = Iterable[pa.RecordBatch]
Writer = Callable[[Batches, TextIO], int]
"""Writes rows as they come; returns how many."""


def write_json_lines(batches: Batches, to: TextIO) -> int:
    """The lines that `clustercep match` prints."""
    n_rows = 0
    for batch in batches:
        for row in batch.to_pylist():
            to.write(json_line(row) + "\n")
        to.flush()
        n_rows += batch.num_rows
    return n_rows


class CsvWriter:
    """A column for each part of the key, for each value of RETURN, and for what every row has."""

    _START = ("query", "match_id", "first_ms", "last_ms", "confidence", "at_least_one_low", "at_least_one_high")
    _END = ("count", "count_exact", "bindings")
    _WINDOW = ("window_start_ms", "window_end_ms")

    def __init__(self, query: engine.CompiledQuery) -> None:
        plain = query.resolved.query
        self._has_window = plain.slide_ms is not None or plain.open_on is not None
        self._key = plain.group_by if query.resolved.is_trend else query.resolved.key
        self._more = ("exact", "expected") if query.resolved.is_trend else ()
        self._values = tuple(item.name for item in plain.returns)

    def __call__(self, batches: Batches, to: TextIO) -> int:
        """See `Writer`."""
        lines = csv.writer(to, lineterminator="\n")
        windows = self._WINDOW if self._has_window else ()
        keys = tuple(f"key.{name}" if name in self._values else name for name in self._key)
        lines.writerow([*self._START, *windows, *keys, *self._values, *self._END, *self._more])
        n_rows = 0
        for batch in batches:
            for row in batch.to_pylist():
                key, values = json.loads(row["key"]), json.loads(row["values"])
                cells = [row[name] for name in (*self._START, *windows)]
                cells += [key.get(name) for name in self._key]
                cells += [values.get(name) for name in self._values]
                cells += [row[name] for name in self._END]
                if self._more:
                    told = {"exact": True, **json.loads(f"{{{row['more']}}}")}
                    cells += [told.get(name) for name in self._more]
                lines.writerow(cells)
            to.flush()
            n_rows += batch.num_rows
        return n_rows


def write_table(batches: Batches, to: TextIO) -> int:
    """A table for people; all rows are in memory for it."""
    rows = [row for batch in batches for row in batch.to_pylist()]
    if to is not sys.stdout:
        raise ValueError("a table is for the terminal")
    print_table([as_match_row(row) for row in rows], [_sure(row) for row in rows])
    return len(rows)


def as_match_row(row: dict[str, Any]) -> engine.MatchRow:
    """A row of columns as the engine has it, but for what only the events themselves tell."""
    more = json.loads(f"{{{row['more']}}}") if row["more"] is not None else {}
    window = None if row["window_start_ms"] is None else (row["window_start_ms"], row["window_end_ms"])
    candidates = more.get("candidates")
    return engine.MatchRow(
        query=row["query"],
        key=tuple(json.loads(row["key"]).items()),
        first_lo_ms=row["first_ms"],
        last_hi_ms=row["last_ms"],
        bindings={name: _nested(bound) for name, bound in json.loads(row["bindings"]).items()},
        confidence=row["confidence"],
        values=json.loads(row["values"]),
        count=more.get("count", 1),
        count_exact=more.get("count_exact", True),
        candidates=None if candidates is None else {name: tuple(ids) for name, ids in candidates.items()},
        exact=more.get("exact", True),
        capped=more.get("capped", False),
        window=window,
        expected=None if "expected" not in more else engine.Expectation(more["expected"]),
    )


def _nested(bound: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(each if isinstance(each, str) else _nested(each) for each in bound)


def _sure(row: dict[str, Any]) -> engine.AtLeastOne | None:
    low, high = row["at_least_one_low"], row["at_least_one_high"]
    return None if low == high == row["confidence"] else engine.AtLeastOne.between(low, high)


@contextmanager
def whole_file(path: Path) -> Iterator[TextIO]:
    """A file that is there with all of its rows when the block ends well, and not at all otherwise.

    Raises SparkJobError when it cannot be written.
    """
    name: str | None = None
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            yield file
        Path(name).replace(path)
        name = None
    except OSError as error:
        if isinstance(error, ConnectionError):  # Spark's, whose rows came
            raise
        reason = error.strerror or str(error)
        raise SparkJobError(
            f"{path}: cannot be written: {reason}; nothing of it is there; make room, or name another with --out"
        ) from None
    finally:
        if name is not None:
            Path(name).unlink(missing_ok=True)


__all__ = ["Batches", "CsvWriter", "Writer", "as_match_row", "whole_file", "write_json_lines", "write_table"]
