"""Kerberos over HTTP (SPNEGO, RFC 4559): tickets by a keytab, one token per request, the server's own proof.

Built upon `gssapi` rather than on requests-gssapi, whose context is one per host and not per request: here several
threads ask one server at a time, tickets are renewed while they do, and every wait for the KDC ends with the attempt.
"""

from __future__ import annotations

import base64
import binascii
import importlib
import itertools
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from collectors.base import OptionError, SourceUnavailableError
from collectors.network.daemon_threads import in_daemon_thread
from collectors.network.deadlines import remaining_s
from collectors.printable import printable

SCHEME = "Negotiate"
REFUSALS = (401, 403)
"""Hadoop answers 403 to a ticket that it cannot read."""
_SPNEGO = "1.3.6.1.5.5.2"

MAX_WAITING = 16
"""Threads that wait for the KDC at a time: libkrb5 cannot be interrupted, and gives up by itself within a minute."""
RENEWAL_PAUSE_S = 600.0
"""Tickets that servers refuse are got anew at most so often: a server that refuses all must not busy the KDC."""
MAX_TEXT_CHARS = 300

_names = itertools.count()
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class KerberosOptions:
    """Who asks."""

    principal: str
    keytab: Path
    mutual_authentication: bool = True
    """Whether an answer counts only when its server has proved, by its own key, who it is."""


class KerberosError(SourceUnavailableError):
    """No ticket is to be had, or the server did not prove who it is."""


class Negotiation:
    """Of one request and its answer."""

    def __init__(self, service: str, context: Any, token: bytes, errors: type[Exception], *, mutual: bool) -> None:
        self._service, self._context, self._errors, self._mutual = service, context, errors, mutual
        self.header = f"{SCHEME} {base64.b64encode(token).decode()}"
        """The request's `Authorization`."""

    @staticmethod
    def is_refused(status: int, header: str) -> bool:
        """Whether the server does not take the ticket, rather than not let the principal do what it asks."""
        return status in REFUSALS and _server_token(header) is None

    def check(self, status: int, header: str) -> None:
        """Raise KerberosError unless the server's answer proves who it is; `header`: its `WWW-Authenticate`.

        A failure (401, 403, 5xx) tells nothing that is believed, so it needs no proof.
        """
        token = _server_token(header)
        if status in REFUSALS or status >= 500:
            return
        if token is None:
            if self._mutual:
                raise KerberosError(
                    f"the server answered {status} without proof that it is {self._service}: does it use Kerberos? "
                    "If it does not, leave kerberos out for it; mutual_authentication: false does without the proof"
                )
            return
        try:
            self._context.step(token)
            is_proved = self._context.complete  # which tells, too, of errors that `step` keeps to itself
        except self._errors as error:
            raise KerberosError(f"the server's proof that it is {self._service} is wrong: {_told(error)}") from None
        if not is_proved:
            raise KerberosError(f"the server's proof that it is {self._service} is none")


