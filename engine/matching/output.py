"""What becomes of listed matches: their number is limited, and the limit is reported."""

from __future__ import annotations

from dataclasses import replace

from engine.language import ast
from engine.matching.base import Limits
from engine.matching.rows import MatchRow
from engine.plan.model import Plan


def limit(plan: Plan, limits: Limits) -> int:
    """The most rows that one `advance` returns: LIMIT or `limits.max_rows`, whichever is less.

    The k of TOP k is no such bound: there are k rows in each window.
    """
    if plan.output is ast.Output.TOP:
        return limits.max_rows
    return min(limits.max_rows, plan.limit or limits.max_rows)


def limited(plan: Plan, rows: list[MatchRow], limits: Limits) -> list[MatchRow]:
    """The first rows up to LIMIT and `limits.max_rows`; the last one says so (`capped`) when rows were left out."""
    most = limit(plan, limits)
    if len(rows) <= most:
        return rows
    return [*rows[: most - 1], replace(rows[most - 1], capped=True)]
