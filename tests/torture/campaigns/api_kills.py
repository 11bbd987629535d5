"""`kill -9` of `clustercep api` in the middle of silence writes: what was answered is there once, nothing by halves.

Clients make, change and end silences without pause, each its own. The process dies at a drawn statement of one of these
transactions, or as soon as a drawn number of writes is answered, while others are under way. The next life is asked for
what the one before answered, and the store is held against what was sent: a silence is as its last answered write left
it, or as the one behind it that nobody answered; its comment, matchers, end and history are of one write; alerts are
silenced exactly by the silences that are there.
"""

from __future__ import annotations

import http.client
import json
import random
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import select

from app.alerting.recording.options import AlertingOptions
from app.alerting.recording.recorder import Recorder
from app.alerting.text import iso
from app.alertmanager.silences import number_of, silence_uuid
from app.store import Store, open_store
from app.store.models import AlertRow, SilenceChangeRow, SilenceRow
from tests.app.alerting_fixtures import kept
from tests.app.alertmanager.served import TOKEN, fire, infos, slow, tokens_file
from tests.torture.campaign import Given, Verdict
from tests.torture.processes.commands import Life
from tests.torture.processes.dying import armed_after

N_KILLS, N_CLIENTS = 100, 4
N_HOSTS = 6
MOST_HELD = 30
"""Silences of a client that are not over: beyond these it ends one first."""
MOST_STATEMENTS, MOST_ANSWERS = 60, 40
"""Within which a life dies."""
PATIENCE_S = 180.0
LENGTH_MS = 86_400_000
_COLUMNS = [
    getattr(SilenceRow, name) for name in ("id", "reason", "created_by", "matchers", "until_ms", "revision", "ended_by")
]
_LISTENS = re.compile(r"http://127\.0\.0\.1:([0-9]+), until SIGINT")


@dataclass
class Write:
    """One request; `mark` is its own and stands in comment, matchers and end."""

    kind: str
    """made, changed or ended."""
    mark: str
    host: str
    until_ms: int
    is_answered: bool = False

    def body(self, silence_id: str | None) -> dict[str, Any]:
        """As it is sent."""
        matchers = [("host", self.host, True), ("mark", self.mark, False)]  # no alert has a mark: it hides none less
        return {
            **({} if silence_id is None else {"id": silence_id}),
            "matchers": [{"name": n, "value": v, "isEqual": eq, "isRegex": False} for n, v, eq in matchers],
            "startsAt": iso(0),
            "endsAt": iso(self.until_ms),
            "createdBy": self.mark,
            "comment": self.mark,
        }


@dataclass
class Client:
    """Who makes silences; knows of each what it sent, in order."""

    name: str
    chosen: random.Random
    number: int = 0
    sent: dict[str, list[Write]] = field(default_factory=dict)
    """By the id of a silence that was answered."""
    lost: list[Write] = field(default_factory=list)
    """Silences to be made of which no id came back."""
    told: list[str] = field(default_factory=list)
    """Answers that are none to such a request."""

    def write(self, port: int, base_ms: int) -> bool:
        """One request; False when nobody answers any more."""
        held = [one for one, writes in self.sent.items() if writes[-1].kind != "ended"]
        kind = self.chosen.choices(("made", "changed", "ended"), (5, 3, 2))[0] if held else "made"
        kind = "ended" if len(held) >= MOST_HELD else kind
        silence_id = None if kind == "made" else self.chosen.choice(held)
        self.number += 1
        host = f"n{self.chosen.randrange(N_HOSTS)}"
        write = Write(kind, f"{self.name}-{self.number}", host, base_ms + LENGTH_MS + 1_000 * self.number)
        if silence_id is not None:
            self.sent[silence_id].append(write)
        answer = _ask(port, write, silence_id)
        if answer is None:
            self.lost += [write] if silence_id is None else []
            return False
        status, told = answer
        if status != 200:
            self.told.append(f"{write.mark} ({kind}): answered {status}: {told[:200]!r}")
            return False
        write.is_answered = True
        if kind != "ended":
            self.sent.setdefault(str(json.loads(told)["silenceID"]), [write])
        return True


