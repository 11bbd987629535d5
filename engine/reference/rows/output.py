"""CONFIDENCE, windows, SELECT FIRST, CONSUME, OUTPUT and LIMIT as definitions over the list of all matches (DESIGN 3).

The rows have the fields of the engine's MatchRow, so that any runtime can be compared with them; confidences are exact.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial

from engine.errors import UnsupportedQueryError
from engine.events import EventBatch
from engine.language import ast
from engine.language.resolver import ResolvedQuery
from engine.reference.conditions import Keys
from engine.reference.existence import share_with_any
from engine.reference.expressions import NO_AGGREGATES, Aggregates
from engine.reference.found import FoundMatch
from engine.reference.matches import find_matches, fitting, listing_order
from engine.reference.observed import ObservedEvent, observe
from engine.reference.places import Nested
from engine.reference.rows.forms import FORMS, Outcome, key_of
from engine.reference.rows.returned import returned_values
from engine.reference.rows.selection import selected
from engine.reference.rows.windows import Window, windows_of
from engine.reference.trends.aggregates import TrendRow, trend_rows

ROUNDING = Fraction(1, 10**12)
"""By so much a confidence may miss a threshold and meet it still: runtimes compute in doubles."""


@dataclass(frozen=True)
class ReferenceRow:
    """One row of output; the fields mean what the engine's MatchRow says.

    For COLLAPSED and COUNT a row stands for all matches with its first and last event: `bindings`, `confidence` and
    `values` are those of the most confident one (the longest of these, then the first listed), `count` is exact;
    `share_with_any` then lists the worlds in which at least one of them is a match. It is None where `confidence` is
    already that.
    """

    query: str
    key: tuple[tuple[str, object], ...]
    first_lo_ms: int
    last_hi_ms: int
    bindings: dict[str, tuple[Nested, ...]]
    confidence: Fraction
    values: dict[str, object]
    count: int = 1
    count_exact: bool = True
    candidates: dict[str, tuple[str, ...]] | None = None
    exact: bool = True
    capped: bool = False
    window: tuple[int, int] | None = None
    expected: str | None = None
    share_with_any: Callable[[], Fraction] | None = field(default=None, compare=False, repr=False)


def reference_output(
    resolved: ResolvedQuery, batch: EventBatch, aggregates: Aggregates = NO_AGGREGATES
) -> list[ReferenceRow]:
    """The rows of the complete stream, in stream order of last event, first event, bindings, window; TOP by the end of
    the window, then by confidence.

    LIMIT counts in each window of the query's own, else over the stream. When it leaves rows out, the last one kept of
    the window is marked `capped`. `aggregates` gives the meaning of user-defined
    ones.
    """
    return [row for row, _ in rows_with_ends(resolved, observe(batch, resolved.schema), aggregates)]


def rows_with_ends(
    resolved: ResolvedQuery, events: Sequence[ObservedEvent], aggregates: Aggregates = NO_AGGREGATES
) -> list[tuple[ReferenceRow, ObservedEvent]]:
    """As `reference_output` from events in stream order, each row with the last event of its match."""
    if resolved.is_trend:
        return [(_trend_row(resolved, row), row.last) for row in trend_rows(resolved, events)]
    outcomes = reference_outcomes(resolved, events, aggregates)
    return [
        (replace(_row(resolved, outcome, window, aggregates, events), capped=is_capped), outcome.match.sequence[-1])
        for window, outcome, is_capped in _first(outcomes, resolved.query.limit)
    ]


def _trend_row(resolved: ResolvedQuery, row: TrendRow) -> ReferenceRow:
    return ReferenceRow(
        query=resolved.name,
        key=row.group,
        first_lo_ms=row.start_ms,
        last_hi_ms=row.end_ms,
        bindings={},
        confidence=Fraction(1),
        values=row.values,
        window=(row.start_ms, row.end_ms),
        expected=None if row.is_certain else "expected",
    )


def _first(
    outcomes: Sequence[tuple[Window | None, Outcome]], limit: int | None
) -> list[tuple[Window | None, Outcome, bool]]:
    """The first `limit` of each window, each with whether it is the last of these and there are more."""
    sizes = Counter(window for window, _ in outcomes)
    places: Counter[Window | None] = Counter()
    found: list[tuple[Window | None, Outcome, bool]] = []
    for window, outcome in outcomes:
        places[window] += 1
        if limit is None or places[window] <= limit:
            found.append((window, outcome, places[window] == limit and sizes[window] > limit))
    return found


def reference_outcomes(
    resolved: ResolvedQuery, events: Sequence[ObservedEvent], aggregates: Aggregates = NO_AGGREGATES
) -> list[tuple[Window | None, Outcome]]:
    """What stands behind the rows, before LIMIT: each with its window."""
    query = resolved.query
    events = fitting(query, events)
    keys = Keys(query, resolved.schema)
    found = find_matches(resolved, events, aggregates)
    if query.output is not ast.Output.SETS:
        found = [match for match in found if _is_confident(query, match.confidence)]
    by_window: dict[Window | None, list[FoundMatch]] = {}
    for match in found:
        for window in windows_of(query, match.sequence, events, keys, aggregates):
            by_window.setdefault(window, []).append(match)
    outcomes = [
        (window, outcome)
        for window, matches in by_window.items()
        for outcome in FORMS[query.output](resolved, _selected(resolved, matches), events)
        if query.output is not ast.Output.SETS or _is_confident(query, outcome.confidence)
    ]
    return sorted(outcomes, key=_by_confidence if query.output is ast.Output.TOP else _in_listing_order)


def _in_listing_order(item: tuple[Window | None, Outcome]) -> tuple[object, ...]:
    window, outcome = item
    return (listing_order(outcome.match), window or ())


def _by_confidence(item: tuple[Window | None, Outcome]) -> tuple[object, ...]:
    window, outcome = item
    closes = () if window is None else (window.end_ms, *window)
    return (closes, -outcome.confidence, listing_order(outcome.match))


def _is_confident(query: ast.Query, confidence: Fraction) -> bool:
    """A threshold means the decimal number that was written: 0.9 is nine tenths; it is met up to ROUNDING."""
    if query.confidence is None:
        return True
    if isinstance(query.confidence, ast.Parameter):
        raise UnsupportedQueryError(f"parameter :{query.confidence.name} has no value", query.confidence.span)
    return confidence >= Fraction(repr(query.confidence)) - ROUNDING


def _selected(resolved: ResolvedQuery, found: Sequence[FoundMatch]) -> list[FoundMatch]:
    """SELECT FIRST and CONSUME, partition by partition."""
    partitions: dict[object, list[FoundMatch]] = {}
    for match in found:
        partitions.setdefault(key_of(resolved, match), []).append(match)
    chosen = [match for matches in partitions.values() for match in selected(resolved.query, matches)]
    return sorted(chosen, key=listing_order)


def _row(
    resolved: ResolvedQuery,
    outcome: Outcome,
    window: Window | None,
    aggregates: Aggregates,
    events: Sequence[ObservedEvent],
) -> ReferenceRow:
    match = outcome.match
    behind = outcome.behind
    return ReferenceRow(
        query=resolved.name,
        key=key_of(resolved, match),
        first_lo_ms=match.sequence[0].lo_ms,
        last_hi_ms=match.sequence[-1].hi_ms,
        bindings=match.ids,
        confidence=outcome.confidence,
        values=returned_values(resolved, match.binding, aggregates),
        count=outcome.count,
        candidates=outcome.candidates,
        exact=outcome.exact,
        window=None if window is None else (window.start_ms, window.end_ms),
        share_with_any=partial(share_with_any, resolved, events, behind, aggregates) if len(behind) > 1 else None,
    )


__all__ = ["ROUNDING", "ReferenceRow", "reference_outcomes", "reference_output", "rows_with_ends"]
