"""What a query will do, as text: its NFAb, where each predicate is evaluated and why, partitions, runtime and cost."""

from __future__ import annotations

from engine.language import ast
from engine.language.printer import print_expression
from engine.language.reading import Start
from engine.language.resolver import ResolvedQuery
from engine.plan.model import Consistency, EdgePredicates, Plan

_RUNTIMES = {
    ast.Strategy.SKIP_TILL_NEXT_MATCH: (
        "run-based NFAb (SASE+ 4), precise events only",
        "linear in events times live runs of their partition",
    ),
    ast.Strategy.SKIP_TILL_ANY_MATCH: (
        "postponed: one shared pass, matches built per (first, last) pair (SASE++ 5.1, 5.2)",
        "O(1) per event and what the output form asks for per pair",
    ),
}

_WHEN = {
    Consistency.TRUE_FALSE: "decided on arrival",
    Consistency.TRUE: "true on all selected events is final (SAFE); false is decided when matches are built",
    Consistency.FALSE: "false on all selected events is final; true is decided when matches are built",
    Consistency.INCONSISTENT: "decided when matches are built",
}


def explain(plan: Plan, resolved: ResolvedQuery) -> str:
    """The plan for people; one fact per line."""
    runtime, cost = _RUNTIMES.get(plan.strategy, ("none of this version; the oracle evaluates it", "brute force"))
    lines = [
        f"query      {plan.name}",
        f"strategy   {plan.strategy.value}",
        f"runtime    {runtime}",
        f"cost       {cost}",
        f"window     last - first <= {plan.within_ms} ms",
        f"ties       {_ties(plan)}",
        f"output     {_output(plan)}",
        *_partitions(plan),
        "states",
    ]
    for step in plan.steps:
        star = "+" if step.kleene else ""
        lines.append(
            f"  {step.position} {step.variable}: {step.event_type}{star}{'' if step.keyed else '  (broadcast)'}"
        )
        lines += _edge("begin", step.begin)
        if step.kleene:
            lines += _edge("take", step.take)
        lines += _edge("proceed", step.proceed)
    for negation in plan.negations:
        lines.append(f"  ! {negation.variable}: {negation.event_type}, {_place(plan, negation.after)}")
        lines += _edge("absent", negation.edge)
    lines += [f"  accept {_accept(plan)}"]
    readings = [r.sentence for r in resolved.reading if r.start is not Start.PER_MATCH]
    lines += ["readings", *(f"  {sentence}" for sentence in readings)] if readings else []
    lines += ["notes", *(f"  {note}" for note in plan.notes)] if plan.notes else []
    if resolved.parameters:
        given = ", ".join(f"{name} = {value}" for name, value in sorted(resolved.parameters.items()))
        lines.append(f"parameters {given}")
    return "\n".join(lines) + "\n"


def _edge(name: str, edge: EdgePredicates) -> list[str]:
    lines = []
    for predicate in edge.predicates:
        where = "on the event alone, as it arrives" if predicate.local else _WHEN[predicate.consistency]
        loop = ", for each event of the Kleene component" if predicate.over >= 0 else ""
        text = print_expression(predicate.conjunct)
        lines.append(f"      {name:8}{text}   [{predicate.consistency.value}; {where}{loop}]")
    return lines


def _ties(plan: Plan) -> str:
    if plan.ties is ast.Ties.STRICT:
        return "STRICT: equal timestamps are not ordered"
    return "SOURCE: equal timestamps of precise events are ordered by source"


def _output(plan: Plan) -> str:
    parts = [plan.output.value]
    if plan.limit is not None:
        parts.append(f"at most {plan.limit} rows")
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


def _place(plan: Plan, after: int) -> str:
    if after < 0:
        return f"not in [last - {plan.within_ms} ms, {plan.steps[0].variable})"
    if after == plan.n_steps - 1:
        return f"not in ({plan.steps[after].variable}, first + {plan.within_ms} ms], decided by the watermark"
    return f"not between {plan.steps[after].variable} and {plan.steps[after + 1].variable}"


def _accept(plan: Plan) -> str:
    last = plan.steps[-1]
    if last.kleene:
        return f"at every event that {last.variable} takes"
    return f"when {last.variable} is bound"
