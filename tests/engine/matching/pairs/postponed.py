"""The postponed runtime of a plan, as the planner decides how its pairs are evaluated."""

from __future__ import annotations

from engine.matching.pairs.runtime import PostponedRuntime
from engine.matching.protocol import Limits
from engine.plan.evaluation import pair_evaluators
from engine.plan.model import Plan
from engine.plan.sequence.model import SequencePlan
from engine.stream.interner import Interner


def postponed(plan: Plan, interner: Interner, limits: Limits | None = None) -> PostponedRuntime:
    """New run state of a plain sequence."""
    assert isinstance(plan, SequencePlan)
    return PostponedRuntime(plan, pair_evaluators(plan), interner, limits)


__all__ = ["postponed"]
