"""The partitions of a keyed query divided among threads.

Kernels, and most of what NumPy and Arrow do, run without the interpreter's lock. Each shard is a whole runtime with
the partitions whose keys hash to it; events of types without the key go to all. Nothing is shared between shards but
the decoded columns of a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor, wait

import numpy as np
import pyarrow as pa

from engine.errors import EngineError, StateError
from engine.events import AttributeType, Float64Array, Int64Array
from engine.language import ast
from engine.matching.base import Runtime
from engine.matching.nfa import NfaRuntime
from engine.matching.rows import MatchRow, joined_rows
from engine.matching.stream import PartitionShare, ShardColumns, StreamColumns
from engine.plan.model import Plan
from engine.runtime.compiled import CompiledQuery

LEAST_EVENTS = 2_000
"""Batches with fewer events are evaluated shard by shard in one thread: handing them over costs more than it saves."""

_ODD = np.uint64(0x9E3779B97F4A7C15)


def is_shardable(query: CompiledQuery) -> bool:
    """Whether partitions can be evaluated apart: there is a key, no bound over all of them, no order across them."""
    plan = query.plan
    return (
        bool(plan.key)
        and all(branch.key == plan.key for branch in query.branches)
        and plan.limit is None
        and plan.output is not ast.Output.TOP
        and plan.strategy is not ast.Strategy.STRICT_CONTIGUITY
        and plan.query.within_events is None
    )


class Workers:
    """The threads of one engine: shards of keyed queries, and whole queries of the other kinds, side by side."""

    def __init__(self, n_threads: int) -> None:
        if n_threads < 1:
            raise EngineError(f"threads: found {n_threads}, expected at least 1")
        self._n = n_threads
        self._pool = ThreadPoolExecutor(n_threads, "engine") if n_threads > 1 else None
        self._ahead: dict[str, Future[tuple[Sequence[MatchRow], float]]] = {}

    def runtime(self, query: CompiledQuery, make: Callable[[], Runtime]) -> Runtime:
        """New run state, in shards where there are threads for them."""
        return self.sharded(query, make) if self._pool and is_shardable(query) else make()

    def sharded(self, query: CompiledQuery, make: Callable[[], Runtime]) -> Runtime:
        """New run state in shards, as many as threads; one that is restored has as many as were saved."""
        return ShardedRuntime(query.plan, make, self._n, self._pool)

    def begin(
        self, runtimes: Mapping[str, Runtime], stream: StreamColumns, watermark_ms: int, clock: Callable[[], float]
    ) -> None:
        """Advance all of these that are not in shards, side by side; `advance` hands out what they return."""

        def timed(runtime: Runtime) -> tuple[Sequence[MatchRow], float]:
            started = clock()
            return runtime.advance(stream, watermark_ms), clock() - started

        if self._pool is None or len(stream) < LEAST_EVENTS:
            return
        for name, runtime in runtimes.items():
            if not isinstance(runtime, ShardedRuntime):
                self._ahead[name] = self._pool.submit(timed, runtime)
        wait(self._ahead.values())

    def advance(
        self, name: str, runtime: Runtime, stream: StreamColumns, watermark_ms: int
    ) -> tuple[Sequence[MatchRow], float]:
        """The rows of `runtime.advance`, and the seconds that were spent on them beforehand; raises what it raised."""
        future = self._ahead.pop(name, None)
        return (runtime.advance(stream, watermark_ms), 0.0) if future is None else future.result()


class ShardedRuntime:
    """Run state of one query in shards; implements `engine.matching.base.Runtime`.

    Rows of one `advance` come shard by shard, in each in the order of its runtime. What is saved says how many shards
    there are: a query goes on with so many, in however many threads.
    """

    def __init__(self, plan: Plan, make: Callable[[], Runtime], n_shards: int, workers: Executor | None) -> None:
        self.plan = plan
        self._make = make
        self._workers = workers
        self._shards = [make() for _ in range(n_shards)]
        self._kinds: Mapping[str, AttributeType] = {name: plan.attribute_types[name] for name in plan.key}

    @property
    def shards(self) -> list[Runtime]:
        """The runtimes of the shards."""
        return list(self._shards)

    @property
    def n_rows(self) -> int:
        """Events kept; those of all partitions count once per shard."""
        return sum(shard.n_rows for shard in self._shards)

    @property
    def n_rejected(self) -> int:
        """See `Runtime`."""
        return sum(shard.n_rejected for shard in self._shards)

    @property
    def n_unfinished(self) -> int:
        """See `Runtime`."""
        return sum(shard.n_unfinished for shard in self._shards)

    def advance(self, stream: StreamColumns, watermark_ms: int) -> Sequence[MatchRow]:
        """See `Runtime.advance`."""
        if len(self._shards) == 1:
            return self._shards[0].advance(stream, watermark_ms)
        parts = self._parts(stream)

        def advance(number: int) -> Sequence[MatchRow]:
            return self._shards[number].advance(parts(number), watermark_ms)

        numbers = range(len(self._shards))
        if self._workers is None or len(stream) < LEAST_EVENTS:
            return joined_rows([advance(number) for number in numbers])
        # Every shard ends before an error is told: none may run on while the caller thinks that the step is over.
        futures = [self._workers.submit(advance, number) for number in numbers]
        errors = [future.exception() for future in futures]
        for error in errors:
            if error is not None:
                raise error
        return joined_rows([future.result() for future in futures])

    def _parts(self, stream: StreamColumns) -> Callable[[int], StreamColumns]:
        """What each shard gets of a batch; types and partitions are found side by side."""
        aside = None
        if self._workers is not None and len(stream) >= LEAST_EVENTS:
            aside = self._workers.submit(lambda: stream.types_by_row)
        numbers = stream.partitions(self.plan.key, self._kinds).numbers
        if aside is not None:
            aside.result()
        shards = shard_of_partitions(stream, self.plan.key, self._kinds, len(self._shards))
        first = self._shards[0]
        if isinstance(first, NfaRuntime) and first.takes_shares and stream.is_precise:
            return lambda number: PartitionShare(stream, numbers, shards == number)
        places = np.append(shards, -1)[numbers]
        return lambda number: ShardColumns(stream, np.flatnonzero((places == number) | (places < 0)))

    def promise_ms(self, watermark_ms: int) -> int:
        """See `Runtime.promise_ms`."""
        return min(shard.promise_ms(watermark_ms) for shard in self._shards)

    def save(self) -> dict[str, pa.Table]:
        """The parts of each shard as "shard.NUMBER.PART", and their number."""
        state = {f"shard.{n}.{part}": t for n, shard in enumerate(self._shards) for part, t in shard.save().items()}
        return {**state, "shards": pa.table({"n": pa.array([len(self._shards)], pa.int64())})}

    def restore(self, state: Mapping[str, pa.Table]) -> None:
        """Take over what `save`, or the query's runtime without shards, returned."""
        if "shards" not in state:
            self._shards = [self._make()]
            self._shards[0].restore(state)
            return
        n_shards = state["shards"].column("n")[0].as_py()
        self._shards = [self._make() for _ in range(n_shards)]
        for number, shard in enumerate(self._shards):
            start = f"shard.{number}."
            parts = {name.removeprefix(start): table for name, table in state.items() if name.startswith(start)}
            if not parts:
                raise StateError(f"saved state of {self.plan.name} lacks shard {number} of {n_shards}")
            shard.restore(parts)


def shard_of_partitions(
    stream: StreamColumns, key: tuple[str, ...], kinds: Mapping[str, AttributeType], n_shards: int
) -> Int64Array:
    """The shards of the partitions of a batch by number, int64 (n,)."""
    partitions = stream.partitions(key, kinds)
    with stream.lock:
        keys = partitions.table.columns(np.arange(len(partitions.table)))
    return shard_of_keys(keys, n_shards)


def shard_of_keys(keys: Float64Array, n_shards: int) -> Int64Array:
    """The shards of keys, float64 (width, n): the same for equal keys in every batch and process."""
    state = np.zeros(keys.shape[1], np.uint64)
    for bits in np.ascontiguousarray(keys).view(np.uint64):
        state = (state ^ bits) * _ODD
        state ^= state >> np.uint64(29)
    return ((state * _ODD >> np.uint64(33)) % np.uint64(n_shards)).astype(np.int64)


__all__ = ["ShardedRuntime", "Workers", "is_shardable", "shard_of_keys", "shard_of_partitions"]
