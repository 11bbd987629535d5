"""The runtimes of single plans, made as it was decided how these are evaluated (`engine.plan.evaluation`).

A kind of runtime is imported, with its kernels, when the first plan wants it.
"""

from __future__ import annotations

from engine.matching.output.results import Results, TakesMatches
from engine.matching.output.variables import bound_variables, shapes_of
from engine.matching.partial_keys import PartialKeyRuntime, TakenMatches
from engine.matching.protocol import Limits, Movable, Runtime
from engine.plan.automaton.model import AutomatonPlan
from engine.plan.count_windows import needs_whole
from engine.plan.evaluation import BranchEvaluation
from engine.plan.sequence.model import SequencePlan
from engine.stream.interner import Interner


def branch_runtime(
    branch: BranchEvaluation, interner: Interner, limits: Limits, results: TakesMatches | None = None
) -> Runtime:
    """The runtime of one plan; `results`: what becomes of its matches instead of rows."""
    if branch.inner is None:
        return partition_runtime(branch, interner, limits, results)
    plan = branch.plan
    if results is None:
        bound, shapes = bound_variables([plan], plan.variables), shapes_of([plan], plan.variables)
        results = Results(plan, interner, limits, bound, trailing=plan.is_trailing, shapes=shapes)
    taken = TakenMatches()
    runs = partition_runtime(branch.inner, interner, limits, taken)
    whole = needs_whole(plan, plan.match_key)
    return PartialKeyRuntime(plan, interner, limits, results, runs, taken, needs_whole=whole)


def partition_runtime(
    branch: BranchEvaluation, interner: Interner, limits: Limits, results: TakesMatches | None = None
) -> Movable:
    """The runtime of one plan over a stream in which every event of a keyed type has the key of the plan."""
    plan = branch.plan
    if isinstance(plan, AutomatonPlan):
        from engine.matching.automaton.runtime import AutomatonRuntime

        return AutomatonRuntime(plan, interner, limits, results)
    assert isinstance(plan, SequencePlan)
    if branch.pairs is not None:
        from engine.matching.pairs.runtime import PostponedRuntime

        return PostponedRuntime(plan, branch.pairs, interner, limits, results)
    from engine.matching.runs.runtime import NfaRuntime

    return NfaRuntime(plan, interner, limits, results)


__all__ = ["branch_runtime", "partition_runtime"]
