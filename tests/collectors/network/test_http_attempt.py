"""Every attempt ends within its limits, whatever the server does: it ends its connection when the client hangs up."""

from __future__ import annotations

import socket
import ssl
import threading
from pathlib import Path

import pytest
import requests

from collectors.base import OptionError, SourceUnavailableError
from collectors.network import http_attempt
from collectors.network.http import HttpOptions, HttpTransport
from tests.slow_servers import (
    BODIES,
    FLOODS,
    HANDSHAKES,
    HEADS,
    Behaviour,
    answer,
    certificate,
    drip,
    ends,
    serving,
)

LIMIT_S = 0.3
AMPLE_S = 3_600.0
"""Longer than any test may take: what ends did not end by this limit."""
TOOK_MORE = r"took more than (?:0(?:\.[0-3]\d*)?|\d(?:\.\d+)?e-\d+) s"
"""What is left of LIMIT_S when the attempt begins; a busy machine may let some of it pass before."""


def named(behaviours: dict[str, Behaviour]) -> list[object]:
    return [pytest.param(behaviour, id=name) for name, behaviour in behaviours.items()]


def transport(url: str, verify: bool | str = True, total_s: float = LIMIT_S) -> HttpTransport:
    options = HttpOptions(
        connect_timeout_s=AMPLE_S, read_timeout_s=AMPLE_S, total_timeout_s=total_s, n_attempts=3, verify_tls=verify,
        max_answer_bytes=1 << 20,
    )  # fmt: skip
    return HttpTransport((url,), options)


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> tuple[ssl.SSLContext, Path]:
    return certificate(tmp_path_factory.mktemp("tls"))


@pytest.mark.parametrize("behaviour", named(HEADS | BODIES))
def test_a_document_that_never_comes(behaviour: Behaviour) -> None:
    with serving(behaviour) as url, pytest.raises(SourceUnavailableError, match=TOOK_MORE):
        ends(lambda: transport(url).get(url, "/x", 0))


@pytest.mark.parametrize("behaviour", named(HEADS | BODIES))
def test_the_same_over_tls(behaviour: Behaviour, tls: tuple[ssl.SSLContext, Path]) -> None:
    context, ca_file = tls
    with (
        serving(behaviour, context) as url,
        pytest.raises(SourceUnavailableError, match=TOOK_MORE),
    ):
        ends(lambda: transport(url, str(ca_file)).get(url, "/x", 0))


@pytest.mark.parametrize("behaviour", named(HANDSHAKES))
def test_a_handshake_that_never_ends(behaviour: Behaviour) -> None:
    with serving(behaviour) as plain:
        url = plain.replace("http:", "https:")
        with pytest.raises(SourceUnavailableError, match=TOOK_MORE):
            ends(lambda: transport(url).get(url, "/x", 0))


@pytest.mark.parametrize("behaviour", named(FLOODS))
def test_more_than_an_answer_may_have(behaviour: Behaviour) -> None:
    with serving(behaviour) as url, pytest.raises(SourceUnavailableError):
        ends(lambda: transport(url, total_s=AMPLE_S).get(url, "/x", 0))


def test_limits_of_headers_and_bodies_are_told() -> None:
    for name in ("continues as fast as it goes", "a body without end"):
        with serving(FLOODS[name]) as url, pytest.raises(SourceUnavailableError, match="more than 1048576 bytes, or"):
            ends(lambda url=url: transport(url, total_s=AMPLE_S).get(url, "/x", 0))


@pytest.mark.parametrize("behaviour", named(HEADS))
def test_a_message_without_an_answer(behaviour: Behaviour) -> None:
    with serving(behaviour) as url, pytest.raises(http_attempt.DeadlineError):
        ends(lambda: http_attempt.post(url, b"{}", {}, LIMIT_S))


@pytest.mark.parametrize("over_tls", [False, True])
def test_a_message_that_is_not_read(tls: tuple[ssl.SSLContext, Path], over_tls: bool) -> None:
    context, ca_file = tls
    is_over = threading.Event()
    with serving(lambda _: is_over.wait(AMPLE_S), context if over_tls else None) as url:
        try:
            with pytest.raises(http_attempt.DeadlineError):
                ends(lambda: http_attempt.post(url, bytes(1 << 26), {}, LIMIT_S, ca_file))
        finally:
            is_over.set()


