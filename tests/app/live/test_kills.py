"""`kill -9` of a real process at random moments, with restarts, reloads and locks: in the end, what one process that
nothing disturbs would have told.

The moments come from a seed that is printed; KILL_SEED=n repeats or varies it.
"""

from __future__ import annotations

import os
import random
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.config import load_settings
from app.replay.recording import MANIFEST, Recording, unpack
from app.store import open_store
from app.store.api import EVERY_ALERT
from tests.app.live import test_pipeline
from tests.app.live.test_pipeline import without_polls
from tests.app.replaying_process import CONFIG
from tests.app.webhook import Webhook, webhook

ROOT = CONFIG.parent
CUT_MS = 500_000
"""Of the recording that is replayed: until after the first three faults."""

POLL_MS = 10_000
"""Half as often as it was recorded: half the steps, and whatever is between two of them comes together."""

MOST_ROWS = 1_000
"""That a store gives of reports and late events when it is not asked for more."""

MAX_S = 900
"""After this a process that hangs is ended, and the test fails."""


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The committed one, unpacked, up to CUT_MS."""
    settings = load_settings(CONFIG, {})
    unpacked = unpack(settings.demo.recording, tmp_path_factory.mktemp("recording"), settings.replay)
    folder = Recording.open(unpacked, unpacked, settings.replay).folder
    manifest = yaml.safe_load((folder / MANIFEST).read_text(encoding="utf-8"))
    manifest["ended_ms"] = manifest["started_ms"] + CUT_MS
    manifest["poll_interval_ms"] = POLL_MS
    (folder / MANIFEST).write_text(yaml.safe_dump(manifest), encoding="utf-8")
    return folder


@contextmanager
def process(recording: Path, folder: Path, hook: Webhook, *how: str) -> Iterator[subprocess.Popen[str]]:
    """Start one; it is killed at the end when it still runs."""
    folder.mkdir(exist_ok=True)
    words = [sys.executable, "-m", "tests.app.replaying_process", str(recording), str(folder), hook.url, *how]
    with (folder / "log").open("a") as log:
        started = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=log, text=True)
    patience = threading.Timer(MAX_S, started.kill)
    patience.start()
    try:
        yield started
    finally:
        patience.cancel()
        started.kill()
        started.wait()
        assert started.stdout is not None
        started.stdout.close()


def lines(started: subprocess.Popen[str]) -> Iterator[str]:
    """What it tells, until it ends."""
    assert started.stdout is not None
    return (line.strip() for line in started.stdout)


def content(folder: Path) -> dict[str, Any]:
    """All that a user or a receiver can see, without the clock of the run and the number of polls."""
    with open_store(f"sqlite:///{folder / 'store/clustercep.db'}", durable=False) as store:
        found = without_polls(test_pipeline.content(store, folder / "store"))
        assert len(found["alerts"]) < EVERY_ALERT.limit  # else there are more, as of the others
        assert max(len(found["reports"]), len(found["late"])) < MOST_ROWS
        return {**found, "outbox": sorted((n.idempotency_key, n.receiver, n.status) for n in store.notifications())}


@pytest.mark.in_turn(of=2, together=True)
def test_kills_restarts_reloads_and_locks_lose_and_double_nothing(recording: Path, tmp_path: Path) -> None:
    seed = int(os.environ.get("KILL_SEED", "1"))
    print(f"KILL_SEED={seed}")
    chosen = random.Random(seed)
    with webhook() as hook, process(recording, tmp_path / "whole", hook) as whole:
        assert list(lines(whole))[-1] == "told", (tmp_path / "whole/log").read_text()
        expected, keys = content(tmp_path / "whole"), {key for key, _ in hook.received}
    assert len(expected["alerts"]) > 5
    assert keys == {key for key, _, _ in expected["outbox"]}
    seen: list[str] = []
    with webhook() as hook:
        for left in (*(chosen.randrange(10, 150) for _ in range(3)), None):
            with process(recording, tmp_path / "cut", hook, "disturbed") as cut:
                seen += until_killed(cut, left, tmp_path / "cut/store/clustercep.db", chosen)
        received = {key for key, _ in hook.received}
    print({what: seen.count(what) for what in sorted(set(seen))})
    assert seen[-1] == "told", (tmp_path / "cut/log").read_text()
    assert {"outage", "reload", "restart"} <= set(seen)
    assert content(tmp_path / "cut") == expected
    assert received == keys


def until_killed(cut: subprocess.Popen[str], n_lines: int | None, database: Path, chosen: random.Random) -> list[str]:
    """Follow it for so many lines and kill it; lock its store on the way, until it says that this is an outage.

    Every other lock is held over the process's death.
    """
    seen: list[str] = []
    locked_at = chosen.randrange(10, n_lines or 100)
    over_death = n_lines is not None and chosen.random() < 0.5
    with ExitStack() as held:
        lock: sqlite3.Connection | None = None
        for line in lines(cut):
            seen.append(line)
            if len(seen) == locked_at:
                lock = held.enter_context(closing(sqlite3.connect(database, isolation_level=None, timeout=60)))
                lock.execute("BEGIN IMMEDIATE")
            if line == "outage" and not over_death and lock is not None:
                lock.close()
                lock = None
            is_time = n_lines is not None and len(seen) >= n_lines and lock is None
            if is_time or (over_death and line == "outage"):
                cut.kill()
                break
        cut.wait()
    return seen
