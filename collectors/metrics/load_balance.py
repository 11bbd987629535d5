"""Load over the hosts of a cluster, step by step: LoadStd, and Balance or Imbalance, derived from Metric events.

Each names the hosts that are furthest from the mean, with their values: those an alert on the spread is about.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow.compute as pc

from collectors.base import OptionError, read_position
from collectors.identity import record_id
from collectors.metrics.normal import UNITS
from collectors.schema import load_event_types
from collectors.time_units import DAY_MS
from engine.events import FOREVER_MS, EventBatch, Float64Array

POSITION_VERSION = 1

N_FURTHEST = 5
"""So many hosts a derived event names."""

HOST_CLOCK = "host:"
"""Prefix of the clock of what a host has dated itself; all of these are one cluster where steps are polls."""

ROUNDING = 1e-9
"""Share of a value by which arithmetic may be off: distances that differ by less are equal."""


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """Which metric, and when the load of a cluster counts as unbalanced."""

    metric: str = "cpu_user"
    busy_percent: float = 20.0
    """A host at or above this value is busy."""
    low_ratio: float = 0.2
    """Imbalance: the share of busy hosts lies between these two, both included."""
    high_ratio: float = 0.8
    remember_steps: int = 4
    """A host without a sample counts as missing for this many steps after its last one."""
    source_rank: int = 0

    def __post_init__(self) -> None:
        if not 0.0 <= self.low_ratio <= self.high_ratio <= 1.0:
            raise OptionError(
                f"load: low_ratio {self.low_ratio} and high_ratio {self.high_ratio}; expected 0 <= low <= high <= 1"
            )
        if self.remember_steps < 1:
            raise OptionError(f"load: remember_steps is {self.remember_steps}; expected 1 or more")


@dataclass(slots=True)
class _Step:
    """Samples of one step of one cluster by host: (t_lo, t_hi, value)."""

    samples: dict[str, tuple[int, int, float]] = field(default_factory=dict)

    def takes(self, length_ms: int) -> bool:
        """Whether a sample of this length has the resolution of the step: the finest. A finer one begins it anew."""
        known_ms = next((hi - lo for lo, hi, _ in self.samples.values()), length_ms)
        if length_ms < known_ms:
            self.samples.clear()
        return length_ms <= known_ms

    @property
    def start_ms(self) -> int:
        return max(lo for lo, _, _ in self.samples.values())


@dataclass(slots=True)
class _Cluster:
    """Steps that wait for the watermark, and when each host was last seen."""

    steps: dict[int, _Step] = field(default_factory=dict)
    last_seen_ms: dict[str, int] = field(default_factory=dict)
    emitted_ms: int | None = None
    """End of the last step that went out."""
    held: dict[str, tuple[int, float]] = field(default_factory=dict)
    """By host when its last sample was over, and its value."""


def samples_of(events: EventBatch, metric: str) -> EventBatch:
    """The Metric events of this name."""
    if not len(events) or not events.has("name"):
        return EventBatch.empty()
    wanted = pc.and_(pc.equal(events.strings("type"), "Metric"), pc.equal(events.strings("name"), metric))
    return events.where(np.asarray(pc.fill_null(wanted, False).to_numpy(zero_copy_only=False), np.bool_))


class LoadDeriver:
    """One LoadStd and one Balance or Imbalance per step, once no further sample of the step can come.

    Steps are told apart by the end of the sample's interval, clusters by the samples' clock. Samples of one step have
    one length, the shortest: a mean over minutes is no neighbour of one over seconds. The derived event covers the hull
    of its samples' intervals. A step goes out as soon as the watermark has passed its start, for then every
    sample of it is there: so the derived event is never later than the samples were. A sample that arrives after its
    step went out changes nothing.
    """

    def __init__(
        self,
        options: LoadOptions | None = None,
        *,
        of_polls: bool = False,
        window_ms: int | None = None,
        ahead_ms: int = 0,
        hold_ms: int | None = None,
    ) -> None:
        """`of_polls`: the samples of hosts end when each was asked, and those of one poll (of one call) are a step.

        `window_ms`: they end at any time, and those of one window of so many milliseconds are a step; it is complete
        when the watermark is `ahead_ms` before its end.

        `hold_ms`: of polls, where hosts report what has changed: a value holds until the next, so long at most. A step
        has the hosts that are held beside those of its poll, whose times it has.
        """
        self._options = options or LoadOptions()
        self._of_polls = of_polls
        self._window_ms, self._ahead_ms, self._hold_ms = window_ms, ahead_ms, hold_ms
        self._clusters: dict[str, _Cluster] = {}

    def derive(self, metrics: EventBatch, watermark_ms: int) -> EventBatch:
        """Take samples in, give out the steps that start before `watermark_ms`: no sample of them can come any more.

        Where polls are steps, each is given out at once.
        """
        self._take(metrics)
        rows: list[dict[str, Any]] = []
        for clock_id in sorted(self._clusters):
            cluster = self._clusters[clock_id]
            complete = [end for end, step in cluster.steps.items() if self._is_complete(end, step, watermark_ms)]
            for end_ms in sorted(complete):
                rows += self._rows(clock_id, cluster, end_ms, cluster.steps.pop(end_ms))
                cluster.emitted_ms = end_ms
        if self._of_polls or self._window_ms is not None:  # lists of targets name clusters as they like
            self._clusters = {
                clock_id: cluster
                for clock_id, cluster in self._clusters.items()
                if cluster.steps or (cluster.emitted_ms is not None and cluster.emitted_ms >= watermark_ms - DAY_MS)
            }
        return EventBatch.from_rows(rows, load_event_types())

    def _is_complete(self, end_ms: int, step: _Step, watermark_ms: int) -> bool:
        if self._window_ms is not None:
            return end_ms <= watermark_ms + self._ahead_ms
        return self._of_polls or step.start_ms < watermark_ms

    def checkpoint(self) -> dict[str, Any]:
        """Waiting steps and known hosts."""
        return {
            "version": POSITION_VERSION,
            "clusters": {
                clock_id: {
                    "steps": {str(end): {h: list(s) for h, s in step.samples.items()} for end, step in c.steps.items()},
                    "last_seen_ms": dict(c.last_seen_ms),
                    "emitted_ms": c.emitted_ms,
                    "held": {host: list(held) for host, held in c.held.items()},
                }
                for clock_id, c in self._clusters.items()
            },
        }

    def restore(self, position: Mapping[str, Any]) -> None:
        """Take up a checkpoint; raises PositionError when it is not one of this class."""
        self._clusters = read_position(position, POSITION_VERSION, _clusters)

    def _take(self, metrics: EventBatch) -> None:
        mine = samples_of(metrics, self._options.metric)
        if not len(mine):
            return
        clocks = [self._cluster_of(clock_id or "") for clock_id in mine.strings("clock_id").to_pylist()]
        hosts, ends_ms = mine.strings("host").to_pylist(), mine.t_hi_ms.tolist()
        last_ms: dict[str, int] = {}
        for clock_id, end_ms in zip(clocks, ends_ms, strict=True):
            last_ms[clock_id] = max(end_ms, last_ms.get(clock_id, end_ms))
        columns = zip(clocks, hosts, mine.t_lo_ms.tolist(), ends_ms, mine.numbers("value").tolist(), strict=True)
        for clock_id, host, t_lo_ms, t_hi_ms, value in columns:
            cluster = self._clusters.setdefault(clock_id, _Cluster())
            if host is None or not np.isfinite(value):
                continue
            if self._hold_ms is not None:
                if t_hi_ms < last_ms[clock_id] - self._hold_ms:
                    continue
                if cluster.held.get(host, (t_hi_ms,))[0] <= t_hi_ms:
                    cluster.held[host] = t_hi_ms, value
            end_ms = self._step_end(t_hi_ms, last_ms[clock_id])
            if cluster.emitted_ms is not None and end_ms <= cluster.emitted_ms:
                continue  # late: its step is out
            step = cluster.steps.setdefault(end_ms, _Step())
            if not self._of_polls and self._window_ms is None and not step.takes(t_hi_ms - t_lo_ms):
                continue
            samples = step.samples
            if host not in samples or samples[host][1] <= t_hi_ms:
                samples[host] = (t_lo_ms, t_hi_ms, value)
        if self._hold_ms is not None:
            for clock_id, end_ms in last_ms.items():
                self._add_held(self._clusters[clock_id], end_ms, end_ms - self._hold_ms)

    def _add_held(self, cluster: _Cluster, end_ms: int, oldest_ms: int) -> None:
        """To the step of this poll those of before that are not older."""
        cluster.held = {host: held for host, held in cluster.held.items() if held[0] >= oldest_ms}
        step = cluster.steps.get(end_ms)
        if step is None:
            return
        # What is seen first now, and is of before the last step, has held since then: no step is late for its sake.
        start_ms = -FOREVER_MS if cluster.emitted_ms is None else cluster.emitted_ms + 1
        step.samples = {
            host: (max(lo, start_ms), max(hi, start_ms), value) for host, (lo, hi, value) in step.samples.items()
        }
        t_lo_ms = min(lo for lo, _, _ in step.samples.values())
        for host, (_, value) in cluster.held.items():
            step.samples.setdefault(host, (t_lo_ms, end_ms, value))

    def _step_end(self, t_hi_ms: int, last_ms: int) -> int:
        """What the samples of a step have in common; `last_ms`: the latest end in this call."""
        if self._window_ms is not None:
            return -(-t_hi_ms // self._window_ms) * self._window_ms
        return last_ms if self._of_polls else t_hi_ms

    def _cluster_of(self, clock_id: str) -> str:
        return HOST_CLOCK.rstrip(":") if self._of_polls and clock_id.startswith(HOST_CLOCK) else clock_id

    def _rows(self, clock_id: str, cluster: _Cluster, end_ms: int, step: _Step) -> list[dict[str, Any]]:
        options = self._options
        t_lo_ms = min(lo for lo, _, _ in step.samples.values())
        hosts = sorted(step.samples)  # sums do not depend on the order in which samples came
        values = np.array([step.samples[host][2] for host in hosts], np.float64)
        for host in step.samples:
            cluster.last_seen_ms[host] = end_ms
        start_ms = t_lo_ms - 1
        if (self._of_polls or self._window_ms is not None) and cluster.emitted_ms is not None:
            start_ms = min(start_ms, cluster.emitted_ms)  # what is of now has no length
        oldest_ms = end_ms - options.remember_steps * (end_ms - start_ms)
        cluster.last_seen_ms = {host: t for host, t in cluster.last_seen_ms.items() if t >= oldest_ms}
        n_hosts = len(values)
        n_missing = len(cluster.last_seen_ms) - n_hosts
        val = float(np.std(values))
        busy_ratio = int(np.count_nonzero(values >= options.busy_percent)) / n_hosts
        unbalanced = options.low_ratio <= busy_ratio <= options.high_ratio
        common = {
            "t_lo_ms": t_lo_ms,
            "t_hi_ms": max(hi for _, hi, _ in step.samples.values()),
            "source_rank": options.source_rank,
            "clock_id": f"load:{clock_id}",
            "name": options.metric,
            "unit": UNITS.get(options.metric),
            "n_hosts": n_hosts,
            "n_missing": n_missing,
            "val": val,
            **_named(furthest_hosts(hosts, values)),
        }
        rows = []
        told: list[tuple[str, dict[str, float]]] = [
            ("LoadStd", {}),
            ("Imbalance" if unbalanced else "Balance", {"busy_ratio": busy_ratio}),
        ]
        for place, (event_type, more) in enumerate(told):
            source = ("load", clock_id, options.metric)
            # Not of the values: read again from other samples, of more hosts or from later on, it is the same step.
            event_id = record_id(source, event_type, end_ms, (), 0)
            # Steps follow each other in time; within one the standard deviation stands first.
            seq = end_ms * 2 + place
            rows.append({**common, "event_id": event_id, "type": event_type, "source_seq": seq, **more})
        return rows


def furthest_hosts(hosts: Sequence[str], values: Float64Array) -> list[tuple[str, float]]:
    """The hosts, with their values, that lie at least one population standard deviation from the mean; at most five.

    `values` has shape (n,), n >= 1. Furthest first; at equal distance the higher value first, then by name. None where
    all values are equal.
    """
    distances = np.abs(values - np.mean(values))
    deviation = float(np.sqrt(np.mean(distances * distances)))
    if not deviation > ROUNDING * float(np.max(np.abs(values))) or not np.isfinite(deviation):
        return []
    in_deviations = distances / deviation
    chosen = np.flatnonzero(in_deviations >= 1.0 - ROUNDING).tolist()
    chosen.sort(key=lambda i: (-round(float(in_deviations[i]), 9), -float(values[i]), hosts[i]))
    return [(hosts[i], float(values[i])) for i in chosen[:N_FURTHEST]]


def _named(furthest: list[tuple[str, float]]) -> dict[str, Any]:
    """As attributes host_1, value_1, host_2 and so on; None where there are fewer."""
    padded: list[tuple[str | None, float | None]] = [*furthest, *[(None, None)] * (N_FURTHEST - len(furthest))]
    named: dict[str, Any] = {}
    for place, (host, value) in enumerate(padded, 1):
        named |= {f"host_{place}": host, f"value_{place}": value}
    return named


def _clusters(position: Mapping[str, Any]) -> dict[str, _Cluster]:
    clusters = {}
    for clock_id, saved in position["clusters"].items():
        steps = {
            int(end): _Step({str(h): (int(lo), int(hi), float(v)) for h, (lo, hi, v) in samples.items()})
            for end, samples in saved["steps"].items()
        }
        last_seen_ms = {str(host): int(t) for host, t in saved["last_seen_ms"].items()}
        emitted_ms = saved["emitted_ms"]
        held = {str(host): (int(t), float(v)) for host, (t, v) in saved.get("held", {}).items()}
        emitted_ms = None if emitted_ms is None else int(emitted_ms)
        clusters[str(clock_id)] = _Cluster(steps, last_seen_ms, emitted_ms, held)
    return clusters


__all__ = ["LoadDeriver", "LoadOptions", "furthest_hosts"]
