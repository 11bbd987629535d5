"""Many servers asked side by side at a poll: one that hangs holds up no other."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import wait
from functools import partial
from typing import TypeVar

from collectors.network.daemon_threads import in_daemon_thread
from collectors.network.deadlines import remaining_s, within

_T = TypeVar("_T")


def ask_side_by_side(
    proven: Iterable[_T],
    others: Iterable[_T],
    ask: Callable[[_T], None],
    *,
    n_workers: int,
    total_s: float,
    each_s: float,
    name: str,
) -> None:
    """Ask each once, in their order, until `total_s` is over: those that are left by then are not asked.

    `proven` answered the last time: they have threads of their own, which help with the others when they are done.
    `each_s`: for all that is asked of one.
    """
    first, second = deque(proven), deque(others)
    n_all, n_others = len(first) + len(second), len(second)
    deadline_s = time.monotonic() + total_s

    def work(*queues: deque[_T]) -> None:
        with within(deadline_s - time.monotonic()):
            for left in queues:
                while remaining_s() > 0:
                    try:
                        one = left.popleft()
                    except IndexError:
                        break
                    with within(each_s):
                        ask(one)

    works = [partial(work, first, second)] * min(n_workers, n_all) + [partial(work, second)] * min(n_workers, n_others)
    futures = [in_daemon_thread(one, name) for one in works]
    wait(futures)
    for future in futures:
        future.result()
