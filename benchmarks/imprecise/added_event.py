"""What one more event costs the confidence of a chain, against the length of its intervals.

Chains of `N_EVENTS` whose neighbours overlap by two thirds, or not at all, with a window that is certain and one that
cuts. Beside it the same by milliseconds: the dynamic programme over arrays, replayed from the last known order, as it
is without polynomials. Both are compared with counts in whole numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.measure import show, stopwatch
from benchmarks.own_process import measured
from benchmarks.precise.rows import Figures, Row
from engine.kernels.compile.ways import kernel, leaf
from engine.kernels.confidence.absence import chain_end, distribution, total
from engine.kernels.confidence.ordering import Events, separated
from engine.kernels.confidence.sequences import (
    NO_CHAIN_CAPACITY,
    Chain,
    begin_chain,
    confidence_of_chain,
    extend_chain,
    new_chain,
    wider_chain,
)

LENGTHS_MS = (1, 10, 100, 1_000, 15_000)
N_EVENTS = 4
ALWAYS_MS = 2**40
_LEAST_S = 0.02  # of repetitions, for a figure
_LIMIT_S = 300.0

Int64 = npt.NDArray[np.int64]


def main(figures: Figures) -> None:
    """Measure all lengths in one process, show nanoseconds."""
    found = measured("benchmarks.imprecise.added_event:costs", {}, _LIMIT_S)
    if found is None:
        raise SystemExit(f"added event: not done within {_LIMIT_S:.0f} s")
    shown: list[list[object]] = []
    for row in found["rows"]:
        workload = f"added event, {row['length_ms']} ms, {row['neighbours']}, window {row['window']}"
        for variant in ("pieces", "milliseconds"):
            seconds = row[variant]
            if seconds is not None:
                figures.keep(
                    workload, variant, _figures(row, seconds, row["max_error"] if variant == "pieces" else None)
                )
        shown.append(
            [
                f"{row['length_ms']:,}",
                row["neighbours"],
                row["window"],
                f"{1e9 * row['pieces']:,.0f}",
                "" if row["milliseconds"] is None else f"{1e9 * row['milliseconds']:,.0f}",
                "" if row["milliseconds"] is None else f"{row['milliseconds'] / row['pieces']:,.1f} x",
                f"{row['max_error']:.1e}",
            ]
        )
    show(
        f"confidence with one more event, ns (chain of {N_EVENTS})",
        ("interval, ms", "neighbours", "window", "pieces", "milliseconds", "gain", "error"),
        shown,
    )


def _figures(row: Row, seconds: float, max_error: float | None) -> Row:
    figures = {"seconds": seconds, "events_per_second": 1.0 / seconds, "length_ms": row["length_ms"]}
    return figures if max_error is None else figures | {"max_error": max_error}


def costs() -> dict[str, Any]:
    """Seconds per added event by length, neighbours and window; None where one takes more than a second."""
    rows = []
    for length_ms in LENGTHS_MS:
        for neighbours, step in (("overlapping", length_ms // 3), ("disjoint", length_ms + 1)):
            events = _chain_of(length_ms, step)
            span = int(events.hi_ms[-1] - events.lo_ms[0])
            for window, within_ms in (("certain", ALWAYS_MS), ("cuts", span - length_ms // 2)):
                if length_ms > 1 or window == "certain":
                    rows.append(_cost(events, length_ms, within_ms) | {"neighbours": neighbours, "window": window})
    return {"rows": rows}


def _chain_of(length_ms: int, step_ms: int) -> Events:
    lo = np.arange(N_EVENTS, dtype=np.int64) * step_ms
    return Events(
        lo_ms=lo,
        hi_ms=lo + length_ms - 1,
        clock=np.full(N_EVENTS, -1),
        source_seq=np.arange(N_EVENTS),
        weight_at=np.full(N_EVENTS, -1),
        weights=np.empty(0, np.float64),
        columns=np.empty((0, N_EVENTS)),
        strict=False,
    )


def _cost(events: Events, length_ms: int, within_ms: int) -> Row:
    chain = new_chain(N_EVENTS)
    begin_chain(chain, 0)
    for depth in range(N_EVENTS - 1):
        while extend_chain(chain, events, depth, depth + 1) == NO_CHAIN_CAPACITY:
            chain = wider_chain(chain)
    while (found := confidence_of_chain(chain, events, N_EVENTS - 1, within_ms)) == NO_CHAIN_CAPACITY:
        chain = wider_chain(chain)
    exact = _exact(events, within_ms)
    by_milliseconds = None
    is_slow = length_ms > 1_000 and within_ms < ALWAYS_MS and not separated(events, 0, 1)
    if not is_slow:
        by_milliseconds = _seconds(lambda n: _replayed(events, within_ms, n))
    return {
        "length_ms": length_ms,
        "pieces": _seconds(lambda n: _added(chain, events, within_ms, n)),
        "milliseconds": by_milliseconds,
        "max_error": float(abs(Fraction(float(found)) - exact)),
    }


def _seconds(repeated: Callable[[int], float]) -> float:
    """Seconds of one repetition: the least of three measurements that take long enough."""
    clock = stopwatch()
    repeated(1)
    n = 1
    while True:
        started = clock()
        repeated(n)
        seconds = clock() - started
        if seconds >= _LEAST_S:
            break
        n *= 4
    for _ in range(2):
        started = clock()
        repeated(n)
        seconds = min(seconds, clock() - started)
    return seconds / n


def _repeat_added(chain: Chain, events: Events, within_ms: int, n: int) -> float:
    found = 0.0
    for _ in range(n):
        extend_chain(chain, events, N_EVENTS - 2, N_EVENTS - 1)
        found += confidence_of_chain(chain, events, N_EVENTS - 1, within_ms)
    return found


def _by_milliseconds(events: Events, within_ms: int) -> float:
    """The dynamic programme over arrays of milliseconds; per millisecond of the first event that the window cuts."""
    n = events.lo_ms.shape[0]
    rows = np.arange(n)
    first, last = 0, n - 1
    start = 0
    for k in range(n - 1):
        if separated(events, rows[k], rows[k + 1]):
            start = k + 1
    if events.hi_ms[last] - events.lo_ms[first] <= within_ms:
        if start == last:
            return 1.0
        return float(total(chain_end(events, rows, start, n, distribution(events, rows[start], 1.0))))
    head = distribution(events, first, 1.0)
    result = 0.0
    if start > 0:  # all are separated
        tail = distribution(events, last, 1.0)
        summed = 0.0
        t = 0
        for k in range(len(head)):
            while t < len(tail) and events.lo_ms[last] + t <= events.lo_ms[first] + k + within_ms:
                summed += tail[t]
                t += 1
            result += head[k] * summed
        return result
    free = head.copy()
    for k in range(len(head)):
        latest = events.lo_ms[first] + k + within_ms
        if latest >= events.hi_ms[last]:
            break
        free[k] = 0.0
        point = np.zeros(len(head))
        point[k] = head[k]
        end = chain_end(events, rows, 0, n, point)
        result += total(end[: max(latest - events.lo_ms[last] + 1, 0)])
    return result + float(total(chain_end(events, rows, 0, n, free)))


_by_milliseconds_compiled: Any = kernel(_by_milliseconds)


def _repeat_by_milliseconds(events: Events, within_ms: int, n: int) -> float:
    found = 0.0
    for _ in range(n):
        found += _by_milliseconds_compiled(events, within_ms)
    return found


_added: Any = leaf(_repeat_added)
_replayed: Any = kernel(_repeat_by_milliseconds)


def _exact(events: Events, within_ms: int) -> Fraction:
    """By counting worlds: for blocks of times of the first event, in how many ways each next one is reached."""
    length = int(events.hi_ms[0] - events.lo_ms[0]) + 1
    n_good = 0
    for begin in range(0, length, 256):
        s = events.lo_ms[0] + np.arange(begin, min(begin + 256, length))
        ways = np.zeros((len(s), length), np.int64)
        ways[np.arange(len(s)), s - events.lo_ms[0]] = 1
        for k in range(1, N_EVENTS):
            below = np.zeros((len(s), length + 1), np.int64)
            np.cumsum(ways, axis=1, out=below[:, 1:])
            t = events.lo_ms[k] + np.arange(length)
            ways = below[:, np.clip(t - events.lo_ms[k - 1], 0, length)]
            if separated(events, k - 1, k):
                ways = np.repeat(below[:, -1:], length, axis=1)
        last = events.lo_ms[-1] + np.arange(length)
        n_good += int((ways * (last[None, :] - s[:, None] <= within_ms)).sum(dtype=object))
    return Fraction(n_good, length**N_EVENTS)


__all__ = ["costs", "main"]
