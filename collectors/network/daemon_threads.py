"""Calls in threads that the process does not wait for at its end: what the network holds up must not hold that up."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

_T = TypeVar("_T")


def in_daemon_thread(call: Callable[[], _T], name: str) -> Future[_T]:
    """Call at once, in a thread of its own; the future has what came of it."""
    future: Future[_T] = Future()

    def run() -> None:
        try:
            result = call()
        except BaseException as error:  # noqa: BLE001  # as the pools of concurrent.futures: the future tells
            future.set_exception(error)
        else:
            future.set_result(result)

    threading.Thread(target=run, name=name, daemon=True).start()
    return future
