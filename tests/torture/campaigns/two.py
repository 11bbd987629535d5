"""Every pairing of `run`, `replay`, `demo` and `stream` on one database: one owner, the other refused with the reason.

The second one comes to the first one's database by the same folder, a link to it, a link to the file, a URL, from
another host, or both by a PostgreSQL server. Then the first one is killed with -9, and the second one starts at once;
or it is suspended and taken over from another host, and ends when it wakes up.
"""

from __future__ import annotations

import itertools
import random
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import yaml
from sqlalchemy import create_engine, text

from app.config import load_settings
from app.replay.recording import unpack
from app.store.api import open_store
from app.store.writing.problems import NewProblem
from tests.app import postgresql
from tests.app.process.test_runner import write_settings
from tests.torture.campaign import Given, Verdict
from tests.torture.processes.commands import Life

COMMANDS = ("run", "replay", "demo", "stream")
WAYS = ("folder", "link", "file", "url", "host", "postgresql")
OF_SETTINGS = ("run", "stream")
"""Commands whose database the configuration names; the others make one in a folder of their own."""
CONFIG = Path(__file__).parents[3] / "config.yaml"
EXIT_MISTAKE = 2


@dataclass(frozen=True)
class Pairing:
    """Who came first, who second, and how it came to the same database."""

    first: str
    second: str
    way: str

    def __str__(self) -> str:
        return f"{self.first}, then {self.second} by {self.way}"


@dataclass
class Seen:
    """What the campaign found so far."""

    n_refused: int = 0
    n_followed: int = 0
    n_woken: int = 0
    pairs: set[tuple[str, str]] = field(default_factory=set)
    slowest_refusal_s: float = 0.0
    slowest_follow_s: float = 0.0
    failures: list[str] = field(default_factory=list)


def pairings() -> list[Pairing]:
    """All that can be: a replay's folder is new, so it comes second only to a folder that is no longer empty."""
    found = []
    for first, second, way in itertools.product(COMMANDS, COMMANDS, WAYS):
        if way == "postgresql" and not {first, second} <= set(OF_SETTINGS):
            continue
        if (way in ("url", "host") and second not in OF_SETTINGS) or (way == "file" and second == "replay"):
            continue
        found.append(Pairing(first, second, way))
    return found


def run(given: Given) -> Verdict:
    """Each pair of commands at least once, the other ways as long as there is time."""
    chosen, until_s = random.Random(given.seed), time.monotonic() + given.minutes * 60
    wanted = pairings()
    chosen.shuffle(wanted)
    firsts = list({(pairing.first, pairing.second): pairing for pairing in wanted}.values())
    seen = Seen()
    with recorded(given.folder) as recording, servers() as server:
        for number, pairing in enumerate(firsts + [pairing for pairing in wanted if pairing not in firsts]):
            if number >= len(firsts) and time.monotonic() > until_s:
                break
            folder = given.folder / f"{number:03d}"
            folder.mkdir()
            try_pairing(pairing, folder, recording, server, seen)
            if not seen.failures:
                shutil.rmtree(folder)
    figures = (
        f"{len(seen.pairs)} of {len(COMMANDS) ** 2} pairs of commands, {seen.n_refused} second ones refused with the "
        f"reason (slowest {seen.slowest_refusal_s:.1f} s), {seen.n_followed} started after a kill -9 (slowest "
        f"{seen.slowest_follow_s:.1f} s), {seen.n_woken} owners that were taken over in their sleep ended as they woke"
    )
    return Verdict(figures, tuple(seen.failures))


@contextmanager
def recorded(folder: Path) -> Iterator[Path]:
    """The committed recording, unpacked once."""
    settings = load_settings(CONFIG, {})
    yield unpack(settings.demo.recording, folder / "recording", settings.replay)


@contextmanager
def servers() -> Iterator[str | None]:
    """The socket of a PostgreSQL server, None where there is none."""
    if postgresql.why_not() is not None:
        yield None
        return
    with postgresql.server() as socket:
        yield socket


def try_pairing(pairing: Pairing, folder: Path, recording: Path, server: str | None, seen: Seen) -> None:
    """One pairing, from the first one's start to the second one's."""
    if pairing.way == "postgresql" and server is None:
        return
    base = folder / "base"
    url = f"sqlite:///{base / 'store' / 'clustercep.db'}"
    if pairing.way == "postgresql":
        assert server is not None
        url = _database(server, f"two_{folder.name}")
    seen.pairs.add((pairing.first, pairing.second))
    with ExitStack() as lives:
        given_url = url if pairing.way == "postgresql" else None
        first = lives.enter_context(_started(pairing.first, folder / "first", base, recording, url=given_url))
        if not first.owns():
            seen.failures.append(f"{pairing}: the first one did not start: {first.words()[-500:]}")
            return
        _refused(pairing, first, url, folder, recording, seen)
        if pairing.second == "replay":
            return
        if pairing.way == "host":
            _woken(pairing, first, folder, recording, url, seen)
        else:
            _followed(pairing, first, folder, recording, url, seen)


