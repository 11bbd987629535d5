"""The events of one query divided among threads by time.

Each slice of a batch goes to a whole runtime of its own, and the matches that begin in it are found there (see
`engine.stream.by_time`). The one that had the last slice has all that is undecided, and goes on with the first slice
of the next batch; the others have nothing that is needed any longer. So what is saved is what one thread would save.

That needs batches that are long against the window. Where they are not, and the query has a key, its partitions are
divided (`engine.parallel.by_key`). From the one to the other matches are followed where they have begun, while new ones
begin in the new state.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from engine.errors import StateError
from engine.events import FOREVER_MS
from engine.matching.output.match_row import MatchRow
from engine.matching.output.rows import joined_rows
from engine.matching.protocol import EndsBeginning, Runtime
from engine.parallel.by_key import ShardedRuntime
from engine.parallel.divided import Divided
from engine.plan.model import Plan
from engine.stream.by_time import SliceColumns, cuts_of, slice_of
from engine.stream.columns import StreamColumns
from engine.stream.cuts import Cut

_FEW = 1 / 60
"""Share of the rows of a batch that may be looked at twice: then dividing by time is quicker than by key."""
_MANY = 1 / 30
"""From such a share on it is slower."""
_MOST = 1 / 2
"""The share up to which two threads are quicker than one."""

_LEAVING = "leaving"


class _Leaving(NamedTuple):
    """A runtime in which matches that have begun are followed, while from `begin_ms` on no more begin: events up to
    `until_ms` may be part of them, and nothing is left of it when the watermark has passed that."""

    runtime: Runtime
    begin_ms: int
    until_ms: int


class SlicedRuntime(Divided):
    """Run state of one query divided by time or by key, batch by batch.

    Rows of one `advance` come part by part. What is saved is the state of one runtime, or of the shards, and beside it
    of the one that is leaving.
    """

    def __init__(
        self, plan: Plan, make: Callable[[], Runtime], n_threads: int, windows: list[int], *, keyed: bool
    ) -> None:
        """windows: those of all queries that are divided so, ascending; it gets its own. keyed: also by key."""
        self.plan = plan
        self._make = make
        self._n_threads = n_threads
        self._windows = windows
        if plan.within_ms not in windows:
            insort(windows, plan.within_ms)
        self._is_keyed = keyed
        self._current: Runtime = make()
        self._idle: list[Runtime] = []  # nothing in them is undecided, or will be looked at again
        self._leaving: _Leaving | None = None
        self._newest_ms: int | None = None  # of the events given
        self._longest_ms = 0  # no event given is longer
        self._watermark_ms = -FOREVER_MS
        self._n_rejected = 0
        self._n_unfinished = 0

    @property
    def runtimes(self) -> list[Runtime]:
        """See `Divided`."""
        several = [*self._counting, *([] if self._leaving is None else [self._leaving.runtime])]
        return [part for runtime in several for part in _undivided(runtime)]

    @property
    def n_rejected(self) -> int:
        """See `Runtime`."""
        return self._n_rejected + sum(runtime.n_rejected for runtime in self._counting)

    @property
    def n_unfinished(self) -> int:
        """See `Runtime`."""
        return self._n_unfinished + sum(runtime.n_unfinished for runtime in self.runtimes)

    @property
    def _counting(self) -> list[Runtime]:
        """Those that count what they reject: one that is leaving gets events that another one gets, too."""
        return [self._current, *self._idle]

    # -------------------------------------------------------------- advancing

    def advance(self, stream: StreamColumns, watermark_ms: int) -> Sequence[MatchRow]:
        """See `Divided`."""
        parts = self._undivided(stream, watermark_ms)
        return parts[0]() if len(parts) == 1 else joined_rows([part() for part in parts])

    def parts(self, stream: StreamColumns, watermark_ms: int) -> list[Callable[[], Sequence[MatchRow]]]:
        """See `Divided`."""
        cuts = self._cut(stream, watermark_ms)
        if self._is_keyed and isinstance(self._current, Divided) == (len(cuts) > 1):
            self._change(stream)
        if isinstance(self._current, Divided) or len(cuts) == 1:
            return self._undivided(stream, watermark_ms)
        left = self._left(stream, watermark_ms)
        self._idle += [self._make() for _ in range(len(cuts) - 1 - len(self._idle))]
        runtimes = [self._current, *self._idle[: len(cuts) - 1]]
        self._idle = [*runtimes[:-1], *self._idle[len(cuts) - 1 :]]
        self._current = runtimes[-1]
        self._notice(stream, watermark_ms)

        def advance(number: int) -> Sequence[MatchRow]:
            return runtimes[number].advance(slice_of(stream, cuts, number), watermark_ms)

        return [*(partial(advance, number) for number in range(len(cuts))), *left]

    def divide_ahead(self, stream: StreamColumns, submit: Callable[[Callable[[], object]], Future[object]]) -> None:
        """See `Divided`."""
        if isinstance(self._current, Divided):
            self._current.divide_ahead(stream, submit)

    def _undivided(self, stream: StreamColumns, watermark_ms: int) -> list[Callable[[], Sequence[MatchRow]]]:
        """All of a batch to the current state, by its partitions if they are divided."""
        left = self._left(stream, watermark_ms)
        self._notice(stream, watermark_ms)
        if isinstance(self._current, Divided):
            return [*self._current.parts(stream, watermark_ms), *left]
        return [partial(self._current.advance, stream, watermark_ms), *left]

    def _cut(self, stream: StreamColumns, watermark_ms: int) -> tuple[Cut, ...]:
        """The slices of a batch, one when it had better not be divided by time.

        By the longest window for which it can be: queries that have the same cuts share what is decoded of them.
        """
        n = len(stream)
        most = _MOST
        if self._is_keyed:
            most = _FEW if isinstance(self._current, Divided) else _MANY
        if stream.is_precise:
            for within_ms in reversed(self._windows[bisect_left(self._windows, self.plan.within_ms) :]):
                slices, n_again = cuts_of(stream, within_ms, self._n_threads)
                if len(slices) == 1 or n_again > most * n:
                    continue
                if stream.t_lo_ms[slices[-1].start - 1] + self.plan.within_ms < watermark_ms:
                    return slices
        return (Cut(0, n, n),)

    def _notice(self, stream: StreamColumns, watermark_ms: int) -> None:
        if len(stream):
            self._newest_ms = int(stream.t_lo_ms[-1])
            # What is longer than the window takes no part (`engine.compiled.fitting`).
            self._longest_ms = max(self._longest_ms, min(stream.longest_ms, self.plan.within_ms))
        self._watermark_ms = max(self._watermark_ms, watermark_ms)

    # --------------------------------------------------------------- changing

    def _change(self, stream: StreamColumns) -> None:
        """Have matches begin in a new state from this batch on, by key instead of by time or the other way round.

        Not while an earlier one is leaving, nor while an event of before may be later than one of the batch.
        """
        begin_ms = int(stream.t_lo_ms[0])
        newest_ms = self._longest_ms + (begin_ms - 1 if self._newest_ms is None else self._newest_ms)
        old = self._current
        if old.n_rows:
            if self._leaving is not None or newest_ms >= begin_ms:
                return
            self._leaving = _Leaving(old, begin_ms, newest_ms + self.plan.within_ms)
        else:
            self._n_unfinished += old.n_unfinished
        self._n_rejected += old.n_rejected
        by_time = isinstance(old, Divided)
        self._current = self._make() if by_time else ShardedRuntime(self.plan, self._make, self._n_threads)

    def _has_left(self) -> bool:
        """Whether nothing is undecided in what is leaving."""
        leaving = self._leaving
        return leaving is None or self._watermark_ms > leaving.until_ms + 2 * self._longest_ms

    def _left(self, stream: StreamColumns, watermark_ms: int) -> list[Callable[[], Sequence[MatchRow]]]:
        """What is to be done with the state that is leaving, if there is one. It comes last: parts of one number go to
        one thread, so that no two make the same slice or share for different queries."""
        if self._leaving is not None and self._has_left():
            self._n_unfinished += self._leaving.runtime.n_unfinished
            self._leaving = None
        if self._leaving is None:
            return []
        end = int(np.searchsorted(stream.t_lo_ms, self._leaving.until_ms, "right"))
        return [partial(self._leaving.runtime.advance, SliceColumns(stream, Cut(0, end, 0)), watermark_ms)]

    # ------------------------------------------------------------------ state

    def output_watermark_ms(self, watermark_ms: int) -> int:
        """See `Runtime.output_watermark_ms`."""
        output_ms = self._current.output_watermark_ms(watermark_ms)
        return (
            output_ms
            if self._leaving is None
            else min(output_ms, self._leaving.runtime.output_watermark_ms(watermark_ms))
        )

    def save(self) -> dict[str, pa.Table]:
        """The current state as its runtime saves it, and "leaving.PART" for the one that is leaving."""
        state = self._current.save()
        if self._leaving is None or self._has_left():
            return state
        runtime, begin_ms, until_ms = self._leaving
        parts = {f"{_LEAVING}.{part}": table for part, table in runtime.save().items()}
        return {**state, **parts, _LEAVING: pa.table({"begin_ms": [begin_ms], "until_ms": [until_ms]})}

    def restore(self, state: Mapping[str, pa.Table]) -> None:
        """Take over what `save`, or the query's runtime in one piece or in shards, returned."""
        prefix = f"{_LEAVING}."
        leaving = {part.removeprefix(prefix): table for part, table in state.items() if part.startswith(prefix)}
        self._current = self._restored({part: table for part, table in state.items() if not part.startswith(_LEAVING)})
        self._longest_ms = self.plan.within_ms
        if not leaving and _LEAVING not in state:
            return
        if not leaving or _LEAVING not in state:
            raise StateError(f"saved state of {self.plan.name} lacks a part of what is leaving")
        (times,) = state[_LEAVING].to_pylist()
        self._leaving = _Leaving(self._restored(leaving), **times)
        for runtime in _undivided(self._leaving.runtime):
            if isinstance(runtime, EndsBeginning):
                runtime.begin_none_from(times["begin_ms"])

    def _restored(self, state: Mapping[str, pa.Table]) -> Runtime:
        by_key = "shards" in state
        runtime = ShardedRuntime(self.plan, self._make, self._n_threads) if by_key else self._make()
        runtime.restore(state)
        return runtime


def _undivided(runtime: Runtime) -> list[Runtime]:
    return runtime.runtimes if isinstance(runtime, Divided) else [runtime]


def is_divided(state: Mapping[str, pa.Table]) -> bool:
    """Whether this is the state of a query that was divided when it was saved."""
    return "shards" in state or any(part.startswith(_LEAVING) for part in state)


__all__ = ["SlicedRuntime", "is_divided"]
