"""The automaton of a plan as text: states, edges with their formulas, and where each condition is decided and why."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from engine.language import ast
from engine.language.printer import print_expression
from engine.plan.automaton.model import (
    AutomatonEdge,
    AutomatonPlan,
    Check,
    Crossing,
    Exit,
    Guard,
)

_STAYS = {
    ast.Strategy.SKIP_TILL_ANY_MATCH: "ignore  always: every event may be left out",
    ast.Strategy.SKIP_TILL_NEXT_MATCH: "ignore  what none of the edges marked * takes",
    ast.Strategy.PARTITION_CONTIGUITY: "ignore  events of other partitions alone",
    ast.Strategy.STRICT_CONTIGUITY: "ignore  nothing",
}


def explain_automaton(plan: AutomatonPlan) -> Iterator[str]:
    """One fact per line: local predicates by variable, then the states with their edges."""
    automaton = plan.states
    masks = [(s.variable, s.begin) for s in plan.steps] + [(n.variable, n.edge) for n in plan.negations]
    for variable, local in masks:
        for predicate in local.predicates:
            yield f"  {variable}: {print_expression(predicate.conjunct)}   [on the event alone, as it arrives]"
    yield f"  {_STAYS[plan.strategy]}"
    for state, text in enumerate(automaton.state_texts):
        started = [k for k, negation in enumerate(automaton.negations) if negation.start == state]
        role = "  (start)" if state == 0 else f"  (start of what is negated: {state})" if started else ""
        yield f"  {state} {text}{role}"
        for edge in automaton.edges:
            if edge.source == state:
                yield f"      {edge_kind(plan, edge):9}{edge_label(plan, edge)} -> {edge.target}"
                yield from (f"           {line}" for line in _checks(plan, edge.checks))
        for leaving in automaton.exits:
            if leaving.state == state:
                yield f"      accept   {_when(plan, leaving.guards, leaving.crossings, trailing=True)}".rstrip()
                yield from (f"           {line}" for line in _checks(plan, leaving.checks))


def edge_kind(plan: AutomatonPlan, edge: AutomatonEdge) -> str:
    """begin, take, or iterate (another iteration of a group); with * where it keeps a run from ignoring the event."""
    groups = plan.states.n_groups
    iterates = any(action.counter < groups and not action.restart for action in edge.actions)
    kind = "iterate" if iterates else "take" if edge.loops else "begin"
    return f"{kind}{'*' if edge.blocks and plan.strategy is ast.Strategy.SKIP_TILL_NEXT_MATCH else ''}"


def edge_label(plan: AutomatonPlan, edge: AutomatonEdge) -> str:
    """The component, and the formula apart from conditions."""
    component = plan.states.occurrences[edge.occurrence].component
    when = _when(plan, edge.guards, edge.crossings, trailing=False)
    return f"{component.event_type} {component.variable}{' ' if when else ''}{when}"


def formulas(plan: AutomatonPlan, part: AutomatonEdge | Exit) -> list[str]:
    """The conditions that an edge or an end decides, as text."""
    return [print_expression(plan.states.conditions[check.condition].expression) for check in part.checks]


def _when(plan: AutomatonPlan, guards: Iterable[Guard], crossings: Iterable[Crossing], *, trailing: bool) -> str:
    words = [f"if {_counted(plan, guard)}" for guard in guards]
    for crossing in crossings:
        names = ", ".join(plan.states.variables[v] for v in sorted(plan.states.negations[crossing.negation].variables))
        position = f"until first + {plan.within_ms} ms" if trailing else "in between"
        words.append(f"and no {names} {position}" if words else f"if no {names} {position}")
    return " ".join(words)


def _counted(plan: AutomatonPlan, guard: Guard) -> str:
    owner = next((o for o in plan.states.occurrences if o.counter == guard.counter), None)
    what = f"iterations of group {guard.counter}" if owner is None else f"events of {owner.component.variable}"
    return f"{what} >= {guard.low}" if guard.high is None else f"{what} <= {guard.high}"


def _checks(plan: AutomatonPlan, checks: Iterable[Check]) -> Iterator[str]:
    for check in checks:
        condition = plan.states.conditions[check.condition]
        scope = ""
        if condition.context:
            scope = ", in the iteration that ends" if check.before else ", in the iteration at hand"
            if check.depth < len(condition.context):
                scope = ", in every iteration"
        i = ", for its newest event" if check.newest else ", for every i" if condition.stepping >= 0 else ""
        why = f"; {condition.reason}" if condition.reason else ""
        yield f"{print_expression(condition.expression)}   [all that it is about is known here{i}{scope}{why}]"


__all__ = ["edge_kind", "edge_label", "explain_automaton", "formulas"]
