"""What a trend query will do, as text: its template, how each transition is followed, what is propagated, what it
costs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from engine.language import ast
from engine.language.printer import print_expression, print_pattern
from engine.plan.trends.model import Join, JoinWay, Number, TrendPairPlan, TrendPlan, TrendRowPlan
from engine.plan.trends.template import Cuts, Template


def explain_trends(plan: TrendPlan) -> Iterator[str]:
    """One fact per line."""
    yield f"pattern    {print_pattern(plan.query.pattern)}"
    yield from _windows(plan)
    yield from _partitions(plan, (plan,))
    yield from _skipped(plan)
    yield from _graph(plan)
    yield f"numbers    {', '.join(['trends', *map(_number, plan.numbers)])}: per event and window"
    yield _exactness(plan, f"{plan.n_numbers} numbers in all")
    yield f"cost       {_cost((plan,))}"
    if not plan.templates.negated and not plan.selects:
        yield f"overlaps   {_overlaps(plan)}"
    yield from _having(plan)


def explain_pairs(plan: TrendPairPlan) -> Iterator[str]:
    """The same of `P AND Q`."""
    pattern = plan.query.pattern
    assert isinstance(pattern, ast.Conjunction)
    yield f"pattern    {print_pattern(pattern)}"
    yield "pairs      of two different trends of one window and partition, one of each part, in no order"
    yield "           this is not AND of matches, which are of different events: two trends may have events in common"
    yield from _windows(plan)
    yield from _partitions(plan, (plan.one, plan.other))
    for number, part in enumerate((plan.one, plan.other)):
        yield f"part {number + 1}     {print_pattern(pattern.parts[number])}"
        yield from _graph(part)
    if plan.both is None:
        yield "both       no trend is one of both parts: pairs are counted by multiplication"
    else:
        yield "both       a trend may be one of both parts: none pairs with itself, and no two of them twice"
        yield from _graph(plan.both, has_conditions=False)
    yield f"numbers    {', '.join(['trends', *map(_number, plan.numbers)])}: per event and window, where a part has it"
    yield _exactness(plan, "in each graph")
    yield f"cost       {_cost(plan.parts)}, in each graph"
    yield "shared     nothing: queries of pairs have graphs of their own"
    yield from _having(plan)


def _windows(plan: TrendRowPlan) -> Iterator[str]:
    yield (
        f"windows    (k * {plan.slide_ms}, k * {plan.slide_ms} + {plan.within_ms}] ms for every whole k; an event is "
        f"in at most {plan.n_windows}, which share one graph"
    )


def _skipped(plan: TrendPlan) -> Iterator[str]:
    """What a trend may skip; under skip till any match nothing is to be said."""
    match plan.strategy:
        case ast.Strategy.SKIP_TILL_NEXT_MATCH:
            yield (
                "skips      what nothing takes: an event is followed until one of the transitions with * is, of which "
                "the edge predicates hold; then it is forgotten, in all windows"
            )
            if any(isinstance(node, ast.Alternative | ast.Repeat) for node in ast.walk(plan.query.pattern)):
                yield "           each way to read OR, ?, * and {n,m} skips for itself: it has states of its own"
        case ast.Strategy.PARTITION_CONTIGUITY:
            yield (
                "skips      events of other partitions: an event is followed by the next one of its partition, of any "
                "type of the schema, or not at all"
            )
        case ast.Strategy.STRICT_CONTIGUITY:
            yield "skips      nothing: an event is followed by the next one of the stream or not at all"


def _partitions(plan: TrendRowPlan, parts: Sequence[TrendPlan]) -> Iterator[str]:
    if not plan.components:
        yield "partitions none: one partition for the whole stream"
        return
    yield f"partitions by {', '.join(component.attribute for component in plan.components)}"
    for reads in dict.fromkeys(reads for part in parts for reads in part.reads):
        if len(reads.components) < len(plan.components):
            has = ", ".join(plan.components[k].attribute for k in sorted(reads.components))
            where = f"of the same {has}" if has else "of any key"
            yield f"broadcast  {reads.variable}: {reads.event_type} (its events enter every partition {where})"


def _graph(plan: TrendPlan, *, has_conditions: bool = True) -> Iterator[str]:
    """`has_conditions`: whether what single events are asked for stands in the query by the names of the states."""
    yield "states"
    yield from _states(plan, plan.templates.positive, has_conditions=has_conditions)
    for number, template in enumerate(plan.templates.negated):
        yield f"absent {number}   {'no event' if number in plan.instant else 'no trend'} of"
        yield from _states(plan, template)
        for join in plan.negated_joins[number]:
            yield from _negated_transition(template, join)
    yield "transitions"
    for join in plan.joins:
        yield from _transition(plan, join)
    ends = {cuts for cuts in plan.templates.positive.ends.values() if cuts}
    for cuts in ends:
        yield f"  end of a trend -> end of the window{_without(cuts)}: {plan.end_way.summary}, {plan.end_way.cost}"


def _exactness(plan: TrendRowPlan, n_numbers: str) -> str:
    if plan.n_limbs:
        return (
            f"exactness  whole numbers of up to {plan.query.exact_bits:,} bits, each propagated in {plan.n_limbs} "
            f"limbs: {n_numbers}; beyond that the query is refused with the size"
        )
    return "exactness  whole numbers up to 2^63, beyond that a double and an exponent (15 digits), and rows say so"


def _having(plan: TrendRowPlan) -> Iterator[str]:
    if plan.query.having is not None:
        yield f"having     {print_expression(plan.query.having)}"


def _states(plan: TrendPlan, template: Template, *, has_conditions: bool = True) -> Iterator[str]:
    reads = {each.variable: each for each in plan.reads}
    for number, state in enumerate(template.states):
        start = template.starts.get(number)
        parts = [
            "" if start is None else f"begins a trend{_without(start)}",
            "ends one" if number in template.ends else "",
        ]
        emitted = "; ".join(filter(None, parts))
        yield f"  {number} {state.variable}: {state.event_type}{f'   [{emitted}]' if emitted else ''}"
        if has_conditions and reads[state.variable].programs:
            yield f"      where   {_local(plan.query, state.variable)}"


def _local(query: ast.Query, variable: str) -> str:
    def own(predicate: ast.Expression) -> bool:
        nodes = [node for node in ast.walk(predicate) if isinstance(node, ast.Attribute)]
        return all(node.variable == variable and node.index is not ast.Index.NEXT for node in nodes)

    return " AND ".join(print_expression(predicate) for predicate in query.predicates if own(predicate))


def _transition(plan: TrendPlan, join: Join) -> Iterator[str]:
    template = plan.templates.positive
    takes = "*" if (join.source, join.target) in template.taking else ""
    names = f"{_names(template, join.source, join.target)}{takes}"
    yield f"  {names}{_without(join.cuts)}: {join.way.summary}, {join.way.cost}"
    for predicate in join.predicates:
        yield f"      edge    {print_expression(predicate)}"


def _negated_transition(template: Template, join: Join) -> Iterator[str]:
    how = "" if join.way is JoinWay.SUM else f": {join.way.summary}, {join.way.cost}"
    yield f"      {_names(template, join.source, join.target)}{_without(join.cuts)}{how}"
    for predicate in join.predicates:
        yield f"          edge    {print_expression(predicate)}"


def _names(template: Template, one: int, other: int) -> str:
    return f"{one} {template.states[one].variable} -> {other} {template.states[other].variable}"


def _without(cuts: Cuts) -> str:
    return f", without absent {', '.join(map(str, sorted(cuts)))} before" if cuts else ""


def _number(number: Number) -> str:
    owner = number.variable if number.attribute is None else f"{number.variable}.{number.attribute}"
    return f"{number.kind.value} of {owner}"


def _overlaps(plan: TrendPlan) -> str:
    """Of events whose times are intervals."""
    emitted = "expected values over all possible orders; "
    if not plan.returning:
        return f"{emitted}no event can come to itself again, so that they are exact however many overlap"
    states = plan.templates.positive.states
    names = ", ".join(dict.fromkeys(states[state].variable for state in sorted(plan.returning)))
    return (
        f"{emitted}events of {names} may come to themselves again through others, so that counts are upper bounds, and "
        "say so, where more of them overlap than engine.trend_overlap"
    )


_DEAREST_FIRST = (JoinWay.SCAN, JoinWay.NEXT, JoinWay.DOMINANCE, JoinWay.INDEX, JoinWay.ADJACENT, JoinWay.SUM)


def _cost(plans: Sequence[TrendPlan]) -> str:
    ways = {join.way for plan in plans for join in plan.joins} | {plan.end_way for plan in plans}
    dearest = next(way for way in _DEAREST_FIRST if way in ways)
    is_looked_at = any(join.way is JoinWay.LATEST for plan in plans for joins in plan.negated_joins for join in joins)
    of_negated = (
        "; O(m) per event of a negated pattern, of m of its events that may still matter" if is_looked_at else ""
    )
    per = "per event and window"
    m = "events of its state and partition from which none was taken yet: what is taken is forgotten"
    n = "n events of its state, partition and windows"
    cost = {
        JoinWay.SUM: f"O(1) {per}, no event is kept",
        JoinWay.INDEX: f"O(log n) {per}, of {n}",
        JoinWay.NEXT: f"O(m) {per}, of m {m}",
        JoinWay.ADJACENT: f"O(1) {per}: of each state and partition one event is kept",
        JoinWay.DOMINANCE: f"O(log^2 n) {per}, of {n}; O(n) in batches with few events of a partition",
        JoinWay.SCAN: f"O(n) {per}, of {n}: other than one or two inequalities between values of two neighbours ask "
        "for it",
    }[dearest]
    return f"{cost}{of_negated}"


__all__ = ["explain_pairs", "explain_trends"]
