"""What a runtime can still tell: how far the matches to come may reach back."""

from __future__ import annotations

from engine.events import FOREVER_MS
from engine.stream.store import EventStore


def output_watermark_ms(longest_ms: int, watermark_ms: int, trailing_ms: int) -> int:
    """No row that is decided after `watermark_ms` has a last event with t_lo below this.

    longest_ms: the longest interval of an event that is kept, 0 among precise ones. trailing_ms: WITHIN where the
    pattern ends in a negation, which decides a match at its first event + WITHIN, else 0.
    A last event is undecided while its t_hi is not passed; a row that stands for several orders of events, or that
    waits for those before it, does so while one of its events is not passed: these overlap its last event.
    """
    if watermark_ms >= FOREVER_MS:
        return FOREVER_MS
    return max(watermark_ms - 2 * longest_ms - trailing_ms, -FOREVER_MS)


def longest_interval_ms(store: EventStore) -> int:
    """The longest interval of the events of a store."""
    n = len(store)
    return int((store.t_hi_ms[:n] - store.t_lo_ms[:n]).max()) if n else 0


__all__ = ["longest_interval_ms", "output_watermark_ms"]
