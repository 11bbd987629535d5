"""What load shedding has dropped and how the latency bound is held, as figures: of one engine, and of several."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

import engine
from app.store.status import OverloadFigures, SheddingFigures

OverloadOf = Callable[[Mapping[str, engine.CompiledQuery]], engine.OverloadControl]
"""Makes the overload control of an engine with these queries."""


class Lost(NamedTuple):
    """What was dropped of one query: runs, the partial matches that they stand for, the matches expected of them, and
    of how many nothing was known that could be expected; kept events of matches that are postponed."""

    n_runs: int
    n_partial_matches: float
    expected_matches: float
    n_unvalued: float
    n_events: int

    @property
    def n_dropped(self) -> int:
        """Of either kind."""
        return self.n_runs + self.n_events

    def since(self, before: Lost) -> Lost:
        """What came to it; all of it where it began anew."""
        if self.n_dropped < before.n_dropped:
            return self
        return Lost(
            self.n_runs - before.n_runs,
            self.n_partial_matches - before.n_partial_matches,
            self.expected_matches - before.expected_matches,
            self.n_unvalued - before.n_unvalued,
            self.n_events - before.n_events,
        )

    def with_more(self, other: Lost) -> Lost:
        """Both together."""
        return Lost(
            self.n_runs + other.n_runs,
            self.n_partial_matches + other.n_partial_matches,
            self.expected_matches + other.expected_matches,
            self.n_unvalued + other.n_unvalued,
            self.n_events + other.n_events,
        )

    def told(self, bound_ms: int) -> str:
        """What was lost by it, for people."""
        if self.n_events:
            return (
                f"{self.n_events:,} events that further matches might have needed dropped to hold "
                f"engine.latency_bound ({bound_ms} ms): matches may be missing, and their alerts; how many is "
                "not estimated"
            )
        message = (
            f"{self.n_partial_matches:,.0f} partial matches dropped to hold engine.latency_bound "
            f"({bound_ms} ms): about {self.expected_matches:,.1f} matches may be missing, and their alerts, "
            "estimated from how often partial matches like them completed"
        )
        if self.n_unvalued:
            message += f"; {self.n_unvalued:,.0f} were dropped before that was known, and are not in the estimate"
        return message


NOTHING = Lost(0, 0.0, 0.0, 0.0, 0)


def overload_of(matcher: object) -> engine.OverloadControl | None:
    """The overload control of a matcher that has one."""
    return matcher.overload if isinstance(matcher, engine.Engine) else None


@contextmanager
def unbounded(matcher: object) -> Iterator[None]:
    """For events that were evaluated before: they have waited for nobody."""
    control = overload_of(matcher)
    if control is not None:
        control.is_on = False
    try:
        yield
    finally:
        if control is not None:
            control.is_on = True


def missing_until_ms(matcher: object) -> Mapping[str, int]:
    """By query: rows that the matcher has just returned and that began until then may lack matches beside them."""
    control = overload_of(matcher)
    return {} if control is None else control.missing_until_ms


def lost_by(matcher: object) -> dict[str, Lost]:
    """What was dropped of each query so far."""
    control = overload_of(matcher)
    if control is None:
        return {}
    return {
        name: Lost(loss.n_runs, loss.n_partial_matches, loss.expected_matches, loss.n_unvalued, loss.n_events)
        for name, loss in control.shedder.loss.items()
        if loss.is_any
    }


def overload_figures(matcher: object) -> OverloadFigures | None:
    """How the bound is held, as the store keeps it; None without one."""
    control = overload_of(matcher)
    if control is None:
        return None
    counted = control.statistics
    figures = OverloadFigures(
        bound_ms=round(1000 * control.detector.bound.latency_s),
        strategy=control.shedder.strategy.value,
        is_shedding=counted.is_shedding,
        latency_ms=round(1000 * counted.latency_s, 3),
        longest_ms=round(1000 * counted.longest_s, 3),
        n_steps=counted.n_steps,
        n_shed_steps=counted.n_shed_steps,
        shedding_seconds=round(counted.shedding_s, 6),
        exempt=sorted(control.shedder.exempt),
        queries={
            name: SheddingFigures(
                n_partial_matches=round(loss.n_partial_matches),
                expected_matches=round(loss.expected_matches, 3),
                n_unvalued=round(loss.n_unvalued),
                n_events=loss.n_events,
            )
            for name, loss in sorted(control.shedder.loss.items())
            if loss.is_any
        },
    )
    if control.events is not None:
        figures["dropped_events"] = control.events.dropped
        figures["expected_event_loss"] = round(control.events.expected_loss, 3)
    if counted.achievable_s is not None:
        figures["achievable_ms"] = whole_ms(1000 * counted.achievable_s)
    return figures


def joined(figures: Sequence[OverloadFigures]) -> OverloadFigures:
    """Those of several engines that hold one bound: sums of what was done and dropped, the longest latencies."""
    first = figures[0]
    queries: dict[str, SheddingFigures] = {}
    for name in sorted(frozenset().union(*(each["queries"] for each in figures))):
        own = [each["queries"][name] for each in figures if name in each["queries"]]
        queries[name] = SheddingFigures(
            n_partial_matches=sum(each["n_partial_matches"] for each in own),
            expected_matches=round(sum(each["expected_matches"] for each in own), 3),
            n_unvalued=sum(each["n_unvalued"] for each in own),
            n_events=sum(each["n_events"] for each in own),
        )
    found = OverloadFigures(
        bound_ms=first["bound_ms"],
        strategy=first["strategy"],
        is_shedding=any(each["is_shedding"] for each in figures),
        latency_ms=max(each["latency_ms"] for each in figures),
        longest_ms=max(each["longest_ms"] for each in figures),
        n_steps=sum(each["n_steps"] for each in figures),
        n_shed_steps=sum(each["n_shed_steps"] for each in figures),
        shedding_seconds=round(sum(each["shedding_seconds"] for each in figures), 6),
        exempt=sorted(frozenset().union(*(each["exempt"] for each in figures))),
        queries=queries,
    )
    achievable = [each["achievable_ms"] for each in figures if "achievable_ms" in each]
    if achievable:
        found["achievable_ms"] = max(achievable)
    return found


def whole_ms(milliseconds: float) -> int:
    """Rounded up."""
    return int(min(np.ceil(milliseconds), 2**53))


__all__ = [
    "NOTHING",
    "Lost",
    "OverloadOf",
    "joined",
    "lost_by",
    "missing_until_ms",
    "overload_figures",
    "overload_of",
    "unbounded",
    "whole_ms",
]
