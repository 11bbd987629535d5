"""The plans of a query as a graph in Graphviz's language: a cluster per plan, states, edges with their formulas."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from engine.language import ast
from engine.language.printer import print_expression
from engine.plan.automaton.explain import edge_kind, edge_label, formulas
from engine.plan.automaton.model import AutomatonPlan
from engine.plan.model import EdgePredicates, Plan
from engine.plan.trends.model import TrendPairPlan, TrendPlan


def dot(branches: Sequence[Plan], name: str) -> str:
    """Graphviz text; names and texts of the query are escaped."""
    lines = [
        f"digraph {quoted(name)} {{",
        "  rankdir=LR;",
        "  node [shape=circle, fontsize=10];",
        "  edge [fontsize=9];",
    ]
    for number, branch in enumerate(_apart(branches)):
        lines.append(f"  subgraph cluster_{number} {{")
        lines.append(f"    label={quoted(f'{number + 1}: {branch.strategy.value}')};")
        drawn = _drawn(branch, number)
        lines += [f"    {line}" for line in drawn]
        lines.append("  }")
    return "\n".join([*lines, "}"]) + "\n"


def _apart(branches: Sequence[Plan]) -> Iterator[Plan]:
    for branch in branches:
        yield from branch.parts if isinstance(branch, TrendPairPlan) else (branch,)


def _drawn(branch: Plan, number: int) -> Iterator[str]:
    if isinstance(branch, AutomatonPlan):
        return _automaton(branch, number)
    return _template(branch, number) if isinstance(branch, TrendPlan) else _sequence(branch, number)


def _template(branch: TrendPlan, number: int) -> Iterator[str]:
    """The positive template of trends, as in GRETA's Figure 5, and the negated ones beside it."""
    for part, template in enumerate((branch.templates.positive, *branch.templates.negated)):
        for at, state in enumerate(template.states):
            label = state.variable if state.variable == state.event_type else f"{state.variable}: {state.event_type}"
            shown = f"absent {part - 1}: {label}" if part else label
            yield _node(number, f"{part}_{at}", shown, accepts=at in template.ends)
        for (one, other), cuts in template.transitions.items():
            texts = [f"without absent {cut}" for cut in sorted(cuts)]
            joins = branch.negated_joins[part - 1] if part else branch.joins
            texts += (print_expression(p) for j in joins if (j.source, j.target) == (one, other) for p in j.predicates)
            label = f" [label={quoted(chr(10).join(texts))}]" if texts else ""
            yield f"s{number}_{part}_{one} -> s{number}_{part}_{other}{label};"


def quoted(text: str) -> str:
    """A string of the graph language: its own quotes and escapes are escaped, line breaks are kept."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\r", " ").replace("\n", "\\n")
    return f'"{"".join(c if c.isprintable() else "?" for c in escaped)}"'


def _node(number: int, state: object, label: str, *, accepts: bool) -> str:
    shape = ", shape=doublecircle" if accepts else ""
    return f"s{number}_{state} [label={quoted(label)}{shape}];"


def _arrow(number: int, source: object, target: object, label: Sequence[str], style: str = "") -> str:
    return f"s{number}_{source} -> s{number}_{target} [label={quoted(chr(10).join(label))}{style}];"


def _sequence(plan: Plan, number: int) -> Iterator[str]:
    last = plan.n_steps - 1
    yield _node(number, "start", "", accepts=False)
    for step in plan.steps:
        star = "+" if step.kleene else ""
        yield _node(number, step.position, f"{step.variable}\n{step.event_type}{star}", accepts=step.position == last)
        source = "start" if step.position == 0 else step.position - 1
        proceeds = _texts("proceed", plan.steps[step.position - 1].proceed) if step.position else []
        absent = [f"no {negation.variable}" for negation in plan.negations if negation.after == step.position - 1]
        yield _arrow(number, source, step.position, ["begin", *_texts("", step.begin), *proceeds, *absent])
        if step.kleene:
            yield _arrow(number, step.position, step.position, ["take", *_texts("", step.take)])
        if plan.strategy in (ast.Strategy.SKIP_TILL_ANY_MATCH, ast.Strategy.SKIP_TILL_NEXT_MATCH):
            yield _arrow(number, step.position, step.position, ["ignore"], ", style=dotted")


def _texts(name: str, edge: EdgePredicates) -> list[str]:
    return [f"{name} {print_expression(predicate.conjunct)}".strip() for predicate in edge.predicates]


def _automaton(plan: AutomatonPlan, number: int) -> Iterator[str]:
    automaton = plan.states
    accepting = {leaving.state for leaving in automaton.exits}
    for state, text in enumerate(automaton.state_texts):
        yield _node(number, state, f"{state}\n{text}", accepts=state in accepting)
    for edge in automaton.edges:
        label = [f"{edge_kind(plan, edge)} {edge_label(plan, edge)}", *formulas(plan, edge)]
        yield _arrow(number, edge.source, edge.target, label, ", style=dashed" if edge.loops else "")


__all__ = ["dot", "quoted"]
