"""What gmonds and gmetric send by UDP, as Metric events: a receiver in the place of a gmond that listens.

A value is dated by when its packet came, by this machine's clock. The protocol has no authentication: whoever may send
tells what they like of any host, and so may who forges an address.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from collectors.base import Collected, OptionError, ProblemLog, SourceUnavailableError, next_watermark, read_position
from collectors.ganglia.gmond_xml import normal_unit
from collectors.ganglia.packet_socket import PacketSocket, Received, networks_of
from collectors.ganglia.packets import Metadata, Packet, Value
from collectors.identity import record_id
from collectors.lifecycle import EventRows
from collectors.metrics.normal import USUAL_METRICS
from collectors.time_units import DAY_MS

POSITION_VERSION = 1
HEARTBEAT = "heartbeat"
SILENT_MS = 80_000
"""Heartbeats come every 20 s; four that are missed are Ganglia's own limit."""
MISSED_MS = DAY_MS
"""A host that sends nothing any more is missed for so long."""
MAX_HOSTS = 20_000
REFUSED = ("not_allowed", "unknown", "truncated", "too_large", "no_name", "too_many", "too_many_hosts")


@dataclass(frozen=True, slots=True)
class GmondUdpOptions:
    """Where is listened, who may send, and what of it is kept."""

    address: str = "127.0.0.1"
    port: int = 8649
    allow: tuple[str, ...] = ()
    """Addresses and networks of senders beside loopback."""
    cluster: str = "default"
    metrics: tuple[str, ...] = USUAL_METRICS
    lateness_ms: int = 5_000
    source_rank: int = 0
    hosts: Mapping[str, str] = field(default_factory=dict)
    """Name or address of a host -> its name as job history and logs write it."""

    def __post_init__(self) -> None:
        networks_of(self.allow)
        if not self.metrics:
            raise OptionError("gmond_udp: no metric is chosen; expected at least one")


