"""Which trend queries may share a graph, with what any of them needs propagated, or the events that they take in."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace

import numpy as np

from engine.events import Int64Array
from engine.plan.trends.model import TrendPlan
from engine.plan.trends.planner import MAX_NUMBERS


def intake_meaning(plan: TrendPlan) -> Hashable:
    """Equal for queries that take the same events into the same states and partitions, whatever their windows and
    whatever they return."""
    programs, templates = plan.programs, (plan.templates.positive, *plan.templates.negated)
    return (
        plan.strategy,
        plan.types,
        plan.breaking,
        plan.ties,
        tuple(template.states for template in templates),
        plan.components,
        plan.reads,
        plan.derived,
        programs.code.tobytes(),
        programs.bounds.tobytes(),
        programs.constants.tobytes(),
        programs.string_constants,
        programs.columns[: plan.n_read_columns],
    )


def graph_meaning(plan: TrendPlan) -> Hashable:
    """Equal for queries whose graphs differ by no more than the numbers that are propagated."""
    return plan.within_ms, plan.slide_ms, window_meaning(plan)


def window_meaning(plan: TrendPlan) -> Hashable:
    """Equal for queries whose graphs differ by no more than windows and the numbers that are propagated."""
    templates = (plan.templates.positive, *plan.templates.negated)
    return (
        intake_meaning(plan),
        plan.query.exact_bits,
        tuple(
            tuple(tuple(sorted(part.items())) for part in (template.starts, template.ends, template.transitions))
            for template in templates
        ),
        tuple(
            tuple((join.source, join.target, join.way, join.compared, join.programs, join.cuts) for join in joins)
            for joins in (plan.joins, *plan.negated_joins)
        ),
        tuple(sorted(plan.templates.positive.taking)),
        plan.end_way,
        plan.instant,
        plan.returning,
    )


def shared_plan(plans: Sequence[TrendPlan], columns: Sequence[str] = ()) -> TrendPlan | None:
    """The plan of a graph for queries of one `graph_meaning`: with the numbers of all of them, with these columns
    beside their own, and told of if one is. None where it would be too large."""
    numbers = tuple(dict.fromkeys(number for plan in plans for number in plan.numbers))
    first = next((plan for plan in plans if plan.has_notice), plans[0])
    read = first.programs.columns[: first.n_read_columns]
    more = {name for plan in plans for name in plan.programs.columns}.union(columns).difference(read)
    found = replace(first, numbers=numbers, programs=replace(first.programs, columns=(*read, *sorted(more))))
    size = len(found.templates.positive.states) * found.n_windows * found.n_numbers
    return found if size <= MAX_NUMBERS else None


def number_positions(own: TrendPlan, shared: TrendPlan) -> Int64Array:
    """Where the numbers of a query are among those of a graph, with their limbs, int64 (own.n_numbers,)."""
    order = [0, *(1 + shared.numbers.index(number) for number in own.numbers)]
    firsts = [shared.first_limbs[position] for position in order]
    return np.array([*order, *(first + limb for first in firsts if first for limb in range(own.n_limbs))], np.int64)


__all__ = ["graph_meaning", "intake_meaning", "number_positions", "shared_plan", "window_meaning"]
