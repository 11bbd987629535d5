"""Rows of figures: measured in processes of their own, collected for the JSON file."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import Any

from benchmarks.own_process import measured

Row = dict[str, Any]
"""workload, variant, events, seconds, events_per_second, matches, runs, peak_mb, and what a table adds to them.

`seconds` is None where the time limit `limit_s` ended it.
"""


class WrongMatchesError(AssertionError):
    """A benchmark found another number of matches than the reference states: its figures mean nothing."""


@dataclass
class Figures:
    """All rows so far."""

    rows: list[Row] = field(default_factory=list)

    def measure(
        self,
        workload: str,
        variant: str,
        text: str,
        stream: tuple[str, dict[str, int]],
        *,
        n_matches: int | None = None,
        limit_s: float = 60.0,
        **options: Any,
    ) -> Row:
        """Evaluate a query (see `benchmarks.precise.evaluation.evaluate`) and keep its row.

        Raises WrongMatchesError when it finds another number of matches than `n_matches`.
        """
        arguments = {"text": text, "stream": stream, "variant": variant, "budget_s": limit_s / 2, **options}
        return self.keep(
            workload,
            variant,
            measured("benchmarks.precise.evaluation:evaluate", arguments, limit_s),
            n_matches=n_matches,
            limit_s=limit_s,
        )

    def find(self, workload: str, variant: str) -> Row | None:
        """The row of this workload and variant, if it has been measured."""
        return next((row for row in self.rows if (row["workload"], row["variant"]) == (workload, variant)), None)

    def keep(
        self, workload: str, variant: str, figures: Row | None, *, n_matches: int | None = None, limit_s: float = 0.0
    ) -> Row:
        """Keep a row of these figures; None: not done within `limit_s`."""
        row: Row = {"workload": workload, "variant": variant}
        row |= {"seconds": None, "events_per_second": None, "limit_s": limit_s} if figures is None else figures
        self.rows.append(row)
        print(f"  {workload} {variant}: {rate(row)}", file=sys.stderr, flush=True)
        if figures is not None and n_matches is not None and figures["matches"] != n_matches:
            raise WrongMatchesError(
                f"{workload}, {variant}: found {figures['matches']} matches, the reference has {n_matches}"
            )
        return row


def rate(row: Row | None) -> str:
    """Events per second for people."""
    if row is None:
        return ""
    if row.get("seconds") is None:
        return f"> {row['limit_s']:.0f} s"
    return quantity(row["events_per_second"])


def quantity(number: float | None) -> str:
    """A number in three digits with its unit."""
    if number is None:
        return "did not finish"
    for unit, factor in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(number) >= factor:
            return f"{number / factor:.3g}{unit}"
    return f"{number:.3g}"


def ratio(row: Row, baseline: float | None) -> str:
    """How many times the baseline's events per second; empty when either is not known."""
    if not baseline or row.get("events_per_second") is None:
        return ""
    return f"{row['events_per_second'] / baseline:.3g} x"


__all__ = ["Figures", "Row", "WrongMatchesError", "quantity", "rate", "ratio"]
