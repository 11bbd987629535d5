"""Who may ask: credentials, roles, TLS off loopback, pages, sizes; and what an address off loopback needs."""

from __future__ import annotations

import base64
import http.client
import json
import socket
import ssl
from pathlib import Path

import pytest

from app.alertmanager.api import NOT_OURS
from app.alertmanager.credentials import Credentials
from app.alertmanager.listener import FollowedSettings, Listener
from app.clock import SetClock
from app.config import load_settings
from app.errors import AppError, ConfigError, StoreError
from app.process.serving.http_server import HEADERS
from app.settings import ApiSettings, Settings
from app.store import Store
from tests.app.alertmanager.served import NOW_MS, TOKEN, TOKENS, VIEWER_TOKEN, Served, fire, served, slow, tokens_file
from tests.app.alertmanager.test_silences import body
from tests.slow_servers import certificate

SILENCES = "/api/v2/silences"


def basic(name: str, token: str) -> str:
    return "Basic " + base64.b64encode(f"{name}:{token}".encode()).decode()


@pytest.mark.parametrize(
    ("authorization", "status"),
    [
        (None, 401),
        (f"Bearer {TOKEN}", 200),
        (f"bearer  {TOKEN}", 200),
        (basic("mia", TOKEN), 200),
        (basic("vic", TOKEN), 401),
        (basic("mia", "x"), 401),
        (f"Bearer {VIEWER_TOKEN}", 400),  # with a text, which amtool prints
        ("Bearer ", 401),
        ("Basic !", 401),
        ("Basic " + base64.b64encode(b"\xff").decode(), 401),
        (f"Digest {TOKEN}", 401),
        ("Bearer " + "x" * 5_000, 401),
    ],
)
def test_writes_need_an_operator_on_loopback_too(api: Served, authorization: str | None, status: int) -> None:
    headers = {} if authorization is None else {"Authorization": authorization}
    reply = api.ask("POST", SILENCES, body(), headers)
    assert reply.status == status
    assert len(api.store.silences(NOW_MS)) == (status == 200)
    assert ("Basic" in reply.headers.get("WWW-Authenticate", "")) == (status == 401)


def test_reads_on_loopback_need_nobody_but_nobody_else_than_they_say(api: Served) -> None:
    assert api.get(SILENCES).status == 200
    assert api.get(SILENCES, {"Authorization": "Bearer wrong"}).status == 401
    assert api.get("/api/v2/nothing").json == {"code": 404, "message": "path /api/v2/nothing was not found"}


def test_foreign_alerts_are_refused_and_told_why(api: Served) -> None:
    reply = api.write("POST", "/api/v2/alerts", [{"labels": {"alertname": "x"}}])
    assert (reply.status, reply.json) == (400, NOT_OURS)
    assert api.ask("POST", "/api/v2/alerts", []).status == 401


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        # what browsers add when a page asks
        ({"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://localhost:3000", "Sec-Fetch-Site": "same-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}, 403),
        ({"Host": "evil.example"}, 400),
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
        ({"Content-Type": "application/json; charset=utf-8"}, 200),
        # what Grafana's server passes on of its page's request: no Origin, no Referer
        (
            {
                "Sec-Fetch-Site": "same-origin",
                "Sec-Fetch-Mode": "cors",
                "Sec-Fetch-Dest": "empty",
                "User-Agent": "Grafana/11.2.0",
                "X-Grafana-Referer": "https://grafana.example/alerting/silence/new",
                "X-Forwarded-For": "10.0.0.7, 127.0.0.1",
                "X-Datasource-Uid": "abc",
                "X-Grafana-Org-Id": "1",
                "Accept": "application/json, text/plain, */*",
                "Content-Type": "application/json",
            },
            200,
        ),
    ],
)
def test_pages_of_others_cannot_write_and_grafanas_server_can(
    api: Served, headers: dict[str, str], status: int
) -> None:
    """Also with the password that a browser knows of this server."""
    assert api.ask("POST", SILENCES, body(), {"Authorization": basic("mia", TOKEN), **headers}).status == status
    assert len(api.store.silences(NOW_MS)) == (status == 200)


def test_no_answer_lets_another_origin_read(api: Served) -> None:
    preflight = {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}
    for reply in (api.ask("OPTIONS", SILENCES, None, preflight), api.get(SILENCES), api.get("/-/healthy")):
        assert not [name for name in reply.headers if name.lower().startswith("access-control-")]
        assert {name: reply.headers.get(name) for name in HEADERS} == HEADERS


