"""How `clustercep match` prints rows: as JSON lines, or as a table."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

import engine

if TYPE_CHECKING:
    from engine import ReferenceRow


class OutputFormat(StrEnum):
    """How matches are printed."""

    JSONL = "jsonl"
    TABLE = "table"


def _as_json(row: engine.MatchRow | ReferenceRow) -> dict[str, Any]:
    """A match as DESIGN 3 prints it, with what a row of several matches has besides."""
    printed: dict[str, Any] = {
        "bindings": {variable: list(ids) for variable, ids in row.bindings.items()},
        "confidence": float(row.confidence),
        "values": {name: _printable(value) for name, value in row.values.items()},
    }
    if row.window is not None:
        printed = {"window_start": row.window[0], "window_end": row.window[1], **printed}
    if row.count != 1 or not row.count_exact or row.candidates is not None:
        printed |= {"count": row.count, "count_exact": row.count_exact}
    if row.candidates is not None:
        candidates = {variable: list(ids) for variable, ids in row.candidates.items()}
        printed |= {"candidates": candidates, "exact": row.exact}
    if row.capped:
        printed["capped"] = True
    return printed


def _printable(value: object) -> object:
    """JSON has no NaN and no infinity: text stands for the latter, null for the former."""
    if isinstance(value, float) and value != value:  # noqa: PLR0124 - NaN alone differs from itself
        return None
    return str(value) if value in (float("inf"), float("-inf")) else value


def _plain(value: Any) -> object:
    """Kernels that run uncompiled return NumPy's numbers."""
    return value.item()


def print_json_lines(rows: Sequence[engine.MatchRow | ReferenceRow]) -> None:
    for row in rows:
        sys.stdout.write(json.dumps(_as_json(row), allow_nan=False, default=_plain) + "\n")


def _print_table(rows: Sequence[engine.MatchRow | ReferenceRow]) -> None:
    if not rows:
        return
    variables = list(dict.fromkeys(variable for row in rows for variable in row.bindings))
    names = list(dict.fromkeys(name for row in rows for name in row.values))
    has_counts = any(row.count != 1 or row.candidates is not None for row in rows)
    has_windows = any(row.window is not None for row in rows)
    table = Table()
    for name in (*(("window_start", "window_end") if has_windows else ()), *variables, "confidence", *names):
        table.add_column(Text(shown_plain(name)))
    if has_counts:
        table.add_column("matches", justify="right")
    for row in rows:
        bound = row.candidates or row.bindings
        cells = [str(bound_ms) for bound_ms in row.window or ()]
        cells += [" ".join(engine.flat_ids(bound.get(variable, ()))) for variable in variables]
        cells.append(f"{float(row.confidence):.6g}")
        cells += ["" if row.values.get(name) is None else str(row.values[name]) for name in names]
        cells += [f"{'' if row.count_exact else 'at least '}{row.count}"] if has_counts else []
        table.add_row(*[Text(shown_plain(cell)) for cell in cells])
    Console(highlight=False).print(table)


def shown_plain(text: str) -> str:
    """Text for a terminal: control characters, which could move its cursor, as question marks."""
    return "".join(character if character.isprintable() else "?" for character in text)


PRINTERS: dict[OutputFormat, Callable[[Sequence[engine.MatchRow | ReferenceRow]], None]] = {
    OutputFormat.JSONL: print_json_lines,
    OutputFormat.TABLE: _print_table,
}


__all__ = ["PRINTERS", "OutputFormat", "print_json_lines", "shown_plain"]
