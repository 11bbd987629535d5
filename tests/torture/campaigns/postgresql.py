"""PostgreSQL stopped, restarted, cut off in the middle of a transaction, full, failed over, restored.

A process follows the same few tasks through each of them. Afterwards its alerts, their ids and the keys of their
messages are those of a process that nothing disturbs; what was told before stays as it was. A database that lacks more
steps than are kept is refused, with the way out.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from app.errors import CheckpointError
from app.live.checkpoint import KEPT
from app.store.api import Store, open_store
from tests.app import postgresql as servers
from tests.app.live.test_pipeline import content, uninterrupted
from tests.app.process.test_outages import World
from tests.app.set_back import backup, restore
from tests.torture.campaign import Given, Verdict
from tests.torture.campaigns.damage import SAME

END_MS, STEP_MS = 200, 10
BACK_MS = 60
"""How long something is away, at most."""
FULL_BYTES = 24 * 2**20
MAX_S = 400

_databases = count(1)


class Server:
    """One server in a folder of its own, reached through a socket in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._data = folder / "data"
        programs = servers.binaries()
        assert programs is not None, servers.why_not()
        self._programs = programs

    def make(self) -> None:
        """An empty one."""
        if os.geteuid() == 0:
            shutil.chown(self.folder, servers.USER, servers.USER)
        self._run("initdb", "-U", servers.USER, "--auth", "trust", "--encoding", "UTF8", "--no-sync")

    def copy(self, primary: Server) -> None:
        """A standby of another one, which runs."""
        if os.geteuid() == 0:
            shutil.chown(self.folder, servers.USER, servers.USER)
        source = ("-h", str(primary.folder), "-U", servers.USER)
        self._run("pg_basebackup", *source, "-R", "-X", "stream", "-c", "fast", "--no-sync")

    def start(self) -> None:
        """Start, and wait until it answers."""
        options = (
            f"-c listen_addresses='' -c unix_socket_directories={self.folder} -c fsync=off -c max_connections=30 "
            "-c shared_buffers=16MB -c wal_level=replica"
        )
        self._run("pg_ctl", "-w", "-t", "300", "-l", str(self.folder / "log"), "-o", options, "start")

    def stop(self, how: str = "immediate") -> None:
        """Stop; `immediate`: as a machine that fails."""
        self._run("pg_ctl", "-w", "-t", "300", "-m", how, "stop")

    def promote(self) -> None:
        """A standby becomes the primary."""
        self._run("pg_ctl", "-w", "-t", "300", "promote")

    def tell(self, *statements: str, database: str = "postgres") -> None:
        """Each outside of a transaction."""
        engine = create_engine(servers.url_of(str(self.folder), database), isolation_level="AUTOCOMMIT")
        try:
            with engine.connect() as connection:
                for statement in statements:
                    connection.execute(text(statement))
        finally:
            engine.dispose()

    def _run(self, program: str, *words: str) -> None:
        command = [str(self._programs / program), "-D", str(self._data), *words]
        if os.geteuid() == 0:
            command = ["runuser", "-u", servers.USER, "--", *command]
        done = subprocess.run(
            command, cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=MAX_S,
            check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"


@dataclass
class Seen:
    """What the campaign found so far."""

    kinds: Counter[str] = field(default_factory=Counter)
    outages: Counter[str] = field(default_factory=Counter)
    """By kind of fault."""
    n_set_back: int = 0
    n_refused: int = 0
    failures: list[str] = field(default_factory=list)


@dataclass
class Trial:
    """One process, and what it meets."""

    kind: str
    server: Server
    database: str
    folder: Path
    expected: dict[str, Any]
    chosen: random.Random
    seen: Seen
    url: str = ""
    told: set[str] = field(default_factory=set)
    """Keys of messages that could be told before the database forgot them."""

    def __post_init__(self) -> None:
        self.url = self.url or servers.url_of(str(self.server.folder), self.database)
        self.folder.mkdir(parents=True)


Fault = Callable[[Trial], None]


def run(given: Given) -> Verdict:
    """All kinds in turn, as long as there is time; each at least once."""
    reason = servers.why_not()
    if reason is not None:
        return Verdict("nothing was tried", (reason,))
    chosen, until_s = random.Random(given.seed), time.monotonic() + given.minutes * 60
    expected, seen = undisturbed(given.folder / "whole"), Seen()
    with server() as primary:
        for number in count():
            kind = tuple(FAULTS)[number % len(FAULTS)]
            if number >= len(FAULTS) and (time.monotonic() > until_s or seen.failures):
                break
            try_one(kind, primary, given.folder / f"{number:03d}", expected, chosen, seen)
    kinds = ", ".join(f"{n} {kind}" for kind, n in seen.kinds.items())
    outages = ", ".join(f"{kind} {n}" for kind, n in seen.outages.items() if n)
    figures = (
        f"{sum(seen.kinds.values())} lives ({kinds}): {sum(seen.outages.values())} outages ended by themselves "
        f"({outages}), {seen.n_set_back} "
        f"databases that were set back were gone on with, {seen.n_refused} refused with the way out; "
        f"{len(seen.failures)} with alerts or keys that differ from an undisturbed process's"
    )
    return Verdict(figures, tuple(seen.failures))


def undisturbed(folder: Path) -> dict[str, Any]:
    """What an undisturbed process tells."""
    folder.mkdir(parents=True)
    found = uninterrupted(folder)
    return {name: found[name] for name in SAME}


def try_one(
    kind: str, primary: Server, folder: Path, expected: dict[str, Any], chosen: random.Random, seen: Seen
) -> None:
    """One life that meets one kind of fault."""
    database = f"torture{next(_databases)}"
    seen.kinds[kind] += 1
    FAULTS[kind](Trial(kind, primary, database, folder, expected, chosen, seen))


@contextmanager
def server() -> Iterator[Server]:
    """A running one."""
    with tempfile.TemporaryDirectory(prefix="pg-") as name:
        made = Server(Path(name))
        made.make()
        made.start()
        try:
            yield made
        finally:
            with suppress(AssertionError):
                made.stop()


@contextmanager
def following(trial: Trial) -> Iterator[World]:
    """A process on the trial's database."""
    with pytest.MonkeyPatch.context() as patch:
        world = World(trial.folder, patch, trial.url)
        try:
            yield world
        finally:
            world.store.close()


def _follow(trial: Trial, each: Callable[[World, int], None]) -> None:
    """The whole life; `each` is called before each step."""
    with following(trial) as world:
        world.run(END_MS, lambda now_ms: each(world, now_ms))
        _compare(trial, world.store)
        trial.seen.outages[trial.kind] += world.runner.n_outages


def _compare(trial: Trial, store: Store) -> None:
    found = content(store, trial.folder / "checkpoints")
    for part, expected in trial.expected.items():
        if found[part] != expected:
            trial.seen.failures.append(f"{trial.kind} ({trial.folder.name}): expected {part} {expected}, {found[part]}")
            return
    if not trial.told <= {key for key, _ in found["keys"]}:
        trial.seen.failures.append(f"{trial.kind} ({trial.folder.name}): told under other keys before: {trial.told}")


def _keys(store: Store) -> set[str]:
    return {message.idempotency_key for message in store.notifications()}


def _span(trial: Trial) -> tuple[int, int]:
    """When something goes away, and when it is back."""
    from_ms = trial.chosen.randrange(20, 130, STEP_MS)
    return from_ms, from_ms + trial.chosen.randrange(STEP_MS, BACK_MS, STEP_MS)


# ------------------------------------------------------------------------ faults


def _stopped(trial: Trial) -> None:
    trial.server.tell(f"CREATE DATABASE {trial.database}")
    from_ms, to_ms = _span(trial)
    how = trial.chosen.choice(("fast", "immediate"))

    def each(_world: World, now_ms: int) -> None:
        if now_ms == from_ms:
            trial.server.stop(how)
        if now_ms == to_ms:
            trial.server.start()

    _follow(trial, each)


def _restarted(trial: Trial) -> None:
    trial.server.tell(f"CREATE DATABASE {trial.database}")
    from_ms, _ = _span(trial)

    def each(_world: World, now_ms: int) -> None:
        if now_ms == from_ms:
            trial.server.stop()
            trial.server.start()

    _follow(trial, each)


def _cut(trial: Trial) -> None:
    trial.server.tell(f"CREATE DATABASE {trial.database}")
    times = {trial.chosen.randrange(20, 150, STEP_MS): trial.chosen.choice(("store", "commit")) for _ in range(3)}

    def each(world: World, now_ms: int) -> None:
        def boundary(reached: str) -> None:
            if times.get(now_ms) == reached:
                del times[now_ms]
                trial.server.tell(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = "
                    f"'{trial.database}' AND pid <> pg_backend_pid()"
                )

        world.runner.live.pipeline.boundary = boundary

    _follow(trial, each)


def _full(trial: Trial) -> None:
    """A tablespace on a small disk: somebody else fills it, and makes room again."""
    with ExitStack() as mounted:
        folder = Path(mounted.enter_context(tempfile.TemporaryDirectory(prefix="pg-full-")))
        mount = ["mount", "-t", "tmpfs", "-o", f"size={FULL_BYTES}", "none", str(folder)]
        if os.geteuid() or subprocess.run(mount, capture_output=True, check=False).returncode:
            trial.seen.kinds[trial.kind] -= 1
            trial.seen.kinds["full (not tried: no right to mount a small disk)"] += 1
            return
        mounted.callback(subprocess.run, ["umount", "-l", str(folder)], check=False)
        shutil.chown(folder, servers.USER, servers.USER)
        trial.server.tell(
            f"CREATE TABLESPACE {trial.database} LOCATION '{folder}'",
            f"CREATE DATABASE {trial.database} TABLESPACE {trial.database}",
        )
        from_ms, to_ms = _span(trial)

        def each(_world: World, now_ms: int) -> None:
            if now_ms == from_ms:
                _fill(trial)
            if now_ms == to_ms:
                trial.server.tell("DROP TABLE filled", database=trial.database)

        try:
            _follow(trial, each)
        finally:
            trial.server.tell(
                f"DROP DATABASE IF EXISTS {trial.database} WITH (FORCE)", f"DROP TABLESPACE {trial.database}"
            )


def _fill(trial: Trial) -> None:
    trial.server.tell("CREATE TABLE filled (bytes text)", database=trial.database)
    for n_rows in (2_000, 200, 20, 1):
        with suppress(DBAPIError):
            while True:
                insert = f"INSERT INTO filled SELECT repeat('x', 1900) FROM generate_series(1, {n_rows})"
                trial.server.tell(insert, database=trial.database)


def _synchronous(trial: Trial) -> None:
    _fail_over(trial, n_lost=0)


def _asynchronous(trial: Trial) -> None:
    _fail_over(trial, n_lost=trial.chosen.randrange(KEPT))


def _far_behind(trial: Trial) -> None:
    _fail_over(trial, n_lost=KEPT + trial.chosen.randrange(2))


def _fail_over(trial: Trial, n_lost: int) -> None:
    """To a standby that lacks so many steps: it was cut off before them."""
    from_ms = trial.chosen.randrange(70, 130, STEP_MS)
    with ExitStack() as opened:
        first, second = (
            Server(Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="pg-")))) for _ in range(2)
        )
        first.make()
        first.start()
        opened.callback(_end, first)
        first.tell(f"CREATE DATABASE {trial.database}")
        second.copy(first)
        second.start()
        opened.callback(_end, second)
        if not n_lost:
            first.tell("ALTER SYSTEM SET synchronous_standby_names = '*'", "SELECT pg_reload_conf()")
        trial.url = (
            f"postgresql+psycopg://{servers.USER}@/{trial.database}?host={first.folder},{second.folder}"
            "&target_session_attrs=read-write"
        )

        def each(world: World, now_ms: int) -> None:
            if n_lost and now_ms == from_ms - n_lost * STEP_MS:
                second.stop("fast")
            if now_ms == from_ms:
                trial.told = _keys(world.store)
                first.stop()
                if n_lost:
                    second.start()
                second.promote()

        _expecting(trial, each, n_lost)


