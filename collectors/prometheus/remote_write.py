"""What Prometheus servers have sent (`write_request`) and the receiver has kept (`spool`), as Metric events.

The samples of one scrape of a target have one time, and may come in several requests: they are looked at together once
every sender is `settle_ms` further. So the source promises by each sender's newest sample; a sender that has not come
any further for `silence_ms` is not waited for, and what it sends when it is back is late, like anything that is late.
Samples that an exporter dates itself, ahead of when they were received, say nothing of how far their sender has come.

A sender with a backlog sends by several connections, of which one may be far ahead of another. A scrape that lacks
series which the target had lately, and of which nobody says that they have ended, waits for them, `patience_ms` long
and without holding up others; then metrics of which a part is missing are left out: a sum of some of them would be
wrong.
"""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from collectors.base import Collected, Lasting, OptionError, ProblemLog, next_watermark, read_position
from collectors.identity import record_id
from collectors.lifecycle import EventRows
from collectors.printable import printable
from collectors.prometheus.exposition import MAX_CHOSEN, Sample
from collectors.prometheus.readings import DEFAULT_METRICS, READINGS, Reading, ReadingSet, Value, series_key
from collectors.prometheus.spool import Place, Record, SpoolReader
from engine.events import FOREVER_MS

POSITION_VERSION = 1
MAX_PART_BYTES = 1 << 22
"""Of the spool that are read at once: as objects they are ten times as many."""
MAX_PARTS = 16
"""That one poll reads."""
MAX_WAITING = 2_000_000
"""Samples that are not settled; with more of them scrapes are told as they are."""
MAX_SENDERS = 1_000
MAX_TARGETS = 20_000
MOST_AHEAD_MS = 60_000
MAX_TEXT_CHARS = 255
SENDER_LABELS = ("cluster", "prometheus", "prometheus_replica", "replica")
"""External labels by which servers behind one address are told apart, as operators set them."""
_HOST_AND_PORT = re.compile(r"(\[[^\]]+\]|[^:]+):[0-9]+")
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
    def patience_ms(self) -> int:
        """How long a scrape waits for series that the target had."""
        return 4 * self.settle_ms

    @property
    def max_gap_ms(self) -> int:
        """Growth is told between two scrapes that are no further apart."""
        return 2 * self.step_ms

    @property
    def ahead_ms(self) -> int:
        """The load of a step is known so much before the source promises anything of that time."""
        return self.max_gap_ms + self.step_ms


@dataclass(slots=True)
class _Part:
    """Of the spool: where it begins, and how many of its samples are not settled."""

    place: Place
    n_waiting: int = 0


@dataclass(slots=True)
class _Target:
    """What is remembered of a target: its series, and scrapes that are not settled."""

    cluster: str
    host: str
    instance: str
    job: str
    seen: dict[str, tuple[int, float]] = field(default_factory=dict)
    """By series the time and value of its last sample that was told of."""
    ended: dict[str, int] = field(default_factory=dict)
    """By series when it was said to have ended."""
    t_ms: int | None = None
    waiting: dict[int, list[tuple[_Part, Sample]]] = field(default_factory=dict)


@dataclass(slots=True)
class _Sender:
    newest_ms: int
    heard_ms: int
    lag_ms: int = 0
    """How old its newest sample was when it came."""
    behind_ms: int | None = None
    """Since when what comes of it is older than it may be silent."""


