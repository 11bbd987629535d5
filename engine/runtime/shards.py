"""The partitions of a keyed query divided among threads.

Kernels, and most of what NumPy and Arrow do, run without the interpreter's lock. Each shard is a whole runtime with
the partitions whose keys hash to it; events of types without the key go to all. Nothing is shared between shards but
the decoded columns of a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import cache, partial
from typing import TypeVar

import pyarrow as pa

from engine.errors import EngineError, StateError
from engine.events import AttributeType, EventBatch
from engine.language import ast
from engine.matching.base import Runtime
from engine.matching.interner import Interner
from engine.matching.rows import MatchRow, joined_rows
from engine.matching.shares import begin_shares, keys_of, shares_of
from engine.matching.stream import StreamColumns
from engine.plan.model import Plan
from engine.runtime.compiled import CompiledQuery

LEAST_EVENTS = 2_000
"""Batches with fewer events are evaluated shard by shard in one thread: handing them over costs more than it saves."""

R = TypeVar("R")
Timed = tuple[Sequence[MatchRow], float]
"""Rows, and the seconds that were spent on them."""


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
        and not any(branch.is_spread for branch in query.branches)
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

    def submit(self, task: Callable[[], object]) -> Future[object]:
        """Begin a task in one of the others, of which there must be one."""
        if self._pool is None:
            raise EngineError("threads: found 1, expected another one to give a task to")
        return self._pool.submit(task)

    def side_by_side(self, tasks: Sequence[Callable[[], None]]) -> None:
        """Do all of them, the first one in the calling thread; every one has ended when this returns.

        Tasks raise nothing: they keep what goes wrong.
        """
        waiting = [] if self._pool is None else [self._pool.submit(task) for task in tasks[1:]]
        for number, task in enumerate(tasks):
            if number == 0 or not waiting or waiting[number - 1].cancel():
                task()
        wait(waiting)


def _do(task: Callable[[], R], future: Future[R]) -> None:
    """Do it and keep the result, or what it raised."""
    try:
        future.set_result(task())
    except BaseException as error:  # noqa: BLE001  # told by the future
        future.set_exception(error)


def _do_all(tasks: Sequence[Callable[[], None]]) -> None:
    for task in tasks:
        task()


class Workers:
    """The threads of one engine: shards of keyed queries, and whole queries of the other kinds, side by side."""

    def __init__(self, n_threads: int) -> None:
        if n_threads < 1:
            raise EngineError(f"threads: found {n_threads}, expected at least 1")
        self._n = n_threads
        self._threads = Threads(n_threads)
        self._ahead: dict[str, list[Future[Timed]]] = {}

    def runtime(self, query: CompiledQuery, make: Callable[[], Runtime]) -> Runtime:
        """New run state, in shards where there are threads for them."""
        return self.sharded(query, make) if self._threads.are_many and is_shardable(query) else make()

    def sharded(self, query: CompiledQuery, make: Callable[[], Runtime]) -> Runtime:
        """New run state in shards, as many as threads; one that is restored has as many as were saved."""
        return ShardedRuntime(query.plan, make, self._n)

    def divide_ahead(self, runtimes: Iterable[Runtime], batch: EventBatch, interner: Interner) -> StreamColumns | None:
        """Begin to divide a batch that may be the next step, while it is looked at; None when it is not worth while.

        Nothing but the returned columns is changed by it; what goes wrong is told when they are made use of.
        """
        sharded = [runtime for runtime in runtimes if isinstance(runtime, ShardedRuntime)]
        if not sharded or not self._threads.are_many or len(batch) < LEAST_EVENTS:
            return None
        stream = StreamColumns(batch, interner)
        for runtime in sharded:
            runtime.divide_ahead(stream, self._threads.submit)
        return stream

    def begin(
        self, runtimes: Mapping[str, Runtime], stream: StreamColumns, watermark_ms: int, clock: Callable[[], float]
    ) -> None:
        """Advance all of these side by side; `advance` hands out what they return."""
        self._ahead = self._started(runtimes, stream, watermark_ms, clock)

    def advance(
        self, name: str, runtime: Runtime, stream: StreamColumns, watermark_ms: int, clock: Callable[[], float]
    ) -> tuple[Sequence[MatchRow], float]:
        """The rows of `runtime.advance`, and the seconds that were spent on them beforehand; raises what it raised."""
        ahead = self._ahead.pop(name, None)
        before_s = 0.0
        if ahead is not None:
            before_s = sum(future.result()[1] for future in ahead)
        elif isinstance(runtime, ShardedRuntime):
            ahead = self._started({name: runtime}, stream, watermark_ms, clock).get(name)
        if ahead is None:
            return runtime.advance(stream, watermark_ms), before_s
        rows = [future.result()[0] for future in ahead]
        return joined_rows(rows) if len(rows) > 1 else rows[0], before_s

    def _started(
        self, runtimes: Mapping[str, Runtime], stream: StreamColumns, watermark_ms: int, clock: Callable[[], float]
    ) -> dict[str, list[Future[Timed]]]:
        """What each of them returned or raised, shard by shard; nothing when it is not worth while.

        The first shards of all queries are one task, so are the second ones, and so on: what they have in common of a
        batch is made by one thread for all of them, and threads wait for each other once.
        """
        if not self._threads.are_many or len(stream) < LEAST_EVENTS:
            return {}

        def timed(advance: Callable[[], Sequence[MatchRow]]) -> Timed:
            started = clock()
            return advance(), clock() - started

        found: dict[str, list[Future[Timed]]] = {}
        whole: list[Callable[[], None]] = []
        divided: dict[int, list[Callable[[], None]]] = {}
        for name, runtime in runtimes.items():
            parts = runtime.parts(stream, watermark_ms) if isinstance(runtime, ShardedRuntime) else []
            advances = parts or [partial(runtime.advance, stream, watermark_ms)]
            found[name] = [Future[Timed]() for _ in advances]
            for number, (advance, future) in enumerate(zip(advances, found[name], strict=True)):
                tasks = divided.setdefault(number, []) if parts else whole
                tasks.append(partial(_do, partial(timed, advance), future))
        self._threads.side_by_side([*(partial(_do_all, tasks) for tasks in divided.values()), *whole])
        return found


class ShardedRuntime:
    """Run state of one query in shards; implements `engine.matching.base.Runtime`.

    Rows of one `advance` come shard by shard, in each in the order of its runtime. What is saved says how many shards
    there are: a query goes on with so many, in however many threads.
    """

    def __init__(self, plan: Plan, make: Callable[[], Runtime], n_shards: int) -> None:
        self.plan = plan
        self._make = make
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
        return joined_rows([advance() for advance in self.parts(stream, watermark_ms)])

    def parts(self, stream: StreamColumns, watermark_ms: int) -> list[Callable[[], Sequence[MatchRow]]]:
        """What `advance` does, shard by shard: each in whatever thread. None when there is but one shard."""
        n_shards = len(self._shards)
        if n_shards > 1:  # what every share begins with is made before one has to wait for another
            _ = keys_of(stream, self.plan.key, self._kinds), stream.is_precise
            if not stream.begun:  # else the calling thread divides at once, as the others do already
                _ = stream.type_texts

        def advance(number: int) -> Sequence[MatchRow]:
            share = shares_of(stream, self.plan.key, self._kinds, number, n_shards)
            return self._shards[number].advance(share, watermark_ms)

        return [partial(advance, number) for number in range(n_shards)] if n_shards > 1 else []

    def divide_ahead(self, stream: StreamColumns, submit: Callable[[Callable[[], object]], Future[object]]) -> None:
        """Begin to divide a batch among the shards, if there are several."""
        if len(self._shards) > 1:
            begin_shares(stream, self.plan.key, self._kinds, len(self._shards), submit)

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
