"""Asking for Ganglia's XML: addresses, queries, compression, and who never comes to an end."""

from __future__ import annotations

import gzip
import socket
from typing import Any

import pytest

from collectors.base import OptionError, SourceUnavailableError
from collectors.ganglia.gmond_link import Ask, parse_address
from collectors.ganglia.gmond_xml import GmondXmlError
from collectors.network.deadlines import within
from tests.collectors.ganglia.reports import listening, recorded
from tests.slow_servers import wait_for_hang_up


def test_addresses() -> None:
    assert vars_of("Node1") == ("node1", 8649, None)
    assert vars_of("node1:8651") == ("node1", 8651, None)
    assert vars_of("[::1]:8652/my cluster") == ("::1", 8652, "/my cluster")
    for wrong in ("", "a b", "node:0", "node:65536", "http://node:8649", "node:8652/a\nb", "-x", "node:1:2"):
        with pytest.raises(OptionError, match="expected HOST:PORT"):
            parse_address(wrong)


def vars_of(text: str) -> tuple[str, int, str | None]:
    found = parse_address(text)
    return found.host, found.port, found.query


@pytest.mark.parametrize("packed", [False, True])
def test_an_answer_is_read_until_it_ends(packed: bool) -> None:
    body = recorded("gmond-1")
    with listening(lambda link: link.sendall(gzip.compress(body) if packed else body)) as address:
        assert Ask()(parse_address(address)) == body


def test_the_interactive_port_is_asked_for_a_cluster() -> None:
    asked: list[bytes] = []

    def serve(link: socket.socket) -> None:
        asked.append(link.recv(1_000))
        link.sendall(recorded("gmetad"))

    with listening(serve) as address:
        assert Ask()(parse_address(f"{address}/mini")) == recorded("gmetad")
    assert asked == [b"/mini\n"]


@pytest.mark.parametrize("packed", [False, True])
def test_an_answer_without_an_end_is_given_up(packed: bool) -> None:
    zeros = gzip.compress(bytes(1 << 20))

    def serve(link: Any) -> None:
        link.sendall(zeros if packed else b"x" * 65_536)
        if not packed:
            while True:
                link.sendall(b"x" * 65_536)

    with (
        listening(serve) as address,
        pytest.raises(GmondXmlError, match=r"more than 200,000 bytes; raise sources\.gmond"),
    ):
        Ask(max_bytes=200_000)(parse_address(address))


def test_gzip_that_is_none() -> None:
    with (
        listening(lambda link: link.sendall(b"\x1f\x8bnothing")) as address,
        pytest.raises(GmondXmlError, match="is none"),
    ):
        Ask()(parse_address(address))


def test_who_says_nothing_is_given_up_at_the_deadline_and_who_closes_is_told() -> None:
    with listening(wait_for_hang_up) as address, within(0.2), pytest.raises(SourceUnavailableError, match="in time"):
        Ask()(parse_address(address))
    with listening(wait_for_hang_up) as address, pytest.raises(SourceUnavailableError, match="in time"):
        Ask(silence_s=0.1)(parse_address(address))
    with listening(lambda _: None) as address, pytest.raises(SourceUnavailableError, match="trusted_hosts"):
        Ask()(parse_address(address))
    with pytest.raises(SourceUnavailableError, match=r"refused"):  # of the server that was there
        Ask()(parse_address(address))
