"""YARN's timeline server: how applications of any type ended, and what their containers came to.

The ResourceManager remembers a thousand applications and the JobHistoryServer knows MapReduce alone; the timeline
server keeps what the ResourceManager published of Spark, Tez and all others. An ended application is told once, at its
end, with the figures of its containers, which take one request for each of its masters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import urlsplit

from collectors.base import Collected, ProblemLog, SourceUnavailableError, next_watermark, read_position
from collectors.hadoop_ids import is_application, job_of_application
from collectors.identity import lifecycle_id
from collectors.lifecycle import EventRows, period
from collectors.network.deadlines import remaining_s, within
from collectors.network.http import Answer, HttpOptions, HttpTransport, Transport, check_url
from collectors.option_checks import check_not_negative, check_positive
from collectors.printable import printable
from collectors.rest.documents import DocumentError, Listed
from collectors.rest.timeline_documents import (
    ENDED_STATES,
    ContainerFacts,
    ContainerFigures,
    EndedApp,
    parse_attempt_ids,
    parse_containers,
    parse_ended,
)
from collectors.time_units import MINUTE_MS

POSITION_VERSION = 1

APPS = "/ws/v1/applicationhistory/apps"
OVERLAP_MS = 10 * MINUTE_MS
"""Ends are looked for so far back at each poll: the ResourceManager publishes them when it has the time."""
MAX_TOLD = 200_000
"""Applications within OVERLAP_MS that are remembered as told."""
MAX_FAILURES = 3
"""So often the containers of an application are asked for; then it is told without them."""

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class YarnTimelineOptions:
    """Which server to ask, and how much."""

    server_url: str = "http://127.0.0.1:8188"
    lateness_ms: int = 10_000
    source_rank: int = 0
    lookback_ms: int = 0
    """Applications that ended up to this long before the first poll are told too."""
    containers: bool = True
    """Ask for the containers of each application that has ended: a request for it, and one for each of its masters."""
    settle_ms: int = 30_000
    """So long an application waits for the ends of its containers to be published."""
    poll_timeout_ms: int = 60_000
    max_requests_per_poll: int = 1_000
    hosts: Mapping[str, str] = field(default_factory=dict)
    """Name of a node -> host name as job history writes it."""
    http: HttpOptions = field(default_factory=HttpOptions)

    def __post_init__(self) -> None:
        check_url(self.server_url)
        check_not_negative("yarn timeline", self, ("lateness_ms", "lookback_ms", "settle_ms"))
        check_positive("yarn timeline", self, ("poll_timeout_ms", "max_requests_per_poll"))


class _LaterError(Exception):
    """This application's turn comes at another poll."""


class _SpentError(Exception):
    """This poll has asked often, or long, enough."""


