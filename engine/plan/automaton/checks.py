"""On which edges of an automaton each condition is decided.

A condition is decided by the edge after which all it is about is known: the events that it names are bound, and the
lists that it reads as a whole (`v[]`, `v[v.len]`) cannot grow any more in the iteration at hand. Whether a list can
still grow is a question of the states alone: it can while an edge that takes its variable is reachable without a
restart of the groups that delimit it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from engine.language import ast
from engine.plan.automaton.model import AutomatonEdge, Check, Condition, Exit, Occurrence

Scope = frozenset[int]


@dataclass
class CheckPlacement:
    """Places conditions on edges and exits; `paths` are the groups around each variable."""

    edges: Sequence[AutomatonEdge]
    occurrences: Sequence[Occurrence]
    paths: Sequence[tuple[int, ...]]
    n_groups: int
    _open: dict[tuple[int, Scope], frozenset[int]] = field(default_factory=dict)
    _after: dict[int, frozenset[int]] = field(default_factory=dict)

    def on_edge(self, edge: AutomatonEdge, conditions: Iterable[tuple[int, Condition]]) -> tuple[Check, ...]:
        """What the edge decides of these conditions."""
        checks: list[Check] = []
        for number, condition in conditions:
            checks += self._of_old_iteration(edge, number, condition)
            checks += self._of_new_iteration(edge, number, condition)
        return tuple(checks)

    def on_exit(self, leaving: Exit, conditions: Iterable[tuple[int, Condition]]) -> tuple[Check, ...]:
        """What the end of the match in this state decides: lists that could still have grown."""
        checks = []
        for number, condition in conditions:
            depths = [
                len(scope) for variable, scope in closing(condition) if self._grows(leaving.state, variable, scope)
            ]
            if depths:
                checks.append(Check(number, min(depths), newest=False, before=False))
        return tuple(checks)

    def _of_new_iteration(self, edge: AutomatonEdge, number: int, condition: Condition) -> list[Check]:
        lists = closing(condition)
        if any(self._grows(edge.target, variable, scope) for variable, scope in lists):
            return []
        bound = self.occurrences[edge.occurrence].variable
        restarted = self._restarted(edge)
        depths = [
            len(scope) for variable, scope in lists if self._grows(edge.source, variable, scope) or restarted & scope
        ]
        newest = not depths and bound == condition.stepping
        names = {term.variable for term in condition.terms}
        if bound in names and self._may_be_bound(names - {bound}, edge.source):
            depths.append(_n_common(self.paths[bound], condition.context))
        elif not names and edge.source == 0:
            depths.append(0)
        return [Check(number, min(depths), newest=newest, before=False)] if depths else []

    def _may_be_bound(self, variables: Iterable[int], state: int) -> bool:
        """Whether a run in this state may have events of all these variables (those of other automata always)."""
        return all(state in self._states_after(variable) for variable in variables)

    def _states_after(self, variable: int) -> frozenset[int]:
        found = self._after.get(variable)
        if found is None:
            after = {e.target for e in self.edges if self.occurrences[e.occurrence].variable == variable}
            here = frozenset(e.source for e in self.edges if self.occurrences[e.occurrence].variable == variable)
            while True:
                more = {edge.target for edge in self.edges if edge.source in after} - after
                if not more:
                    break
                after |= more
            # An automaton of a negated pattern begins when the match is complete.
            others = frozenset(e.source for e in self.edges) - self._component(here)
            found = self._after[variable] = frozenset(after) | others
        return found

    def _component(self, states: frozenset[int]) -> frozenset[int]:
        """The states of the automaton that these belong to."""
        negated = {self.occurrences[e.occurrence].negated for e in self.edges if e.source in states}
        return frozenset(e.source for e in self.edges if self.occurrences[e.occurrence].negated in negated)

    def _of_old_iteration(self, edge: AutomatonEdge, number: int, condition: Condition) -> list[Check]:
        """What is decided because the edge begins another iteration of the condition's context."""
        restarted = self._restarted(edge)
        if not restarted & frozenset(condition.context):
            return []
        lists = closing(condition)
        ended = [len(s) for v, s in lists if restarted & s and self._grows(edge.source, v, s)]
        open_still = any(not restarted & s and self._grows(edge.target, v, s) for v, s in lists)
        return [Check(number, min(ended), newest=False, before=True)] if ended and not open_still else []

    def _restarted(self, edge: AutomatonEdge) -> Scope:
        return frozenset(action.counter for action in edge.actions if action.counter < self.n_groups)

    def _grows(self, state: int, variable: int, scope: Scope) -> bool:
        """Whether events of the variable may still come in this state, in the iteration at hand of `scope`."""
        found = self._open.get((variable, scope))
        if found is None:
            found = self._open[variable, scope] = self._growing_states(variable, scope)
        return state in found

    def _growing_states(self, variable: int, scope: Scope) -> frozenset[int]:
        inside = [edge for edge in self.edges if not self._restarted(edge) & scope]
        growing = {edge.source for edge in inside if self.occurrences[edge.occurrence].variable == variable}
        while True:
            more = {edge.source for edge in inside if edge.target in growing} - growing
            if not more:
                return frozenset(growing)
            growing |= more


def closing(condition: Condition) -> list[tuple[int, Scope]]:
    """The lists that a condition reads as a whole: variable, and the groups whose iteration at hand delimits it."""
    return [
        (term.variable, frozenset(condition.context[: term.depth]))
        for term in condition.terms
        if _reads_whole(term.node)
    ]


def _reads_whole(node: ast.Attribute | ast.Aggregate) -> bool:
    if isinstance(node, ast.Aggregate):
        return node.range in (ast.Range.ALL, ast.Range.BEFORE_LAST)
    return node.index is ast.Index.LAST


def _n_common(path: Sequence[int], other: Sequence[int]) -> int:
    n = 0
    while n < min(len(path), len(other)) and path[n] == other[n]:
        n += 1
    return n


__all__ = ["CheckPlacement", "closing"]
