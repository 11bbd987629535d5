"""Delivering the outbox to one receiver; `app.alerting.notifier` gives each receiver a worker.

Nothing sleeps here: when a message is tried again stands in the outbox, and meanwhile others have their turn.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, cast

import structlog

from app.alerting.dispatch.notice import is_of_group
from app.alerting.links import Links
from app.alerting.payload import fingerprint
from app.alerting.receivers.errors import MESSAGE, DeliveryError, PermanentDeliveryError, TemporaryDeliveryError
from app.alerting.receivers.kinds import service_of
from app.alerting.receivers.news import News
from app.alerting.receivers.service import Message, Service, is_resending
from app.alerting.receivers.template_values import Escapes
from app.alerting.receivers.templates import Template, template_of
from app.alerting.recording.episodes import digest
from app.alerting.retries import back_off_ms, retry_after_ms
from app.alerting.snapshots import snapshot_of
from app.alerting.text import iso, plain
from app.clock import Clock
from app.settings import Receiver
from app.store.api import Store
from app.store.models import NotificationRow
from app.store.subject import job_of
from app.store.writing.problems import NewProblem
from app.store.writing.writer import Writer

log = structlog.get_logger(__name__)


@dataclass(frozen=True, repr=False)
class Endpoint:
    """Where and how one receiver is told; its representation shows no secret."""

    name: str
    service: Service
    timeout_s: float
    template: Template | None
    links: Links
    give_up_after_ms: int
    max_attempts: int | None
    first_retry_ms: int
    max_retry_ms: int

    def __repr__(self) -> str:
        return f"Endpoint(name={self.name!r})"

    def message(self, news: News) -> Message:
        """The message; raises whatever a template may bring about that cannot be filled in, TemplateError mostly."""
        return self.service.message(news, None if self.template is None else self.template.filled(news))

    def message_without_template(self, news: News) -> Message:
        """The message as it is where no template is given."""
        return self.service.message(news, None)


def escapes_of(service: Service) -> Escapes:
    """What a service has done to values in templates."""
    return Escapes(service.escape, getattr(service, "escape_parts", {}))


def endpoint_of(name: str, receiver: Receiver, links: Links | str) -> Endpoint:
    """Read the receiver's secrets and template; raises ConfigError naming the key. `links`, or the dashboard's URL."""
    key = f"alerting.receivers.{name}"
    service = service_of(key, receiver)
    return Endpoint(
        name=name,
        service=service,
        timeout_s=receiver.timeout_ms / 1000,
        template=None if receiver.template is None else template_of(receiver, key, escapes_of(service)),
        links=Links(links) if isinstance(links, str) else links,
        give_up_after_ms=receiver.give_up_after_ms,
        max_attempts=receiver.max_attempts,
        first_retry_ms=receiver.first_retry_ms,
        max_retry_ms=receiver.max_retry_ms,
    )


class DeliveryCounts(Protocol):
    """What is counted of attempts: app.process.metrics.Metrics."""

    def delivered(self, receiver: str, outcome: str, reason: str) -> None:
        """An attempt was "delivered" (reason ""), will be "retried", or "failed" for good."""
        ...


class Post(Protocol):
    """Sends one message; raises the DeliveryError family."""

    def __call__(self, endpoint: Endpoint, message: Message, idempotency_key: str) -> object:
        """Send."""
        ...


def send(endpoint: Endpoint, message: Message, idempotency_key: str) -> str:
    """One attempt, within the receiver's time-out; returns what was answered. Raises the DeliveryError family."""
    return endpoint.service.send(message, idempotency_key, endpoint.timeout_s)


MOST_TOLD_AGAIN = 1_000
"""Alerts that one message says to fire still."""


class StoppedError(Exception):
    """The process ends; what is pending stays pending."""


class _Uncounted:
    def delivered(self, receiver: str, outcome: str, reason: str) -> None:
        """Nobody counts."""


