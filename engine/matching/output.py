"""How many rows one `advance` returns: more than a bound are never told, or would take the process."""

from __future__ import annotations

from dataclasses import replace

from engine.language import ast
from engine.matching.base import Limits
from engine.matching.rows import MatchRow
from engine.plan.model import Plan


def limit(plan: Plan, limits: Limits) -> int:
    """The most rows that one `advance` returns, the first ones in output order: one more than LIMIT, so that it is
    known whether there are more, or `limits.max_rows`, whichever is less.

    Which of them are told, and of how many steps together, is for `engine.runtime.row_quota`. No such bound is the k of
    TOP k, nor LIMIT where the query has windows of its own: they count in each window.
    """
    query = plan.query
    has_windows = query.slide_ms is not None or query.open_on is not None
    if plan.limit is None or plan.output is ast.Output.TOP or has_windows:
        return limits.max_rows
    return min(limits.max_rows, plan.limit + 1)


def limited(plan: Plan, rows: list[MatchRow], limits: Limits) -> list[MatchRow]:
    """The first rows up to `limit`; the last one says so (`capped`) when rows were left out."""
    most = limit(plan, limits)
    if len(rows) <= most:
        return rows
    return [*rows[: most - 1], replace(rows[most - 1], capped=True)]
