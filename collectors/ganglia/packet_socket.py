"""A UDP socket whose packets are taken as they come, by a thread of its own, until somebody asks for them."""

from __future__ import annotations

import ipaddress
import socket
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from collectors.base import OptionError, SourceUnavailableError
from collectors.ganglia.packets import MAX_BYTES, Metadata, PacketError, Value, parse_packet

MAX_WAITING = 200_000
"""Packets between two polls; further ones are counted."""
RECEIVE_BYTES = 1 << 23
"""Asked of the system for packets that wait for the thread; it gives what net.core.rmem_max allows."""
_WAKE_S = 0.5

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(slots=True)
class Received:
    """Since the last question."""

    packets: list[tuple[float, str, Value | Metadata]] = field(default_factory=list)
    """When it came, by the monotonic clock, from which address, and what it says."""
    refused: Counter[str] = field(default_factory=Counter)
    """By kind."""
    first: dict[str, str] = field(default_factory=dict)
    """By kind the first of them."""


def networks_of(texts: Sequence[str]) -> tuple[Network, ...]:
    """Addresses and networks (10.0.0.0/8); raises OptionError."""
    try:
        return tuple(ipaddress.ip_network(text, strict=False) for text in texts)
    except ValueError as error:
        raise OptionError(f"gmond_udp: allow: {error}; expected addresses and networks such as 10.0.0.0/8") from error


class PacketSocket:
    """Opened at once; raises SourceUnavailableError."""

    def __init__(
        self,
        address: str,
        port: int,
        allowed: tuple[Network, ...],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._allowed, self._monotonic = allowed, monotonic
        self._lock = threading.Lock()
        self._waiting: deque[tuple[float, str, Value | Metadata]] = deque()
        self._refused, self._first = Counter[str](), dict[str, str]()
        self._is_closed = False
        try:
            family, _, _, _, place = socket.getaddrinfo(address, port, type=socket.SOCK_DGRAM)[0]
            self._socket = socket.socket(family, socket.SOCK_DGRAM)
            try:
                with suppress(OSError):
                    self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BYTES)
                self._socket.bind(place)
                self._socket.settimeout(_WAKE_S)
            except OSError:
                self._socket.close()
                raise
        except OSError as error:
            raise SourceUnavailableError(
                f"{address}:{port} cannot be listened at: {error.strerror or error}; is a gmond or another clustercep "
                "on it?"
            ) from error
        self.port: int = self._socket.getsockname()[1]
        self._thread = threading.Thread(target=self._receive, name="gmond_udp", daemon=True)
        self._thread.start()

    def take(self) -> Received:
        """What came since the last call."""
        with self._lock:
            found = Received(list(self._waiting), self._refused, self._first)
            self._waiting, self._refused, self._first = deque(), Counter(), {}
        return found

    def close(self) -> None:
        """Its address is free when this returns."""
        self._is_closed = True
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RD)  # wakes the thread, though no datagram has a connection
        self._thread.join()
        self._socket.close()

    def _receive(self) -> None:
        while not self._is_closed:
            try:
                data, sender = self._socket.recvfrom(MAX_BYTES + 1)
            except TimeoutError:
                continue
            except OSError:
                time.sleep(_WAKE_S)  # out of memory, an interface that goes: it may be over the next time
                continue
            if not self._is_closed:
                self._take(self._monotonic(), data, str(sender[0]))

    def _take(self, at_s: float, data: bytes, sender: str) -> None:
        if not self._allows(sender):
            self._refuse("not_allowed", f"{sender}: sources.gmond_udp.allow does not name it")
            return
        try:
            packet = parse_packet(data)
        except PacketError as error:
            self._refuse(error.kind, f"{sender}: {error}")
            return
        if packet is None:
            return
        with self._lock:
            if len(self._waiting) < MAX_WAITING:
                self._waiting.append((at_s, sender, packet))
                return
        self._refuse("too_many", f"more than {MAX_WAITING:,} packets between two polls")

    def _allows(self, sender: str) -> bool:
        found = ipaddress.ip_address(sender.partition("%")[0])
        if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is not None:
            found = found.ipv4_mapped
        return found.is_loopback or any(found in network for network in self._allowed)

    def _refuse(self, kind: str, message: str) -> None:
        with self._lock:
            self._refused[kind] += 1
            self._first.setdefault(kind, message)


__all__ = ["PacketSocket", "Received", "networks_of"]