class Kerberos:
    """The credentials of one principal; several threads may ask at once."""

    def __init__(self, options: KerberosOptions, monotonic: Callable[[], float] = time.monotonic) -> None:
        """Raises OptionError where the optional package is missing or the keytab cannot serve; asks no KDC."""
        self._gssapi = _library()
        self._options, self._monotonic = options, monotonic
        self._flags = self._gssapi.RequirementFlag.mutual_authentication
        self._mechanism = self._gssapi.OID.from_int_seq(_SPNEGO)
        self._check_keytab()
        self._waiting = threading.BoundedSemaphore(MAX_WAITING)
        self._lock = threading.Lock()
        self._cache = _cache_name()
        self._held: Any = None
        self._renewed_s = -RENEWAL_PAUSE_S

    def negotiate(self, host: str) -> Negotiation:
        """A token for `host` alone, by a ticket that holds; raises KerberosError, within the attempt."""
        service = f"HTTP@{host}"
        context, token = self._in_time(lambda: self._token(service))
        return Negotiation(
            service,
            context,
            token,
            self._gssapi.exceptions.GSSError,
            mutual=self._options.mutual_authentication,
        )

    def renew(self) -> bool:
        """Get all tickets anew, as a server refuses those that there are; False when they were just renewed."""
        with self._lock:
            now_s = self._monotonic()
            if now_s - self._renewed_s < RENEWAL_PAUSE_S:
                return False
            self._renewed_s, self._cache, self._held = now_s, _cache_name(), None
            return True

    def _in_time(self, call: Callable[[], _T]) -> _T:
        # Threads of daemons have no deadline of their own: the one of the caller bounds its wait.
        left_s = remaining_s()
        if not self._waiting.acquire(timeout=min(left_s, threading.TIMEOUT_MAX)):
            raise KerberosError("the KDC does not answer: too many wait for it")

        def and_release() -> _T:
            try:
                return call()
            finally:
                self._waiting.release()

        try:
            return in_daemon_thread(and_release, "kerberos").result(timeout=min(remaining_s(), threading.TIMEOUT_MAX))
        except TimeoutError:
            raise KerberosError("no ticket in time: does the KDC (krb5.conf) answer?") from None

    def _token(self, service: str) -> tuple[Any, bytes]:
        gssapi = self._gssapi
        try:
            name = gssapi.Name(service, gssapi.NameType.hostbased_service)
            context = gssapi.SecurityContext(
                name=name, creds=self._credentials(), mech=self._mechanism, flags=self._flags, usage="initiate"
            )
            token = context.step()
        except gssapi.exceptions.GSSError as error:
            raise KerberosError(f"no ticket of {self._options.principal} for {service}: {_told(error)}") from None
        if not token:
            raise KerberosError(f"no ticket of {self._options.principal} for {service}: the library made no token")
        return context, token

    def _credentials(self) -> Any:
        """Those that hold: libkrb5 gets them by the keytab, and anew when half of their life is over."""
        with self._lock:
            cache = self._cache
        try:
            found = self._acquired(usage="initiate", store={"client_keytab": self._keytab, "ccache": cache})
        except self._gssapi.exceptions.GSSError:
            with self._lock:
                held = self._held
            if held is None or self._is_over(held):
                raise
            return held  # the KDC is away; what there is serves until it is over
        with self._lock:
            if self._cache == cache:
                self._held = found
        return found

    def _acquired(self, **of: Any) -> Any:
        gssapi = self._gssapi
        principal = gssapi.Name(self._options.principal, gssapi.NameType.kerberos_principal)
        return gssapi.Credentials(name=principal, **of)

    def _is_over(self, credentials: Any) -> bool:
        try:
            lifetime_s = credentials.lifetime
        except self._gssapi.exceptions.GSSError:
            return True
        return lifetime_s is not None and lifetime_s <= 0

    @property
    def _keytab(self) -> str:
        return f"FILE:{self._options.keytab}"

    def _check_keytab(self) -> None:
        keytab = self._options.keytab
        try:
            with keytab.open("rb"):  # a file that cannot be read is told as such, not as one without keys
                pass
        except OSError as error:
            raise OptionError(f"{keytab}: {error.strerror or error}") from None
        try:
            self._acquired(usage="accept", store={"keytab": self._keytab})
        except self._gssapi.exceptions.GSSError as error:
            raise OptionError(f"{keytab} has no key of {self._options.principal}: {_told(error)}") from None


def _library() -> Any:
    try:
        return importlib.import_module("gssapi")
    except (ImportError, OSError) as error:  # OSError: without the shared libraries it is built against
        raise OptionError(
            f"kerberos needs the optional package gssapi, which cannot be loaded ({printable(str(error), 100)}): "
            "install it: pip install 'clustercep[kerberos]', or requirements/kerberos.txt (docs/operations.md)"
        ) from None


def _cache_name() -> str:
    """Of tickets that stay in this process's memory."""
    return f"MEMORY:clustercep-{next(_names)}"


def _server_token(header: str) -> bytes | None:
    """The token in `WWW-Authenticate`, which may name other ways besides."""
    found = re.search(rf"(?:^|,)\s*{SCHEME}\s+([A-Za-z0-9+/=]+)\s*(?:,|$)", header, re.IGNORECASE)
    if found is None:
        return None
    try:
        return base64.b64decode(found[1], validate=True)
    except binascii.Error:
        return None


def _told(error: Exception) -> str:
    """What libkrb5 says: names of principals, never keys."""
    text = str(error)
    minor = re.search(r"Minor \(\d+\): (.*)", text, re.DOTALL)
    return printable((minor[1] if minor and minor[1].strip() else text).strip(), MAX_TEXT_CHARS)


__all__ = ["Kerberos", "KerberosError", "KerberosOptions", "Negotiation"]
