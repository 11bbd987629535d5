"""What was dropped under overload: counters that never fall within a process."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from app.store.status import OverloadFigures, SheddingFigures

_Number = TypeVar("_Number", int, float)


class Rising:
    """What was dropped since the process started. An engine that goes on from a checkpoint, after a failed step or a
    reload, counts from what was dropped up to there; a counter that falls would be taken for one from zero."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, str], float] = {}
        self._lead: dict[tuple[str, str], float] = {}
        """How far what was told is ahead of what engines count."""

    def of(self, figures: OverloadFigures) -> OverloadFigures:
        """The figures with counters that never fall."""
        queries = {
            name: SheddingFigures(
                n_partial_matches=self._risen(name, "partial", lost.get("n_partial_matches", 0)),
                expected_matches=self._risen(name, "expected", lost.get("expected_matches", 0.0)),
                n_unvalued=self._risen(name, "unvalued", lost.get("n_unvalued", 0)),
                n_events=self._risen(name, "events", lost.get("n_events", 0)),
            )
            for name, lost in self._with_those_gone(figures["queries"]).items()
        }
        risen: OverloadFigures = {**figures, "queries": queries}
        risen["shedding_seconds"] = self._risen("", "seconds", figures["shedding_seconds"])
        if dropped := figures.get("dropped_events"):
            risen["dropped_events"] = {name: self._risen(name, "type", n) for name, n in dropped.items()}
        return risen

    def _with_those_gone(self, queries: Mapping[str, SheddingFigures]) -> dict[str, SheddingFigures]:
        """A checkpoint of before may have nothing dropped of a query."""
        nothing = SheddingFigures(n_partial_matches=0, expected_matches=0.0, n_unvalued=0, n_events=0)
        known = {name for name, what in self._last if what == "partial"}
        return {name: queries.get(name, nothing) for name in sorted({*queries, *known})}

    def _risen(self, name: str, what: str, value: _Number) -> _Number:
        last = self._last.get((name, what), 0)
        if value < last:
            self._lead[name, what] = self._lead.get((name, what), 0) + last - value
        self._last[name, what] = value
        return type(value)(value + self._lead.get((name, what), 0))


def overload_metrics(figures: OverloadFigures, queries: Iterable[str]) -> Iterator[Metric]:
    """How engine.latency_bound is held, and what was dropped for it."""
    yield GaugeMetricFamily(
        "clustercep_latency_bound_seconds", "engine.latency_bound.", value=figures["bound_ms"] / 1000
    )
    yield GaugeMetricFamily(
        "clustercep_latency_seconds",
        "From when the watermark released an event to when it was evaluated, of the last ones.",
        value=figures["latency_ms"] / 1000,
    )
    yield GaugeMetricFamily(
        "clustercep_latency_achievable_seconds",
        "The bound that could be met with everything dropped that can be; 0: the one that is set.",
        value=figures.get("achievable_ms", 0) / 1000,
    )
    yield GaugeMetricFamily(
        "clustercep_shedding", "1: partial matches are dropped to hold the bound.", value=int(figures["is_shedding"])
    )
    yield CounterMetricFamily(
        "clustercep_shedding_seconds", "Time that dropping took.", value=figures["shedding_seconds"]
    )
    dropped = CounterMetricFamily(
        "clustercep_query_dropped_partial_matches", "Partial matches dropped to hold the bound.", labels=["query"]
    )
    events = CounterMetricFamily(
        "clustercep_query_dropped_kept_events",
        "Events kept for matches that are postponed, dropped to hold the bound.",
        labels=["query"],
    )
    missing = CounterMetricFamily(
        "clustercep_query_expected_missing_matches",
        "Matches that the dropped partial matches were expected to become.",
        labels=["query"],
    )
    exempt = GaugeMetricFamily(
        "clustercep_query_exempt_from_shedding", "1: nothing of what it keeps can be dropped.", labels=["query"]
    )
    for query in queries:
        lost = figures["queries"].get(query, {})
        dropped.add_metric([query], lost.get("n_partial_matches", 0))
        events.add_metric([query], lost.get("n_events", 0))
        missing.add_metric([query], lost.get("expected_matches", 0.0))
        exempt.add_metric([query], int(query in figures["exempt"]))
    of_type = CounterMetricFamily(
        "clustercep_dropped_events", "Events dropped before any query had them.", labels=["type"]
    )
    for event_type, n in sorted(figures.get("dropped_events", {}).items()):
        of_type.add_metric([event_type], n)
    yield from (dropped, events, missing, exempt, of_type)


__all__ = ["Rising", "overload_metrics"]
