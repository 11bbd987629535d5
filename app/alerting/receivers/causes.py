"""Why a receiver could not be reached, in words that hold no address: the addresses of services are secrets."""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Iterable, Iterator

import requests

from app.alerting.receivers.secrecy import NOT_SHOWN, without_secrets

MAX_LAYERS = 20
"""Of errors that wrap each other."""


def told_cause(error: BaseException, secrets: Iterable[str] = ()) -> str:
    """The kind of a failure, and what the system, the look-up of the name or TLS said of it, if anything.

    `ConnectionError: Connection refused`. Texts of `requests` hold the URL, and with it a token: the system's own text
    of the error's number is taken instead, and what TLS says of a certificate only where it repeats no secret.
    """
    kind = type(error).__name__
    for layer in _layers(error):
        said = _said(layer, secrets)
        if said is not None:
            return f"{kind}: {said}"
    return kind


def _said(error: BaseException, secrets: Iterable[str]) -> str | None:
    if isinstance(error, requests.RequestException):  # an OSError, too
        return None
    if isinstance(error, socket.gaierror):
        return "its host's name cannot be resolved"
    if isinstance(error, ssl.SSLCertVerificationError):
        told = without_secrets(f"its certificate is refused: {error.verify_message}", secrets)
        return "its certificate is refused" if told == NOT_SHOWN else told
    if isinstance(error, ssl.SSLError):
        return f"TLS failed ({error.reason})" if error.reason else None
    if isinstance(error, OSError) and error.errno is not None:
        return os.strerror(error.errno)
    return None


def _layers(error: BaseException) -> Iterator[BaseException]:
    """The error and those that it wraps, from without to within."""
    layer: BaseException | None = error
    for _ in range(MAX_LAYERS):
        if layer is None:
            return
        yield layer
        inner = getattr(layer, "reason", None)
        if not isinstance(inner, BaseException):
            inner = next((one for one in layer.args if isinstance(one, BaseException)), None)
        layer = inner or layer.__cause__ or layer.__context__


__all__ = ["told_cause"]
