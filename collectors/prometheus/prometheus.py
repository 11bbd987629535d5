"""Exporters of Prometheus, scraped: chosen metrics of each host as Metric events, with normal names and units.

All are asked side by side at a poll (`network.side_by_side`). What is of now happened between request and answer; what
is growth, between the request of the answer before and this answer; where an exporter tells the time of a sample, it is
that time, by that host's clock. Growth is told over two polls in a row alone: over a gap its interval would begin where
the source has promised that nothing follows.
"""

from __future__ import annotations

import ipaddress
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

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
from collectors.identity import record_id
from collectors.lifecycle import EventRows
from collectors.network.deadlines import remaining_s
from collectors.network.http import REDIRECTS, Answer, HttpOptions, HttpTransport, Transport, check_url
from collectors.network.reachability import Reachability, in_turn
from collectors.network.side_by_side import ask_side_by_side
from collectors.printable import printable
from collectors.prometheus.credentials import NO_CREDENTIALS, Credentials
from collectors.prometheus.discovery import Discovery, TargetServers
from collectors.prometheus.exposition import ACCEPT, Exposition, ExpositionError, parse_exposition
from collectors.prometheus.readings import DEFAULT_METRICS, READINGS, Reading, ReadingSet, Value
from collectors.prometheus.targets import MAX_LIST_BYTES, Target, TargetDefaults

POSITION_VERSION = 1
MOST_AHEAD_MS = 60_000
"""A sample that is dated further ahead is by a clock that is wrong."""
MAX_ORIGIN_CHARS = 300

HTTP = HttpOptions(
    connect_timeout_s=3.0,
    read_timeout_s=10.0,
    total_timeout_s=20.0,
    n_attempts=2,  # a kept connection may have been closed meanwhile
    max_answer_bytes=1 << 24,
    max_redirects=0,  # what another server answers is not this one's, and it must not see the token
    accept=ACCEPT,
)


@dataclass(frozen=True, slots=True)
class PrometheusOptions:
    """Which exporters are scraped, what of them is kept, and for how long they are asked."""

    targets: tuple[str, ...] = ()
    """HOST:PORT or URLs."""
    files: tuple[Path, ...] = ()
    """Lists of targets; patterns."""
    servers: tuple[str, ...] = ()
    """URLs of lists of targets."""
    defaults: TargetDefaults = field(default_factory=TargetDefaults)
    readings: tuple[Reading, ...] = tuple(READINGS[name] for name in DEFAULT_METRICS)
    lateness_ms: int = 5_000
    source_rank: int = 0
    target_timeout_ms: int = 20_000
    """Of what one target is asked for at a poll."""
    poll_timeout_ms: int = 60_000
    n_workers: int = 8
    refresh_ms: int = 60_000
    """How often servers are asked for their lists."""
    http: HttpOptions = HTTP
    credentials: Credentials = NO_CREDENTIALS

    def __post_init__(self) -> None:
        for url in self.servers:
            check_url(url)
        if not (self.targets or self.files or self.servers):
            raise OptionError("prometheus: no target is given; expected targets, file_sd or http_sd")
        if not self.readings:
            raise OptionError("prometheus: no metric is chosen; expected at least one")
        if self.http.kerberos is not None and self.credentials != NO_CREDENTIALS:
            raise OptionError("prometheus: kerberos and a token or a user are given; expected one of them")


@dataclass(slots=True)
class _State(Reachability):
    """One target, and what is remembered of it."""

    target: Target
    transport: Transport | None = None
    probe: Transport | None = None
    """In place of `transport` while it is down: a single attempt, over a connection that nobody has closed yet."""
    levels: dict[str, float] = field(default_factory=dict)
    """Of its counters at the last answer."""
    request_ms: int | None = None
    """When that answer was asked for."""
    measured_ms: float | None = None
    """When its counters were read, about."""
    answered_ms: int | None = None


@dataclass(slots=True)
class _Told:
    """What one target told at a poll."""

    state: _State
    asked: bool = False
    request_ms: int = 0
    answer_ms: int = 0
    exposition: Exposition | None = None
    failure: str | None = None
    """Why it could not be reached."""
    problem: tuple[str, str] | None = None
    """(kind, message) of an answer that cannot be used."""


