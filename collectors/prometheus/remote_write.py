"""What Prometheus servers have sent (`write_request`) and the receiver has kept (`spool`), as Metric events.

The samples of one scrape of a target have one time, and may come in several requests: they are looked at together once
every sender is `settle_ms` further. So the source promises by each sender's newest sample; a sender that has not been
heard of for `silence_ms` is not waited for, and what it sends when it is back is late, like anything that is late.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from collectors.base import (
    Collected,
    OptionError,
    ProblemLog,
    next_watermark,
    printable,
    read_position,
)
from collectors.identity import record_id
from collectors.lifecycle import EventRows
from collectors.prometheus.exposition import Sample
from collectors.prometheus.readings import DEFAULT_METRICS, READINGS, Reading, ReadingSet, Value
from collectors.prometheus.spool import Place, Record, SpoolReader

POSITION_VERSION = 1
MAX_POLL_BYTES = 1 << 26
MAX_SENDERS = 1_000
MAX_TARGETS = 20_000
MOST_AHEAD_MS = 60_000
MAX_TEXT_CHARS = 255
N_KEPT = 10
"""Committed positions that may be gone back to."""


@dataclass(frozen=True, slots=True)
class RemoteWriteOptions:
    """Where requests are, and how long is waited for what."""

    folder: Path
    readings: tuple[Reading, ...] = tuple(READINGS[name] for name in DEFAULT_METRICS)
    cluster: str = "default"
    step_ms: int = 15_000
    """How often targets are scraped."""
    settle_ms: int = 30_000
    """How much later than others a sample of the same time may come."""
    silence_ms: int = 300_000
    source_rank: int = 0
    hosts: Mapping[str, str] = field(default_factory=dict)
    """Name or address of instances -> host as the job history writes it."""

    def __post_init__(self) -> None:
        if not self.readings:
            raise OptionError("remote_write: no metric is chosen; expected at least one")

    @property
    def max_gap_ms(self) -> int:
        """Growth is told between two scrapes that are no further apart."""
        return 2 * self.step_ms

    @property
    def ahead_ms(self) -> int:
        """The load of a step is known so much before the source promises anything of that time."""
        return self.max_gap_ms + self.step_ms


@dataclass(slots=True)
class _Target:
    """What is remembered of a target: its last scrape, and those that are not settled."""

    cluster: str
    host: str
    instance: str
    levels: dict[str, float] = field(default_factory=dict)
    t_ms: int | None = None
    waiting: dict[int, list[Sample]] = field(default_factory=dict)


@dataclass(slots=True)
class _Sender:
    newest_ms: int
    heard_ms: int


class RemoteWriteCollector:
    """Metric events of what was sent."""

    name = "remote_write"

    def __init__(self, options: RemoteWriteOptions) -> None:
        self._options = options
        self._reader = SpoolReader(options.folder)
        self._readings = ReadingSet(options.readings)
        self._problems = ProblemLog(self.name)
        self._place = Place()
        self._targets: dict[tuple[str, str], _Target] = {}
        self._senders: dict[str, _Sender] = {}
        self._watermark_ms: int | None = None
        self._committed: list[int] = []
        self._is_restored = False

    def poll(self, now_ms: int) -> Collected:
        """Take what has come, and tell what is settled."""
        if self._is_restored:  # each sender gets its time to be heard of again
            self._is_restored = False
            for sender in self._senders.values():
                sender.heard_ms = max(sender.heard_ms, now_ms)
        records, self._place, is_behind, damaged = self._reader.read(self._place, MAX_POLL_BYTES)
        for message in damaged:
            self._problems.report(str(self._options.folder), "damaged", message, key=message)
        n_others = 0
        for record in records:
            n_others += record.n_others + self._take(record)
        reference_ms = records[-1].received_ms if is_behind and records else now_ms
        horizon_ms = self._horizon_ms(reference_ms)
        rows = EventRows(self._options.source_rank, next_seq=now_ms * 1_000)
        self._tell_settled(rows, horizon_ms - self._options.settle_ms)
        promised_ms = horizon_ms - self._options.settle_ms - self._options.ahead_ms
        self._watermark_ms = next_watermark(self._watermark_ms, promised_ms, now_ms)
        self._forget(now_ms)
        return Collected(rows.take_batch(), self._watermark_ms, self._problems.drain(), n_unselected=n_others)

    def checkpoint(self) -> dict[str, Any]:
        """How far the spool is read, and what of it is not settled."""
        return {
            "version": POSITION_VERSION,
            "watermark_ms": self._watermark_ms,
            "place": [self._place.segment, self._place.offset],
            "senders": {name: [sender.newest_ms, sender.heard_ms] for name, sender in self._senders.items()},
            "targets": pa.table(
                {
                    "target": [json.dumps([t.cluster, t.host, t.instance, t.t_ms]) for t in self._targets.values()],
                    "levels": [json.dumps(target.levels) for target in self._targets.values()],
                    "waiting": [
                        json.dumps([[t, [[s.name, dict(s.labels), s.value] for s in group]] for t, group in each])
                        for each in (sorted(target.waiting.items()) for target in self._targets.values())
                    ],
                },
                pa.schema([(name, pa.string()) for name in ("target", "levels", "waiting")]),
            ),
        }

    def restore(self, position: Mapping[str, Any]) -> None:
        """Take up a position; raises PositionError when it is not one of this collector's."""
        (self._watermark_ms, self._place, self._senders, self._targets) = read_position(
            position, POSITION_VERSION, _read
        )
        self._is_restored = True

    def committed(self, position: Mapping[str, Any]) -> None:
        """A position is safe: what was before the oldest that may be gone back to is not needed any more."""
        segment = int(position["place"][0])
        self._committed = [*self._committed, segment][-N_KEPT:]
        if len(self._committed) == N_KEPT:
            self._reader.remove_before(self._committed[0])

    # ---- taking ------------------------------------------------------------------------------------------------

    def _take(self, record: Record) -> int:
        """Returns how many samples are of no use."""
        n_unused, newest_ms = 0, 0
        for sample in record.samples:
            t_ms = sample.t_ms or 0
            if t_ms > record.received_ms + MOST_AHEAD_MS:
                message = f"{record.sender}: a sample dated {t_ms - record.received_ms} ms ahead; its clock is wrong"
                self._problems.report(record.sender, "ahead", message)
                n_unused += 1
                continue
            newest_ms = max(newest_ms, t_ms)
            target = self._target_of(sample.labels)
            if target is None or sample.name not in self._readings.metrics:
                n_unused += 1
                continue
            target.waiting.setdefault(t_ms, []).append(sample)
        if newest_ms:
            self._hear(record.sender, newest_ms, record.received_ms)
        return n_unused

    def _hear(self, name: str, newest_ms: int, received_ms: int) -> None:
        sender = self._senders.get(name)
        if sender is None:
            if len(self._senders) >= MAX_SENDERS:
                self._senders.pop(min(self._senders, key=lambda one: self._senders[one].heard_ms))
            self._senders[name] = _Sender(newest_ms, received_ms)
        else:
            sender.newest_ms = max(sender.newest_ms, newest_ms)
            sender.heard_ms = max(sender.heard_ms, received_ms)

    def _target_of(self, labels: Mapping[str, str]) -> _Target | None:
        instance = labels.get("instance", "")
        cluster = printable(labels.get("cluster") or self._options.cluster, MAX_TEXT_CHARS)
        key = (cluster, printable(instance, MAX_TEXT_CHARS))
        target = self._targets.get(key)
        if target is None:
            if not instance or len(self._targets) >= MAX_TARGETS:
                what = f"more than {MAX_TARGETS:,} targets" if instance else "samples without a label `instance`"
                self._problems.report(self.name, "no_target", f"{what}; they are left out")
                return None
            name = instance.rpartition(":")[0].strip("[]").lower() if ":" in instance else instance.lower()
            host = printable(self._options.hosts.get(name, name) or instance, MAX_TEXT_CHARS)
            target = self._targets[key] = _Target(cluster, host, printable(instance, MAX_TEXT_CHARS))
        return target

    def _horizon_ms(self, reference_ms: int) -> int:
        """Up to where every sender that is waited for has come."""
        alive = [
            sender.newest_ms
            for sender in self._senders.values()
            if reference_ms - sender.heard_ms <= self._options.silence_ms and not self._is_behind(sender)
        ]
        return min(alive, default=reference_ms)

    def _is_behind(self, sender: _Sender) -> bool:
        """It was silent for so long that what it sends is before what was promised."""
        promised_ms = sender.newest_ms - self._options.settle_ms - self._options.ahead_ms
        return self._watermark_ms is not None and promised_ms < self._watermark_ms

    def _forget(self, now_ms: int) -> None:
        """Targets that nothing was told of for as long as a sender may be silent."""
        oldest_ms = now_ms - 2 * self._options.silence_ms
        self._targets = {
            key: target
            for key, target in self._targets.items()
            if target.waiting or (target.t_ms is not None and target.t_ms >= oldest_ms)
        }

    # ---- telling -----------------------------------------------------------------------------------------------

    def _tell_settled(self, rows: EventRows, until_ms: int) -> None:
        settled = sorted((t, key) for key, target in self._targets.items() for t in target.waiting if t <= until_ms)
        for t_ms, key in settled:
            target = self._targets[key]
            samples = _distinct(target.waiting.pop(t_ms))
            before = target.t_ms
            follows = before is not None and 0 < t_ms - before <= self._options.max_gap_ms
            seconds = (t_ms - before) / 1000 if follows and before is not None else None
            values = self._readings.values(samples, target.levels if follows else None, seconds)
            for value in values:
                self._add(rows, target, value, t_ms, before)
            if before is None or t_ms > before:
                target.levels, target.t_ms = self._readings.levels(samples), t_ms

    def _add(self, rows: EventRows, target: _Target, value: Value, t_ms: int, before_ms: int | None) -> None:
        reading = value.reading
        t_lo_ms = before_ms + 1 if reading.is_of_growth and before_ms is not None else t_ms
        attributes = {"host": target.host, "name": reading.name, "value": value.value, "unit": reading.unit}
        series = ("remote_write", target.cluster, target.host, target.instance, reading.name)
        event_id = record_id(series, "Metric", t_ms, (), 0)
        clock, origin = f"prometheus:{target.cluster}", f"remote_write:{target.instance}"
        rows.add("Metric", event_id, t_lo_ms, clock, origin, attributes, t_hi_ms=t_ms)


