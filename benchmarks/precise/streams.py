"""Streams of the reference workloads, made fast: from a thousand to a hundred million events, all from a seed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from numba import njit

from engine.events import FOREVER_MS, AttributeType, EventBatch, EventSchema, Int64Array

_INT, _FLOAT, _STRING = AttributeType.INT, AttributeType.FLOAT, AttributeType.STRING

STOCK = EventSchema.of({"stock": dict.fromkeys(("symbol", "price", "volume"), _INT)})
KEYED = EventSchema.of({kind: {"k": _INT, "x": _INT} for kind in "ABC"})
RISING = EventSchema.of({kind: {"x": _INT, "y": _INT} for kind in "ABC"})
HADOOP = EventSchema.of(
    {
        "JobStart": {"job_id": _INT},
        "Mapper": {"job_id": _INT, "period_ms": _INT},
        "JobEnd": {"job_id": _INT},
        "ReducerStart": {"task_id": _INT},
        "DataPull": {"task_id": _INT, "period_ms": _INT},
    }
)

_MULTIPLIER = 0x5DEECE66D
_MASK = (1 << 48) - 1


@njit(cache=True)
def _next_int(state, bound):  # type: ignore[no-untyped-def]
    """java.util.Random.nextInt(bound): (number, new state); the state is uint64 and holds 48 bits."""
    while True:
        state = (state * np.uint64(0x5DEECE66D) + np.uint64(0xB)) & np.uint64(0xFFFFFFFFFFFF)
        bits = np.int64(state >> np.uint64(17))
        if bound & (bound - 1) == 0:
            return (bound * bits) >> 31, state
        value = bits % bound
        if bits - value + bound - 1 < 2147483648:
            return value, state


@njit(cache=True)
def draw_stock(state, prices, n_events, p, symbols, paid, volumes):  # type: ignore[no-untyped-def]
    """Draw the next events into symbols, paid, volumes, int64 (n_events,); prices int64 (n_symbols,) is kept up.

    Returns the new state of the generator.
    """
    n_symbols = prices.shape[0]
    for i in range(n_events):
        symbol, state = _next_int(state, n_symbols)
        x, state = _next_int(state, 100)
        x += 1
        if x <= p:
            step, state = _next_int(state, 3)
            prices[symbol] += step + 1
        elif x > (100 + p) / 2:
            step, state = _next_int(state, 3)
            prices[symbol] -= step + 1
        volume, state = _next_int(state, 1000)
        symbols[i] = symbol + 1
        paid[i] = prices[symbol]
        volumes[i] = volume + 1
    return state


@dataclass
class StockStream:
    """Workload S, drawn part by part: id = timestamp = i, as the reference states it (java.util.Random)."""

    seed: int = 10
    n_symbols: int = 2
    p: int = 70
    slack_ms: int = 0
    _state: int = field(init=False)
    _prices: Int64Array = field(init=False)
    _n_drawn: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self._state = (self.seed ^ _MULTIPLIER) & _MASK
        self._prices = np.empty(self.n_symbols, np.int64)
        with np.errstate(over="ignore"):  # the generator counts modulo 2**64
            for symbol in range(self.n_symbols):
                price, state = _next_int(np.uint64(self._state), 1_000)
                self._prices[symbol], self._state = int(price), int(state)

    def next(self, n_events: int) -> EventBatch:
        """The next events; times are the numbers of the events, with slack the interval around them.

        With slack all times are later by it: none is negative.
        """
        symbols, paid, volumes = (np.empty(n_events, np.int64) for _ in range(3))
        state = np.uint64(self._state)
        with np.errstate(over="ignore"):
            self._state = int(draw_stock(state, self._prices, n_events, self.p, symbols, paid, volumes))
        times = np.arange(self._n_drawn, self._n_drawn + n_events, dtype=np.int64)
        self._n_drawn += n_events
        return EventBatch.from_columns(
            {
                "event_id": pa.array(times).cast(pa.string()),
                "type": pa.repeat("stock", n_events),
                "t_lo_ms": times,
                "t_hi_ms": times + 2 * self.slack_ms,
                "source_seq": times,
                "symbol": symbols,
                "price": paid,
                "volume": volumes,
            },
            STOCK,
        )


def stock_stream(n_events: int, *, n_symbols: int = 2, p: int = 70) -> EventBatch:
    """The first events of workload S in one batch."""
    return StockStream(n_symbols=n_symbols, p=p).next(n_events)


def keyed_stream(n_events: int, n_keys: int, seed: int = 10) -> EventBatch:
    """One event per millisecond: types A, B, C at 10, 80, 10 %, keys uniform, x uniform in 0..99."""
    random = np.random.default_rng(seed)
    kinds = pa.DictionaryArray.from_arrays(
        pa.array(random.choice(3, n_events, p=(0.1, 0.8, 0.1)).astype(np.int32)), pa.array(["A", "B", "C"])
    )
    times = np.arange(n_events, dtype=np.int64)
    return EventBatch.from_columns(
        {
            "event_id": pa.array(times).cast(pa.string()),
            "type": kinds.cast(pa.string()),
            "t_lo_ms": times,
            "k": random.integers(0, n_keys, n_events),
            "x": random.integers(0, 100, n_events),
        },
        KEYED,
    )


def rising_stream(n_events: int, seed: int = 10) -> EventBatch:
    """One A, so many B with x and y in random order, one C; an event per millisecond."""
    random = np.random.default_rng(seed)
    n = n_events + 2
    return EventBatch.from_columns(
        {
            "event_id": pa.array(np.arange(n)).cast(pa.string()),
            "type": pa.array(["A", *"B" * n_events, "C"]),
            "t_lo_ms": np.arange(n, dtype=np.int64),
            "x": random.permutation(n),
            "y": random.permutation(n),
        },
        RISING,
    )


def jobs_stream(n_jobs: int, seed: int = 10) -> EventBatch:
    """For Q1: each job has a start, 100 to 1,000 mappers within half an hour, and an end; about 36 jobs at a time."""
    return _groups_stream(("JobStart", "Mapper", "JobEnd"), "job_id", n_jobs, 1_800_000, seed)


def pulls_stream(n_tasks: int, seed: int = 10) -> EventBatch:
    """For Q3: each reducer has a start and pulls 100 to 1,000 map outputs within eight minutes; about ten at a time."""
    return _groups_stream(("ReducerStart", "DataPull", None), "task_id", n_tasks, 480_000, seed)


def _groups_stream(
    kinds: tuple[str, str, str | None], key: str, n_groups: int, length_ms: int, seed: int
) -> EventBatch:
    """A group every 50 s: first event, 100..1,000 middle ones at random times, last event where there is one."""
    random = np.random.default_rng(seed)
    sizes = random.integers(100, 1_001, n_groups)
    starts = 50_000 * np.arange(n_groups, dtype=np.int64)
    groups = np.repeat(np.arange(n_groups), sizes)
    middle = starts[groups] + 1 + random.integers(0, length_ms - 2, len(groups))
    n_ends = n_groups if kinds[2] else 0
    times = np.concatenate([starts, middle, (starts + length_ms)[:n_ends]])
    codes = np.repeat(np.array([0, 1, 2], np.int32), [n_groups, len(groups), n_ends])
    keys = np.concatenate([np.arange(n_groups), groups, np.arange(n_ends)])
    periods = np.where(codes == 1, random.exponential(30_000, len(times)).astype(np.int64) + 1, 0)
    order = np.argsort(times, kind="stable")
    names = pa.array([kind for kind in kinds if kind])
    return EventBatch.from_columns(
        {
            "event_id": pa.array(np.arange(len(times))).cast(pa.string()),
            "type": pa.DictionaryArray.from_arrays(pa.array(codes[order]), names).cast(pa.string()),
            "t_lo_ms": times[order],
            key: keys[order],
            "period_ms": pa.array(periods[order], mask=codes[order] != 1),
        },
        HADOOP,
    )


def in_batches(stream: EventBatch, n_per_batch: int) -> Iterator[tuple[EventBatch, int]]:
    """Consecutive slices, each with the watermark after it: the time of the first event to come."""
    lo_ms: npt.NDArray[np.int64] = stream.t_lo_ms
    start = 0
    while start < len(stream):
        end = min(start + n_per_batch, len(stream))
        while end < len(stream) and lo_ms[end] == lo_ms[end - 1]:  # events of one time stay together
            end += 1
        yield EventBatch(stream.table.slice(start, end - start)), int(lo_ms[end]) if end < len(stream) else FOREVER_MS
        start = end


__all__ = [
    "HADOOP",
    "KEYED",
    "STOCK",
    "StockStream",
    "in_batches",
    "jobs_stream",
    "keyed_stream",
    "pulls_stream",
    "stock_stream",
]
