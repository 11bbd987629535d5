"""REST documents of YARN's timeline server (`/ws/v1/applicationhistory`, Hadoop 2.6 to 3.4) -> facts.

The ResourceManager publishes applications, their attempts and containers there when `yarn.system-metrics-publisher`
is on; what it forgets itself after a thousand applications or a restart is known there for days.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from collectors.counters import is_count
from collectors.exit_codes import SPARED
from collectors.hadoop_ids import CONTAINER, is_application
from collectors.lifecycle import period
from collectors.network.http import Answer
from collectors.printable import printable
from collectors.rest.documents import Listed, count_of, host_of, objects_in, parse_document, text_of, time_of

ENDED_STATES = ("FINISHED", "FAILED", "KILLED")

NO_ATTEMPT = 0
APP_ATTEMPT = re.compile(r"appattempt_\d+_\d+_(\d{6,10})")
"""Of an application without one the number is written as -000001."""

_UNKNOWN_TEXTS = frozenset({"N/A", "<Not set>"})
_MS_PER_S = 1_000


@dataclass(frozen=True, slots=True)
class EndedApp:
    """An application that has ended, as the timeline server lists it; None is not known."""

    application_id: str
    application_type: str | None
    name: str | None
    user: str | None
    queue: str | None
    status: str | None
    """SUCCEEDED, FAILED or KILLED; None where its master has not said."""
    n_attempts: int | None
    """Masters that it had; 0 where it ended before it had one."""
    master_host: str | None
    started_ms: int | None
    launched_ms: int | None
    finished_ms: int | None
    diagnostics: str | None

    @property
    def is_mapreduce(self) -> bool:
        """It ran a MapReduce job."""
        return self.application_type == "MAPREDUCE"


@dataclass(frozen=True, slots=True)
class ContainerFacts:
    """A container of an application."""

    container_id: str
    host: str | None
    exit_code: int | None
    started_ms: int | None
    finished_ms: int | None
    """None as long as it runs, or its end was not published."""
    memory_mib: int | None
    vcores: int | None

    @property
    def has_failed(self) -> bool:
        """It ended by itself or by its node, and not well."""
        return self.exit_code is not None and self.exit_code != 0 and self.exit_code not in SPARED


@dataclass(frozen=True, slots=True)
class ContainerFigures:
    """What the containers of an application come to; None is not known."""

    n_containers: int | None = None
    n_failed_containers: int | None = None
    failed_host: str | None = None
    """Host on which most of its containers failed, of equals the first by name."""
    n_failed_on_host: int | None = None
    memory_seconds: int | None = None
    """MiB times seconds, as the ResourceManager counts them."""
    vcore_seconds: int | None = None

    @classmethod
    def of(cls, containers: Iterable[ContainerFacts]) -> ContainerFigures:
        """Of all containers of an application; sums leave out those of which not all is known."""
        listed = list(containers)
        by_host: dict[str, int] = {}
        for container in listed:
            if container.has_failed and container.host is not None:
                by_host[container.host] = by_host.get(container.host, 0) + 1
        failed_host = min(by_host, key=lambda host: (-by_host[host], host), default=None)
        return cls(
            len(listed),
            sum(container.has_failed for container in listed),
            failed_host,
            None if failed_host is None else by_host[failed_host],
            _held_s((container.memory_mib, container) for container in listed),
            _held_s((container.vcores, container) for container in listed),
        )

    def attributes(self) -> dict[str, Any]:
        """As event attributes."""
        return {name: getattr(self, name) for name in self.__slots__}


def parse_ended(answer: Answer) -> Listed[EndedApp]:
    """{"app": [...]} of applications that have ended; others, which an older server may list, are passed over."""
    listed = Listed.of(objects_in(answer, parse_document(answer), "app"), is_application, _app, key="appId")
    ended = Listed[EndedApp](app for app in listed if app is not None)
    ended.n_left_out, ended.first_left_out = listed.n_left_out, listed.first_left_out
    return ended


def parse_attempt_ids(answer: Answer) -> list[str]:
    """{"appAttempt": [...]} -> the ids of the attempts, each a master."""
    items = objects_in(answer, parse_document(answer), "appAttempt")
    return list(Listed.of(items, _is_app_attempt, lambda item: str(item["appAttemptId"]), key="appAttemptId"))


def parse_containers(answer: Answer) -> Listed[ContainerFacts]:
    """{"container": [...]} of one attempt."""
    return Listed.of(
        objects_in(answer, parse_document(answer), "container"), _is_container, _container, key="containerId"
    )


def _app(app: Mapping[str, Any]) -> EndedApp | None:
    state = text_of(app, "appState")
    if state not in ENDED_STATES:
        return None
    final = text_of(app, "finalAppStatus")
    status = state if state != "FINISHED" else None if final in (None, "UNDEFINED") else final
    attempt = APP_ATTEMPT.fullmatch(str(app.get("currentAppAttemptId")))
    return EndedApp(
        application_id=app["appId"],
        application_type=text_of(app, "type"),
        name=text_of(app, "name"),
        user=text_of(app, "user"),
        queue=text_of(app, "queue"),
        status=None if status is None else printable(status, 50),
        n_attempts=int(attempt[1]) if attempt else NO_ATTEMPT if "currentAppAttemptId" in app else None,
        master_host=_plain_host(text_of(app, "host")),
        started_ms=time_of(app, "startedTime"),
        launched_ms=time_of(app, "launchTime"),
        finished_ms=time_of(app, "finishedTime"),
        diagnostics=text_of(app, "diagnosticsInfo"),
    )


def _container(container: Mapping[str, Any]) -> ContainerFacts:
    code = container.get("containerExitStatus")
    is_over = text_of(container, "containerState") in (None, "COMPLETE")
    is_code = isinstance(code, int) and not isinstance(code, bool) and abs(code) < 1 << 31
    return ContainerFacts(
        container_id=container["containerId"],
        host=host_of(container.get("assignedNodeId")),
        exit_code=code if is_code and is_over else None,
        started_ms=time_of(container, "startedTime"),
        finished_ms=time_of(container, "finishedTime") if is_over else None,
        memory_mib=count_of(container, "allocatedMB"),
        vcores=count_of(container, "allocatedVCores"),
    )


def _held_s(held: Iterable[tuple[int | None, ContainerFacts]]) -> int | None:
    """The sum of amount times seconds; None where no container tells both."""
    amounts = [
        (amount, period(container.started_ms, container.finished_ms))
        for amount, container in held
        if amount is not None
    ]
    known = [amount * ms for amount, ms in amounts if ms is not None]
    total = sum(known) // _MS_PER_S
    return total if known and is_count(total) else None


def _is_app_attempt(text: object) -> bool:
    return isinstance(text, str) and APP_ATTEMPT.fullmatch(text) is not None


def _is_container(text: object) -> bool:
    return isinstance(text, str) and CONTAINER.fullmatch(text) is not None


def _plain_host(text: str | None) -> str | None:
    """ "host", or "host/address" where the master registered so."""
    return None if text is None or text in _UNKNOWN_TEXTS else text.partition("/")[0] or None


__all__ = [
    "ENDED_STATES",
    "ContainerFacts",
    "ContainerFigures",
    "EndedApp",
    "parse_attempt_ids",
    "parse_containers",
    "parse_ended",
]
