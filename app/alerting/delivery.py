"""Delivering the outbox to one receiver; `app.alerting.notifier` gives each receiver a worker."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import requests
import structlog
from tenacity import RetryCallState, Retrying, retry_if_exception_type, wait_exponential_jitter
from tenacity.stop import stop_base

from app.alerting.notices import Snapshot
from app.alerting.payload import alertmanager_payload, read_template, template_fields, templated_payload
from app.alerting.text import plain
from app.certificates import checked_ca_file
from app.clock import Clock
from app.config import read_secret
from app.errors import ConfigError, ConfigProblem
from app.settings import Receiver
from app.store.api import Store
from app.store.models import NotificationRow
from app.store.subject import job_of
from app.store.writer import NewProblem
from collectors import http_attempt

log = structlog.get_logger(__name__)

RETRIED_STATUS = frozenset({408, 425, 429})
"""Client errors that another attempt may cure; all of 5xx may."""


TIMEOUT = "timeout"
CONNECTION = "connection"
TLS = "tls"
REDIRECT = "redirect"
REFUSED = "refused_4xx"
SERVER = "server_5xx"
MESSAGE = "message"


class DeliveryError(Exception):
    """An attempt that failed; `reason` is one of the names above, for counting."""

    def __init__(self, text: str, reason: str) -> None:
        self.reason = reason
        super().__init__(text)


class TemporaryDeliveryError(DeliveryError):
    """No answer, or one that may be better next time."""


class PermanentDeliveryError(DeliveryError):
    """The receiver refuses this message."""


@dataclass(frozen=True, repr=False)
class Endpoint:
    """Where and how one receiver is told; its representation shows no secret."""

    name: str
    url: str
    headers: Mapping[str, str]
    timeout_s: float
    template: Any
    external_url: str
    max_attempts: int
    first_retry_s: float
    max_retry_s: float
    ca_file: Path | None = None
    """Certificates that its own is checked against, in place of the usual ones."""

    def __repr__(self) -> str:
        return f"Endpoint(name={self.name!r})"

    def body(self, snapshot: Snapshot) -> bytes:
        """The message."""
        if self.template is None:
            content = alertmanager_payload(snapshot, self.name, self.external_url)
        else:
            content = templated_payload(self.template, template_fields(snapshot, self.name, self.external_url))
        return json.dumps(content, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")


def endpoint_of(name: str, receiver: Receiver, external_url: str) -> Endpoint:
    """Read the receiver's secrets and template; raises ConfigError naming the key."""
    key = f"alerting.receivers.{name}"
    url = read_secret(receiver.url, receiver.url_file, f"{key}.url_file")
    assert url is not None, "settings demand one"
    if not url.get_secret_value().startswith(("http://", "https://")):
        problem = ConfigProblem(f"{key}.url", "an address of another kind (not shown)", "http://... or https://...")
        raise ConfigError("configuration", (problem,))
    headers = {"Content-Type": "application/json", "User-Agent": "clustercep"}
    authorization = read_secret(receiver.authorization, receiver.authorization_file, f"{key}.authorization_file")
    if authorization is not None:
        headers["Authorization"] = authorization.get_secret_value()
    return Endpoint(
        name=name,
        url=url.get_secret_value(),
        headers=headers,
        timeout_s=receiver.timeout_ms / 1000,
        template=None if receiver.template is None else read_template(receiver.template, f"{key}.template"),
        external_url=external_url,
        max_attempts=receiver.max_attempts,
        first_retry_s=receiver.first_retry_ms / 1000,
        max_retry_s=receiver.max_retry_ms / 1000,
        ca_file=checked_ca_file(receiver.ca_file, f"{key}.ca_file"),
    )


class DeliveryCounts(Protocol):
    """What is counted of attempts: app.metrics.Metrics."""

    def delivered(self, receiver: str, outcome: str, reason: str) -> None:
        """An attempt was "delivered" (reason ""), will be "retried", or "failed" for good."""
        ...


class Post(Protocol):
    """Sends one message; raises the DeliveryError family."""

    def __call__(self, endpoint: Endpoint, body: bytes, idempotency_key: str) -> None:
        """Send."""
        ...


def http_post(endpoint: Endpoint, body: bytes, idempotency_key: str) -> None:
    """POST once, within the receiver's time-out, without redirects (a secret header must not travel)."""
    headers = {**endpoint.headers, "Idempotency-Key": idempotency_key}
    try:
        status = http_attempt.post(endpoint.url, body, headers, endpoint.timeout_s, endpoint.ca_file)
    except (requests.ConnectionError, requests.Timeout) as error:
        raise TemporaryDeliveryError(_without_url(error), _reason_of(error)) from None
    except (requests.RequestException, ValueError) as error:
        raise PermanentDeliveryError(_without_url(error), MESSAGE) from None
    if not 200 <= status < 300:
        raise _refusal(status)


def _refusal(status: int) -> DeliveryError:
    text = f"answered {status}"
    if status >= 500:
        return TemporaryDeliveryError(text, SERVER)
    if status in RETRIED_STATUS:
        return TemporaryDeliveryError(text, REFUSED)
    return PermanentDeliveryError(text, REDIRECT if 300 <= status < 400 else REFUSED)


