"""What a trend query will do, as text: its template, how each transition is followed, what is propagated, what it
costs."""

from __future__ import annotations

from collections.abc import Iterator

from engine.language import ast
from engine.language.printer import print_expression, print_pattern
from engine.plan.trends.model import Join, JoinWay, Number, TrendPlan
from engine.plan.trends.template import Cuts, Template


def explain_trends(plan: TrendPlan) -> Iterator[str]:
    """One fact per line."""
    query = plan.query
    yield f"pattern    {print_pattern(query.pattern)}"
    yield (
        f"windows    (k * {plan.slide_ms}, k * {plan.slide_ms} + {plan.within_ms}] ms for every whole k; an event is "
        f"in at most {plan.n_windows}, which share one graph"
    )
    if plan.components:
        yield f"partitions by {', '.join(component.attribute for component in plan.components)}"
        for reads in plan.reads:
            if len(reads.components) < len(plan.components):
                has = ", ".join(plan.components[k].attribute for k in sorted(reads.components))
                where = f"of the same {has}" if has else "of any key"
                yield f"broadcast  {reads.variable}: {reads.event_type} (its events enter every partition {where})"
    else:
        yield "partitions none: one partition for the whole stream"
    yield "states"
    yield from _states(plan, plan.templates.positive)
    for number, template in enumerate(plan.templates.negated):
        yield f"absent {number}   {'no event' if number in plan.instant else 'no trend'} of"
        yield from _states(plan, template)
        for (one, other), cuts in template.transitions.items():
            yield f"      {_names(template, one, other)}{_without(cuts)}"
    yield "transitions"
    for join in plan.joins:
        yield from _transition(plan, join)
    ends = {cuts for cuts in plan.templates.positive.ends.values() if cuts}
    for cuts in ends:
        yield f"  end of a trend -> end of the window{_without(cuts)}: {plan.end_way.summary}, {plan.end_way.cost}"
    yield f"numbers    {', '.join(['trends', *map(_number, plan.numbers)])}: per event and window"
    if plan.n_limbs:
        yield (
            f"exactness  whole numbers of up to {query.exact_bits:,} bits, each propagated in {plan.n_limbs} limbs: "
            f"{plan.n_numbers} numbers in all; beyond that the query is refused with the size"
        )
    else:
        yield "exactness  whole numbers up to 2^63, beyond that a double and an exponent (15 digits), and rows say so"
    yield f"cost       {_cost(plan)}"
    if not plan.templates.negated:
        yield f"overlaps   {_overlaps(plan)}"
    if query.having is not None:
        yield f"having     {print_expression(query.having)}"


def _states(plan: TrendPlan, template: Template) -> Iterator[str]:
    reads = {each.variable: each for each in plan.reads}
    for number, state in enumerate(template.states):
        start = template.starts.get(number)
        parts = [
            "" if start is None else f"begins a trend{_without(start)}",
            "ends one" if number in template.ends else "",
        ]
        told = "; ".join(filter(None, parts))
        yield f"  {number} {state.variable}: {state.event_type}{f'   [{told}]' if told else ''}"
        if reads[state.variable].programs:
            yield f"      where   {_local(plan.query, state.variable)}"


def _local(query: ast.Query, variable: str) -> str:
    def own(predicate: ast.Expression) -> bool:
        nodes = [node for node in ast.walk(predicate) if isinstance(node, ast.Attribute)]
        return all(node.variable == variable and node.index is not ast.Index.NEXT for node in nodes)

    return " AND ".join(print_expression(predicate) for predicate in query.predicates if own(predicate))


def _transition(plan: TrendPlan, join: Join) -> Iterator[str]:
    template = plan.templates.positive
    yield f"  {_names(template, join.source, join.target)}{_without(join.cuts)}: {join.way.summary}, {join.way.cost}"
    for predicate in join.predicates:
        yield f"      edge    {print_expression(predicate)}"


def _names(template: Template, one: int, other: int) -> str:
    return f"{one} {template.states[one].variable} -> {other} {template.states[other].variable}"


def _without(cuts: Cuts) -> str:
    return f", without absent {', '.join(map(str, sorted(cuts)))} before" if cuts else ""


def _number(number: Number) -> str:
    owner = number.variable if number.attribute is None else f"{number.variable}.{number.attribute}"
    return f"{number.kind.value} of {owner}"


def _overlaps(plan: TrendPlan) -> str:
    """Of events whose times are intervals."""
    told = "expected values over all possible orders; "
    if not plan.returning:
        return f"{told}no event can come to itself again, so that they are exact however many overlap"
    states = plan.templates.positive.states
    names = ", ".join(dict.fromkeys(states[state].variable for state in sorted(plan.returning)))
    return (
        f"{told}events of {names} may come to themselves again through others, so that counts are upper bounds, and "
        "say so, where more of them overlap than engine.trend_overlap"
    )


def _cost(plan: TrendPlan) -> str:
    ways = {join.way for join in plan.joins} | {plan.end_way}
    dearest = next(way for way in (JoinWay.SCAN, JoinWay.INDEX, JoinWay.SUM) if way in ways)
    per = "per event and window"
    n = "n events of its state, partition and windows"
    return {
        JoinWay.SUM: f"O(1) {per}, no event is kept",
        JoinWay.INDEX: f"O(log n) {per}, of {n}",
        JoinWay.SCAN: f"O(n) {per}, of {n}: other than one inequality between values of two neighbours asks for it",
    }[dearest]


__all__ = ["explain_trends"]
