"""Which runtime evaluates a query."""

from __future__ import annotations

from engine.errors import QueryError
from engine.language import ast
from engine.matching.base import Limits, Runtime
from engine.matching.baselines import BaselineKind, make_baseline
from engine.matching.interner import Interner
from engine.matching.nfa import NfaRuntime
from engine.matching.postponed import PostponedRuntime
from engine.runtime.compiled import CompiledQuery


def make_runtime(
    query: CompiledQuery, interner: Interner, limits: Limits, baseline: BaselineKind | None = None
) -> Runtime:
    """New run state of `query`; raises QueryError, with the query's name, for what no runtime evaluates.

    `baseline`: one of the papers' baselines instead of what the planner would choose.
    """
    try:
        if baseline is not None:
            return make_baseline(baseline, query.plan, interner, limits)
        if query.plan.strategy is ast.Strategy.SKIP_TILL_ANY_MATCH:
            return PostponedRuntime(query.plan, interner, limits)
        return NfaRuntime(query.plan, interner, limits)
    except QueryError as error:
        error.name = query.name
        raise
