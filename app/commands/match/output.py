"""How `clustercep match` prints rows: as JSON lines, or as a table."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from enum import StrEnum
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Self

import engine
from app.durations import format_time
from app.units import value_text
from engine.errors import UnsupportedQueryError

if TYPE_CHECKING:
    from engine import ReferenceRow


_SAME = 1e-12


class OutputFormat(StrEnum):
    """How matches are printed."""

    JSONL = "jsonl"
    TABLE = "table"
    PARQUET = "parquet"
    ARROW = "arrow"


def as_json(row: engine.MatchRow | ReferenceRow) -> dict[str, Any]:
    """A match as DESIGN 3 prints it, with what a row of several matches has besides."""
    if row.window is not None and _is_of_trends(row):
        return _of_trends(row, row.window)
    printed: dict[str, Any] = {
        "bindings": {variable: list(ids) for variable, ids in row.bindings.items()},
        "confidence": float(row.confidence),
        "values": {name: printable(value) for name, value in row.values.items()},
    }
    if row.window is not None:
        printed = {"window_start": row.window[0], "window_end": row.window[1], **printed}
    if row.count != 1 or not row.count_exact or row.candidates is not None:
        printed |= {"count": row.count, "count_exact": row.count_exact}
    printed |= _at_least_one(row)
    if row.candidates is not None:
        candidates = {variable: list(ids) for variable, ids in row.candidates.items()}
        printed |= {"candidates": candidates, "exact": row.exact}
    if row.capped:
        printed["capped"] = True
    return printed


def _of_trends(row: engine.MatchRow | ReferenceRow, window: tuple[int, int]) -> dict[str, Any]:
    """A row about all trends of a window and group, which binds no events."""
    printed: dict[str, Any] = {
        "window_start": window[0],
        "window_end": window[1],
        "group": {name: printable(value) for name, value in row.key},
        "values": {name: printable(value) for name, value in row.values.items()},
    }
    if row.expected is not None:
        return printed | {"expected": str(row.expected)}
    return printed if row.exact else printed | {"exact": False}


def _is_of_trends(row: engine.MatchRow | ReferenceRow) -> bool:
    return row.is_of_trends if isinstance(row, engine.MatchRow) else not row.bindings


def _at_least_one(row: engine.MatchRow | ReferenceRow) -> dict[str, Any]:
    """P(at least one match) of a row that stands for several, where it is not the confidence of the best one."""
    result = at_least_one_of(row)
    if result is None:
        return {}
    printed: dict[str, Any] = {"at_least_one_low": result.lower, "at_least_one_high": result.upper}
    if result.method is engine.Method.ESTIMATE:
        printed["at_least_one_estimate"] = result.estimate
        printed["at_least_one_standard_error"] = result.standard_error
    return printed


def at_least_one_of(row: engine.MatchRow | ReferenceRow) -> engine.AtLeastOne | None:
    """How sure it is that one of the matches behind a row happened; None where its confidence says that already."""
    confidence = float(row.confidence)
    if (row.count == 1 and row.count_exact) or confidence >= 1.0:
        return None
    if isinstance(row, engine.MatchRow):
        result = row.at_least_one()
    elif row.share_with_any is None:
        return None
    else:
        result = _listed(row.share_with_any, confidence)
    return None if abs(result.lower - confidence) + abs(result.upper - confidence) <= _SAME else result


def _listed(share_with_any: Callable[[], Fraction], confidence: float) -> engine.AtLeastOne:
    try:
        share = float(share_with_any())
    except UnsupportedQueryError:  # too many worlds to list
        return engine.AtLeastOne.between(confidence, 1.0)
    return engine.AtLeastOne.between(share, share)


def printable(value: object) -> object:
    """JSON has no NaN and no infinity: text stands for the latter, null for the former."""
    if isinstance(value, float) and value != value:  # noqa: PLR0124 - NaN alone differs from itself
        return None
    return str(value) if value in (float("inf"), float("-inf")) else value


def _plain(value: Any) -> object:
    """Kernels that run uncompiled return NumPy's numbers."""
    return value.item()


def json_text(printed: object) -> str:
    """What `as_json` returns, or a part of it, as it is printed."""
    return json.dumps(printed, allow_nan=False, default=_plain)


