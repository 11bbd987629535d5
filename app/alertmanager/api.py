"""The API itself: paths, methods, and what answers them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from http import HTTPStatus
from importlib.resources import files
from itertools import chain
from typing import NamedTuple

import structlog

from app.alerting.dispatch.routes import Routing
from app.alerting.people import ForbiddenError, Person
from app.alertmanager import silences
from app.alertmanager.access import Access
from app.alertmanager.active import Active
from app.alertmanager.alerts import AlertAnswers, receiver_names
from app.alertmanager.answers import JSON, ApiError, coded, json_answer
from app.alertmanager.parameters import filters, flags, parsed, wanted
from app.alertmanager.status import status_json
from app.alertmanager.texts import AlertTexts
from app.clock import Clock
from app.errors import AppError
from app.process.serving.http_server import TEXT, Answer, Limits, Request
from app.settings import Settings
from app.store.api import Store

log = structlog.get_logger(__name__)

BASE = "/api/v2"
MAX_BODY_BYTES = 64 * 2**10
LIMITS = Limits(request_s=10.0, n_connections=64, n_head_bytes=16_384, n_body_bytes=MAX_BODY_BYTES, takes_chunks=True)
_SILENCE = re.compile(rf"{BASE}/silence/([^/]+)")
_CHALLENGE = ("WWW-Authenticate", 'Basic realm="clustercep", charset="UTF-8"')
NOT_OURS = (
    "clustercep takes no alerts from others: it finds its own (docs/alerting.md); send them to an Alertmanager, which "
    "clustercep can tell of its alerts, too (a receiver of kind alertmanager)"
)


class Asked(NamedTuple):
    """A request whose path is known."""

    request: Request
    query: str
    silence_id: str
    by: Person


Respond = Callable[[Asked], Answer]


class Api:
    """Answers requests; implements app.process.serving.http_server.Answering."""

    def __init__(
        self, store: Store, settings: Callable[[], Settings], access: Access, clock: Clock, limits: Limits = LIMITS
    ) -> None:
        """`settings`: as they are now."""
        self.limits = limits
        self._store = store
        self._settings = settings
        self._access = access
        self._clock = clock
        self._active = Active(store)
        self._texts = AlertTexts(store)
        self._routing: tuple[Settings, Routing | None] | None = None
        self._started_ms = clock.now_ms()
        self._routes: Mapping[str, Mapping[str, Respond]] = {
            f"{BASE}/status": {"GET": self._status},
            f"{BASE}/receivers": {"GET": self._receivers},
            f"{BASE}/alerts": {"GET": self._alerts, "POST": self._refuse_alerts},
            f"{BASE}/alerts/groups": {"GET": self._groups},
            f"{BASE}/silences": {"GET": self._silences, "POST": self._put_silence},
            f"{BASE}/silence/": {"GET": self._silence, "DELETE": self._end_silence},
            f"{BASE}/openapi.json": {"GET": self._openapi},
        }

    def answer(self, request: Request) -> Answer:
        """To one request; every defect of what answers ends here."""
        try:
            return self._answer(request)
        except ApiError as error:
            answer = error.answer()
            if error.status is HTTPStatus.UNAUTHORIZED:
                return Answer(answer.status, answer.body, answer.kind, headers=(_CHALLENGE,))
            return answer
        except ForbiddenError as error:
            return _forbidden(request, str(error))
        except AppError as error:  # the store is out, or the configuration cannot be read
            log.error("a request cannot be answered", reason=str(error))
            return json_answer("the store or the configuration cannot be read; see the log", _BROKEN)
        except Exception:  # the boundary: a client is told nothing of the inside, the log everything
            log.exception("a request failed")
            return json_answer("internal error; see the log of the process", _BROKEN)

    def refused(self, status: HTTPStatus) -> Answer:
        """To what cannot be read."""
        message = status.phrase.lower()
        if status is HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
            message = f"expected at most {MAX_BODY_BYTES // 2**10} KiB"
        return json_answer(coded(status.value, message), status)

    def _answer(self, request: Request) -> Answer:
        path, _, query = request.target.partition("?")
        if path in ("/-/healthy", "/-/ready") and request.method in ("GET", "HEAD"):
            return self._is_well(is_asked_for_store=path == "/-/ready")
        self._access.check_page(request.headers)
        silence = _SILENCE.fullmatch(path)
        routes = self._routes.get(f"{BASE}/silence/" if silence else path)
        if routes is None or path == f"{BASE}/silence/":
            self._access.reader(request.headers)
            raise ApiError(HTTPStatus.NOT_FOUND, f"path {path[:200]} was not found", 404)
        method = "GET" if request.method == "HEAD" else request.method
        is_read = method == "GET" or method not in routes
        by = (self._access.reader if is_read else self._access.writer)(request.headers)
        respond = routes.get(method)
        if respond is None:
            allowed = ",".join(sorted(routes))
            message = f"method {method[:20]} is not allowed, but [{allowed}] are"
            answer = json_answer(coded(405, message), HTTPStatus.METHOD_NOT_ALLOWED)
            return Answer(answer.status, answer.body, answer.kind, allow=allowed)
        if method == "POST":
            _check_kind(request)
        return respond(Asked(request, query, silence[1] if silence else "", by))

    def _is_well(self, *, is_asked_for_store: bool) -> Answer:
        if is_asked_for_store:
            try:
                self._store.next_flush_ms()
            except AppError as error:
                log.error("not ready", reason=str(error))
                return Answer(HTTPStatus.SERVICE_UNAVAILABLE, b"the store cannot be read", TEXT)
        return Answer(HTTPStatus.OK, b"OK", TEXT)

    # ------------------------------------------------------------------------ reads

    def _status(self, _asked: Asked) -> Answer:
        return json_answer(status_json(self._settings(), self._started_ms))

    def _receivers(self, asked: Asked) -> Answer:
        settings = self._settings()
        names = receiver_names(settings) if settings.alerting.route is None else list(settings.alerting.receivers)
        of_request = wanted(asked.query)
        return json_answer([{"name": name} for name in names if of_request.has_receiver(name)])

    def _alerts(self, asked: Asked) -> Answer:
        return _in_parts(self._answers().alerts(wanted(asked.query)))

    def _groups(self, asked: Asked) -> Answer:
        return _in_parts(self._answers().groups(wanted(asked.query)))

    def _answers(self) -> AlertAnswers:
        settings = self._settings()
        known = self._routing
        if known is None or known[0] is not settings:  # it remembers which routes alerts take
            known = self._routing = settings, Routing.of(settings.alerting)
        return AlertAnswers(self._store, self._active, self._texts, *known, self._clock.now_ms())

    def _silences(self, asked: Asked) -> Answer:
        found = parsed(asked.query)
        states = [state for state, is_wanted in flags(found, silences.STATES).items() if is_wanted]
        return json_answer(silences.listed(self._store, filters(found), self._clock.now_ms(), states))

    def _silence(self, asked: Asked) -> Answer:
        found = silences.one(self._store, asked.silence_id, self._clock.now_ms())
        return Answer(HTTPStatus.NOT_FOUND, kind="") if found is None else json_answer(found)

    def _openapi(self, _asked: Asked) -> Answer:
        return Answer(HTTPStatus.OK, openapi_text().encode(), JSON)

    # ----------------------------------------------------------------------- writes

    def _refuse_alerts(self, _asked: Asked) -> Answer:
        raise ApiError(HTTPStatus.BAD_REQUEST, NOT_OURS)

    def _put_silence(self, asked: Asked) -> Answer:
        silence_id = silences.put(self._store, asked.request.body, asked.by, self._clock.now_ms())
        log.info("a silence was made or changed", id=silence_id, by=asked.by.name)
        return json_answer({"silenceID": silence_id})

    def _end_silence(self, asked: Asked) -> Answer:
        silences.end(self._store, asked.silence_id, asked.by, self._clock.now_ms())
        log.info("a silence was ended", id=asked.silence_id, by=asked.by.name)
        return Answer(HTTPStatus.OK, kind="")


_BROKEN = HTTPStatus.INTERNAL_SERVER_ERROR

_TOLD_AS_BAD_REQUESTS = frozenset(
    {
        ("GET", f"{BASE}/alerts"),
        ("GET", f"{BASE}/alerts/groups"),
        ("GET", f"{BASE}/receivers"),
        ("GET", f"{BASE}/silences"),
        ("POST", f"{BASE}/alerts"),
        ("POST", f"{BASE}/silences"),
    }
)
"""What Alertmanager answers with 400 and a text, by its own description; there is no 403 in it."""


def _forbidden(request: Request, why: str) -> Answer:
    """In a form that amtool prints, where it has one: it drops what comes with a status that Alertmanager has not."""
    method = "GET" if request.method == "HEAD" else request.method
    if (method, request.target.partition("?")[0]) in _TOLD_AS_BAD_REQUESTS:
        return ApiError(HTTPStatus.BAD_REQUEST, why).answer()
    return json_answer(coded(403, why), HTTPStatus.FORBIDDEN)


def _in_parts(parts: Iterator[bytes]) -> Answer:
    """The first part is made before anything is sent: when the store is out, that is the answer."""
    return Answer(HTTPStatus.OK, kind=JSON, parts=chain([next(parts)], parts))


def _check_kind(request: Request) -> None:
    """Pages can send forms and plain text to anybody, JSON to none."""
    kinds = request.headers.get_all("Content-Type") or []
    kind = kinds[0].partition(";")[0].strip().lower() if len(kinds) == 1 else ""
    if kind != JSON:
        message = f'unsupported media type "{kind[:50]}", only [{JSON}] are allowed'
        raise ApiError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, message, 415)


@cache
def openapi_text() -> str:
    """What we have of API v2, as OpenAPI 3.1."""
    return (files("app.alertmanager") / "openapi.json").read_text(encoding="utf-8")


__all__ = ["BASE", "LIMITS", "NOT_OURS", "Api", "openapi_text"]
