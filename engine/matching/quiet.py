"""Steps that are left out because nothing can come of them.

A stream may be cut into batches anywhere, so a step without an event that a runtime reads can as well be part of its
next one, as long as no row is due and what it keeps is not forgotten much later. Most predefined queries are about what
does not happen, and `ANY(2, ...)` of eleven types has a hundred and ten branches.
"""

from __future__ import annotations

from engine.events import FOREVER_MS
from engine.matching.protocol import Runtime


class QuietSteps:
    """Of one runtime."""

    def __init__(self, within_ms: int) -> None:
        self._within_ms = within_ms
        self._advanced_to_ms = -FOREVER_MS

    def advanced(self, watermark_ms: int) -> None:
        """A step was not left out."""
        self._advanced_to_ms = watermark_ms

    def may_leave_out(self, runtime: Runtime, watermark_ms: int) -> bool:
        """Whether a step without an event for it decides nothing: no row waits for the watermark. Events that it keeps
        are forgotten a window late at most."""
        if watermark_ms >= FOREVER_MS:
            return False  # whatever waits is decided now
        is_to_forget = watermark_ms - self._advanced_to_ms > self._within_ms and runtime.n_rows > 0
        return not is_to_forget and runtime.output_watermark_ms(watermark_ms) >= watermark_ms


__all__ = ["QuietSteps"]