class YarnTimelineCollector:
    """ApplicationEnd."""

    name = "yarn_timeline"

    def __init__(self, options: YarnTimelineOptions, transport: Transport | None = None) -> None:
        self._options = options
        self._transport: Transport = transport or HttpTransport((options.server_url,), options.http)
        self._problems = ProblemLog(self.name)
        self._clock_id = f"timeline:{urlsplit(options.server_url).hostname}"
        self._since_ms: int | None = None
        """Applications that ended before are of no interest."""
        self._covered_ms = 0
        """All that ended before has been told, as far as it was published."""
        self._told: dict[str, int] = {}
        """Applications that have been told, and when they ended."""
        self._failures: dict[str, int] = {}
        self._watermark_ms: int | None = None
        self._n_requests = 0
        self._now_ms = 0

    def poll(self, now_ms: int) -> Collected:
        """Ask once; raises SourceUnavailableError when there is no list of applications to be had."""
        self._now_ms, self._n_requests = now_ms, 0
        if self._since_ms is None:
            self._since_ms = self._covered_ms = now_ms - self._options.lookback_ms
        rows = EventRows(self._options.source_rank, next_seq=now_ms * 1_000)
        with within(self._options.poll_timeout_ms / 1000):
            listed, listed_ms = self._ended()
            left = self._tell_all(rows, listed)
        self._covered_ms = min([listed_ms, *(app.finished_ms or listed_ms for app in left)])
        self._forget(listed)
        watermark_ms = self._covered_ms - self._options.lateness_ms
        self._watermark_ms = next_watermark(self._watermark_ms, watermark_ms, now_ms)
        return Collected(rows.take_batch(), self._watermark_ms, self._problems.drain())

    def checkpoint(self) -> dict[str, Any]:
        """Which applications have been told."""
        return {
            "version": POSITION_VERSION,
            "since_ms": self._since_ms,
            "covered_ms": self._covered_ms,
            "watermark_ms": self._watermark_ms,
            "told": dict(self._told),
            "failures": dict(self._failures),
        }

    def restore(self, position: Mapping[str, Any]) -> None:
        """Take up a position; raises PositionError when it is not one of this collector's."""

        def read(saved: Mapping[str, Any]) -> tuple[int | None, int, int | None, dict[str, int], dict[str, int]]:
            since_ms, watermark_ms = (
                None if saved[name] is None else int(saved[name]) for name in ("since_ms", "watermark_ms")
            )
            told, failures = (
                {str(key): int(value) for key, value in saved[name].items()} for name in ("told", "failures")
            )
            if not all(map(is_application, (*told, *failures))):
                raise ValueError("names that are no ids of applications")
            return since_ms, int(saved["covered_ms"]), watermark_ms, told, failures

        found = read_position(position, POSITION_VERSION, read)
        self._since_ms, self._covered_ms, self._watermark_ms, self._told, self._failures = found

    # ---- which applications ------------------------------------------------------------------------------------

    def _ended(self) -> tuple[Listed[EndedApp], int]:
        """(those that ended since shortly before all was told, the time whose state that is)."""
        assert self._since_ms is not None
        # A clock that was ahead when this began does not hide what ends now.
        begin_ms = max(0, min(self._now_ms, max(self._since_ms, self._covered_ms - OVERLAP_MS)))
        path = f"{APPS}?states={','.join(ENDED_STATES)}&finishedTimeBegin={begin_ms}"
        try:
            answer = self._transport.get(self._options.server_url, path, self._now_ms)
            listed = parse_ended(answer)
        except DocumentError as error:
            place = "" if error.url in str(error) else f"{error.url}: "
            raise SourceUnavailableError(f"no list of applications from the timeline server: {place}{error}") from error
        if listed.n_left_out:
            message = (
                f"{listed.n_left_out} application(s) without an id application_<n>_<n>, the first "
                f"{listed.first_left_out}; left out"
            )
            self._problems.report(self._options.server_url, "foreign_id", message)
        return listed, answer.t_ms

    def _tell_all(self, rows: EventRows, listed: Listed[EndedApp]) -> list[EndedApp]:
        """Tell those that are new, the earliest end first; returns those that are left for another poll."""
        new = {app.application_id: app for app in listed if app.application_id not in self._told}
        timeless = [app_id for app_id, app in new.items() if app.finished_ms is None]
        if timeless:
            message = f"{len(timeless)} ended application(s) without the time of their end, the first {timeless[0]}"
            self._problems.report(self._options.server_url, "no_time", f"{message}; left out")
        left: list[EndedApp] = []
        is_spent = False
        for app in sorted(new.values(), key=lambda app: (app.finished_ms or 0, app.application_id)):
            if app.finished_ms is None or app.finished_ms < (self._since_ms or 0):
                continue
            try:
                if is_spent:
                    raise _LaterError
                figures = self._figures(app) if self._options.containers else ContainerFigures()
            except _SpentError:
                is_spent = True
                left.append(app)
            except _LaterError:
                left.append(app)
            else:
                self._tell(rows, app, app.finished_ms, figures)
                self._told[app.application_id] = app.finished_ms
                self._failures.pop(app.application_id, None)
        return left

    def _forget(self, listed: Listed[EndedApp]) -> None:
        """Those that no list will have again, but for those of which this one spoke."""
        still = {app.application_id for app in listed}
        oldest_ms = self._covered_ms - OVERLAP_MS
        kept = {app_id: t_ms for app_id, t_ms in self._told.items() if t_ms >= oldest_ms or app_id in still}
        self._told = dict(sorted(kept.items(), key=lambda one: one[1])[-MAX_TOLD:])
        self._failures = {app_id: n for app_id, n in self._failures.items() if app_id in still}

    # ---- one application ---------------------------------------------------------------------------------------

    def _figures(self, app: EndedApp) -> ContainerFigures:
        """Of its containers; raises _LaterError and _SpentError when they are to be asked for at another poll."""
        if app.n_attempts == 0:
            return ContainerFigures.of(())
        containers = dict[str, ContainerFacts]()
        path = f"{APPS}/{app.application_id}/appattempts"
        try:
            for attempt_id in self._ask(path, parse_attempt_ids):
                listed = self._ask(f"{path}/{attempt_id}/containers", parse_containers)
                if listed.n_left_out:
                    message = (
                        f"{listed.n_left_out} container(s) without an id of one, the first {listed.first_left_out}"
                    )
                    self._problems.report(f"{self._options.server_url}{path}", "foreign_id", f"{message}; left out")
                containers |= {container.container_id: container for container in listed}
        except (DocumentError, SourceUnavailableError) as error:
            if remaining_s() <= 0:
                raise _SpentError from None  # it was cut short
            return self._without_containers(app, error)
        assert app.finished_ms is not None
        is_settled = self._now_ms - app.finished_ms >= self._options.settle_ms
        if not is_settled and any(container.finished_ms is None for container in containers.values()):
            raise _LaterError
        return ContainerFigures.of(containers.values())

    def _without_containers(self, app: EndedApp, error: Exception) -> ContainerFigures:
        self._failures[app.application_id] = self._failures.get(app.application_id, 0) + 1
        if self._failures[app.application_id] < MAX_FAILURES:
            raise _LaterError
        kind = error.kind if isinstance(error, DocumentError) else "unavailable"
        message = f"the containers of {app.application_id} are not to be had ({error}); it is told without them"
        self._problems.report(self._options.server_url, kind, message)
        return ContainerFigures()

    def _ask(self, path: str, parse: Callable[[Answer], _T]) -> _T:
        if self._n_requests >= self._options.max_requests_per_poll or remaining_s() <= 0:
            raise _SpentError
        self._n_requests += 1
        return parse(self._transport.get(self._options.server_url, path, self._now_ms))

    def _tell(self, rows: EventRows, app: EndedApp, finished_ms: int, figures: ContainerFigures) -> None:
        host = app.master_host
        told = figures.attributes()
        if figures.failed_host is not None:
            told["failed_host"] = self._options.hosts.get(figures.failed_host, figures.failed_host)
        attributes = {
            "application_id": app.application_id,
            "application_type": app.application_type,
            "application_name": app.name,
            "job_id": job_of_application(app.application_id) if app.is_mapreduce else None,
            "job_name": app.name if app.is_mapreduce else None,
            "user": app.user,
            "queue": app.queue,
            "status": app.status,
            "period_ms": period(app.started_ms, finished_ms),
            "wait_ms": period(app.started_ms, app.launched_ms),
            "n_masters": app.n_attempts,
            "master_host": None if host is None else self._options.hosts.get(host, host),
            "reason": None if app.diagnostics is None else printable(app.diagnostics.strip()) or None,
            **told,
        }
        rows.add(
            "ApplicationEnd",
            lifecycle_id("ApplicationEnd", app.application_id),
            finished_ms,
            self._clock_id,
            f"timeline:{app.application_id}",
            attributes,
            raw=None if app.diagnostics is None else printable(app.diagnostics, 2_000),
        )


__all__ = ["YarnTimelineCollector", "YarnTimelineOptions"]
