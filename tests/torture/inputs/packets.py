"""Senders of Ganglia's packets that never stop, beside one that is well; a part of the campaign `drip`."""

from __future__ import annotations

import itertools
import socket
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack

from collectors.ganglia.gmond_udp import GmondUdpCollector, GmondUdpOptions
from tests.collectors.ganglia.reports import value_packet
from tests.collectors.jmx.daemons import T0
from tests.torture.dripping.tally import Tally

N_VALUES = 20
PACKETS_S = 60.0
"""Within which all of them have to be told."""

SENT: dict[str, Callable[[int], bytes]] = {
    "sends packets that are cut": lambda n: value_packet("cut", "load_one", n)[: 4 + n % 30],
    "sends what is no packet": lambda n: bytes(n % 9_000),
    "sends for hosts without end": lambda n: value_packet(f"h{n}", "heartbeat", n),
    "sends values without end": lambda n: value_packet("busy", "load_one", n),
}
"""What a sender of packets does; of the packet of a number."""


def packets(tally: Tally, name: str, poll_s: float) -> None:
    """A receiver of Ganglia's packets to which such a sender never stops sending: what another sends is told.

    `poll_s`: what a poll may take.
    """
    made, is_over = SENT[name], threading.Event()
    gmond = GmondUdpCollector(GmondUdpOptions(port=0, metrics=("load_one",)))
    with ExitStack() as opened:
        opened.callback(gmond.close)
        gmond.poll(T0)
        place = ("127.0.0.1", gmond.port or 0)

        def flood() -> None:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
                for number in itertools.count():
                    if is_over.wait(0.001 if number % 20 == 0 else 0):
                        return
                    sender.sendto(made(number), place)

        flooding = threading.Thread(target=flood, daemon=True)
        flooding.start()
        opened.callback(flooding.join)
        opened.callback(is_over.set)
        well = opened.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        told, ends_s = set[float](), time.monotonic() + PACKETS_S
        # A packet may be lost: it is sent again until it is told.
        for number in itertools.count(1):
            well.sendto(value_packet("well", "load_one", number % N_VALUES), place)
            with tally.timed("poll of packets", name, poll_s):
                polled = gmond.poll(T0 + 50 * number)
            told |= {row["value"] for row in polled.events.rows() if row.get("host") == "well"}
            if len(told) == N_VALUES or time.monotonic() > ends_s:
                break
            is_over.wait(0.02)
    if len(told) < N_VALUES:
        tally.failures.append(f"beside a gmond that {name}: {len(told)} of {N_VALUES} values are told")
