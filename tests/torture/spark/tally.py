"""What the campaign `spark` has done so far, and what was wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from app.store.api import open_store
from collectors.schema import load_event_types
from spark_jobs.event_store.on_this_machine import read_few
from spark_jobs.event_store.schema import EVENTS
from tests.spark_jobs.stream.test_job import stored
from tests.torture.spark.lives import Life

_LINE = 400


@dataclass
class Tally:
    """What was done, and what was wrong."""

    killed: Counter[str] = field(default_factory=Counter)
    """By "command/victim"."""
    whole: int = 0
    """Lives that ended before they were to be killed."""
    restarts: Counter[str] = field(default_factory=Counter)
    """Of the NameNode, by the command that ran meanwhile."""
    ended: int = 0
    """Commands that ended with an error while the NameNode was away."""
    damaged: Counter[str] = field(default_factory=Counter)
    """By the sort of file."""
    named: Counter[str] = field(default_factory=Counter)
    """Those after which the command failed and said which file it is; without the others, which did no harm."""
    lost: int = 0
    doubled: int = 0
    failures: list[str] = field(default_factory=list)

    def expect(self, is_so: bool, otherwise: str) -> None:
        """A failure, unless it is so."""
        if not is_so:
            self.failures.append(otherwise)

    def note(self, command: str, life: Life) -> None:
        """A life that was meant to be killed."""
        if life.killed is None:
            self.whole += 1
        else:
            self.killed[f"{command}/{life.killed}"] += 1
        last = life.told.rpartition("\n")[2]
        self.expect("not over" not in last, f"{command}, {life.killed} killed: {last}")
        stayed = "; ".join(life.stayed)
        self.expect(not life.stayed, f"{command}, {life.killed} killed: these processes stayed: {stayed}")
        if life.killed is None:
            self.succeeded(command, life)

    def succeeded(self, command: str, life: Life) -> None:
        """A failure of a life that nothing has harmed."""
        self.expect(life.code == 0, f"{command}: exit {life.code} though nothing was harmed: {life.told[-_LINE:]}")

    def content(self, name: str, store: Path, source: Path, *, whole: bool) -> None:
        """Of an event store: each job's events are there as often as any other's, once or not yet (whole: once)."""
        rows = rows_of(store)
        by_id = Counter(row["event_id"] for row in rows)
        n_twice = sum(n - 1 for n in by_id.values())
        self.doubled += n_twice
        self.expect(not n_twice, f"{name}: {n_twice} events too many, the first {by_id.most_common(1)}")
        by_job = Counter(row["job_id"] for row in rows)
        most = max(by_job.values(), default=0)
        n_jobs = len(list(source.glob("*.jhist")))
        n_short = sum(most - n for n in by_job.values())
        n_missing = n_jobs - len(by_job) if whole else 0
        self.lost += n_short + n_missing * most
        self.expect(not n_short, f"{name}: jobs differ in the number of events: {by_job}")
        self.expect(not n_missing, f"{name}: {len(by_job)} of {n_jobs} jobs")

    def same(self, name: str, found: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
        """What a stream stored is what an undisturbed one did (see `found_by`)."""
        for kind, rows in expected.items():
            lost = Counter(map(str, rows)) - Counter(map(str, found[kind]))
            added = Counter(map(str, found[kind])) - Counter(map(str, rows))
            self.lost += lost.total()
            self.doubled += added.total()
            self.expect(not lost, f"{name}, {kind}: {lost.total()} not there, the first {next(iter(lost), None)}")
            self.expect(not added, f"{name}, {kind}: {added.total()} too many, the first {next(iter(added), None)}")
        self.expect(bool(expected["alerts"]), f"{name}: no alert")

    def figures(self) -> str:
        """One line."""
        damages = ", ".join(f"{sort} {self.named[sort]} of {n}" for sort, n in sorted(self.damaged.items()))
        parts = [
            f"{self.killed.total()} kills -9 ({_listed(self.killed)}; {self.whole} lives ended before theirs)",
            f"{self.restarts.total()} NameNode restarts ({_listed(self.restarts)}; {self.ended} commands failed)",
            f"{self.damaged.total()} damaged files, {self.named.total()} named, the others did no harm ({damages})",
            f"{self.lost} lost, {self.doubled} doubled",
        ]
        return "; ".join(parts)


def _listed(counted: Counter[str]) -> str:
    return ", ".join(f"{name} {n}" for name, n in sorted(counted.items())) or "none"


def rows_of(store: Path) -> Sequence[Mapping[str, Any]]:
    """All events of a store on this machine, read without Spark."""
    found = read_few(str(store), sorted(load_event_types().types), EVENTS.names, None, None, 10**9)
    if found is None:
        raise AssertionError(f"{store}: cannot be read")
    rows: list[dict[str, Any]] = found.to_pylist()
    return rows


def found_by(folder: Path) -> dict[str, Any]:
    """What a stream stored."""
    with open_store(f"sqlite:///{next(folder.glob('*.db'))}") as store:
        return stored(store)
