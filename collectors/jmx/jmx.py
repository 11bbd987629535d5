"""JMX over HTTP: what daemons of Hadoop tell of themselves at `/jmx`, a few chosen beans of each at every poll.

Daemons are asked side by side, each over one connection of its own that is kept. Those that answered at the poll before
have threads of their own, so that one that hangs holds up no other.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote, urlsplit

from collectors.base import (
    Collected,
    OptionError,
    ProblemLog,
    SourceUnavailableError,
    next_watermark,
    read_position,
)
from collectors.identity import record_id
from collectors.jmx.beans import (
    Bean,
    BeansError,
    of_sample,
    parse_beans,
    raw_value,
    value_of,
    wanted_of,
)
from collectors.jmx.host_metrics import PATH as HOST_PATH
from collectors.jmx.host_metrics import host_metrics
from collectors.jmx.readings import DAEMON_KINDS, DaemonKind, Kind, Reading, Sample
from collectors.lifecycle import EventRows
from collectors.network.deadlines import remaining_s
from collectors.network.http import HttpOptions, HttpTransport, Transport, check_url
from collectors.network.reachability import Reachability, in_turn
from collectors.network.side_by_side import ask_side_by_side

POSITION_VERSION = 1
CLOCK = "poll:jmx"
MAX_DAEMONS = 10_000
UNKNOWN_STATE = "unknown"
"""Of a daemon that does not say whether it is the active one of its pair: older ones have no bean for it."""
MAX_COUNTERS = 5_000
"""Of one daemon that are remembered."""

HTTP = HttpOptions(
    connect_timeout_s=3.0,
    read_timeout_s=10.0,
    total_timeout_s=20.0,
    n_attempts=2,  # a kept connection may have been closed meanwhile
    max_answer_bytes=1 << 23,
    max_redirects=0,  # what another daemon answers is not this one's
)


@dataclass(frozen=True, slots=True)
class JmxOptions:
    """Which daemons are asked, and for how long."""

    daemons: Mapping[str, Sequence[str]]
    """Kind (see DAEMON_KINDS) -> addresses of their web servers."""
    lateness_ms: int = 5_000
    source_rank: int = 0
    daemon_timeout_ms: int = 20_000
    """Of all that one daemon is asked for at a poll."""
    poll_timeout_ms: int = 60_000
    n_workers: int = 8
    host_metrics: bool = False
    """Whether daemons are asked for the load and memory of their hosts, too."""
    hosts: Mapping[str, str] = field(default_factory=dict)
    """Name or address in URLs -> host as the job history writes it."""
    http: HttpOptions = HTTP

    def __post_init__(self) -> None:
        urls = [url for listed in self.daemons.values() for url in listed]
        for url in urls:
            check_url(url)
        if unknown := sorted(set(self.daemons) - set(DAEMON_KINDS)):
            raise OptionError(f"jmx: unknown daemons {', '.join(unknown)}; expected {', '.join(DAEMON_KINDS)}")
        if not urls:
            raise OptionError("jmx: no daemon is given; expected the address of at least one")
        if len(set(urls)) != len(urls):
            twice = next(url for url in urls if urls.count(url) > 1)
            raise OptionError(f"jmx: {twice} is given twice; expected each daemon once")
        if len(urls) > MAX_DAEMONS:
            raise OptionError(f"jmx: {len(urls):,} daemons; expected at most {MAX_DAEMONS:,}")


@dataclass(slots=True)
class _Daemon(Reachability):
    """One daemon, and what is remembered of it."""

    kind: DaemonKind
    url: str
    host: str
    path: str
    """Port, and what stands before `/jmx` where a gateway is asked."""
    transport: Transport
    probe: Transport | None = None
    """In place of `transport` while it is down: a single attempt, over a connection that nobody has closed yet."""
    counters: dict[str, int] = field(default_factory=dict)
    """Level of each at the last poll that told it."""
    answered_ms: int | None = None


@dataclass(slots=True)
class _Told:
    """What one daemon told at a poll."""

    daemon: _Daemon
    samples: list[tuple[Sample, str | None, list[int | float | str | None]]] = field(default_factory=list)
    """Each with its instance and a value per reading, of counters the level."""
    of_host: list[tuple[str, float, str | None]] = field(default_factory=list)
    """(metric, value, unit)."""
    answered: bool = False
    asked: bool = False
    failure: str | None = None
    """Why it could not be reached."""
    broken: bool = False
    """It, or the gateway before it, says of itself that it fails."""
    problems: list[tuple[str, str, str]] = field(default_factory=list)
    """(place, kind, message)."""


class JmxCollector:
    """Samples of daemons, and which of them do not answer."""

    name = "jmx"

    def __init__(
        self, options: JmxOptions, transport_of: Callable[[str, HttpOptions], Transport] | None = None
    ) -> None:
        """`transport_of`: how a daemon is asked, by its address; over the network unless given."""
        self._options = options
        self._connect = transport_of or (lambda url, http: HttpTransport((url,), http))
        self._daemons = [
            self._daemon(DAEMON_KINDS[kind], url, self._connect(url, options.http))
            for kind, urls in options.daemons.items()
            for url in urls
        ]
        self._parsing = threading.Lock()
        self._problems = ProblemLog(self.name)
        self._watermark_ms: int | None = None

    def poll(self, now_ms: int) -> Collected:
        """Ask every daemon once; raises SourceUnavailableError while none has answered and nothing is to be told."""
        told = self._ask_all(now_ms)
        rows = EventRows(self._options.source_rank, next_seq=now_ms * 1_000)
        for one in told:
            self._tell(rows, one, now_ms)
        _tell_hosts(rows, told, now_ms)
        if not len(rows) and not any(daemon.answered_ms is not None for daemon in self._daemons):
            reasons = [reason for one in told for reason in (one.failure, *(p[2] for p in one.problems)) if reason]
            first = reasons[0] if reasons else "they take too long"
            raise SourceUnavailableError(f"none of {len(told)} daemon(s) answers: {first}")
        self._watermark_ms = next_watermark(self._watermark_ms, now_ms - self._options.lateness_ms, now_ms)
        return Collected(rows.take_batch(), self._watermark_ms, self._problems.drain())

    def checkpoint(self) -> dict[str, Any]:
        """Levels of counters, and which daemons are down."""
        daemons = {
            daemon.url: {
                "counters": dict(daemon.counters),
                "answered_ms": daemon.answered_ms,
                "down_since_ms": daemon.down_since_ms,
                "n_failed": daemon.n_failed,
                "reason": daemon.reason,
            }
            for daemon in self._daemons
        }
        return {"version": POSITION_VERSION, "watermark_ms": self._watermark_ms, "daemons": daemons}

    def restore(self, position: Mapping[str, Any]) -> None:
        """Take up a position; raises PositionError when it is not one of this collector's."""

        def read(saved: Mapping[str, Any]) -> tuple[int | None, dict[str, tuple[Any, ...]]]:
            found = {
                str(url): (
                    {str(name): int(level) for name, level in one["counters"].items()},
                    _time(one["answered_ms"]),
                    _time(one["down_since_ms"]),
                    int(one["n_failed"]),
                    _text(one.get("reason")),
                )
                for url, one in saved["daemons"].items()
            }
            return _time(saved["watermark_ms"]), found

        self._watermark_ms, known = read_position(position, POSITION_VERSION, read)
        for daemon in self._daemons:
            daemon.counters, daemon.answered_ms, daemon.down_since_ms, daemon.n_failed, daemon.reason = known.get(
                daemon.url, ({}, None, None, 0, None)
            )

    # ---- asking ------------------------------------------------------------------------------------------------

    def _daemon(self, kind: DaemonKind, url: str, transport: Transport) -> _Daemon:
        parts = urlsplit(url)
        name = parts.hostname or ""
        port = parts.port or (443 if parts.scheme == "https" else 80)
        path = f"{port}{parts.path.rstrip('/')}"
        return _Daemon(kind, url, self._options.hosts.get(name, name), path, transport)

    def _ask_all(self, now_ms: int) -> list[_Told]:
        """Of every daemon, in the order of the settings; those that were not asked for longest come first."""
        options = self._options
        told = [_Told(daemon) for daemon in self._daemons]
        proven, others = in_turn(told, lambda one: one.daemon, lambda one: one.daemon.answered_ms is not None)
        ask_side_by_side(
            proven,
            others,
            lambda one: self._ask(one, now_ms),
            n_workers=options.n_workers,
            total_s=options.poll_timeout_ms / 1000,
            each_s=options.daemon_timeout_ms / 1000,
            name="jmx",
        )
        return told

    def _ask(self, told: _Told, now_ms: int) -> None:
        daemon = told.daemon
        if not daemon.n_failed:
            daemon.probe = None
        elif daemon.probe is None:
            daemon.probe = self._connect(daemon.url, replace(self._options.http, n_attempts=1))
        _ask(told, now_ms, self._parsing)
        if self._options.host_metrics and told.answered:
            _ask_of_host(told, now_ms, self._parsing)

    # ---- telling -----------------------------------------------------------------------------------------------

    def _tell(self, rows: EventRows, told: _Told, now_ms: int) -> None:
        daemon = told.daemon
        for place, kind, message in told.problems:
            self._problems.report(place, kind, message)
        if not told.asked:
            message = "it was not asked in time: raise sources.jmx.poll_timeout, n_workers or interval"
            self._problems.report(daemon.url, "not_asked", message)
            if daemon.is_down:  # among many that are down its turn may come too late for its alert
                self._add_down(rows, daemon, now_ms)
            return
        self._problems.forget((daemon.url, "not_asked"))
        reason = _reason(told)
        if reason is not None:
            self._tell_down(rows, daemon, reason, now_ms)
        if not told.answered:
            return
        self._problems.forget((daemon.url, "unavailable"))
        period_ms = None if daemon.answered_ms is None else max(0, now_ms - daemon.answered_ms)
        daemon.answered_ms = now_ms
        daemon.recover()
        if not told.problems:  # what a whole answer does not name is gone: what comes in its place needs the room
            named = {_counter_key(s, of, r) for s, of, _ in told.samples for r in s.readings}
            daemon.counters = {key: level for key, level in daemon.counters.items() if key in named}
        for sample, instance, values in told.samples:
            self._tell_sample(rows, daemon, sample, instance, values, now_ms, period_ms)
        if not told.samples:
            message = f"it has none of the beans of a {daemon.kind.name}: is it the address of one?"
            self._problems.report(daemon.url, "no_beans", message)

    def _tell_down(self, rows: EventRows, daemon: _Daemon, reason: str, now_ms: int) -> None:
        daemon.fail(reason, now_ms)
        self._problems.report(daemon.url, "unavailable", reason)
        if daemon.is_down:
            self._add_down(rows, daemon, now_ms)

    def _add_down(self, rows: EventRows, daemon: _Daemon, now_ms: int) -> None:
        attributes = daemon.unreachable(daemon.host, daemon.kind.name, now_ms)
        attributes["reason"] = daemon.reason or "it did not answer"  # of a position from before reasons were kept
        self._add(rows, "DaemonUnreachable", daemon, None, now_ms, attributes)

    def _tell_sample(
        self,
        rows: EventRows,
        daemon: _Daemon,
        sample: Sample,
        instance: str | None,
        values: list[int | float | str | None],
        now_ms: int,
        period_ms: int | None,
    ) -> None:
        attributes: dict[str, Any] = {"host": daemon.host, "daemon": daemon.kind.name, "period_ms": period_ms}
        if instance is not None:
            attributes[sample.instance] = instance
        for reading, value in zip(sample.readings, values, strict=True):
            if attributes.get(reading.attribute) is not None:
                continue  # from a place that goes before
            if reading.kind is Kind.COUNTER:
                key = _counter_key(sample, instance, reading)
                attributes[reading.attribute] = _growth(daemon.counters, key, value)
            else:
                attributes[reading.attribute] = value
        if "ha_state" in attributes and attributes["ha_state"] is None:
            attributes["ha_state"] = UNKNOWN_STATE
        self._add(rows, sample.event_type, daemon, instance, now_ms, attributes)

    def _add(
        self,
        rows: EventRows,
        event_type: str,
        daemon: _Daemon,
        instance: str | None,
        now_ms: int,
        attributes: dict[str, Any],
    ) -> None:
        logical_source = ("jmx", daemon.kind.name, daemon.host, daemon.path)
        event_id = record_id(logical_source, event_type, now_ms, (instance,), 0)
        rows.add(event_type, event_id, now_ms, CLOCK, f"{daemon.url}/jmx", attributes)


