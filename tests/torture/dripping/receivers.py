"""Receivers that are such servers, beside others that are well."""

from __future__ import annotations

from contextlib import ExitStack, suppress
from pathlib import Path

from app.alerting.delivery import DeliveryError, Endpoint, endpoint_of, send
from app.alerting.links import Links
from app.alerting.notifier import Notifier
from app.alerting.receivers.sample import sample_news
from app.alerting.receivers.service import Message
from app.clock import SystemClock
from app.settings import Receiver
from app.store import open_store
from collectors.network import http_attempt
from tests.app.alerting.receivers.told import SETTINGS, service
from tests.app.alerting.test_delivery import fill_outbox
from tests.app.alerting_fixtures import FakeMatch, receiver
from tests.app.webhook import webhook
from tests.slow_servers import Behaviour, serving
from tests.torture.dripping.tally import ANSWER_S, LIMIT_S, Tally, Tls

N_MESSAGES = 20


def message(tally: Tally, name: str, behaviour: Behaviour, tls: Tls | None, handshake: bool = False) -> None:
    """One attempt to tell such a receiver."""
    context, ca_file = (None, None) if tls is None else (None if handshake else tls[0], tls[1])
    with serving(behaviour, context) as served:
        url = served.replace("http:", "https:") if handshake else served
        with tally.timed("webhook", name, LIMIT_S), suppress(Exception):
            http_attempt.post(url, b"{}", {}, LIMIT_S, ca_file)


def receivers(tally: Tally, name: str, behaviour: Behaviour, folder: Path) -> None:
    """Messages for such a receiver and for one that is well: the latter has them at once."""

    def post(endpoint: Endpoint, message: Message, idempotency_key: str) -> None:
        if endpoint.name == "good":
            send(endpoint, message, idempotency_key)
            return
        with tally.timed("webhook", name, LIMIT_S):
            try:
                send(endpoint, message, idempotency_key)
            except DeliveryError as error:
                failed.append(error)
        if failed:
            raise failed[-1]

    failed: list[DeliveryError] = []
    with ExitStack() as opened:
        url = opened.enter_context(serving(behaviour))
        hook = opened.enter_context(webhook())
        store = opened.enter_context(open_store(f"sqlite:///{folder / 'store.db'}", durable=False))
        known = {"slow": receiver(url=url, timeout=f"{LIMIT_S} s"), "good": receiver(url=hook.url)}
        fill_outbox(store, [FakeMatch(n, n + 1, key=(("task_id", f"t{n}"),)) for n in range(N_MESSAGES)], 0, **known)
        notifier = Notifier(store, _endpoints(known), SystemClock(), post=post)
        opened.callback(notifier.stop)
        notifier.start()
        with tally.timed("receiver beside", name, ANSWER_S):
            if not hook.came(N_MESSAGES):
                tally.failures.append(f"beside a receiver that {name}: {len(hook.received)} of {N_MESSAGES} messages")


def services(tally: Tally, name: str, behaviour: Behaviour) -> None:
    """One message to such a server by each kind of receiver; apprise has a start of a process beside its limit."""
    for kind in SETTINGS:
        with serving(behaviour) as url:
            place = url.removeprefix("http://")
            given = {"email": {"smarthost": place}, "apprise": {"url": f"gotify://{place}/token"}}.get(
                kind, {"url": url}
            )
            told = service(kind, **given)
            content = told.message(sample_news("ops", Links(""), 0), None)
            with tally.timed(f"receiver {kind}", name, LIMIT_S), suppress(DeliveryError):
                told.send(content, "key", LIMIT_S, ask=True)


def _endpoints(known: dict[str, Receiver]) -> dict[str, Endpoint]:
    return {name: endpoint_of(name, settings, "") for name, settings in known.items()}
