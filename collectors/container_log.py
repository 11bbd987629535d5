"""Container logs of NodeManagers: what reducers fetched, read while the files grow."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from collectors.base import Collected, OptionError, ProblemLog, printable, read_position
from collectors.files import FoundFile, require_root, walk
from collectors.hadoop_ids import kind_of
from collectors.identity import lifecycle_id, record_id
from collectors.lifecycle import PREFIX, AttemptFacts, EventRows, clean_text, data_io_attributes
from collectors.log_tail import LogTail
from collectors.log_time import begins_with_time, parse_record, parse_time, zone_named
from collectors.path_layout import PathLayout
from collectors.shuffle_log import RELEVANT, ContainerLog, Pull

POSITION_VERSION = 1
ROTATED = re.compile(r"\.\d+$")


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
    hold_future: bool = True
    """Do not read past a line later than `now_ms` (a replay); False when clocks may run ahead."""
    max_bytes_per_poll: int = 1 << 26

    def __post_init__(self) -> None:
        for name in ("lateness_ms", "hold_ms", "abandon_ms"):
            if getattr(self, name) < 0:
                raise OptionError(f"container log: {name} is {getattr(self, name)}; expected 0 or more")
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


class ContainerLogCollector:
    """DataPull, DataIO (minus) and proven starts and ends of attempts."""

    name = "container_log"

    def __init__(self, options: ContainerLogOptions) -> None:
        self._options = options
        self._root = options.root.absolute()
        self._zone = zone_named(options.zone)
        self._layout = PathLayout.of(options.layout, frozenset({"container"}))
        self._problems = ProblemLog(self.name)
        self._tail = LogTail(self._problems, lambda line: begins_with_time(line, self._zone))
        self._containers: dict[str, _Container] = {}
        self._watermark_ms: int | None = None

    def poll(self, now_ms: int) -> Collected:
        """Read the lines that were added; raises SourceUnavailableError when the root cannot be read."""
        require_root(self._root)
        budget = self._options.max_bytes_per_poll
        seen: set[str] = set()
        is_behind = False
        for file in walk(self._root, self._problems, self._wanted):
            seen.add(file.key)
            self._tail.report_idle(file, now_ms, self._options.abandon_ms)
            if not self._tail.has_news(file):
                continue
            if budget <= 0:
                is_behind = True
                continue
            budget -= self._read(file, budget, now_ms)
        self._tail.keep(seen)
        rows = EventRows(self._options.source_rank)
        for container in self._containers.values():
            self._drain(container, rows)
        self._abandon_quiet(now_ms, rows)
        return Collected(rows.take_batch(), self._advance(now_ms, is_behind), self._problems.drain())

    def checkpoint(self) -> dict[str, Any]:
        """Positions of the files and what containers are in the middle of."""
        return {
            "version": POSITION_VERSION,
            "watermark_ms": self._watermark_ms,
            "files": self._tail.to_json(),
            "containers": {
                key: [c.host, c.container_id, c.grown_ms, c.log.to_json(), c.start_done]
                for key, c in self._containers.items()
            },
        }

    def restore(self, position: Mapping[str, Any]) -> None:
        """Take up a position; raises PositionError when it is not one of this collector's."""

        def read(saved: Mapping[str, Any]) -> tuple[int | None, dict[str, _Container]]:
            self._tail.restore(saved["files"])
            watermark_ms = saved["watermark_ms"]
            return (None if watermark_ms is None else int(watermark_ms)), _containers(saved["containers"])

        self._watermark_ms, self._containers = read_position(position, POSITION_VERSION, read)

    # ---- reading -----------------------------------------------------------------------------------------------

    def _wanted(self, parts: tuple[str, ...]) -> bool:
        places = self._layout.match(parts)
        return places is not None and self._role(places) is not None

    def _role(self, places: Mapping[str, str]) -> str | None:
        if "role" not in places:
            return "syslog"
        for name in (places["role"], ROTATED.sub("", places["role"])):
            if name in self._options.roles:
                return name
        return None

    def _read(self, file: FoundFile, max_bytes: int, now_ms: int) -> int:
        """Take the complete new lines; returns how many bytes were looked at."""
        container = self._container_of(file, now_ms)
        shown_path = printable(file.path)

        def take(line: bytes, number: int) -> bool:
            return self._take(line, number, container, shown_path, now_ms)

        container.grown_ms = now_ms
        return self._tail.read(file, max_bytes, take)

    def _container_of(self, file: FoundFile, now_ms: int) -> _Container:
        places = self._layout.match(file.parts) or {}
        folder = places.get("host")
        host = self._options.host if folder is None else self._options.hosts.get(folder, folder)
        container_id = places["container"]
        key = clean_text(f"{host or ''}/{container_id}")
        if key not in self._containers:
            # One that was given up and goes on has had its start.
            is_new = file.key not in self._tail.positions
            self._containers[key] = _Container(host and clean_text(host), container_id, now_ms, start_done=not is_new)
        return self._containers[key]

    def _take(self, line: bytes, number: int, container: _Container, shown_path: str, now_ms: int) -> bool:
        """Take one line; False when it is later than now."""
        log = container.log
        if log.first_ms is None:
            stamp = parse_time(line[:40].decode("ascii", "replace"), self._zone)
            if stamp is not None:
                if self._is_future(stamp[0], now_ms):
                    return False
                log.first_ms = stamp[0]
        if not any(mark in line for mark in RELEVANT):
            return True
        text = line.rstrip(b"\r").decode("utf-8", "replace")
        record = parse_record(text, self._zone)
        if record is None:
            return True
        if self._is_future(record.t_lo_ms, now_ms):
            return False
        log.take(record, number, f"{shown_path}:{number}", printable(text, 2_000))
        return True

    def _is_future(self, t_ms: int, now_ms: int) -> bool:
        return self._options.hold_future and t_ms > now_ms

    # ---- events ------------------------------------------------------------------------------------------------

    def _drain(self, container: _Container, rows: EventRows) -> None:
        log = container.log
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

    def _life_cycle(self, container: _Container, clock_id: str, rows: EventRows) -> None:
        log = container.log
        assert log.attempt_id is not None
        is_master = container.container_id.endswith("_000001")  # runs no attempt, or many inside itself
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
            if now_ms - container.grown_ms < self._options.abandon_ms:
                continue
            container.log.abandon()
            self._drain(container, rows)
            if container.log.moved:
                self._problems.report(
                    container.container_id,
                    "unattributed",
                    f"{len(container.log.moved)} pulls of a reducer that its log never names; they are left out",
                )
            del self._containers[key]

    def _advance(self, now_ms: int, is_behind: bool) -> int:
        watermark_ms = now_ms - self._options.lateness_ms
        for container in self._containers.values():
            waiting_ms = container.log.waiting_since_ms()
            if waiting_ms is not None and waiting_ms > now_ms - self._options.hold_ms:
                watermark_ms = min(watermark_ms, waiting_ms)
        if is_behind and self._watermark_ms is not None:
            watermark_ms = self._watermark_ms
        self._watermark_ms = max(watermark_ms, self._watermark_ms or watermark_ms)
        return self._watermark_ms


def _containers(saved: Mapping[str, Any]) -> dict[str, _Container]:
    return {
        str(key): _Container(host, str(container_id), int(grown_ms), ContainerLog.from_json(log), bool(start_done))
        for key, (host, container_id, grown_ms, log, start_done) in saved.items()
    }


__all__ = ["ContainerLogCollector", "ContainerLogOptions"]
