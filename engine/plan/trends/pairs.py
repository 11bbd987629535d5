"""The plan of `P AND Q`: how many pairs of trends there are follows from what is known of the trends of P, of those of
Q, and of those that both match (GRETA, section 9)."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any

from engine.errors import UnsupportedQueryError
from engine.language import ast
from engine.language.resolver import ResolvedQuery
from engine.language.trend_checks import variables_of
from engine.plan.trends.model import KeyComponent, TrendPairPlan, TrendPlan
from engine.plan.trends.planner import (
    TrendPlanner,
    aggregates_of,
    check_edges,
    components_of,
    groups_of,
    numbers_of,
    trend_plan,
)
from engine.plan.trends.product import Product, product_of


def plan_of_trends(resolved: ResolvedQuery) -> TrendPlan | TrendPairPlan:
    """The plan of any query about trends; raises QueryError for what is not evaluated over them."""
    if not isinstance(resolved.query.pattern, ast.Conjunction):
        return trend_plan(resolved)
    strategy = resolved.query.strategy
    if strategy is not ast.Strategy.SKIP_TILL_ANY_MATCH:
        assert strategy is not None
        raise UnsupportedQueryError(
            f"pairs of trends (AND) under {strategy.value}: what one trend may skip says nothing of the other",
            resolved.query.clause_span("WHERE"),
            "skip_till_any_match",
            "leave the strategy out, or write a query for each part",
        )
    components = components_of(resolved)
    by_partition = tuple(range(len(components)))
    planners = [TrendPlanner(_part(resolved, part), components) for part in resolved.query.pattern.parts]
    templates = [planner.templates() for planner in planners]
    check_edges(resolved, templates)
    one, other = (p.plan(t, by_partition) for p, t in zip(planners, templates, strict=True))
    product = product_of(templates[0], templates[1], resolved.query.pattern)
    both = None
    if product is not None:
        _check_read_alike(resolved, product)
        whole = _renamed(resolved, product)
        named = tuple(_with_names(component, product) for component in components)
        both = TrendPlanner(whole, named).plan(product.templates, by_partition)
    one, other = (_as_of(plan, resolved.query, resolved) for plan in (one, other))
    if both is not None:  # whose events are events of each part, which tell of them
        both = _as_of(both, replace(resolved.query, notice=None), resolved)
    columns = dict.fromkeys((*one.programs.columns, *other.programs.columns))
    return TrendPairPlan(
        **{name: getattr(one, name) for name in _SHARED},
        programs=replace(one.programs, columns=tuple(columns)),
        groups=groups_of(resolved, components),
        numbers=numbers_of(resolved),
        one=one,
        other=other,
        both=both,
    )


_SHARED = (
    "name", "query", "strategy", "steps", "negations", "key", "broadcast", "within_ms", "confidence", "output", "limit",
    "ties", "returns", "having", "types", "keyed_types", "attribute_types", "slide_ms", "components",
)  # fmt: skip


def _as_of(plan: TrendPlan, query: ast.Query, resolved: ResolvedQuery) -> TrendPlan:
    """With the clauses of the whole query, and shown all of its events: each graph leaves out the same ones."""
    types = frozenset(variable.event_type for variable in resolved.variables.values())
    return replace(plan, query=query, types=types)


def _part(resolved: ResolvedQuery, pattern: ast.Pattern) -> ResolvedQuery:
    """What the query says of one part."""
    own = {component.variable for component, _ in ast.components(pattern)}
    predicates = tuple(p for p in resolved.query.predicates if own.issuperset(_named(p)))
    equivalences = tuple(e for e in resolved.query.equivalences if e.variable is None or e.variable in own)
    return replace(
        resolved,
        query=replace(resolved.query, pattern=pattern, predicates=predicates, equivalences=equivalences),
        variables={name: variable for name, variable in resolved.variables.items() if name in own},
    )


def _named(predicate: ast.Expression) -> Iterable[str]:
    here, following = variables_of(predicate)
    return (*here, *following)


# ----------------------------------------------------------------- both parts


def _check_read_alike(resolved: ResolvedQuery, product: Product) -> None:
    """Of two trends of both parts either may be that of the one: nothing may depend on which."""
    requested = {each.variable: "an aggregate" for each in aggregates_of(resolved.query)}
    requested |= {each.variable: f"[{each.variable}.{each.attribute}]" for each in resolved.query.equivalences}
    for mine, its in product.names.values():
        name = next((name for name in (mine, its) if mine != its and name in requested), None)
        if name is not None:
            raise UnsupportedQueryError(
                f"a trend may be one of both parts of AND, an event of which is {mine} in the one and {its} in the "
                f"other, and {requested[name]} asks for {name}: which of two such trends is the one of which "
                "part nobody can say",
                resolved.query.pattern.span,
                "one name in both parts, or parts that have no trend in common",
                f"call it {mine} in both parts: aggregates add over both trends of a pair then",
            )


def _with_names(component: KeyComponent, product: Product) -> KeyComponent:
    own = (name for name, called in product.names.items() if not component.variables.isdisjoint(called))
    return replace(component, variables=component.variables.union(own))


def _renamed(resolved: ResolvedQuery, product: Product) -> ResolvedQuery:
    """The query about the variables of the product: what either part asks of an event, or of two neighbours."""
    query, negated = resolved.query, {name: v for name, v in resolved.variables.items() if v.negated}
    own = {name: replace(resolved.variables[mine], name=name) for name, (mine, _) in product.names.items()}
    predicates = dict.fromkeys(
        each for predicate in query.predicates for each in _requested(predicate, product, negated)
    )
    # aggregated are the variables that have one name in both parts
    return replace(resolved, query=replace(query, predicates=tuple(predicates)), variables={**own, **negated})


def _requested(predicate: ast.Expression, product: Product, negated: Container[str]) -> Iterator[ast.Expression]:
    """What a predicate of the query asks of the variables of the product."""
    here, following = variables_of(predicate)
    if all(name in negated for name in here):  # or a constant
        yield predicate
        return
    for part in (0, 1):
        firsts = [name for name, called in product.names.items() if called[part] in here]
        seconds = [name for name, called in product.names.items() if called[part] in following] if following else [""]
        for first in firsts:
            for second in seconds:
                yield _with(predicate, first, second)


def _with(node: Any, here: str, following: str) -> Any:
    """An expression about one event, or two neighbours, about those of other variables."""
    match node:
        case ast.Attribute(index=ast.Index.NEXT):
            return replace(node, variable=following)
        case ast.Attribute():
            return replace(node, variable=here)
        case tuple():
            return tuple(_with(each, here, following) for each in node)
    if not is_dataclass(node) or isinstance(node, type):
        return node
    parts = {item.name: _with(getattr(node, item.name), here, following) for item in fields(node) if item.compare}
    return replace(node, **parts)


__all__ = ["plan_of_trends"]
