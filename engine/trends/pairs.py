"""Pairs of trends (`P AND Q`) from what is known of the trends of each part and of those that both match.

With P, Q the trends of the parts in one partition and window and I = P and Q: each trend of P goes with each one of Q,
but not with itself, and what two trends of I make is counted once, not once for either order (GRETA, section 9):

    pairs       |P| |Q| - |I| (|I| + 1) / 2
    sum of x    |Q| x(P) + |P| x(Q) - (|I| + 1) x(I)

where x adds over both trends of a pair. As soon as there is one pair, each trend of either part is in one, so that the
least and greatest values are those of all trends.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from engine.plan.trends.model import NumberKind, TrendPairPlan, TrendPlan
from engine.trends.numbers import Quantity, calculated, n_bits, simplest
from engine.trends.totals import Position, Totals

Part = Mapping[Position, Totals]


class PairTotals:
    """Makes the numbers of pairs, by group, of those of trends, by partition."""

    def __init__(self, plan: TrendPairPlan) -> None:
        self._groups = plan.groups
        self._kinds: list[NumberKind | None] = [None, *(number.kind for number in plan.numbers)]
        self._whole = [True, *(number.is_exact for number in plan.numbers)]
        self._has_limbs = plan.n_limbs > 0
        self._positions = [_positions(plan, part) for part in plan.parts]

    def of(self, one: Part, other: Part, both: Part | None) -> dict[Position, Totals]:
        """The windows of a step, all that end in it; of groups with a pair."""
        found: dict[Position, Totals] = {}
        for position, mine in one.items():
            its = other.get(position)
            if its is None:
                continue
            of_both = None if both is None else both.get(position)
            own = self._pairs([mine, its] if of_both is None else [mine, its, of_both])
            if own is None:
                continue
            window, key = position
            group = window, tuple(key[k] for k in self._groups)
            none = Totals.none(len(self._kinds))
            found.setdefault(group, none).add(own, self._kinds, self._whole, exact=self._has_limbs and not own.size)
        return found

    def _pairs(self, parts: Sequence[Totals]) -> Totals | None:
        """Of one partition and window; None without a pair."""
        counts = [part.numbers[0] or 0 for part in parts]
        n_one, n_other, n_both = counts if len(counts) == 3 else (*counts, 0)
        count = _minus(_times(n_one, n_other), _half(_times(n_both, _plus(n_both, 1))))
        if count == 0:
            return None
        numbers: list[Quantity | None] = [self._simplest(count)]
        are_exact = [self._is_exact(parts, 0, count)]
        for k, kind in enumerate(self._kinds[1:], start=1):
            of_parts = [_number(part, positions[k]) for part, positions in zip(parts, self._positions, strict=False)]
            if kind in (NumberKind.LEAST, NumberKind.GREATEST):
                known = [number for number in of_parts if number is not None]
                numbers.append((min if kind is NumberKind.LEAST else max)(known, default=None))
                are_exact.append(True)
                continue
            if kind is NumberKind.SUM and all(number is None for number in of_parts):  # no trend has a value
                numbers.append(None)
                are_exact.append(True)
                continue
            total = _sum([0 if number is None else number for number in of_parts], n_one, n_other, n_both)
            numbers.append(self._simplest(total))
            are_exact.append(not self._whole[k] or self._is_exact(parts, k, total))
        # What EXACT has no room for in a part that makes a pair, pairs have no room for either.
        size = n_bits(count) if any(part.size for part in parts) else 0
        return Totals(numbers, are_exact, size=size)

    def _simplest(self, value: Quantity) -> Quantity:
        return value if self._has_limbs else simplest(value)

    def _is_exact(self, parts: Sequence[Totals], k: int, value: Quantity) -> bool:
        """Whether a whole number has been rounded on no way to a value."""
        known = all(
            part.is_exact[0] and (positions[k] < 0 or part.is_exact[positions[k]])
            for part, positions in zip(parts, self._positions, strict=False)
        )
        return known and isinstance(self._simplest(value), int)


def _positions(plan: TrendPairPlan, part: TrendPlan) -> list[int]:
    """Where the numbers of the pair are among those of a part, COUNT(*) first; -1 where its trends have none."""
    known = {number: position for position, number in enumerate(part.numbers, start=1)}
    return [0, *(known.get(number, -1) for number in plan.numbers)]


def _number(part: Totals, position: int) -> Quantity | None:
    return None if position < 0 else part.numbers[position]


def _sum(totals: Sequence[Quantity], n_one: Quantity, n_other: Quantity, n_both: Quantity) -> Quantity:
    one, other = totals[:2]
    infinite = [total for total in (one, other) if isinstance(total, float) and not math.isfinite(total)]
    if infinite:  # every trend is in a pair: nothing takes these away
        return sum(infinite)
    found = _plus(_times(one, n_other), _times(other, n_one))
    return found if len(totals) < 3 else _minus(found, _times(totals[2], _plus(n_both, 1)))


# Whole numbers stay whole, of any size: what is subtracted may be as large as what is left.


def _plus(one: Quantity, other: Quantity) -> Quantity:
    return _calculated("+", one, other)


def _minus(one: Quantity, other: Quantity) -> Quantity:
    return _calculated("-", one, other)


def _times(one: Quantity, other: Quantity) -> Quantity:
    return _calculated("*", one, other)


def _half(value: Quantity) -> Quantity:
    return value // 2 if isinstance(value, int) else _calculated("/", value, 2)


def _calculated(op: str, one: Quantity, other: Quantity) -> Quantity:
    found = calculated(op, one, other, exact=True)
    assert found is not None
    return found


__all__ = ["PairTotals"]
