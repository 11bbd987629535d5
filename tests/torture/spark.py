"""`kill -9` of driver, JVM and Python workers of jobs on Spark; two ingests at once; damaged stores and checkpoints.

Ingest and compaction share one event store that grows, the stream a folder of event files; what they end with is
compared with a store and a stream that nobody disturbed, and with the rows of the undisturbed one.
"""

from __future__ import annotations

import random
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from app.store.api import open_store
from collectors.schema import load_event_types
from spark_jobs.event_store.on_this_machine import read_few
from spark_jobs.event_store.schema import EVENTS
from tests.collectors import histories
from tests.live.test_interrupted_stream import words_for
from tests.spark_jobs.stream_fixtures import small_stream
from tests.spark_jobs.test_stream import lines_of_small_stream, stored
from tests.torture.campaign import Given, Verdict
from tests.torture.spark_lives import WITHIN_S, Life, Spark

JOB = "job_1700000000000_0007"
N_FILES_A_LIFE = 2
N_STREAM_FILES = 40
"""The first three hold what is found, the others move time on."""
DAMAGE = ("changed", "cut", "removed")


@dataclass
class Tally:
    """What was done, and what was wrong."""

    killed: Counter[str] = field(default_factory=Counter)
    """By (command, victim)."""
    whole: int = 0
    damaged: int = 0
    named: int = 0
    failures: list[str] = field(default_factory=list)

    def note(self, command: str, life: Life) -> None:
        """A life that was meant to be killed."""
        if life.killed is None:
            self.whole += 1
        else:
            self.killed[f"{command}/{life.killed}"] += 1
        if life.stayed:
            self.failures.append(f"{command}, {life.killed} killed: these processes stayed: {'; '.join(life.stayed)}")
        if "not over" in life.told.rpartition("\n")[2]:
            self.failures.append(f"{command}, {life.killed} killed: {life.told.rpartition(chr(10))[2]}")
        if life.killed is None and life.code != 0:
            self.failures.append(f"{command}: exit {life.code} though nothing was killed: {life.told[-400:]}")

    def expect(self, is_so: bool, otherwise: str) -> None:
        """A failure, unless it is so."""
        if not is_so:
            self.failures.append(otherwise)


def run(given: Given) -> Verdict:
    """Ingest and compaction for a third of the time, the stream for another, then damage."""
    until_s = time.monotonic() + given.minutes * 60 * 2 / 3
    tally, spark = Tally(), Spark(random.Random(given.seed))
    store = given.folder / "store"
    ingest(tally, spark, given.folder, store, until_s - given.minutes * 60 / 3)
    stream(tally, spark, given.folder / "stream", until_s)
    damage_all(tally, spark, given.folder, store, until_s + given.minutes * 60 / 3)
    kills = ", ".join(f"{name} {n}" for name, n in sorted(tally.killed.items()))
    found = f"{len(tally.failures)} failures" if tally.failures else "0 lost, 0 doubled, no process stayed"
    return Verdict(
        f"{tally.killed.total()} kills ({kills}), {tally.whole} lives ended before theirs: {found}; of {tally.damaged} "
        f"damaged files {tally.named} were named, the others did no harm",
        tuple(tally.failures),
    )


# ------------------------------------------------------------------ ingest and compaction


def ingest(tally: Tally, spark: Spark, folder: Path, store: Path, until_s: float) -> None:
    """Ingests and compactions that are killed while the input grows; two at once; then the content."""
    source = folder / "in"
    source.mkdir()
    jobs = histories_of_jobs()
    add(source, jobs)
    words = {
        "ingest": ["ingest", str(source), f"--store={store}", "--master=local[1]"],
        "store": ["store", "compact", f"--store={store}", "--master=local[1]"],
    }
    for command, own in words.items():
        life = spark.whole(own)
        tally.expect(life.code == 0, f"{command}: exit {life.code}: {life.told[-400:]}")
    while time.monotonic() < until_s:
        add(source, jobs)
        command = spark.drawn.choice(["ingest", "ingest", "store"])
        tally.note(command, spark.killed(words[command]))
        content(tally, store, source, whole=False)
    add(source, jobs)
    for life in spark.at_once([words["ingest"], words["ingest"]]):
        tally.expect(life.code == 0, f"two ingests at once: exit {life.code}: {life.told[-400:]}")
    content(tally, store, source, whole=True)
    spark.whole(words["store"])
    content(tally, store, source, whole=True)


