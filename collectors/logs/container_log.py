"""Container logs of NodeManagers: what reducers fetched, read while the files grow."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from collectors.base import Collected, OptionError, ProblemLog, next_watermark, read_position
from collectors.files import FoundFile, require_root
from collectors.folder_watch import FolderWatch, WatchOptions
from collectors.hadoop_ids import job_of_container, kind_of
from collectors.identity import lifecycle_id, record_id
from collectors.lifecycle import PREFIX, AttemptFacts, EventRows, clean_text, data_io_attributes
from collectors.logs.path_layout import PathLayout
from collectors.logs.shuffle import RELEVANT, ContainerLog, Pull
from collectors.logs.tail import LogTail
from collectors.logs.times import SHORTEST_RECORD, begins_with_time, parse_time, relevant_record, zone_named
from collectors.option_checks import check_not_negative
from collectors.printable import printable
from engine.events import EventBatch

POSITION_VERSION = 2
JSON_POSITION_VERSION = 1
"""Files and containers as JSON."""
ROTATION = re.compile(r"\.\d+$")

MAX_READ_CONTAINERS = 1_000
"""So many are read before their events are taken out and those that are over are given up."""
MASTER_ENDS = "_000001"
"""How ids of containers end that run an ApplicationMaster."""
SILENCE_CLOCK = "poll:container_log"
"""That a log does not grow is seen by the process that polls."""

CONTAINERS = pa.schema(
    [
        pa.field("key", pa.string(), nullable=False),
        pa.field("host", pa.string()),
        pa.field("container_id", pa.string(), nullable=False),
        pa.field("grown_ms", pa.int64(), nullable=False),
        pa.field("start_done", pa.bool_(), nullable=False),
        pa.field("log", pa.string(), nullable=False),
    ]
)
"""Saved containers that are not over; what their logs have told so far is JSON."""


@dataclass(frozen=True, slots=True)
class ContainerLogOptions:
    """Where the logs are and how to read them."""

    root: Path
    layout: str = "{host}/{application}/{container}/{role}"
    """Path below the root; without {role} every file is a syslog, without {host} the host is `host`."""
    roles: tuple[str, ...] = ("syslog", "syslog.shuffle")
    """Names of the files to read; those that rotation makes of them (".1", ".2") are read as well."""
    host: str | None = None
    hosts: Mapping[str, str] = field(default_factory=dict)
    """Folder name -> host name as job history writes it."""
    zone: str = "UTC"
    """Time zone of the log lines."""
    lateness_ms: int = 5_000
    source_rank: int = 0
    life_cycle: bool = True
    """Give start and end of attempts too, where the log proves them."""
    hold_ms: int = 60_000
    """How long a pull whose host, start or reducer is not known yet may hold the watermark."""
    abandon_ms: int = 600_000
    """A container whose logs have not grown for this long is over."""
    revisit_ms: int = 600_000
    """Logs of containers that are over are looked at once in this time."""
    hold_future: bool = True
    """Do not read past a line later than `now_ms` (a replay); False when clocks may run ahead."""
    max_bytes_per_poll: int = 1 << 26

    def __post_init__(self) -> None:
        check_not_negative("container log", self, ("lateness_ms", "hold_ms", "abandon_ms", "revisit_ms"))
        if not self.roles:
            raise OptionError("container log: no role given; expected file names such as 'syslog.shuffle'")


@dataclass(slots=True)
class _Container:
    """A container that has logs."""

    host: str | None
    container_id: str
    grown_ms: int
    log: ContainerLog = field(default_factory=ContainerLog)
    start_done: bool = False
    saved: str | None = None
    """`log` as it is saved; None when it has changed."""


class ContainerLogCollector:
    """DataPull, DataIO (minus), what client_faults.py tells, and proven starts and ends of attempts."""

    name = "container_log"

    def __init__(self, options: ContainerLogOptions) -> None:
        self._options = options
        self._root = options.root.absolute()
        self._zone = zone_named(options.zone)
        self._layout = PathLayout.of(options.layout, frozenset({"container"}))
        self._problems = ProblemLog(self.name)
        self._tail = LogTail(self._problems, lambda line: begins_with_time(line, self._zone))
        self._watch_anew()
        self._containers: dict[str, _Container] = {}
        self._read_now: dict[str, _Container] = {}
        """Those whose events have not been taken out yet."""
        self._watermark_ms: int | None = None

    def poll(self, now_ms: int) -> Collected:
        """Read the lines that were added; raises SourceUnavailableError when the root cannot be read."""
        require_root(self._root)
        rows, batches = EventRows(self._options.source_rank), list[EventBatch]()

        def read(file: FoundFile, max_bytes: int) -> int:
            key = self._key_of(file)
            if key not in self._read_now and len(self._read_now) >= MAX_READ_CONTAINERS:
                self._take_out(now_ms, rows)
                batches.append(rows.take_batch())
            return self._read(file, key, max_bytes, now_ms)

        is_behind = self._tail.read_new(self._found(now_ms), self._options.max_bytes_per_poll, read)
        self._take_out(now_ms, rows)
        self._watch.settle(now_ms, lambda file: self._is_in_use(file, now_ms))
        self._forget_gone()
        events = EventBatch.concat([*batches, rows.take_batch()])
        watermark_ms = self._advance(now_ms, is_behind or self._watch.is_behind)
        return Collected(events, watermark_ms, self._problems.drain(), goes_on=self._tail.goes_on)

    def checkpoint(self) -> dict[str, Any]:
        """Positions of the files and what containers are in the middle of."""
        return {
            "version": POSITION_VERSION,
            "watermark_ms": self._watermark_ms,
            "files": self._tail.tables(),
            "containers": _saved(self._containers),
        }

    def restore(self, position: Mapping[str, Any]) -> None:
        """Take up a position; raises PositionError when it is not one of this collector's."""
        is_json = position.get("version") == JSON_POSITION_VERSION

        def read(saved: Mapping[str, Any]) -> tuple[int | None, dict[str, _Container]]:
            (self._tail.restore if is_json else self._tail.restore_tables)(saved["files"])
            watermark_ms = saved["watermark_ms"]
            containers = _of_json(saved["containers"]) if is_json else _of_table(saved["containers"])
            return (None if watermark_ms is None else int(watermark_ms)), containers

        version = JSON_POSITION_VERSION if is_json else POSITION_VERSION
        self._watermark_ms, self._containers = read_position(position, version, read)
        self._read_now = {}
        self._watch_anew()

    # ---- reading -----------------------------------------------------------------------------------------------

    def _watch_anew(self) -> None:
        """Nothing is known of the folders: all that is there is looked at."""
        watched = WatchOptions(self._options.abandon_ms, self._options.revisit_ms)
        self._watch = FolderWatch(self._root, self._problems, self._wanted, watched)
        self._has_listed_all = False

    def _wanted(self, parts: tuple[str, ...]) -> bool:
        places = self._layout.match(parts)
        return places is not None and self._role(places) is not None

    def _role(self, places: Mapping[str, str]) -> str | None:
        if "role" not in places:
            return "syslog"
        for name in (places["role"], ROTATION.sub("", places["role"])):
            if name in self._options.roles:
                return name
        return None

    def _found(self, now_ms: int) -> Iterator[FoundFile]:
        for file in self._watch.look(now_ms):
            self._tail.report_idle(file, now_ms, self._options.abandon_ms)
            yield file

    def _is_in_use(self, file: FoundFile, now_ms: int) -> bool:
        """Whether the next poll has to look at it."""
        if self._tail.has_news(file) or self._tail.is_idle(file, now_ms, self._options.abandon_ms):
            return True
        return self._key_of(file) in self._containers

    def _forget_gone(self) -> None:
        self._tail.forget(self._watch.take_gone())
        if not self._has_listed_all and not self._watch.is_behind:
            self._has_listed_all = True
            self._tail.keep(self._watch.keys())  # what went before this process began

    def _read(self, file: FoundFile, key: str, max_bytes: int, now_ms: int) -> int:
        """Take the complete new lines; returns how many bytes were looked at."""
        container = self._container_of(file, key)
        is_known = file.key in self._tail.positions
        shown_path = printable(file.path)

        def take(line: bytes, number: int) -> bool:
            return self._take(line, number, container, shown_path, now_ms)

        n_bytes = self._tail.read(file, max_bytes, take)
        grew_now = is_known or self._tail.has_news(file)
        grown_ms = now_ms if grew_now else min(now_ms, file.mtime_ns // 1_000_000)
        container.grown_ms, container.saved = max(container.grown_ms, grown_ms), None
        self._read_now[key] = container
        return n_bytes

    def _places(self, file: FoundFile) -> tuple[str | None, str]:
        """(host, container id)."""
        places = self._layout.match(file.parts) or {}
        folder = places.get("host")
        host = self._options.host if folder is None else self._options.hosts.get(folder, folder)
        return host, places["container"]

    def _key_of(self, file: FoundFile) -> str:
        host, container_id = self._places(file)
        return clean_text(f"{host or ''}/{container_id}")

    def _container_of(self, file: FoundFile, key: str) -> _Container:
        if key not in self._containers:
            host, container_id = self._places(file)
            # One that was given up and goes on has had its start.
            is_new = file.key not in self._tail.positions
            self._containers[key] = _Container(host and clean_text(host), container_id, 0, start_done=not is_new)
        return self._containers[key]

    def _take(self, line: bytes, number: int, container: _Container, shown_path: str, now_ms: int) -> bool:
        """Take one line; False when it is later than now."""
        if len(line) < SHORTEST_RECORD:
            return True
        log = container.log
        if log.first_ms is None:
            stamp = parse_time(line[:40].decode("ascii", "replace"), self._zone)
            if stamp is not None:
                if self._is_future(stamp[0], now_ms):
                    return False
                log.first_ms = stamp[0]
        found = relevant_record(line, RELEVANT, self._zone)
        if found is None:
            return True
        record, raw = found
        if self._is_future(record.t_lo_ms, now_ms):
            return False
        log.take(record, number, f"{shown_path}:{number}", raw)
        return True

    def _is_future(self, t_ms: int, now_ms: int) -> bool:
        return self._options.hold_future and t_ms > now_ms

    # ---- events ------------------------------------------------------------------------------------------------

    def _take_out(self, now_ms: int, rows: EventRows) -> None:
        for container in self._read_now.values():
            self._drain(container, rows)
        self._read_now = {}
        self._abandon_quiet(now_ms, rows)

    def _drain(self, container: _Container, rows: EventRows) -> None:
        log = container.log
        self._tell_faults(container, rows)
        if log.n_dropped:
            message = f"{log.n_dropped} pulls left out: too many wait for the log to name its reducer"
            self._problems.report(container.container_id, "unattributed", message)
            log.n_dropped = 0
        if log.attempt_id is None:
            return
        clock_id = f"host:{container.host}" if container.host else f"container:{container.container_id}"
        if self._options.life_cycle:
            self._life_cycle(container, clock_id, rows)
        log.ends.clear()
        for pull in log.moved:
            self._add_moved(container, pull, clock_id, rows)
        log.moved.clear()
        for pull in log.ready:
            self._add_pull(container, pull, clock_id, rows)
        log.ready.clear()

    def _tell_faults(self, container: _Container, rows: EventRows) -> None:
        """What is told of others, of masters and of containers whose attempt is not known, too."""
        log, container_id = container.log, container.container_id
        if log.n_dropped_faults:
            message = f"{log.n_dropped_faults} lines on hosts and servers that fail it left out: too many at once"
            self._problems.report(container_id, "too_many_faults", message)
            log.n_dropped_faults = 0
        clock_id = f"host:{container.host}" if container.host else f"container:{container_id}"
        attempt_id = None if container_id.endswith(MASTER_ENDS) else log.attempt_id
        told = {"job_id": job_of_container(container_id), "attempt_id": attempt_id, "host": container.host}
        for fault in log.faults:
            values = tuple(fault.attributes.values())
            source = (container.host or "", container_id, "faults")
            rows.add(
                fault.type,
                record_id(source, fault.type, fault.t_lo_ms, values, fault.ordinal),
                fault.t_lo_ms,
                clock_id,
                fault.origin,
                {**told, "container_id": container_id, **fault.attributes},
                t_hi_ms=fault.t_hi_ms,
                source_seq=fault.place * 2,
                raw=fault.raw,
            )
        log.faults.clear()

    def _life_cycle(self, container: _Container, clock_id: str, rows: EventRows) -> None:
        log = container.log
        assert log.attempt_id is not None
        is_master = container.container_id.endswith(MASTER_ENDS)  # runs no attempt, or many inside itself
        start_ms = None if is_master else log.first_ms
        if not container.start_done:
            container.start_done = True
            # A start that turns up too late to keep the promise of the watermark is left to job history and REST.
            if start_ms is not None and (self._watermark_ms is None or start_ms >= self._watermark_ms):
                attempt = AttemptFacts(log.attempt_id, host=container.host, start_ms=start_ms)
                rows.attempt_start(attempt, clock_id, container.container_id)
        for attempt_id, t_lo_ms, t_hi_ms, place, origin, raw in log.ends:
            attempt = AttemptFacts(attempt_id, container.host, None, start_ms, t_lo_ms, "SUCCEEDED")
            name = PREFIX[kind_of(attempt_id)] + "End"
            rows.add(
                name,
                lifecycle_id(name, attempt_id),
                t_lo_ms,
                clock_id,
                origin,
                attempt.end_attributes(),
                t_hi_ms=t_hi_ms,
                source_seq=place * 2,
                raw=raw,
            )

    def _add_moved(self, container: _Container, pull: Pull, clock_id: str, rows: EventRows) -> None:
        attempt_id = container.log.attempt_id
        assert attempt_id is not None
        if pull.n_bytes is None:
            self._problems.report(
                pull.origin,
                "missing_len",
                f"the size of {pull.map_attempt_id} was not logged before it was read; left empty",
                key=(container.container_id, "missing_len"),
            )
            return
        rows.add(
            "DataIO",
            self._record_id(container, "DataIO", pull),
            pull.t_lo_ms,
            clock_id,
            pull.origin,
            data_io_attributes(attempt_id, -pull.n_bytes),
            t_hi_ms=pull.t_hi_ms,
            source_seq=pull.place * 2 + 1,
            raw=pull.raw,
        )

    def _add_pull(self, container: _Container, pull: Pull, clock_id: str, rows: EventRows) -> None:
        attempt_id = container.log.attempt_id
        assert attempt_id is not None
        attributes = AttemptFacts(attempt_id).attributes()
        rows.add(
            "DataPull",
            self._record_id(container, "DataPull", pull),
            pull.t_lo_ms,
            clock_id,
            pull.origin,
            {
                "job_id": attributes["job_id"],
                "task_id": attributes["task_id"],
                "attempt_id": attempt_id,
                "map_attempt_id": pull.map_attempt_id,
                "source_host": pull.source_host,
                "bytes": pull.n_bytes,
                "period_ms": pull.period_ms,
            },
            t_hi_ms=pull.t_hi_ms,
            source_seq=pull.place * 2,
            raw=pull.raw,
        )

    def _record_id(self, container: _Container, event_type: str, pull: Pull) -> str:
        source = (container.host or "", container.container_id, "shuffle")
        return record_id(source, event_type, pull.t_lo_ms, (pull.map_attempt_id, pull.n_bytes), pull.ordinal)

    # ---- ends and watermark ------------------------------------------------------------------------------------

    def _abandon_quiet(self, now_ms: int, rows: EventRows) -> None:
        for key, container in list(self._containers.items()):
            container.grown_ms = min(container.grown_ms, now_ms)  # the clock was ahead
            if now_ms - container.grown_ms < self._options.abandon_ms:
                continue
            container.log.abandon()
            self._drain(container, rows)
            self._tell_silent(container, now_ms, rows)
            if container.log.moved:
                self._problems.report(
                    container.container_id,
                    "unattributed",
                    f"{len(container.log.moved)} pulls of a reducer that its log never names; they are left out",
                )
            del self._containers[key]

    def _tell_silent(self, container: _Container, now_ms: int, rows: EventRows) -> None:
        """A reducer that has not said that it is done, and whose logs have not grown for `abandon_ms`."""
        log = container.log
        if log.is_done or log.attempt_id is None or kind_of(log.attempt_id) != "REDUCE":
            return
        if container.container_id.endswith(MASTER_ENDS):
            return
        ids = {"container_id": container.container_id, "host": container.host}
        rows.add(
            "ReducerSilent",
            lifecycle_id("ReducerSilent", log.attempt_id),
            container.grown_ms + self._options.abandon_ms,
            SILENCE_CLOCK,
            container.container_id,
            {**AttemptFacts(log.attempt_id).ids, **ids, "silent_ms": now_ms - container.grown_ms},
            t_hi_ms=now_ms,
        )

    def _advance(self, now_ms: int, is_behind: bool) -> int:
        watermark_ms = self._watch.since_ms(now_ms) - self._options.lateness_ms
        for container in self._containers.values():
            waiting_ms = container.log.waiting_since_ms()
            if waiting_ms is not None and waiting_ms > now_ms - self._options.hold_ms:
                watermark_ms = min(watermark_ms, waiting_ms)
        self._watermark_ms = next_watermark(self._watermark_ms, watermark_ms, now_ms, is_behind=is_behind)
        return self._watermark_ms


def _saved(containers: Mapping[str, _Container]) -> pa.Table:
    for container in containers.values():
        if container.saved is None:
            container.saved = json.dumps(container.log.to_json())
    rows = [(key, c.host, c.container_id, c.grown_ms, c.start_done, c.saved) for key, c in containers.items()]
    return pa.table([list(column) for column in zip(*rows, strict=True)] or [[]] * len(CONTAINERS), schema=CONTAINERS)


def _of_table(saved: Any) -> dict[str, _Container]:
    if not isinstance(saved, pa.Table) or not saved.schema.equals(CONTAINERS):
        raise ValueError("containers in other columns")
    return {
        row["key"]: _Container(
            row["host"],
            row["container_id"],
            row["grown_ms"],
            ContainerLog.from_json(json.loads(row["log"])),
            row["start_done"],
            row["log"],
        )
        for row in saved.to_pylist()
    }


def _of_json(saved: Mapping[str, Any]) -> dict[str, _Container]:
    return {
        str(key): _Container(host, str(container_id), int(grown_ms), ContainerLog.from_json(log), bool(start_done))
        for key, (host, container_id, grown_ms, log, start_done) in saved.items()
    }


__all__ = ["ContainerLogCollector", "ContainerLogOptions"]
