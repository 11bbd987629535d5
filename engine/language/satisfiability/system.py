"""Conditions that must hold at once, as bounds; contradictory when no values satisfy them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from engine.language.ast import Comparison, Expression, Literal, Membership
from engine.language.satisfiability.bounds import ZERO, Numbers, Reasons, Texts
from engine.language.satisfiability.linear import AnyHolds, Condition, Form, NameTerm, Never, NoneOf, linear
from engine.language.types import Kind

MAX_CHOICES = 200
"""Choices of ORs that are looked at; those of a larger query may be contradictory unseen."""

MAX_AROUND = 300
"""Conditions beside an OR; with more of them its choices are looked at alone."""


@dataclass(frozen=True)
class Terms:
    """What is known of the terms of a query.

    `name_term` names a term (None: it is NULL); `kind_of` gives its kind; `null_reasons` says why a term is NULL;
    `add_facts` adds what holds of the named terms in every match.
    """

    name_term: NameTerm
    kind_of: Callable[[Expression], Kind]
    null_reasons: Callable[[Expression], Reasons]
    add_facts: Callable[[dict[str, Expression], Numbers], None]


Marked = tuple[Condition, Reasons]
"""A condition and what stands for it in a contradiction."""


class System:
    """Collects conditions; `conflict` says whether they contradict each other."""

    def __init__(self, terms: Terms) -> None:
        self.terms = terms
        self.budget = MAX_CHOICES

    def conflict(self, marked: Sequence[Marked]) -> Reasons | None:
        """The reasons of a contradiction, None when none is found."""
        plain = [(condition, reasons) for condition, reasons in marked if not isinstance(condition, AnyHolds)]
        found = Bounds(self.terms).conflict(plain)
        if found is not None:
            return found
        around = plain if len(plain) <= MAX_AROUND else []
        for condition, reasons in marked:
            if isinstance(condition, AnyHolds):
                found = self._no_choice(condition, reasons, around)
                if found is not None:
                    return found
        return None

    def bounds(self, marked: Iterable[Marked]) -> Bounds:
        """The bounds that the conditions are, those with a choice left out."""
        bounds = Bounds(self.terms)
        bounds.conflict((condition, reasons) for condition, reasons in marked if not isinstance(condition, AnyHolds))
        return bounds

    def _no_choice(self, either: AnyHolds, reasons: Reasons, around: Sequence[Marked]) -> Reasons | None:
        used = reasons
        for choice in either.choices:
            if self.budget <= 0:
                return None
            self.budget -= 1
            found = self.conflict([*((condition, reasons) for condition in choice), *around])
            if found is None:
                return None
            used |= found
        return used


class Bounds:
    """The bounds that conditions without a choice are."""

    def __init__(self, terms: Terms) -> None:
        self.terms = terms
        self.numbers = Numbers()
        self.texts = Texts()
        self.named: dict[str, Expression] = {}
        self.never: Reasons | None = None

    def conflict(self, marked: Iterable[Marked]) -> Reasons | None:
        """Add the conditions; the reasons of a contradiction, None when there is none."""
        for condition, reasons in marked:
            self._add(condition, reasons)
            if self.never is not None:
                return self.never
        self.terms.add_facts(self.named, self.numbers)
        return self.numbers.conflict() or self.texts.conflict()

    def _add(self, condition: Condition, reasons: Reasons) -> None:
        match condition:
            case Comparison(op=op, left=left, right=right):
                if Kind.STRING in (self._kind(left), self._kind(right)):
                    self._add_text(op, left, right, reasons)
                else:
                    self._add_numbers(op, left, right, reasons)
            case Membership():
                self._add_options(condition, reasons)
            case NoneOf(membership=membership):
                self._exclude(membership, reasons)
            case Never():
                self.never = reasons

    def _kind(self, expression: Expression) -> Kind:
        return self.terms.kind_of(expression)

    def _is_never(self, reasons: Reasons, *sides: Expression) -> None:
        self.never = reasons.union(*(self.terms.null_reasons(side) for side in sides))

    def _name(self, expression: Expression) -> str | None:
        name = self.terms.name_term(expression)
        if name is not None:
            self.named.setdefault(name, expression)
            if self._kind(expression) is Kind.INT:
                self.numbers.whole.add(name)
        return name

    # ---------------------------------------------------------------- numbers

    def _form(self, expression: Expression) -> Form | None:
        return linear(expression, self._name)

    def _add_numbers(self, op: str, left_side: Expression, right_side: Expression, reasons: Reasons) -> None:
        left, right = self._form(left_side), self._form(right_side)
        if left is None or right is None:
            return self._is_never(reasons, left_side, right_side)
        return self._relate(op, left + right.times(Fraction(-1)), reasons)

    def _relate(self, op: str, form: Form, reasons: Reasons) -> None:
        """`form op 0`."""
        if not form.terms:
            if not _HOLDS[op](form.constant):
                self.never = reasons
            return
        u, v, bound, flipped = self._difference(form)
        ops = {"=": ("<=", ">=")}.get(op, (op,))
        for each in ops:
            if each == "!=":
                self.numbers.unequal(u, v, bound, reasons)
            elif (each[0] == "<") is not flipped:
                self.numbers.at_most(u, v, bound, reasons, strict=len(each) == 1)
            else:
                self.numbers.at_most(v, u, -bound, reasons, strict=len(each) == 1)

    def _difference(self, form: Form) -> tuple[str, str, Fraction, bool]:
        """u, v, c and whether the inequality turns around, so that `form <= 0` is `u - v <= c`."""
        (first, factor), *others = form.terms
        scaled = form if factor == 1 else form.times(1 / factor)
        if not others:
            return first, ZERO, -scaled.constant, factor < 0
        if len(others) == 1 and scaled.terms[1][1] == -1:
            return first, others[0][0], -scaled.constant, factor < 0
        whole = " + ".join(f"{coefficient} * {name}" for name, coefficient in scaled.terms)
        return whole, ZERO, -scaled.constant, factor < 0

    # ------------------------------------------------------------------ texts

    def _add_text(self, op: str, left: Expression, right: Expression, reasons: Reasons) -> None:
        sides = [side.value if isinstance(side, Literal) else None for side in (left, right)]
        names = [None if isinstance(side, Literal) else self._name(side) for side in (left, right)]
        if any(side is None and name is None for side, name in zip(sides, names, strict=True)):
            return self._is_never(reasons, left, right)
        match sides, names:
            case [[str() as one, str() as other], _]:
                if (one == other) is not (op == "="):
                    self.never = reasons
            case [[None, None], [str() as one, str() as other]]:
                (self.texts.equal if op == "=" else self.texts.unequal)(one, other, reasons)
            case [[str() as value, None], [_, str() as name]] | [[None, str() as value], [str() as name, _]]:
                (self.texts.one_of if op == "=" else self.texts.none_of)(name, [value], reasons)
        return None

    # ---------------------------------------------------------------- options

    def _add_options(self, membership: Membership, reasons: Reasons) -> None:
        values = [option.value for option in membership.options if isinstance(option, Literal)]
        known = [value for value in values if value is not None]
        if not known or isinstance(membership.operand, Literal):
            constant = membership.operand.value if isinstance(membership.operand, Literal) else None
            if constant is None or constant not in known:
                self._is_never(reasons, membership.operand)
            return
        if self._kind(membership.operand) is Kind.STRING:
            name = self._name(membership.operand)
            if name is None:
                self._is_never(reasons, membership.operand)
            else:
                self.texts.one_of(name, [value for value in known if isinstance(value, str)], reasons)
            return
        form = self._form(membership.operand)
        if form is None:
            self._is_never(reasons, membership.operand)
        elif len(form.terms) == 1 and form.terms[0][1] == 1:
            name = form.terms[0][0]
            numbers = [Fraction(value) - form.constant for value in known if not isinstance(value, str)]
            self.numbers.one_of(name, numbers, reasons)

    def _exclude(self, membership: Membership, reasons: Reasons) -> None:
        values = [option.value for option in membership.options if isinstance(option, Literal)]
        if None in values:
            self._is_never(reasons, membership.operand)
            return
        for value in values:
            self._add(Comparison("!=", membership.operand, Literal(value)), reasons)


_HOLDS: dict[str, Callable[[Fraction], bool]] = {
    "=": lambda x: x == 0,
    "!=": lambda x: x != 0,
    "<": lambda x: x < 0,
    "<=": lambda x: x <= 0,
    ">": lambda x: x > 0,
    ">=": lambda x: x >= 0,
}
