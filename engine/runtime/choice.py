"""Which runtime evaluates a query."""

from __future__ import annotations

from engine.errors import QueryError, UnsupportedQueryError
from engine.matching.base import Limits, Runtime
from engine.matching.baselines import BaselineKind, make_baseline
from engine.matching.interner import Interner
from engine.matching.union import UnionRuntime, branch_runtime
from engine.plan.automaton_model import AutomatonPlan
from engine.plan.model import Plan
from engine.runtime.compiled import CompiledQuery


def make_runtime(
    query: CompiledQuery, interner: Interner, limits: Limits, baseline: BaselineKind | None = None
) -> Runtime:
    """New run state of `query`; raises QueryError, with the query's name, for what no runtime evaluates.

    `baseline`: one of the papers' baselines instead of what the planner would choose.
    """
    try:
        if baseline is not None:
            return make_baseline(baseline, _plain(query), interner, limits)
        variables = [name for name, variable in query.resolved.variables.items() if not variable.negated]
        if len(query.branches) > 1 or query.branches[0].variables != tuple(variables):
            return UnionRuntime(query.plan, query.branches, variables, interner, limits)
        return branch_runtime(query.plan, interner, limits)
    except QueryError as error:
        error.name = query.name
        raise


def _plain(query: CompiledQuery) -> Plan:
    if len(query.branches) > 1 or isinstance(query.plan, AutomatonPlan):
        raise UnsupportedQueryError(
            "the baselines evaluate no such pattern",
            query.resolved.query.pattern.span,
            "a SEQ of components and negated single components",
            "evaluate it with --runtime auto",
        )
    return query.plan
