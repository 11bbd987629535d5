"""How many rows one `advance` returns: more than a bound are never told, or would take the process."""

from __future__ import annotations

from engine.language import ast
from engine.matching.protocol import Limits
from engine.plan.model import Plan


def limit(plan: Plan, limits: Limits) -> int:
    """The most rows that one `advance` returns, the first ones in output order: one more than LIMIT, so that it is
    known whether there are more, or `limits.max_rows`, whichever is less.

    Which of them are told, and of how many steps together, is for `engine.runtime.row_quota`. No such bound is the k of
    TOP k, nor LIMIT where the query has windows of its own, which it counts in, or where rows may not come in order.
    """
    if plan.limit is None or plan.output is ast.Output.TOP or plan.has_windows or plan.ties_by_partition:
        return limits.max_rows
    return min(limits.max_rows, plan.limit + 1)


__all__ = ["limit"]
