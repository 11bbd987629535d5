"""What a query will do, as text: its NFAb, where each predicate is evaluated and why, partitions, runtime and cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from engine.language import ast
from engine.language.printer import print_expression
from engine.language.reading import Start
from engine.language.resolver import ResolvedQuery
from engine.plan.automaton.explain import explain_automaton
from engine.plan.automaton.model import AutomatonPlan
from engine.plan.evaluation import BranchEvaluation, QueryEvaluation
from engine.plan.exact_times import exact_times, left_out_for
from engine.plan.model import Consistency, EdgePredicates, Plan
from engine.plan.trends.explain import explain_pairs, explain_trends
from engine.plan.trends.model import TrendPairPlan, TrendPlan

_IGNORE = {
    ast.Strategy.SKIP_TILL_ANY_MATCH: "always",
    ast.Strategy.SKIP_TILL_NEXT_MATCH: "what it does not take; before it is begun, what cannot begin it",
    ast.Strategy.PARTITION_CONTIGUITY: "events of other partitions alone",
    ast.Strategy.STRICT_CONTIGUITY: "nothing",
}

_WHEN = {
    Consistency.TRUE_FALSE: "decided on arrival",
    Consistency.TRUE: "true on all selected events is final (SAFE); false is decided when matches are built",
    Consistency.FALSE: "false on all selected events is final; true is decided when matches are built",
    Consistency.INCONSISTENT: "decided when matches are built",
}


def explain(evaluation: QueryEvaluation, resolved: ResolvedQuery, producers: Sequence[str] = ()) -> str:
    """How a query is evaluated, for people; one fact per line. `producers`: the queries whose matches it uses."""
    if isinstance(evaluation.plan, TrendPlan | TrendPairPlan):
        return "\n".join([*_of_trends(evaluation.plan, evaluation, resolved)]) + "\n"
    head, branches = evaluation.plan, evaluation.branches
    lines = [
        f"query      {resolved.name}",
        f"strategy   {head.strategy.value}",
        f"window     {_window(head)}",
        f"ties       {_ties(head)}",
        f"times      {_times(resolved.query)}",
        f"skew       {_skew(head)}",
        f"output     {_output(head)}",
    ]
    if producers:
        lines.append(f"matches    of {', '.join(producers)}: {_entering(resolved)}")
    if len(branches) > 1:
        lines.append(f"union      of {len(branches)} plans; equal bindings appear once")
    for number, branch in enumerate(branches, start=1):
        lines += [f"plan {number}     {', '.join(branch.plan.variables)}"] if len(branches) > 1 else []
        lines += _branch(branch)
    lines.append(f"threads    {evaluation.explain_threads()}")
    lines.append(f"overload   drops {evaluation.explain_shedding()}")
    readings = [r.sentence for r in resolved.reading if r.start is not Start.PER_MATCH or r.context]
    lines += ["readings", *(f"  {sentence}" for sentence in readings)] if readings else []
    if resolved.parameters:
        lines.append(f"parameters {_parameters(resolved)}")
    return "\n".join(lines) + "\n"


def _of_trends(plan: TrendPlan | TrendPairPlan, evaluation: QueryEvaluation, resolved: ResolvedQuery) -> Iterator[str]:
    yield f"query      {resolved.name}"
    yield f"strategy   {plan.strategy.value}"
    yield f"ties       {_ties(plan)}"
    yield f"times      {_times(resolved.query)}"
    yield f"runtime    {evaluation.branches[0].runtime.summary}"
    yield from explain_pairs(plan) if isinstance(plan, TrendPairPlan) else explain_trends(plan)
    yield f"threads    {evaluation.explain_threads()}"
    yield f"overload   drops {evaluation.explain_shedding()}"
    if resolved.parameters:
        yield f"parameters {_parameters(resolved)}"


def _parameters(resolved: ResolvedQuery) -> str:
    return ", ".join(f"{name} = {value}" for name, value in sorted(resolved.parameters.items()))


def _times(query: ast.Query) -> str:
    needed = exact_times(query)
    if needed is None:
        return (
            "exact ones, or intervals: counts and sums are expected values then; others are left out and counted: "
            f"{left_out_for(query)}"
            if query.is_trend
            else "exact ones, or intervals: every match has a confidence"
        )
    return f"exact ones alone, other events are left out and counted: {left_out_for(query)}"


def _entering(resolved: ResolvedQuery) -> str:
    least = resolved.certain_above
    return "the certain ones" if least is None else f"those of confidence {least} or more"


def _branch(branch: BranchEvaluation) -> Iterator[str]:
    plan = branch.plan
    yield from branch.explain()
    yield from _partitions(plan)
    yield "states"
    yield from explain_automaton(plan) if isinstance(plan, AutomatonPlan) else _states(plan)
    if plan.later is not None:
        yield "listed     user-defined aggregates, applied to the matches that are found, one by one"
        for condition in plan.later.conditions:
            yield f"  where    {print_expression(condition.expression)}   [{Consistency.INCONSISTENT.value}]"
        if plan.later.having is not None:
            yield f"  having   {print_expression(plan.later.having)}"
        yield from (f"  return   {print_expression(expression)}" for expression in plan.later.returns.values())
    if plan.partial_key:
        names = ", ".join(partial.attribute for partial in plan.partial_key)
        yield f"key        of a match also has {names}, from those of its events that have it"
    if plan.notes:
        yield "notes"
        yield from (f"  {note}" for note in plan.notes)


def _states(plan: Plan) -> Iterator[str]:
    for step in plan.steps:
        star = "+" if step.kleene else ""
        yield f"  {step.position} {step.variable}: {step.event_type}{star}{'' if step.keyed else '  (broadcast)'}"
        yield from _edge("begin", step.begin)
        if step.kleene:
            yield from _edge("take", step.take)
        yield f"      ignore  {_IGNORE[plan.strategy]}"
        yield from _edge("proceed", step.proceed)
    for negation in plan.negations:
        yield f"  ! {negation.variable}: {negation.event_type}, {_position(plan, negation.after)}"
        yield from _edge("absent", negation.edge)
    yield f"  accept {_accept(plan)}"


def _edge(name: str, edge: EdgePredicates) -> list[str]:
    lines = []
    for predicate in edge.predicates:
        where = "on the event alone, as it arrives" if predicate.local else _WHEN[predicate.consistency]
        loop = ", for each event of the Kleene component" if predicate.over >= 0 else ""
        text = print_expression(predicate.conjunct)
        lines.append(f"      {name:8}{text}   [{predicate.consistency.value}; {where}{loop}]")
    return lines


def _ties(plan: Plan) -> str:
    if plan.strict_ties:
        return "STRICT: equal timestamps are not ordered"
    return "SOURCE: equal timestamps of precise events are ordered by source"


def _skew(plan: Plan) -> str:
    if not plan.lists_all:
        return "events of a clock with a skew bound have no exact time and are rejected"
    return (
        "events of a clock with a skew bound share its unknown offset: confidences condition on it where the order or "
        "the window of several of them is open"
    )


def _output(plan: Plan) -> str:
    parts = [plan.output.value]
    if plan.limit is not None:
        which = "best" if plan.output is ast.Output.TOP else "first"
        parts.append(f"the {which} {plan.limit} rows of {'each window' if plan.has_windows else 'the whole run'}")
    if plan.confidence is not None:
        parts.append(f"confidence >= {plan.confidence}")
    return ", ".join(parts)


def _partitions(plan: Plan) -> list[str]:
    if not plan.key:
        return ["partitions none: one partition for the whole stream"]
    keyed = sorted(plan.types - plan.broadcast)
    lines = [f"partitions by {', '.join(plan.key)}: {', '.join(keyed)}"]
    if plan.broadcast:
        lines.append(f"broadcast  {', '.join(sorted(plan.broadcast))} (their events enter every partition)")
    return lines


def _window(plan: Plan) -> str:
    n_events = plan.query.within_events
    if n_events is not None:
        return f"first and last among {n_events} consecutive events of the partition"
    return f"last - first <= {plan.within_ms} ms"


def _length(plan: Plan) -> str:
    return f"{plan.within_ms} {'ms' if plan.query.within_events is None else 'events'}"


def _position(plan: Plan, after: int) -> str:
    if after < 0:
        return f"not in [last - {_length(plan)}, {plan.steps[0].variable})"
    if after == plan.n_steps - 1:
        return f"not in ({plan.steps[after].variable}, first + {_length(plan)}], decided by the watermark"
    return f"not between {plan.steps[after].variable} and {plan.steps[after + 1].variable}"


def _accept(plan: Plan) -> str:
    last = plan.steps[-1]
    if last.kleene:
        return f"at every event that {last.variable} takes"
    return f"when {last.variable} is bound"
