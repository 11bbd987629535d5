"""Numbers of rows: whole ones as they are, and larger ones as a double with an exponent, never infinite."""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import total_ordering
from typing import Any

from engine.kernels.trends.numbers import BLOCK, LIMB_BITS

MOST_WHOLE = 2**63 - 1
"""Larger whole numbers are scaled: columns of rows have 64 bits."""

_DIGITS = 17

_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}


@total_ordering
@dataclass(frozen=True, eq=False)
class Scaled:
    """mantissa * 2^exponent with 0.5 <= |mantissa| < 1; zero is no such number.

    What has become one is not exact: each operation on the way rounds to 53 bits.
    """

    mantissa: float
    exponent: int

    @classmethod
    def of(cls, value: float | Scaled) -> Scaled:
        """A number as a scaled one; raises ValueError for what is not finite."""
        if isinstance(value, Scaled):
            return value
        if isinstance(value, int):
            shift = max(0, abs(value).bit_length() - 64)
            mantissa, exponent = math.frexp(value >> shift)
            return cls(mantissa, exponent + shift)
        if not math.isfinite(value):
            raise ValueError(f"{value} has no mantissa")
        return cls(*math.frexp(value))

    def times_power(self, bits: int) -> Scaled:
        """Times 2^bits."""
        return Scaled(self.mantissa, self.exponent + bits)

    def __float__(self) -> float:
        try:
            return math.ldexp(self.mantissa, self.exponent)
        except OverflowError:
            return math.copysign(math.inf, self.mantissa)

    def __str__(self) -> str:
        """In decimals, with all digits that the mantissa has."""
        shown = float(self)
        if math.isfinite(shown):
            return repr(shown)
        digits = math.log10(abs(self.mantissa)) + self.exponent * math.log10(2.0)
        power = math.floor(digits)
        # Exactly, for logarithms of large numbers lose the digits that are to be shown.
        whole = int(math.ldexp(abs(self.mantissa), 53))
        shift = self.exponent - 53
        scaled = (whole << shift) if shift >= 0 else whole >> -shift
        leading = scaled // 10 ** max(0, power - _DIGITS + 1)
        text = str(leading)
        power = len(text) - 1 + max(0, power - _DIGITS + 1)
        sign = "-" if self.mantissa < 0 else ""
        return f"{sign}{text[0]}.{text[1:_DIGITS]}e+{power}"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, int | float | Scaled):
            return NotImplemented
        if isinstance(other, float) and not math.isfinite(other):
            return False
        own = Scaled.of(other)
        return (self.mantissa, self.exponent) == (own.mantissa, own.exponent)

    def __lt__(self, other: object) -> bool:
        if not isinstance(other, int | float | Scaled):
            return NotImplemented
        if isinstance(other, float) and not math.isfinite(other):
            return other > 0
        difference = self.minus(Scaled.of(other))
        return difference.mantissa < 0

    def __hash__(self) -> int:
        return hash((self.mantissa, self.exponent))

    def plus(self, other: Scaled) -> Scaled:
        """The sum."""
        if self.mantissa == 0.0:
            return other
        if other.mantissa == 0.0:
            return self
        high, low = (self, other) if self.exponent >= other.exponent else (other, self)
        total = high.mantissa + math.ldexp(low.mantissa, max(low.exponent - high.exponent, -1100))
        return Scaled.of(total).times_power(high.exponent)

    def minus(self, other: Scaled) -> Scaled:
        """The difference."""
        return self.plus(Scaled(-other.mantissa, other.exponent))

    def times(self, other: Scaled) -> Scaled:
        """The product."""
        return Scaled.of(self.mantissa * other.mantissa).times_power(self.exponent + other.exponent)

    def divided_by(self, other: Scaled) -> Scaled:
        """The quotient; `other` is not zero."""
        return Scaled.of(self.mantissa / other.mantissa).times_power(self.exponent - other.exponent)


Quantity = int | float | Scaled
"""A number of a row."""


def number_of(whole: int, real: float, scale: int) -> Quantity:
    """The number that `engine.kernels.trends.numbers` has in three arrays."""
    if scale <= 0:
        return whole
    if scale == 1 or not math.isfinite(real):
        return real
    return simplest(Scaled.of(real).times_power(BLOCK * (scale - 1)))


def whole_of(limbs: Sequence[int]) -> int:
    """The whole number that `engine.kernels.trends.numbers` has in limbs, the lowest one first."""
    found = 0
    for limb in reversed(limbs):
        found = (found << LIMB_BITS) + limb
    found &= (1 << LIMB_BITS * len(limbs)) - 1
    return found - (1 << LIMB_BITS * len(limbs)) if found >> (LIMB_BITS * len(limbs) - 1) else found


def n_bits(value: Quantity) -> int:
    """Bits of a number before its point; raises OverflowError for what is not finite."""
    if isinstance(value, int):
        return value.bit_length()
    if not math.isfinite(value.mantissa if isinstance(value, Scaled) else value):
        raise OverflowError(f"{value} has no size")
    return max(0, Scaled.of(value).exponent)


def simplest(value: Quantity) -> Quantity:
    """A whole number of 64 bits, a finite double, or a scaled number."""
    if isinstance(value, int) and abs(value) > MOST_WHOLE:
        value = Scaled.of(value)
    if isinstance(value, Scaled):
        plain = float(value)
        return plain if math.isfinite(plain) else value
    return value


def calculated(op: str, left: Quantity, right: Quantity, *, exact: bool = False) -> Quantity | None:
    """left op right, without rounding among whole numbers where that is possible, or always if `exact`, and never
    infinite where it is finite; None for a division by zero and for what is no number."""
    if op in "/%" and right == 0:
        return None
    if op == "%":
        return _remainder(left, right)
    if isinstance(left, int) and isinstance(right, int) and op != "/":
        whole: int = _OPERATORS[op](left, right)
        return whole if exact else simplest(whole)
    if any(isinstance(side, float) and not math.isfinite(side) for side in (left, right)):
        plain: float = _OPERATORS[op](_double(left), _double(right))
        return None if math.isnan(plain) else plain
    a, b = Scaled.of(left), Scaled.of(right)
    match op:
        case "+":
            return simplest(a.plus(b))
        case "-":
            return simplest(a.minus(b))
        case "*":
            return simplest(a.times(b))
    return simplest(a.divided_by(b))


def _remainder(left: Quantity, right: Quantity) -> Quantity | None:
    if isinstance(left, int) and isinstance(right, int):
        rest = abs(left) % abs(right)
        return -rest if left < 0 else rest
    try:
        one = float(left)
    except OverflowError:  # a whole number of `EXACT`
        return None
    return math.fmod(one, _double(right)) if math.isfinite(one) else None


def _double(value: Quantity) -> float:
    """The nearest finite double, of what is finite."""
    if isinstance(value, float):
        return value
    try:
        found = float(value)
    except OverflowError:  # a whole number of `EXACT`
        found = math.inf if value > 0 else -math.inf
    return max(-sys.float_info.max, min(sys.float_info.max, found))


__all__ = ["MOST_WHOLE", "Quantity", "Scaled", "calculated", "n_bits", "number_of", "simplest", "whole_of"]
