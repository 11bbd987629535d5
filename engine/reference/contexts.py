"""Conditions under repeated groups: in which iterations a conjunct holds, and what its lists are there.

With plain references (`b.x`) the context of a conjunct is the longest path of groups around one of them: it must hold
in every iteration of these. Without, it is the longest common prefix of the paths of its lists, where a single
component in a group is a list over the iterations of its innermost group. In an iteration of the context the list of v
is all events of v within the iterations that v's groups share with the context, in order.

A conjunct does not apply in an iteration that has no event of one of its variables, unless these are only counted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from engine.reference.conditions import Condition, references
from engine.reference.expressions import Binding
from engine.reference.places import Bound
from engine.reference.shape import Shape

Iteration = tuple[int, ...]
"""The iteration of each group of a path, outermost first."""

OpenLists = Collection[tuple[str, Iteration]]
"""The lists that may still grow: a variable, and the iterations of its outermost groups that the list is within."""


@dataclass(frozen=True)
class ScopedCondition:
    """A conjunct with its context; `n_shared` tells how many outer groups each variable shares with it."""

    condition: Condition
    context: tuple[int, ...]
    n_shared: dict[str, int]

    def holds(self, bounds: Sequence[Bound]) -> bool:
        """Whether all instances are true of a complete match."""
        return all(
            self.condition.holds(binding, i)
            for _, binding in self._scopes(bounds)
            if self._applies(binding)
            for i in self.condition.instances(binding)
        )

    def decided_holds(self, bounds: Sequence[Bound], open_lists: OpenLists) -> bool:
        """Whether those instances are true that nothing can change any more."""
        for iteration, binding in self._scopes(bounds):
            open_variables = {
                variable for variable, n in self.n_shared.items() if (variable, iteration[:n]) in open_lists
            }
            if any(not binding[variable] and variable in open_variables for variable in binding):
                continue  # a term has no value yet
            if self.condition.whole & open_variables or not self._applies(binding):
                continue
            if not all(self.condition.holds(binding, i) for i in self.condition.instances(binding)):
                return False
        return True

    def _scopes(self, bounds: Sequence[Bound]) -> Iterator[tuple[Iteration, Binding]]:
        n = len(self.context)
        iterations = dict.fromkeys(bound.iterations[:n] for bound in bounds if bound.groups[:n] == self.context)
        for iteration in iterations:
            yield (
                iteration,
                {
                    variable: [
                        bound.event
                        for bound in bounds
                        if bound.variable == variable and bound.iterations[:shared] == iteration[:shared]
                    ]
                    for variable, shared in self.n_shared.items()
                },
            )

    def _applies(self, binding: Binding) -> bool:
        return self.condition.applies_without(frozenset(v for v, events in binding.items() if not events))


def scoped(condition: Condition, shape: Shape, bound: Collection[str] | None = None) -> ScopedCondition:
    """The condition with its context in a pattern, of which matches bind these variables, None: all. Where none of them
    is in the groups of the context, there is nothing that it could hold in each iteration of: it is asked once."""
    plain = [shape.paths[variable] for variable in condition.plain]
    if plain:
        context = max(plain, key=len)
    else:
        lists = [_list_path(node.variable, shape) for node in references(condition.expression)]
        context = _common_prefix(lists)
    if bound is not None and not any(shape.paths[variable][: len(context)] == context for variable in bound):
        context = ()
    n_shared = {variable: len(_common_prefix([shape.paths[variable], context])) for variable in condition.variables}
    return ScopedCondition(condition, context, n_shared)


def _list_path(variable: str, shape: Shape) -> tuple[int, ...]:
    path = shape.paths[variable]
    return path if variable in shape.lists else path[:-1]


def _common_prefix(paths: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    common: list[int] = []
    for numbers in zip(*paths, strict=False):
        if len(set(numbers)) > 1:
            break
        common.append(numbers[0])
    return tuple(common)


__all__ = ["Iteration", "OpenLists", "ScopedCondition", "scoped"]