def _end(made: Server) -> None:
    with suppress(AssertionError):
        made.stop()


def _restored(trial: Trial) -> None:
    """From a backup of the rows, under the running process or between two."""
    trial.server.tell(f"CREATE DATABASE {trial.database}")
    n_lost, from_ms = trial.chosen.randrange(1, KEPT + 2), trial.chosen.randrange(70, 130, STEP_MS)
    rows: dict[int, Any] = {}

    def each(world: World, now_ms: int) -> None:
        rows[now_ms] = backup(world.store)
        if now_ms == from_ms:
            trial.told = _keys(world.store)
            restore(world.store, rows[now_ms - n_lost * STEP_MS])

    _expecting(trial, each, n_lost)


def _expecting(trial: Trial, each: Callable[[World, int], None], n_lost: int) -> None:
    """It goes on while the step is among those that are kept, and else refuses."""
    try:
        _follow(trial, each)
    except CheckpointError as error:
        if n_lost < KEPT or "--forget-position" not in str(error) or "Put the newer database back" not in str(error):
            trial.seen.failures.append(f"{trial.kind}: {n_lost} steps were lost: {error}")
        trial.seen.n_refused += 1
        return
    if n_lost >= KEPT:
        trial.seen.failures.append(f"{trial.kind}: {n_lost} steps were lost: expected a refusal, it went on")
        return
    trial.seen.n_set_back += n_lost > 0
    with open_store(trial.url) as store, suppress(SQLAlchemyError):
        is_told = any(problem.kind == "store_set_back" for problem in store.problems())
        if is_told != (n_lost > 0):
            trial.seen.failures.append(f"{trial.kind}: {n_lost} steps were lost, told: {is_told}")


FAULTS: dict[str, Fault] = {
    "stopped": _stopped,
    "restarted": _restarted,
    "cut": _cut,
    "full": _full,
    "restored": _restored,
    "synchronous standby": _synchronous,
    "asynchronous standby": _asynchronous,
    "standby far behind": _far_behind,
}
