"""What is read of an exporter: Prometheus metric -> normal metric, as data.

Names are those of node_exporter 1.x. What is added up is chosen as gmond does (libmetrics for Linux): disks are file
systems of devices below /dev, each device once; traffic is that of interfaces that are not `lo` or a bond, here without
the virtual ones of containers, too, whose bytes pass a real one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from collectors.base import OptionError
from collectors.metrics.normal import UNITS
from collectors.prometheus.exposition import Labels, Sample

GB = 1e9
"""As gmond has it."""
KB = 1024
PARTS = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
"""Modes of a processor that add up to all of its time; those of guests are part of user and nice."""


class Kind(Enum):
    """How the series of a metric become one value."""

    GAUGE = "gauge"
    """Their sum, now."""
    RATE = "rate"
    """Their growth per second since the answer before."""
    SHARE = "share"
    """Their part, in percent, of the growth of all series of the metric (of `whole`, by the same label)."""
    COUNT = "count"
    """How many there are."""
    FULLEST = "fullest"
    """The greatest part that is used, in percent, by pairs of (free, whole) of one device."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One normal metric."""

    name: str
    kind: Kind
    metric: str
    """Its series are those with this name and the labels of `where`."""
    where: Mapping[str, str] = field(default_factory=dict)
    """Label -> regular expression that its whole value matches; an absent label is the empty text."""
    factor: float = 1.0
    """Values are multiplied by it."""
    unit: str | None = None
    once_per: str | None = None
    """Of series with one value of this label only the first counts."""
    whole: str | None = None
    """FULLEST: the metric that has the whole. SHARE: pattern of the values of `mode` that are the whole."""

    @property
    def metrics(self) -> tuple[str, ...]:
        """All that it is made of."""
        return (self.metric, self.whole) if self.kind is Kind.FULLEST and self.whole else (self.metric,)

    @property
    def is_of_growth(self) -> bool:
        """Whether it needs an answer before."""
        return self.kind in (Kind.RATE, Kind.SHARE)


def _cpu(name: str, *modes: str) -> Reading:
    whole = "|".join(PARTS)
    return Reading(name, Kind.SHARE, "node_cpu_seconds_total", {"mode": "|".join(modes)}, 1.0, "%", whole=whole)


def _gauge(name: str, metric: str, factor: float = 1.0, **where: str) -> Reading:
    return Reading(name, Kind.GAUGE, metric, where, factor, UNITS.get(name))


def _rate(name: str, metric: str, **where: str) -> Reading:
    return Reading(name, Kind.RATE, metric, where, 1.0, UNITS.get(name))


_INTERFACES = r"(?!lo$|bond|veth|docker|br-|virbr|cali|flannel|cni|tunl|tun|tap|dummy|ifb).*"
_DISKS = r"(?!dm-|md|loop|ram|zram|sr|fd).*"
_FILE_SYSTEMS = {"device": "/dev/.*", "fstype": "(?!nfs|squashfs|iso9660|autofs).*"}


def _disk(name: str, metric: str) -> Reading:
    return Reading(name, Kind.GAUGE, metric, _FILE_SYSTEMS, 1 / GB, UNITS[name], once_per="device")