def _ask(port: int, write: Write, silence_id: str | None) -> tuple[int, bytes] | None:
    """Status and body; None where the connection ended without."""
    path, method = (
        ("/api/v2/silences", "POST") if write.kind != "ended" else (f"/api/v2/silence/{silence_id}", "DELETE")
    )
    body = json.dumps(write.body(silence_id)) if method == "POST" else None
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    try:
        connection.request(method, path, body, {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"})
        answer = connection.getresponse()
        return answer.status, answer.read()
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


def die_in_silences(n_statements: int) -> None:
    """From the first write on count statements, of whatever kind, and end with the n-th."""
    from app.alertmanager import silences

    armed = armed_after(n_statements)
    silences.put = armed(silences.put)
    silences.end = armed(silences.end)


@dataclass
class Killing:
    """The process, those who write, and what was wrong."""

    folder: Path
    config: Path
    store_url: str
    clients: list[Client]
    chosen: random.Random
    base_ms: int
    died: Counter[str] = field(default_factory=Counter)
    n_unanswered: int = 0
    n_kept: int = 0
    """Of those, how many are there all the same."""
    failures: list[str] = field(default_factory=list)

    def life(self, number: int) -> None:
        """One life, to its end; first it is asked for what the one before answered."""
        by_statement = number % 2 == 0
        n = self.chosen.randrange(1, MOST_STATEMENTS if by_statement else MOST_ANSWERS)
        with self._served(partial(die_in_silences, n) if by_statement else None) as (life, port):
            if not by_statement:  # who asks would be counted
                self._asked_for(port)
            answers = threading.Semaphore(0)
            writers = [threading.Thread(target=self._write, args=(one, port, answers)) for one in self.clients]
            for writer in writers:
                writer.start()
            if not by_statement:
                if not all(answers.acquire(timeout=PATIENCE_S) for _ in range(n)):
                    self.failures.append(f"life {number}: fewer than {n} answers within {PATIENCE_S:.0f} s each")
                life.kill()
            for writer in writers:
                writer.join()
            if life.ended() is None:
                self.failures.append(f"life {number}: did not die at statement {n}")
        self.died["at a statement" if by_statement else "at any time"] += 1
        self.failures += [told for one in self.clients for told in one.told]
        for one in self.clients:
            one.told.clear()
        self.failures += self.compared(f"life {number}")

    def last_life(self) -> None:
        """Everything that was answered can be read."""
        with self._served(None) as (_, port):
            self._asked_for(port)

    @contextmanager
    def _served(self, prepare: Callable[[], None] | None) -> Iterator[tuple[Life, int]]:
        words = ("api", "-c", str(self.config), "--port", "0")
        with Life(words, self.folder / "log", prepare=prepare) as life:
            yield life, _port_of(life)

    def _write(self, client: Client, port: int, answers: threading.Semaphore) -> None:
        while client.write(port, self.base_ms):
            answers.release()

    def _asked_for(self, port: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
        connection.request("GET", "/api/v2/silences")
        answer = connection.getresponse()
        listed = Counter(one["id"] for one in json.loads(answer.read()) if one["status"]["state"] != "expired")
        connection.close()
        wanted = {one for client in self.clients for one, writes in client.sent.items() if _goes_on(writes)}
        self.failures += [f"silence {one}: listed {listed[one]} times, expected once" for one in sorted(wanted)
                          if listed[one] != 1]  # fmt: skip

    def compared(self, what: str) -> list[str]:
        """What differs between store and what was sent; from then on the store says what of it holds."""
        with open_store(self.store_url, durable=False, make=False) as store:
            before = _hidden(store)
            with store.transaction() as writer:  # what is changed or ended is followed by the next step
                Recorder(AlertingOptions(infos(), {}), writer, kept, time.time_ns() // 1_000_000).between_steps.follow(
                    1_000
                )
            after = _hidden(store)
            with store.engine.connect() as connection:
                rows = {row.id: row for row in connection.execute(select(*_COLUMNS))}
                history: dict[int, list[int]] = {}
                for number, revision in connection.execute(
                    select(SilenceChangeRow.silence_id, SilenceChangeRow.revision)
                ):
                    history.setdefault(number, []).append(revision)
        found = []
        known: set[int] = set()
        for client in self.clients:
            for silence_id, writes in client.sent.items():
                number = number_of(silence_id)
                assert number is not None
                known.add(number)
                found += self._judged(silence_id, writes, rows.get(number))
        made = {write.mark: (client, write) for client in self.clients for write in client.lost}
        for number, row in rows.items():
            if sorted(history.get(number, [])) != list(range(1, row.revision + 1)):
                found.append(f"silence {number}: revision {row.revision}, its history has {history.get(number)}")
            if number not in known:
                found += self._adopted(number, row, made)
        self.n_unanswered += sum(len(client.lost) for client in self.clients)
        for client in self.clients:
            client.lost.clear()
        at_once = {_host(row) for row in rows.values() if row.ended_by is None and row.revision == 1}
        holding = {_host(row) for row in rows.values() if row.ended_by is None}
        if not at_once <= before:
            found.append(f"silences are there whose alerts are not silenced: {sorted(at_once - before)}")
        if after != holding:
            found.append(f"silenced are {sorted(after)}; silences say {sorted(holding)}")
        return [f"{what}: {one}" for one in found]

    def _judged(self, silence_id: str, writes: list[Write], row: Any) -> list[str]:
        """Against the last answered write, or one behind it; forgets what did not come to be."""
        if row is None:
            return [f"silence {silence_id} ({writes[0].mark}) was answered and is not there"]
        last = max(number for number, write in enumerate(writes) if write.is_answered)
        open_ended = writes[last:]
        self.n_unanswered += len(open_ended) - 1
        for number, write in enumerate(open_ended):
            if _is(row, write, writes[: last + number]):
                del writes[last + number + 1 :]
                self.n_kept += number > 0
                write.is_answered = True
                return []
        expected = " or ".join(f"{write.kind} by {write.mark}" for write in open_ended)
        return [f"silence {silence_id}: found {tuple(row)}; expected it {expected}"]

    def _adopted(self, number: int, row: Any, made: dict[str, tuple[Client, Write]]) -> list[str]:
        """A silence of which no answer came: whole, once, and its client's from now on."""
        client, write = made.pop(row.reason, (None, None))
        if client is None or write is None:
            return [f"silence {number}: {tuple(row)}: nobody made it, or it is there twice"]
        if not _is(row, write, []):
            return [f"silence {number}: found {tuple(row)}; expected it {write.kind} by {write.mark}, or none"]
        write.is_answered = True
        client.sent[silence_uuid(number)] = [write]
        self.n_kept += 1
        return []


def _hidden(store: Store) -> set[str]:
    """The hosts whose alerts are silenced; each has several, which are silenced together."""
    with store.engine.connect() as connection:
        alerts = connection.execute(select(AlertRow.labels, AlertRow.silenced)).all()
    hidden, others = ({labels["host"] for labels, silenced in alerts if silenced == is_so} for is_so in (True, False))
    assert hidden.isdisjoint(others), f"some alerts of {hidden & others} are silenced, others are not"
    return hidden


def _goes_on(writes: list[Write]) -> bool:
    return writes[-1].kind != "ended"


def _host(row: Any) -> str:
    return next(str(value) for name, _, value in row.matchers if name == "host")


def _is(row: Any, write: Write, before: list[Write]) -> bool:
    """Whether all of a row is of this write; one that ends a silence leaves what was there before."""
    of = write if write.kind != "ended" else before[-1]
    matchers = [["host", "=", of.host], ["mark", "!=", of.mark]]
    same = (row.reason, row.created_by, [list(one) for one in row.matchers]) == (of.mark, of.mark, matchers)
    is_over = row.ended_by is not None
    return same and is_over == (write.kind == "ended") and (is_over or row.until_ms == of.until_ms)


def _port_of(life: Life) -> int:
    """Of its first line, when it listens."""
    started_s = time.monotonic()
    while time.monotonic() - started_s < PATIENCE_S and life.is_alive():
        if told := _LISTENS.search(life.words()):
            return int(told[1])
        time.sleep(0.01)
    raise RuntimeError(f"clustercep api does not listen: {life.words()[-500:]}")


def run(given: Given) -> Verdict:
    """A hundred lives."""
    return killed(given, N_KILLS, most_s=60 * given.minutes)


def killed(given: Given, n_kills: int, *, most_s: float) -> Verdict:
    """So many lives, or as many as the time allows."""
    given.folder.mkdir(parents=True, exist_ok=True)
    store = given.folder / "store"
    store.mkdir()
    url = f"sqlite:///{store / 'clustercep.db'}"
    with open_store(url, durable=False) as made:
        fire(made, *(slow(f"t{number}", f"n{number % N_HOSTS}") for number in range(2 * N_HOSTS)))
    config = given.folder / "config.yaml"
    section = {"store": {"directory": str(store)}, "api": {"tokens_file": str(tokens_file(given.folder))}}
    config.write_text(json.dumps(section))
    chosen = random.Random(given.seed)
    clients = [Client(f"c{number}", random.Random(chosen.random())) for number in range(N_CLIENTS)]
    killing = Killing(given.folder, config, url, clients, chosen, time.time_ns() // 1_000_000)
    started_s, number = time.monotonic(), 0
    while number < n_kills and time.monotonic() - started_s < most_s and len(killing.failures) < 20:
        killing.life(number)
        number += 1
    killing.last_life()
    n_answered = sum(client.number for client in clients) - killing.n_unanswered
    if not killing.n_unanswered:
        killing.failures.append("no write was under way when the process died: nothing was tried")
    died = ", ".join(f"{n} {moment}" for moment, n in sorted(killing.died.items()))
    return Verdict(
        f"{number} lives of the API killed ({died}), {n_answered:,} writes of silences answered, all of them there "
        f"once; {killing.n_unanswered} under way, of which {killing.n_kept} are there whole and the others not at all",
        tuple(killing.failures[:20]),
    )


__all__ = ["killed", "run"]
