"""What a runtime can still tell: how far the matches to come may reach back."""

from __future__ import annotations

from engine.events import FOREVER_MS
from engine.matching.store import EventStore


def promised_ms(store: EventStore, watermark_ms: int, trailing_ms: int) -> int:
    """No row that is decided after `watermark_ms` has a last event with t_lo below this.

    trailing_ms: WITHIN where the pattern ends in a negation, which decides a match at its first event + WITHIN, else 0.
    A last event is undecided while its t_hi is not passed; a row that stands for several orders of events, or that
    waits for those before it, does so while one of its events is not passed: these overlap its last event.
    """
    if watermark_ms >= FOREVER_MS:
        return FOREVER_MS
    n = len(store)
    longest_ms = int((store.t_hi_ms[:n] - store.t_lo_ms[:n]).max()) if n else 0
    return max(watermark_ms - 2 * longest_ms - trailing_ms, -FOREVER_MS)


__all__ = ["promised_ms"]