def test_methods_and_sizes(api: Served) -> None:
    reply = api.write("PUT", SILENCES, {})
    assert (reply.status, reply.headers["Allow"]) == (405, "GET,POST")
    assert reply.json == {"code": 405, "message": "method PUT is not allowed, but [GET,POST] are"}
    fits = body(comment="x")
    room = 64 * 1024 - len(json.dumps(fits)) + 1
    assert api.write("POST", SILENCES, {**fits, "padding": "x" * (room - 20)}).status == 200
    assert api.write("POST", SILENCES, {**fits, "padding": "x" * room}).status == 413


def test_a_body_may_come_in_chunks(api: Served) -> None:
    connection = http.client.HTTPConnection(*api.listener.address, timeout=120)
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    text = json.dumps(body()).encode()
    connection.request("POST", SILENCES, iter([text[:50], text[50:]]), headers, encode_chunked=True)
    answer = connection.getresponse()
    assert (answer.status, set(json.loads(answer.read()))) == (200, {"silenceID"})
    connection.close()
    for chunked, length in ((["chunked"], "5"), (["gzip, chunked"], None), (["chunked", "identity"], None)):
        connection = http.client.HTTPConnection(*api.listener.address, timeout=120)
        connection.putrequest("POST", SILENCES)
        for coding in chunked:
            connection.putheader("Transfer-Encoding", coding)
        if length is not None:
            connection.putheader("Content-Length", length)
        connection.endheaders(b"0\r\n\r\n")
        assert connection.getresponse().status == 400
        connection.close()


def test_a_head_ends_where_it_ends_whatever_stands_in_the_body(api: Served) -> None:
    text = json.dumps(body()).replace(", ", ",\r\n\r\n").encode()
    head = (
        f"POST {SILENCES} HTTP/1.1\nHost: localhost\nAuthorization: Bearer {TOKEN}\n"
        f"Content-Type: application/json\nContent-Length: {len(text)}\n\n"
    )
    with socket.create_connection(api.listener.address, timeout=120) as connection:
        connection.sendall(head.encode() + text)
        assert connection.makefile("rb").readline() == b"HTTP/1.1 200 OK\r\n"


def test_health_and_readiness_are_alertmanagers(api: Served) -> None:
    for path in ("/-/healthy", "/-/ready"):
        reply = api.get(path)
        assert (reply.status, reply.body) == (200, b"OK")
    api.store.engine.dispose()


def test_what_fails_inside_is_not_told_outside(api: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_given: object) -> None:
        raise RuntimeError("secret")

    monkeypatch.setattr(Store, "silences_since", broken)
    reply = api.get(SILENCES)
    assert (reply.status, reply.json) == (500, "internal error; see the log of the process")


