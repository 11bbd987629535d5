"""The partitions of a keyed query divided among threads.

Kernels, and most of what NumPy and Arrow do, run without the interpreter's lock. Each shard is a whole runtime with
the partitions whose keys hash to it; events of types without the key go to all. Nothing is shared between shards but
the decoded columns of a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import cache, partial
from typing import TypeVar

import pyarrow as pa

from engine.errors import EngineError, StateError
from engine.events import AttributeType
from engine.language import ast
from engine.matching.base import Runtime
from engine.matching.rows import MatchRow, joined_rows
from engine.matching.shares import shares_of
from engine.matching.stream import StreamColumns
from engine.plan.model import Plan
from engine.runtime.compiled import CompiledQuery

LEAST_EVENTS = 2_000
"""Batches with fewer events are evaluated shard by shard in one thread: handing them over costs more than it saves."""

R = TypeVar("R")


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


@cache
def _pool(n_threads: int) -> ThreadPoolExecutor:
    """Threads that all engines of the process share: new ones would have to get all their memory anew."""
    return ThreadPoolExecutor(n_threads, "engine")


class Threads:
    """The calling thread and others that work beside it."""

    def __init__(self, n_threads: int) -> None:
        self._pool = _pool(n_threads - 1) if n_threads > 1 else None

    @property
    def are_many(self) -> bool:
        """Whether there is another one beside the calling thread."""
        return self._pool is not None

    def side_by_side(self, tasks: Sequence[Callable[[], R]]) -> list[Future[R]]:
        """Do all of them, the first one in the calling thread; every one has ended when this returns."""
        futures = [Future[R]() for _ in tasks]

        def do(number: int) -> None:
            try:
                futures[number].set_result(tasks[number]())
            except BaseException as error:  # noqa: BLE001  # told by the future
                futures[number].set_exception(error)

        waiting = [] if self._pool is None else [self._pool.submit(do, number) for number in range(1, len(tasks))]
        for number in range(len(tasks)):
            if number == 0 or not waiting or waiting[number - 1].cancel():
                do(number)
        wait(waiting)
        return futures


class Workers:
    """The threads of one engine: shards of keyed queries, and whole queries of the other kinds, side by side."""

    def __init__(self, n_threads: int) -> None:
        if n_threads < 1:
            raise EngineError(f"threads: found {n_threads}, expected at least 1")
        self._n = n_threads
        self._threads = Threads(n_threads)
        self._ahead: dict[str, Future[tuple[Sequence[MatchRow], float]]] = {}

    def runtime(self, query: CompiledQuery, make: Callable[[], Runtime]) -> Runtime:
        """New run state, in shards where there are threads for them."""
        return self.sharded(query, make) if self._threads.are_many and is_shardable(query) else make()

    def sharded(self, query: CompiledQuery, make: Callable[[], Runtime]) -> Runtime:
        """New run state in shards, as many as threads; one that is restored has as many as were saved."""
        return ShardedRuntime(query.plan, make, self._n, self._threads)

    def begin(
        self, runtimes: Mapping[str, Runtime], stream: StreamColumns, watermark_ms: int, clock: Callable[[], float]
    ) -> None:
        """Advance all of these that are not in shards, side by side; `advance` hands out what they return."""

        if not self._threads.are_many or len(stream) < LEAST_EVENTS:
            return
        whole = {name: runtime for name, runtime in runtimes.items() if not isinstance(runtime, ShardedRuntime)}

        def timed(runtime: Runtime) -> tuple[Sequence[MatchRow], float]:
            started = clock()
            return runtime.advance(stream, watermark_ms), clock() - started

        done = self._threads.side_by_side([partial(timed, runtime) for runtime in whole.values()])
        self._ahead = dict(zip(whole, done, strict=True))

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

    def __init__(self, plan: Plan, make: Callable[[], Runtime], n_shards: int, threads: Threads) -> None:
        self.plan = plan
        self._make = make
        self._threads = threads
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
        n_shards = len(self._shards)

        def advance(number: int) -> Sequence[MatchRow]:
            share = shares_of(stream, self.plan.key, self._kinds, number, n_shards)
            return self._shards[number].advance(share, watermark_ms)

        if len(stream) < LEAST_EVENTS:
            return joined_rows([advance(number) for number in range(n_shards)])
        # Every shard ends before an error is told: none may run on while the caller thinks that the step is over.
        done = self._threads.side_by_side([partial(advance, number) for number in range(n_shards)])
        return joined_rows([future.result() for future in done])

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


__all__ = ["ShardedRuntime", "Workers", "is_shardable"]