class RemoteWriteCollector:
    """Metric events of what was sent."""

    name = "remote_write"

    def __init__(self, options: RemoteWriteOptions) -> None:
        self._options = options
        self._reader = SpoolReader(options.folder)
        self._readings = ReadingSet(options.readings)
        self._problems = ProblemLog(self.name)
        self._place = Place()
        self._parts: deque[_Part] = deque()
        """Those that have samples which are not settled, and others between them."""
        self._targets: dict[tuple[str, str, str], _Target] = {}
        self._senders: dict[str, _Sender] = {}
        self._watermark_ms: int | None = None
        self._committed: list[int] = []
        self._is_restored = False
        self._complained_ms: dict[tuple[str, str], int] = {}
        """By place and kind when a problem of samples was met last."""

    def poll(self, now_ms: int) -> Collected:
        """Take what has come, and tell what is settled."""
        if self._is_restored:  # each sender gets its time to be heard of again
            self._is_restored = False
            for sender in self._senders.values():
                sender.heard_ms = max(sender.heard_ms, now_ms)
        for sender in self._senders.values():
            if sender.newest_ms > now_ms:  # this machine's clock was ahead when that was received
                sender.newest_ms = sender.heard_ms = now_ms
        n_others, reference_ms = self._read(now_ms)
        horizon_ms = self._horizon_ms(reference_ms)
        rows = EventRows(self._options.source_rank, next_seq=now_ms * 1_000)
        self._tell_settled(rows, horizon_ms)
        if sum(part.n_waiting for part in self._parts) > MAX_WAITING:
            self._tell_settled(rows, FOREVER_MS)
        while self._parts and not self._parts[0].n_waiting:
            self._parts.popleft()
        promised_ms = horizon_ms - self._options.settle_ms - self._options.ahead_ms
        self._watermark_ms = next_watermark(self._watermark_ms, promised_ms, now_ms)
        self._forget(now_ms)
        self._end_episodes(reference_ms)
        return Collected(rows.take_batch(), self._watermark_ms, self._problems.drain(), n_unselected=n_others)

    def checkpoint(self) -> dict[str, Any]:
        """Up to where all of the spool is settled, and the series of targets: what is behind that is read again."""
        place = self._parts[0].place if self._parts else self._place
        return {
            "version": POSITION_VERSION,
            "watermark_ms": self._watermark_ms,
            "place": [place.segment, place.offset],
            "senders": {name: [sender.newest_ms, sender.heard_ms] for name, sender in self._senders.items()},
            "targets": [[t.cluster, t.host, t.instance, t.job, t.t_ms] for t in self._targets.values()],
            "series": Lasting(_series_table(list(self._targets.values()))),
        }

    def restore(self, position: Mapping[str, Any]) -> None:
        """Take up a position; raises PositionError when it is not one of this collector's."""
        found = read_position(position, POSITION_VERSION, _position)
        self._watermark_ms, self._place, self._senders, self._targets = found
        self._parts.clear()
        self._is_restored = True

    def committed(self, position: Mapping[str, Any]) -> None:
        """A position is safe: what was before the oldest that may be gone back to is not needed any more."""
        segment = int(position["place"][0])
        self._committed = [*self._committed, segment][-N_KEPT:]
        if len(self._committed) == N_KEPT:
            self._reader.remove_before(self._committed[0])

    # ---- taking ------------------------------------------------------------------------------------------------

    def _read(self, now_ms: int) -> tuple[int, int]:
        """What has come, some parts at most; returns how much of it is of no use, and of when it is."""
        n_others, reference_ms = 0, now_ms
        for _ in range(MAX_PARTS):
            part = _Part(self._place)
            records, self._place, is_behind, damaged = self._reader.read(self._place, MAX_PART_BYTES)
            for message in damaged:
                self._problems.report(str(self._options.folder), "damaged", message, key=message)
            self._parts.append(part)
            for record in records:
                n_others += record.n_others + self._take(record, part)
            if not is_behind:
                return n_others, now_ms
            if records:
                reference_ms = records[-1].received_ms
        return n_others, reference_ms

    def _take(self, record: Record, part: _Part) -> int:
        """Returns how many samples are of no use."""
        n_unused, newest_ms = 0, dict[str, int]()
        for sample in record.samples:
            t_ms = sample.t_ms or 0
            if t_ms > record.received_ms + MOST_AHEAD_MS:
                message = f"{record.sender}: a sample dated {t_ms - record.received_ms} ms ahead; its clock is wrong"
                self._complain(record, record.sender, "ahead", message)
                n_unused += 1
                continue
            sender = _sender_of(record.sender, sample.labels)
            newest_ms[sender] = max(newest_ms.get(sender, 0), min(t_ms, record.received_ms))
            target = self._target_of(sample.labels, record)
            if target is None or not self._readings.uses(sample):
                n_unused += 1
                continue
            key = series_key(sample)
            if math.isnan(sample.value):
                if key in target.ended or len(target.ended) < MAX_CHOSEN:
                    target.ended[key] = max(t_ms, target.ended.get(key, 0))
                n_unused += 1
                continue
            if target.seen.get(key, (0,))[0] >= t_ms:
                continue  # read again, or sent again
            scrape = target.waiting.setdefault(t_ms, [])
            if len(scrape) >= MAX_CHOSEN:
                message = f"{target.instance}: more than {MAX_CHOSEN:,} chosen samples of one time; they are left out"
                self._complain(record, target.instance, "too_large", message)
                n_unused += 1
                continue
            scrape.append((part, sample))
            part.n_waiting += 1
        for sender, sent_ms in newest_ms.items():
            if sent_ms:
                self._hear(sender, sent_ms, record.received_ms)
        return n_unused

    def _hear(self, name: str, newest_ms: int, received_ms: int) -> None:
        sender = self._senders.get(name)
        if sender is None:
            if len(self._senders) >= MAX_SENDERS:
                self._senders.pop(min(self._senders, key=lambda one: self._senders[one].heard_ms))
            self._senders[name] = _Sender(newest_ms, received_ms, received_ms - newest_ms)
        elif newest_ms > sender.newest_ms:  # who sends the same again and again must not hold up others for ever
            sender.newest_ms, sender.lag_ms = newest_ms, received_ms - newest_ms
            sender.heard_ms = max(sender.heard_ms, received_ms)

    def _complain(self, record: Record, place: str, kind: str, message: str) -> None:
        """Once per episode: it is over when nothing of the kind came for `silence_ms`."""
        self._complained_ms[place, kind] = record.received_ms
        self._problems.report(place, kind, message, key=(place, kind))

    def _end_episodes(self, reference_ms: int) -> None:
        over = [key for key, met_ms in self._complained_ms.items() if reference_ms - met_ms > self._options.silence_ms]
        for key in over:
            del self._complained_ms[key]
            self._problems.forget(key)

    def _target_of(self, labels: Mapping[str, str], record: Record) -> _Target | None:
        instance = labels.get("instance", "")
        cluster = printable(labels.get("cluster") or self._options.cluster, MAX_TEXT_CHARS)
        shown, job = printable(instance, MAX_TEXT_CHARS), printable(labels.get("job", ""), MAX_TEXT_CHARS)
        key = (cluster, shown, job)  # jobs that share a name of an instance scrape it at times of their own
        target = self._targets.get(key)
        if target is None:
            if not instance:
                self._complain(record, self.name, "no_target", "samples without a label `instance`; they are left out")
                return None
            if len(self._targets) >= MAX_TARGETS:
                message = f"more than {MAX_TARGETS:,} targets; they are left out"
                self._complain(record, self.name, "too_many_targets", message)
                return None
            found = _HOST_AND_PORT.fullmatch(instance)
            name = (found[1] if found else instance).strip("[]").lower()
            host = printable(self._options.hosts.get(name, name) or instance, MAX_TEXT_CHARS)
            target = self._targets[key] = _Target(cluster, host, shown, job)
        return target

    def _horizon_ms(self, reference_ms: int) -> int:
        """Up to where every sender that is waited for has come."""
        alive: list[int] = []
        foremost_ms = max((sender.newest_ms for sender in self._senders.values()), default=reference_ms)
        for name, sender in self._senders.items():
            if reference_ms - sender.heard_ms > self._options.silence_ms:
                message = f"{name}: nothing new came for longer than sources.silence_timeout; others do not wait for it"
                self._problems.report(name, "silent", message)
                continue
            self._problems.forget((name, "silent"))
            self._tell_whether_behind(name, sender, reference_ms)
            is_late = sender.behind_ms is not None and reference_ms - sender.behind_ms > self._options.silence_ms
            if is_late and foremost_ms - sender.newest_ms > self._options.silence_ms:
                continue  # others are further: it has had its time to come up with them
            if not self._is_behind(sender):
                alive.append(sender.newest_ms)
        return min(alive, default=reference_ms)

    def _tell_whether_behind(self, name: str, sender: _Sender, reference_ms: int) -> None:
        if sender.lag_ms <= self._options.silence_ms:
            sender.behind_ms = None
            self._problems.forget((name, "behind"))
            return
        if sender.behind_ms is None:
            sender.behind_ms = reference_ms
        message = (
            f"{name}: what it sends is {sender.lag_ms // 1000} s old when it comes, so that nothing of later is told; "
            "others wait for it no longer than sources.silence_timeout. See its prometheus_remote_storage_* metrics"
        )
        self._problems.report(name, "behind", message)

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

    def _tell_settled(self, rows: EventRows, horizon_ms: int) -> None:
        options = self._options
        for target in self._targets.values():
            for t_ms in sorted(t for t in target.waiting if t <= horizon_ms - options.settle_ms):
                group = _distinct(sample for _, sample in target.waiting[t_ms])
                missing = self._missing(target, group, t_ms)
                if missing and t_ms > horizon_ms - options.patience_ms:
                    break  # further scrapes of it wait, too: growth is from one to the next
                for part, _ in target.waiting.pop(t_ms):
                    part.n_waiting -= 1
                cut_off = {key.partition("\0")[0] for key in missing}
                self._tell(rows, target, {k: s for k, s in group.items() if s.name not in cut_off}, t_ms)

    def _missing(self, target: _Target, group: Mapping[str, Sample], t_ms: int) -> list[str]:
        """Series that the target had lately and that this scrape has not (yet)."""
        oldest_ms = t_ms - self._options.patience_ms
        return [
            key
            for key, (seen_ms, _) in target.seen.items()
            if oldest_ms <= seen_ms < t_ms and key not in group and not seen_ms < target.ended.get(key, 0) <= t_ms
        ]

    def _tell(self, rows: EventRows, target: _Target, group: Mapping[str, Sample], t_ms: int) -> None:
        times = [target.seen[key][0] for key in group if key in target.seen]
        before_ms = max((t for t in times if t_ms - self._options.max_gap_ms <= t < t_ms), default=None)
        levels = None
        if before_ms is not None:
            levels = {key: target.seen[key][1] for key in group if target.seen.get(key, (0,))[0] == before_ms}
        seconds = None if before_ms is None else (t_ms - before_ms) / 1000
        for value in self._readings.values(list(group.values()), levels, seconds):
            self._add(rows, target, value, t_ms, before_ms)
        for key, sample in group.items():
            if target.seen.get(key, (0,))[0] < t_ms:
                target.seen[key] = t_ms, sample.value
        oldest_ms = t_ms - 2 * self._options.patience_ms
        target.seen = {key: known for key, known in target.seen.items() if known[0] >= oldest_ms}
        target.ended = {key: ended_ms for key, ended_ms in target.ended.items() if ended_ms >= oldest_ms}
        target.t_ms = max(t_ms, target.t_ms or t_ms)

    def _add(self, rows: EventRows, target: _Target, value: Value, t_ms: int, before_ms: int | None) -> None:
        reading = value.reading
        t_lo_ms = before_ms + 1 if reading.is_of_growth and before_ms is not None else t_ms
        attributes = {"host": target.host, "name": reading.name, "value": value.value, "unit": reading.unit}
        series = ("remote_write", target.cluster, target.host, target.instance, target.job, reading.name)
        event_id = record_id(series, "Metric", t_ms, (), 0)
        clock, origin = f"prometheus:{target.cluster}", f"remote_write:{target.instance}"
        rows.add("Metric", event_id, t_lo_ms, clock, origin, attributes, t_hi_ms=t_ms)


