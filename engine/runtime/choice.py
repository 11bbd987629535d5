"""Which runtime evaluates a query."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.compiled.query import CompiledQuery
from engine.errors import QueryError, UnsupportedQueryError
from engine.matching.count_windows.runtime import CountedRuntime
from engine.matching.protocol import Limits, Runtime
from engine.matching.union import UnionRuntime, branch_runtime
from engine.plan.sequence.model import Plan
from engine.stream.interner import Interner

if TYPE_CHECKING:
    from engine.baselines import BaselineKind


def make_runtime(
    query: CompiledQuery, interner: Interner, limits: Limits, baseline: BaselineKind | None = None
) -> Runtime:
    """New run state of `query`; raises QueryError, with the query's name, for what no runtime evaluates.

    `baseline`: one of the papers' baselines instead of what the planner would choose.
    """
    limits = limits.for_one()
    try:
        if baseline is not None:
            from engine.baselines import make_baseline  # for comparison only: nobody else waits for their kernels

            return make_baseline(baseline, _plain(query), interner, limits)
        if query.resolved.query.within_events is None:
            return _of_times(query, interner, limits)
        return CountedRuntime(query.plan, query.branches, query.resolved, interner, limits)
    except QueryError as error:
        error.name = query.name
        raise


def _variables(query: CompiledQuery) -> tuple[str, ...]:
    """The positive variables in textual order."""
    return tuple(name for name, variable in query.resolved.variables.items() if not variable.negated)


def _of_times(query: CompiledQuery, interner: Interner, limits: Limits) -> Runtime:
    """The runtime of a window in time."""
    variables = _variables(query)
    if len(query.branches) > 1 or query.branches[0].variables != variables:
        return UnionRuntime(query.plan, query.branches, variables, interner, limits)
    return branch_runtime(query.plan, interner, limits)


def _plain(query: CompiledQuery) -> Plan:
    if query.resolved.query.within_events is not None:
        raise UnsupportedQueryError(
            "the baselines evaluate no windows of events",
            query.resolved.query.clause_span("WITHIN"),
            "WITHIN a duration",
            "evaluate it with --runtime auto",
        )
    if len(query.branches) > 1:
        from engine.baselines import unsupported_pattern

        raise unsupported_pattern(query.resolved.query)
    return query.plan
