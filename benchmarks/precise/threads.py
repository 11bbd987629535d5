"""What a second thread gains, against one thread and against what the machine itself gains at that time.

Two processors of a virtual machine may be two threads of one core, now and then or always: two loops beside each other
then take as long as one after the other. So such a loop is timed between the runs, and a pair of runs, with one thread
and with two, counts when the machine had two cores before, between and after them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from statistics import median
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from benchmarks.measure import forget_peak, resident_mib, scale, show
from benchmarks.own_process import measured
from benchmarks.precise import streams
from benchmarks.precise.rows import Figures, quantity
from engine import CompiledQuery, Engine, compile_query
from engine.events import EventBatch
from engine.matching.output.rows import MatchRows

_ANY = "PATTERN SEQ(A a, B+ b[], C c) WHERE skip_till_any_match { [k] AND b[i].x >= 10 } WITHIN 4000 OUTPUT COLLAPSED"
_NEXT = "PATTERN SEQ(A a, B+ b[], C c) WHERE skip_till_next_match { [k] AND b[i].x >= 10 } WITHIN 4000"
_SMALL, _LARGE = 250_000, 1_000_000
QUERIES = {
    ("any, little work", _SMALL): _ANY,
    ("any, little work", _LARGE): _ANY,
    ("any, much work", _SMALL): (
        "PATTERN SEQ(A a, B+ b[], C c) WHERE skip_till_any_match { [k] AND b[i].x > a.x AND c.x > max(b[].x) } "
        "WITHIN 40000 OUTPUT COLLAPSED"
    ),
    ("any, no key", _SMALL): (
        "PATTERN SEQ(A a, B b, C c) WHERE skip_till_any_match { a.x > 90 AND b.x > a.x AND c.x > b.x } WITHIN 100"
    ),
    ("next, little work", _SMALL): _NEXT,
    ("next, little work", _LARGE): _NEXT,
    ("next, much work", _SMALL): (
        "PATTERN SEQ(A a, B+ b[], C c) WHERE skip_till_next_match { [k] AND b[i].x > avg(b[..i-1].x) AND c.x > a.x } "
        "WITHIN 20000 RETURN avg(b[].x) AS mean"
    ),
}
"""Queries and events per batch: threads are for streams in bulk, and where there is little to do per event the more so.
A batch is 250 s or 1,000 s long, the windows are 4, 40, 0.1, 4 and 20 s: what is little work and what has no key is
divided by time, the rest by key."""
N_THREADS = 2
_TWO_CORES = 1.85
_N_PAIRS = 5
_MOST_S = 60.0
_N_TURNS = 4_000_000


class Pair(NamedTuple):
    """Seconds of a run with one thread and of the one after it with several; the least that the machine gained."""

    one_s: float
    several_s: float
    machine: float


def main(figures: Figures) -> None:
    """Measure and print the table."""
    shown: list[list[object]] = []
    for (kind, n_per_batch), text in QUERIES.items():
        name = f"{kind}, batches of {n_per_batch:,}"
        n_events = scale(6_000_000 if n_per_batch > _SMALL else 2_000_000)
        arguments = {"text": text, "n_events": n_events, "n_per_batch": n_per_batch}
        found = measured(f"{__name__}:run", arguments, 10 * _MOST_S)
        variant = "collapsed" if "COLLAPSED" in text else "matches"
        for n_threads in (1, N_THREADS):
            own = None
            if found is not None:
                seconds = found["seconds"][n_threads > 1]
                own = {key: value for key, value in found.items() if key != "seconds"}
                own |= {"seconds": seconds, "events_per_second": found["events"] / seconds}
            figures.keep(f"{n_threads} threads, {name}", variant, own, limit_s=10 * _MOST_S)
        if found is not None:
            rates = [quantity(found["events"] / seconds) for seconds in found["seconds"]]
            gains = [f"{found[key]:.2f} x" for key in ("gain", "machine_gain")]
            shown.append([name, found["rows"], *rates, *gains, found["repeats"], round(found["peak_mb"])])
    columns = ("query", "rows", "events/s, 1 thread", "2 threads", "gain", "of the machine", "pairs", "MiB")
    show("threads, 1,000 keys, by the whole engine", columns, shown)


def run(text: str, n_events: int, n_per_batch: int) -> dict[str, Any]:
    """Median seconds of an engine with one thread and with several, and median gains over the pairs that count.

    Until `_N_PAIRS` count, or `_MOST_S` have gone by: if fewer than three count then, all do.
    """
    query = compile_query(text, streams.KEYED)
    parts = list(streams.in_batches(streams.keyed_stream(n_events, 1_000), n_per_batch))
    forget_peak()
    rows = [_run(query, parts, n_threads)[1] for n_threads in (1, N_THREADS)][-1]
    pairs: list[Pair] = []
    until_s = time.perf_counter() + _MOST_S
    machine = gain_of_machine()
    while len(_counting(pairs)) < _N_PAIRS and time.perf_counter() < until_s:
        one_s, _ = _run(query, parts, 1)
        between = gain_of_machine()
        several_s, _ = _run(query, parts, N_THREADS)
        before, machine = machine, gain_of_machine()
        pairs.append(Pair(one_s, several_s, min(before, between, machine)))
    counting = _counting(pairs) if len(_counting(pairs)) > 2 else pairs
    return {
        "events": n_events,
        "seconds": [median(pair.one_s for pair in counting), median(pair.several_s for pair in counting)],
        "gain": median(pair.one_s / pair.several_s for pair in counting),
        "machine_gain": median(pair.machine for pair in counting),
        "matches": rows.n_matches,
        "rows": len(rows),
        "repeats": len(counting),
        "pairs": len(pairs),
        "peak_mb": resident_mib(peak=True),
    }


def _counting(pairs: Sequence[Pair]) -> list[Pair]:
    return [pair for pair in pairs if pair.machine >= _TWO_CORES]


def _run(query: CompiledQuery, parts: Sequence[tuple[EventBatch, int]], n_threads: int) -> tuple[float, MatchRows]:
    engine = Engine([query], streams.KEYED, threads=n_threads)
    started = time.perf_counter()
    found = [engine.process(part, watermark_ms) for part, watermark_ms in parts]
    found.append(engine.finish())
    return time.perf_counter() - started, MatchRows(found)


def gain_of_machine() -> float:
    """How much faster a loop is done twice by two threads than by one: 2 on two cores, 1 on two threads of one."""
    turn(1)  # is compiled before it is timed
    with ThreadPoolExecutor(1) as other:
        other.submit(turn, 1).result()
        one_s = _timed(lambda: turn(_N_TURNS))
        beside_s = _timed(lambda: _both(other))
    return 2 * one_s / beside_s


def _both(other: ThreadPoolExecutor) -> None:
    waiting = other.submit(turn, _N_TURNS)
    turn(_N_TURNS)
    waiting.result()


def _timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


@njit(cache=True, nogil=True)
def turn(n: int):  # type: ignore[no-untyped-def]
    """Eight sums that do not wait for each other: they take all that a core can do, without memory."""
    a, b, c, d = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)
    e, f, g, h = np.uint64(5), np.uint64(6), np.uint64(7), np.uint64(8)
    for number in range(n):
        u = np.uint64(number)
        a = (a ^ u) + (a >> np.uint64(3))
        b = (b ^ u) + (b >> np.uint64(5))
        c = (c ^ u) + (c >> np.uint64(7))
        d = (d ^ u) + (d >> np.uint64(9))
        e = (e ^ u) + (e << np.uint64(3))
        f = (f ^ u) + (f << np.uint64(5))
        g = (g ^ u) + (g << np.uint64(7))
        h = (h ^ u) + (h << np.uint64(9))
    return a + b + c + d + e + f + g + h


__all__ = ["QUERIES", "gain_of_machine", "main", "run"]