@pytest.mark.parametrize("behaviour", named(BODIES))
def test_a_message_is_taken_when_the_status_says_so(behaviour: Behaviour) -> None:
    with serving(behaviour) as url:
        assert ends(lambda: http_attempt.post(url, b"{}", {}, AMPLE_S)).status == 200


def test_a_proxy_that_drips(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    with serving(drip(b"HTTP/1.1 200 OK\r\n", again=b"X: y\r\n")) as proxy:
        for scheme in ("http", "https"):
            monkeypatch.setenv(f"{scheme}_proxy", proxy)
            with pytest.raises(http_attempt.DeadlineError):
                ends(lambda scheme=scheme: http_attempt.post(f"{scheme}://hook.invalid/x", b"{}", {}, LIMIT_S))


def test_a_name_that_nobody_resolves(monkeypatch: pytest.MonkeyPatch) -> None:
    released = threading.Event()
    asked: list[object] = []

    def hang(*name: object, **_: object) -> list[object]:
        asked.append(name)
        released.wait(AMPLE_S)
        raise socket.gaierror(socket.EAI_AGAIN, "no server answers")

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    try:
        for _ in range(3):
            with pytest.raises(SourceUnavailableError, match="took more than"):
                ends(lambda: transport("http://rm.invalid:8088").get("http://rm.invalid:8088", "/x", 0))
        assert len(asked) == 1  # they wait for one look-up
    finally:
        released.set()


def test_a_name_that_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object, **__: object) -> list[object]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    url = f"http://{'a' * 64}:1"
    with pytest.raises(SourceUnavailableError, match="label"):
        ends(lambda: transport(url, total_s=AMPLE_S).get(url, "/x", 0))
    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(SourceUnavailableError, match="not known"):
        ends(lambda: transport("http://rm:1", total_s=AMPLE_S).get("http://rm:1", "/x", 0))


@pytest.mark.filterwarnings("ignore:Unverified HTTPS request")
def test_certificates_are_checked_against_the_given_file(tls: tuple[ssl.SSLContext, Path]) -> None:
    context, ca_file = tls
    with serving(answer, context) as url:
        assert ends(lambda: http_attempt.post(url, b"{}", {}, AMPLE_S, ca_file)).status == 200
        assert ends(lambda: transport(url, str(ca_file), AMPLE_S).get(url, "/x", 0)).body == b"{}"
        assert ends(lambda: transport(url, False, AMPLE_S).get(url, "/x", 0)).body == b"{}"
        with pytest.raises(requests.exceptions.SSLError):
            ends(lambda: http_attempt.post(url, b"{}", {}, AMPLE_S))
        other = url.replace("127.0.0.1", "localhost")
        with pytest.raises(requests.exceptions.SSLError):
            ends(lambda: http_attempt.post(other, b"{}", {}, AMPLE_S, ca_file))


def test_a_file_of_certificates_that_is_gone_meanwhile(tls: tuple[ssl.SSLContext, Path], tmp_path: Path) -> None:
    with serving(answer, tls[0]) as url, pytest.raises(requests.ConnectionError, match="certificate"):
        ends(lambda: http_attempt.post(url, b"{}", {}, AMPLE_S, tmp_path / "gone.pem"))


@pytest.mark.parametrize(("content", "reason"), [(None, "No such file"), (b"", "no cert"), (b"-----", "no cert")])
def test_files_that_hold_no_certificates(tmp_path: Path, content: bytes | None, reason: str) -> None:
    path = tmp_path / "ca.pem"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(OptionError, match=reason):
        http_attempt.check_ca_file(path)
    with pytest.raises(OptionError, match="Is a directory"):
        http_attempt.check_ca_file(tmp_path)


def test_no_server_leaves_a_cookie_for_the_next_document() -> None:
    seen: list[bytes] = []

    def serve(connection: socket.socket) -> None:
        seen.append(connection.recv(65_536))
        connection.sendall(
            b"HTTP/1.1 200 OK\r\nSet-Cookie: a=b; Path=/\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        )

    with serving(serve) as url:
        asking = transport(url, total_s=AMPLE_S)
        for path in ("/x", "/y"):
            ends(lambda path=path: asking.get(url, path, 0))
    assert len(seen) == 2
    assert not any(b"Cookie" in request for request in seen)
