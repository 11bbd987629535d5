"""Servers, clients and writers that never come to an end: every attempt keeps its limit, and nobody else waits for it.

Servers drip, flood or fall silent (`tests.slow_servers`), plain and over TLS, towards a document of the REST source, a
poll of it in which other masters are well, a poll of a timeline server, a poll of daemons over JMX, one of exporters
and of who lists them, of gmonds, and a webhook beside a receiver that is well. Clients do so towards the endpoints,
whose health, metrics and reload go on being answered, towards Alertmanager's API, plain and over TLS, which goes on
answering and making silences, and towards the receiver of remote write, which goes on taking samples. Files come byte
by byte, or as a line without end, beside others; packets without end, beside those of a gmond that is well.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from tests.slow_servers import BODIES, FLOODS, HANDSHAKES, HEADS, certificate
from tests.torture.campaign import Given, Verdict
from tests.torture.dripping.clients import api, dashboard, endpoints, writes
from tests.torture.dripping.receivers import message, receivers, services
from tests.torture.dripping.servers import daemons, document, ganglia, poll, scrapes, timeline
from tests.torture.dripping.tally import ANSWER_S, LIMIT_S, POLL_S, SLACK_S, Tally
from tests.torture.dripping.writers import WRITTEN, writers
from tests.torture.inputs import packets

N_CLIENTS = 300

WAYS = HEADS | BODIES | FLOODS
"""Of servers, after the handshake."""


def run(given: Given) -> Verdict:
    """All ways towards all that asks, again until the time is over."""
    chosen, tally = random.Random(given.seed), Tally()
    tls = certificate(given.folder)
    started_s, n_rounds = time.monotonic(), 0
    while not n_rounds or time.monotonic() - started_s < 60 * given.minutes * n_rounds / (n_rounds + 1):
        n_rounds += 1
        of_api = given.folder / f"{n_rounds}-api"
        of_api.mkdir()
        own = certificate(of_api)
        work: list[Callable[[], None]] = [
            lambda: endpoints(tally, chosen, N_CLIENTS),
            lambda f=of_api: api(tally, chosen, N_CLIENTS, f, None),  # type: ignore[misc]
            lambda f=of_api, t=own: api(tally, chosen, N_CLIENTS, f, t),  # type: ignore[misc]
            lambda f=of_api: dashboard(tally, chosen, N_CLIENTS, f),  # type: ignore[misc]
            *(
                lambda n=name, f=given.folder / f"{n_rounds}-{name}": writers(tally, n, chosen, f)  # type: ignore[misc]
                for name in WRITTEN
            ),
            lambda f=of_api: writes(tally, chosen, N_CLIENTS, f, None),  # type: ignore[misc]
            lambda f=of_api, t=own: writes(tally, chosen, N_CLIENTS, f, t),  # type: ignore[misc]
            *(lambda n=name: packets.packets(tally, n, POLL_S) for name in packets.SENT),  # type: ignore[misc]
        ]
        for number, (name, behaviour) in enumerate(WAYS.items()):
            for given_tls in (None, tls):
                work.append(lambda n=name, b=behaviour, t=given_tls: document(tally, n, b, t))  # type: ignore[misc]
                work.append(lambda n=name, b=behaviour, t=given_tls: message(tally, n, b, t))  # type: ignore[misc]
            work.append(lambda n=name, b=behaviour: poll(tally, n, b))  # type: ignore[misc]
            work.append(lambda n=name, b=behaviour: timeline(tally, n, b))  # type: ignore[misc]
            work.append(lambda n=name, b=behaviour: daemons(tally, n, b))  # type: ignore[misc]
            work.append(lambda n=name, b=behaviour: scrapes(tally, n, b))  # type: ignore[misc]
            work.append(lambda n=name, b=behaviour: ganglia(tally, n, b))  # type: ignore[misc]
            folder = given.folder / f"{n_rounds}-{number}"
            folder.mkdir()
            work.append(lambda n=name, b=behaviour, f=folder: receivers(tally, n, b, f))  # type: ignore[misc]
            work.append(lambda n=name, b=behaviour: services(tally, n, b))  # type: ignore[misc]
        for name, behaviour in HANDSHAKES.items():
            work.append(lambda n=name, b=behaviour: document(tally, n, b, tls, True))  # type: ignore[misc]
            work.append(lambda n=name, b=behaviour: message(tally, n, b, tls, True))  # type: ignore[misc]
        chosen.shuffle(work)
        for one in work:
            one()
    longest = ", ".join(f"{kind} {seconds:.1f} s" for kind, seconds in sorted(tally.longest_s.items()))
    return Verdict(
        f"{tally.n_attempts} attempts at {len(WAYS) + len(HANDSHAKES)} kinds of server, {n_rounds} rounds; the "
        f"longest: {longest} (limits: {LIMIT_S:g} s for documents and webhooks, {POLL_S:g} s for a poll, "
        f"{ANSWER_S:g} s for whoever is beside; {SLACK_S:g} s of slack)",
        tuple(tally.failures[:20]),
    )
