"""One HTTP request and its answer, within limits of time and size that hold whatever the other side does.

The time-outs of `requests` and urllib3 are those of one operation of a socket: a header, a body or a row of
`100 Continue` that comes byte by byte has no end. Here each operation may take what is left of the attempt, and each
byte that comes is counted before anybody looks at it. So there is one place that ends an attempt, under everything that
is built upon sockets: connecting, the TLS handshake, sending, status line, headers, chunks, bodies without a length.
"""

from __future__ import annotations

import ipaddress
import socket
import ssl
import threading
from collections.abc import Callable, Generator, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests
import urllib3
from requests.adapters import HTTPAdapter
from requests.cookies import RequestsCookieJar
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import ConnectTimeoutError, NameResolutionError, NewConnectionError
from urllib3.util.ssl_ import create_urllib3_context, resolve_cert_reqs

from collectors.base import OptionError
from collectors.network.daemon_threads import in_daemon_thread
from collectors.network.deadlines import remaining_s, within

MAX_HEAD_BYTES = 1 << 16
"""Of status line and headers, with all 1xx answers before them and the proxy's answer."""


@dataclass(frozen=True, slots=True)
class AttemptLimits:
    """Of one request and its answer."""

    total_s: float
    """From the name's look-up to the last byte."""
    connect_s: float
    """For each address of the server, and for the TLS handshake."""
    silence_s: float
    """Longest silence of the server."""
    max_body_bytes: int
    """As it comes and as it is unpacked."""


@dataclass(frozen=True, slots=True)
class Received:
    """An answer."""

    status: int
    headers: Mapping[str, str]
    """By name in any case."""
    body: bytes


class DeadlineError(requests.Timeout):
    """The attempt took longer than it may."""


class OversizeError(requests.ConnectionError):
    """The answer is longer than it may be."""


@dataclass(slots=True)
class _Attempt:
    """The one under way in this thread."""

    n_bytes_left: int = MAX_HEAD_BYTES
    too_long: bool = False

    def count(self, n_bytes: int) -> None:
        """So much has come."""
        self.n_bytes_left -= n_bytes
        if self.n_bytes_left < 0:
            self.too_long = True
            raise ConnectionAbortedError("more bytes than an answer may have")


_attempt: ContextVar[_Attempt] = ContextVar("attempt")


class _Limited(socket.socket):
    """A socket whose operations end with the attempt under way: one that is kept alive serves many attempts."""

    _silence_s: float | None = None

    def settimeout(self, value: float | None, /) -> None:
        """The longest silence."""
        self._silence_s = value
        super().settimeout(value)

    def _arm(self) -> None:
        left_s = remaining_s()
        if left_s <= 0:
            raise TimeoutError("the attempt is over")
        super().settimeout(left_s if self._silence_s is None else min(left_s, self._silence_s))

    def connect(self, address: Any, /) -> None:
        """As socket."""
        self._arm()
        super().connect(address)

    def recv(self, bufsize: int = 1024, flags: int = 0) -> bytes:
        """As socket."""
        self._arm()
        received = super().recv(bufsize, flags)
        _attempt.get().count(len(received))
        return received

    def recv_into(self, buffer: Any, *size_and_flags: Any) -> int:
        """As socket."""
        self._arm()
        n_bytes = super().recv_into(buffer, *size_and_flags)
        _attempt.get().count(n_bytes)
        return n_bytes

    def send(self, data: Any, flags: int = 0, /) -> int:
        """As socket."""
        self._arm()
        return super().send(data, flags)

    def sendall(self, data: Any, flags: int = 0, /) -> None:
        """As socket, whose time-out is one for all data; over TLS each piece comes back to `send`."""
        self._arm()
        super().sendall(data, flags)


class _LimitedTls(_Limited, ssl.SSLSocket):
    """The same over TLS."""

    def do_handshake(self, block: bool = False) -> None:
        """As SSLSocket, whose time-out is one for the whole handshake."""
        self._arm()
        super().do_handshake(block)