def _sender_of(address: str, labels: Mapping[str, str]) -> str:
    named = [f"{name}={printable(labels[name], MAX_TEXT_CHARS)}" for name in SENDER_LABELS if labels.get(name)]
    return f"{address} ({', '.join(named)})" if named else address


def _distinct(samples: Iterable[Sample]) -> dict[str, Sample]:
    """By series; a request that was sent again is there twice."""
    first: dict[str, Sample] = {}
    for sample in samples:
        first.setdefault(series_key(sample), sample)
    return first


def _series_table(targets: list[_Target]) -> pa.Table:
    idx, keys, times, values = list[int](), list[str](), list[int](), list[float]()
    for number, target in enumerate(targets):
        idx += [number] * len(target.seen)
        keys += target.seen
        times += [t_ms for t_ms, _ in target.seen.values()]
        values += [value for _, value in target.seen.values()]
    return pa.table(
        {
            "target": pa.array(idx, pa.int32()),
            "series": pa.array(keys, pa.string()).dictionary_encode(),
            "t_ms": pa.array(times, pa.int64()),
            "value": pa.array(values, pa.float64()),
        }
    )


def _position(
    saved: Mapping[str, Any],
) -> tuple[int | None, Place, dict[str, _Sender], dict[tuple[str, str, str], _Target]]:
    senders = {str(name): _Sender(int(newest), int(heard)) for name, (newest, heard) in saved["senders"].items()}
    targets = [
        _Target(str(cluster), str(host), str(instance), str(job), t_ms=None if t_ms is None else int(t_ms))
        for cluster, host, instance, job, t_ms in saved["targets"]
    ]
    series = saved["series"]
    table = series.table if isinstance(series, Lasting) else series
    columns = (table.column(name).to_pylist() for name in ("target", "series", "t_ms", "value"))
    for number, key, t_ms, value in zip(*columns, strict=True):
        targets[number].seen[key] = int(t_ms), float(value)
    watermark_ms = saved["watermark_ms"]
    segment, offset = saved["place"]
    by_key = {(target.cluster, target.instance, target.job): target for target in targets}
    return None if watermark_ms is None else int(watermark_ms), Place(int(segment), int(offset)), senders, by_key


__all__ = ["RemoteWriteCollector", "RemoteWriteOptions"]