def test_a_store_that_cannot_be_read_is_an_error_and_no_half_answer(
    api: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    fire(api.store, slow("t1", "n1"))

    def broken(*_given: object) -> None:
        raise StoreError("the store cannot be read: secret")

    monkeypatch.setattr(Store, "whole_alerts", broken)
    for path in ("alerts", "alerts/groups"):
        reply = api.get(f"/api/v2/{path}")
        assert (reply.status, reply.json) == (500, "the store or the configuration cannot be read; see the log")


# ------------------------------------------------------------------ off loopback


@pytest.mark.parametrize(
    ("missing", "told"), [("cert_file", ["api.cert_file"]), ("tokens_file", ["api.tokens_file"]), ("both", None)]
)
def test_off_loopback_tls_and_tokens_are_needed(
    store: Store, tmp_path: Path, missing: str, told: list[str] | None
) -> None:
    certificate(tmp_path)
    (tmp_path / "key.pem").chmod(0o600)
    files = {
        "cert_file": tmp_path / "certificate.pem",
        "key_file": tmp_path / "key.pem",
        "tokens_file": tokens_file(tmp_path),
    }
    absent = {"cert_file": {"cert_file", "key_file"}, "tokens_file": {"tokens_file"}, "both": set(files)}[missing]
    section = {name: file for name, file in files.items() if name not in absent}
    settings = ApiSettings.model_validate({"address": "0.0.0.0", "port": 0, **section})
    with pytest.raises(ConfigError) as error:
        Listener(Settings, settings, store, SetClock(NOW_MS))
    assert [problem.key for problem in error.value.problems] == (told or ["api.cert_file", "api.tokens_file"])


def test_off_loopback_reads_need_a_token_too(store: Store, tmp_path: Path) -> None:
    certificate(tmp_path)
    (tmp_path / "key.pem").chmod(0o600)
    files = {"cert_file": tmp_path / "certificate.pem", "key_file": tmp_path / "key.pem"}
    fire(store, slow("t1", "n1"))
    trusted = ssl.create_default_context(cafile=str(tmp_path / "certificate.pem"))
    with served(store, tmp_path, address="0.0.0.0", **files) as api:
        port = api.listener.address[1]

        def ask(path: str, **headers: str) -> tuple[int, bytes]:
            connection = http.client.HTTPSConnection("127.0.0.1", port, context=trusted, timeout=120)
            connection.request("GET", path, headers=headers)
            answer = connection.getresponse()
            found = answer.status, answer.read()
            connection.close()
            return found

        for path in ("alerts", "alerts/groups", "silences", "status", "receivers", "openapi.json", "nothing"):
            assert ask(f"/api/v2/{path}")[0] == 401
        status, told = ask("/api/v2/alerts", Authorization=f"Bearer {VIEWER_TOKEN}", Host="cep.example.org")
        assert (status, len(json.loads(told))) == (200, 1)
        assert ask("/-/ready") == (200, b"OK")
        plain = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        with pytest.raises((http.client.HTTPException, OSError)):
            _asked_in_plain(plain)
        plain.close()


def _asked_in_plain(connection: http.client.HTTPConnection) -> None:
    connection.request("GET", "/api/v2/status")
    connection.getresponse()


# ------------------------------------------------------------------------- files


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", "nobody"),
        ("# nobody\n", "nobody"),
        ("mia operator\n", "line 1: 2 words"),
        (f"\nmia boss {TOKEN}\n", "line 2: a role that there is not"),
        ("mia operator short\n", "line 1: a token of 5 characters"),
        (f"mia operator {TOKEN}\nmia viewer {VIEWER_TOKEN}\n", "line 2: a name or a token for the second time"),
        (f"mia operator {TOKEN}\nbob viewer {TOKEN}\n", "line 2: a name or a token for the second time"),
        (f"a:b operator {TOKEN}\n", "line 1: a name that cannot be one"),
        ("x" * 70_000, "more than 64 KiB"),
    ],
)
def test_a_file_of_tokens_that_is_wrong_is_told_without_a_token(tmp_path: Path, text: str, found: str) -> None:
    with pytest.raises(ConfigError, match=f"api.tokens_file: found {found}") as error:
        Credentials(tokens_file(tmp_path, text))
    assert TOKEN not in str(error.value)


def test_a_file_that_everybody_may_read_is_refused(tmp_path: Path) -> None:
    tokens_file(tmp_path).chmod(0o644)
    with pytest.raises(ConfigError, match="everybody on this machine may read; expected chmod o-r"):
        Credentials(tmp_path / "tokens")
    with pytest.raises(ConfigError, match="No such file"):
        Credentials(tmp_path / "none")


def test_a_token_that_is_taken_out_of_the_file_is_one_no_longer(api: Served, tmp_path: Path) -> None:
    ask = lambda: api.get(SILENCES, {"Authorization": f"Bearer {VIEWER_TOKEN}"}).status  # noqa: E731
    assert ask() == 200
    tokens_file(tmp_path, TOKENS.replace(f"vic viewer {VIEWER_TOKEN}\n", ""))
    assert ask() == 401
    tokens_file(tmp_path, "nonsense")
    assert api.write("POST", SILENCES, body()).status == 401
    tokens_file(tmp_path)
    assert ask() == 200


def test_settings_follow_their_file_as_long_as_they_can_be_read(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("alerting: {external_url: 'http://a'}\n")
    followed = FollowedSettings(file, load_settings(file))
    for text, expected in (("http://bb", "http://bb"), (None, "http://bb"), ("http://cccc", "http://cccc")):
        file.write_text("alerting: {nonsense: 1}\n" if text is None else f"alerting: {{external_url: '{text}'}}\n")
        assert followed().alerting.external_url == expected


def test_an_address_that_is_taken_is_told(api: Served, store: Store, tmp_path: Path) -> None:
    with pytest.raises(AppError, match=r"api.port: found \d+, which is taken on 127.0.0.1; expected a free port"):
        Listener(Settings, ApiSettings(port=api.listener.address[1]), store, SetClock(NOW_MS))