class GmondUdpCollector:
    """Metric events of what is sent, and hosts whose heartbeat ended."""

    name = "gmond_udp"

    def __init__(self, options: GmondUdpOptions, monotonic: Callable[[], float] = time.monotonic) -> None:
        """Listens from the first poll on."""
        self._options, self._monotonic = options, monotonic
        self._chosen = frozenset(options.metrics)
        self._socket: PacketSocket | None = None
        self._is_closed = False
        self._metadata: dict[tuple[str, str], Metadata] = {}
        """By host and metric, of those that are chosen."""
        self._heard_ms: dict[str, int] = {}
        """By host when its last heartbeat came."""
        self._is_restored = False
        self._problems = ProblemLog(self.name)
        self._watermark_ms: int | None = None

    @property
    def port(self) -> int | None:
        """Where it listens; None before the first poll."""
        return None if self._socket is None else self._socket.port

    def poll(self, now_ms: int) -> Collected:
        """What came since the poll before; raises SourceUnavailableError where nobody can listen."""
        if self._socket is None:
            if self._is_closed:
                raise SourceUnavailableError("it is closed")
            options = self._options
            allowed = networks_of(options.allow)
            self._socket = PacketSocket(options.address, options.port, allowed, self._monotonic)
        if self._is_restored:  # each host gets its time to be heard of again
            self._is_restored = False
            self._heard_ms = dict.fromkeys(self._heard_ms, now_ms)
        received = self._socket.take()
        asked_s = self._monotonic()
        rows = EventRows(self._options.source_rank, next_seq=now_ms * 1_000)
        n_others = 0
        for at_s, sender, packet in received.packets:
            t_ms = now_ms - max(0, round(1_000 * (asked_s - at_s)))
            n_others += not self._take(rows, packet, sender, t_ms, received)
        self._tell_refused(received)
        self._tell_silent(rows, now_ms)
        self._watermark_ms = next_watermark(self._watermark_ms, now_ms - self._options.lateness_ms, now_ms)
        return Collected(rows.take_batch(), self._watermark_ms, self._problems.drain(), n_unselected=n_others)

    def checkpoint(self) -> dict[str, Any]:
        """Whose heartbeats are waited for."""
        return {"version": POSITION_VERSION, "watermark_ms": self._watermark_ms, "heard_ms": dict(self._heard_ms)}

    def restore(self, position: Mapping[str, Any]) -> None:
        """Take up a position; raises PositionError when it is not one of this collector's."""
        self._watermark_ms, self._heard_ms = read_position(position, POSITION_VERSION, _read)
        self._is_restored = True

    def close(self) -> None:
        """Listen no more."""
        self._is_closed = True
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _take(self, rows: EventRows, packet: Packet, sender: str, t_ms: int, received: Received) -> bool:
        """False for a value that nobody chose."""
        hosts = self._options.hosts
        address = packet.address or sender
        host = hosts.get(packet.host) or hosts.get(address) or packet.host
        if packet.name == HEARTBEAT:
            if host in self._heard_ms or len(self._heard_ms) < MAX_HOSTS:
                self._heard_ms[host] = max(t_ms, self._heard_ms.get(host, t_ms))
            else:
                received.refused["too_many_hosts"] += 1
                received.first.setdefault("too_many_hosts", f"more than {MAX_HOSTS:,} hosts send heartbeats")
            return True
        if packet.name not in self._chosen:
            return isinstance(packet, Metadata)
        key = (host, packet.name)
        if isinstance(packet, Metadata):
            if key in self._metadata or len(self._metadata) < MAX_HOSTS * len(self._chosen):
                self._metadata[key] = packet
            return True
        assert isinstance(packet, Value)
        known = self._metadata.get(key)
        place = f"{host}: {packet.name}"
        if packet.value is None or (known is not None and known.type == "string"):
            self._problems.report(host, "not_number", f"{place} is no number", key=(key, "not_number"))
            return True
        try:
            unit = normal_unit(packet.name, "" if known is None else known.unit)
        except ValueError as error:
            self._problems.report(host, "other_unit", f"{place}: {error}", key=(key, "other_unit"))
            return True
        cluster = self._options.cluster
        attributes = {"host": host, "name": packet.name, "value": packet.value, "unit": unit}
        event_id = record_id(("gmond_udp", cluster, host, packet.name), "Metric", t_ms, (packet.value,), 0)
        rows.add("Metric", event_id, t_ms, f"gmond:{cluster}", f"gmond_udp:{sender}", attributes)
        return True

    def _tell_refused(self, received: Received) -> None:
        for kind in REFUSED:
            if n := received.refused[kind]:
                message = f"{n:,} packet(s) are refused, the first: {received.first[kind]}"
                self._problems.report(self.name, kind, message)
            else:
                self._problems.forget((self.name, kind))

    def _tell_silent(self, rows: EventRows, now_ms: int) -> None:
        self._heard_ms = {host: t_ms for host, t_ms in self._heard_ms.items() if t_ms >= now_ms - MISSED_MS}
        for host, heard_ms in self._heard_ms.items():
            if now_ms - heard_ms <= SILENT_MS:
                self._problems.forget((host, "host_vanished"))
                continue
            silent_ms = now_ms - heard_ms
            self._problems.report(host, "host_vanished", f"its gmond has sent no heartbeat for {silent_ms // 1000} s")
            attributes = {
                "host": host,
                "daemon": "gmond",
                "reason": "it sends no heartbeats any more",
                "silent_ms": silent_ms,
            }
            event_id = record_id(("gmond_udp", self._options.cluster, host), "DaemonUnreachable", now_ms, (), 0)
            rows.add("DaemonUnreachable", event_id, now_ms, f"gmond:{self._options.cluster}", "gmond_udp", attributes)


def _read(saved: Mapping[str, Any]) -> tuple[int | None, dict[str, int]]:
    watermark_ms = saved["watermark_ms"]
    heard_ms = {str(host): int(t_ms) for host, t_ms in saved["heard_ms"].items()}
    return None if watermark_ms is None else int(watermark_ms), heard_ms


__all__ = ["GmondUdpCollector", "GmondUdpOptions"]
