"""The receiver on loopback: what it takes, what it refuses."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests

from app.process.serving.loopback import N_CONNECTIONS
from app.replay.webhook_sink import MAX_BODY_BYTES, webhook_sink
from tests.live.sink import listening

PAYLOAD = {"status": "firing", "alerts": [{"annotations": {"alert_id": "a1"}}]}


def post(url: str, **request: Any) -> int:
    return requests.post(url, timeout=120, **request).status_code


def test_what_comes_twice_counts_once() -> None:
    with webhook_sink() as sink:
        for key in ("k1", "k2", "k1"):
            assert post(sink.url, json=PAYLOAD, headers={"Idempotency-Key": key}) == 200
    assert sink.received == {"k1": PAYLOAD, "k2": PAYLOAD}


def test_those_who_send_nothing_make_room() -> None:
    with webhook_sink() as sink, ExitStack() as opened:
        address = ("127.0.0.1", urlsplit(sink.url).port)
        silent = [opened.enter_context(socket.create_connection(address, 120)) for _ in range(2 * N_CONNECTIONS)]
        assert all(connection.recv(1) == b"" for connection in silent[:N_CONNECTIONS])
        assert post(sink.url, json=PAYLOAD, headers={"Idempotency-Key": "k"}) == 200
    assert sink.received == {"k": PAYLOAD}


@pytest.mark.parametrize(
    ("body", "status"), [(b"", 413), (b"{", 400), (b"\xff", 400), (b" " * (MAX_BODY_BYTES + 1), 413)]
)
def test_what_is_no_message_is_refused(body: bytes, status: int) -> None:
    with webhook_sink() as sink:
        try:
            assert post(sink.url, data=body) == status
        except requests.ConnectionError:
            assert len(body) > MAX_BODY_BYTES  # the answer came while the body was still on its way
    assert sink.received == {}


def test_every_delivery_is_taken_in_order() -> None:
    with listening() as deliveries:
        for key in ("k1", "k2", "k1"):
            assert post(deliveries.url, json=PAYLOAD, headers={"Idempotency-Key": key}) == 200
    assert [delivery.key for delivery in deliveries.received] == ["k1", "k2", "k1"]
    first = deliveries.first("a1")
    assert first is deliveries.received[0]
    assert (first.status, first.payload) == ("firing", PAYLOAD)
