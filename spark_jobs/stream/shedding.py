"""The latency bound of a stream: what a bucket drops to hold it, and what the driver makes of it.

A bucket is called with the watermark of a micro-batch. From then on the events that the watermark has passed wait for
the machine: their latency goes from there to the end of the step of its engine that evaluated them, by the clock of the
executor, which nobody sets.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple, cast

import engine
from app.shedding.losses import NOTHING, Lost, OverloadOf, joined, lost_by, missing_until_ms, overload_figures
from app.store.status import OverloadFigures
from spark_jobs.stream.groups import BucketOptions, Group

ENGINE = "engine"


@lru_cache(maxsize=64)
def control_of(group: Group, options: BucketOptions) -> OverloadOf | None:
    """Makes the overload control of each bucket of a group; None without a bound.

    Those of one process, which is called for one at a time, learn together how long steps take: a bucket that comes
    from another process knows it then.
    """
    del group  # others have other queries
    if options.latency_bound_ms is None:
        return None
    return engine.latency_bound(options.latency_bound_ms / 1000, time.monotonic, shares_times=True)


class BucketShed(NamedTuple):
    """Of one call of a bucket: what was dropped since the one before, by query; until when matches that had begun may
    be missing, by query; and how the bound is held so far."""

    lost: dict[str, Lost]
    missing_until_ms: dict[str, int]
    figures: OverloadFigures

    def content(self) -> dict[str, object]:
        """As JSON-able values."""
        return {"lost": self.lost, "missing_until_ms": self.missing_until_ms, "figures": self.figures}

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> BucketShed:
        """What `content` returned, read from JSON."""
        lost = {str(name): Lost(*numbers) for name, numbers in content["lost"].items()}
        missing = {str(name): int(until_ms) for name, until_ms in content["missing_until_ms"].items()}
        return cls(lost, missing, cast("OverloadFigures", content["figures"]))


class BucketBound:
    """Follows the engine of one bucket."""

    def __init__(self, matcher: engine.Engine) -> None:
        self._matcher = matcher
        self._before = lost_by(matcher)

    def begin(self) -> None:
        """The engine was restored: what it had dropped before was told then."""
        self._before = lost_by(self._matcher)

    def since_last(self) -> BucketShed | None:
        """After a call; None without a bound."""
        figures = overload_figures(self._matcher)
        if figures is None:
            return None
        now = lost_by(self._matcher)
        since = {name: lost.since(self._before.get(name, NOTHING)) for name, lost in now.items()}
        self._before = now
        return BucketShed(
            {name: lost for name, lost in since.items() if lost.n_dropped > 0},
            dict(missing_until_ms(self._matcher)),
            figures,
        )


@dataclass
class StreamBound:
    """All buckets of a stream, for the driver: the newest figures of each."""

    _by_bucket: dict[tuple[str, int], OverloadFigures] = field(default_factory=dict)

    def take(self, told: Iterable[tuple[str, int, BucketShed]]) -> None:
        """What buckets (group, number) told in a micro-batch."""
        for group, number, shed in told:
            self._by_bucket[group, number] = shed.figures

    @property
    def figures(self) -> OverloadFigures | None:
        """Of all buckets that have been called since this process began; None without a bound."""
        return joined(list(self._by_bucket.values())) if self._by_bucket else None


def lost_in(told: Iterable[BucketShed]) -> Iterator[tuple[str, str, str, str]]:
    """What was dropped in a micro-batch as problems (source, place, kind, message), one for each query."""
    total: dict[str, Lost] = {}
    bound_ms = 0
    for shed in told:
        bound_ms = shed.figures["bound_ms"]
        for name, lost in shed.lost.items():
            total[name] = total.get(name, NOTHING).with_more(lost)
    for name in sorted(total):
        yield ENGINE, f"query {name}", "load_shed", total[name].told(bound_ms)


def missing_in(told: Iterable[BucketShed]) -> dict[str, int]:
    """By query until when matches that had begun may be missing, in any bucket."""
    found: dict[str, int] = {}
    for shed in told:
        for name, until_ms in shed.missing_until_ms.items():
            found[name] = max(until_ms, found.get(name, until_ms))
    return found


__all__ = ["BucketBound", "BucketShed", "StreamBound", "control_of", "lost_in", "missing_in"]
