"""Delivery over a real loopback webhook: payload, retry, give up, restart, order, hanging receivers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from app.alerting.delivery import Courier, DeliveryError, Endpoint, StoppedError, endpoint_of, send
from app.alerting.dispatch.notice import group_payload, lone
from app.alerting.notifier import Notifier
from app.alerting.payload import templated_payload
from app.alerting.receivers.service import Message
from app.alerting.recording.recorder import Recorder
from app.alerting.snapshots import snapshot_of
from app.clock import SetClock, SystemClock
from app.errors import ConfigError
from app.settings import Receiver, WebhookReceiver
from app.store import Store
from app.store.models import NotificationRow
from tests.app.alerting_fixtures import FakeMatch, kept, options, receiver
from tests.app.webhook import Webhook, webhook
from tests.slow_servers import FLOODS, HEADS, Behaviour, answer, certificate, ends, serving

CLOCK = SetClock(5_000)
MAX_ATTEMPTS = 1_000
"""More than any test needs: one that goes on for ever fails."""


class Counted:
    """What is counted of attempts, in order."""

    def __init__(self) -> None:
        self.attempts: list[tuple[str, str, str]] = []

    def delivered(self, receiver: str, outcome: str, reason: str) -> None:
        self.attempts.append((receiver, outcome, reason))


def fill_outbox(store: Store, matches: Sequence[FakeMatch], watermark_ms: int = 0, **receivers: Receiver) -> None:
    with store.transaction() as writer:
        Recorder(options(**receivers), writer, kept, 1_000).live(matches, watermark_ms)


def courier(store: Store, settings: Receiver, clock: SetClock = CLOCK) -> Courier:
    return Courier(store, endpoint_of("ops", settings, "http://127.0.0.1:8501"), clock, draw=lambda: 0.0)


def deliver_all(told_by: Courier, clock: SetClock) -> list[int]:
    """Until nothing waits any more; the time that passed before each further attempt was due."""
    waits_ms: list[int] = []
    for n in count():
        assert n < MAX_ATTEMPTS
        told_by.deliver_pending()
        wait_ms = told_by.wait_ms()
        if wait_ms is None:
            break
        assert wait_ms > 0, "due, and not tried"
        waits_ms.append(wait_ms)
        clock.advance_to(clock.now_ms() + wait_ms)
    return waits_ms


def timed_out_once(
    store: Store, settings: Receiver, clock: SetClock, hook: Webhook, counted: Counted | None = None
) -> Courier:
    """Only its first attempt has the time-out of the settings: a slow machine makes no more attempts fail.

    One whose time was over before `hook` had the message is none: it is made again.
    """
    endpoint = endpoint_of("ops", settings, "")

    def post(endpoint: Endpoint, message: Message, key: str) -> None:
        if hook.received:
            send(replace(endpoint, timeout_s=120.0), message, key)
            return
        for _ in range(50):
            try:
                send(endpoint, message, key)
            except DeliveryError:
                if hook.came(1, 2.0):
                    raise
            else:
                return
        raise AssertionError("no message reached it")

    return Courier(store, endpoint, clock, post=post, metrics=counted)


def test_alertmanager_payload_version_4(store: Store) -> None:
    with webhook() as hook:
        ops = receiver(url=hook.url)
        fill_outbox(store, [FakeMatch(1_000, 2_000)], 10_000, ops=ops)
        assert courier(store, ops).deliver_pending() == 2
    (key, firing), (resolved_key, resolved) = hook.received
    assert key != resolved_key
    assert set(firing) == {
        "version", "groupKey", "truncatedAlerts", "status", "receiver", "groupLabels", "commonLabels",
        "commonAnnotations", "routeLabels", "externalURL", "notification_reason", "alerts",
    }  # fmt: skip
    assert [told["notification_reason"] for told in (firing, resolved)] == ["first notification", "all alerts resolved"]
    assert (firing["version"], firing["status"], firing["receiver"]) == ("4", "firing", "ops")
    (alert,) = firing["alerts"]
    assert set(alert) == {"status", "labels", "annotations", "startsAt", "endsAt", "generatorURL", "fingerprint"}
    assert alert["labels"] == {"alertname": "slow", "severity": "warning", "task_id": "t1"}
    assert alert["annotations"]["summary"] == "t1 took 5"
    assert alert["annotations"]["runbook"] == "Look at the task."
    assert (alert["startsAt"], alert["endsAt"]) == ("1970-01-01T00:00:02.000Z", "0001-01-01T00:00:00Z")
    assert (resolved["status"], resolved["alerts"][0]["endsAt"]) == ("resolved", "1970-01-01T00:00:02.000Z")
    assert resolved["alerts"][0]["fingerprint"] == alert["fingerprint"]
    assert {n.status for n in store.notifications()} == {"delivered"}


def test_a_500_is_retried_with_the_same_key_and_growing_waits(store: Store) -> None:
    clock = SetClock(5_000)
    with webhook(500, 503, 429) as hook:
        ops = receiver(url=hook.url, first_retry="1 s")
        fill_outbox(store, [FakeMatch(1, 2)], ops=ops)
        waits_ms = deliver_all(courier(store, ops, clock), clock)
    assert len({key for key, _ in hook.received}) == 1
    assert len(hook.received) == 4
    assert waits_ms == [1_000, 2_000, 4_000]
    (notification,) = store.notifications()
    assert (notification.status, notification.n_attempts) == ("delivered", 4)


def test_what_finally_fails_is_visible_and_does_not_hold_up_the_rest(store: Store) -> None:
    clock = SetClock(5_000)
    with webhook(500, 400, 200, 500) as hook:
        ops = receiver(url=hook.url, max_attempts=2, send_resolved=False)
        fill_outbox(store, [FakeMatch(i, i, key=(("task_id", f"t{i}"),)) for i in range(3)], ops=ops)
        deliver_all(courier(store, ops, clock), clock)
    assert [(n.status, n.n_attempts, n.last_error) for n in store.notifications()] == [
        ("failed", 2, "answered 500"),
        ("failed", 1, "answered 400"),
        ("delivered", 1, None),
    ]
    (problem,) = (problem for problem in store.problems() if problem.kind == "undelivered")
    assert (problem.source, problem.n_times) == ("alerting", 2)


@pytest.mark.parametrize(
    ("answers", "attempts"),
    [
        ((503, 200), [("retried", "server_5xx"), ("delivered", "")]),
        ((429, 404), [("retried", "refused_4xx"), ("failed", "refused_4xx")]),
        ((302,), [("failed", "redirect")]),
        ((500, 500, 500), [("retried", "server_5xx"), ("retried", "server_5xx"), ("failed", "server_5xx")]),
    ],
)
def test_every_attempt_is_counted_with_its_reason(
    store: Store, answers: tuple[int, ...], attempts: list[tuple[str, str]]
) -> None:
    counted, clock = Counted(), SetClock(5_000)
    with webhook(*answers) as hook:
        ops = receiver(url=hook.url, timeout="20 s", max_attempts=3)
        fill_outbox(store, [FakeMatch(1, 2)], ops=ops)
        endpoint = endpoint_of("ops", ops, "")
        deliver_all(Courier(store, endpoint, clock, metrics=counted), clock)
    assert counted.attempts == [("ops", *attempt) for attempt in attempts]


def test_nobody_there_and_no_certificate_have_reasons_of_their_own(store: Store) -> None:
    counted = Counted()
    with webhook() as plain:
        tls = plain.url.replace("http://", "https://")  # plain HTTP answers: no TLS
        for name, url in (("nobody", "http://127.0.0.1:9/hook"), ("tls", tls)):
            settings = receiver(url=url, max_attempts=1)
            fill_outbox(store, [FakeMatch(1, 2, key=(("task_id", name),))], **{name: settings})
            endpoint = endpoint_of(name, settings, "")
            Courier(store, endpoint, CLOCK, metrics=counted).deliver_pending()
    reasons = {name: reason for name, _, reason in counted.attempts}
    assert len(counted.attempts) == 2
    assert reasons == {"nobody": "connection", "tls": "tls"}


def test_a_message_that_cannot_be_written_fails_alone(store: Store) -> None:
    counted = Counted()
    with webhook() as hook:
        ops = receiver(url=hook.url)
        fill_outbox(store, [FakeMatch(i, i, key=(("task_id", f"t{i}"),)) for i in range(3)], ops=ops)
        with store.transaction() as writer:
            broken = writer.session.get(NotificationRow, (store.notifications()[1].idempotency_key, "ops"))
            assert broken is not None
            broken.payload = {"of": "another version"}
        Courier(store, endpoint_of("ops", ops, ""), CLOCK, metrics=counted).deliver_pending()
    assert [outcome for _, outcome, _ in counted.attempts] == ["delivered", "failed", "delivered"]
    assert counted.attempts[1] == ("ops", "failed", "message")
    assert [n.status for n in store.notifications()] == ["delivered", "failed", "delivered"]


def test_a_message_that_is_refused_or_waits_does_not_hold_up_the_next(store: Store) -> None:
    clock = SetClock(5_000)
    with webhook(200, 403, 500, 200, 200) as hook:
        ops = receiver(url=hook.url)
        fill_outbox(store, [FakeMatch(i, i, key=(("task_id", f"t{i}"),)) for i in range(4)], ops=ops)
        deliver_all(courier(store, ops, clock), clock)
    told = [payload["alerts"][0]["labels"]["task_id"] for _, payload in hook.received]
    assert told == ["t0", "t1", "t2", "t3", "t2"]
    assert [n.status for n in store.notifications()] == ["delivered", "failed", "delivered", "delivered"]


def test_what_another_process_sends_again_is_picked_up_unasked(store: Store) -> None:
    class Restless(Notifier):
        POLL_S = 0.01

    with webhook(404) as hook:
        ops = receiver(url=hook.url)
        fill_outbox(store, [FakeMatch(1, 2)], ops=ops)
        courier(store, ops).deliver_pending()
        (given_up,) = store.failed_notifications()
        notifier = Restless(store, {"ops": endpoint_of("ops", ops, "")}, CLOCK)
        notifier.start()
        assert notifier.drain(120)
        with store.transaction() as writer:
            assert writer.outbox.send_again("ops", now_ms=5_000, actor="mia").n_pending == 1
        assert hook.came(2)
        notifier.stop(120)
    assert [key for key, _ in hook.received] == [given_up.idempotency_key] * 2
    assert [(n.status, n.n_attempts) for n in store.notifications()] == [("delivered", 1)]


def test_redirects_are_not_followed(store: Store) -> None:
    with webhook(302) as hook:
        ops = receiver(url=hook.url)
        fill_outbox(store, [FakeMatch(1, 2)], ops=ops)
        courier(store, ops).deliver_pending()
    assert [(n.status, n.last_error) for n in store.notifications()] == [("failed", "answered 302")]


def test_attempts_and_their_time_are_kept_over_restarts(store: Store) -> None:
    clock = SetClock(5_000)
    with webhook(500, 500, 500) as hook:
        ops = receiver(url=hook.url, max_attempts=3)
        fill_outbox(store, [FakeMatch(1, 2)], ops=ops)
        for n_attempts, wait_ms in ((1, 1_000), (2, 2_000), (3, None)):
            started = courier(store, ops, clock)
            started.deliver_pending()
            assert len(hook.received) == n_attempts
            assert started.wait_ms() == courier(store, ops, clock).wait_ms() == wait_ms
            if wait_ms is not None:
                clock.advance_to(clock.now_ms() + wait_ms - 1)
                assert courier(store, ops, clock).deliver_pending() == 0  # not yet
                clock.advance_to(clock.now_ms() + 1)
    assert [(n.status, n.n_attempts) for n in store.notifications()] == [("failed", 3)]
    assert len({key for key, _ in hook.received}) == 1


def test_a_courier_that_is_told_to_stop_leaves_the_rest(store: Store) -> None:
    sent: list[str] = []
    ops = receiver()
    fill_outbox(store, [FakeMatch(i, i, key=(("task_id", f"t{i}"),)) for i in range(3)], ops=ops)
    told_by = Courier(
        store, endpoint_of("ops", ops, ""), CLOCK, post=lambda *told: sent.append(told[2]), stopping=lambda: bool(sent)
    )
    with pytest.raises(StoppedError):
        told_by.deliver_pending()
    assert len(sent) == 1
    assert store.n_notifications_by_status()["delivered"] == 1


def test_a_crash_between_answer_and_record_repeats_the_same_key(store: Store) -> None:
    sent: list[str] = []

    def crash(_endpoint: Endpoint, _message: Message, key: str) -> None:
        sent.append(key)
        raise KeyboardInterrupt

    def post(_endpoint: Endpoint, _message: Message, key: str) -> None:
        sent.append(key)

    ops = receiver()
    fill_outbox(store, [FakeMatch(1, 2)], ops=ops)
    endpoint = endpoint_of("ops", ops, "")
    with pytest.raises(KeyboardInterrupt):
        Courier(store, endpoint, CLOCK, post=crash).deliver_pending()
    Courier(store, endpoint, CLOCK, post=post).deliver_pending()
    assert len(sent) == 2
    assert len(set(sent)) == 1


def test_a_hanging_receiver_holds_up_nobody(store: Store) -> None:
    with webhook("hang") as hanging, webhook() as fine:
        slow, good = receiver(url=hanging.url, timeout="60 s"), receiver(url=fine.url)
        endpoints = {n: endpoint_of(n, r, "") for n, r in (("a", slow), ("b", good))}
        notifier = Notifier(store, endpoints, SystemClock())
        notifier.start()
        fill_outbox(store, [FakeMatch(1, 2)], a=slow, b=good)
        notifier.wake()
        assert notifier._workers["b"].idle.wait(120)
        assert len(fine.received) == 1
        other = FakeMatch(1_000, 2_000, key=(("task_id", "t2"),))
        fill_outbox(store, [other], a=slow, b=good)  # the store is not held either
        hanging.release.set()
        notifier.wake()
        assert notifier.drain(120)
        notifier.stop()
    assert len(fine.received) == 2
    assert store.n_notifications_by_status() == {"delivered": 4}


def test_a_time_out_is_a_temporary_failure(store: Store) -> None:
    counted, clock = Counted(), SetClock(5_000)
    with webhook("hang") as hook:
        ops = receiver(url=hook.url, timeout="100 ms")
        fill_outbox(store, [FakeMatch(1, 2)], ops=ops)
        deliver_all(timed_out_once(store, ops, clock, hook, counted), clock)
    (notification,) = store.notifications()
    assert (notification.status, notification.n_attempts) == ("delivered", 2)
    assert counted.attempts == [("ops", "retried", "timeout"), ("ops", "delivered", "")]


@pytest.mark.parametrize("behaviour", [pytest.param(behaviour, id=name) for name, behaviour in HEADS.items()])
def test_an_attempt_ends_however_slowly_the_answer_comes(store: Store, behaviour: Behaviour) -> None:
    counted = Counted()
    with serving(behaviour) as url:
        ops = receiver(url=url, timeout="300 ms", max_attempts=1)
        fill_outbox(store, [FakeMatch(1, 2)], ops=ops)
        ends(Courier(store, endpoint_of("ops", ops, ""), CLOCK, metrics=counted).deliver_pending)
    (notification,) = store.notifications()
    assert (notification.status, counted.attempts) == ("failed", [("ops", "failed", "timeout")])


def test_an_answer_too_long_may_be_better_next_time(store: Store) -> None:
    counted = Counted()
    with serving(FLOODS["a header without end"]) as url:
        ops = receiver(url=url, timeout="60 s", max_attempts=1)
        fill_outbox(store, [FakeMatch(1, 2)], ops=ops)
        ends(Courier(store, endpoint_of("ops", ops, ""), CLOCK, metrics=counted).deliver_pending)
    assert counted.attempts == [("ops", "failed", "connection")]


def test_a_receiver_with_certificates_of_its_own(store: Store, tmp_path: Path) -> None:
    context, ca_file = certificate(tmp_path)
    with serving(answer, context) as url:
        ops = receiver(url=url, timeout="60 s", ca_file=ca_file)
        fill_outbox(store, [FakeMatch(1, 2)], ops=ops)
        ends(Courier(store, endpoint_of("ops", ops, ""), CLOCK).deliver_pending)
    assert [notification.status for notification in store.notifications()] == ["delivered"]
    gone = receiver(url=url, ca_file=tmp_path / "gone.pem")
    with pytest.raises(ConfigError, match=r"receivers\.ops\.ca_file: found .*gone\.pem: No such file"):
        endpoint_of("ops", gone, "")


def test_secrets_do_not_show(store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    secret = tmp_path / "url"
    secret.write_text("http://127.0.0.1:9/hook?token=hunter2\n")
    (tmp_path / "auth").write_text("Bearer hunter3\n")
    ops = WebhookReceiver(url_file=secret, authorization_file=tmp_path / "auth", max_attempts=1)
    endpoint = endpoint_of("ops", ops, "")
    assert endpoint.service.http.headers["Authorization"] == "Bearer hunter3"
    fill_outbox(store, [FakeMatch(1, 2)], ops=ops)
    Courier(store, endpoint, CLOCK).deliver_pending()  # nobody listens on port 9
    (notification,) = store.notifications()
    shown = f"{notification.last_error} {endpoint!r} {ops!r} {store.problems()[0].message} {capsys.readouterr()}"
    assert notification.status == "failed"
    assert "hunter" not in shown


def test_templates_fill_strings_only_and_cannot_be_broken_out_of() -> None:
    fields: dict[str, object] = {"summary": 'x", "admin": "{severity}', "severity": "warning"}
    template = {"text": "[{severity}] {summary} {unknown}", "n": 3, "list": ["{severity}"]}
    filled = templated_payload(template, fields)
    assert filled == {"text": '[warning] x", "admin": "{severity} {unknown}', "n": 3, "list": ["warning"]}


def test_a_receiver_with_its_own_format(store: Store, tmp_path: Path) -> None:
    template = tmp_path / "slack.json"
    template.write_text(json.dumps({"text": "{state}: {summary} ({url})"}))
    with webhook() as hook:
        ops = WebhookReceiver.model_validate({"url": hook.url, "template": template})
        fill_outbox(store, [FakeMatch(1, 2)], ops=ops)
        courier(store, ops).deliver_pending()
    alert = store.alerts()[0].id
    assert hook.received[0][1] == {"text": f"firing: t1 took 5 (http://127.0.0.1:8501/alert?id={alert})"}


def test_hostile_values_stay_text(store: Store) -> None:
    evil = "\x1b[31m{severity}\n<script>" + "x" * 5_000
    fill_outbox(store, [FakeMatch(1, 2, values={"task_id": evil, "period_ms": 5})], ops=receiver())
    payload = group_payload(lone(snapshot_of(store.alerts()[0])), "ops", "")
    summary = payload["alerts"][0]["annotations"]["summary"]
    assert summary.startswith(" [31m{severity} <script>xxx")
    assert summary.endswith("… took 5")
    assert len(summary) < 300


def test_minimum_severity(store: Store) -> None:
    fill_outbox(store, [FakeMatch(1, 2)], pager=receiver(min_severity="critical"), chat=receiver())
    assert [n.receiver for n in store.notifications()] == ["chat"]
