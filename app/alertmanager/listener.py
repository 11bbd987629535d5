"""`clustercep api`: the listener of the API, in a process of its own, so that nobody who asks slows detection."""

from __future__ import annotations

import errno
import ipaddress
import os
import signal
import socket
import ssl
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import structlog

from app.alertmanager.access import Access
from app.alertmanager.api import LIMITS, Api
from app.alertmanager.credentials import Credentials
from app.clock import Clock
from app.config import CONFIG_VARIABLE, DEFAULT_FILE, load_settings
from app.errors import AppError, ConfigError, ConfigProblem
from app.process.serving.http_server import HttpServer, Limits
from app.process.signals import ENDING, handling
from app.process.spare_memory import rarely_collect
from app.settings import ApiSettings, Settings
from app.store.api import Store

log = structlog.get_logger(__name__)


class FollowedSettings:
    """The settings of a file as it is now; one that cannot be read leaves those of before."""

    def __init__(self, path: Path | None, read: Settings) -> None:
        self._path = path or Path(os.environ.get(CONFIG_VARIABLE, DEFAULT_FILE))
        self._lock = threading.Lock()
        self._state = self._look()
        self._settings = read

    def __call__(self) -> Settings:
        """Read again where the file has changed."""
        with self._lock:
            if (state := self._look()) != self._state:
                self._state = state
                try:
                    self._settings = load_settings(self._path)
                    log.info("the configuration was read again")
                except AppError as error:
                    log.error("the configuration cannot be read; that of before goes on", reason=str(error))
            return self._settings

    def _look(self) -> tuple[int, ...]:
        try:
            status = self._path.stat()
        except OSError:
            return ()
        return status.st_ino, status.st_size, status.st_mtime_ns


class Listener:
    """Answers on one address until it is stopped."""

    def __init__(
        self,
        settings: Callable[[], Settings],
        section: ApiSettings,
        store: Store,
        clock: Clock,
        limits: Limits = LIMITS,
    ) -> None:
        """Listen; raises ConfigError for what may not listen there, AppError when the address cannot be used."""
        family, address, is_loopback = _address(section)
        credentials = Credentials(section.tokens_file)
        tls = _tls(section)
        if not is_loopback:
            _check_open(section)
        access = Access(
            credentials,
            is_loopback=is_loopback,
            address=section.address,
            allowed_hosts=section.allowed_hosts,
            scheme="http" if tls is None else "https",
        )
        try:
            self._server = HttpServer(family, address, Api(store, settings, access, clock, limits), tls)
        except OSError as error:
            raise AppError(_why_not(section, error)) from error
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.1}, name="api", daemon=True
        )
        self._thread.start()
        self.scheme = "http" if tls is None else "https"

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens: with port 0, the port that was free."""
        host, port = self._server.server_address[:2]
        return str(host), int(port)

    def stop(self) -> None:
        """Listen no more; requests under way are not waited for."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@contextmanager
def listening(
    settings: Callable[[], Settings], section: ApiSettings, store: Store, clock: Clock, limits: Limits = LIMITS
) -> Iterator[Listener]:
    """A listener for a while."""
    listener = Listener(settings, section, store, clock, limits)
    try:
        yield listener
    finally:
        listener.stop()


def run_api(
    settings: Settings, config: Path | None, store: Store, clock: Clock, announce: Callable[[str], None]
) -> None:
    """Until SIGINT, SIGTERM or SIGHUP; raises AppError."""
    over = threading.Event()

    def end(_number: int, _frame: object) -> None:
        over.set()

    followed = FollowedSettings(config, settings)
    rarely_collect()
    with (
        handling(dict.fromkeys(map(signal.Signals, ENDING), end)),
        listening(followed, settings.api, store, clock) as listener,
    ):
        host, port = listener.address
        shown = f"[{host}]" if ":" in host else host
        announce(f"Alertmanager's API v2 at {listener.scheme}://{shown}:{port}, until SIGINT or SIGTERM.")
        if settings.api.tokens_file is None:
            announce("Silences can be read there, and not be made: api.tokens_file is not set.")
        while not over.wait(0.5):  # a signal that another thread took is seen then
            pass


def _address(section: ApiSettings) -> tuple[socket.AddressFamily, tuple[object, ...], bool]:
    try:
        found = socket.getaddrinfo(section.address, section.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise AppError(_why_not(section, error)) from error
    family, *_, address = found[0]
    return family, address, ipaddress.ip_address(str(address[0]).partition("%")[0]).is_loopback


def _check_open(section: ApiSettings) -> None:
    """Off loopback nobody reads or writes unseen and unnamed."""
    missing = [name for name in ("cert_file", "tokens_file") if getattr(section, name) is None]
    if missing:
        problems = tuple(
            ConfigProblem(
                f"api.{name}",
                "nothing",
                "a file, since api.address is not on loopback: reads and writes need TLS and a token there",
            )
            for name in missing
        )
        raise ConfigError("configuration", problems)


def _tls(section: ApiSettings) -> ssl.SSLContext | None:
    if section.cert_file is None:
        return None
    key_file = section.key_file or section.cert_file
    try:
        if key_file.stat().st_mode & stat.S_IROTH:
            found = f"{key_file}, which everybody on this machine may read"
            raise ConfigError("configuration", (ConfigProblem("api.key_file", found, f"chmod o-r {key_file}"),))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(section.cert_file, section.key_file, password=_no_password)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        problem = ConfigProblem("api.cert_file", reason, "PEM files with a certificate and its key, without a password")
        raise ConfigError("configuration", (problem,)) from None
    return context


def _no_password() -> str:
    raise ValueError("the key has a password")


def _why_not(section: ApiSettings, error: OSError) -> str:
    if isinstance(error, PermissionError):
        return f"api.port: found {section.port}, which this user may not use; expected one of 1024 or above"
    if error.errno == errno.EADDRINUSE and not isinstance(error, socket.gaierror):
        return (
            f"api.port: found {section.port}, which is taken on {section.address}; expected a free port; stop the "
            "process that has it, or choose another one (0: any free one)"
        )
    reason = error.strerror or str(error)
    return f"api.address: found {section.address!r}: {reason}; expected an address of this machine"


__all__ = ["FollowedSettings", "Listener", "listening", "run_api"]
