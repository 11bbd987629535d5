"""Checks of the pattern itself: something must be mandatory, and a negation needs a place (SASE+ section 3.1)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import comb, prod

from engine.language.ast import (
    Alternative,
    AnyOf,
    Component,
    Conjunction,
    Negation,
    Pattern,
    Repeat,
    Sequence,
)
from engine.language.scopes import Checked

MAX_BRANCHES = 256
"""Each choice among the parts of OR, ANY, `?` and `*` is a pattern of its own; more of them are refused."""


def check_pattern(pattern: Pattern, checked: Checked) -> None:
    """Raises QueryTypeError for a pattern that cannot be evaluated.

    Refused: a pattern that matches without any event, a repetition of such a one, a negation that is no part of a
    sequence or stands in another negation or at the edge of an AND operand, and too many choices.
    """
    _check_negations(pattern, _WHOLE, checked)
    _check_repetitions(pattern, checked)
    if nullable(pattern):
        only_negations = not _has_positive(pattern)
        raise checked.error(
            pattern.span,
            "the pattern has only negated parts" if only_negations else "the pattern can match without any event",
            "at least one component that every match has",
            "add the event after (or before) which the others must be absent"
            if only_negations
            else "make one component mandatory: leave out its ? or *",
        )
    if n_branches(pattern) > MAX_BRANCHES:
        raise checked.error(
            pattern.span,
            f"the pattern stands for {_rounded(n_branches(pattern))} patterns: each choice among OR, ANY, ? and * "
            "makes one",
            f"at most {MAX_BRANCHES}",
            "leave out some of the choices, or write several queries",
        )


def nullable(pattern: Pattern) -> bool:
    """Whether the pattern can match without any event."""
    match pattern:
        case Component() | AnyOf():
            return False
        case Negation():
            return True
        case Repeat(pattern=inner, at_least=at_least):
            return at_least == 0 or nullable(inner)
        case Alternative(parts=parts):
            return any(nullable(part) for part in parts)
        case Sequence(parts=parts) | Conjunction(parts=parts):
            return all(nullable(part) for part in parts)


def n_branches(pattern: Pattern) -> int:
    """How many patterns without a choice this one stands for; those of a repeated group are counted once."""
    match pattern:
        case Component() | Negation():
            return 1
        case Repeat(pattern=inner, at_least=at_least):
            return n_branches(inner) + (at_least == 0)
        case Alternative(parts=parts):
            return sum(n_branches(part) for part in parts)
        case AnyOf(count=count, parts=parts):
            return comb(len(parts), count)
        case Sequence(parts=parts) | Conjunction(parts=parts):
            return prod(n_branches(part) for part in parts)


def _rounded(count: int) -> str:
    return str(count) if count < 10**9 else f"about 10^{len(str(count)) - 1}"


def _has_positive(pattern: Pattern) -> bool:
    match pattern:
        case Component() | AnyOf():
            return True
        case Negation():
            return False
        case Repeat(pattern=inner):
            return _has_positive(inner)
        case _:
            return any(_has_positive(part) for part in pattern.parts)


@dataclass(frozen=True)
class _Spot:
    """Where a pattern stands, as far as a negation there is concerned.

    `starts`, `ends`: at the start, the end of the whole pattern. `and_start`, `and_end`: at that of an AND operand
    which is not the whole pattern's.
    """

    in_sequence: bool = False
    in_negation: bool = False
    starts: bool = True
    ends: bool = True
    and_start: bool = False
    and_end: bool = False


_WHOLE = _Spot()


def _check_negations(pattern: Pattern, spot: _Spot, checked: Checked) -> None:
    match pattern:
        case Component():
            return
        case Negation():
            _check_place(pattern, spot, checked)
            _check_negations(pattern.pattern, replace(spot, in_sequence=False, in_negation=True), checked)
            if nullable(pattern.pattern):
                raise checked.error(
                    pattern.span,
                    "the negated pattern can match without any event, so that no match would remain",
                    remedy="leave out its ? or *",
                )
        case Repeat(pattern=inner):
            _check_negations(inner, replace(spot, in_sequence=False), checked)
        case Sequence(parts=parts):
            optional = [nullable(part) for part in parts]
            first_fixed = next((k for k, skipped in enumerate(optional) if not skipped), len(parts))
            last_fixed = next((k for k in reversed(range(len(parts))) if not optional[k]), -1)
            for k, part in enumerate(parts):
                is_first, is_last = k <= first_fixed, k >= last_fixed
                inside = _Spot(
                    in_sequence=True,
                    in_negation=spot.in_negation,
                    starts=spot.starts and is_first,
                    ends=spot.ends and is_last,
                    and_start=spot.and_start and is_first,
                    and_end=spot.and_end and is_last,
                )
                _check_negations(part, inside, checked)
        case Conjunction(parts=parts):
            inside = replace(
                spot,
                in_sequence=False,
                and_start=spot.and_start or not spot.starts,
                and_end=spot.and_end or not spot.ends,
            )
            for part in parts:
                _check_negations(part, inside, checked)
        case _:
            for part in pattern.parts:
                _check_negations(part, replace(spot, in_sequence=False), checked)


def _check_place(negation: Negation, spot: _Spot, checked: Checked) -> None:
    if spot.in_negation:
        raise checked.error(
            negation.span,
            "a negation inside a negated pattern",
            "a negated pattern of components that are not negated, as in !SEQ(A a, B b)",
            "leave the inner one out, or write a query for it",
        )
    if not spot.in_sequence:
        raise checked.error(
            negation.span,
            "a negation that is no part of a sequence",
            "SEQ(A a, !B b, C c): absence before, between or after other parts",
            "put it into a SEQ beside the events whose neighbourhood must be free of it",
        )
    if spot.and_start or spot.and_end:
        edge = "start" if spot.and_start else "end"
        raise checked.error(
            negation.span,
            f"a negation at the {edge} of an operand of AND, where events of the other operands may stand",
            "a negation between two parts of the operand, or outside of the AND",
            "put it beside the AND, as in SEQ(A a, !B b, AND(C c, D d))",
        )


def _check_repetitions(pattern: Pattern, checked: Checked) -> None:
    """Refuse a repetition of what may be nothing: it would match in endlessly many ways."""
    match pattern:
        case Component():
            return
        case Repeat(pattern=inner, at_most=at_most, span=span):
            if at_most != 1 and nullable(inner):
                raise checked.error(
                    span,
                    "a repeated pattern can match without any event",
                    "a repetition of a pattern with a mandatory component",
                    "leave out the ? or * inside",
                )
            _check_repetitions(inner, checked)
        case Negation(pattern=inner):
            _check_repetitions(inner, checked)
        case _:
            for part in pattern.parts:
                _check_repetitions(part, checked)
