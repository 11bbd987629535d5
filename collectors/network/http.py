"""Documents over HTTP: retries and redirects; `http_attempt` is one request and its limits."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urljoin, urlsplit

import requests
import tenacity
from tenacity.stop import stop_base

from collectors.base import OptionError, SourceUnavailableError
from collectors.network.deadlines import remaining_s, within
from collectors.network.http_attempt import AttemptLimits, AttemptSession, OversizeError, Received, attempt
from collectors.network.kerberos import Kerberos, KerberosError, Negotiation
from collectors.option_checks import check_positive

PASSING_STATUSES = frozenset({502, 503, 504})
"""A proxy or a server that is starting: worth asking again."""

REDIRECTS = frozenset({301, 302, 303, 307, 308})

MAX_CONNECTIONS = 100
"""That are kept open to one server: as many as threads may ask side by side."""

_OBJECT = re.compile(r"^\w+\(host=.{0,300}?, port=\w+\): ")
"""Which pool or connection it was, as urllib3 begins its messages."""


@dataclass(frozen=True, slots=True)
class HttpOptions:
    """Limits of every request, whom it trusts and who asks."""

    connect_timeout_s: float = 3.0
    read_timeout_s: float = 10.0
    """Longest silence of the server."""
    total_timeout_s: float = 30.0
    """Longest wait for one document, further attempts and redirects included, however steadily it drips."""
    n_attempts: int = 3
    first_backoff_s: float = 0.2
    max_backoff_s: float = 2.0
    max_answer_bytes: int = 1 << 26
    max_redirects: int = 3
    accept: str = "application/json"
    verify_tls: bool | str = True
    """True, or the path of a bundle of certificates; False accepts any certificate."""
    client_certificate: tuple[Path, Path | None] | None = None
    """PEM files of one to show and of its key, None where that stands beside it."""
    kerberos: Kerberos | None = None
    """Whose tickets are shown to the servers that are asked, and to no other."""

    def __post_init__(self) -> None:
        check_positive(
            "http", self, ("connect_timeout_s", "read_timeout_s", "total_timeout_s", "n_attempts", "max_answer_bytes")
        )


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server answered; `url` is where it came from in the end."""

    url: str
    status: int
    content_type: str
    body: bytes
    t_ms: int = 0
    """The state it tells of is that of this time or later: the poll's, less the `Age` that a cache or replay admits."""
    location: str = ""
    """Where a redirect that was not followed points to."""


class Transport(Protocol):
    """Fetches documents; raises SourceUnavailableError when no answer can be had."""

    def get(self, base_url: str, path: str, now_ms: int) -> Answer:
        """The answer to GET base_url + path, asked at `now_ms`."""
        ...


