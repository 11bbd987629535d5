"""What becomes of an attempt to write and deliver a message, and why."""

from __future__ import annotations

TIMEOUT = "timeout"
CONNECTION = "connection"
TLS = "tls"
REDIRECT = "redirect"
REFUSED = "refused_4xx"
SERVER = "server_5xx"
MESSAGE = "message"


class DeliveryError(Exception):
    """An attempt that failed; `reason` is one of the names above, for counting.

    `retry_after`: the header of the answer, as it came.
    """

    def __init__(self, text: str, reason: str, retry_after: str | None = None) -> None:
        self.reason = reason
        self.retry_after = retry_after
        super().__init__(text)


class TemporaryDeliveryError(DeliveryError):
    """No answer, or one that may be better next time."""


class PermanentDeliveryError(DeliveryError):
    """The receiver refuses this message."""


class TemplateError(ValueError):
    """A template that cannot be filled in: where, and why."""


__all__ = [
    "CONNECTION",
    "MESSAGE",
    "REDIRECT",
    "REFUSED",
    "SERVER",
    "TIMEOUT",
    "TLS",
    "DeliveryError",
    "PermanentDeliveryError",
    "TemplateError",
    "TemporaryDeliveryError",
]
