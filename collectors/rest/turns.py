"""Jobs are asked side by side: each has its turn, with rows and problems of its own until all have ended.

So a master that answers slowly costs its own answers, and the order in which threads come does not show.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import wait
from dataclasses import dataclass, field
from functools import partial

from collectors.base import ProblemLog
from collectors.lifecycle import EventRows
from collectors.network.daemon_threads import in_daemon_thread
from collectors.network.deadlines import remaining_s, within
from collectors.rest.jobs import JobState


@dataclass
class TurnProblems:
    """Calls of a ProblemLog, kept until it may be called."""

    calls: list[Callable[[ProblemLog], None]] = field(default_factory=list)

    def report(self, place: str, kind: str, message: str, *, key: Hashable = None) -> None:
        """As ProblemLog."""
        self.calls.append(lambda log: log.report(place, kind, message, key=key))

    def forget(self, key: Hashable) -> None:
        """As ProblemLog."""
        self.calls.append(lambda log: log.forget(key))


@dataclass
class Turn:
    """One job at one poll."""

    job: JobState
    rows: EventRows
    problems: TurnProblems = field(default_factory=TurnProblems)
    n_answers: int = 0
    had_time: bool = True
    """It began early enough to be blamed for what it has not told."""

    def hand_over(self, rows: EventRows, problems: ProblemLog) -> None:
        """What it has told."""
        rows.extend(self.rows)
        for call in self.problems.calls:
            call(problems)


@dataclass(frozen=True)
class Queue:
    """Turns that so many threads take, in order."""

    tell: Callable[[Turn], None]
    turns: Sequence[Turn]
    n_threads: int
    turn_s: float
    """Longest duration of one turn."""


def take_turns(queues: Sequence[Queue], whole_s: float) -> None:
    """All turns side by side, within `whole_s`; those that have not begun by then are left for another time."""
    deadline_s = time.monotonic() + whole_s

    def work(queue: Queue, left: deque[Turn]) -> None:
        with within(deadline_s - time.monotonic()):
            while left and remaining_s() > 0:
                try:
                    turn = left.popleft()
                except IndexError:  # another thread was quicker
                    return
                turn.had_time = remaining_s() >= min(queue.turn_s, whole_s / 2)
                with within(queue.turn_s):
                    queue.tell(turn)

    busy = [(queue, deque(queue.turns), min(queue.n_threads, len(queue.turns))) for queue in queues if queue.turns]
    n_threads = sum(n for _, _, n in busy)
    if n_threads <= 1:
        for queue, left, _ in busy:
            work(queue, left)
        return
    futures = [in_daemon_thread(partial(work, queue, left), "rest") for queue, left, n in busy for _ in range(n)]
    wait(futures)
    for future in futures:
        future.result()
