"""Ganglia's answers, recorded and made up, and who gives them."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from socketserver import BaseRequestHandler, ThreadingTCPServer
from threading import Thread
from typing import Any

from collectors.base import SourceUnavailableError
from collectors.ganglia.gmond import GmondCollector, GmondOptions
from collectors.ganglia.gmond_link import GmondAddress

RECORDED = Path(__file__).parents[2] / "fixtures" / "ganglia"
T0 = 1_795_763_090_816
"""When the first recorded answer was asked for; the second 6,006 ms later, of gmetad right behind that."""
METRICS = ("cpu_user", "load_one", "bytes_in", "mem_free", "cpu_num", "boottime")
HEAD = '<?xml version="1.0" encoding="ISO-8859-1" standalone="yes"?>\n<!DOCTYPE GANGLIA_XML [\n'
HEAD += "<!ATTLIST METRIC SOURCE (gmond) 'gmond'>\n]>\n"


def recorded(name: str) -> bytes:
    """What gmond 3.7.2 (`gmond-1`, `gmond-2`) and gmetad 3.7.2 (`gmetad`) told of one host and of a spoofed one."""
    return (RECORDED / f"{name}.xml").read_bytes()


def host(name: str, *metrics: str, age_s: int = 0, limit_s: int = 20, address: str = "") -> str:
    """One host."""
    head = f'<HOST NAME="{name}" IP="{address}" REPORTED="1" TN="{age_s}" TMAX="{limit_s}" DMAX="0">'
    return f"{head}{''.join(metrics)}</HOST>"


def metric(name: str, value: Any, age_s: Any = 0, *, unit: str = "", limit_s: int = 90, kind: str = "float") -> str:
    """One metric."""
    return (
        f'<METRIC NAME="{name}" VAL="{value}" TYPE="{kind}" UNITS="{unit}" TN="{age_s}" TMAX="{limit_s}" DMAX="0" '
        'SLOPE="both"><EXTRA_DATA><EXTRA_ELEMENT NAME="GROUP" VAL="x"/></EXTRA_DATA></METRIC>'
    )


def answer(*hosts: str, cluster: str = "c", source: str = "gmond") -> bytes:
    """A whole answer."""
    body = f'<CLUSTER NAME="{cluster}" LOCALTIME="1">{"".join(hosts)}</CLUSTER>'
    if source == "gmetad":
        body = f'<GRID NAME="g" LOCALTIME="1">{body}</GRID>'
    return f'{HEAD}<GANGLIA_XML VERSION="3.7.2" SOURCE="{source}">\n{body}</GANGLIA_XML>\n'.encode()


class Answers:
    """By address what it answers: bytes, or an error; each takes `takes_s` of the clock."""

    def __init__(self, takes_s: float = 0.0, **bodies: bytes | Exception) -> None:
        self.bodies: dict[str, bytes | Exception] = {f"{name}:8649": body for name, body in bodies.items()}
        self.takes_s, self.seconds = takes_s, 0.0

    def __call__(self, address: GmondAddress) -> bytes:
        """As gmond_link.Ask."""
        self.seconds += self.takes_s
        body = self.bodies[address.text]
        if isinstance(body, Exception):
            raise body
        return body

    def tell(self, *hosts: str, of: str = "g1", **kind: str) -> None:
        """Its next answers."""
        self.bodies[f"{of}:8649"] = answer(*hosts, **kind)

    def fall_silent(self, of: str = "g1") -> None:
        """It is gone."""
        self.bodies[f"{of}:8649"] = SourceUnavailableError(f"{of}: connection refused")


def collector_of(answers: Answers, **options: Any) -> GmondCollector:
    """Over all of these addresses."""
    given = {"addresses": tuple(answers.bodies), "metrics": METRICS, "n_workers": 1, **options}
    return GmondCollector(GmondOptions(**given), answers, lambda: answers.seconds)


@contextmanager
def listening(serve: Callable[[Any], None]) -> Iterator[str]:
    """HOST:PORT of a server on loopback that does this with each connection, and closes it."""

    class Handler(BaseRequestHandler):
        def handle(self) -> None:
            with suppress(OSError):
                serve(self.request)

    with ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        running = Thread(target=server.serve_forever, args=(0.02,))
        running.start()
        try:
            yield f"127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            running.join()


def packets() -> list[tuple[int, bytes]]:
    """(when, packet) of the gmond that `gmond-1` and `gmond-2` are of, and of gmetric; the host calls itself `vm`."""
    lines = (RECORDED / "packets.txt").read_text(encoding="ascii").splitlines()
    return [(int(t_ms), bytes.fromhex(data)) for t_ms, data in map(str.split, lines)]


def xdr_text(text: str | bytes) -> bytes:
    """As XDR has it."""
    data = text.encode() if isinstance(text, str) else text
    return struct.pack(">I", len(data)) + data + bytes(-len(data) % 4)


def value_packet(
    of: str | bytes, name: str, value: float = 1.0, *, kind: int = 134, packed: bytes | None = None, spoofed: int = 0
) -> bytes:
    """A value of a host."""
    head = struct.pack(">I", kind) + xdr_text(of) + xdr_text(name) + struct.pack(">I", spoofed)
    return head + xdr_text("%.2f") + (struct.pack(">f", value) if packed is None else packed)


def metadata_packet(of: str, name: str, *, unit: str = "", kind: str = "float") -> bytes:
    """What a metric of a host is."""
    head = struct.pack(">I", 128) + xdr_text(of) + xdr_text(name) + struct.pack(">I", 0)
    texts = b"".join(map(xdr_text, (kind, name, unit)))
    return head + texts + struct.pack(">IIII", 3, 90, 0, 0)