class PrometheusCollector:
    """Metric events of exporters, and which of them do not answer."""

    name = "prometheus"

    def __init__(
        self,
        options: PrometheusOptions,
        transport_of: Callable[[str, HttpOptions], Transport] | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`transport_of`: how an address is asked; over the network unless given."""
        self._options, self._monotonic = options, monotonic
        self._secret: str | None = None
        self._connect = transport_of or self._over_the_network
        self._readings = ReadingSet(options.readings)
        lists = replace(options.http, accept="application/json", max_answer_bytes=MAX_LIST_BYTES, kerberos=None)
        servers = TargetServers(
            options.servers,
            options.defaults,
            lambda url: transport_of(url, lists) if transport_of is not None else HttpTransport((url,), lists),
            options.refresh_ms,
        )
        self._discovery = Discovery(options.targets, options.files, servers, options.defaults)
        self._states: dict[str, _State] = {}
        self._restored: dict[str, _State] = {}
        self._parsing = threading.Lock()
        self._problems = ProblemLog(self.name)
        self._watermark_ms: int | None = None
        self._levels: Lasting | None = None

    def poll(self, now_ms: int) -> Collected:
        """Scrape every target once; raises SourceUnavailableError while none has answered and nothing is to be told."""
        self._secret = self._options.credentials.header()
        self._adopt(self._discovery.targets(now_ms, self._problems))
        told = self._ask_all(now_ms)
        rows = EventRows(self._options.source_rank, next_seq=now_ms * 1_000)
        for one in told:
            self._tell(rows, one, now_ms)
        if told and not len(rows) and not any(state.answered_ms is not None for state in self._states.values()):
            reasons = [reason for one in told for reason in (one.failure, one.problem and one.problem[1]) if reason]
            first = reasons[0] if reasons else "they take too long"
            raise SourceUnavailableError(f"none of {len(told)} target(s) answers: {first}")
        if told:
            self._problems.forget("no_targets")
        else:
            message = "no target is known; expected some in targets, file_sd or http_sd"
            self._problems.report(self.name, "no_targets", message, key="no_targets")
        self._levels = None
        self._watermark_ms = next_watermark(self._watermark_ms, now_ms - self._options.lateness_ms, now_ms)
        n_others = sum(one.exposition.n_others for one in told if one.exposition is not None)
        return Collected(rows.take_batch(), self._watermark_ms, self._problems.drain(), n_unselected=n_others)

    def checkpoint(self) -> dict[str, Any]:
        """Levels of counters, and which targets are down."""
        if self._levels is None:
            self._levels = Lasting(_levels_table(self._states))
        targets = {
            url: {
                "request_ms": state.request_ms,
                "measured_ms": state.measured_ms,
                "answered_ms": state.answered_ms,
                "down_since_ms": state.down_since_ms,
                "n_failed": state.n_failed,
                "reason": state.reason,
            }
            for url, state in self._states.items()
        }
        return {
            "version": POSITION_VERSION,
            "watermark_ms": self._watermark_ms,
            "targets": targets,
            "levels": self._levels,
        }

    def restore(self, position: Mapping[str, Any]) -> None:
        """Take up a position; raises PositionError when it is not one of this collector's."""
        self._watermark_ms, self._restored = read_position(position, POSITION_VERSION, _read)
        self._states, self._levels = {}, None

    # ---- asking ------------------------------------------------------------------------------------------------

    def _over_the_network(self, url: str, http: HttpOptions) -> Transport:
        return HttpTransport((url,), http, lambda: self._secret)

    def _adopt(self, targets: Mapping[str, Target]) -> None:
        """What is known of the targets that there are; of others nothing is kept."""
        before, self._states = self._states, {}
        for url, target in targets.items():
            state = before.get(url) or self._restored.get(url) or _State(target)
            state.target = target
            self._states[url] = state
        self._restored = {}
        for url in before.keys() - targets.keys():
            for kind in ("unavailable", "not_asked", "no_metrics", "ahead", "repeated_series"):
                self._problems.forget((url, kind))

    def _ask_all(self, now_ms: int) -> list[_Told]:
        """Of every target, in the order of their lists; those that were not asked for longest come first."""
        options = self._options
        started_s = self._monotonic()
        told = [_Told(state) for state in self._states.values()]
        proven, others = in_turn(told, lambda one: one.state, lambda one: one.state.answered_ms is not None)

        def clock() -> int:
            return now_ms + round(1_000 * (self._monotonic() - started_s))

        ask_side_by_side(
            proven,
            others,
            lambda one: self._ask(one, now_ms, clock),
            n_workers=options.n_workers,
            total_s=options.poll_timeout_ms / 1000,
            each_s=options.target_timeout_ms / 1000,
            name=self.name,
        )
        return told

    def _ask(self, told: _Told, now_ms: int, clock: Callable[[], int]) -> None:
        state = told.state
        url = state.target.url
        told.asked, state.asked_ms = True, now_ms
        if self._secret is not None and not _keeps_secrets(url):
            told.problem = ("insecure", f"{url}: credentials go over https alone; give an address of that scheme")
            return
        told.request_ms = clock()
        try:
            answer = self._transport(state).get(url, "", now_ms)
            told.answer_ms = clock()
            _check_status(answer)
            with self._parsing:  # as objects a large answer is many times its size
                told.exposition = parse_exposition(answer.body, answer.content_type, self._readings.metrics)
        except SourceUnavailableError as error:
            told.failure = str(error)
        except ExpositionError as error:
            told.problem = (error.kind, f"{url}: {error}")
        if told.failure is not None and remaining_s() <= 0:
            told.failure += "; it took longer than a poll may wait for it"

    def _transport(self, state: _State) -> Transport:
        if not state.n_failed:
            state.probe = None
            if state.transport is None:
                state.transport = self._connect(state.target.url, self._options.http)
            return state.transport
        if state.probe is None:
            state.probe = self._connect(state.target.url, replace(self._options.http, n_attempts=1))
        return state.probe

    # ---- telling -----------------------------------------------------------------------------------------------

    def _tell(self, rows: EventRows, told: _Told, now_ms: int) -> None:
        state = told.state
        url = state.target.url
        if not told.asked:
            message = "it was not asked in time: raise sources.prometheus.poll_timeout, n_workers or interval"
            self._problems.report(url, "not_asked", message)
            if state.is_down:
                self._add_down(rows, state, now_ms)
            return
        self._problems.forget((url, "not_asked"))
        if told.exposition is None:
            self._tell_down(rows, told, now_ms)
            return
        self._problems.forget((url, "unavailable"))
        self._tell_values(rows, told, told.exposition)
        state.answered_ms = now_ms
        state.recover()

    def _tell_down(self, rows: EventRows, told: _Told, now_ms: int) -> None:
        """An answer that is none of an exporter is as good as none: Prometheus calls its target down, too."""
        state = told.state
        kind, reason = told.problem or ("unavailable", told.failure or "it did not answer")
        self._problems.report(state.target.url, kind, reason, key=(state.target.url, "unavailable"))
        state.fail(reason, now_ms)
        if state.is_down:
            self._add_down(rows, state, now_ms)

    def _add_down(self, rows: EventRows, state: _State, now_ms: int) -> None:
        target = state.target
        daemon = target.job or f"exporter on port {urlsplit(target.url).port or 80}"
        attributes = state.unreachable(target.host, daemon, now_ms)
        event_id = record_id(("prometheus", target.url), "DaemonUnreachable", now_ms, (), 0)
        rows.add("DaemonUnreachable", event_id, now_ms, _clock(target), target.url[:MAX_ORIGIN_CHARS], attributes)

    def _tell_values(self, rows: EventRows, told: _Told, exposition: Exposition) -> None:
        state, samples = told.state, exposition.samples
        url = state.target.url
        if exposition.n_repeated:
            message = f"{url}: {exposition.n_repeated} samples of series that it had told already; the first counts"
            self._problems.report(url, "repeated_series", message)
        else:
            self._problems.forget((url, "repeated_series"))
        times = [sample.t_ms for sample in samples if sample.t_ms is not None]
        if (latest_ms := max(times, default=0)) > told.answer_ms + MOST_AHEAD_MS:
            message = f"{url}: a sample dated {latest_ms - told.answer_ms} ms ahead; its host's clock is wrong"
            self._problems.report(url, "ahead", message)
            samples = tuple(s for s in samples if s.t_ms is None or s.t_ms <= told.answer_ms + MOST_AHEAD_MS)
        else:
            self._problems.forget((url, "ahead"))
        measured_ms = float(max((t for t in times if t <= told.answer_ms + MOST_AHEAD_MS), default=0)) or (
            (told.request_ms + told.answer_ms) / 2
        )
        follows = self._follows(state)
        seconds = None
        if follows and state.measured_ms is not None:
            seconds = (measured_ms - state.measured_ms) / 1000
        values = self._readings.values(samples, state.levels if follows else None, seconds)
        for value in values:
            self._add(rows, told, value)
        if not samples:
            message = f"{url}: none of the chosen metrics among {exposition.n_others:,} samples: is it their exporter?"
            self._problems.report(url, "no_metrics", message)
        else:
            self._problems.forget((url, "no_metrics"))
        if seconds is None or seconds > 0:
            state.levels = self._readings.levels(samples)
            state.measured_ms = measured_ms
            state.request_ms = told.request_ms if measured_ms >= told.request_ms else round(measured_ms)

    def _follows(self, state: _State) -> bool:
        """Whether growth since the answer before is of a time in which events may still be told."""
        if state.request_ms is None:
            return False
        return self._watermark_ms is None or state.request_ms + 1 >= self._watermark_ms

    def _add(self, rows: EventRows, told: _Told, value: Value) -> None:
        target, reading = told.state.target, value.reading
        t_hi_ms = told.answer_ms if value.t_ms is None else value.t_ms
        t_lo_ms = told.request_ms if value.t_ms is None else value.t_ms
        if reading.is_of_growth:
            assert told.state.request_ms is not None
            t_lo_ms = min(told.state.request_ms + 1, t_hi_ms)
        attributes = {"host": target.host, "name": reading.name, "value": value.value, "unit": reading.unit}
        series = ("prometheus", target.cluster, target.host, target.instance, reading.name)
        event_id = record_id(series, "Metric", t_hi_ms, (value.value + 0.0,), 0)
        clock = _clock(target) if value.t_ms is None else f"host:{target.host}"
        rows.add("Metric", event_id, t_lo_ms, clock, target.url[:MAX_ORIGIN_CHARS], attributes, t_hi_ms=t_hi_ms)


def _clock(target: Target) -> str:
    """Of what is dated by when it was asked for: this machine's; by cluster, as the load is derived by it."""
    return f"prometheus:{target.cluster}"


def _check_status(answer: Answer) -> None:
    if answer.status in REDIRECTS:
        to = printable(answer.location, 200)
        raise ExpositionError("redirect", f"it points to {to}: give the address that answers itself")
    if answer.status in (401, 403):
        raise ExpositionError("refused", f"status {answer.status}: it wants credentials, or others than these")
    if answer.status != 200:
        raise ExpositionError("bad_status", f"expected status 200, found {answer.status}")


def _keeps_secrets(url: str) -> bool:
    parts = urlsplit(url)
    if parts.scheme == "https" or parts.hostname == "localhost":
        return True
    try:
        return ipaddress.ip_address(parts.hostname or "").is_loopback
    except ValueError:
        return False


def _levels_table(states: Mapping[str, _State]) -> pa.Table:
    urls, keys, levels = list[str](), list[str](), list[float]()
    for url, state in states.items():
        urls += [url] * len(state.levels)
        keys += state.levels
        levels += state.levels.values()
    return pa.table(
        {
            "url": pa.array(urls, pa.string()).dictionary_encode(),
            "series": pa.array(keys, pa.string()).dictionary_encode(),
            "level": pa.array(levels, pa.float64()),
        }
    )


def _read(saved: Mapping[str, Any]) -> tuple[int | None, dict[str, _State]]:
    found: dict[str, _State] = {}
    for url, one in saved["targets"].items():
        found[str(url)] = _State(
            Target(str(url), ""),
            request_ms=_whole(one["request_ms"]),
            measured_ms=None if one["measured_ms"] is None else float(one["measured_ms"]),
            answered_ms=_whole(one["answered_ms"]),
            down_since_ms=_whole(one["down_since_ms"]),
            n_failed=int(one["n_failed"]),
            reason=None if one["reason"] is None else str(one["reason"]),
        )
    levels = saved["levels"]
    table = levels.table if isinstance(levels, Lasting) else levels
    columns = (table.column(name).to_pylist() for name in ("url", "series", "level"))
    for url, series, level in zip(*columns, strict=True):
        found[url].levels[series] = float(level)
    return _whole(saved["watermark_ms"]), found


def _whole(saved: Any) -> int | None:
    return None if saved is None else int(saved)


__all__ = ["HTTP", "PrometheusCollector", "PrometheusOptions"]