def _refused(pairing: Pairing, first: Life, url: str, folder: Path, recording: Path, seen: Seen) -> None:
    before, began_s = _owner(url), time.monotonic()
    with _second(pairing, folder, recording, url) as second:
        code, told = second.ended(), second.words()
    seen.slowest_refusal_s = max(seen.slowest_refusal_s, time.monotonic() - began_s)
    expected = f"'clustercep {pairing.first}' with pid {first.pid} on host "
    is_told = expected in told or (pairing.second == "replay" and "not an empty folder" in told)
    if code != EXIT_MISTAKE or not is_told or "Traceback" in told:
        seen.failures.append(f"{pairing}: expected a refusal that tells {expected!r}, found code {code}: {told[-500:]}")
    elif _owner(url) != before or not first.is_alive():
        seen.failures.append(f"{pairing}: the first one lost the store to one that was refused")
    else:
        seen.n_refused += 1
    with open_store(url, make=False) as store, store.transaction() as writer:  # as an acknowledgement
        writer.problems.add([NewProblem("campaign", "two", "beside", "somebody else's write")], 1)


def _followed(pairing: Pairing, first: Life, folder: Path, recording: Path, url: str, seen: Seen) -> None:
    first.kill()
    began_s = time.monotonic()
    with _second(pairing, folder, recording, url) as second:
        # The first one's checkpoints are in its own folder: what is tried is whether its ownership is in the way.
        if not second.owns():
            seen.failures.append(f"{pairing}: after a kill -9 the second one cannot start: {second.words()[-500:]}")
            return
        seen.n_followed += 1
        seen.slowest_follow_s = max(seen.slowest_follow_s, time.monotonic() - began_s)


def _woken(pairing: Pairing, first: Life, folder: Path, recording: Path, url: str, seen: Seen) -> None:
    first.signal(signal.SIGSTOP)
    with _second(pairing, folder, recording, url, "--take-over") as second:
        if not second.owns():
            seen.failures.append(f"{pairing}: --take-over did not take over: {second.words()[-500:]}")
            return
        owner = _owner(url)
        first.signal(signal.SIGCONT)
        code, told = first.ended(), first.words()
        expected = "this process does not own the store any more"
        if code in (0, None) or expected not in told:
            seen.failures.append(f"{pairing}: expected an end that tells {expected!r}, found {code}: {told[-800:]}")
        elif second.is_alive() and _owner(url) != owner:
            seen.failures.append(f"{pairing}: whoever woke up changed the owner")
        else:
            seen.n_woken += 1


def _second(pairing: Pairing, folder: Path, recording: Path, url: str, *more: str) -> Life:
    base, home = folder / "base", folder / "second"
    if pairing.way in ("folder", "link"):
        if pairing.way == "link":
            home.mkdir(exist_ok=True)
            (home / "link").unlink(missing_ok=True)
            (home / "link").symlink_to(base)
            base = home / "link"
        return _started(pairing.second, home, base, recording, *more)
    own = home / "base"
    if pairing.way == "file":
        (own / "store").mkdir(parents=True, exist_ok=True)
        (own / "store/clustercep.db").unlink(missing_ok=True)
        (own / "store/clustercep.db").symlink_to(base / "store/clustercep.db")
        return _started(pairing.second, home, own, recording, *more)
    host = "another-host" if pairing.way == "host" else None
    return _started(pairing.second, home, own, recording, *more, url=url, host=host)


def _started(
    command: str, home: Path, base: Path, recording: Path, *more: str, url: str | None = None, host: str | None = None
) -> Life:
    """`base`: the folder in which the command's store is a folder `store`."""
    write_settings(home)
    config = settings_file(home, base, url)
    (home / "in").mkdir(exist_ok=True)
    words = {
        "run": ["run"],
        "demo": ["demo", "--once", "--speed", "1", "--recording", str(recording)],
        "replay": ["replay", str(recording), "--into", str(base), "--speed", "1"],
        "stream": [
            "stream", str(home / "in"), "--format", "jsonl", "--checkpoint", str(home / "spark"), "--master", "local[1]"
        ],
    }[command]  # fmt: skip
    n_before = len(list(home.glob("*.log")))
    log = home / f"{n_before}-{command}.log"
    return Life([*words, "--config", str(config), *more], log, host=host)


def settings_file(home: Path, base: Path, url: str | None) -> Path:
    """The configuration with the store in `base`/store, and its database there or at a URL."""
    path = home / "config.yaml"
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    content["store"] = {"directory": str(base / "store")} | ({} if url is None else {"url": url})
    content["demo"] = {"directory": str(base)}
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    return path


def _owner(url: str) -> tuple[str, int]:
    engine = create_engine(url)
    try:
        with engine.connect() as connection:
            token, pid = connection.execute(text("SELECT token, pid FROM owner")).one()
        return str(token), int(pid)
    finally:
        engine.dispose()


def _database(server: str, name: str) -> str:
    engine = create_engine(postgresql.url_of(server, "postgres"), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
    engine.dispose()
    return postgresql.url_of(server, name)