class _PassingStatusError(Exception):
    """An answer that may be better in a moment."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(f"{answer.url}: status {answer.status}")
        self.answer = answer


def _may_pass(error: BaseException) -> bool:
    passing = (requests.ConnectionError, requests.Timeout, _PassingStatusError)
    return isinstance(error, passing) and not isinstance(error, OversizeError)


class _StopWhenOver(stop_base):
    """No attempt can begin any more."""

    def __call__(self, retry_state: tenacity.RetryCallState) -> bool:
        del retry_state
        return remaining_s() <= 0


class HttpTransport:
    """GET over the network; several threads may ask at once.

    Redirects are followed only to the servers named in `base_urls` (a ResourceManager points to its history server, a
    standby to the active one): anywhere else may be a login page or a trap, and the redirect itself is the answer.
    """

    def __init__(
        self,
        base_urls: tuple[str, ...],
        options: HttpOptions | None = None,
        authorization: Callable[[], str | None] = lambda: None,
    ) -> None:
        """`authorization`: the header of this name, asked for at each attempt."""
        for url in base_urls:
            check_url(url)
        self._servers = frozenset(_server(url) for url in base_urls)
        self._options = options or HttpOptions()
        self._limits = AttemptLimits(
            self._options.total_timeout_s,
            self._options.connect_timeout_s,
            self._options.read_timeout_s,
            self._options.max_answer_bytes,
        )
        self._session = AttemptSession(MAX_CONNECTIONS)
        self._session.headers["Accept"] = self._options.accept
        self._authorization = authorization
        backoff = tenacity.wait_random_exponential(self._options.first_backoff_s, self._options.max_backoff_s)
        self._retrying = tenacity.Retrying(
            stop=tenacity.stop_any(tenacity.stop_after_attempt(self._options.n_attempts), _StopWhenOver()),
            wait=lambda state: min(backoff(state), remaining_s()),
            retry=tenacity.retry_if_exception(_may_pass),
            reraise=True,
        )

    def get(self, base_url: str, path: str, now_ms: int) -> Answer:
        """As Transport; a status that passes is given as the answer when it stays."""
        url = base_url.rstrip("/") + path
        try:
            with within(self._options.total_timeout_s):
                return self._retrying(self._follow, url, now_ms)
        except _PassingStatusError as error:
            return error.answer
        except requests.exceptions.SSLError as error:
            raise SourceUnavailableError(
                f"{url}: {_innermost(error)}; check its certificate and name against ca_file, and cert_file where it "
                "asks for one"
            ) from error
        except (requests.RequestException, ValueError) as error:
            raise SourceUnavailableError(
                f"{url}: {_plainly(error)}; check that the server runs and the address is right"
            ) from error

    def _follow(self, url: str, now_ms: int) -> Answer:
        answer = self._once(url, now_ms)
        for _ in range(self._options.max_redirects):
            if answer.status not in REDIRECTS or _server(answer.location) not in self._servers:
                break
            answer = self._once(answer.location, now_ms)
        if answer.status in PASSING_STATUSES:
            raise _PassingStatusError(answer)
        return answer

    def _once(self, url: str, now_ms: int) -> Answer:
        received = self._received(url)
        return Answer(
            url,
            received.status,
            received.headers.get("Content-Type", ""),
            received.body,
            now_ms - _age_ms(received.headers.get("Age", "")),
            _target(url, received.headers.get("Location", "")),
        )

    def _received(self, url: str) -> Received:
        kerberos = self._options.kerberos
        if kerberos is None or _server(url) not in self._servers:
            return self._asked(url, self._authorization())
        received, negotiation = self._with_ticket(url, kerberos)
        told = received.headers.get("WWW-Authenticate", "")
        if negotiation.is_refused(received.status, told) and kerberos.renew():
            received, negotiation = self._with_ticket(url, kerberos)  # its key may be newer than the ticket
            told = received.headers.get("WWW-Authenticate", "")
        try:
            negotiation.check(received.status, told)
        except KerberosError as error:
            raise KerberosError(f"{url}: {error}") from None
        if received.status == 401:
            message = "the server refuses the ticket: compare its clock, its key and its realm with those of the KDC"
            raise KerberosError(f"{url}: {message}")
        return received

    def _with_ticket(self, url: str, kerberos: Kerberos) -> tuple[Received, Negotiation]:
        try:
            negotiation = kerberos.negotiate(urlsplit(url).hostname or "")
        except KerberosError as error:
            raise KerberosError(f"{url}: {error}") from None
        return self._asked(url, negotiation.header), negotiation

    def _asked(self, url: str, authorization: str | None) -> Received:
        request: dict[str, Any] = {"verify": self._options.verify_tls}
        if authorization is not None:
            request["headers"] = {"Authorization": authorization}
        if self._options.client_certificate is not None:
            certificate, key = self._options.client_certificate
            request["cert"] = str(certificate) if key is None else (str(certificate), str(key))
        return attempt(self._session, "GET", url, self._limits, **request)


def _innermost(error: BaseException) -> BaseException:
    """What the layers below `requests` wrap, each in words of its own."""
    inner = getattr(error, "reason", None) or next(iter(error.args), None)
    return _innermost(inner) if isinstance(inner, Exception) else error


def _plainly(error: BaseException) -> str:
    """What happened, without the address once more and the names of classes: it stands in the summaries of alerts."""
    inner = _innermost(error)
    told = inner.args[-1] if len(inner.args) > 1 else inner  # ("Connection aborted.", why)
    return _OBJECT.sub("", str(told))


def _target(url: str, location: str) -> str:
    """Where a redirect points to, as it stands when it is no address at all."""
    try:
        return urljoin(url, location) if location else ""
    except ValueError:
        return location


def _age_ms(header: str) -> int:
    """RFC 9111, 5.1: seconds since the answer was made."""
    return int(header) * 1000 if header.isascii() and header.isdigit() and len(header) < 10 else 0


def check_url(url: str) -> None:
    """Raise OptionError unless `url` is http(s)://host[:port][/path] without user or password."""
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.username is None
        _ = parts.port
    except ValueError:
        valid = False
    if not valid:
        raise OptionError("http: an address is not of the form http(s)://host[:port]; it may not hold a password")


def _server(url: str) -> tuple[str, str, int] | None:
    try:
        parts = urlsplit(url)
        default = 443 if parts.scheme == "https" else 80
        return (parts.scheme, parts.hostname, parts.port or default) if parts.hostname else None
    except ValueError:
        return None
