"""Whether one of many that are asked at each poll answers, and since when it does not."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from collectors.printable import printable

DOWN_POLLS = 2
"""One that did not answer at so many polls in a row is told of: a single one may be its restart."""
MAX_REASON_CHARS = 500

_T = TypeVar("_T")


@dataclass(slots=True, kw_only=True)
class Reachability:
    """What is remembered of one: times in ms, `reason` why it could not be used when it was last asked."""

    down_since_ms: int | None = None
    n_failed: int = 0
    """Polls in a row."""
    reason: str | None = None
    asked_ms: int = 0

    @property
    def is_down(self) -> bool:
        """Whether it is told of."""
        return self.n_failed >= DOWN_POLLS

    def fail(self, reason: str, now_ms: int) -> None:
        """It was asked and told nothing of use."""
        self.n_failed += 1
        self.reason = printable(reason, MAX_REASON_CHARS)
        if self.down_since_ms is None:
            self.down_since_ms = now_ms

    def recover(self) -> None:
        """It answered."""
        self.n_failed, self.down_since_ms, self.reason = 0, None, None

    def unreachable(self, host: str, daemon: str, now_ms: int) -> dict[str, Any]:
        """The attributes of its DaemonUnreachable."""
        silent_ms = 0 if self.down_since_ms is None else max(0, now_ms - self.down_since_ms)
        return {"host": host, "daemon": daemon, "reason": self.reason, "silent_ms": silent_ms}


def in_turn(
    asked: Iterable[_T], of: Callable[[_T], Reachability], has_answered: Callable[[_T], bool]
) -> tuple[list[_T], list[_T]]:
    """Those that answered the last time, and the others; in each those that were not asked for longest come first.

    Of the others those that failed once go before: to be told of they must be asked again; those told of are.
    """
    by_age = sorted(asked, key=lambda one: of(one).asked_ms)
    proven = [one for one in by_age if has_answered(one) and not of(one).n_failed]
    others = [one for one in by_age if not has_answered(one) or of(one).n_failed]
    return proven, sorted(others, key=lambda one: of(one).n_failed != 1)


__all__ = ["DOWN_POLLS", "MAX_REASON_CHARS", "Reachability", "in_turn"]
