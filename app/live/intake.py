"""What polls bring, queued until the pipeline's next step: a source that hangs holds up no other one."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import structlog

from collectors.base import (
    Closes,
    Collector,
    CollectorError,
    FinishedHistory,
    KeepsUntilCommitted,
    PositionError,
    Problem,
)
from engine.events import EventBatch

log = structlog.get_logger(__name__)


MOST_EVENTS = 200_000
"""That a step takes in, unless one poll brought more."""


@dataclass(frozen=True)
class Intake:
    """One poll of one source, with the read position after it: both enter together or not at all."""

    source: str
    polled_ms: int
    events: EventBatch = field(default_factory=EventBatch.empty)
    watermark_ms: int | None = None
    """None: the poll failed."""
    problems: tuple[Problem, ...] = ()
    finished: tuple[FinishedHistory, ...] = ()
    position: Mapping[str, Any] | None = None
    n_unselected: int = 0
    """Samples that the settings do not choose."""
    goes_on: bool = False
    """There is more to read, at once."""
    arrived_s: float | None = field(default=None, compare=False)
    """When it was queued, by the queue's clock."""


class Source:
    """A collector, polled by one thread at a time."""

    def __init__(self, collector: Collector) -> None:
        self.name = collector.name
        self._collector = collector
        self._lock = threading.Lock()
        self._last: Mapping[str, Any] | None = None

    def poll(self, now_ms: int) -> Intake:
        """Read what is new; a failure of the whole source is a problem like others."""
        with self._lock:
            try:
                collected = self._collector.poll(now_ms)
            except CollectorError as error:
                problem = Problem(self.name, self.name, "unavailable", str(error))
                return Intake(self.name, now_ms, problems=(problem,))
            except Exception as error:  # a boundary: a defect of one collector is told, and must not stop the others
                log.exception("the collector failed", source=self.name)
                self._go_back()
                problem = Problem(self.name, self.name, "collector_failed", f"{type(error).__name__}: {error}")
                return Intake(self.name, now_ms, problems=(problem,))
            self._last = self._position()
            return Intake(
                self.name,
                now_ms,
                collected.events,
                collected.watermark_ms,
                collected.problems,
                collected.finished,
                self._last,
                collected.n_unselected,
                goes_on=collected.goes_on,
            )

    def committed(self, position: Mapping[str, Any]) -> None:
        """A position of `Intake` is in a checkpoint that counts."""
        if isinstance(self._collector, KeepsUntilCommitted):
            self._collector.committed(position["collector"])

    def close(self) -> None:
        """It is polled no more; waits for the poll under way."""
        if isinstance(self._collector, Closes):
            with self._lock:
                self._collector.close()

    def restore(self, position: Mapping[str, Any]) -> None:
        """Continue from a position of `Intake`; raises PositionError."""
        with self._lock:
            self._restore(position)
            self._last = position

    def _restore(self, position: Mapping[str, Any]) -> None:
        if not isinstance(position.get("collector"), Mapping):
            raise PositionError(f"{self.name}: a read position without the collector's part")
        self._collector.restore(position["collector"])

    def _go_back(self) -> None:
        """To the position of the last poll that came through: what the failed one had read is read again."""
        if self._last is None:
            return
        try:
            self._restore(self._last)
        except PositionError:
            log.exception("the collector refuses its own position", source=self.name)

    def _position(self) -> dict[str, Any]:
        return {"collector": self._collector.checkpoint()}


class IntakeQueue:
    """Polls on one side, the pipeline's steps on the other."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._items: deque[Intake] = deque()

    def __len__(self) -> int:
        return len(self._items)

    def put(self, intake: Intake) -> None:
        """Add what a poll brought."""
        with self._lock:
            self._items.append(replace(intake, arrived_s=self._clock()))

    def drain(self, most_events: int = MOST_EVENTS) -> list[Intake]:
        """What waits, in order of arrival: at least one poll, and further ones up to so many events."""
        items: list[Intake] = []
        n_events = 0
        with self._lock:
            while self._items and (not items or n_events + _n_events(self._items[0]) <= most_events):
                items.append(self._items.popleft())
                n_events += _n_events(items[-1])
        return items


def _n_events(intake: Intake) -> int:
    return len(intake.events) + sum(len(history.events) for history in intake.finished)
