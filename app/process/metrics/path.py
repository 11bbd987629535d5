"""Figures of the live path, as it is after a step: watermarks, queries, queues."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

import engine
from app.live.assembly import Live
from app.live.ordering.watermarks import NEVER_MS
from app.shedding.losses import overload_figures
from app.store.status import OverloadFigures
from engine.events import FOREVER_MS


@dataclass(frozen=True)
class QueryFigures:
    """One query since its engine was made."""

    n_events: int
    n_kept: int
    n_rejected: int
    n_unfinished: int
    seconds: float
    n_limited: int = 0


@dataclass(frozen=True)
class PathFigures:
    """The live path after a step."""

    looked_ms: int
    combined_ms: int
    sources: Mapping[str, tuple[int, bool]]
    """(watermark, whether it is left out), by source."""
    n_waiting: int
    n_recent: int
    queries: Mapping[str, QueryFigures]
    overload: OverloadFigures | None = None
    """None: no bound is set."""

    @classmethod
    def of(cls, live: Live, now_ms: int) -> PathFigures:
        """Look at a path that is not at work."""
        pipeline = live.pipeline
        return cls(
            looked_ms=now_ms,
            combined_ms=pipeline.order.watermarks.combined_ms,
            sources=pipeline.order.watermarks.by_source(),
            n_waiting=pipeline.order.n_waiting,
            n_recent=len(pipeline.recent),
            queries=_queries(pipeline.matcher),
            overload=overload_figures(pipeline.matcher),
        )


def _queries(matcher: object) -> dict[str, QueryFigures]:
    if not isinstance(matcher, engine.Engine):
        return {}
    return {
        name: QueryFigures(
            counted.n_events,
            counted.n_kept,
            counted.n_rejected,
            counted.n_unfinished,
            counted.seconds,
            counted.n_limited,
        )
        for name, counted in matcher.statistics.items()
    }


def watermark_metrics(path: PathFigures, now_ms: int) -> Iterator[Metric]:
    """How far each source, and all together, are behind the clock; a source never heard of has no lag yet."""
    lag = GaugeMetricFamily(
        "clustercep_watermark_lag_seconds", "How far a source's watermark is behind the clock.", labels=["source"]
    )
    out = GaugeMetricFamily(
        "clustercep_source_left_out",
        "1: silent, or far behind: the others go on without it.",
        labels=["source"],
    )
    for source, (watermark_ms, left_out) in path.sources.items():
        out.add_metric([source], int(left_out))
        if watermark_ms != NEVER_MS:
            lag.add_metric([source], lag_seconds(watermark_ms, now_ms))
    yield lag
    yield out
    combined = GaugeMetricFamily(
        "clustercep_combined_watermark_lag_seconds", "How far matching is behind the clock: what alerts wait for."
    )
    if path.combined_ms != NEVER_MS:
        combined.add_metric([], lag_seconds(path.combined_ms, now_ms))
    yield combined
    yield GaugeMetricFamily(
        "clustercep_last_step_timestamp_seconds", "When the last step was stored.", value=path.looked_ms / 1000
    )


def lag_seconds(watermark_ms: int, now_ms: int) -> float:
    """0 for a source that has told everything."""
    return 0.0 if watermark_ms >= FOREVER_MS else (now_ms - watermark_ms) / 1000


def query_metrics(path: PathFigures) -> Iterator[Metric]:
    """What each query costs and keeps."""
    seconds = CounterMetricFamily("clustercep_query_seconds", "Engine time of a query.", labels=["query"])
    events = CounterMetricFamily("clustercep_query_events", "Events that a query read.", labels=["query"])
    rejected = CounterMetricFamily(
        "clustercep_query_rejected_events", "Events that a query's strategy cannot evaluate.", labels=["query"]
    )
    limited = CounterMetricFamily(
        "clustercep_query_limited_windows", "Windows in which LIMIT left rows out.", labels=["query"]
    )
    stopped = CounterMetricFamily(
        "clustercep_query_stopped_searches",
        "Searches that the work budget stopped: matches, and alerts, may be missing.",
        labels=["query"],
    )
    kept = GaugeMetricFamily("clustercep_query_events_kept", "Events (or runs) that a query keeps.", labels=["query"])
    for query, figures in path.queries.items():
        seconds.add_metric([query], figures.seconds)
        events.add_metric([query], figures.n_events)
        rejected.add_metric([query], figures.n_rejected)
        limited.add_metric([query], figures.n_limited)
        stopped.add_metric([query], figures.n_unfinished)
        kept.add_metric([query], figures.n_kept)
    yield from (seconds, events, rejected, limited, stopped, kept)


__all__ = ["PathFigures", "QueryFigures", "lag_seconds", "query_metrics", "watermark_metrics"]
