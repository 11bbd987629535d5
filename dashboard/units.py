"""Named values on pages: with their units, times in the viewer's zone; all text inert."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pandas as pd

from app.durations import format_duration, format_size
from app.units import unit_of, value_text
from dashboard.text import inert
from dashboard.times import exactly


def shown_value(name: str, value: Any) -> Any:
    """One value by itself: numbers with their unit."""
    return value_text(name, value, exactly)


def shown_cell(name: str, value: Any) -> Any:
    """A value in a column of its name: numbers without a unit stay numbers, which sort as such."""
    if isinstance(value, str):
        return inert(value)
    return value if unit_of(name) is None else shown_value(name, value)


def shown_column(name: str, values: Sequence[Any]) -> list[Any]:
    """All values of a column: one kind of value, so text where any is text."""
    cells = [shown_cell(name, value) for value in values]
    if any(isinstance(cell, str) for cell in cells):
        return [cell if cell is None else inert(cell) for cell in cells]
    return cells


def duration_texts(times_ms: Iterable[float]) -> list[str]:
    """A column of durations in milliseconds; an em dash for NaN."""
    return ["—" if pd.isna(time_ms) else format_duration(time_ms) for time_ms in times_ms]


def size_texts(n_bytes: Iterable[float]) -> list[str]:
    """A column of sizes; an em dash for NaN."""
    return ["—" if pd.isna(n) else format_size(n) for n in n_bytes]


__all__ = ["duration_texts", "shown_cell", "shown_column", "shown_value", "size_texts"]
