"""By how much clocks are off, told by histories that state one thing by two clocks.

Of a Hadoop 1 attempt the TaskTracker's clock tells start and end, the JobTracker's when its task was handed out and
was done: what lies inside must lie inside by one clock, too. Each attempt bounds the offset of its host from below and
from above; where 0 is outside of what is left, the clocks disagree, whatever the network and the heartbeats took.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

TOLERANCE_MS = 2_000
"""Clocks that agree so far are as good as right: daemons stamp what a heartbeat brings seconds later."""


@dataclass(slots=True)
class ClockOffset:
    """Of a clock against the reference, in ms; positive: it is ahead. None: nothing bounds it on that side."""

    least_ms: int | None = None
    most_ms: int | None = None
    n_told: int = 0
    """Attempts, or other pairs of times, that were compared."""

    @property
    def is_steady(self) -> bool:
        """False: no single offset explains all times, so one of the two clocks was set meanwhile."""
        return self.least_ms is None or self.most_ms is None or self.least_ms <= self.most_ms

    @property
    def proven_ms(self) -> int:
        """By so much it is off at least: the value nearest to 0 that is possible; 0 where the clocks may agree."""
        if not self.is_steady:
            return max((self.least_ms or 0, self.most_ms or 0), key=abs)
        if self.least_ms is not None and self.least_ms > 0:
            return self.least_ms
        return min(0, self.most_ms or 0)

    @property
    def best_ms(self) -> int:
        """What the offset is taken to be: the middle of what is possible, where it is bounded on both sides."""
        if self.is_steady and self.least_ms is not None and self.most_ms is not None:
            return (self.least_ms + self.most_ms) // 2
        return self.proven_ms


class ClockOffsets:
    """What one history tells of the clocks in it."""

    def __init__(self) -> None:
        self._by_clock: dict[str, ClockOffset] = {}

    def not_before(self, clock_id: str, t_ms: int, reference_ms: int) -> None:
        """What the clock calls `t_ms` came no earlier than `reference_ms` by the reference: bounds it from above."""
        offset = self._told(clock_id)
        most_ms = t_ms - reference_ms
        offset.most_ms = most_ms if offset.most_ms is None else min(offset.most_ms, most_ms)

    def not_after(self, clock_id: str, t_ms: int, reference_ms: int) -> None:
        """What the clock calls `t_ms` came no later than `reference_ms` by the reference: bounds it from below."""
        offset = self._told(clock_id)
        least_ms = t_ms - reference_ms
        offset.least_ms = least_ms if offset.least_ms is None else max(offset.least_ms, least_ms)

    def off(self) -> Iterator[tuple[str, ClockOffset]]:
        """The clocks that are proven to be off by more than TOLERANCE_MS, those furthest off first."""
        found = [(clock, offset) for clock, offset in self._by_clock.items() if abs(offset.proven_ms) > TOLERANCE_MS]
        yield from sorted(found, key=lambda one: (-abs(one[1].proven_ms), one[0]))

    def _told(self, clock_id: str) -> ClockOffset:
        offset = self._by_clock.setdefault(clock_id, ClockOffset())
        offset.n_told += 1
        return offset


def skew_message(clock_id: str, offset: ClockOffset, reference: str) -> str:
    """What an operator has to know and do about a clock that is off."""
    if not offset.is_steady:
        return (
            f"the clock {clock_id} and {reference} were set against each other while the job ran: its times are off by "
            f"{shown_ms(offset.most_ms or 0)} and by {shown_ms(offset.least_ms or 0)}; set the clocks by NTP, and "
            f'sources.clock_skew.clocks: {{"{clock_id}": {_seconds_up(abs(offset.proven_ms))} s}} for what is there'
        )
    where = "ahead of" if offset.proven_ms > 0 else "behind"
    size = f"at least {shown_ms(abs(offset.proven_ms))}"
    if offset.least_ms is not None and offset.most_ms is not None:
        nearest, furthest = sorted((abs(offset.least_ms), abs(offset.most_ms)))
        size = f"{shown_ms(nearest)} to {shown_ms(furthest)}"
    return (
        f"the clock {clock_id} is {size} {where} {reference}; set it by NTP, and for what is there set "
        f'sources.clock_skew.offsets: {{"{clock_id}": {offset.best_ms} ms}}'
    )


def shown_ms(ms: int) -> str:
    """A length of time in the units that people think of clocks in."""
    sign, rest = ("-" if ms < 0 else ""), abs(ms)
    if rest < 60_000:
        return f"{sign}{rest / 1000:.1f} s"
    return f"{sign}{rest // 60_000} min {rest % 60_000 / 1000:.0f} s"


def _seconds_up(ms: int) -> int:
    return -(-ms // 1000)


__all__ = ["TOLERANCE_MS", "ClockOffset", "ClockOffsets", "shown_ms", "skew_message"]
