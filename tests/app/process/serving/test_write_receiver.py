"""The receiver: what is answered to whom, and that success means the disk."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import requests
from pydantic import ValidationError

from app.errors import ConfigError
from app.process.serving import write_receiver
from app.process.serving.write_receiver import LEAST_TOKEN_CHARS, PATH, WriteReceiver, secrets_of
from app.settings import RemoteWriteSource
from collectors.prometheus.spool import Place, SpoolError, SpoolReader
from tests.collectors.prometheus.writes import Series, packed, request, series
from tests.slow_servers import certificate, ends

T = 1_795_693_010_724
HEADERS = {
    "Content-Encoding": "snappy",
    "Content-Type": "application/x-protobuf",
    "X-Prometheus-Remote-Write-Version": "0.1.0",
}
LOAD: Series = series("node_load1", 0.5, T)


class Running:
    def __init__(self, receiver: WriteReceiver, folder: Path, answered: list[int]) -> None:
        self.receiver, self.folder, self.answered = receiver, folder, answered
        self.scheme = "http" if receiver.secrets.tls is None else "https"

    def post(self, body: bytes, path: str = PATH, method: str = "POST", **options: Any) -> requests.Response:
        headers = HEADERS | options.pop("headers", {})
        url = f"{self.scheme}://127.0.0.1:{self.receiver.port}{path}"
        return requests.request(method, url, data=body, headers=headers, timeout=240, **options)

    def kept(self) -> list[tuple[str, float]]:
        records, _, _, _ = SpoolReader(self.folder).read(Place(), 1 << 30)
        return [(sample.name, sample.value) for record in records for sample in record.samples]


@contextmanager
def running(folder: Path, **settings: Any) -> Iterator[Running]:
    answered: list[int] = []
    section = RemoteWriteSource(port=0, **settings)
    receiver = WriteReceiver(section, folder / "spool", frozenset({"node_load1"}), lambda: T + 9, answered.append)
    receiver.start()
    try:
        yield Running(receiver, folder / "spool", answered)
    finally:
        receiver.stop()


def test_success_means_that_it_is_kept(tmp_path: Path) -> None:
    with running(tmp_path) as site:
        answer = site.post(request(LOAD, series("other", 1.0, T)))
        assert (answer.status_code, answer.content) == (204, b"")
        assert site.kept() == [("node_load1", 0.5)]
        assert site.post(request()).status_code == 204  # metadata alone
        (record,) = SpoolReader(site.folder).read(Place(), 1 << 20)[0]
        assert (record.sender, record.received_ms, record.n_others) == ("127.0.0.1", T + 9, 1)
        assert site.answered == [204, 204]


@pytest.mark.parametrize(
    ("options", "status"),
    [
        ({"path": "/"}, 404),
        ({"method": "PUT"}, 405),
        ({"headers": {"Content-Encoding": "gzip"}}, 415),
        ({"headers": {"Content-Type": "application/x-protobuf;proto=io.prometheus.write.v2.Request"}}, 415),
        ({"headers": {"Origin": "http://evil"}}, 403),
        ({"body": b"not snappy"}, 400),
        ({"body": packed(b"\x0b")}, 400),
        ({"body": packed(b"\0" * 2_000_000)}, 413),
        ({"body": b"x" * 5_000}, 413),
    ],
)
def test_what_will_never_be_taken_is_refused(tmp_path: Path, options: dict[str, Any], status: int) -> None:
    with running(tmp_path, max_body="4 KiB", max_unpacked="1 MiB") as site:
        body = options.pop("body", request(LOAD))
        assert site.post(body, **options).status_code == status
        assert site.kept() == []
        assert site.post(request(LOAD)).status_code == 204


def test_a_series_that_is_refused_costs_those_beside_it_nothing(tmp_path: Path) -> None:
    """One exporter with a long label is in one request with others, and what is answered with 400 is not sent again."""
    with running(tmp_path) as site:
        answer = site.post(request(series("node_load1", 7.0, T, mount="/" * 2_000), LOAD))
        assert (answer.status_code, site.kept()) == (400, [("node_load1", 0.5)])
        assert "more than 1,024 bytes: left out, the other series are kept" in answer.text


def test_what_cannot_be_kept_now_is_to_be_sent_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running(tmp_path) as site:

        def full(_record: object) -> None:
            raise SpoolError("No space left on device")

        with monkeypatch.context() as patched:
            patched.setattr(site.receiver.spool, "append", full)
            assert site.post(request(LOAD)).status_code == 503
        assert site.post(request(LOAD)).status_code == 204
        assert site.kept() == [("node_load1", 0.5)]


def test_a_token_is_wanted_where_one_is_set(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("s3cret-s3cret-s3cret-s3cret\n", encoding="utf-8")
    with running(tmp_path, token_file=tmp_path / "token") as site:
        token = "s3cret-s3cret-s3cret-s3cret"
        for shown in ({}, {"Authorization": f"Bearer {token[:-1]}"}, {"Authorization": token}):
            assert site.post(request(LOAD), headers=shown).status_code == 401
        assert site.kept() == []
        assert site.post(request(LOAD), headers={"Authorization": f"Bearer {token}"}).status_code == 204


def test_over_tls(tmp_path: Path) -> None:
    certificate(tmp_path)
    with running(tmp_path, cert_file=tmp_path / "certificate.pem", key_file=tmp_path / "key.pem") as site:
        assert site.post(request(LOAD), verify=str(tmp_path / "certificate.pem")).status_code == 204
        with pytest.raises(requests.exceptions.SSLError):
            site.post(request(LOAD))
        site.scheme = "http"
        with pytest.raises(requests.exceptions.ConnectionError):
            site.post(request(LOAD))
        assert len(site.kept()) == 1


@pytest.mark.parametrize("name", ["Authorization", "Content-Encoding", "Content-Type", "Content-Length", "Expect"])
def test_a_head_of_any_bytes_is_answered(tmp_path: Path, name: str) -> None:
    (tmp_path / "token").write_text("s3crét-that-nobody-guesses\n", encoding="utf-8")
    with running(tmp_path, token_file=tmp_path / "token") as site:
        body = request(LOAD)
        head = {"Authorization": "Bearer s3crét-that-nobody-guesses", "Content-Length": str(len(body)), **HEADERS}
        with socket.create_connection(("127.0.0.1", site.receiver.port), timeout=60) as connection:
            lines = [f"{key}: {value}".encode() for key, value in (head | {name: ""}).items()]
            odd = [line + b"\xff\xfe" if line.startswith(name.encode()) else line for line in lines]
            connection.sendall(b"\r\n".join([f"POST {PATH} HTTP/1.1".encode(), *odd, b"", body]))
            answer = connection.makefile("rb").readline()
        status = {"Authorization": b"401", "Content-Encoding": b"415", "Content-Length": b"411"}.get(name, b"204")
        assert answer.split()[1] == status
        shown = {"Authorization": "Bearer s3crét-that-nobody-guesses".encode()}
        assert site.post(body, headers=shown).status_code == 204


@pytest.mark.parametrize("over_tls", [False, True])
def test_others_are_answered_beside_connections_that_say_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, over_tls: bool
) -> None:
    monkeypatch.setattr(write_receiver, "REQUEST_S", 600.0)
    options: dict[str, Any] = {}
    verify: bool | str = True
    if over_tls:
        certificate(tmp_path)
        options = {"cert_file": tmp_path / "certificate.pem", "key_file": tmp_path / "key.pem"}
        verify = str(tmp_path / "certificate.pem")
    with running(tmp_path, n_connections=4, **options) as site:
        starts = (b"", b"POST ", f"POST {PATH} HTTP/1.1\r\nContent-Length: 99\r\n\r\nx".encode())
        silent = [socket.create_connection(("127.0.0.1", site.receiver.port)) for _ in range(40)]
        for number, connection in enumerate(silent):
            try:
                connection.sendall(starts[number % 3])
            except OSError:
                continue  # it had to make room
        assert ends(lambda: site.post(request(LOAD), verify=verify).status_code) == 204
        for connection in silent:
            connection.close()


def test_beyond_loopback_only_with_tls_and_a_token(tmp_path: Path) -> None:
    for wrong in ({}, {"token_file": tmp_path / "t"}, {"cert_file": tmp_path / "c"}):
        with pytest.raises(ValidationError, match="token_file and cert_file"):
            RemoteWriteSource(address="0.0.0.0", **wrong)
    RemoteWriteSource(address="0.0.0.0", token_file=tmp_path / "t", cert_file=tmp_path / "c")
    with pytest.raises(ConfigError, match="token_file"):
        secrets_of(RemoteWriteSource(token_file=tmp_path / "nowhere"))
    with pytest.raises(ConfigError, match="cert_file"):
        secrets_of(RemoteWriteSource(cert_file=tmp_path / "nowhere"))
    (tmp_path / "short").write_text("x" * (LEAST_TOKEN_CHARS - 1))
    with pytest.raises(ConfigError, match=r"token_file.*a token of 19 characters") as refused:
        secrets_of(RemoteWriteSource(token_file=tmp_path / "short"))
    assert "xxx" not in str(refused.value)
    (tmp_path / "short").write_text("x" * LEAST_TOKEN_CHARS)
    assert secrets_of(RemoteWriteSource(token_file=tmp_path / "short")).token == "x" * LEAST_TOKEN_CHARS
    assert isinstance(ssl.OPENSSL_VERSION, str)