def _about(notification: NotificationRow) -> dict[str, str]:
    """Which alert a line of the log is about: its id, query, and job when there is one."""
    payload: Mapping[str, Any] = notification.payload if isinstance(notification.payload, Mapping) else {}
    if is_of_group(payload):
        return {"group": str(payload["group"].get("key", "")), "alerts": str(len(payload["alerts"]))}
    parts = [part if isinstance(part := payload.get(name), Mapping) else {} for name in ("key", "values")]
    about = {"alert": notification.alert_id, "query": str(payload.get("query", "")), "job": job_of(*parts)}
    return {name: value for name, value in about.items() if value}


@dataclass(frozen=True, slots=True)
class Down:
    """A receiver that takes no messages: since when, why not, and how many wait, as of the last attempt."""

    receiver: str
    since_ms: int
    error: str
    n_waiting: int

    def text(self) -> str:
        """For people."""
        waiting = "1 message waits" if self.n_waiting == 1 else f"{self.n_waiting:,} messages wait"
        return f"receiver {self.receiver} has taken nothing since {iso(self.since_ms)}: {self.error}; {waiting}"


class Courier:
    """Tells one receiver, at least once: in order of what has the same labels, and nobody waits for what others say."""

    def __init__(
        self,
        store: Store,
        endpoint: Endpoint,
        clock: Clock,
        *,
        post: Post = send,
        stopping: Callable[[], bool] | None = None,
        metrics: DeliveryCounts | None = None,
        draw: Callable[[], float] = random.random,
    ) -> None:
        """`stopping` is asked before each message; `draw` gives numbers in [0, 1) for the jitter of waits."""
        self._metrics = metrics or _Uncounted()
        self._store = store
        self._endpoint = endpoint
        self._clock = clock
        self._post = post
        self._stopping = stopping or (lambda: False)
        self._draw = draw
        self._asked_for: str | None = None
        """The fingerprint for which the receiver asked to wait with the last attempt."""
        self._paused_until_ms = 0
        self._told_again_ms = -(2**62)
        self.down: Down | None = None
        """As far as this process has seen."""

    def deliver_pending(self) -> int:
        """Make the attempts that are due; returns how many messages are done with. Raises StoppedError, StoreError."""
        n_done = 0
        while not self._pause_ms() and (notification := self._due()) is not None:
            if self._stopping():
                raise StoppedError
            self._store.check_owner()  # the next owner tells it
            n_done += self._deliver(notification)
            self._tell_again()  # a backlog may take longer than what fires lasts there
        self._tell_again()
        return n_done

    def _tell_again(self) -> None:
        """Say what still fires, to a receiver that has to hear it again and again; one that fails hears it next time.

        How long ago the last time was is timed from this process's start: one that has just begun says it at once.
        """
        service, now_ms = self._endpoint.service, self._clock.now_ms()
        if not is_resending(service) or 0 <= now_ms - self._told_again_ms < service.resend_delay_ms or self._pause_ms():
            return
        endpoint, behind = self._endpoint, cast("str | None", "")
        self._told_again_ms = now_ms
        while behind is not None and not self._stopping():
            self._store.check_owner()
            found, behind = self._store.still_firing(endpoint.name, fingerprint, behind, MOST_TOLD_AGAIN)
            if not found:
                continue
            alerts = [snapshot_of(alert) for alert in found]
            key = digest("told again", endpoint.name, str(now_ms), found[0].id)
            news = News(endpoint.name, "", key, now_ms, endpoint.links, tuple(alerts))
            try:
                self._post(endpoint, service.again(alerts, news), key)
            except DeliveryError as error:
                tell = log.warning if self.down is None else log.debug  # that it is down is told once
                tell("what fires could not be told again", receiver=endpoint.name, error=plain(error))
                self._metrics.delivered(endpoint.name, "retried", error.reason)
                return

    def wait_ms(self) -> int | None:
        """How long until an attempt is due; None: nothing waits. Raises StoreError."""
        next_ms = self._store.next_attempt_ms(self._endpoint.name)
        if next_ms is None:
            return None
        return max(self._ahead_ms(next_ms), self._pause_ms())

    def _due(self) -> NotificationRow | None:
        return self._store.due_notification(self._endpoint.name, self._clock.now_ms(), self._endpoint.max_retry_ms)

    def _pause_ms(self) -> int:
        return self._ahead_ms(self._paused_until_ms)

    def _ahead_ms(self, time_ms: int) -> int:
        """0 for what is past, and for what lies further ahead than anything waits: the clock was set back."""
        ahead_ms = time_ms - self._clock.now_ms()
        return ahead_ms if 0 < ahead_ms <= self._endpoint.max_retry_ms else 0

    def _deliver(self, notification: NotificationRow) -> bool:
        """One attempt; False when there will be another."""
        endpoint = self._endpoint
        try:
            self._post(endpoint, self._message(notification), notification.idempotency_key)
        except TemporaryDeliveryError as error:
            return self._failed(notification, error)
        except DeliveryError as error:
            self._asked_for = None
            self._give_up(notification, error, self._clock.now_ms())
            return True
        except Exception as error:  # a boundary: a message that meets a defect must not hold up the others
            log.exception("delivery failed; it is tried again", receiver=endpoint.name)
            return self._failed(notification, TemporaryDeliveryError(type(error).__name__, MESSAGE))
        self._asked_for = None
        self._taken(notification)
        return True

    def _message(self, notification: NotificationRow) -> Message:
        try:
            news = News.of(
                notification.payload,
                notification.fingerprint or notification.alert_id,
                notification.idempotency_key,
                self._endpoint.name,
                self._clock.now_ms(),
                self._endpoint.links,
            )
            try:
                return self._endpoint.message(news)
            except Exception as error:  # a boundary: whatever is wrong with a template, the alert is told
                if self._endpoint.template is None:
                    raise
                self._template_failed(error)
                return self._endpoint.message_without_template(news)
        except (AttributeError, LookupError, TypeError, ValueError, RecursionError) as error:
            raise PermanentDeliveryError(f"the message cannot be written: {plain(error)}", MESSAGE) from error

    def _template_failed(self, error: Exception) -> None:
        """An alert is worth more than its form: it is told without the template, and that is told, too."""
        found = plain(str(error) or type(error).__name__)
        what = f"the template cannot be filled in, the message goes without it: {found}"
        log.error("the template failed", receiver=self._endpoint.name, error=found)
        with self._store.transaction() as writer:
            writer.problems.add([self._problem("template", what)], self._clock.now_ms())

    def _taken(self, notification: NotificationRow) -> None:
        name, now_ms = self._endpoint.name, self._clock.now_ms()
        with self._store.transaction() as writer:
            self._record(writer, notification, "delivered", None, 0, now_ms)
            was_down = writer.receivers.took(name, now_ms)
            if was_down is not None:
                back = f"took nothing from {iso(was_down[0])} to {iso(now_ms)}: {was_down[1]}; it takes messages again"
                writer.problems.end(self._problem("receiver_down", back), now_ms)
        self.down = None
        if was_down is not None:
            log.warning("the receiver takes messages again", receiver=name, what=back)
        self._metrics.delivered(name, "delivered", "")
        log.info("told", receiver=name, state=notification.state, **_about(notification))

    def _failed(self, notification: NotificationRow, error: TemporaryDeliveryError) -> bool:
        """Try again later, or give up; returns whether it is given up."""
        endpoint, now_ms = self._endpoint, self._clock.now_ms()
        asked_ms = retry_after_ms(error.retry_after, now_ms, endpoint.max_retry_ms)
        self._heed(notification.fingerprint, asked_ms, now_ms)
        n_attempts = notification.n_attempts + 1
        given_up_ms = (now_ms if notification.tried_since_ms is None else notification.tried_since_ms) + (
            endpoint.give_up_after_ms
        )
        if now_ms >= given_up_ms or (endpoint.max_attempts is not None and n_attempts >= endpoint.max_attempts):
            self._give_up(notification, error, now_ms)
            return True
        wait_ms = back_off_ms(n_attempts, endpoint.first_retry_ms, endpoint.max_retry_ms, self._draw())
        next_ms = min(now_ms + max(wait_ms, asked_ms), given_up_ms)
        with self._store.transaction() as writer:
            self._record(writer, notification, "pending", plain(error), next_ms, now_ms)
            fell = self._is_down(writer, notification, error, now_ms)
        self._tell_down(fell)
        self._metrics.delivered(endpoint.name, "retried", error.reason)
        # A receiver that is down for a day has many attempts; that it is down is told once.
        tell = log.warning if notification.tried_since_ms is None else log.debug
        tell("not told yet", receiver=endpoint.name, error=plain(error), **_about(notification))
        return False

    def _give_up(self, notification: NotificationRow, error: DeliveryError, now_ms: int) -> None:
        name, fell = self._endpoint.name, False
        with self._store.transaction() as writer:
            self._record(writer, notification, "failed", plain(error), 0, now_ms)
            writer.problems.add([self._problem("undelivered", f"a message was given up: {plain(error)}")], now_ms)
            if isinstance(error, TemporaryDeliveryError):
                fell = self._is_down(writer, notification, error, now_ms)
        self._tell_down(fell)
        self._metrics.delivered(name, "failed", error.reason)
        log.error("given up", receiver=name, error=plain(error), **_about(notification))

    def _heed(self, fingerprint: str, asked_ms: int, now_ms: int) -> None:
        """Asked to wait with one message, others go on; with two in a row, it is the receiver that wants a pause."""
        if asked_ms and self._asked_for not in (None, fingerprint):
            self._paused_until_ms = now_ms + asked_ms
        self._asked_for = fingerprint if asked_ms else None

    def _is_down(
        self, writer: Writer, notification: NotificationRow, error: TemporaryDeliveryError, now_ms: int
    ) -> bool:
        """Keep that the receiver is down; returns whether that is new. When it has taken others since this message was
        tried first, it is the message that it does not take."""
        name, since_ms = self._endpoint.name, notification.tried_since_ms
        row = writer.receivers.status(name)
        took_ms = None if row is None else row.delivered_ms
        is_known = row is not None and row.down_since_ms is not None
        if not is_known and since_ms is not None and took_ms is not None and took_ms >= since_ms:
            return False
        down_since_ms = writer.receivers.down(name, plain(error), now_ms)
        self.down = Down(name, down_since_ms, plain(error), writer.outbox.n_pending(name))
        if not is_known:
            writer.problems.add([self._problem("receiver_down", self.down.text())], now_ms)
        return not is_known

    def _tell_down(self, fell: bool) -> None:
        if fell and self.down is not None:
            log.error("the receiver takes no messages; they wait", receiver=self._endpoint.name, what=self.down.text())

    def _problem(self, kind: str, message: str) -> NewProblem:
        return NewProblem("alerting", f"receiver {self._endpoint.name}", kind, message)

    @staticmethod
    def _record(
        writer: Writer, notification: NotificationRow, status: str, error: str | None, next_ms: int, now_ms: int
    ) -> None:
        writer.outbox.record_attempt(
            notification.idempotency_key,
            notification.receiver,
            status=status,
            error=error,
            next_attempt_ms=next_ms,
            now_ms=now_ms,
        )


__all__ = [
    "Courier",
    "DeliveryCounts",
    "DeliveryError",
    "Down",
    "Endpoint",
    "PermanentDeliveryError",
    "Post",
    "StoppedError",
    "TemporaryDeliveryError",
    "endpoint_of",
    "send",
]
