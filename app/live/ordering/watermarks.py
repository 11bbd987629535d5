"""One watermark from many: the minimum over the sources that are alive."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from engine.events import FOREVER_MS

NEVER_MS = -FOREVER_MS


@dataclass
class _Source:
    watermark_ms: int
    heard_ms: int
    """When it last polled with success; when it was taken in, at first."""
    left_out: bool = False
    lag_ms: int | None = None
    """How far it was behind the others when too much waited for it; None: it is not left out for that."""


@dataclass(frozen=True, slots=True)
class Advance:
    """The combined watermark, and which sources stopped or resumed counting."""

    watermark_ms: int
    left_out: tuple[str, ...]
    back: tuple[str, ...]


class Watermarks:
    """Combines the promises of sources; a source that is not heard of for `timeout_ms` does not hold up the others.

    Until a source has promised something for the first time events of the others wait for it, at most as long as the
    timeout: it was not heard of, or has more to read than it could yet. One that was left out for being behind counts
    again once it is at most half as far behind.
    """

    def __init__(self, sources: Iterable[str], timeout_ms: int, now_ms: int) -> None:
        self._timeout_ms = timeout_ms
        self._sources = {name: _Source(NEVER_MS, now_ms) for name in sources}
        self._combined_ms = NEVER_MS

    @property
    def combined_ms(self) -> int:
        """The watermark so far."""
        return self._combined_ms

    @property
    def promised_ms(self) -> int:
        """What the sources that count have promised together, which `combine` has yet to take over."""
        live = [state.watermark_ms for state in self._sources.values() if not state.left_out]
        return max(self._combined_ms, min(live, default=NEVER_MS))

    def by_source(self) -> dict[str, tuple[int, bool]]:
        """Each source's own watermark, and whether the source is left out."""
        return {name: (state.watermark_ms, state.left_out) for name, state in self._sources.items()}

    def heard(self, source: str, watermark_ms: int, now_ms: int) -> None:
        """A poll succeeded, with or without data; a watermark never goes back."""
        state = self._sources[source]
        state.watermark_ms = max(state.watermark_ms, watermark_ms)
        if state.watermark_ms == NEVER_MS:
            return
        state.heard_ms = max(state.heard_ms, now_ms)

    def combine(self, now_ms: int) -> Advance:
        """The minimum over the live sources; with none alive it stands still."""
        left_out: list[str] = []
        back: list[str] = []
        silent = {name: now_ms - state.heard_ms > self._timeout_ms for name, state in self._sources.items()}
        in_time = [
            state.watermark_ms for name, state in self._sources.items() if not silent[name] and state.lag_ms is None
        ]
        for name, state in self._sources.items():
            if state.lag_ms is not None and min(in_time, default=NEVER_MS) - state.watermark_ms <= state.lag_ms // 2:
                state.lag_ms = None
            out = silent[name] or state.lag_ms is not None
            if out != state.left_out:
                (left_out if out else back).append(name)
                state.left_out = out
        live = [state.watermark_ms for state in self._sources.values() if not state.left_out]
        if live:
            self._combined_ms = max(self._combined_ms, min(live))
        return Advance(self._combined_ms, tuple(left_out), tuple(back))

    def leave_out_last(self) -> tuple[str, int, int] | None:
        """Go on without the source that is furthest behind: (it, its watermark, the least of the others').

        None: no other one that counts is further on.
        """
        live = {name: state for name, state in self._sources.items() if not state.left_out}
        last = min(live, key=lambda name: live[name].watermark_ms, default=None)
        if last is None:
            return None
        state, others = live.pop(last), [other.watermark_ms for other in live.values()]
        if not others or min(others) <= state.watermark_ms:
            return None
        state.left_out, state.lag_ms = True, min(others) - state.watermark_ms
        return last, state.watermark_ms, min(others)

    def go_back(self, watermark_ms: int, now_ms: int) -> None:
        """The watermark was ahead of time: nothing later than this was promised, and each source is waited for anew."""
        self._combined_ms = watermark_ms
        for name, state in self._sources.items():
            self._sources[name] = _Source(min(state.watermark_ms, watermark_ms), now_ms)

    def end(self) -> int:
        """No source will send anything more."""
        self._combined_ms = FOREVER_MS
        return FOREVER_MS

    def save(self) -> dict[str, Any]:
        """As JSON-able values."""
        sources = {name: [s.watermark_ms, s.heard_ms, s.left_out, s.lag_ms] for name, s in self._sources.items()}
        return {"combined_ms": self._combined_ms, "sources": sources}

    def restore(self, saved: Mapping[str, Any], now_ms: int) -> None:
        """Take over what `save` returned, for the sources that still exist; each gets the timeout to be heard again."""
        self._combined_ms = int(saved["combined_ms"])
        for name, (watermark_ms, heard_ms, left_out, *more) in saved["sources"].items():
            if name in self._sources:
                lag_ms = None if not more or more[0] is None else int(more[0])  # checkpoints of before have none
                heard = heard_ms if left_out and lag_ms is None else max(int(heard_ms), now_ms)
                self._sources[name] = _Source(int(watermark_ms), heard, bool(left_out), lag_ms)
