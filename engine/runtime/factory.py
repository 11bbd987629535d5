"""The runtime of a query, made as it was decided how the query is evaluated.

A kind of runtime is imported, with its kernels, when the first query wants it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.compiled.query import CompiledQuery
from engine.errors import QueryError, UnsupportedQueryError
from engine.matching.factory import branch_runtime
from engine.matching.protocol import Limits, Runtime
from engine.plan.evaluation import QueryRuntime
from engine.plan.sequence.model import SequencePlan
from engine.stream.interner import Interner

if TYPE_CHECKING:
    from engine.baselines import BaselineKind


def make_runtime(
    query: CompiledQuery, interner: Interner, limits: Limits, baseline: BaselineKind | None = None
) -> Runtime:
    """New run state of `query`; raises QueryError, with the query's name, for what no runtime evaluates.

    `baseline`: one of the papers' baselines instead of what the planner has decided.
    """
    limits = limits.for_one()
    try:
        if baseline is not None:
            from engine.baselines import make_baseline  # for comparison only: nobody else waits for their kernels

            return make_baseline(baseline, _plain(query), interner, limits)
        return _planned(query, interner, limits)
    except QueryError as error:
        error.name = query.name
        raise


def _planned(query: CompiledQuery, interner: Interner, limits: Limits) -> Runtime:
    evaluation = query.evaluation
    match evaluation.runtime:
        case QueryRuntime.COUNT_WINDOWS:
            from engine.matching.count_windows.runtime import CountWindowRuntime

            return CountWindowRuntime(evaluation, query.resolved, interner, limits)
        case QueryRuntime.UNION:
            from engine.matching.union import UnionRuntime

            return UnionRuntime(evaluation, interner, limits)
        case QueryRuntime.TRENDS:
            from engine.plan.trends.model import TrendPlan
            from engine.trends.runtime import TrendRuntime

            assert isinstance(evaluation.plan, TrendPlan)
            return TrendRuntime(evaluation.plan, interner, limits)
        case QueryRuntime.TREND_PAIRS:
            from engine.plan.trends.model import TrendPairPlan
            from engine.trends.pair_runtime import TrendPairRuntime

            assert isinstance(evaluation.plan, TrendPairPlan)
            return TrendPairRuntime(evaluation.plan, interner, limits)
        case QueryRuntime.ONE_PLAN:
            return branch_runtime(evaluation.branches[0], interner, limits)


def _plain(query: CompiledQuery) -> SequencePlan:
    if query.resolved.query.within_events is not None:
        raise UnsupportedQueryError(
            "the baselines evaluate no windows of events",
            query.resolved.query.clause_span("WITHIN"),
            "WITHIN a duration",
            "evaluate it with --runtime auto",
        )
    if len(query.branches) > 1 or not isinstance(query.plan, SequencePlan):
        from engine.baselines import unsupported_pattern

        raise unsupported_pattern(query.resolved.query)
    return query.plan


__all__ = ["make_runtime"]
