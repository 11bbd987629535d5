"""Who may ask for what: refusals of a request before it is looked at.

Reads on loopback need nobody's name; all else needs credentials, and writes the role operator. Web pages of other
origins are refused whatever they ask for: an operator's browser may have a password for this server.
"""

from __future__ import annotations

import time
from email.message import Message
from http import HTTPStatus
from urllib.parse import urlsplit

import structlog

from app.alerting.people import ForbiddenError, Person, Role
from app.alertmanager.answers import ApiError
from app.alertmanager.credentials import Credentials, WrongCredentialsError
from app.process.serving.http_server import host_of

log = structlog.get_logger(__name__)

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
REFUSALS_TOLD_EVERY_S = 60.0
ANYBODY = Person("anonymous", Role.VIEWER)


class Access:
    """For one listener."""

    def __init__(
        self, credentials: Credentials, *, is_loopback: bool, address: str, allowed_hosts: tuple[str, ...], scheme: str
    ) -> None:
        self._credentials = credentials
        self._is_loopback = is_loopback
        named = (address, *allowed_hosts)
        self._hosts = LOOPBACK_NAMES | {host.strip("[]").lower() for host in named}
        self._scheme = scheme
        self._told_s = -REFUSALS_TOLD_EVERY_S

    def check_page(self, headers: Message) -> None:
        """Refuse what another origin's page asks for, also under a name that was pointed at this machine.

        A page of Grafana asks Grafana's server, which passes the request on without Origin, and with a Sec-Fetch-Site
        that tells how the page stands to Grafana: same-origin. Raises ApiError, for a Host that is not ours
        ForbiddenError.
        """
        hosts = headers.get_all("Host") or []
        if len(hosts) != 1 or not host_of(hosts[0]):
            raise ApiError(HTTPStatus.BAD_REQUEST, "expected one Host header", 400)
        if self._is_loopback and host_of(hosts[0]) not in self._hosts:
            raise ForbiddenError("the Host header names another machine; see api.allowed_hosts")
        origins = headers.get_all("Origin") or []
        own = f"{self._scheme}://{hosts[0].strip().lower()}"
        if any(_origin(origin) != _origin(own) for origin in origins):
            raise ApiError(HTTPStatus.FORBIDDEN, "refused to web pages of other origins", 403)
        sites = {site.strip().lower() for site in headers.get_all("Sec-Fetch-Site") or []}
        if sites - {"none", "same-origin"}:
            raise ApiError(HTTPStatus.FORBIDDEN, "refused to web pages of other origins", 403)

    def person(self, headers: Message) -> Person | None:
        """Who asks; None: nobody says so. Raises ApiError for who is somebody else."""
        given = headers.get_all("Authorization") or []
        try:
            if len(given) > 1:
                raise WrongCredentialsError
            return self._credentials.person(given[0] if given else None)
        except WrongCredentialsError:
            self._tell_refusal()
            raise ApiError(HTTPStatus.UNAUTHORIZED, "wrong credentials", 401) from None

    def _tell_refusal(self) -> None:
        """Not of each: whoever tries tokens does not fill the log."""
        now_s = time.monotonic()
        if now_s >= self._told_s + REFUSALS_TOLD_EVERY_S:
            self._told_s = now_s
            log.warning("somebody was refused: wrong credentials")

    def reader(self, headers: Message) -> Person:
        """Who reads; raises ApiError."""
        person = self.person(headers)
        if person is not None:
            return person
        if self._is_loopback:
            return ANYBODY
        raise _who()

    def writer(self, headers: Message) -> Person:
        """Who writes; raises ApiError, ForbiddenError for who may not."""
        person = self.person(headers)
        if person is None:
            raise _who()
        if person.role.rank < Role.OPERATOR.rank:
            raise ForbiddenError(f"{person.name} is {person.role}; expected an operator or admin")
        return person


def _who() -> ApiError:
    return ApiError(
        HTTPStatus.UNAUTHORIZED,
        "expected credentials: a token of api.tokens_file, as Authorization: Bearer, or as the password of its name",
        401,
    )


def _origin(text: str) -> tuple[str, str, int | None]:
    """Scheme, host, port; one that cannot be read equals no other."""
    try:
        parts = urlsplit(text.strip().lower())
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
        return (parts.scheme, parts.hostname or text, port) if parts.hostname else ("", text, None)
    except ValueError:
        return "", text, None


__all__ = ["ANYBODY", "Access"]
