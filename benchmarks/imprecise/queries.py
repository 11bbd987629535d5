"""The query of workload S over imprecise events, and what other engines need for it."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.precise.streams import STOCK, StockStream
from engine.events import EventBatch

N_REFERENCE_EVENTS = 100_000
SLACK_MS = 5
"""Each event lies anywhere within so much of its nominal time."""
THRESHOLDS = ("0.7", "0.9", "0.999")


def stock_query(within_ms: int, tail: str = "") -> str:
    """The template over the stock stream, without an aggregate; `tail`: OUTPUT and CONFIDENCE."""
    return (
        "PATTERN SEQ(stock+ a[], stock b) WHERE skip_till_any_match { [symbol] AND a[1].price % 500 = 0 "
        "AND a[i].price % 5 = 0 AND a[i].price % 500 != 0 AND a[i].volume > 150 AND b.volume < 150 "
        f"AND b.price % 500 != 0 }} WITHIN {within_ms} {tail}"
    )


def stock_events(n_events: int, slack_ms: int = SLACK_MS) -> EventBatch:
    """The first events of the stream."""
    return StockStream(slack_ms=slack_ms).next(n_events)


@dataclass(frozen=True)
class Reference:
    """Events per second of the SASE++ authors' engine by window; None where it did not finish, 0 where not measured.

    `dynamic`: with dynamic programming, by threshold. `n_matches`: what it finds above each threshold, with the events
    of the Kleene component in order of arrival alone: a part of the matches that there are.
    """

    within_ms: int
    enumeration: float | None
    dynamic: dict[str, float | None]
    collapsed: float
    n_matches: dict[str, int]


def _thresholds(*figures: float | None) -> dict[str, float | None]:
    return dict(zip(THRESHOLDS, figures, strict=True))


REFERENCES = (
    Reference(10, 221e3, _thresholds(273e3, 286e3, 296e3), 307e3, {}),
    Reference(25, 8.6e3, _thresholds(205e3, 250e3, 292e3), 292e3, {"0.7": 634, "0.9": 368, "0.999": 215}),
    Reference(50, None, _thresholds(5.9e3, 53e3, 270e3), 306e3, {"0.7": 3_555, "0.9": 2_014, "0.999": 1_219}),
    Reference(100, None, _thresholds(None, None, 96e3), 298e3, {"0.999": 16_399}),
    Reference(200, None, _thresholds(None, None, None), 270e3, {}),
    Reference(1_000, 0, {}, 0, {}),
    Reference(3_000, 0, {}, 82e3, {}),
)
"""The table of workload S over imprecise timestamps; windows without thresholds are collapsed alone."""

__all__ = [
    "N_REFERENCE_EVENTS",
    "REFERENCES",
    "SLACK_MS",
    "STOCK",
    "THRESHOLDS",
    "Reference",
    "stock_events",
    "stock_query",
]
