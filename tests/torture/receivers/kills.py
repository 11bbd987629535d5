"""Every kind of receiver, while whoever tells it is killed -9: having connected, been taken, been answered.

What was told is the same message however often it comes, and in the end each has come.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

from app.alerting.delivery import Courier, endpoint_of
from app.clock import SystemClock
from app.settings import Receiver
from app.store import open_store
from tests.slow_servers import serving
from tests.torture.receivers.kinds import APPRISE_S, KINDS, N_TOLD, WELL_S, Peer, fire, receiver_at

STAGES = ("connected", "taken", "answered")
N_DEATHS = 2
LIFE_S = 300.0


@dataclass
class DeadlyPeer(Peer):
    """A service that is well, at which those who tell it die."""

    stage: str = ""
    is_alertmanager: bool = False
    n_killed: int = 0
    teller: subprocess.Popen[bytes] | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)

    def serve(self, connection: socket.socket) -> None:
        """One connection."""
        if self._reached("connected"):
            return  # what comes is torn
        super().serve(connection)
        self._reached("answered")

    def _take(self, body: bytes) -> None:
        for told in _alerts(body) if self.is_alertmanager else [_message_id(body) if self.is_smtp else body]:
            super()._take(told)
        self._reached("taken")

    def _reached(self, stage: str) -> bool:
        """Whether somebody died of it."""
        with self.lock:
            if stage != self.stage or self.n_killed == N_DEATHS or self.teller is None:
                return False
            teller, self.teller = self.teller, None
            self.n_killed += 1
            teller.send_signal(signal.SIGKILL)
            return True


def _message_id(mail: bytes) -> bytes:
    """Of a mail: what stands between its parts is drawn anew."""
    ids = [line for line in mail.splitlines() if line.lower().startswith(b"message-id:")]
    return ids[0] if ids else mail


def _alerts(body: bytes) -> list[bytes]:
    """Of what is pushed to an Alertmanager each alert, without its end: who fires is pushed anew by each life, all at
    once, and ends so long from then."""
    alerts = json.loads(body)
    return [json.dumps(alert | {"endsAt": None}, sort_keys=True).encode() for alert in alerts]


@dataclass(frozen=True)
class Killed:
    """What came of one kind and one stage."""

    kind: str
    stage: str
    n_killed: int
    n_told: int
    """Different messages that came; of an Alertmanager alerts."""
    n_again: int
    """Messages that came once more."""
    n_left: int
    """Messages that are not delivered in the end."""
    routed: bool = False

    def failures(self) -> list[str]:
        """Which rules do not hold."""
        what = f"{self.kind}, killed when it has {self.stage}{', told of groups' if self.routed else ''}"
        found = []
        if self.n_killed != N_DEATHS:
            found.append(f"{what}: {self.n_killed} deaths; expected {N_DEATHS}")
        is_refreshed = self.kind == "alertmanager"  # who fires is told again and again
        told = 2 * N_TOLD if is_refreshed and self.routed else N_TOLD
        if self.n_told != told or self.n_left:
            found.append(f"{what}: {self.n_told} different ones told, {self.n_left} left; expected {told} and none")
        if self.n_again > N_DEATHS and not is_refreshed:
            found.append(f"{what}: {self.n_again} came again; expected {N_DEATHS} at most, one for each death")
        return found


def tried_kills(kind: str, stage: str, folder: Path, *, routed: bool = False) -> Killed:
    """One kind, one stage: so many lives that end there, and one that tells what is left; `routed`: in groups."""
    folder.mkdir(parents=True)
    store_url = f"sqlite:///{folder / 'store.db'}"
    peer = DeadlyPeer(None, is_smtp=kind == "email", stage=stage, is_alertmanager=kind == "alertmanager")
    with serving(peer.serve) as url:
        with open_store(store_url) as store:
            fire(store, _receiver(kind, url), routed=routed)
        for _ in range(N_DEATHS + 1):
            with peer.lock:  # it is known before it can ask
                life = subprocess.Popen([sys.executable, "-m", "tests.torture.receivers.kills", store_url, kind, url])
                peer.teller = life
            try:
                life.wait(2 * LIFE_S)
            finally:
                life.kill()
                life.wait()
    with open_store(store_url) as store:
        n_left = sum(n.status != "delivered" for n in store.notifications())
    told = set(peer.taken)
    return Killed(kind, stage, peer.n_killed, len(told), len(peer.taken) - len(told), n_left, routed)


def _receiver(kind: str, url: str) -> Receiver:
    return receiver_at(kind, url, APPRISE_S if kind == "apprise" else WELL_S)


def all_kills(folder: Path, is_over: Callable[[], bool] = lambda: False) -> Iterator[Killed]:
    """Each kind at each stage, alert by alert and in groups."""
    for kind, stage, routed in product(KINDS, STAGES, (False, True)):
        if is_over():
            return
        yield tried_kills(kind, stage, folder / f"{kind}-{stage}-{routed}", routed=routed)


def _tell(store_url: str, kind: str, url: str) -> None:
    """Until nothing waits."""
    with open_store(store_url) as store:
        courier = Courier(store, endpoint_of("ops", _receiver(kind, url), ""), SystemClock(), draw=lambda: 0.0)
        ends_s = time.monotonic() + LIFE_S
        while time.monotonic() < ends_s:
            courier.deliver_pending()
            if (wait_ms := courier.wait_ms()) is None:
                break
            time.sleep(wait_ms / 1_000)
    os._exit(0)


if __name__ == "__main__":
    _tell(*sys.argv[1:4])


__all__ = ["STAGES", "Killed", "all_kills", "tried_kills"]
