"""Asking gmond or gmetad over TCP: it sends all it knows, and closes. Compressed where its `gzip_output` is on."""

from __future__ import annotations

import re
import socket
import zlib
from dataclasses import dataclass

from collectors.base import OptionError, SourceUnavailableError
from collectors.ganglia.gmond_xml import GmondXmlError
from collectors.network.deadlines import remaining_s
from collectors.network.http_attempt import connected, limited
from collectors.printable import printable

DEFAULT_PORT = 8649
_ADDRESS = re.compile(
    r"(?P<host>[A-Za-z0-9]([A-Za-z0-9._-]{0,252}[A-Za-z0-9])?|\[[0-9A-Fa-f:.]{2,45}\])(:(?P<port>[0-9]{1,5}))?"
    r"(?P<query>/[A-Za-z0-9._~ %?=&/-]{0,200})?"
)
_GZIP = b"\x1f\x8b"
_PIECE_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class GmondAddress:
    """Where one listens."""

    text: str
    host: str
    port: int
    query: str | None = None
    """What is asked at gmetad's interactive port; None where nothing is to be asked."""


def parse_address(text: str) -> GmondAddress:
    """HOST, HOST:PORT or HOST:PORT/QUERY; raises OptionError."""
    found = _ADDRESS.fullmatch(text)
    port = int(found["port"] or DEFAULT_PORT) if found is not None else 0
    if found is None or not 0 < port <= 65_535:
        raise OptionError(
            f"gmond: the address {printable(text, 100)!r}; expected HOST:PORT (gmond 8649, gmetad 8651) or "
            "HOST:8652/CLUSTER (gmetad's interactive port)"
        )
    return GmondAddress(text, found["host"].strip("[]").lower(), port, found["query"])


class Ask:
    """Asks over the network."""

    def __init__(self, *, silence_s: float = 5.0, max_bytes: int = 1 << 26) -> None:
        """`silence_s`: longest silence; `max_bytes`: of an answer as it comes, and as it is unpacked."""
        self._silence_s, self._max_bytes = silence_s, max_bytes

    def __call__(self, address: GmondAddress) -> bytes:
        """All that it sends until it closes; raises SourceUnavailableError and GmondXmlError."""
        pieces, n_bytes = list[bytes](), 0
        try:
            with (
                limited(remaining_s(), self._max_bytes + 1),
                connected(address.host, address.port, self._silence_s) as link,
            ):
                if address.query is not None:
                    link.sendall(address.query.encode() + b"\n")
                while piece := link.recv(_PIECE_BYTES):
                    pieces.append(piece)
                    n_bytes += len(piece)
                    if n_bytes > self._max_bytes:
                        raise _too_large(self._max_bytes)
        except ConnectionAbortedError as error:
            raise _too_large(self._max_bytes) from error
        except TimeoutError as error:
            raise SourceUnavailableError(f"{address.text}: it did not answer, or not to the end, in time") from error
        except socket.gaierror as error:
            raise SourceUnavailableError(f"{address.text}: its name is not known ({error.strerror})") from error
        except (OSError, UnicodeError) as error:
            raise SourceUnavailableError(f"{address.text}: {error}") from error
        body = b"".join(pieces)
        if not body:
            raise SourceUnavailableError(
                f"{address.text}: it closed without a word: does its tcp_accept_channel (acl), or gmetad's "
                "trusted_hosts, let this host in?"
            )
        return _unpacked(body, self._max_bytes) if body.startswith(_GZIP) else body


def _too_large(max_bytes: int) -> GmondXmlError:
    return GmondXmlError("too_large", f"more than {max_bytes:,} bytes; raise sources.gmond.max_size if that is right")


def _unpacked(body: bytes, max_bytes: int) -> bytes:
    unpacking = zlib.decompressobj(wbits=31)
    try:
        unpacked = unpacking.decompress(body, max_bytes + 1)
    except zlib.error as error:
        raise GmondXmlError("not_ganglia", f"it begins as gzip and is none ({error})") from error
    if len(unpacked) > max_bytes:
        raise _too_large(max_bytes)
    return unpacked


__all__ = ["Ask", "GmondAddress", "parse_address"]
