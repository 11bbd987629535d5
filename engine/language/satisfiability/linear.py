"""Conditions as linear inequalities over terms: `v.x - w.x > 5`, with what is not linear as a term of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from engine.language.ast import (
    AllOf,
    Arithmetic,
    Comparison,
    Expression,
    Literal,
    Membership,
    Negative,
    Not,
    OneOf,
)

NameTerm = Callable[[Expression], str | None]
"""The name of a term that is an attribute, an aggregate or not linear; None when its value is NULL in every match."""

_OPPOSITE = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}


@dataclass(frozen=True)
class Form:
    """`sum of coefficient * term + constant`; terms by name in alphabetical order, no coefficient is 0."""

    terms: tuple[tuple[str, Fraction], ...]
    constant: Fraction

    def __add__(self, other: Form) -> Form:
        total = dict(self.terms)
        for name, coefficient in other.terms:
            total[name] = total.get(name, Fraction(0)) + coefficient
        kept = sorted((name, coefficient) for name, coefficient in total.items() if coefficient)
        return Form(tuple(kept), self.constant + other.constant)

    def times(self, factor: Fraction) -> Form:
        """The form multiplied by `factor`."""
        if not factor:
            return Form((), Fraction(0))
        return Form(tuple((name, factor * c) for name, c in self.terms), factor * self.constant)


def linear(expression: Expression, name_term: NameTerm) -> Form | None:
    """The form of a numeric expression; None when it is NULL in every match.

    Arithmetic is exact: it differs from that on doubles only beyond 2^53 and in the last digits.
    """
    match expression:
        case Literal(value=int() | float() as value):
            return Form((), Fraction(value))
        case Literal():
            return None
        case Negative(operand=operand):
            form = linear(operand, name_term)
            return None if form is None else form.times(Fraction(-1))
        case Arithmetic(op=op, left=left_side, right=right_side):
            left, right = linear(left_side, name_term), linear(right_side, name_term)
            if left is None or right is None:
                return None
            return _combined(op, left, right, expression, name_term)
    return _term(expression, name_term)


def _combined(op: str, left: Form, right: Form, expression: Expression, name_term: NameTerm) -> Form | None:
    if op in "/%" and not right.terms and not right.constant:
        return None  # a division by zero is NULL
    match op:
        case "+":
            return left + right
        case "-":
            return left + right.times(Fraction(-1))
        case "*" if not right.terms:
            return left.times(right.constant)
        case "*" if not left.terms:
            return right.times(left.constant)
        case "/" if not right.terms:
            return left.times(1 / right.constant)
    return _term(expression, name_term)


def _term(expression: Expression, name_term: NameTerm) -> Form | None:
    name = name_term(expression)
    return None if name is None else Form(((name, Fraction(1)),), Fraction(0))


# ------------------------------------------------------------ normal form


@dataclass(frozen=True)
class AnyHolds:
    """At least one of these lists of conditions holds as a whole."""

    choices: tuple[tuple[Condition, ...], ...]


@dataclass(frozen=True)
class NoneOf:
    """`x NOT IN (...)`."""

    membership: Membership


@dataclass(frozen=True)
class Never:
    """NULL as a condition: never true."""


Condition = Comparison | Membership | NoneOf | Never | AnyHolds


def conditions(expression: Expression, *, negated: bool = False) -> tuple[Condition, ...]:
    """The conditions that all hold exactly when `expression` is true (when it is false: `negated`).

    NOT is moved to the comparisons; in three-valued logic that changes no truth.
    """
    match expression:
        case Not(operand=operand):
            return conditions(operand, negated=not negated)
        case AllOf(operands=operands) if not negated:
            return tuple(c for operand in operands for c in conditions(operand))
        case OneOf(operands=operands) if negated:
            return tuple(c for operand in operands for c in conditions(operand, negated=True))
        case AllOf(operands=operands) | OneOf(operands=operands):
            return (AnyHolds(tuple(conditions(operand, negated=negated) for operand in operands)),)
        case Comparison(op=op, left=left, right=right):
            return (Comparison(_OPPOSITE[op] if negated else op, left, right),)
        case Membership():
            return (NoneOf(expression) if negated else expression,)
        case _:
            return (Never(),)
