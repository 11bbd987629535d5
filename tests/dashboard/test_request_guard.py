"""Who is let in, and the headers of what is answered; in Chromium: `tests/browser/test_policy.py`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from dashboard.request_guard import RequestGuard, content_security_policy

KNOWN = ("127.0.0.1", "::1", "localhost", "ops.example", "*.cep.example")
OWN = "127.0.0.1:8501"
LINK = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
PAGE = "<html><script>\n  first()\n</script><script type=module src=x></script></html>"


@dataclass
class Server:
    """Stands for Streamlit's: answers everything, to everybody who likes to read it."""

    headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    n_requested: int = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.n_requested += 1
        if scope["type"] == "websocket":
            await send({"type": "websocket.accept"})
        elif scope["type"] == "http":
            await send({"type": "http.response.start", "status": 200, "headers": self.headers})
            await send({"type": "http.response.body", "body": b"told"})


def ask(
    headers: Mapping[str, str],
    *,
    kind: str = "http",
    method: str = "GET",
    path: str = "/alerts",
    scheme: str = "http",
    server: Server | None = None,
) -> list[Message]:
    """What is sent back."""
    sent: list[Message] = []
    scope: dict[str, Any] = {
        "type": kind, "method": method, "path": path, "scheme": scheme,
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }  # fmt: skip

    async def receive() -> Message:
        return {"type": f"{kind}.connect"}

    async def send(message: Message) -> None:
        sent.append(message)

    with ThreadPoolExecutor(1) as threads:  # an event loop of another test may be running in this thread
        threads.submit(
            lambda: asyncio.run(RequestGuard(server or Server(), PAGE, KNOWN)(scope, receive, send))
        ).result()
    return sent


def status(headers: Mapping[str, str], **given: Any) -> int:
    start, _ = ask(headers, **given)
    return int(start["status"])


def is_connected(headers: Mapping[str, str], **given: Any) -> bool:
    (only,) = ask(headers, kind="websocket", path="/_stcore/stream", **given)
    assert only["type"] in ("websocket.accept", "websocket.close")
    return bool(only["type"] == "websocket.accept")


@pytest.mark.parametrize(
    ("headers", "scheme"),
    [
        ({"host": OWN}, "ws"),
        ({"host": OWN, "origin": f"http://{OWN}"}, "ws"),
        ({"host": "[::1]:8501", "origin": "http://[::1]:8501"}, "ws"),
        ({"host": "OPS.example", "origin": "https://ops.example"}, "wss"),
        ({"host": "ops.example", "origin": "https://ops.example"}, "ws"),  # a proxy that did not tell of TLS
        ({"host": "a.cep.example", "origin": "http://a.cep.example", "sec-fetch-site": "same-origin"}, "ws"),
    ],
)
def test_own_pages_and_tools_have_the_websocket(headers: dict[str, str], scheme: str) -> None:
    assert is_connected(headers, scheme=scheme)


@pytest.mark.parametrize(
    ("headers", "scheme"),
    [
        ({"host": "localhost:8501", "origin": "http://localhost:8502"}, "ws"),
        ({"host": "localhost:8501", "origin": "http://localhost"}, "ws"),
        ({"host": "localhost:8501", "origin": "http://127.0.0.1:8501"}, "ws"),
        ({"host": OWN, "origin": "http://evil.example"}, "ws"),
        ({"host": OWN, "origin": "null"}, "ws"),
        ({"host": OWN, "origin": f"chrome-extension://{OWN}"}, "ws"),
        ({"host": "ops.example", "origin": "http://ops.example"}, "wss"),
        ({"host": OWN, "sec-fetch-site": "same-site"}, "ws"),
        ({"host": OWN, **LINK}, "ws"),
        ({"host": "evil.example:8501", "origin": "http://evil.example:8501"}, "ws"),
        ({"host": "cep.example", "origin": "http://cep.example"}, "ws"),
        ({"origin": f"http://{OWN}"}, "ws"),
    ],
)
def test_others_have_no_websocket(headers: dict[str, str], scheme: str) -> None:
    server = Server()
    assert not is_connected(headers, scheme=scheme, server=server)
    assert server.n_requested == 0