def _ask(told: _Told, now_ms: int, parsing: threading.Lock) -> None:
    """All queries of one daemon, to the values in its answers; what one of them lacks costs no other one."""
    daemon = told.daemon
    daemon.asked_ms, told.asked = now_ms, True
    beans = _asked_beans(told, now_ms, parsing)
    for sample in daemon.kind.samples:
        for instance, of_instance in of_sample(sample, daemon.kind, beans):
            values = [value_of(r, raw_value(r, daemon.kind, of_instance), now_ms) for r in sample.readings]
            told.samples.append((sample, instance, values))


def _asked_beans(told: _Told, now_ms: int, parsing: threading.Lock) -> list[Bean]:
    daemon, beans = told.daemon, list[Bean]()
    prefix = f"Hadoop:service={daemon.kind.service},"
    paths = [f"/jmx?qry={quote(prefix + query, safe=':=,*')}" for query in daemon.kind.queries]
    paths += [f"/jmx?get={quote(prefix + get, safe=':=,')}" for get in daemon.kind.gets]
    levels = [f"/jmx?qry={quote(prefix + query, safe=':=,*')}" for query in daemon.kind.levels]
    for path in paths + levels:
        found = list[Bean]()
        if remaining_s() <= 0:
            told.problems.append((daemon.url, "slow", "its answers take longer than a poll may; the rest is left out"))
            break
        try:
            answer = (daemon.probe or daemon.transport).get(daemon.url, path, now_ms)
            told.broken |= answer.status >= 500
            with parsing:  # as objects a large answer is many times its size
                found = wanted_of(daemon.kind, parse_beans(answer))
        except SourceUnavailableError as error:
            if not told.answered:
                told.failure = str(error)
                break  # it is down: further questions would take as long
            told.problems.append((daemon.url + path, "unavailable", str(error)))
        except BeansError as error:
            told.problems.append((daemon.url + path, error.kind, f"{daemon.url}{path}: {error}"))
        else:
            told.answered = True
            beans += found
        if not found and path in levels:
            break  # nothing is below nothing, and more below what cannot be read
    return beans


