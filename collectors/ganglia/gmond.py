"""Ganglia asked directly: what gmond, or gmetad, knows of its hosts at each poll, as Metric events.

A report happened so long before the answer as its age says: by this machine's clock, to a second or two (the interval
of its event). It is told once, however often it is seen: until its value or its time is another. Of a host that several
addresses tell of the youngest report counts, so that one may stand in for another.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from collectors.base import (
    Collected,
    Lasting,
    OptionError,
    ProblemLog,
    SourceUnavailableError,
    next_watermark,
    read_position,
)
from collectors.ganglia.gmond_link import Ask, GmondAddress, parse_address
from collectors.ganglia.gmond_xml import GangliaAnswer, GmondXmlError, Reported, ReportingHost, parse_answer
from collectors.identity import record_id
from collectors.lifecycle import EventRows
from collectors.metrics.normal import USUAL_METRICS
from collectors.network.reachability import Reachability, in_turn
from collectors.network.side_by_side import ask_side_by_side
from collectors.time_units import DAY_MS

POSITION_VERSION = 1
MAX_ORIGIN_CHARS = 300
MISSED_MS = DAY_MS
"""A host that reports no more is missed for so long: those that are taken away stay in Ganglia's answers."""


@dataclass(frozen=True, slots=True)
class GmondOptions:
    """Who is asked, what of it is kept, and for how long they are asked."""

    addresses: tuple[str, ...]
    """HOST:PORT, or HOST:PORT/QUERY for gmetad's interactive port."""
    metrics: tuple[str, ...] = USUAL_METRICS
    lateness_ms: int = 20_000
    """How old a report may be when it is seen first, beyond the time between two polls: gmetad asks by its own."""
    source_rank: int = 0
    silent_ms: int = 120_000
    """An address that has not answered for so long no longer holds the watermark."""
    answer_timeout_ms: int = 10_000
    poll_timeout_ms: int = 60_000
    n_workers: int = 8
    hosts: Mapping[str, str] = field(default_factory=dict)
    """Name or address of a host -> its name as job history and logs write it."""

    def __post_init__(self) -> None:
        if not self.addresses:
            raise OptionError("gmond: no address is given; expected at least one")
        if not self.metrics:
            raise OptionError("gmond: no metric is chosen; expected at least one")


@dataclass(slots=True)
class _Server(Reachability):
    """One address, and what is remembered of it."""

    address: GmondAddress
    request_ms: int | None = None
    """When its last answer was asked for."""


@dataclass(slots=True)
class _Told:
    """What one of them told at a poll."""

    server: _Server
    asked: bool = False
    request_ms: int = 0
    answer_ms: int = 0
    answer: GangliaAnswer | None = None
    failure: tuple[str, str] | None = None
    """(kind, message)."""


@dataclass(slots=True)
class _Sample:
    """The last report of a metric: between when and when, and what it said."""

    t_lo_ms: int
    t_hi_ms: int
    value: float

    def is_followed_by(self, t_lo_ms: int, t_hi_ms: int, value: float) -> bool:
        """Whether what was reported then is another one, and not from before it."""
        return t_lo_ms > self.t_hi_ms or (value != self.value and t_hi_ms >= self.t_lo_ms)

    def narrow(self, t_lo_ms: int, t_hi_ms: int) -> None:
        """It was seen again, and is as old as both say."""
        if t_lo_ms <= self.t_hi_ms and self.t_lo_ms <= t_hi_ms:
            self.t_lo_ms, self.t_hi_ms = max(self.t_lo_ms, t_lo_ms), min(self.t_hi_ms, t_hi_ms)


@dataclass(slots=True)
class _Host:
    reported_ms: int
    """When it was last seen to report."""
    samples: dict[str, _Sample] = field(default_factory=dict)