def histories_of_jobs() -> Iterator[tuple[str, bytes]]:
    """(Name, content) of history files, each of another job."""
    number = 0
    while True:
        number += 1
        own = f"{1_700_000_000_000 + number}_0007"
        text = histories.whole_history().replace(JOB.removeprefix("job_").encode(), own.encode())
        yield f"job_{own}-x.jhist", text


def add(source: Path, jobs: Iterator[tuple[str, bytes]]) -> None:
    """More files, each whole at once."""
    for _ in range(N_FILES_A_LIFE):
        name, text = next(jobs)
        part = source / f".{name}.part"
        part.write_bytes(text)
        part.rename(source / name)


def rows_of(store: Path) -> list[dict[str, Any]]:
    """All events of a store on this machine, read without Spark."""
    found = read_few(str(store), sorted(load_event_types().types), EVENTS.names, None, None, 10**9)
    if found is None:
        raise AssertionError(f"{store}: cannot be read")
    rows: list[dict[str, Any]] = found.to_pylist()
    return rows


def content(tally: Tally, store: Path, source: Path, *, whole: bool) -> None:
    """Each job's events are there as often as any other's: once, or not yet."""
    rows = rows_of(store)
    by_id = Counter(row["event_id"] for row in rows)
    doubled = [event_id for event_id, n in by_id.items() if n > 1]
    tally.expect(not doubled, f"{store}: {len(doubled)} events twice, the first {doubled[:1]}")
    by_job = Counter(row["job_id"] for row in rows)
    n_jobs = len(list(source.glob("*.jhist")))
    tally.expect(len(set(by_job.values())) <= 1, f"{store}: jobs differ in the number of events: {by_job}")
    tally.expect(not whole or len(by_job) == n_jobs, f"{store}: {len(by_job)} of {n_jobs} jobs")


# ------------------------------------------------------------------ stream


def stream(tally: Tally, spark: Spark, folder: Path, until_s: float) -> None:
    """A stream that is killed again and again, one file more in each life; an undisturbed one beside it."""
    lines = lines_of_small_stream()
    last = lines[-1][-1]
    small_stream(folder, [*lines, *([last] for _ in range(N_STREAM_FILES - len(lines)))])
    files = sorted((folder / "in").iterdir())
    waiting = folder / "waiting"
    waiting.mkdir()
    runbook = "".join(f"## {name}\nWait.\n" for name in ("jobs", "lost", "nodes"))
    (folder / "queries" / "RUNBOOK.md").write_text(runbook, encoding="utf-8")
    for file in files[1:]:
        file.rename(waiting / file.name)
    words = ["stream", *words_for(folder, "killed"), "--master=local[1]", "--once"]
    spark.whole(words)
    for file in files[1:]:
        (waiting / file.name).rename(file)
        if time.monotonic() >= until_s:
            break
        tally.note("stream", spark.killed(words))
    for own in (words, ["stream", *words_for(folder, "whole"), "--master=local[1]", "--once"]):
        life = spark.whole(own)
        tally.expect(life.code == 0, f"stream: exit {life.code}: {life.told[-400:]}")
    killed, whole = (found_by(folder / name) for name in ("killed", "whole"))
    for name, expected in whole.items():
        tally.expect(killed[name] == expected, f"stream, {name}: expected {expected}, found {killed[name]}")
    tally.expect(bool(whole["alerts"]), "stream: no alert")


def found_by(folder: Path) -> dict[str, Any]:
    """What a stream stored."""
    with open_store(f"sqlite:///{next(folder.glob('*.db'))}") as store:
        return stored(store)


# ------------------------------------------------------------------ damage

Damaged = Callable[[str], None]
"""One file is damaged in this way, and what reads it is run."""


def damage_all(tally: Tally, spark: Spark, folder: Path, store: Path, until_s: float) -> None:
    """One file at a time: of each sort once, then in the other ways while there is time."""
    sorts = [*damaged_store(tally, spark, folder, store), *damaged_checkpoint(tally, spark, folder / "stream")]
    ways = [spark.drawn.sample(DAMAGE, len(DAMAGE)) for _ in sorts]
    for turn in range(len(DAMAGE)):
        for damaged, kinds in zip(sorts, ways, strict=True):
            if turn == 0 or time.monotonic() < until_s:
                damaged(kinds[turn])


