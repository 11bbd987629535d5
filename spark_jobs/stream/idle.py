"""While no events come, time goes on: heartbeats let windows and trailing negation close all the same."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class IdleClock:
    """How far the stream's time has come, told from its events and, without any for `timeout_ms`, from the clock.

    Idle time passes as on the wall: the stream's time is that of its newest event and what has gone by since it came.
    So it does not matter whether the events are of today, and whoever comes back with events of the same delay as
    before is not late. Events that an outage has held back for longer than the timeout are late.
    """

    timeout_ms: int | None
    """None: time never passes without events."""
    heard_ms: int
    """On the wall, when events came last; when the job started, at first."""
    newest_ms: int | None = None
    """Start of the newest event."""
    told_ms: int | None = None
    """The last heartbeat."""

    def heard(self, newest_ms: int | None, now_ms: int) -> None:
        """A micro-batch had events."""
        self.heard_ms = max(self.heard_ms, now_ms)
        if newest_ms is not None:
            self.newest_ms = newest_ms if self.newest_ms is None else max(self.newest_ms, newest_ms)

    def due(self, now_ms: int) -> int | None:
        """The stream's time for a heartbeat, None while there is no need for one."""
        idle_ms = now_ms - self.heard_ms
        if self.timeout_ms is None or self.newest_ms is None or idle_ms < self.timeout_ms:
            return None
        time_ms = self.newest_ms + idle_ms
        if self.told_ms is not None and time_ms <= self.told_ms:
            return None
        self.told_ms = time_ms
        return time_ms


__all__ = ["IdleClock"]