_READINGS = (
    _cpu("cpu_user", "user"),
    _cpu("cpu_nice", "nice"),
    _cpu("cpu_system", "system", "irq", "softirq"),  # gmond counts interrupts in, and tells them apart as well
    _cpu("cpu_idle", "idle"),
    _cpu("cpu_wio", "iowait"),
    _cpu("cpu_intr", "irq"),
    _cpu("cpu_sintr", "softirq"),
    _cpu("cpu_steal", "steal"),
    Reading("cpu_num", Kind.COUNT, "node_cpu_seconds_total", {"mode": "idle"}, unit="CPUs", once_per="cpu"),
    _gauge("load_one", "node_load1"),
    _gauge("load_five", "node_load5"),
    _gauge("load_fifteen", "node_load15"),
    _gauge("proc_run", "node_procs_running"),
    _gauge("boottime", "node_boot_time_seconds"),
    _gauge("mem_total", "node_memory_MemTotal_bytes", 1 / KB),
    _gauge("mem_free", "node_memory_MemFree_bytes", 1 / KB),
    _gauge("mem_buffers", "node_memory_Buffers_bytes", 1 / KB),
    _gauge("mem_cached", "node_memory_Cached_bytes", 1 / KB),
    _gauge("mem_shared", "node_memory_Shmem_bytes", 1 / KB),
    _gauge("swap_total", "node_memory_SwapTotal_bytes", 1 / KB),
    _gauge("swap_free", "node_memory_SwapFree_bytes", 1 / KB),
    _rate("bytes_in", "node_network_receive_bytes_total", device=_INTERFACES),
    _rate("bytes_out", "node_network_transmit_bytes_total", device=_INTERFACES),
    _rate("pkts_in", "node_network_receive_packets_total", device=_INTERFACES),
    _rate("pkts_out", "node_network_transmit_packets_total", device=_INTERFACES),
    _rate("disk_read_bytes", "node_disk_read_bytes_total", device=_DISKS),
    _rate("disk_write_bytes", "node_disk_written_bytes_total", device=_DISKS),
    _disk("disk_total", "node_filesystem_size_bytes"),
    _disk("disk_free", "node_filesystem_avail_bytes"),
    Reading(
        "part_max_used",
        Kind.FULLEST,
        "node_filesystem_avail_bytes",
        _FILE_SYSTEMS,
        unit="%",
        once_per="device",
        whole="node_filesystem_size_bytes",
    ),
)

READINGS: Mapping[str, Reading] = {reading.name: reading for reading in _READINGS}
DEFAULT_METRICS = ("cpu_user", "cpu_system", "cpu_idle", "load_one", "bytes_in", "bytes_out")
"""As those of Ganglia."""

Levels = Mapping[str, float]
"""Of the series of counters at one answer, by `series_key`."""


@dataclass(frozen=True)
class Value:
    """Of one normal metric; `reading.is_of_growth`: since the answer before."""

    reading: Reading
    value: float
    t_ms: int | None
    """When the exporter says it was measured, of all its series the latest."""


class ReadingSet:
    """The chosen readings, prepared."""

    def __init__(self, readings: Sequence[Reading]) -> None:
        """Raises OptionError for a pattern that is none."""
        self.readings = tuple(readings)
        try:
            self._patterns = [
                {label: re.compile(pattern) for label, pattern in reading.where.items()} for reading in readings
            ]
            self._wholes = [re.compile(r.whole) if r.kind is Kind.SHARE and r.whole else None for r in readings]
        except re.error as error:
            raise OptionError(f"prometheus: {error.pattern!r} is no regular expression: {error}") from error
        self.metrics = frozenset(metric for reading in readings for metric in reading.metrics)
        """Names that are parsed; all others are counted."""
        self._counters = frozenset(reading.metric for reading in readings if reading.is_of_growth)

    def uses(self, sample: Sample) -> bool:
        """Whether any reading is made of this series."""
        return any(
            sample.name in reading.metrics
            and (
                all(pattern.fullmatch(sample.labels.get(label, "")) for label, pattern in patterns.items())
                or (whole is not None and whole.fullmatch(sample.labels.get("mode", "")) is not None)
            )
            for reading, patterns, whole in zip(self.readings, self._patterns, self._wholes, strict=True)
        )

    def levels(self, samples: Iterable[Sample]) -> dict[str, float]:
        """What the next answer is compared with."""
        return {series_key(s): s.value for s in samples if s.name in self._counters and math.isfinite(s.value)}

    def values(self, samples: Sequence[Sample], before: Levels | None, seconds: float | None) -> list[Value]:
        """What an answer tells; `before`: the levels of the answer before, so many `seconds` ago."""
        by_name: dict[str, list[Sample]] = {}
        for sample in samples:
            if math.isfinite(sample.value):
                by_name.setdefault(sample.name, []).append(sample)
        found = []
        for reading, patterns, whole in zip(self.readings, self._patterns, self._wholes, strict=True):
            mine = _chosen(by_name.get(reading.metric, ()), patterns, reading.once_per)
            if not mine:
                continue
            value: float | None
            if reading.kind is Kind.GAUGE:
                value = _sum(sample.value for sample in mine)
            elif reading.kind is Kind.COUNT:
                value = float(len(mine))
            elif reading.kind is Kind.FULLEST:
                value = _fullest(mine, by_name.get(reading.whole or "", ()), reading.once_per or "")
            elif before is None or seconds is None:
                continue
            elif reading.kind is Kind.RATE:
                grown = _growth(mine, before)
                value = None if grown is None or seconds <= 0 else grown / seconds
            else:
                assert whole is not None
                of_all = [s for s in by_name[reading.metric] if whole.fullmatch(s.labels.get("mode", ""))]
                value = _share(mine, of_all, before)
            if value is not None and math.isfinite(value * reading.factor):
                times = [sample.t_ms for sample in mine if sample.t_ms is not None]
                found.append(Value(reading, value * reading.factor, max(times, default=None)))
        return found


