"""The threads of an engine, and what they do side by side.

Kernels, and most of what NumPy and Arrow do, run without the interpreter's lock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import cache, partial
from typing import TypeVar

from engine.compiled.query import CompiledQuery
from engine.errors import EngineError
from engine.events import EventBatch
from engine.matching.output.match_row import MatchRow
from engine.matching.output.rows import joined_rows
from engine.matching.protocol import Runtime
from engine.parallel.by_key import ShardedRuntime
from engine.parallel.by_time import SlicedRuntime
from engine.parallel.divided import Divided
from engine.stream.columns import StreamColumns
from engine.stream.interner import Interner

LEAST_EVENTS = 2_000
"""Batches with fewer events are evaluated in one thread: handing them over costs more than it saves."""

R = TypeVar("R")
Timed = tuple[Sequence[MatchRow], float]
"""Rows, and the seconds that were spent on them."""


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
    """The threads of one engine: parts of queries that can be divided, and whole ones of the others, side by side."""

    def __init__(self, n_threads: int, n_queries: int) -> None:
        if n_threads < 1:
            raise EngineError(f"threads: found {n_threads}, expected at least 1")
        self._n = n_threads
        self._threads = Threads(n_threads)
        self._is_alone = n_queries == 1
        self._windows: list[int] = []
        self._ahead: dict[str, list[Future[Timed]]] = {}

    def runtime(self, query: CompiledQuery, make: Callable[[], Runtime]) -> Runtime:
        """New run state, divided where there are threads for its parts.

        Queries without a key are evaluated side by side as they are: only one that is alone is divided, by time.
        """
        how = query.evaluation
        if not self._threads.are_many or not (how.is_divided_by_key or (self._is_alone and how.is_divided_by_time)):
            return make()
        return self.divided(query, make)

    def divided(self, query: CompiledQuery, make: Callable[[], Runtime]) -> Divided:
        """New run state in parts; one that is restored has as many shards as were saved."""
        if not query.evaluation.is_divided_by_time:
            return ShardedRuntime(query.plan, make, self._n)
        return SlicedRuntime(query.plan, make, self._n, self._windows, keyed=query.evaluation.is_divided_by_key)

    def divide_ahead(self, runtimes: Iterable[Runtime], batch: EventBatch, interner: Interner) -> StreamColumns | None:
        """Begin to divide a batch that may be the next step, while it is looked at; None when it is not worth while.

        Nothing but the returned columns is changed by it; what goes wrong is told when they are made use of.
        """
        divided = [runtime for runtime in runtimes if isinstance(runtime, Divided)]
        if not divided or not self._threads.are_many or len(batch) < LEAST_EVENTS:
            return None
        stream = StreamColumns(batch, interner)
        for runtime in divided:
            runtime.divide_ahead(stream, self._threads.submit)
        return stream

    def begin(
        self, runtimes: Mapping[str, Runtime], stream: StreamColumns, watermark_ms: int, clock: Callable[[], float]
    ) -> None:
        """Advance all of these side by side; `advance` hands out what they return."""
        self._ahead = self._started(runtimes, stream, watermark_ms, clock)

    def has_begun(self, name: str) -> bool:
        """Whether `begin` has advanced this one, and `advance` not yet handed out what it returned."""
        return name in self._ahead

    def advance(
        self, name: str, runtime: Runtime, stream: StreamColumns, watermark_ms: int, clock: Callable[[], float]
    ) -> tuple[Sequence[MatchRow], float]:
        """The rows of `runtime.advance`, and the seconds that were spent on them beforehand; raises what it raised."""
        ahead = self._ahead.pop(name, None)
        before_s = 0.0
        if ahead is not None:
            before_s = sum(future.result()[1] for future in ahead)
        elif isinstance(runtime, Divided):
            ahead = self._started({name: runtime}, stream, watermark_ms, clock).get(name)
        if ahead is None:
            return runtime.advance(stream, watermark_ms), before_s
        rows = [future.result()[0] for future in ahead]
        return joined_rows(rows) if len(rows) > 1 else rows[0], before_s

    def _started(
        self, runtimes: Mapping[str, Runtime], stream: StreamColumns, watermark_ms: int, clock: Callable[[], float]
    ) -> dict[str, list[Future[Timed]]]:
        """What each of them returned or raised, part by part; nothing when it is not worth while.

        The first parts of all queries are one task, so are the second ones, and so on: what they have in common of a
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
            advances: list[Callable[[], Sequence[MatchRow]]] = [partial(runtime.advance, stream, watermark_ms)]
            if isinstance(runtime, Divided):
                advances = runtime.parts(stream, watermark_ms)
            found[name] = [Future[Timed]() for _ in advances]
            for number, (advance, future) in enumerate(zip(advances, found[name], strict=True)):
                tasks = divided.setdefault(number, []) if len(advances) > 1 else whole
                tasks.append(partial(_do, partial(timed, advance), future))
        self._threads.side_by_side([*(partial(_do_all, tasks) for tasks in divided.values()), *whole])
        return found


__all__ = ["LEAST_EVENTS", "Threads", "Workers"]
