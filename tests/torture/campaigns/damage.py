"""Each stored file corrupted, cut off, removed, or replaced by an older one of itself, after a process was killed.

Whoever starts then goes on and finds the alerts that an undisturbed process finds, under the same ids and with the same
messages; or it refuses, names what is damaged and what to do, and that helps.
"""

from __future__ import annotations

import random
import shutil
import sqlite3
import time
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from app.errors import AppError
from app.live.checkpoint import CheckpointFolder
from app.store.api import Store, open_store
from tests.app.live.test_pipeline import content, scripts
from tests.app.pipeline_fixtures import start
from tests.new_store import placed
from tests.torture.campaign import Given, Verdict

END_MS, STEP_MS = 200, 10
DATABASE = "store.db"
HARMS = ("corrupted", "cut off", "removed", "older")
REMEDIES = ("put ", "Put ", "--forget-position", "start again")
SAME = ("alerts", "changes", "evidence", "reports", "keys")
"""What must be as without damage."""

Files = dict[str, bytes]
"""By path below the folder of the store."""


@dataclass
class Seen:
    """What the campaign found so far."""

    outcomes: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Undisturbed:
    """One process that nothing harms: its files after each step, as a kill -9 would leave them, and what it told."""

    files: dict[int, Files]
    closed: dict[int, Files]
    """With the database in its one file."""
    content: dict[str, Any]


def run(given: Given) -> Verdict:
    """Random times, files and harms, as long as there is time."""
    chosen, until_s = random.Random(given.seed), time.monotonic() + given.minutes * 60
    whole, seen = undisturbed(given.folder / "whole"), Seen()
    while time.monotonic() < until_s and len(seen.failures) < 10:
        try_one(given.folder / "trial", whole, chosen, seen)
    n = sum(seen.kinds.values())
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(seen.kinds.items()))
    figures = (
        f"{n} starts with one file harmed ({kinds}): {seen.outcomes['went on']} went on to the same alerts and "
        f"messages, {seen.outcomes['refused']} refused with the file and the way out, which led to the same "
        f"({seen.outcomes['started afresh']} also by --forget-position, to the same ids and keys); "
        f"{len(seen.failures)} wrong or doubled"
    )
    return Verdict(figures, tuple(seen.failures))