@pytest.mark.parametrize(
    ("headers", "method", "expected"),
    [
        ({"host": OWN}, "GET", 200),
        ({"host": OWN, "sec-fetch-site": "same-origin", "sec-fetch-mode": "cors"}, "PUT", 200),
        ({"host": OWN, "sec-fetch-site": "none", "sec-fetch-mode": "navigate"}, "GET", 200),
        ({"host": OWN, **LINK}, "GET", 200),
        ({"host": OWN, **LINK, "sec-fetch-site": "same-site"}, "HEAD", 200),
        ({"host": OWN, **LINK}, "POST", 403),
        ({"host": OWN, **LINK, "sec-fetch-dest": "iframe"}, "GET", 403),
        ({"host": OWN, **LINK, "sec-fetch-mode": "no-cors", "sec-fetch-dest": "script"}, "GET", 403),
        ({"host": OWN, "origin": "http://127.0.0.1:8502"}, "GET", 403),
        ({"host": OWN, "origin": "http://127.0.0.1:8502", **LINK}, "GET", 403),
        ({"host": "evil.example"}, "GET", 421),
        ({"host": "two words"}, "GET", 421),
        ({}, "GET", 421),
    ],
)
def test_pages_of_other_origins_link_here_and_do_no_more(headers: dict[str, str], method: str, expected: int) -> None:
    server = Server()
    assert status(headers, method=method, server=server) == expected
    assert server.n_requested == (expected == 200)


def test_health_has_no_name_but_an_origin() -> None:
    assert status({"host": "10.0.0.7:8501"}, path="/cep/_stcore/health") == 200
    assert status({"host": "10.0.0.7", "origin": "http://evil.example"}, path="/_stcore/health") == 403


def test_a_refusal_says_what_to_do_and_repeats_nothing() -> None:
    start, body = ask({"host": "evil.example<b>"})
    assert start["status"] == 421
    assert b"dashboard.allowed_hosts" in body["body"]
    assert b"evil" not in body["body"]


@pytest.mark.parametrize("host", [OWN, "evil.example"])
def test_every_answer_has_the_headers_and_gives_nobody_else_leave_to_read(host: str) -> None:
    given = [
        (b"Access-Control-Allow-Origin", b"*"),
        (b"access-control-allow-credentials", b"true"),
        (b"x-frame-options", b"ALLOWALL"),
        (b"Content-Type", b"text/html"),
    ]
    start, _ = ask({"host": host}, server=Server(given))
    names = [name for name, _ in start["headers"]]
    headers = {name.decode().lower(): value.decode() for name, value in start["headers"]}
    assert len(names) == len(headers)
    assert not [name for name in headers if name.startswith("access-control")]
    assert headers["x-frame-options"] == "SAMEORIGIN"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "same-origin"
    assert headers["cache-control"] == "no-store"
    assert headers["content-security-policy"] == content_security_policy(PAGE)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("public, immutable, max-age=9", "public, immutable, max-age=9"),
        ("public", "no-store"),
        ("no-cache", "no-store"),
    ],
)
def test_only_what_never_changes_is_kept(given: str, expected: str) -> None:
    start, _ = ask({"host": OWN}, server=Server([(b"Cache-Control", given.encode())]))
    assert [value for name, value in start["headers"] if name.lower() == b"cache-control"] == [expected.encode()]


@pytest.mark.parametrize("path", ["agent/interact", "agent", "metrics", "upload_file/a/b"])
def test_what_no_page_needs_is_not_there(path: str) -> None:
    server = Server()
    assert status({"host": OWN}, path=f"/cep/_stcore/{path}", method="POST", server=server) == 404
    assert server.n_requested == 0
    assert status({"host": OWN}, path="/metrics", server=server) == 200


def test_cookies_that_are_given_over_tls_come_back_over_tls() -> None:
    given = [(b"Set-Cookie", b"a=1; HttpOnly"), (b"set-cookie", b"b=2; Secure; Path=/")]

    def cookies(scheme: str) -> list[bytes]:
        start, _ = ask({"host": "ops.example"}, scheme=scheme, server=Server(given))
        return [value for name, value in start["headers"] if name.lower() == b"set-cookie"]

    assert cookies("https") == [b"a=1; HttpOnly; Secure", b"b=2; Secure; Path=/"]
    assert cookies("http") == [b"a=1; HttpOnly", b"b=2; Secure; Path=/"]


def test_the_policy_names_no_other_server_and_one_unsafe_word() -> None:
    directives = {name: words for name, *words in (part.split() for part in content_security_policy(PAGE).split("; "))}
    assert directives["default-src"] == ["'none'"]
    assert directives["frame-ancestors"] == ["'self'"]
    assert directives["script-src"][0] == "'self'"
    assert [word.startswith("'sha256-") for word in directives["script-src"]] == [False, True]
    unsafe = {(name, word) for name, words in directives.items() for word in words if "unsafe" in word}
    assert unsafe == {("style-src", "'unsafe-inline'")}
    allowed = {"'none'", "'self'", "'unsafe-inline'", "data:", "blob:"}
    assert {word for words in directives.values() for word in words} - allowed == {directives["script-src"][1]}


def test_the_life_of_the_server_is_not_guarded() -> None:
    server = Server()
    assert ask({}, kind="lifespan", server=server) == []
    assert server.n_requested == 1