def damaged_store(tally: Tally, spark: Spark, folder: Path, store: Path) -> Iterator[Damaged]:
    """The event store: the next query says which file it is, or gives all rows."""
    query = folder / "q.cep"
    query.write_text(
        "PATTERN SEQ(JobStart a, JobEnd b)\nWHERE skip_till_next_match { [job_id] }\nWITHIN 1 hour\nRETURN a.job_id\n",
        encoding="utf-8",
    )
    sound, out = folder / "sound", folder / "rows.jsonl"
    shutil.copytree(store, sound)
    n_jobs = len({row["job_id"] for row in rows_of(sound)})
    words = ["query", str(query), f"--store={store}", "--master=local[1]", "--format=jsonl", f"--out={out}"]
    data = sorted(filter(is_state, (sound / "data").rglob("*.parquet")))
    commits = sorted(filter(is_state, (sound / "_commits").iterdir()))

    def is_right() -> bool:
        return len(out.read_text(encoding="utf-8").splitlines()) == n_jobs

    def damaged(target: Path, kind: str) -> None:
        shutil.rmtree(store)
        shutil.copytree(sound, store)
        out.unlink(missing_ok=True)
        damage(spark.drawn, store / target.relative_to(sound), kind)
        told_or_harmless(tally, spark.whole(words), target, kind, is_right)

    for target in (spark.drawn.choice(data), commits[-1], spark.drawn.choice(commits)):
        yield partial(damaged, target)


def damaged_checkpoint(tally: Tally, spark: Spark, folder: Path) -> Iterator[Damaged]:
    """A stream's checkpoint, the newest file of each sort: it says which, or goes on rightly."""
    home, sound = folder / "whole", folder / "sound"
    shutil.copytree(home, sound)
    expected = found_by(home)["alerts"]
    (folder / "in" / "9999.jsonl").write_text(lines_of_small_stream()[-1][-1] + "\n", encoding="utf-8")
    words = ["stream", *words_for(folder, "whole"), "--master=local[1]", "--once"]
    newest: dict[str, Path] = {}
    for path in sorted(filter(is_state, (home / "checkpoint").rglob("*")), key=lambda path: path.stat().st_mtime_ns):
        newest[sort_of(path.relative_to(home))] = path

    def damaged(target: Path, kind: str) -> None:
        shutil.rmtree(home)
        shutil.copytree(sound, home)
        damage(spark.drawn, target, kind)
        told_or_harmless(tally, spark.whole(words), target, kind, lambda: found_by(home)["alerts"] == expected)

    for target in newest.values():
        yield partial(damaged, target)


def is_state(path: Path) -> bool:
    """Whether it is a file of its own, not the checksum of another."""
    return path.is_file() and not path.name.startswith(".")


def sort_of(path: Path) -> str:
    """What is written alike: the folder's words and the suffix."""
    return "/".join(part for part in path.parent.parts if not part.isdigit()) + path.suffix


def damage(drawn: random.Random, target: Path, kind: str) -> None:
    """Change some bytes of a file, cut it, or remove it; the checksum beside it stays as it was."""
    if kind == "removed":
        target.unlink()
        return
    content = bytearray(target.read_bytes())
    if kind == "cut":
        content = content[: len(content) // 2]
    else:
        for at in drawn.sample(range(len(content)), min(64, len(content))):
            content[at] ^= 0xFF
    target.chmod(0o600)
    target.write_bytes(content)


def told_or_harmless(tally: Tally, life: Life, target: Path, kind: str, is_right: Callable[[], bool]) -> None:
    """A command over a damaged file fails and names it, or does what it would have done."""
    tally.damaged += 1
    said = life.told.strip()
    if life.code == 0:
        tally.expect(is_right(), f"{target} {kind}: no error, and another result")
        return
    # A checkpoint is restored as a whole: its folder is enough.
    is_named = f"{target.parent.name}/{target.name}" in said or ("checkpoint" in target.parts and "/checkpoint" in said)
    tally.named += is_named
    tally.expect(is_named, f"{target} {kind}: the message does not name it: {said[-400:]}")
    tally.expect("Traceback" not in said, f"{target} {kind}: a traceback: {said[-400:]}")


__all__ = ["WITHIN_S", "run"]
