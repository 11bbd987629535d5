"""A query as a union of plans: one for each pattern that its own stands for, each evaluated by itself (DESIGN 3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from engine.errors import QueryTypeError
from engine.language import ast
from engine.language.reading import Reading, Start
from engine.language.resolver import ResolvedQuery
from engine.plan.after_listing import split, with_later
from engine.plan.automaton.planner import automaton_plan
from engine.plan.model import PartialKey, Plan, PlanForm
from engine.plan.partitioning import with_partial_key
from engine.plan.plain import is_plain
from engine.plan.programs import NoPlainProgramError
from engine.plan.rewrites import expanded, rewritten, single_negations
from engine.plan.rewrites.absent import for_pattern
from engine.plan.rewrites.bounded import bounds_as_predicates
from engine.plan.rewrites.negated_closure import as_single
from engine.plan.sequence.planner import plan
from engine.plan.trends.pairs import plan_of_trends

_ALIKE = "for other alternatives bind the same variables in another way"


def plan_branches(resolved: ResolvedQuery, *, as_automata: bool = False) -> tuple[Plan, ...]:
    """The plans whose union the query is; at least one. `as_automata`: also those of plain sequences.

    Raises UnsupportedQueryError for what no runtime of this version evaluates.
    """
    if resolved.is_trend:
        return (plan_of_trends(resolved),)
    patterns = [rewritten(pattern) for pattern in expanded(rewritten(resolved.query.pattern))]
    queries = [for_pattern(resolved, pattern) for pattern in dict.fromkeys(patterns)]
    planned = [query for query in queries if query is not None]
    branches = tuple(_branch(query, "as asked for" if as_automata else "") for query in planned)
    alike = _bound_in_several_ways(branches)
    branches = tuple(
        _branch(query, _ALIKE) if number in alike else branches[number] for number, query in enumerate(planned)
    )
    if not branches:
        raise QueryTypeError(
            "HAVING names variables that no match has together",
            None if resolved.query.having is None else resolved.query.having.span,
            "variables of one alternative of the pattern",
            "split the query",
        )
    return branches


def head_of(branches: Sequence[Plan], resolved: ResolvedQuery) -> Plan:
    """The only plan, or what several have in common: name, strategy, clauses, and the types that any of them needs."""
    first = branches[0]
    if len(branches) == 1:
        return first
    return replace(
        first,
        query=resolved.query,
        types=frozenset().union(*(branch.types for branch in branches)),
        keyed_types=frozenset().union(*(branch.keyed_types for branch in branches)),
        broadcast=frozenset().union(*(branch.broadcast for branch in branches)),
        key=max((branch.key for branch in branches), key=len),
        partial_key=_partial_key(branches),
    )


def _partial_key(branches: Sequence[Plan]) -> tuple[PartialKey, ...]:
    holders: dict[str, frozenset[str]] = {}
    for partial in (partial for branch in branches for partial in branch.partial_key):
        holders[partial.attribute] = holders.get(partial.attribute, frozenset()) | partial.variables
    return tuple(PartialKey(attribute, variables) for attribute, variables in holders.items())


def _bound_in_several_ways(branches: Sequence[Plan]) -> set[int]:
    """Numbers of the plain branches that bind the same variables as another one which has a negation, or an order of
    its own: of imprecise events it must be known in which worlds each is a match, which automata tell."""
    groups: dict[frozenset[str], list[int]] = {}
    for number, branch in enumerate(branches):
        if branch.lists_all and branch.query.within_events is None:
            groups.setdefault(frozenset(branch.variables), []).append(number)
    return {
        number
        for group in groups.values()
        if len(group) > 1 and any(branches[n].form is PlanForm.AUTOMATON or branches[n].negations for n in group)
        for number in group
        if branches[number].form is not PlanForm.AUTOMATON
    }


def _branch(whole: ResolvedQuery, why_automaton: str) -> Plan:
    """The plan of one pattern; an automaton in any case where there is a reason."""
    resolved, later = split(whole)
    return with_partial_key(with_later(_matching(resolved, why_automaton), later), resolved)


def _matching(resolved: ResolvedQuery, why_automaton: str) -> Plan:
    simple = _with_single_negations(resolved)
    notes = []
    if simple is not resolved:
        notes.append("rewritten: an absent Kleene component is an absent single one")
    query = simple.query
    if query.within_events is not None and query.ties is ast.Ties.STRICT:
        # Places order what times do not: the automaton looks at both.
        notes.append("an automaton, for WITHIN n EVENTS with TIES STRICT")
    elif why_automaton:
        notes.append(f"an automaton, {why_automaton}")
    elif is_plain(query.pattern):
        bounded = bounds_as_predicates(simple)
        of_bounds = "rewritten: bounds of Kleene components are predicates on their counts"
        try:
            return _noted(plan(bounded), [*notes, of_bounds] if bounded is not simple else notes)
        except NoPlainProgramError as reason:
            notes.append(f"an automaton, for {reason.message}")
    return _noted(automaton_plan(simple), notes)


def _noted(branch: Plan, notes: Sequence[str]) -> Plan:
    return replace(branch, notes=(*branch.notes, *notes))


def _with_single_negations(resolved: ResolvedQuery) -> ResolvedQuery:
    """The query with `!A a` for `!A+ a[]` where it means the same."""
    free = {
        name for name, variable in resolved.variables.items() if variable.negated and variable.closure
    } - _read_as_lists(resolved)
    pattern = single_negations(resolved.query.pattern, free)
    if pattern == resolved.query.pattern:
        return resolved
    predicates = tuple(as_single(predicate, free) for predicate in resolved.query.predicates)
    reading = tuple(
        Reading(Start.PER_MATCH, None, r.sentence, r.context) if r.variable in free else r for r in resolved.reading
    )
    variables = {
        name: replace(variable, closure=False, kleene=bool(variable.path)) if name in free else variable
        for name, variable in resolved.variables.items()
    }
    query = replace(resolved.query, pattern=pattern, predicates=predicates)
    return replace(resolved, query=query, reading=reading, variables=variables)


def _read_as_lists(resolved: ResolvedQuery) -> set[str]:
    """Variables that a predicate reads other than as `v[i]` for every i, or inside a repeated group."""
    lists = {name for name, variable in resolved.variables.items() if variable.path}
    for predicate, reading in zip(resolved.query.predicates, resolved.reading, strict=True):
        for node in ast.walk(predicate):
            current = isinstance(node, ast.Attribute) and node.index is ast.Index.CURRENT
            if isinstance(node, ast.Attribute | ast.Aggregate) and not (current and reading.start is Start.FROM_FIRST):
                lists.add(node.variable)
    return lists


__all__ = ["head_of", "plan_branches"]