def _ask_of_host(told: _Told, now_ms: int, parsing: threading.Lock) -> None:
    daemon = told.daemon
    if remaining_s() <= 0:
        told.problems.append((daemon.url, "slow", "its answers take longer than a poll may; the rest is left out"))
        return
    try:
        answer = (daemon.probe or daemon.transport).get(daemon.url, HOST_PATH, now_ms)
        with parsing:
            told.of_host = host_metrics(answer)
    except SourceUnavailableError as error:
        told.problems.append((daemon.url + HOST_PATH, "unavailable", str(error)))
    except BeansError as error:
        told.problems.append((daemon.url + HOST_PATH, error.kind, f"{daemon.url}{HOST_PATH}: {error}"))


def _tell_hosts(rows: EventRows, told: list[_Told], now_ms: int) -> None:
    """Once per host, however many daemons it has: the first of them that tells a metric."""
    seen: set[tuple[str, str]] = set()
    for one in told:
        host = one.daemon.host
        for name, value, unit in one.of_host:
            if (host, name) in seen:
                continue
            seen.add((host, name))
            attributes = {"host": host, "name": name, "value": value, "unit": unit}
            event_id = record_id(("jmx", host, name), "Metric", now_ms, (), 0)
            rows.add("Metric", event_id, now_ms, CLOCK, f"{one.daemon.url}/jmx", attributes)


def _reason(told: _Told) -> str | None:
    """Why nothing of it can be read that could be; None for what never could: that address is wrong, not down."""
    if told.answered or told.failure is not None or not told.problems:
        return told.failure
    daemon = told.daemon
    known = daemon.answered_ms is not None or daemon.is_down
    return told.problems[0][2] if known or told.broken else None


def _counter_key(sample: Sample, instance: str | None, reading: Reading) -> str:
    return f"{sample.event_type}/{instance or ''}/{reading.attribute}"


def _growth(counters: dict[str, int], key: str, level: Any) -> int | None:
    """Since the level before; all of it where that was higher: the daemon was started again."""
    if not isinstance(level, int):
        return None
    before = counters.get(key)
    if before is None and len(counters) >= MAX_COUNTERS:
        return None
    counters[key] = level
    if before is None:
        return None
    return level - before if level >= before else level


def _text(saved: Any) -> str | None:
    return None if saved is None else str(saved)


def _time(saved: Any) -> int | None:
    return None if saved is None else int(saved)


__all__ = ["JmxCollector", "JmxOptions"]