class GmondCollector:
    """Metric events of hosts that report to Ganglia, and which of them do not any more."""

    name = "gmond"

    def __init__(
        self,
        options: GmondOptions,
        ask: Callable[[GmondAddress], bytes] | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`ask`: how an address is asked; over the network unless given."""
        self._options, self._monotonic = options, monotonic
        self._ask_address = ask or Ask()
        addresses = dict.fromkeys(map(parse_address, options.addresses))
        self._servers = {address.text: _Server(address) for address in addresses}
        self._hosts: dict[tuple[str, str], _Host] = {}
        """By cluster and name."""
        self._parsing = threading.Lock()
        self._problems = ProblemLog(self.name)
        self._watermark_ms: int | None = None
        self._known: Lasting | None = None

    def poll(self, now_ms: int) -> Collected:
        """Ask every address once; raises SourceUnavailableError while none has answered and nothing is to be told."""
        told = self._ask_all(now_ms)
        rows = EventRows(self._options.source_rank, next_seq=now_ms * 1_000)
        oldest_ms = now_ms - MISSED_MS
        self._hosts = {key: host for key, host in self._hosts.items() if host.reported_ms >= oldest_ms}
        for one in told:
            self._note(rows, one, now_ms)
        for youngest, of in _youngest(told).values():
            self._tell_host(rows, youngest, of, now_ms)
        if not len(rows) and not any(server.request_ms is not None for server in self._servers.values()):
            first = next((one.failure[1] for one in told if one.failure), "they take too long")
            raise SourceUnavailableError(f"none of {len(told)} address(es) answers: {first}")
        self._known = None
        self._watermark_ms = next_watermark(self._watermark_ms, self._promise_ms(now_ms), now_ms)
        n_others = sum(one.answer.n_others for one in told if one.answer is not None)
        return Collected(rows.take_batch(), self._watermark_ms, self._problems.drain(), n_unselected=n_others)

    def checkpoint(self) -> dict[str, Any]:
        """The last report of each metric, and which addresses are down."""
        if self._known is None:
            self._known = Lasting(_table(self._hosts))
        servers = {
            text: [server.request_ms, server.down_since_ms, server.n_failed, server.reason]
            for text, server in self._servers.items()
        }
        return {
            "version": POSITION_VERSION,
            "watermark_ms": self._watermark_ms,
            "addresses": servers,
            "reports": self._known,
        }

    def restore(self, position: Mapping[str, Any]) -> None:
        """Take up a position; raises PositionError when it is not one of this collector's."""
        self._watermark_ms, servers, self._hosts = read_position(position, POSITION_VERSION, _read)
        self._known = None
        for text, server in self._servers.items():
            if (found := servers.get(text)) is not None:
                server.request_ms, server.down_since_ms, server.n_failed, server.reason = found

    # ---- asking ------------------------------------------------------------------------------------------------

    def _ask_all(self, now_ms: int) -> list[_Told]:
        options, started_s = self._options, self._monotonic()
        told = [_Told(server) for server in self._servers.values()]
        proven, others = in_turn(told, lambda one: one.server, lambda one: one.server.request_ms is not None)

        def clock() -> int:
            return now_ms + round(1_000 * (self._monotonic() - started_s))

        ask_side_by_side(
            proven,
            others,
            lambda one: self._ask(one, now_ms, clock),
            n_workers=options.n_workers,
            total_s=options.poll_timeout_ms / 1000,
            each_s=options.answer_timeout_ms / 1000,
            name=self.name,
        )
        return told

    def _ask(self, told: _Told, now_ms: int, clock: Callable[[], int]) -> None:
        server = told.server
        told.asked, server.asked_ms = True, now_ms
        told.request_ms = clock()
        try:
            body = self._ask_address(server.address)
            told.answer_ms = clock()
            with self._parsing:  # as objects a large answer is many times its size
                told.answer = parse_answer(body, self._options.metrics)
        except SourceUnavailableError as error:
            told.failure = ("unavailable", str(error))
        except GmondXmlError as error:
            told.failure = (error.kind, f"{server.address.text}: {error}")

    # ---- telling -----------------------------------------------------------------------------------------------

    def _note(self, rows: EventRows, told: _Told, now_ms: int) -> None:
        """Whether it answered, and what was odd about it."""
        server = told.server
        text = server.address.text
        if not told.asked:
            message = "it was not asked in time: raise sources.gmond.poll_timeout, n_workers or interval"
            self._problems.report(text, "not_asked", message)
        else:
            self._problems.forget((text, "not_asked"))
        if told.answer is None:
            if told.asked:
                self._note_failure(told, now_ms)
            if server.is_down:
                self._add_down(rows, server, now_ms)
            return
        self._problems.forget((text, "unavailable"))
        server.request_ms = told.request_ms
        server.recover()
        odd = dict(told.answer.odd)
        if told.answer.fault is not None:
            odd["truncated"] = f"it is not whole, what stands before is read: {told.answer.fault}"
        if not told.answer.hosts:
            odd["no_hosts"] = "it knows no host: is it deaf, or has nothing reported to it yet?"
        elif not any(host.metrics for host in told.answer.hosts) and not told.answer.n_expired:
            odd["no_metrics"] = f"none of the chosen metrics among {told.answer.n_others:,}"
        for kind in ("truncated", "no_hosts", "no_metrics", "no_name", "bad_age", "not_number", "other_unit"):
            if kind in odd:
                self._problems.report(text, kind, f"{text}: {odd[kind]}")
            else:
                self._problems.forget((text, kind))

    def _note_failure(self, told: _Told, now_ms: int) -> None:
        server = told.server
        kind, reason = told.failure or ("unavailable", "it did not answer")
        self._problems.report(server.address.text, kind, reason, key=(server.address.text, "unavailable"))
        server.fail(reason, now_ms)

    def _add_down(self, rows: EventRows, server: _Server, now_ms: int) -> None:
        address = server.address
        host = self._options.hosts.get(address.host, address.host)
        attributes = server.unreachable(host, f"Ganglia on port {address.port}", now_ms)
        event_id = record_id(("gmond", address.text), "DaemonUnreachable", now_ms, (), 0)
        rows.add("DaemonUnreachable", event_id, now_ms, "gmond", _origin(address), attributes)

    def _tell_host(self, rows: EventRows, told: ReportingHost, of: _Told, now_ms: int) -> None:
        key = (told.cluster, told.name)
        known = self._hosts.get(key)
        host = self._options.hosts.get(told.name) or self._options.hosts.get(told.address) or told.name
        if told.is_silent:
            if known is not None:
                self._tell_silent(rows, told, host, of, now_ms)
            return
        self._problems.forget((*key, "silent"))
        if known is None:
            known = self._hosts[key] = _Host(now_ms)
        known.reported_ms = now_ms
        assert of.answer is not None
        sooner_ms, later_ms = (1_000, 2_000) if of.answer.is_of_gmetad else (0, 1_000)
        for name, metric in told.metrics.items():
            t_hi_ms = min(of.answer_ms - metric.age_s * 1_000 + sooner_ms, of.answer_ms)
            t_lo_ms = min(of.request_ms - metric.age_s * 1_000 - later_ms + 1, t_hi_ms)
            before = known.samples.get(name)
            if before is None or before.is_followed_by(t_lo_ms, t_hi_ms, metric.value):
                if before is not None:
                    t_lo_ms = max(t_lo_ms, before.t_lo_ms)
                known.samples[name] = _Sample(t_lo_ms, t_hi_ms, metric.value)
                self._add(rows, told.cluster, host, name, metric, of.server.address, t_lo_ms, t_hi_ms)
            elif metric.value == before.value:
                before.narrow(t_lo_ms, t_hi_ms)

    def _add(
        self,
        rows: EventRows,
        cluster: str,
        host: str,
        name: str,
        metric: Reported,
        address: GmondAddress,
        t_lo_ms: int,
        t_hi_ms: int,
    ) -> None:
        attributes = {"host": host, "name": name, "value": metric.value, "unit": metric.unit}
        event_id = record_id(("gmond", cluster, host, name), "Metric", t_hi_ms, (metric.value,), 0)
        rows.add("Metric", event_id, t_lo_ms, f"gmond:{cluster}", _origin(address), attributes, t_hi_ms=t_hi_ms)

    def _tell_silent(self, rows: EventRows, told: ReportingHost, host: str, of: _Told, now_ms: int) -> None:
        message = (
            f"cluster {told.cluster!r}: it has not reported for {told.age_s} s; its last values are not told again"
        )
        self._problems.report(host, "host_vanished", message, key=(told.cluster, told.name, "silent"))
        attributes = {
            "host": host,
            "daemon": "gmond",
            "reason": f"it has not reported to {of.server.address.text}",
            "silent_ms": (told.age_s or 0) * 1_000,
        }
        event_id = record_id(("gmond", told.cluster, told.name), "DaemonUnreachable", now_ms, (), 0)
        clock, origin = f"gmond:{told.cluster}", _origin(of.server.address)
        rows.add("DaemonUnreachable", event_id, now_ms, clock, origin, attributes)

    def _promise_ms(self, now_ms: int) -> int:
        """What is reported after an address's last answer is still to come; from one that is silent not for ever."""
        asked = [server.request_ms for server in self._servers.values() if server.request_ms is not None]
        alive = [request_ms for request_ms in asked if now_ms - request_ms <= self._options.silent_ms]
        return min([now_ms, *alive]) - self._options.lateness_ms


def _youngest(told: list[_Told]) -> dict[tuple[str, str], tuple[ReportingHost, _Told]]:
    """By cluster and name; of several with one age, that of the first address."""
    found: dict[tuple[str, str], tuple[ReportingHost, _Told]] = {}
    for one in told:
        for host in one.answer.hosts if one.answer is not None else ():
            before = found.get((host.cluster, host.name))
            if before is None or _age(host) < _age(before[0]):
                found[host.cluster, host.name] = host, one
    return found


def _age(host: ReportingHost) -> float:
    return float("inf") if host.age_s is None else host.age_s


def _origin(address: GmondAddress) -> str:
    return f"gmond://{address.text}"[:MAX_ORIGIN_CHARS]


_REPORTS = pa.schema(
    {
        "cluster": pa.string(),
        "host": pa.string(),
        "metric": pa.string(),
        "reported_ms": pa.int64(),
        "t_lo_ms": pa.int64(),
        "t_hi_ms": pa.int64(),
        "value": pa.float64(),
    }
)


def _table(hosts: Mapping[tuple[str, str], _Host]) -> pa.Table:
    """A row for each report; of a host without any one that has no metric."""
    rows = list[tuple[Any, ...]]()
    for (cluster, name), host in hosts.items():
        rows += (
            (cluster, name, metric, host.reported_ms, sample.t_lo_ms, sample.t_hi_ms, sample.value)
            for metric, sample in host.samples.items()
        )
        if not host.samples:
            rows.append((cluster, name, None, host.reported_ms, None, None, None))
    columns = zip(*rows, strict=True) if rows else [()] * len(_REPORTS)
    return pa.table(list(map(list, columns)), schema=_REPORTS)


_Saved = tuple[int | None, int | None, int, str | None]


def _read(saved: Mapping[str, Any]) -> tuple[int | None, dict[str, _Saved], dict[tuple[str, str], _Host]]:
    servers: dict[str, _Saved] = {
        str(text): (_whole(request), _whole(down), int(n), None if reason is None else str(reason))
        for text, (request, down, n, reason) in saved["addresses"].items()
    }
    reports = saved["reports"]
    table = reports.table if isinstance(reports, Lasting) else reports
    hosts: dict[tuple[str, str], _Host] = {}
    for cluster, name, metric, reported_ms, t_lo_ms, t_hi_ms, value in zip(
        *(table.column(column).to_pylist() for column in _REPORTS.names), strict=True
    ):
        host = hosts.setdefault((cluster, name), _Host(int(reported_ms)))
        if metric is not None:
            host.samples[metric] = _Sample(int(t_lo_ms), int(t_hi_ms), float(value))
    return _whole(saved["watermark_ms"]), servers, hosts


def _whole(saved: Any) -> int | None:
    return None if saved is None else int(saved)


__all__ = ["GmondCollector", "GmondOptions"]
