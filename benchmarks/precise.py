"""Workload S over precise and imprecise timestamps (SASE++ section 6.1): listing, collapsed rows, counts.

The stream is drawn as the reference workload states: a 48-bit linear congruential generator (java.util.Random), events
at consecutive milliseconds. Figures are events per second of the runtime alone, events already in memory as columns,
delivered in batches; the first, compiling run is left out.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine import compile_query
from engine.events import FOREVER_MS, AttributeType, EventBatch, EventSchema
from engine.matching.base import Limits
from engine.matching.interner import Interner
from engine.matching.postponed import PostponedRuntime
from engine.matching.stream import StreamColumns

SCHEMA = EventSchema.of({"stock": dict.fromkeys(("symbol", "price", "volume"), AttributeType.INT)})
N_EVENTS = 100_000
BATCH = 10_000


class JavaRandom:
    """The 48-bit linear congruential generator of java.util.Random, `nextInt(bound)` alone."""

    def __init__(self, seed: int) -> None:
        self._state = (seed ^ 0x5DEECE66D) & (2**48 - 1)

    def next_int(self, bound: int) -> int:
        """A number in [0, bound), without bias."""
        while True:
            bits = self._next_31()
            if bound & (bound - 1) == 0:
                return (bound * bits) >> 31
            value = bits % bound
            if bits - value + bound - 1 < 2**31:
                return value

    def _next_31(self) -> int:
        self._state = (self._state * 0x5DEECE66D + 0xB) & (2**48 - 1)
        return self._state >> 17


def stock_stream(
    n_events: int = N_EVENTS, *, seed: int = 10, n_symbols: int = 2, p: int = 70, slack_ms: int = 0
) -> EventBatch:
    """Workload S: `n_events` of type stock; with slack each time is the interval [i - slack, i + slack]."""
    random = JavaRandom(seed)
    prices = [random.next_int(1_000) for _ in range(n_symbols)]
    columns: dict[str, list[int]] = {"symbol": [], "price": [], "volume": []}
    for _ in range(n_events):
        symbol = random.next_int(n_symbols) + 1
        draw = random.next_int(100) + 1
        if draw <= p:
            prices[symbol - 1] += random.next_int(3) + 1
        elif draw > (100 + p) / 2:
            prices[symbol - 1] -= random.next_int(3) + 1
        columns["symbol"].append(symbol)
        columns["price"].append(prices[symbol - 1])
        columns["volume"].append(random.next_int(1_000) + 1)
    times = np.arange(n_events, dtype=np.int64)
    header: dict[str, Any] = {
        "event_id": [str(i) for i in range(n_events)],
        "type": ["stock"] * n_events,
        "t_lo_ms": times - slack_ms,
        "t_hi_ms": times + slack_ms,
    }
    return EventBatch.from_columns(header | columns, SCHEMA)


def template(take: str, within: int, last: str, output: str) -> str:
    """The query of the workload with one predicate on taking and one on the last event."""
    return (
        "PATTERN SEQ(stock+ a[], stock b) WHERE skip_till_any_match { [symbol] AND a[1].price % 500 = 0 "
        f"AND {take} AND a[i].volume > 150 AND b.volume < 150 AND {last} }} WITHIN {within} {output}"
    )


@dataclass(frozen=True)
class Workload:
    """One line of the table; `n_matches` is what the reference lists, None where it states none."""

    name: str
    take: str
    last: str
    within: int
    outputs: tuple[str, ...]
    n_matches: int | None = None
    slack_ms: int = 0


MAX = "b.price > max(a[].price)"
MIN = "b.price > min(a[].price)"
LISTED = ("OUTPUT ALL", "OUTPUT COLLAPSED")
COLLAPSED = ("OUTPUT COLLAPSED", "OUTPUT COUNT")
IMPRECISE = "a[i].price % 5 = 0 AND a[i].price % 500 != 0"
WORKLOADS = (
    Workload("true-1", "a[i].price % 97 = 0", MAX, 25, LISTED, 351),
    Workload("true-2", "a[i].price % 3 != 0", MAX, 25, LISTED, 11_675),
    Workload("true-4", "a[i].price % 5 != 0", MAX, 25, LISTED, 65_975),
    Workload("false-1", "a[i].price % 97 = 0", MIN, 25, LISTED, 353),
    Workload("W50", "a[i].price % 5 = 0", MAX, 50, LISTED, 7_703),
    Workload("W100", "a[i].price % 5 = 0", MAX, 100, ("OUTPUT COLLAPSED", "OUTPUT ALL"), 361_662),
    Workload("W200", "a[i].price % 5 = 0", MAX, 200, COLLAPSED, 386_231_122),
    Workload("imprecise W25", IMPRECISE, "b.price % 500 != 0", 25, ("OUTPUT ALL CONFIDENCE >= 0.9",), slack_ms=5),
    Workload("imprecise W50", IMPRECISE, "b.price % 500 != 0", 50, ("OUTPUT COLLAPSED CONFIDENCE >= 0.9",), slack_ms=5),
)


def run(text: str, stream: EventBatch) -> tuple[float, int, int]:
    """Seconds, rows, and matches behind the rows (SETS and ALL: the rows)."""
    query = compile_query(text, SCHEMA)
    interner = Interner()
    runtime = PostponedRuntime(query.plan, interner, Limits(max_rows=10**7))
    parts = list(_batches(stream))
    n_rows = n_matches = 0
    started = time.perf_counter()
    for part, watermark_ms in parts:
        for row in runtime.advance(StreamColumns(part, interner), watermark_ms):
            n_rows += 1
            n_matches += row.count
    return time.perf_counter() - started, n_rows, n_matches


def _batches(stream: EventBatch) -> Iterator[tuple[EventBatch, int]]:
    lo = stream.t_lo_ms
    for start in range(0, len(stream), BATCH):
        end = min(start + BATCH, len(stream))
        yield EventBatch(stream.table.slice(start, end - start)), int(lo[end]) if end < len(stream) else FOREVER_MS


def main() -> dict[str, Any]:
    """Run all workloads, print a table, return the figures."""
    streams = {slack: stock_stream(slack_ms=slack) for slack in {w.slack_ms for w in WORKLOADS}}
    figures: dict[str, Any] = {}
    print(f"{'workload':<16}{'output':<38}{'matches':>16}{'rows':>10}{'events/s':>12}")
    for workload in WORKLOADS:
        for output in workload.outputs:
            text = template(workload.take, workload.within, workload.last, output)
            run(text, EventBatch(streams[workload.slack_ms].table.slice(0, 2_000)))
            seconds, n_rows, n_matches = run(text, streams[workload.slack_ms])
            rate = N_EVENTS / seconds
            note = "" if workload.n_matches in (None, n_matches) else f"  expected {workload.n_matches}"
            print(f"{workload.name:<16}{output:<38}{n_matches:>16,}{n_rows:>10,}{rate:>12,.0f}{note}")
            figures[f"{workload.name} {output}"] = {
                "events_per_second": round(rate),
                "rows": n_rows,
                "matches": n_matches,
                "expected_matches": workload.n_matches,
            }
    return figures


if __name__ == "__main__":
    main()
