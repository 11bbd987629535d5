"""Rows that alerts will be told of late: what they show is asked for then, and is kept until then."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from app.alerting.catalog import QueryInfo
from app.live.recent import longest_windows


class Behind(NamedTuple):
    """How far behind the watermark rows of alerts may still come."""

    by_type: Mapping[str, int]
    """By type of the events that they may show, ms; types of which no row waits are left out."""
    binding_ms: int
    """Of rows that bind matches of other queries."""


def behind_of_alerts(behind_ms: Mapping[str, int], queries: Mapping[str, QueryInfo]) -> Behind:
    """From what `engine.Engine.behind_ms` says by query. Rows of reports show no events."""
    late = [(queries[name], by_ms) for name, by_ms in behind_ms.items() if name in queries]
    alerting = [(info, by_ms) for info, by_ms in late if not info.is_report]
    by_type = longest_windows((info.types, by_ms) for info, by_ms in alerting)
    return Behind(by_type, max((by_ms for info, by_ms in alerting if info.uses | info.binds), default=0))


__all__ = ["Behind", "behind_of_alerts"]
