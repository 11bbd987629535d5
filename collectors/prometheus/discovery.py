"""The exporters as they are now: from the settings, files and servers together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from collectors.base import CollectorError, OptionError, ProblemLog
from collectors.network.daemon_threads import in_daemon_thread
from collectors.network.http import Transport
from collectors.prometheus.targets import (
    MAX_TARGETS,
    Target,
    TargetDefaults,
    TargetFiles,
    TargetsError,
    distinct,
    parse_list,
    target_of,
)

Run = Callable[[Callable[[], list[Target]], str], "Future[list[Target]]"]


@dataclass(slots=True)
class _Server:
    """One that answers with a list of targets."""

    url: str
    transport: Transport
    known: list[Target] = field(default_factory=list)
    asked_ms: int | None = None
    under_way: Future[list[Target]] | None = None


class TargetServers:
    """Lists of targets from servers, asked for behind the polls: one that hangs holds up none but the first."""

    def __init__(
        self,
        urls: Sequence[str],
        defaults: TargetDefaults,
        connect: Callable[[str], Transport],
        refresh_ms: int,
        run: Run = in_daemon_thread,
    ) -> None:
        self._servers = [_Server(url, connect(url)) for url in urls]
        self._defaults, self._refresh_ms, self._run = defaults, refresh_ms, run

    def targets(self, now_ms: int, problems: ProblemLog) -> list[Target]:
        """As they were told last; a list that is due is asked for."""
        first: list[Future[list[Target]]] = []
        for server in self._servers:
            is_due = server.asked_ms is None or not server.asked_ms <= now_ms < server.asked_ms + self._refresh_ms
            if server.under_way is None and is_due:
                server.under_way = self._run(partial(self._asked, server, now_ms), "http_sd")
                if server.asked_ms is None:
                    first.append(server.under_way)
                server.asked_ms = now_ms
        wait(first)
        for server in self._servers:
            if server.under_way is not None and server.under_way.done():
                self._take(server, server.under_way, problems)
                server.under_way = None
        return [target for server in self._servers for target in server.known]

    def _asked(self, server: _Server, now_ms: int) -> list[Target]:
        return parse_list(server.transport.get(server.url, "", now_ms), self._defaults)

    def _take(self, server: _Server, asked: Future[list[Target]], problems: ProblemLog) -> None:
        try:
            server.known = asked.result()
        except CollectorError as error:
            message = f"{server.url}: {error}; the {len(server.known)} targets of before stay"
            problems.report(server.url, "bad_targets", message)
        else:
            problems.forget((server.url, "bad_targets"))


class Discovery:
    """All targets, each address once."""

    def __init__(
        self, addresses: Sequence[str], files: Sequence[Path], servers: TargetServers, defaults: TargetDefaults
    ) -> None:
        """Raises OptionError for an address that is none."""
        self._given = [_given(address, defaults) for address in addresses]
        self._files = TargetFiles(files, defaults)
        self._servers = servers

    def targets(self, now_ms: int, problems: ProblemLog) -> dict[str, Target]:
        """By address, MAX_TARGETS at most."""
        found = distinct([*self._given, *self._files.targets(problems), *self._servers.targets(now_ms, problems)])
        if len(found) <= MAX_TARGETS:
            problems.forget("too_many_targets")
            return found
        message = f"{len(found):,} targets; the first {MAX_TARGETS:,} are asked"
        problems.report("prometheus", "too_many_targets", message, key="too_many_targets")
        return dict(list(found.items())[:MAX_TARGETS])


def _given(address: str, defaults: TargetDefaults) -> Target:
    try:
        return target_of(address, {}, defaults)
    except TargetsError as error:
        raise OptionError(f"prometheus: targets: found {error}") from error


__all__ = ["Discovery", "TargetServers"]
