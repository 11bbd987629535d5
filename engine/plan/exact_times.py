"""Which queries need events whose times are known to the millisecond, why, and what to use instead (DESIGN 4)."""

from __future__ import annotations

from typing import NamedTuple

from engine.language import ast


class ExactTimes(NamedTuple):
    """`construct`: what of the query needs them."""

    construct: str
    reason: str
    remedy: str


def exact_times(query: ast.Query) -> ExactTimes | None:
    """None for a query that imprecise events may take part in."""
    if query.strategy is not None and query.strategy is not ast.Strategy.SKIP_TILL_ANY_MATCH:
        return ExactTimes(
            query.strategy.value,
            "which event comes next is not the same in all possible orders",
            "use skip_till_any_match",
        )
    if query.is_trend:
        if isinstance(query.pattern, ast.Conjunction):
            return ExactTimes(
                "AND in an aggregate over trends",
                "both trends of a pair depend on one order of the events, so that the expected number of pairs does "
                "not follow from those of trends",
                "write a query for each part, whose counts are expected values",
            )
        if not any(isinstance(node, ast.Negation) for node in ast.walk(query.pattern)):
            return None
        return ExactTimes(
            "NOT in an aggregate over trends",
            "what is absent is not the same in all possible orders",
            "leave the negation out, or match the events in question, where every match has a confidence",
        )
    if query.within_events is not None:
        return ExactTimes(
            "WITHIN n EVENTS",
            "which events are in a row is not the same in all possible orders",
            "use a window in time, as in WITHIN 10 minutes",
        )
    return None


def left_out_for(query: ast.Query) -> str | None:
    """Why events whose times are intervals may be left out, and what to do; None where none is."""
    needed = exact_times(query)
    if needed is not None:
        return f"under {needed.construct} {needed.reason}; {needed.remedy}"
    if not query.is_trend:
        return None
    return (
        "for trends intervals of one clock must not overlap, and have neither skew nor weights, and of a group at most "
        "512 events may overlap at once"
    )


__all__ = ["ExactTimes", "exact_times", "left_out_for"]
