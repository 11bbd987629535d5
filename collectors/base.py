"""What every collector has in common: the protocol, what a poll yields, problems, errors."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar, runtime_checkable

import pyarrow as pa

from collectors.printable import printable
from engine.events import FOREVER_MS, EventBatch

_T = TypeVar("_T")

MAX_OF_FILE, MAX_OF_POLL = 50, 500
"""Problems of one file, and of one poll, that are told one by one."""
MAX_BAD_RECORDS_TOLD = 20
"""Of one history, each with its line; further ones are counted."""
MORE = "more_problems"
NO_PROMISE_MS = -FOREVER_MS
"""The watermark of a source that began behind: until it has read what was there, anything may follow."""
_LINE = re.compile(r":\d+$")


class CollectorError(Exception):
    """A source that cannot be read at all now; the caller counts it, reports it and polls again later."""


class SourceUnavailableError(CollectorError):
    """The source did not answer or is not there (no directory, connection refused, time-out)."""


class PositionError(CollectorError):
    """A saved read position that this collector cannot use (another version, a damaged checkpoint)."""


class OptionError(CollectorError):
    """An option with a value that cannot work; says which, what was found and what is expected."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Something in a source that could not be read as expected; each is reported once and stops nothing."""

    source: str
    place: str
    """"file:line", URL or host."""
    kind: str
    """Slug for counting, e.g. "truncated", "not_jhist", "missing_counter", "unreadable"."""
    message: str


@dataclass(frozen=True)
class FinishedHistory:
    """All events of one job, or of stages of a Spark application, that are over; replayed as a source of its own up to
    +infinity."""

    job_id: str
    """Of a Spark application its id."""
    origin: str
    events: EventBatch
    source: str = "job_history"


@dataclass(frozen=True)
class Collected:
    """What one poll yields."""

    events: EventBatch
    """Live events, in any order."""
    watermark_ms: int
    """This source promises no further event with t_lo_ms < watermark_ms; NO_PROMISE_MS: it promises nothing yet."""
    problems: tuple[Problem, ...] = ()
    finished: tuple[FinishedHistory, ...] = ()
    n_unselected: int = 0
    """Samples that were there and that the settings do not choose: they are counted, and nothing else."""
    goes_on: bool = False
    """There was more to read than one poll may, and this one came further: the next may come at once."""


@dataclass(frozen=True, slots=True)
class Lasting:
    """A table of a read position that seldom changes: it is the same object until it does, and is written once."""

    table: pa.Table


def next_watermark(before_ms: int | None, watermark_ms: int, now_ms: int, *, is_behind: bool = False) -> int:
    """The watermark after `before_ms` that a source may give.

    It is not taken back, unless it is ahead of the time: the clock was wrong when it was given. While the source
    `is_behind`, with more to read than one poll may, it does not advance either; when it is so from its first poll on,
    there is nothing yet that it could promise.
    """
    if before_ms is None:
        return NO_PROMISE_MS if is_behind else watermark_ms
    if is_behind:
        watermark_ms = min(before_ms, watermark_ms)
    return watermark_ms if before_ms > now_ms else max(before_ms, watermark_ms)


class Collector(Protocol):
    """One source of events.

    `poll` never raises for bad input (that is a `Problem`); it raises the `CollectorError` family when the source as a
    whole is unusable. The clock is its argument, in milliseconds since the epoch: files are read as if what is dated
    later were not written yet, so that a recording is replayed by moving the clock.
    `checkpoint` gives the read position: JSON-able values, and Arrow tables (`pa.Table`, `Lasting`) as values of
    mappings. `restore` takes it up again: as it was given, or in a new process, where all tables are `pa.Table`.
    """

    name: str

    def poll(self, now_ms: int) -> Collected:
        """Read what is new."""
        ...

    def checkpoint(self) -> dict[str, Any]:
        """The read position after the last poll."""
        ...

    def restore(self, position: Mapping[str, Any]) -> None:
        """Continue from a position; raises PositionError when it is not one of this collector's."""
        ...


@runtime_checkable
class KeepsUntilCommitted(Protocol):
    """A collector that has the only copy of what it reads, and may let it go once it is read for good."""

    def committed(self, position: Mapping[str, Any]) -> None:
        """A read position that `checkpoint` gave is safe."""
        ...


@runtime_checkable
class Closes(Protocol):
    """A collector that holds something which another of its kind cannot have meanwhile."""

    def close(self) -> None:
        """It is polled no more."""
        ...


@dataclass
class ProblemLog:
    """Collects the problems of a poll and lets each distinct one through once.

    What one file, and one poll, may tell is bounded, whatever is written there: problems beyond that are counted, and
    told as one of kind MORE, at the file or, where they are of many places, at the source. The memory of what was
    reported is bounded, too: the oldest half is forgotten beyond `max_remembered`, so that a source that invents new
    problems for ever repeats some rather than fills the memory.
    """

    source: str
    max_remembered: int = 10_000
    _reported: dict[Hashable, str] = field(default_factory=dict)
    """By key the file that it was reported of."""
    _n_of_file: Counter[str] = field(default_factory=Counter)
    _pending: list[Problem] = field(default_factory=list)
    _left_out: dict[str, tuple[int, str]] = field(default_factory=dict)
    """By file, or source, how many since the last call of `drain`, and what the first of them says."""

    def report(self, place: str, kind: str, message: str, *, key: Hashable = None) -> None:
        """Report once per `key` (default: place and kind)."""
        key = (place, kind) if key is None else key
        if key in self._reported:
            return
        if len(self._reported) >= self.max_remembered:
            for old in list(self._reported)[: self.max_remembered // 2]:
                self.forget(old)
        file = _LINE.sub("", place)
        self._reported[key] = file
        self._n_of_file[file] += 1
        if self._n_of_file[file] > MAX_OF_FILE:
            self._leave_out(file, message)
        elif len(self._pending) >= MAX_OF_POLL:
            self._leave_out(self.source, f"{place}: {message}")
        else:
            self._pending.append(Problem(self.source, printable(place), kind, printable(message)))

    def _leave_out(self, place: str, message: str) -> None:
        if place not in self._left_out and len(self._left_out) >= MAX_OF_FILE:
            place = self.source
        n, first = self._left_out.get(place, (0, message))
        self._left_out[place] = n + 1, first

    def forget(self, key: Hashable) -> None:
        """Let a problem with this key be reported again (its episode is over)."""
        file = self._reported.pop(key, None)
        if file is not None:
            self._n_of_file[file] -= 1
            if not self._n_of_file[file]:
                del self._n_of_file[file]

    def drain(self) -> tuple[Problem, ...]:
        """The problems since the last call."""
        more = (
            Problem(self.source, printable(place), MORE, printable(f"{n} further problem(s), the first: {first}"))
            for place, (n, first) in self._left_out.items()
        )
        drained = *self._pending, *more
        self._pending, self._left_out = [], {}
        return drained


def read_position(position: Mapping[str, Any], version: int, read: Callable[[Mapping[str, Any]], _T]) -> _T:
    """`read(position)`, with everything a damaged or foreign position can raise turned into PositionError."""
    found = position.get("version")
    if found != version:
        raise PositionError(
            f"read position of version {found!r}, expected {version}; remove the checkpoint to start afresh"
        )
    try:
        return read(position)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise PositionError(f"damaged read position ({error}); remove the checkpoint to start afresh") from error