def undisturbed(folder: Path) -> Undisturbed:
    """Run it once."""
    files: dict[int, Files] = {}
    with open_store(placed(folder / DATABASE), durable=False) as store:
        process = start(store, folder / "checkpoints", scripts())
        for now_ms in range(0, END_MS + 1, STEP_MS):
            process.run(now_ms, now_ms)
            files[now_ms] = read(folder)
        found = content(store, folder / "checkpoints")
    closed: dict[int, Files] = {}
    for now_ms, there in files.items():
        put(folder, there)
        with closing(sqlite3.connect(folder / DATABASE)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        closed[now_ms] = read(folder)
    return Undisturbed(files, closed, {name: found[name] for name in SAME})


def read(folder: Path) -> Files:
    """All files."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def put(folder: Path, files: Files) -> None:
    """These files are all there is."""
    shutil.rmtree(folder, ignore_errors=True)
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)


def try_one(folder: Path, whole: Undisturbed, chosen: random.Random, seen: Seen) -> None:
    """One file harmed at one time."""
    # By the end nothing is left to be found.
    at_ms = chosen.randrange(30, 150, STEP_MS)
    snapshots = chosen.choice((whole.files, whole.closed))
    before = snapshots[at_ms]
    kind = chosen.choice(sorted({_kind(name) for name in before}))
    name = chosen.choice([name for name in before if _kind(name) == kind])
    harm = chosen.choice(HARMS)
    earlier = (files.get(name, b"") for ms, files in snapshots.items() if ms < at_ms)
    older = [data for data in earlier if data not in (b"", before[name])]
    if (harm == "older" and not older) or not before[name]:
        return
    files = dict(before)
    _harm(files, name, harm, chosen, older)
    put(folder, files)
    told = f"{name} {harm} after the step at {at_ms} ms"
    seen.kinds[f"{kind} {harm}"] += 1
    try:
        found = _go_on(folder, at_ms)
    except AppError as error:
        _refused(folder, whole, before, at_ms, name, str(error), told, seen)
        return
    except Exception as error:  # noqa: BLE001  # a failure of the campaign, beside others
        seen.failures.append(f"{told}: expected the same alerts or a refusal, found {type(error).__name__}: {error}")
        return
    _compare(found, whole.content, told, seen, "went on")


def _kind(name: str) -> str:
    path = Path(name)
    return path.name if path.name.startswith(DATABASE) else path.name.partition("-")[0]


def _harm(files: Files, name: str, harm: str, chosen: random.Random, older: list[bytes]) -> None:
    data = bytearray(files[name])
    if harm == "removed":
        del files[name]
    elif harm == "older":
        files[name] = chosen.choice(older)
    elif harm == "cut off":
        files[name] = bytes(data[: chosen.randrange(len(data))])
    elif name == DATABASE:
        # SQLite has no checksums: one byte of a text may change unseen, a page of something else may not.
        page = chosen.randrange(len(data) // 4_096)
        files[name] = bytes(data[: page * 4_096] + chosen.randbytes(4_096) + data[(page + 1) * 4_096 :])
    else:
        at = chosen.randrange(len(data))
        length = chosen.choice((1, 16, 4_096))
        data[at : at + length] = bytes(byte ^ 0xA5 for byte in data[at : at + length])
        files[name] = bytes(data)


def _go_on(folder: Path, at_ms: int) -> dict[str, Any]:
    with open_store(f"sqlite:///{folder / DATABASE}", durable=False) as store:
        process = start(store, folder / "checkpoints", scripts(), now_ms=at_ms + STEP_MS)
        process.run(at_ms + STEP_MS, END_MS)
        return _content(store, folder)


def _content(store: Store, folder: Path) -> dict[str, Any]:
    found = content(store, folder / "checkpoints")
    return {name: found[name] for name in SAME}


def _refused(
    folder: Path, whole: Undisturbed, before: Files, at_ms: int, name: str, message: str, told: str, seen: Seen
) -> None:
    is_database = name.startswith(DATABASE)
    names = "database" in message or DATABASE in message if is_database else _is_named(name, message)
    if not names or not any(remedy in message for remedy in REMEDIES):
        seen.failures.append(f"{told}: expected the file and what to do, found: {message}")
        return
    if "--forget-position" in message and not is_database:
        with open_store(f"sqlite:///{folder / DATABASE}", durable=False) as store:
            with store.transaction() as writer:
                writer.progress.forget_checkpoint("live")
            CheckpointFolder(folder / "checkpoints", "live").forget()
        found = _go_on(folder, at_ms)
        # What is read again counts again: numbers of matches are larger then.
        again = {"alerts": {alert[0] for alert in found["alerts"]}, "keys": found["keys"]}
        expected = {"alerts": {alert[0] for alert in whole.content["alerts"]}, "keys": whole.content["keys"]}
        _compare(again, expected, f"{told}, then --forget-position", seen, "started afresh")
    put(folder, before)
    _compare(_go_on(folder, at_ms), whole.content, f"{told}, then put back", seen, "refused")


def _is_named(name: str, message: str) -> bool:
    return Path(name).name in message or f"{Path(name).parent} holds" in message


def _compare(found: dict[str, Any], expected: dict[str, Any], told: str, seen: Seen, outcome: str) -> None:
    seen.outcomes[outcome] += 1
    for part, wanted in expected.items():
        if found[part] != wanted:
            seen.failures.append(f"{told}, {outcome}: expected {part} {wanted}, found {found[part]}")
            return