def print_json_lines(rows: Sequence[engine.MatchRow | ReferenceRow]) -> None:
    for row in rows:
        sys.stdout.write(json_text(as_json(row)) + "\n")


def print_table(
    rows: Sequence[engine.MatchRow | ReferenceRow], sure: Sequence[engine.AtLeastOne | None] | None = None
) -> None:
    """`sure`: what `at_least_one_of` says of each row, where that is known already."""
    if not rows:
        return
    from rich.console import Console

    from app.tables import Column, number
    from app.tables import print_table as print_cells

    if all(map(_is_of_trends, rows)):
        _print_trends(rows)
        return
    variables = list(dict.fromkeys(variable for row in rows for variable in row.bindings))
    names = list(dict.fromkeys(name for row in rows for name in row.values))
    has_counts = any(row.count != 1 or row.candidates is not None for row in rows)
    has_windows = any(row.window is not None for row in rows)
    sure = [at_least_one_of(row) for row in rows] if sure is None else sure
    columns = [Column(name, least=19, spare=4) for name in ("window_start", "window_end") if has_windows]
    columns += [Column(shown_plain(name), least=6) for name in variables]
    columns += [number("confidence", spare=2), *(Column(shown_plain(name)) for name in names)]
    columns += [number("matches", spare=1)] if has_counts else []
    columns += [Column("at least one match", spare=3)] if any(sure) else []
    told = []
    for row, result in zip(rows, sure, strict=True):
        bound = row.candidates or row.bindings
        cells = [format_time(bound_ms) for bound_ms in row.window or ()]
        cells += [" ".join(engine.flat_ids(bound.get(variable, ()))) for variable in variables]
        cells.append(f"{float(row.confidence):.6g}")
        cells += ["" if row.values.get(name) is None else str(value_text(name, row.values[name])) for name in names]
        cells += [f"{'' if row.count_exact else 'at least '}{row.count}"] if has_counts else []
        cells += [_short(result, float(row.confidence))] if any(sure) else []
        told.append([shown_plain(cell) for cell in cells])
    print_cells(Console(highlight=False), columns, told)


def _print_trends(rows: Sequence[engine.MatchRow | ReferenceRow]) -> None:
    """Rows about all trends of a window and group: what is not exact, or an expected value, says so."""
    from rich.console import Console

    from app.tables import Column
    from app.tables import print_table as print_cells

    groups = [name for name, _ in rows[0].key if name not in rows[0].values]
    names = list(rows[0].values)
    columns = [Column("window_start", least=19), Column("window_end", least=19, spare=1)]
    columns += [Column(shown_plain(name)) for name in (*groups, *names)]
    shown = []
    for row in rows:
        told = {**dict(row.key), **row.values}
        cells = [format_time(bound_ms) for bound_ms in row.window or ()]
        cells += ["" if told[name] is None else str(value_text(name, told[name])) for name in (*groups, *names)]
        cells[-1] += f" ({row.expected})" if row.expected else "" if row.exact else " (rounded)"
        shown.append([shown_plain(cell) for cell in cells])
    print_cells(Console(highlight=False), columns, shown)


def _short(result: engine.AtLeastOne | None, confidence: float) -> str:
    if result is None:
        return f"{confidence:.6g}"
    if result.method is engine.Method.ESTIMATE:
        return f"about {result.estimate:.3g} (standard error {result.standard_error:.1g})"
    exact = result.lower == result.upper
    return f"{result.lower:.6g}" if exact else f"{result.lower:.6g} to {result.upper:.6g}"


def shown_plain(text: str) -> str:
    """Text for a terminal: control characters, which could move its cursor, as question marks."""
    return "".join(character if character.isprintable() else "?" for character in text)


class Printed:
    """Rows that are printed; nothing is to be done at the end."""

    def __init__(self, write: Callable[[Sequence[engine.MatchRow | ReferenceRow]], None]) -> None:
        self.write = write

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        """Nothing was opened."""


PRINTERS: dict[OutputFormat, Callable[[Sequence[engine.MatchRow | ReferenceRow]], None]] = {
    OutputFormat.JSONL: print_json_lines,
    OutputFormat.TABLE: print_table,
}


__all__ = [
    "PRINTERS",
    "OutputFormat",
    "Printed",
    "as_json",
    "at_least_one_of",
    "json_text",
    "print_json_lines",
    "print_table",
    "printable",
    "shown_plain",
]
