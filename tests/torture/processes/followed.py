"""A `clustercep run` that follows a growing cluster: its configuration, its receiver, and what its store says."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from app.errors import StoreError
from app.store import Store, open_store
from tests.torture.inputs.growing_cluster import GrowingCluster, Inbox, configure, inbox
from tests.torture.processes.lives import is_dead

SETTLED_MS = 3_000
"""So far past the last event all alerts are over: longer than the queries' gap."""

PATIENCE_S = 120.0
"""For something that has to happen, and for the last life to tell anything more while it has not told everything."""


@dataclass
class Followed:
    """Whoever follows, in all its lives."""

    folder: Path
    inbox: Inbox
    config: Path

    @property
    def store_url(self) -> str:
        """Its store."""
        return f"sqlite:///{self.folder / 'store/clustercep.db'}"


@contextmanager
def followed(folder: Path, cluster: GrowingCluster, retention: str, *, routed: bool = False) -> Iterator[Followed]:
    """A folder with a configuration, and a receiver on loopback; `retention`: of messages and late events; `routed`:
    with routes."""
    with inbox() as received:
        yield Followed(folder, received, configure(folder, cluster, received.url, retention=retention, routed=routed))


def until_stepped(one: Followed, pid: int) -> None:
    """Look until it has made a step; as `_until`."""
    _until(lambda: one.folder.joinpath("store/clustercep.db").exists(), pid, one)
    _until(lambda: _asked(one, lambda store: store.process_status() is not None), pid, one)


def has_told_all(one: Followed, last_ms: int, pid: int) -> bool:
    """Whether all that happened until `last_ms` is over and told, before it stops telling anything."""

    def is_over(store: Store) -> bool:
        status = store.process_status()
        return (
            status is not None
            and int(status.value["watermark_ms"]) > last_ms + SETTLED_MS
            and not store.n_open_alerts()
            and not store.n_notifications_by_status().get("pending")
        )

    try:
        _until(lambda: _asked(one, is_over), pid, one, lambda: len(one.inbox.received))
    except TimeoutError:
        return False
    return True


def _asked(one: Followed, question: Callable[[Store], bool]) -> bool:
    try:
        with open_store(one.store_url, durable=False, make=False) as store:
            return question(store)
    except StoreError:
        return False


def _until(is_so: Callable[[], bool], pid: int, one: Followed, progress: Callable[[], int] = lambda: 0) -> None:
    """Look until something is so; raises TimeoutError, RuntimeError for a process that has ended by itself."""
    started_s, reached = time.monotonic(), progress()
    while not is_so():
        if progress() > reached:
            started_s, reached = time.monotonic(), progress()
        if is_dead(pid):
            raise RuntimeError(f"the process has ended: {_end_of(one.folder / 'log')}")
        if time.monotonic() - started_s > PATIENCE_S:
            raise TimeoutError
        time.sleep(0.1)


def _end_of(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines()[-3:]
    return json.dumps(lines)


__all__ = ["PATIENCE_S", "Followed", "followed", "has_told_all", "until_stepped"]
