"""What becomes of listed matches: their number is limited, and the limit is reported."""

from __future__ import annotations

from dataclasses import replace

from engine.matching.base import Limits
from engine.matching.rows import MatchRow
from engine.plan.model import Plan


def limited(plan: Plan, rows: list[MatchRow], limits: Limits) -> list[MatchRow]:
    """The first rows up to LIMIT and `limits.max_rows`; the last one says so (`capped`) when rows were left out."""
    limit = min(limits.max_rows, plan.limit or limits.max_rows)
    if len(rows) <= limit:
        return rows
    return [*rows[: limit - 1], replace(rows[limit - 1], capped=True)]
