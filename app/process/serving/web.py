"""The endpoints of the live process: health, readiness, reload and metrics, over plain HTTP on loopback.

No login stands before them, so a web page in an operator's browser must not reach them: the Host header has to name
this machine (a page may point its own name at 127.0.0.1), and a reload is refused to whatever says it is a page.
"""

from __future__ import annotations

import errno
import ipaddress
import socket
import threading
from collections.abc import Callable, Mapping
from email.message import Message
from http import HTTPStatus
from importlib.resources import files
from typing import Protocol

import structlog
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from app.errors import AppError
from app.process.serving.http_server import HEADERS, Answer, HttpServer, Limits, Request, host_of
from app.settings import Web

log = structlog.get_logger(__name__)

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
RELOAD = "/-/reload"


class Health(Protocol):
    """What the process says about itself; neither call waits for a step."""

    def healthy(self) -> tuple[bool, str]:
        """Whether it works, and why not; a restart is the remedy."""
        ...

    def ready(self) -> tuple[bool, str]:
        """Whether alerts would be found now, and why not."""
        ...


class Reloaded(Protocol):
    """What became of a reload."""

    @property
    def ok(self) -> bool:
        """Whether the new configuration is in use."""
        ...

    @property
    def problems(self) -> tuple[str, ...]:
        """Why it is not."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """What is worth knowing."""
        ...


class Endpoints:
    """Answers on one address until it is stopped."""

    def __init__(
        self,
        settings: Web,
        registry: CollectorRegistry,
        health: Health,
        reload: Callable[[], Reloaded],
        *,
        limits: Limits | None = None,
    ) -> None:
        self._settings = settings
        self._registry = registry
        self._health = health
        self._reload = reload
        self._reloading = threading.Lock()
        self._limits = limits or Limits()
        self._server: HttpServer | None = None
        self._thread: threading.Thread | None = None

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens, once it is started: with port 0, the port that was free."""
        assert self._server is not None, "not started"
        host, port = self._server.server_address[:2]
        return str(host), int(port)

    def start(self) -> None:
        """Listen; raises AppError when the address cannot be used."""
        guard = RequestGuard(self._settings, self._limits, self._routes())
        self._server = _bound(self._settings, guard)
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.1}, name="endpoints", daemon=True
        )
        self._thread.start()
        if not ipaddress.ip_address(self.address[0]).is_loopback:
            log.warning("the endpoints need no login and are not on loopback alone", key="web.address")

    def stop(self) -> None:
        """Listen no more; requests under way are not waited for."""
        if self._server is None or self._thread is None:
            return
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _routes(self) -> Mapping[str, tuple[str, Callable[[str], Answer]]]:
        """Path -> (method, answer to an Accept header)."""
        return {
            "/-/healthy": ("GET", lambda _: _state(self._health.healthy())),
            "/-/ready": ("GET", lambda _: _state(self._health.ready())),
            "/metrics": ("GET", self._metrics),
            "/-/openapi.json": ("GET", lambda _: Answer(HTTPStatus.OK, openapi_text().encode(), "application/json")),
            RELOAD: ("POST", lambda _: self._do_reload()),
        }

    def _metrics(self, accept: str) -> Answer:
        encode, kind = choose_encoder(accept)
        return Answer(HTTPStatus.OK, encode(self._registry), kind)

    def _do_reload(self) -> Answer:
        if not self._reloading.acquire(blocking=False):
            return Answer.text(HTTPStatus.CONFLICT, "a reload is under way")
        try:
            outcome = self._reload()
        finally:
            self._reloading.release()
        if outcome.ok:
            return Answer.text(HTTPStatus.OK, _lines(("reloaded", *outcome.notes)))
        return Answer.text(HTTPStatus.BAD_REQUEST, _lines(outcome.problems))


def openapi_text() -> str:
    """These endpoints as OpenAPI 3.1."""
    return (files("app.process.serving") / "openapi.json").read_text(encoding="utf-8")


def _state(state: tuple[bool, str]) -> Answer:
    good, reason = state
    return Answer.text(HTTPStatus.OK if good else HTTPStatus.SERVICE_UNAVAILABLE, _lines((reason or "ok",)))


def _lines(texts: tuple[str, ...]) -> str:
    """One per line, whatever is in them."""
    return "\n".join(" ".join(text.split()) for text in texts)


class RequestGuard:
    """Which requests are answered, and by whom."""

    def __init__(
        self, settings: Web, limits: Limits, routes: Mapping[str, tuple[str, Callable[[str], Answer]]]
    ) -> None:
        self.limits = limits
        self._routes = routes
        named = (settings.address, *settings.allowed_hosts)
        self._hosts = LOOPBACK_NAMES | {host.strip("[]").lower() for host in named}

    def answer(self, request: Request) -> Answer:
        """To one request; every defect of what answers ends here."""
        method, target, headers = request.method, request.target, request.headers
        hosts = headers.get_all("Host") or []
        if len(hosts) != 1 or host_of(hosts[0]) not in self._hosts:
            return Answer.text(HTTPStatus.FORBIDDEN, "the Host header names another machine; see web.allowed_hosts")
        path = target.partition("?")[0]
        if path not in self._routes:
            return Answer.text(HTTPStatus.NOT_FOUND, "not found")
        allowed, respond = self._routes[path]
        if method != allowed and (method, allowed) != ("HEAD", "GET"):
            return Answer.text(HTTPStatus.METHOD_NOT_ALLOWED, f"{path} answers {allowed} only", allow=allowed)
        if allowed == "POST" and _is_page(headers):
            return Answer.text(HTTPStatus.FORBIDDEN, "refused to web pages")
        try:
            return respond(headers.get("Accept") or "")
        except Exception:  # the boundary: a client is told nothing of the inside, the log everything
            log.exception("an endpoint failed", path=path)
            return Answer.text(HTTPStatus.INTERNAL_SERVER_ERROR, "internal error; see the log of the process")

    def refused(self, status: HTTPStatus) -> Answer:
        """To what cannot be read."""
        return Answer.text(status, status.phrase.lower())


def _is_page(headers: Message) -> bool:
    """Browsers name the page that a request comes from; tools do not."""
    return headers.get("Origin") is not None or (headers.get("Sec-Fetch-Site") or "none") != "none"


def _bound(settings: Web, guard: RequestGuard) -> HttpServer:
    try:
        found = socket.getaddrinfo(settings.address, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, *_, address = found[0]
        return HttpServer(family, address, guard)
    except OSError as error:
        raise AppError(_why_not(settings, error)) from error


def _why_not(settings: Web, error: OSError) -> str:
    off = "or switch the endpoints off (web.enabled: false)"
    if isinstance(error, PermissionError):
        return f"web.port: found {settings.port}, which this user may not use; expected one of 1024 or above, {off}"
    if error.errno == errno.EADDRINUSE and not isinstance(error, socket.gaierror):
        found = f"{settings.port}, which is taken on {settings.address}"
        remedy = f"stop the process that has it, choose another one (0: any free one), {off}"
        return f"web.port: found {found}; expected a free port; {remedy}"
    reason = error.strerror or str(error)
    return f"web.address: found {settings.address!r}: {reason}; expected an address of this machine, {off}"


__all__ = ["HEADERS", "Endpoints", "Health", "Limits", "Reloaded", "host_of"]
