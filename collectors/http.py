"""The one place that speaks HTTP: time limits, retries, redirects, size limits."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import urljoin, urlsplit

import requests
import tenacity

from collectors.base import OptionError, SourceUnavailableError

PASSING_STATUSES = frozenset({502, 503, 504})
"""A proxy or a server that is starting: worth asking again."""

REDIRECTS = frozenset({301, 302, 303, 307, 308})


@dataclass(frozen=True, slots=True)
class HttpOptions:
    """Limits of every request."""

    connect_timeout_s: float = 3.0
    read_timeout_s: float = 10.0
    """Longest silence of the server."""
    total_timeout_s: float = 30.0
    """Longest duration of one answer, however steadily it drips."""
    n_attempts: int = 3
    first_backoff_s: float = 0.2
    max_backoff_s: float = 2.0
    max_answer_bytes: int = 1 << 26
    max_redirects: int = 3
    verify_tls: bool | str = True
    """True, or the path of a bundle of certificates; False accepts any certificate."""

    def __post_init__(self) -> None:
        for name in ("connect_timeout_s", "read_timeout_s", "total_timeout_s", "n_attempts", "max_answer_bytes"):
            if getattr(self, name) <= 0:
                raise OptionError(f"http: {name} is {getattr(self, name)}; expected more than 0")


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


class _TooLongError(Exception):
    """An answer beyond the limits of size or time."""


class NoRedirectSession(requests.Session):
    """A session that leaves redirects to its caller.

    `allow_redirects=False` alone still reads the whole body of a redirect, however long, and parses where it points to.
    """

    def resolve_redirects(self, *_args: Any, **_kwargs: Any) -> Generator[requests.Response, None, None]:
        """None."""
        yield from ()


class HttpTransport:
    """GET over the network.

    Redirects are followed only to the servers named in `base_urls` (a ResourceManager points to its history server, a
    standby to the active one): anywhere else may be a login page or a trap, and the redirect itself is the answer.
    """

    def __init__(
        self,
        base_urls: tuple[str, ...],
        options: HttpOptions | None = None,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        for url in base_urls:
            check_url(url)
        self._servers = frozenset(_server(url) for url in base_urls)
        self._options = options or HttpOptions()
        self._monotonic_s = monotonic_s
        self._session = NoRedirectSession()
        self._session.trust_env = False  # neither proxies nor passwords from the environment or ~/.netrc
        self._session.headers["Accept"] = "application/json"
        self._retrying = tenacity.Retrying(
            stop=tenacity.stop_after_attempt(self._options.n_attempts),
            wait=tenacity.wait_random_exponential(self._options.first_backoff_s, self._options.max_backoff_s),
            retry=tenacity.retry_if_exception_type((requests.ConnectionError, requests.Timeout, _PassingStatusError)),
            reraise=True,
        )

    def get(self, base_url: str, path: str, now_ms: int) -> Answer:
        """As Transport; a status that passes is given as the answer when it stays."""
        url = base_url.rstrip("/") + path
        try:
            return self._retrying(self._follow, url, now_ms)
        except _PassingStatusError as error:
            return error.answer
        except (requests.RequestException, _TooLongError) as error:
            raise SourceUnavailableError(
                f"{url}: {error}; check that the server runs and the address is right"
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
        options = self._options
        deadline_s = self._monotonic_s() + options.total_timeout_s
        with self._session.get(
            url,
            timeout=(options.connect_timeout_s, options.read_timeout_s),
            allow_redirects=False,
            stream=True,
            verify=options.verify_tls,
        ) as response:
            pieces: list[bytes] = []
            n_bytes = 0
            for piece in response.iter_content(1 << 16):
                pieces.append(piece)
                n_bytes += len(piece)
                if n_bytes > options.max_answer_bytes:
                    raise _TooLongError(f"an answer of more than {options.max_answer_bytes} bytes")
                if self._monotonic_s() > deadline_s:
                    raise _TooLongError(f"the answer took more than {options.total_timeout_s} s")
            location = response.headers.get("Location", "")
            return Answer(
                url,
                response.status_code,
                response.headers.get("Content-Type", ""),
                b"".join(pieces),
                now_ms - _age_ms(response.headers.get("Age", "")),
                _target(url, location),
            )


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
