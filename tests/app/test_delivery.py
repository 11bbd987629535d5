"""Delivery over a real loopback webhook: payload, retry, give up, restart, order, hanging receivers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from app.alerting import recorder
from app.alerting.delivery import Courier, Endpoint, Notifier, StoppedError, endpoint_of
from app.alerting.payload import alertmanager_payload, templated_payload
from app.alerting.recorder import Recorder
from app.clock import SetClock
from app.settings import Receiver
from app.store import Store
from tests.app.alerting_fixtures import FakeMatch, kept, options, receiver
from tests.app.webhook import webhook

CLOCK = SetClock(5_000)


def fill_outbox(store: Store, matches: Sequence[FakeMatch], watermark_ms: int = 0, **receivers: Receiver) -> None:
    with store.transaction() as writer:
        Recorder(options(**receivers), writer, kept, 1_000).live(matches, watermark_ms)


def courier(store: Store, settings: Receiver, waits: list[float] | None = None) -> Courier:
    waits = [] if waits is None else waits
    endpoint = endpoint_of("ops", settings, "http://127.0.0.1:8501")
    return Courier(store, endpoint, CLOCK, wait=lambda seconds: waits.append(seconds) is not None)


def test_alertmanager_payload_version_4(store: Store) -> None:
    with webhook() as hook:
        ops = receiver(url=hook.url)
        fill_outbox(store, [FakeMatch(1_000, 2_000)], 10_000, ops=ops)
        assert courier(store, ops).deliver_pending() == 2
    (key, firing), (resolved_key, resolved) = hook.received
    assert key != resolved_key
    assert set(firing) == {
        "version", "groupKey", "truncatedAlerts", "status", "receiver", "groupLabels", "commonLabels",
        "commonAnnotations", "externalURL", "alerts",
    }  # fmt: skip
    assert (firing["version"], firing["status"], firing["receiver"]) == ("4", "firing", "ops")
    (alert,) = firing["alerts"]
    assert set(alert) == {"status", "labels", "annotations", "startsAt", "endsAt", "generatorURL", "fingerprint"}
    assert alert["labels"] == {"alertname": "slow", "severity": "warning", "task_id": "t1"}
    assert alert["annotations"]["summary"] == "t1 took 5"
    assert alert["annotations"]["runbook"] == "Look at the task."
    assert (alert["startsAt"], alert["endsAt"]) == ("1970-01-01T00:00:01.000Z", "0001-01-01T00:00:00Z")
    assert (resolved["status"], resolved["alerts"][0]["endsAt"]) == ("resolved", "1970-01-01T00:00:02.000Z")
    assert resolved["alerts"][0]["fingerprint"] == alert["fingerprint"]
    assert {n.status for n in store.notifications()} == {"delivered"}


def test_a_500_is_retried_with_the_same_key_and_growing_waits(store: Store) -> None:
    waits: list[float] = []
    with webhook(500, 503, 429) as hook:
        ops = receiver(url=hook.url, first_retry="1 s")
        fill_outbox(store, [FakeMatch(1, 2)], ops=ops)
        courier(store, ops, waits).deliver_pending()
    assert len({key for key, _ in hook.received}) == 1
    assert len(hook.received) == 4
    assert [round(wait) for wait in waits] == [1, 2, 4]
    (notification,) = store.notifications()
    assert (notification.status, notification.n_attempts) == ("delivered", 4)


def test_what_finally_fails_is_visible_and_does_not_hold_up_the_rest(store: Store) -> None:
    with webhook(500, 500, 400) as hook:
        ops = receiver(url=hook.url, max_attempts=2, send_resolved=False)
        fill_outbox(store, [FakeMatch(i, i, key=(("task_id", f"t{i}"),)) for i in range(3)], ops=ops)
        courier(store, ops).deliver_pending()
    assert [(n.status, n.n_attempts, n.last_error) for n in store.notifications()] == [
        ("failed", 2, "answered 500"),
        ("failed", 1, "answered 400"),
        ("delivered", 1, None),
    ]
    (problem,) = store.problems()
    assert (problem.source, problem.kind, problem.n_times) == ("alerting", "undelivered", 2)


def test_redirects_are_not_followed(store: Store) -> None:
    with webhook(302) as hook:
        ops = receiver(url=hook.url)
        fill_outbox(store, [FakeMatch(1, 2)], ops=ops)
        courier(store, ops).deliver_pending()
    assert [(n.status, n.last_error) for n in store.notifications()] == [("failed", "answered 302")]


def test_attempts_count_over_restarts(store: Store) -> None:
    def stop(_seconds: float) -> bool:
        return True

    with webhook(500, 500, 500) as hook:
        ops = receiver(url=hook.url, max_attempts=3)
        fill_outbox(store, [FakeMatch(1, 2)], ops=ops)
        endpoint = endpoint_of("ops", ops, "")
        for _ in range(2):
            with pytest.raises(StoppedError):
                Courier(store, endpoint, CLOCK, wait=stop).deliver_pending()
        Courier(store, endpoint, CLOCK, wait=stop).deliver_pending()
    assert [(n.status, n.n_attempts) for n in store.notifications()] == [("failed", 3)]
    assert len({key for key, _ in hook.received}) == 1


def test_a_crash_between_answer_and_record_repeats_the_same_key(store: Store) -> None:
    sent: list[str] = []

    def crash(_endpoint: Endpoint, _body: bytes, key: str) -> None:
        sent.append(key)
        raise KeyboardInterrupt

    def post(_endpoint: Endpoint, _body: bytes, key: str) -> None:
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
        notifier = Notifier(store, {n: endpoint_of(n, r, "") for n, r in (("a", slow), ("b", good))}, CLOCK)
        notifier.start()
        fill_outbox(store, [FakeMatch(1, 2)], a=slow, b=good)
        notifier.wake()
        assert notifier._idle["b"].wait(20)
        assert len(fine.received) == 1
        fill_outbox(store, [FakeMatch(1_000, 2_000)], a=slow, b=good)  # the store is not held either
        hanging.release.set()
        notifier.wake()
        assert notifier.drain(20)
        notifier.stop()
    assert len(fine.received) == 2
    assert store.n_notifications_by_status() == {"delivered": 4}


def test_a_time_out_is_a_temporary_failure(store: Store) -> None:
    with webhook("hang") as hook:
        ops = receiver(url=hook.url, timeout="100 ms")
        fill_outbox(store, [FakeMatch(1, 2)], ops=ops)
        courier(store, ops).deliver_pending()
    (notification,) = store.notifications()
    assert (notification.status, notification.n_attempts) == ("delivered", 2)


def test_secrets_do_not_show(store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    secret = tmp_path / "url"
    secret.write_text("http://127.0.0.1:9/hook?token=hunter2\n")
    (tmp_path / "auth").write_text("Bearer hunter3\n")
    ops = Receiver(url_file=secret, authorization_file=tmp_path / "auth", max_attempts=1)
    endpoint = endpoint_of("ops", ops, "")
    assert endpoint.headers["Authorization"] == "Bearer hunter3"
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
        ops = Receiver.model_validate({"url": hook.url, "template": template})
        fill_outbox(store, [FakeMatch(1, 2)], ops=ops)
        courier(store, ops).deliver_pending()
    alert = store.alerts()[0].id
    assert hook.received[0][1] == {"text": f"firing: t1 took 5 (http://127.0.0.1:8501/alerts?id={alert})"}


def test_hostile_values_stay_text(store: Store) -> None:
    evil = "\x1b[31m{severity}\n<script>" + "x" * 5_000
    fill_outbox(store, [FakeMatch(1, 2, values={"task_id": evil, "period_ms": 5})], ops=receiver())
    payload = alertmanager_payload(recorder.snapshot_of(store.alerts()[0]), "ops", "")
    summary = payload["alerts"][0]["annotations"]["summary"]
    assert summary.startswith(" [31m{severity} <script>xxx")
    assert summary.endswith("… took 5")
    assert len(summary) < 300


def test_minimum_severity(store: Store) -> None:
    fill_outbox(store, [FakeMatch(1, 2)], pager=receiver(min_severity="critical"), chat=receiver())
    assert [n.receiver for n in store.notifications()] == ["chat"]
