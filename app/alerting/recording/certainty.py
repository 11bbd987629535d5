"""How sure it is that at least one match of an episode happened: evaluated, joined, and kept with the alert.

What is kept is what the matches demand of the times of uncertain events, as long as it is not too much: a match that
comes later, in another step or after a restart, then joins exactly. Beyond that the bounds alone go on.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import engine

if TYPE_CHECKING:
    from app.store.models import AlertRow

MAX_MATCHES = 200
"""Possible matches of one episode that are kept; more are kept as their bounds."""

WORK_LIMIT = 3_000
"""Of one evaluation, see `engine.at_least_one`: an episode is evaluated in each step that brings matches."""

MAX_HARD = 5
"""Alerts of one step whose evaluation may take all of it; further ones have bounds from a small part."""

_SMALL_LIMIT = 50


@dataclass
class Effort:
    """What the evaluations of one step have taken so far."""

    n_hard: int = 0

    def assessed(self, possible: engine.Possibilities) -> engine.AtLeastOne:
        """How sure it is that one of these matches happened."""
        if self.n_hard >= MAX_HARD:
            return roughly(possible)
        result = engine.at_least_one(possible, work_limit=WORK_LIMIT)
        self.n_hard += result.method in (engine.Method.BOUNDS, engine.Method.ESTIMATE) and bool(possible.matches)
        return result


def joined(several: Iterable[engine.Possibilities]) -> engine.Possibilities:
    """The possible matches of all of them."""
    together = engine.united(several)
    return together if len(together.matches) <= MAX_MATCHES else bounds_of(roughly(together))


def roughly(possible: engine.Possibilities) -> engine.AtLeastOne:
    """Exactly where that is little work, else bounds."""
    return engine.at_least_one(possible, work_limit=_SMALL_LIMIT, n_worlds=0)


def bounds_of(result: engine.AtLeastOne) -> engine.Possibilities:
    """What is left of matches when only the result is kept."""
    return engine.Possibilities.known_by(result.lower, result.upper)


def weaker(one: str | None, other: str | None) -> str | None:
    """What the numbers of both together are: values of engine.Expectation, None where they are those of what happened.

    An upper bound says less than an expected value.
    """
    if engine.Expectation.UPPER_BOUND in (one, other):
        return engine.Expectation.UPPER_BOUND.value
    return one or other


def put(alert: AlertRow, possible: engine.Possibilities, effort: Effort) -> None:
    """Evaluate the possible matches of an alert and keep them with it."""
    for name, value in columns(possible, effort).items():
        setattr(alert, name, value)


def columns(possible: engine.Possibilities, effort: Effort) -> dict[str, Any]:
    """The columns of an alert with these possible matches that say how sure it is."""
    result = effort.assessed(possible)
    return {
        "at_least_one_lower": result.lower,
        "at_least_one_upper": result.upper,
        "at_least_one_method": result.method.value,
        "at_least_one_estimate": result.estimate,
        "at_least_one_error": result.standard_error,
        "possible": None if result.method is engine.Method.CERTAIN else possible.to_json(),
    }


def add(alert: AlertRow, more: engine.Possibilities, effort: Effort) -> None:
    """Further matches join the alert."""
    if alert.at_least_one_method == engine.Method.CERTAIN.value:
        return
    put(alert, joined((kept(alert), more)), effort)


def kept(alert: AlertRow) -> engine.Possibilities:
    """The possible matches of an alert so far."""
    if alert.possible is None:
        return engine.Possibilities.known_by(alert.at_least_one_lower, alert.at_least_one_upper)
    return engine.Possibilities.from_json(alert.possible)
