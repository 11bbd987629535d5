"""How many rows one `advance` returns: more than a bound are never told, or would take the process."""

from __future__ import annotations

from engine.language import ast
from engine.matching.protocol import Limits
from engine.plan.automaton.model import AutomatonPlan
from engine.plan.sequence.model import Plan


def limit(plan: Plan, limits: Limits) -> int:
    """The most rows that one `advance` returns, the first ones in output order: one more than LIMIT, so that it is
    known whether there are more, or `limits.max_rows`, whichever is less.

    Which of them are told, and of how many steps together, is for `engine.runtime.row_quota`. No such bound is the k of
    TOP k, nor LIMIT where the query has windows of its own, which it counts in, or where rows may not come in order.
    """
    query = plan.query
    has_windows = query.slide_ms is not None or query.open_on is not None
    if plan.limit is None or plan.output is ast.Output.TOP or has_windows or ties_by_partition(plan):
        return limits.max_rows
    return min(limits.max_rows, plan.limit + 1)


def ties_by_partition(plan: Plan) -> bool:
    """Whether matches of several partitions may have one first and one last event: the rows of a step have them in the
    order of the partitions then, not of the ids."""
    if isinstance(plan, AutomatonPlan) or plan.is_spread:
        return bool(plan.broadcast or plan.is_spread)
    return bool(plan.key) and {plan.steps[0].event_type, plan.steps[-1].event_type} <= plan.broadcast
