"""What a kind of receiver is: how it writes a message and how it sends it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeGuard

from app.alerting.notices import Snapshot
from app.alerting.receivers.news import News


@dataclass(frozen=True, repr=False)
class Message:
    """What is sent."""

    body: bytes
    url: str = ""
    """Of those told over HTTP."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Of this message alone."""


class Service(Protocol):
    """A receiver of one kind, with its secrets; those that are equal are told in the same way."""

    @property
    def escape(self) -> Callable[[str], str]:
        """Makes text that comes from the cluster plain text inside a string of a template."""
        ...

    def message(self, news: News, own: Any | None) -> Message:
        """The message; `own`: what a template gives in place of the whole, or of the parts that it names."""
        ...

    def send(self, message: Message, idempotency_key: str, timeout_s: float, *, ask: bool = False) -> str:
        """One attempt; returns what was answered, in one line. Raises the DeliveryError family.

        `ask`: read what was answered beside the status, too, where that takes time.
        """
        ...


class Resending(Service, Protocol):
    """A service that has to hear again and again that an alert fires."""

    @property
    def resend_delay_ms(self) -> int:
        """How often."""
        ...

    def again(self, alerts: Sequence[Snapshot], news: News) -> Message:
        """The message that these still fire."""
        ...


def is_resending(service: Service) -> TypeGuard[Resending]:
    """Whether it has to hear again and again that an alert fires."""
    return hasattr(service, "resend_delay_ms")


def encoded(content: Any) -> bytes:
    """JSON in UTF-8; raises ValueError for numbers that it does not have."""
    return json.dumps(content, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")


def as_it_is(text: str) -> str:
    """For targets in which no text has a meaning: strings of JSON."""
    return text


def with_own(content: dict[str, Any], own: Any | None, *, fixed: Sequence[str] = ()) -> dict[str, Any]:
    """The parts that a template names take the place of ours, but those that are `fixed`."""
    if not isinstance(own, dict):
        return content
    return {**content, **{name: value for name, value in own.items() if name not in fixed}}


__all__ = ["Message", "Resending", "Service", "as_it_is", "encoded", "is_resending", "with_own"]
