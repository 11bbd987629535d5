"""Which trend queries of several windows have one graph.

What an event has in a window depends on where the window begins alone, so that windows that begin together have their
numbers in common, however long they are (`engine.kernels.trends.lengths`).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import replace

from engine.plan.trends.model import TrendPlan
from engine.plan.trends.sharing import shared_plan, window_meaning

Window = tuple[int, int]
"""WITHIN and SLIDE, in ms."""

_PER_EVENT = 8
"""What a graph keeps and looks up of an event whatever its windows, in numbers."""


def windows_of(plan: TrendPlan) -> tuple[Window, ...]:
    """That the rows of a graph are about."""
    return plan.windows or ((plan.within_ms, plan.slide_ms),)


def of_window(plan: TrendPlan, window: Window) -> TrendPlan:
    """The plan of a graph as it would be for one of its windows alone, with the numbers of all."""
    within_ms, slide_ms = window
    return replace(plan, within_ms=within_ms, slide_ms=slide_ms, windows=())


def plan_of_windows(plans: Sequence[TrendPlan]) -> TrendPlan | None:
    """The plan of one graph in place of several, which are equal but for windows and numbers. None where it would
    propagate more than they do apart, and where a window's numbers depend on more than its begin: people are told of
    its events, or later events take earlier ones. None, too, where events of negated patterns are kept, of which those
    go first that the longest window has no more."""
    if any(plan.selects or plan.has_notice or plan.keeps_negated for plan in plans):
        return None
    windows = tuple(sorted({window for plan in plans for window in windows_of(plan)}))
    longest, divisor = max(within for within, _ in windows), math.gcd(*(part for window in windows for part in window))
    found = shared_plan(
        [replace(plan, within_ms=longest, slide_ms=divisor, windows=windows) for plan in plans],
        [name for plan in plans for name in plan.programs.columns],
    )
    return found if found is not None and _cost(found) <= sum(map(_cost, plans)) else None


def _cost(plan: TrendPlan) -> int:
    """Of an event, in numbers that it has."""
    return _PER_EVENT + plan.n_windows * plan.n_numbers


def joint_windows(plans: Sequence[TrendPlan]) -> list[tuple[TrendPlan, list[int]]]:
    """The graphs that are made of several, each with the numbers of these."""
    alike: dict[Hashable, list[int]] = {}
    for number, plan in enumerate(plans):
        alike.setdefault(window_meaning(plan), []).append(number)
    found: list[tuple[TrendPlan, list[int]]] = []
    for numbers in alike.values():
        left = sorted(numbers, key=lambda number: (-plans[number].n_windows, windows_of(plans[number])))
        if len(left) > 1 and (whole := plan_of_windows([plans[number] for number in left])) is not None:
            found.append((whole, left))
            continue
        while left:
            first, *others = left
            plan, joint, left = plans[first], [first], []
            for other in others:
                wanted = plan_of_windows([*(plans[number] for number in joint), plans[other]])
                if wanted is None:
                    left.append(other)
                else:
                    plan = wanted
                    joint.append(other)
            if len(joint) > 1:
                found.append((plan, joint))
    return found


__all__ = ["Window", "joint_windows", "of_window", "plan_of_windows", "windows_of"]
