"""A thread that does something again and again."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class Periodic:
    """A thread that calls `action` every `interval_s` until it is stopped; an interval that was missed is skipped."""

    def __init__(self, action: Callable[[], None], interval_s: float, name: str) -> None:
        """Nothing runs yet."""
        self._action = action
        self._interval_s = interval_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Call the action at once and from then on."""
        self._thread.start()

    def stop(self) -> None:
        """Wait for the call in progress and end; nothing happens when it was never started."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        due = time.monotonic()
        while not self._stop.wait(max(0.0, due - time.monotonic())):
            self._action()
            due = max(due + self._interval_s, time.monotonic())
