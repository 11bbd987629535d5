"""Servers on loopback that hang, redirect, drip, refuse and fail."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler

import pytest

from app.process.serving.loopback import serving
from collectors.base import OptionError, SourceUnavailableError
from collectors.network.http import HttpOptions, HttpTransport
from collectors.rest.yarn_rest import YarnRestCollector, YarnRestOptions
from tests.collectors import rest_server

TWICE = HttpOptions(
    connect_timeout_s=60.0, read_timeout_s=60.0, total_timeout_s=60.0, n_attempts=2,
    first_backoff_s=0.0, max_backoff_s=0.0,
)  # fmt: skip
"""Whoever answers has time to."""


class Server:
    """A loopback server whose answer to each path is given by `pages`: (status, headers, body)."""

    def __init__(self) -> None:
        self.pages: dict[str, list[tuple[int, dict[str, str], bytes]]] = {}
        self.asked: list[str] = []
        self.headers: list[dict[str, str]] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.asked.append(self.path)
                server.headers.append(dict(self.headers))
                answers = server.pages.get(self.path, [(404, {}, b"")])
                status, headers, body = answers.pop(0) if len(answers) > 1 else answers[0]
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: object) -> None:
                pass

        self.handler = Handler
        self.url = ""


@pytest.fixture
def server() -> Iterator[Server]:
    started = Server()
    with serving(started.handler) as started.url:
        yield started


def transport(server: Server, options: HttpOptions = TWICE) -> HttpTransport:
    return HttpTransport((server.url,), options)


def test_an_answer(server: Server) -> None:
    server.pages["/x?a=b"] = [(200, {"Content-Type": "application/json"}, b"{}")]
    answer = transport(server).get(server.url + "/", "x?a=b".join(["/", ""]), 7)
    assert (answer.status, answer.content_type, answer.body, answer.t_ms) == (200, "application/json", b"{}", 7)
    assert server.headers[0]["Accept"] == "application/json"


def test_a_passing_status_is_asked_again(server: Server) -> None:
    server.pages["/x"] = [(503, {}, b""), (200, {}, b"ok")]
    assert transport(server).get(server.url, "/x", 0).body == b"ok"
    server.pages["/y"] = [(503, {}, b"starting")]
    assert transport(server).get(server.url, "/y", 0).status == 503
    assert server.asked.count("/y") == TWICE.n_attempts


def test_errors_that_stay_are_not_asked_again(server: Server) -> None:
    assert transport(server).get(server.url, "/nothing", 0).status == 404
    assert server.asked == ["/nothing"]


def test_redirects_are_followed_to_known_servers_only(server: Server) -> None:
    server.pages["/to-self"] = [(302, {"Location": "/there"}, b"")]
    server.pages["/there"] = [(200, {}, b"here")]
    server.pages["/to-login"] = [(302, {"Location": "http://login.example.org/?next=x"}, b"")]
    server.pages["/circle"] = [(307, {"Location": "/circle"}, b"")]
    assert transport(server).get(server.url, "/to-self", 0).body == b"here"
    answer = transport(server).get(server.url, "/to-login", 0)
    assert (answer.status, answer.location) == (302, "http://login.example.org/?next=x")
    assert transport(server).get(server.url, "/circle", 0).status == 307


def test_a_redirect_to_no_address(server: Server) -> None:
    server.pages["/bad"] = [(302, {"Location": "http://["}, b"")]
    answer = transport(server).get(server.url, "/bad", 0)
    assert (answer.status, answer.location) == (302, "http://[")


def test_a_redirect_with_a_long_body_is_cut_like_any_answer(server: Server) -> None:
    server.pages["/long"] = [(302, {"Location": "http://login.example.org/"}, b"x" * 200_000)]
    with pytest.raises(SourceUnavailableError, match="more than 100000 bytes"):
        transport(server, HttpOptions(max_answer_bytes=100_000, n_attempts=1)).get(server.url, "/long", 0)


def test_nobody_listens() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        # An alert shows as much of it as fits: what happened stands first, and the address once.
        with pytest.raises(SourceUnavailableError, match=rf"^{url}/x: no connection: .{{0,40}}refused; check that the"):
            HttpTransport((url,), TWICE).get(url, "/x", 0)


def test_a_server_that_hangs() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(SourceUnavailableError, match=rf"^{url}/x: Read timed out"):
            HttpTransport((url,), replace(TWICE, read_timeout_s=0.2)).get(url, "/x", 0)


def test_an_answer_too_long(server: Server) -> None:
    server.pages["/big"] = [(200, {}, b"x" * 200_000)]
    with pytest.raises(SourceUnavailableError, match="more than 1000 bytes"):
        transport(server, HttpOptions(max_answer_bytes=1_000)).get(server.url, "/big", 0)


def test_options_are_checked() -> None:
    with pytest.raises(OptionError, match="n_attempts"):
        HttpOptions(n_attempts=0)
    with pytest.raises(OptionError, match="may not hold a password"):
        HttpTransport(("http://user:secret@host",))


def test_answers_say_how_old_they_are(server: Server) -> None:
    for age, t_ms in (("7", 93_000), ("0", 100_000), ("-1", 100_000), ("soon", 100_000), ("9" * 50, 100_000)):
        server.pages["/x"] = [(200, {"Age": age}, b"")]
        assert transport(server).get(server.url, "/x", 100_000).t_ms == t_ms


def test_collector_over_the_network(server: Server) -> None:
    documents = rest_server.running_job().documents
    server.pages = {path: [(200, {}, json.dumps(body).encode())] for path, body in documents.items()}
    options = YarnRestOptions(resource_manager_urls=(server.url,), history_url=server.url, http=TWICE)
    live = YarnRestCollector(options).poll(rest_server.NOW_MS)
    scripted = YarnRestCollector(options, rest_server.running_job()).poll(rest_server.NOW_MS)
    assert len(live.events) == 11
    assert live.events.table.equals(scripted.events.table)


def test_old_answers_hold_the_watermark_and_date_the_samples(server: Server) -> None:
    documents = rest_server.running_job().documents
    server.pages = {path: [(200, {"Age": "3"}, json.dumps(body).encode())] for path, body in documents.items()}
    options = YarnRestOptions(resource_manager_urls=(server.url,), history_url=server.url, http=TWICE)
    polled = YarnRestCollector(options).poll(rest_server.NOW_MS)
    assert polled.watermark_ms == rest_server.NOW_MS - 3_000 - options.lateness_ms
    (sample,) = [row for row in polled.events.rows() if row["type"] == "TaskSample"]
    assert (sample["t_lo_ms"], sample["elapsed_ms"]) == (rest_server.NOW_MS - 3_000, 47_000)