def _reason_of(error: Exception) -> str:
    """The order matters: a time-out while connecting is a failed connection too, as is a certificate refused."""
    kinds = ((requests.Timeout, TIMEOUT), (requests.exceptions.SSLError, TLS))
    return next((reason for kind, reason in kinds if isinstance(error, kind)), CONNECTION)


def _without_url(error: Exception) -> str:
    """The kind of the failure: messages of `requests` hold the URL, and with it a token."""
    return type(error).__name__


class _StopAfterRecorded(stop_base):
    """Counts attempts of earlier processes too."""

    def __init__(self, n_before: int, max_attempts: int) -> None:
        self._n_left = max(1, max_attempts - n_before)

    def __call__(self, retry_state: RetryCallState) -> bool:
        return retry_state.attempt_number >= self._n_left


class StoppedError(Exception):
    """The process ends; what is pending stays pending."""


class _Uncounted:
    def delivered(self, receiver: str, outcome: str, reason: str) -> None:
        """Nobody counts."""


def _about(notification: NotificationRow) -> dict[str, str]:
    """Which alert a line of the log is about: its id, query, and job when there is one."""
    payload: Mapping[str, Any] = notification.payload if isinstance(notification.payload, Mapping) else {}
    parts = [part if isinstance(part := payload.get(name), Mapping) else {} for name in ("key", "values")]
    about = {"alert": notification.alert_id, "query": str(payload.get("query", "")), "job": job_of(*parts)}
    return {name: value for name, value in about.items() if value}


def _never_stops(_seconds: float) -> bool:
    return False


class Courier:
    """Tells one receiver, in order, at least once."""

    def __init__(
        self,
        store: Store,
        endpoint: Endpoint,
        clock: Clock,
        *,
        post: Post = http_post,
        wait: Callable[[float], bool] | None = None,
        stopping: Callable[[], bool] | None = None,
        metrics: DeliveryCounts | None = None,
    ) -> None:
        """`wait(seconds)` returns True when the process ends meanwhile; `stopping` is asked before each message."""
        self._metrics = metrics or _Uncounted()
        self._store = store
        self._endpoint = endpoint
        self._clock = clock
        self._post = post
        self._wait = wait or _never_stops
        self._stopping = stopping or (lambda: False)

    def deliver_pending(self) -> int:
        """Deliver, or finally fail, all that is pending; returns how many are done with. Raises StoppedError."""
        n_done = 0
        while batch := self._store.pending_notifications(self._endpoint.name):
            for notification in batch:
                if self._stopping():
                    raise StoppedError
                self._deliver(notification)
                n_done += 1
        return n_done

    def _deliver(self, notification: NotificationRow) -> None:
        endpoint = self._endpoint
        retrying = Retrying(
            retry=retry_if_exception_type(TemporaryDeliveryError),
            stop=_StopAfterRecorded(notification.n_attempts, endpoint.max_attempts),
            wait=wait_exponential_jitter(multiplier=endpoint.first_retry_s, max=endpoint.max_retry_s, jitter=0.1),
            before_sleep=lambda state: self._failed_for_now(notification, state),
            sleep=self._sleep,
            reraise=True,
        )
        try:
            body = self._body(notification)
            retrying(self._post, endpoint, body, notification.idempotency_key)
        except DeliveryError as error:
            self._failed_for_good(notification, error)
        else:
            self._record(notification, "delivered", None, 0)
            self._metrics.delivered(endpoint.name, "delivered", "")
            log.info("told", receiver=endpoint.name, state=notification.state, **_about(notification))

    def _body(self, notification: NotificationRow) -> bytes:
        try:
            return self._endpoint.body(Snapshot.from_json(notification.payload))
        except (AttributeError, LookupError, TypeError, ValueError, RecursionError) as error:
            raise PermanentDeliveryError(f"the message cannot be written: {error}", MESSAGE) from error

    def _sleep(self, seconds: float) -> None:
        if self._wait(seconds):
            raise StoppedError

    def _failed_for_now(self, notification: NotificationRow, state: RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome else None
        assert isinstance(error, DeliveryError), "nothing else is retried"
        delay_ms = round((state.next_action.sleep if state.next_action else 0) * 1000)
        self._record(notification, "pending", plain(error), self._clock.now_ms() + delay_ms)
        self._metrics.delivered(self._endpoint.name, "retried", error.reason)
        log.warning("not told yet", receiver=self._endpoint.name, error=plain(error), **_about(notification))

    def _failed_for_good(self, notification: NotificationRow, error: DeliveryError) -> None:
        message = f"a message was given up: {plain(error)}"
        with self._store.transaction() as writer:
            writer.record_attempt(
                notification.idempotency_key,
                notification.receiver,
                status="failed",
                error=plain(error),
                next_attempt_ms=0,
                now_ms=self._clock.now_ms(),
            )
            problem = NewProblem("alerting", f"receiver {self._endpoint.name}", "undelivered", message)
            writer.add_problems([problem], self._clock.now_ms())
        self._metrics.delivered(self._endpoint.name, "failed", error.reason)
        log.error("given up", receiver=self._endpoint.name, error=plain(error), **_about(notification))

    def _record(self, notification: NotificationRow, status: str, error: str | None, next_ms: int) -> None:
        with self._store.transaction() as writer:
            writer.record_attempt(
                notification.idempotency_key,
                notification.receiver,
                status=status,
                error=error,
                next_attempt_ms=next_ms,
                now_ms=self._clock.now_ms(),
            )
