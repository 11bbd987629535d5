"""The numbers of closed windows, put together by group: once for all queries of a graph that have the same GROUP BY."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.events import AttributeType, Int64Array
from engine.events import Value as EventValue
from engine.kernels.trends import arrays as ta
from engine.plan.trends.model import NumberKind, TrendPlan, TrendRowPlan
from engine.stream.interner import Interner
from engine.stream.key_table import KeyTable
from engine.trends.evidence import Group
from engine.trends.numbers import Quantity, calculated, n_bits, number_of, whole_of

SPARE_BITS = 2
"""Beyond those of EXACT limbs hold so many for sure: the size of what has been rounded may be one too large."""

Position = tuple[int, tuple[float, ...]]
"""A window and the values of a group, as keys have them."""


@dataclass
class Totals:
    """The numbers of one window and group; `is_exact`: of each, whether it is a whole one that has not been rounded, or
    none; `marks`: of `Sums`; `size`: bits of its trends where these are more than EXACT has room for."""

    numbers: list[Quantity | None]
    is_exact: list[bool]
    marks: int = 0
    size: int = 0

    @classmethod
    def none(cls, n_numbers: int) -> Totals:
        """Of no trends."""
        return cls([None] * n_numbers, [True] * n_numbers)

    def add(self, other: Totals, kinds: Sequence[NumberKind | None], are_whole: Sequence[bool], *, exact: bool) -> None:
        """Take those of one more partition; `kinds`: of the numbers, None for COUNT(*)."""
        self.numbers = [
            _joined(kind, mine, its, exact=exact)
            for kind, mine, its in zip(kinds, self.numbers, other.numbers, strict=True)
        ]
        self.marks |= other.marks
        self.size = max(self.size, other.size)
        for k, number in enumerate(self.numbers):
            if are_whole[k]:
                self.is_exact[k] &= other.is_exact[k] and (number is None or isinstance(number, int))


class TrendTotals:
    """Of the windows that a step closes; `plan` is that of the graph, `groups` are the key components of GROUP BY;
    `length`: the number of the windows' length among those that are told."""

    def __init__(self, plan: TrendPlan, groups: tuple[int, ...], length: int = 0) -> None:
        self._length = length
        self._plan = plan
        self._groups = list(groups)
        self._kinds = [None, *(number.kind for number in plan.numbers)]
        self._whole = [True, *(number.is_exact for number in plan.numbers)]
        self.found: dict[Position, Totals] = {}

    def add(self, results: ta.Results, keys: KeyTable) -> None:
        """Take the windows of partitions; those of one group are put together."""
        n_rows, n_numbers, width = int(results.n_rows[0]), len(self._kinds), self._plan.n_numbers
        groups = keys.values(results.partition[:n_rows])[:, self._groups].tolist()
        whole, real, scale = (part[: n_rows * width].tolist() for part in results[3:6])
        marks = results.marks[:n_rows].tolist()
        lengths = results.length[:n_rows].tolist()
        for row, window in enumerate(results.window[:n_rows].tolist()):
            if lengths[row] != self._length:
                continue
            at = row * width
            numbers = [self._number(k, whole[at + k], real[at + k], scale[at + k]) for k in range(n_numbers)]
            has_limbs = self._plan.n_limbs > 0 and marks[row] == 0
            size = n_bits(numbers[0]) if has_limbs and numbers[0] is not None else 0
            has_limbs &= size <= self._plan.query.exact_bits + SPARE_BITS
            if has_limbs:
                numbers = self._exact(numbers, whole[at : at + width])
                size = 0
            position = (window, tuple(groups[row]))
            are_exact = [not self._whole[k] or has_limbs or scale[at + k] <= 0 for k in range(n_numbers)]
            own = Totals(numbers, are_exact, marks[row], size)
            self.found.setdefault(position, Totals.none(n_numbers)).add(own, self._kinds, self._whole, exact=has_limbs)

    def _number(self, k: int, whole: int, real: float, scale: int) -> Quantity | None:
        if self._kinds[k] in (NumberKind.LEAST, NumberKind.GREATEST):
            return real if scale else None
        if self._kinds[k] is NumberKind.SUM and scale == 0 and whole == 0:
            return None
        return number_of(whole, real, scale)

    def _exact(self, numbers: Sequence[Quantity | None], propagated: Sequence[int]) -> list[Quantity | None]:
        """Whole numbers from their limbs, which hold them as long as the trends are not too many."""
        n_limbs = self._plan.n_limbs
        firsts = zip(numbers, self._plan.first_limbs, strict=True)
        return [
            whole_of(propagated[first : first + n_limbs]) if first and its is not None else its for its, first in firsts
        ]


def group_value(plan: TrendRowPlan, interner: Interner, component: int, value: float) -> EventValue:
    """A value of a key as rows have it."""
    kind = plan.attribute_types[plan.components[component].attribute]
    if kind is AttributeType.STRING:
        return interner.text(int(value))
    return int(value) if kind is AttributeType.INT else value


def groups_of(
    plan: TrendRowPlan, interner: Interner, groups: tuple[int, ...], keys: KeyTable, partitions: Int64Array
) -> dict[int, Group]:
    """The group of each of these partitions, as rows have it."""
    values = keys.values(partitions)[:, list(groups)].tolist()
    return {
        partition: tuple(group_value(plan, interner, k, value) for k, value in zip(groups, own, strict=True))
        for partition, own in zip(partitions.tolist(), values, strict=True)
    }


def _joined(kind: NumberKind | None, one: Quantity | None, other: Quantity | None, *, exact: bool) -> Quantity | None:
    if one is None or other is None:
        return other if one is None else one
    if kind is NumberKind.LEAST:
        return min(one, other)
    if kind is NumberKind.GREATEST:
        return max(one, other)
    return calculated("+", one, other, exact=exact)


__all__ = ["SPARE_BITS", "Position", "Totals", "TrendTotals", "group_value", "groups_of"]