class _Resolver:
    """Looks up names in threads of its own: the system's resolver cannot be interrupted.

    An attempt waits as long as it may. Whoever asks for a name that is being looked up waits for the same answer, so
    that a resolver that hangs holds one thread per name and no more.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._under_way: dict[tuple[str, int], Future[list[Any]]] = {}

    def addresses(self, host: str, port: int) -> list[Any]:
        """As socket.getaddrinfo; raises its errors, and TimeoutError."""
        if _is_address(host):
            return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        key = (host, port)
        with self._lock:
            future = self._under_way.get(key)
            if future is None:
                future = in_daemon_thread(lambda: self._look_up(key), "resolver")
                self._under_way[key] = future
        return future.result(timeout=remaining_s())

    def _look_up(self, key: tuple[str, int]) -> list[Any]:
        try:
            return socket.getaddrinfo(*key, type=socket.SOCK_STREAM)
        finally:
            with self._lock:
                self._under_way.pop(key, None)


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True


_resolver = _Resolver()


def connected(host: str, port: int, silence_s: float) -> socket.socket:
    """A connection whose operations end with the attempt under way (`limited`); raises OSError."""
    failure: OSError = OSError("the name has no address")
    for family, kind, protocol, _, address in _resolver.addresses(host, port):
        found = _Limited(family, kind, protocol)
        try:
            found.settimeout(silence_s)
            found.connect(address)
        except OSError as error:
            found.close()
            failure = error
        else:
            return found
    raise failure


@contextmanager
def limited(total_s: float, max_bytes: int) -> Iterator[None]:
    """What is done with `connected` sockets inside ends within so many seconds, and reads so many bytes at most."""
    with within(total_s), _under_way(_Attempt(max_bytes)):
        yield


def limited_tls(ca_file: Path | None, certificate: tuple[Path, Path | None] | None) -> ssl.SSLContext:
    """TLS over `connected` sockets: the other side's name and certificate are checked. Raises OSError."""
    context = ssl.create_default_context(cafile=ca_file)
    context.sslsocket_class = _LimitedTls
    if certificate is not None:
        context.load_cert_chain(*certificate, password="")
    return context


class _Connection(HTTPConnection):
    """Connects limited sockets."""

    def _new_conn(self) -> socket.socket:
        try:
            found = _resolver.addresses(self._dns_host.strip("[]"), self.port)
        except (socket.gaierror, UnicodeError) as error:
            reason = error if isinstance(error, socket.gaierror) else socket.gaierror(socket.EAI_NONAME, str(error))
            raise NameResolutionError(self.host, self, reason) from error
        except TimeoutError as error:
            raise ConnectTimeoutError(self, f"the name {self.host} is not looked up in time") from error
        failure: OSError = OSError("the name has no address")
        for family, kind, protocol, _, address in found:
            connected = _Limited(family, kind, protocol)
            try:
                for option in self.socket_options or ():
                    connected.setsockopt(*option)
                connected.settimeout(self.timeout)
                connected.connect(address)
            except OSError as error:
                connected.close()
                failure = error
            else:
                return connected
        if isinstance(failure, TimeoutError):
            raise ConnectTimeoutError(self, f"connection to {self.host} timed out") from failure
        raise NewConnectionError(self, f"no connection: {failure}") from failure


class _TlsConnection(_Connection, HTTPSConnection):
    """The same over TLS."""

    def connect(self) -> None:
        """As HTTPSConnection, which would make a context of its own."""
        if self.ssl_context is None:
            self.ssl_context = _tls_context(self.cert_reqs)
        super().connect()


def _tls_context(cert_reqs: int | str | None) -> ssl.SSLContext:
    context = create_urllib3_context(cert_reqs=resolve_cert_reqs(cert_reqs))
    context.sslsocket_class = _LimitedTls
    return context


class _Pool(urllib3.HTTPConnectionPool):
    ConnectionCls = _Connection


class _TlsPool(urllib3.HTTPSConnectionPool):
    ConnectionCls = _TlsConnection


class _LimitedAdapter(HTTPAdapter):
    """Gives `requests` the limited connections, also to and through proxies."""

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        """As HTTPAdapter."""
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = {"http": _Pool, "https": _TlsPool}

    def proxy_manager_for(self, proxy: str, **proxy_kwargs: Any) -> Any:
        """As HTTPAdapter."""
        proxy_kwargs.setdefault("proxy_ssl_context", _tls_context("CERT_REQUIRED"))
        manager = super().proxy_manager_for(proxy, **proxy_kwargs)
        manager.pool_classes_by_scheme = {"http": _Pool, "https": _TlsPool}
        return manager


class _NoCookies(RequestsCookieJar):
    """One that stays empty: servers of several users are asked through one address, the ResourceManager's."""

    def extract_cookies(self, response: Any, request: Any) -> None:
        """None."""


class AttemptSession(requests.Session):
    """Connections that are kept between attempts, for `attempt`: no redirects, no cookies, nothing unasked.

    Redirects are left to the caller: `allow_redirects=False` alone still reads the whole body of a redirect, however
    long, and parses where it points to. From the environment and ~/.netrc come neither proxies nor passwords.
    """

    def __init__(self, n_connections: int = 10) -> None:
        """`n_connections` are kept per server."""
        super().__init__()
        self.trust_env = False
        self.cookies = _NoCookies()
        for scheme in ("http://", "https://"):
            self.mount(scheme, _LimitedAdapter(pool_maxsize=n_connections))

    def resolve_redirects(self, *_args: Any, **_kwargs: Any) -> Generator[requests.Response, None, None]:
        """None."""
        yield from ()


