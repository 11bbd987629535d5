"""On which events of a Kleene variable each conjunct of WHERE holds (SASE+'s begin and take, section 3.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

from engine.language.ast import Aggregate, Attribute, Expression, Index, walk
from engine.language.printer import print_expression
from engine.language.scopes import Scope
from engine.language.types import context_of, is_stepping


class Start(Enum):
    """The first i for which a conjunct holds."""

    PER_MATCH = "once per match"  # it does not mention i
    FROM_FIRST = "every i"
    FROM_SECOND = "i > 1"


@dataclass(frozen=True)
class Reading:
    """How a conjunct is read: `variable` is the one whose events i counts (None: PER_MATCH); `sentence` says why.

    `context` are the repeated groups (their numbers, outermost first) in each of whose iterations the conjunct must
    hold; () once per match.
    """

    start: Start
    variable: str | None
    sentence: str
    context: tuple[int, ...] = ()


def read_conjuncts(predicates: Sequence[Expression], scope: Scope) -> tuple[Reading, ...]:
    """One Reading per predicate, in their order; the predicates have passed the type checker.

    A conjunct with b[i-1] or an aggregate over b[..i-1] starts at the second event, where these exist. One on
    attributes of b alone starts there, too, when another conjunct constrains b[1] alone: the two are begin and take.
    An aggregate over b[] is no attribute but a relation to the whole list. Every other conjunct with b[i] holds for all
    events of b.
    """
    firsts: dict[str, Expression] = {}
    for predicate in predicates:
        variable = _constrains_first_of(predicate)
        if variable is not None:
            firsts.setdefault(variable, predicate)
    return tuple(_in_context(_read(predicate, firsts), context_of(predicate, scope), scope) for predicate in predicates)


def _in_context(reading: Reading, context: tuple[int, ...], scope: Scope) -> Reading:
    if not context:
        per_match = " per match" if reading.start is Start.PER_MATCH else ""
        return replace(reading, sentence=reading.sentence + per_match)
    members = ", ".join(v.name for v in scope.values() if v.path[: len(context)] == context)
    return replace(reading, context=context, sentence=f"{reading.sentence}, in each iteration of {{{members}}}")


def _references(predicate: Expression) -> list[Attribute | Aggregate]:
    return [node for node in walk(predicate) if isinstance(node, (Attribute, Aggregate))]


def _constrains_first_of(predicate: Expression) -> str | None:
    """The variable b when every reference is to an attribute of b[1]."""
    references = _references(predicate)
    firsts = {r.variable for r in references if isinstance(r, Attribute) and r.index is Index.FIRST}
    n_others = sum(not (isinstance(r, Attribute) and r.index is Index.FIRST) for r in references)
    return firsts.pop() if len(firsts) == 1 and not n_others else None


def _read(predicate: Expression, firsts: dict[str, Expression]) -> Reading:
    references = _references(predicate)
    stepping = [reference for reference in references if is_stepping(reference)]
    text = print_expression(predicate)
    if not stepping:
        return Reading(Start.PER_MATCH, None, f"{text} holds once")
    v = stepping[0].variable
    before = [r for r in stepping if not (isinstance(r, Attribute) and r.index is Index.CURRENT)]
    if before:
        reason = f"{print_expression(before[0])} needs an event before"
        return Reading(Start.FROM_SECOND, v, f"{text} holds from the second event of {v} on: {reason}")
    if v in firsts and all(isinstance(r, Attribute) and r.variable == v for r in references):
        reason = f"the first is constrained by {print_expression(firsts[v])}"
        return Reading(Start.FROM_SECOND, v, f"{text} holds from the second event of {v} on: {reason}")
    return Reading(Start.FROM_FIRST, v, f"{text} holds for every event of {v}")
