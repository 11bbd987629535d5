"""Telling a receiver over HTTP: one POST within its time, without redirects, with its certificates."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import requests
from pydantic import SecretStr

from app.alerting.receivers.causes import told_cause
from app.alerting.receivers.errors import (
    CONNECTION,
    MESSAGE,
    REDIRECT,
    REFUSED,
    SERVER,
    TIMEOUT,
    TLS,
    DeliveryError,
    PermanentDeliveryError,
    TemporaryDeliveryError,
)
from app.alerting.receivers.secrecy import without_secrets
from app.alerting.receivers.service import Message
from app.alerting.receivers.settings import HttpReceiver
from app.certificates import check_client_certificate, checked_ca_file
from app.config import read_secret
from app.errors import ConfigError, ConfigProblem
from collectors.network import http_attempt

RETRIED_STATUS = frozenset({408, 425, 429})
"""Client errors that another attempt may cure; all of 5xx may."""
MAX_ANSWER_BYTES = 2_048
"""Of an answer that is shown."""
USER_AGENT = "clustercep"
_NO_ADDRESS = (requests.exceptions.InvalidURL, requests.exceptions.InvalidSchema, requests.exceptions.MissingSchema)


@dataclass(frozen=True, repr=False)
class Http:
    """How a service is reached."""

    headers: Mapping[str, str]
    ca_file: Path | None = None
    """Certificates that its own is checked against, in place of the usual ones."""
    cert_file: Path | None = None
    key_file: Path | None = None
    secrets: tuple[str, ...] = field(default=())
    """What is never shown, also when the service answers with it."""

    def send(self, message: Message, idempotency_key: str, timeout_s: float, *, ask: bool = False) -> str:
        """POST once; returns the status and, when it is asked for, the beginning of the answer."""
        headers = {**self.headers, **message.headers, "Idempotency-Key": idempotency_key}
        try:
            received = http_attempt.post(
                message.url,
                message.body,
                headers,
                timeout_s,
                self.ca_file,
                client_certificate=None if self.cert_file is None else (self.cert_file, self.key_file),
                excerpt=lambda status: MAX_ANSWER_BYTES if ask or not 200 <= status < 300 else 0,
            )
        except _NO_ADDRESS as error:
            if isinstance(error, requests.exceptions.InvalidProxyURL):  # of the environment, which others mend
                raise TemporaryDeliveryError(type(error).__name__, CONNECTION) from None
            raise PermanentDeliveryError(type(error).__name__, MESSAGE) from None
        except (requests.RequestException, ValueError) as error:  # also an answer that cannot be read
            raise TemporaryDeliveryError(told_cause(error, self.secrets), _reason_of(error)) from None
        said = without_secrets(received.body.decode("utf-8", "replace"), self.secrets)
        text = f"answered {received.status}{': ' if said else ''}{said}"
        if not 200 <= received.status < 300:
            raise _refusal(received.status, text, received.headers.get("Retry-After"))
        return text


def _refusal(status: int, text: str, retry_after: str | None) -> DeliveryError:
    if status >= 500:
        return TemporaryDeliveryError(text, SERVER, retry_after)
    if status in RETRIED_STATUS:
        return TemporaryDeliveryError(text, REFUSED, retry_after)
    return PermanentDeliveryError(text, REDIRECT if 300 <= status < 400 else REFUSED)


def _reason_of(error: Exception) -> str:
    """The order matters: a time-out while connecting is a failed connection too, as is a certificate refused."""
    kinds = ((requests.Timeout, TIMEOUT), (requests.exceptions.SSLError, TLS))
    return next((reason for kind, reason in kinds if isinstance(error, kind)), CONNECTION)


def http_of(key: str, receiver: HttpReceiver, headers: Mapping[str, str], *secrets: str) -> Http:
    """How a receiver is reached; raises ConfigError naming the key when its certificates cannot be used."""
    ca_file = checked_ca_file(receiver.ca_file, f"{key}.ca_file")
    check_client_certificate(receiver.cert_file, receiver.key_file, key)
    given = {"Content-Type": "application/json", "User-Agent": USER_AGENT, **headers}
    return Http(given, ca_file, receiver.cert_file, receiver.key_file, secrets)


def secret_of(key: str, name: str, value: SecretStr | None, file: Path | None) -> str:
    """A secret that the settings demand; raises ConfigError naming the key."""
    secret = read_secret(value, file, f"{key}.{name}_file")
    assert secret is not None, "settings demand one"
    return secret.get_secret_value()


def checked_url(url: str, key: str, *, shown: bool = False) -> str:
    """An address over HTTP; raises ConfigError naming the key, with the address only when it is `shown`."""
    is_address = False
    with suppress(ValueError, requests.RequestException):  # what cannot be sent there is found now, not with an alert
        requests.Request("POST", url).prepare()
        parts = urlsplit(url)
        host = parts.hostname or ""
        is_number = ":" in host
        is_address = parts.port != 0 and (is_number or bool(host.encode("idna")))
    if not is_address or not url.startswith(("http://", "https://")) or not url.isprintable():
        found = repr(url[:100]) if shown else "an address of another kind (not shown)"
        raise ConfigError("configuration", (ConfigProblem(key, found, "http://... or https://..."),))
    return url


def checked_header(value: str, key: str) -> str:
    """A secret that goes into a header; raises ConfigError naming the key, never the value."""
    if not value or not value.isascii() or not value.isprintable() or value != value.strip():
        found = "characters that no header has (not shown)"
        expected = "one line of printable ASCII without blanks at its ends"
        raise ConfigError("configuration", (ConfigProblem(key, found, expected),))
    return value


__all__ = [
    "RETRIED_STATUS",
    "Http",
    "checked_header",
    "checked_url",
    "http_of",
    "secret_of",
]
