"""How alerts are told, as configured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from app.alerting.dispatch.routes import Route, Routing, Timing
from app.settings import Receiver
from collectors.time_units import DAY_MS


@dataclass(frozen=True)
class Telling:
    """Through which routes, and whom."""

    routing: Routing | None
    """None: each by itself; groups that are left tell what they have still to tell, and of its end."""
    receivers: Mapping[str, Receiver]
    max_age_ms: int = DAY_MS

    def route(self, identity: str) -> Route | None:
        """Of a group; None: the tree lacks it, or there is none."""
        return None if self.routing is None else self.routing.route(identity)

    @property
    def longest_wait_ms(self) -> int:
        """No timer of a group lies further ahead."""
        timing = Timing()
        least_ms = max(timing.group_wait_ms, timing.group_interval_ms)
        return least_ms if self.routing is None else max(least_ms, self.routing.longest_wait_ms)


__all__ = ["Telling"]
