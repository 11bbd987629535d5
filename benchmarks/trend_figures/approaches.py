"""One window of a stream by one approach, in a process of its own: what `benchmarks.own_process` calls."""

from __future__ import annotations

import time
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.measure import forget_peak, resident_mib
from benchmarks.trend_figures import baselines, streams
from engine import Engine, compile_query
from engine.events import FOREVER_MS

MOST_STORED = 100_000_000
"""Trends, or events of sequences, that an approach may store."""
N_STEPS = 20
"""Steps in which the events of a window come."""
_WARM = 12  # events that kernels are made ready with: all subsets of them may be trends


def measured(
    approach: str, stream: str, arguments: dict[str, Any], factor: float | None, n_steps: int = N_STEPS
) -> dict[str, Any]:
    """Processor seconds of a window, of them those after the last of `n_steps` began (`latency_s`), bytes, how many
    trends and their sum over all keys (doubles), and whether the approach came to its end within MOST_STORED."""
    make = getattr(streams, stream)
    work = {"engine": _engine, "quadratic": _quadratic}.get(approach)
    warm, whole = make(**{**arguments, "n": _WARM}), make(**arguments)
    if work is not None:
        work(warm, factor, n_steps)
        return work(whole, factor, n_steps)
    _stored(approach, warm, factor)
    return _stored(approach, whole, factor)


def query_text(has_negation: bool, factor: float | None) -> str:
    """The query that all approaches answer (Q1 of the paper and its variations; one window)."""
    pattern = "SEQ(NOT N, M+)" if has_negation else "M+"
    edge = "" if factor is None else f" AND M.value * {factor} < NEXT(M).value"
    return (
        f"PATTERN {pattern} WHERE skip_till_any_match {{ [key]{edge} }} GROUP BY key WITHIN 30 days SLIDE 30 days "
        "RETURN COUNT(*), SUM(M.summed)"
    )


def _engine(stream: streams.Stream, factor: float | None, n_steps: int) -> dict[str, Any]:
    n = len(stream.t_s)
    running = Engine([compile_query(query_text(bool(stream.is_negated.any()), factor), streams.SCHEMA)], streams.SCHEMA)
    cuts = np.linspace(0, n, min(n, n_steps) + 1).astype(int)
    batches = [stream.batch(begin, end) for begin, end in pairwise(cuts.tolist())]
    forget_peak()
    before, spent, latency, rows = resident_mib(), 0.0, 0.0, []
    for number, batch in enumerate(batches):
        is_last = number == len(batches) - 1
        began = time.process_time()
        found = running.process(batch, FOREVER_MS if is_last else int(batch.t_lo_ms[-1]))
        rows += [tuple(row.values.values()) for row in found]
        latency = time.process_time() - began
        spent += latency
    n_bytes = int((resident_mib(peak=True) - before) * 2**20)
    counts, sums = ([float(str(row[at])) for row in rows] for at in (0, 1))
    return _found(spent, latency, n_bytes, sum(counts), sum(sums))


def _quadratic(stream: streams.Stream, factor: float | None, n_steps: int) -> dict[str, Any]:
    by_key, bounds, may_begin = _by_key(stream)
    size, n = np.zeros(stream.n_keys, np.int64), len(stream.t_s)
    key = np.where(stream.is_negated, -1, stream.key)
    own_counts, own_sums = np.zeros(len(by_key)), np.zeros(len(by_key))
    counts, sums = np.zeros(stream.n_keys), np.zeros(stream.n_keys)
    spent = latency = 0.0
    cuts = np.linspace(0, n, min(n, n_steps) + 1).astype(int).tolist()
    for begin, end in pairwise(cuts):
        began = time.process_time()
        baselines.quadratic(
            stream.t_s, stream.value, stream.summed, _factor(factor), by_key, bounds, may_begin, begin, end, size,
            own_counts, own_sums, counts, sums, key,
        )  # fmt: skip
        latency = time.process_time() - began
        spent += latency
    n_bytes = 16 * len(by_key) + sum(part[: len(by_key)].nbytes for part in (stream.t_s, stream.value))
    return _found(spent, latency, n_bytes, counts.sum(), sums.sum())


def _stored(approach: str, stream: streams.Stream, factor: float | None) -> dict[str, Any]:
    """The approaches that construct trends when the window closes."""
    by_key, bounds, may_begin = _by_key(stream)
    began = time.process_time()
    is_whole = True
    if approach == "flattened":
        closed = began
        counts, sums, n_bytes, is_whole = baselines.flattened(
            stream.t_s, stream.value, stream.summed, _factor(factor), by_key, bounds, may_begin, MOST_STORED
        )
    else:
        begins, links = baselines.pointers(stream.t_s, stream.value, _factor(factor), by_key, bounds)
        closed = time.process_time()
        if approach == "two_step":
            counts, sums, n_bytes = baselines.two_step(stream.summed, by_key, bounds, may_begin, begins, links)
        else:
            counts, sums, n_bytes, is_whole = baselines.shared(
                stream.summed, by_key, bounds, may_begin, begins, links, MOST_STORED
            )
    ended = time.process_time()
    return _found(ended - began, ended - closed, n_bytes, counts.sum(), sums.sum(), is_whole=is_whole)


def _found(
    spent_s: float, latency_s: float, n_bytes: int, count: float, total: float, *, is_whole: bool = True
) -> dict[str, Any]:
    return {
        "seconds": spent_s,
        "latency_s": latency_s,
        "bytes": n_bytes,
        "count": float(count),
        "sum": float(total),
        "is_whole": is_whole,
    }


def _factor(factor: float | None) -> float:
    return -1.0 if factor is None else factor


def _by_key(
    stream: streams.Stream,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Events that are not negated, by key and in order of time, where each key's begin, (n_keys + 1,), and which event
    may begin a trend: none after a negated one of its key."""
    positive = np.flatnonzero(~stream.is_negated)
    by_key = positive[np.argsort(stream.key[positive], kind="stable")]
    bounds = np.searchsorted(stream.key[by_key], np.arange(stream.n_keys + 1)).astype(np.int64)
    earliest = np.full(stream.n_keys, np.iinfo(np.int64).max)
    np.minimum.at(earliest, stream.key[stream.is_negated], stream.t_s[stream.is_negated])
    return by_key, bounds, stream.t_s <= earliest[stream.key]


__all__ = ["MOST_STORED", "N_STEPS", "measured", "query_text"]
