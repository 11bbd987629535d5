"""SELECT FIRST and CONSUME: which of the matches of one partition and window count (DESIGN 3, after gSPICE)."""

from __future__ import annotations

from collections.abc import Sequence

from engine.language import ast
from engine.reference.found import FoundMatch
from engine.reference.observed import ObservedEvent


def selected(query: ast.Query, found: Sequence[FoundMatch]) -> list[FoundMatch]:
    """What SELECT FIRST and then CONSUME leave of matches of one partition and window, in listing order."""
    chosen = _first_by_end(found) if query.select_first else list(found)
    return _without_consumed(query.consume, chosen) if query.consume else chosen


def _first_by_end(found: Sequence[FoundMatch]) -> list[FoundMatch]:
    """Of the matches that end in one event the first in listing order."""
    first: dict[ObservedEvent, FoundMatch] = {}
    for match in found:
        first.setdefault(match.sequence[-1], match)
    return list(first.values())


def _without_consumed(variables: Sequence[str], found: Sequence[FoundMatch]) -> list[FoundMatch]:
    """Without those that bind a variable to an event which an accepted match before has bound it to."""
    consumed: set[tuple[str, ObservedEvent]] = set()
    accepted = []
    for match in found:
        own = {(variable, event) for variable in variables for event in match.binding.get(variable, ())}
        if not own & consumed:
            accepted.append(match)
            consumed |= own
    return accepted


__all__ = ["selected"]
