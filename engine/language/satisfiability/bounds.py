"""Do bounds on numbers, on their differences and on texts contradict each other?

Numbers: a system of differences u - v <= c has no solution exactly when its graph has a cycle of negative length
(Bellman and Ford). Texts: classes of equal terms with the values that they may and may not have.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from math import floor

ZERO = ""
"""The node whose value is 0: bounds on one term are differences to it."""

MAX_WORK = 400_000
"""Bound on nodes times edges; a larger system is checked for contradictions of two bounds only."""

Reasons = frozenset[object]
"""What a contradiction rests on: the marks that were given with the bounds."""

_Weight = tuple[Fraction, int]  # c, and minus the number of strict inequalities


@dataclass
class Numbers:
    """Bounds on numbers; `whole` are the terms of whole numbers."""

    whole: set[str] = field(default_factory=set)
    _edges: dict[tuple[str, str], tuple[_Weight, Reasons]] = field(default_factory=dict)
    _unequal: list[tuple[str, str, Fraction, Reasons]] = field(default_factory=list)
    _options: dict[str, list[tuple[frozenset[Fraction], Reasons]]] = field(default_factory=dict)

    def at_most(self, u: str, v: str, bound: Fraction, reasons: Reasons, *, strict: bool = False) -> None:
        """u - v <= bound, or < when `strict`."""
        if {u, v} <= self.whole | {ZERO}:
            bound = Fraction(-floor(-bound) - 1) if strict else Fraction(floor(bound))
            strict = False
        weight = (bound, -int(strict))
        known = self._edges.get((u, v))
        if known is None or weight < known[0]:
            self._edges[u, v] = (weight, reasons)

    def unequal(self, u: str, v: str, value: Fraction, reasons: Reasons) -> None:
        """u - v != value."""
        self._unequal.append((u, v, value, reasons))

    def one_of(self, u: str, values: Iterable[Fraction], reasons: Reasons) -> None:
        """u is one of these values."""
        options = frozenset(values)
        self._options.setdefault(u, []).append((options, reasons))
        if options:
            self.at_most(u, ZERO, max(options), reasons)
            self.at_most(ZERO, u, -min(options), reasons)

    def most(self, u: str) -> tuple[Fraction, Reasons] | None:
        """The direct upper bound on u."""
        edge = self._edges.get((u, ZERO))
        return None if edge is None else (edge[0][0], edge[1])

    def least(self, u: str) -> Fraction | None:
        """The direct lower bound on u."""
        edge = self._edges.get((ZERO, u))
        return None if edge is None else -edge[0][0]

    def conflict(self) -> Reasons | None:
        """What makes the bounds contradictory; None when they are not (as far as is checked)."""
        return self._pair_conflict() or self._option_conflict() or self._point_conflict() or self._cycle()

    def _pair_conflict(self) -> Reasons | None:
        for (u, v), (weight, reasons) in self._edges.items():
            back = (weight, reasons) if u == v else self._edges.get((v, u))
            if back is not None and _sum(weight, back[0]) < (0, 0):
                return reasons | back[1]
        return None

    def _option_conflict(self) -> Reasons | None:
        for u, lists in self._options.items():
            used: Reasons = frozenset().union(*(reasons for _, reasons in lists))
            left = frozenset.intersection(*(options for options, _ in lists))
            for edge, sign in (((u, ZERO), 1), ((ZERO, u), -1)):
                if edge in self._edges:
                    weight, reasons = self._edges[edge]
                    kept = frozenset(x for x in left if (sign * x, 0) <= weight)
                    used, left = (used, left) if kept == left else (used | reasons, kept)
            for a, b, value, reasons in self._unequal:
                if (a, b) == (u, ZERO) and value in left:
                    used, left = used | reasons, left - {value}
            if u in self.whole:
                left = frozenset(x for x in left if x.denominator == 1)
            if not left:
                return used
        return None

    def _point_conflict(self) -> Reasons | None:
        for u, v, value, reasons in self._unequal:
            if u == v and value == 0:
                return reasons
            there, back = self._edges.get((u, v)), self._edges.get((v, u))
            if there is not None and back is not None and there[0] == (value, 0) and back[0] == (-value, 0):
                return reasons | there[1] | back[1]
        return None

    def _cycle(self) -> Reasons | None:
        nodes = {node for edge in self._edges for node in edge}
        if len(nodes) * len(self._edges) > MAX_WORK:
            return None
        distance: dict[str, _Weight] = dict.fromkeys(nodes, (Fraction(0), 0))
        before: dict[str, str] = {}
        changed: str | None = None
        for _ in range(len(nodes) + 1):
            changed = None
            for (u, v), (weight, _) in self._edges.items():  # an edge from v to u
                reached = _sum(distance[v], weight)
                if reached < distance[u]:
                    distance[u], before[u], changed = reached, v, u
            if changed is None:
                return None
        assert changed is not None
        for _ in range(len(nodes)):
            changed = before[changed]
        return self._reasons_of_cycle(changed, before)

    def _reasons_of_cycle(self, start: str, before: dict[str, str]) -> Reasons:
        found: Reasons = frozenset()
        node = start
        while True:
            found |= self._edges[node, before[node]][1]
            node = before[node]
            if node == start:
                return found


def _sum(one: _Weight, other: _Weight) -> _Weight:
    return one[0] + other[0], one[1] + other[1]


@dataclass
class Texts:
    """Equalities of texts."""

    _parent: dict[str, str] = field(default_factory=dict)
    _equal: dict[str, Reasons] = field(default_factory=dict)
    _options: list[tuple[str, frozenset[str], Reasons]] = field(default_factory=list)
    _excluded: list[tuple[str, frozenset[str], Reasons]] = field(default_factory=list)
    _unequal: list[tuple[str, str, Reasons]] = field(default_factory=list)

    def equal(self, u: str, v: str, reasons: Reasons) -> None:
        """u and v are the same text."""
        first, second = self._root(u), self._root(v)
        why = self._equal.get(first, frozenset()) | self._equal.get(second, frozenset()) | reasons
        self._parent[second] = first
        self._equal[first] = why

    def unequal(self, u: str, v: str, reasons: Reasons) -> None:
        """u and v are different texts."""
        self._unequal.append((u, v, reasons))

    def one_of(self, u: str, values: Iterable[str], reasons: Reasons) -> None:
        """u is one of these texts."""
        self._options.append((u, frozenset(values), reasons))

    def none_of(self, u: str, values: Iterable[str], reasons: Reasons) -> None:
        """u is none of these texts."""
        self._excluded.append((u, frozenset(values), reasons))

    def conflict(self) -> Reasons | None:
        """What makes the conditions contradictory; None when they are not."""
        left = self._left()
        for root, (values, used) in left.items():
            if not values:
                return used | self._why(root)
        for u, v, reasons in self._unequal:
            a, b = self._root(u), self._root(v)
            if a == b:
                return reasons | self._why(a)
            if a in left and b in left and len(left[a][0]) == 1 and left[a][0] == left[b][0]:
                return reasons | left[a][1] | left[b][1] | self._why(a) | self._why(b)
        return None

    def values(self, u: str) -> tuple[frozenset[str], Reasons] | None:
        """The values that u may have, None when any."""
        return self._left().get(self._root(u))

    def _left(self) -> dict[str, tuple[frozenset[str], Reasons]]:
        left: dict[str, tuple[frozenset[str], Reasons]] = {}
        for u, values, reasons in self._options:
            root = self._root(u)
            known, used = left.get(root, (values, frozenset()))
            if not known <= values or not used:
                left[root] = (known & values, used | reasons)
        for u, values, reasons in self._excluded:
            root = self._root(u)
            if root in left and left[root][0] & values:
                left[root] = (left[root][0] - values, left[root][1] | reasons)
        return left

    def _why(self, root: str) -> Reasons:
        return self._equal.get(root, frozenset())

    def _root(self, u: str) -> str:
        while self._parent.get(u, u) != u:
            u = self._parent[u]
        return u