def _distinct(samples: list[Sample]) -> list[Sample]:
    """A request that was sent again is there twice."""
    first: dict[tuple[str, frozenset[tuple[str, str]]], Sample] = {}
    for sample in samples:
        first.setdefault((sample.name, frozenset(sample.labels.items())), sample)
    return list(first.values())


def _read(
    saved: Mapping[str, Any],
) -> tuple[int | None, Place, dict[str, _Sender], dict[tuple[str, str], _Target]]:
    senders = {str(name): _Sender(int(newest), int(heard)) for name, (newest, heard) in saved["senders"].items()}
    targets: dict[tuple[str, str], _Target] = {}
    columns = (saved["targets"].column(name).to_pylist() for name in ("target", "levels", "waiting"))
    for told, levels, waiting in zip(*columns, strict=True):
        cluster, host, instance, t_ms = json.loads(told)
        target = _Target(str(cluster), str(host), str(instance), t_ms=None if t_ms is None else int(t_ms))
        target.levels = {str(key): float(level) for key, level in json.loads(levels).items()}
        for t, group in json.loads(waiting):
            target.waiting[int(t)] = [Sample(str(n), dict(labels), float(value), int(t)) for n, labels, value in group]
        targets[target.cluster, target.instance] = target
    watermark_ms = saved["watermark_ms"]
    segment, offset = saved["place"]
    return None if watermark_ms is None else int(watermark_ms), Place(int(segment), int(offset)), senders, targets


__all__ = ["RemoteWriteCollector", "RemoteWriteOptions"]
