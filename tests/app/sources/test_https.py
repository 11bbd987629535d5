"""Every source over HTTP against servers with TLS: whom it trusts, what it shows, what it says when it does not."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.config import load_settings
from app.errors import ConfigError
from app.live.sources import build_sources
from app.settings import Settings
from collectors.base import SourceUnavailableError
from tests.certificate_authority import PAST, Authority
from tests.slow_servers import serving

SOURCES: dict[str, Callable[[str], dict[str, Any]]] = {
    "yarn_rest": lambda url: {"resource_managers": [url], "history_server": url, "n_attempts": 1},
    "yarn_timeline": lambda url: {"server": url},
    "jmx": lambda url: {"name_nodes": [url]},
    "prometheus": lambda url: {"targets": [f"{url}/metrics"]},
}
"""What each of them needs besides."""

ANSWERS = {
    "yarn_rest": b'{"apps": null}',
    "yarn_timeline": b'{"app": []}',
    "jmx": b'{"beans": [{"name": "Hadoop:service=NameNode,name=FSNamesystem", "MissingBlocks": 0}]}',
    "prometheus": b"# TYPE node_load1 gauge\nnode_load1 0.5\n",
}


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "own")


def poll(tmp_path: Path, name: str, url: str, **options: Any) -> None:
    """Once, by a source that is built from settings."""
    section = {"enabled": True, **SOURCES[name](url), **{key: str(value) for key, value in options.items()}}
    settings = settings_of(tmp_path, name, section)
    problems = build_sources(settings)[name].source.poll(1_700_000_000_000).problems
    if problems:
        raise SourceUnavailableError("; ".join(problem.message for problem in problems))


def settings_of(tmp_path: Path, name: str, section: dict[str, Any]) -> Settings:
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump({"store": {"directory": str(tmp_path)}, "sources": {name: section}}))
    return load_settings(path, {})


def answering(name: str, heads: list[bytes]) -> Callable[[socket.socket], None]:
    body = ANSWERS[name]

    def serve(connection: socket.socket) -> None:
        heads.append(connection.recv(65_536))
        kind = b"text/plain" if name == "prometheus" else b"application/json"
        head = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: %b\r\nContent-Length: %d\r\n\r\n"
        connection.sendall(head % (kind, len(body)) + body)
        connection.recv(65_536)

    return serve


@pytest.mark.parametrize("name", SOURCES)
def test_a_server_of_the_own_authority_is_asked(tmp_path: Path, authority: Authority, name: str) -> None:
    heads: list[bytes] = []
    with serving(answering(name, heads), authority.server()) as url:
        poll(tmp_path, name, url, ca_file=authority.ca_file)
    assert heads


@pytest.mark.parametrize("name", SOURCES)
def test_a_server_that_is_not_the_one_is_told_nothing(tmp_path: Path, authority: Authority, name: str) -> None:
    """Of another authority, by another name, or over since 2020: it never sees a request."""
    heads: list[bytes] = []
    others = Authority(tmp_path, "others")
    cases = (
        (others.server(), "unable to get local issuer certificate|self-signed certificate"),
        (authority.server("node7"), "IP address mismatch"),
        (authority.server(end=PAST), "certificate has expired"),
    )
    for context, said in cases:
        with serving(answering(name, heads), context) as url:
            with pytest.raises(SourceUnavailableError, match=said) as raised:
                poll(tmp_path, name, url, ca_file=authority.ca_file)
            assert "ca_file" in str(raised.value)
    assert heads == []


@pytest.mark.parametrize("name", SOURCES)
def test_a_server_that_wants_a_certificate_gets_it(tmp_path: Path, authority: Authority, name: str) -> None:
    heads: list[bytes] = []
    cert_file, key_file = authority.sign("clustercep")
    wrong_cert, wrong_key = Authority(tmp_path, "others").sign("clustercep")
    both = tmp_path / "both.pem"
    both.write_bytes(cert_file.read_bytes() + key_file.read_bytes())
    with serving(answering(name, heads), authority.server(clients=authority)) as url:
        poll(tmp_path, name, url, ca_file=authority.ca_file, cert_file=cert_file, key_file=key_file)
        poll(tmp_path, name, url, ca_file=authority.ca_file, cert_file=both)
        n_requested = len(heads)
        with pytest.raises(SourceUnavailableError, match="cert_file"):
            poll(tmp_path, name, url, ca_file=authority.ca_file)
        with pytest.raises(SourceUnavailableError, match="cert_file"):
            poll(tmp_path, name, url, ca_file=authority.ca_file, cert_file=wrong_cert, key_file=wrong_key)
    assert len(heads) == n_requested > 1


@pytest.mark.parametrize("name", SOURCES)
def test_certificates_that_cannot_serve_are_named_at_the_start(tmp_path: Path, authority: Authority, name: str) -> None:
    cert_file, _ = authority.sign("clustercep")
    _, other_key = authority.sign("clustercep")
    with pytest.raises(ConfigError, match=f"sources.{name}.key_file"):
        poll(tmp_path, name, "https://127.0.0.1:1", cert_file=cert_file, key_file=other_key)
    with pytest.raises(ConfigError, match=f"sources.{name}.cert_file"):
        poll(tmp_path, name, "https://127.0.0.1:1", cert_file=tmp_path / "gone.pem")
    with pytest.raises(ConfigError, match="key_file without cert_file"):
        poll(tmp_path, name, "https://127.0.0.1:1", key_file=other_key)