def series_key(sample: Sample) -> str:
    """Name and labels of a series, as one text that no other series has."""
    parts = [sample.name]
    for name, value in sorted(sample.labels.items()):
        parts += [f"{len(name)}:{name}", f"{len(value)}:{value}"]
    return "\0".join(parts)


def _chosen(samples: Iterable[Sample], patterns: Mapping[str, re.Pattern[str]], once_per: str | None) -> list[Sample]:
    chosen: list[Sample] = []
    seen: set[str] = set()
    for sample in samples:
        if not all(pattern.fullmatch(sample.labels.get(label, "")) for label, pattern in patterns.items()):
            continue
        if once_per is not None:
            if (one := sample.labels.get(once_per, "")) in seen:
                continue
            seen.add(one)
        chosen.append(sample)
    return chosen


def _fullest(free: Sequence[Sample], whole: Iterable[Sample], label: str) -> float | None:
    sizes: dict[str, float] = {}
    for sample in whole:
        sizes.setdefault(sample.labels.get(label, ""), sample.value)
    used = [
        100.0 * (1.0 - sample.value / size)
        for sample in free
        if (size := sizes.get(sample.labels.get(label, ""), 0.0)) > 0
    ]
    return max(used, default=None)


def _growth(samples: Iterable[Sample], before: Levels) -> float | None:
    """Of the series that were there before; of one whose level fell all of it: it was started again in between."""
    grown = [
        sample.value - level if sample.value >= level else sample.value
        for sample in samples
        if (level := before.get(series_key(sample))) is not None
    ]
    return _sum(grown) if grown else None


def _share(samples: Sequence[Sample], of_all: Sequence[Sample], before: Levels) -> float | None:
    """In percent. The kernel's idle and I/O times go back by some hundredths at times: only when all fell together was
    the host started again."""
    pairs = [(s, level) for s in of_all if (level := before.get(series_key(s))) is not None]
    again = _sum(s.value for s, _ in pairs) < _sum(level for _, level in pairs)
    grown = {series_key(s): s.value if again else max(0.0, s.value - level) for s, level in pairs}
    whole = _sum(grown.values())
    if not whole > 0:
        return None
    return 100.0 * _sum(grown.get(series_key(sample), 0.0) for sample in samples) / whole


def _sum(values: Iterable[float]) -> float:
    """NaN where it is too large for a number: one exporter's nonsense is no reason to tell nothing of all others."""
    try:
        return math.fsum(values)
    except OverflowError:
        return math.nan


__all__ = ["DEFAULT_METRICS", "READINGS", "Kind", "Labels", "Levels", "Reading", "ReadingSet", "Value", "series_key"]