def attempt(
    session: AttemptSession,
    method: str,
    url: str,
    limits: AttemptLimits,
    *,
    read_body: bool = True,
    excerpt: Callable[[int], int] = lambda _status: 0,
    **request: Any,
) -> Received:
    """Send a request once, and read the answer; `request` as for `requests.Session.request`.

    `excerpt`: of an answer whose body is not read, so many bytes at most are read nevertheless.

    Raises DeadlineError, OversizeError, and what `requests` raises; UnicodeError and ValueError for an impossible URL.
    """
    with within(limits.total_s):
        whole_s = remaining_s()
        state = _Attempt()
        with _named(state, whole_s, limits), _under_way(state):
            if whole_s <= 0:
                raise requests.Timeout
            timeout = (limits.connect_s, limits.silence_s)
            with session.request(
                method, url, timeout=timeout, allow_redirects=False, stream=True, **request
            ) as response:
                state.n_bytes_left += limits.max_body_bytes
                body = _body(response, state, limits) if read_body else _excerpt(response, state, excerpt)
                return Received(response.status_code, response.headers, body)


@contextmanager
def _under_way(state: _Attempt) -> Iterator[None]:
    token = _attempt.set(state)
    try:
        yield
    finally:
        _attempt.reset(token)


@contextmanager
def _named(state: _Attempt, whole_s: float, limits: AttemptLimits) -> Iterator[None]:
    """What ends an attempt is told by its name: it comes up through layers that know time-outs of sockets alone."""
    try:
        yield
    except (OSError, urllib3.exceptions.HTTPError) as error:  # RequestException is an OSError
        if state.too_long:
            n_bytes = limits.max_body_bytes
            raise OversizeError(f"an answer of more than {n_bytes} bytes, or {MAX_HEAD_BYTES} of headers") from error
        if remaining_s() <= 0:
            raise DeadlineError(f"the answer took more than {whole_s:.3g} s") from error
        if isinstance(error, requests.RequestException):
            raise
        # A file of certificates that is gone, and what else `requests` lets through.
        raise requests.ConnectionError(str(error)) from error


EXCERPT_S = 1.0
"""A body of which only the beginning is wanted is waited for so long."""


def _excerpt(response: requests.Response, state: _Attempt, wanted: Callable[[int], int]) -> bytes:
    """The beginning of a body as it comes; what went wrong with it changes nothing of the answer."""
    n_bytes = wanted(response.status_code)
    pieces: list[bytes] = []
    if n_bytes <= 0:
        return b""
    state.n_bytes_left += n_bytes + MAX_HEAD_BYTES
    with within(EXCERPT_S), suppress(OSError, urllib3.exceptions.HTTPError, ValueError):
        while n_bytes > 0 and (piece := response.raw.read1(n_bytes)):
            pieces.append(piece[:n_bytes])
            n_bytes -= len(piece)
    state.too_long = False
    return b"".join(pieces)


def _body(response: requests.Response, state: _Attempt, limits: AttemptLimits) -> bytes:
    pieces: list[bytes] = []
    n_bytes = 0
    for piece in response.iter_content(1 << 16):
        pieces.append(piece)
        n_bytes += len(piece)
        if n_bytes > limits.max_body_bytes:
            state.too_long = True
        if state.too_long or remaining_s() <= 0:
            raise requests.Timeout
    return b"".join(pieces)


def post(
    url: str,
    body: bytes,
    headers: Mapping[str, str],
    timeout_s: float,
    ca_file: Path | None = None,
    *,
    client_certificate: tuple[Path, Path | None] | None = None,
    excerpt: Callable[[int], int] = lambda _status: 0,
) -> Received:
    """POST once within `timeout_s`, through the environment's proxies.

    `ca_file`: certificates that are trusted in place of the usual ones; `client_certificate`: a certificate and its
    key, None where the key stands beside it. `excerpt`: of a status, how many bytes of the answer's body are read at
    most, within a second; what of it fails to come is left out. Raises as `attempt`.
    """
    limits = AttemptLimits(timeout_s, timeout_s, timeout_s, max_body_bytes=0)
    # A session of its own: a proxy, a certificate or an address that has changed is seen by the next attempt.
    with AttemptSession() as session:
        request: dict[str, Any] = {
            "data": body,
            "headers": {"Accept-Encoding": "identity", **headers},
            "proxies": requests.utils.get_environ_proxies(url),
            "verify": True if ca_file is None else str(ca_file),
        }
        if client_certificate is not None:
            certificate, key = client_certificate
            request["cert"] = str(certificate) if key is None else (str(certificate), str(key))
        return attempt(session, "POST", url, limits, read_body=False, excerpt=excerpt, **request)


def check_ca_file(path: Path) -> None:
    """Raise OptionError unless `path` is a PEM file with certificates; the message is the path and why it is none."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        with path.open("rb"):  # a path that cannot be read is told as such, not as one without certificates
            context.load_verify_locations(path)
    except ssl.SSLError as error:
        raise OptionError(f"{path}, which holds no certificates") from error
    except OSError as error:
        raise OptionError(f"{path}: {error.strerror or error}") from error
    if not context.cert_store_stats()["x509"]:
        raise OptionError(f"{path}, which holds no certificates")
