"""What the commands of the campaign `spark` read, growing as they are killed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.collectors import histories
from tests.live.test_interrupted_stream import words_for
from tests.spark_jobs.stream_fixtures import small_stream

JOB = "1700000000000_0007"
"""Of the history that all others are made from."""
N_FILES_A_LIFE = 2
STEP_MS = 15_000
"""Between the first events of two files: of two jobs one ends within the 20 s of the query, the other never does."""
N_FIRST = 4
"""Files of the stream: after them something has been found."""
MASTER = "--master=local[1]"


@dataclass
class Histories:
    """A folder with histories, each of another job; more with each life."""

    folder: Path
    _n_files: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True)
        self.grow()

    def grow(self) -> None:
        """More files, each whole at once."""
        for _ in range(N_FILES_A_LIFE):
            self._n_files += 1
            job = f"{1_700_000_000_000 + self._n_files}_0007"
            part = self.folder / f".{job}.part"
            part.write_bytes(histories.whole_history().replace(JOB.encode(), job.encode()))
            part.rename(self.folder / f"job_{job}-x.jhist")

    def words(self, store: str) -> dict[str, list[str]]:
        """By command: how these files are brought into a store, and how it is compacted."""
        return {
            "ingest": ["ingest", str(self.folder), f"--store={store}", MASTER],
            "store": ["store", "compact", f"--store={store}", MASTER],
        }


@dataclass
class Waiting:
    """A folder with event files, of which the first are there, and those that are to come."""

    folder: Path
    n_files: int
    _to_come: Iterator[Path] = field(init=False)

    def __post_init__(self) -> None:
        small_stream(self.folder, lines_of_stream(self.n_files))
        runbook = "".join(f"## {name}\nWait.\n" for name in ("jobs", "lost", "nodes"))
        (self.folder / "queries" / "RUNBOOK.md").write_text(runbook, encoding="utf-8")
        aside = self.folder / "waiting"
        aside.mkdir()
        files = sorted((self.folder / "in").iterdir())[N_FIRST:]
        self._to_come = iter([file.rename(aside / file.name) for file in files])

    def grow(self, n_files: int = 1) -> bool:
        """Files more; False: fewer are left."""
        for _ in range(n_files):
            if (file := next(self._to_come, None)) is None:
                return False
            file.rename(self.folder / "in" / file.name)
        return True

    def words(self, name: str, *more: str) -> list[str]:
        """A stream over all files that are there, one per micro-batch, with a store and a checkpoint of this name."""
        return ["stream", *words_for(self.folder, name), MASTER, "--once", *more]


def lines_of_stream(n_files: int) -> Sequence[Sequence[str]]:
    """Each file changes what is found: a job begins, the one before ends, a node is lost, a line is no event, and
    something is told too late."""

    def event(number: int, kind: str, at_ms: int, **more: Any) -> str:
        return json.dumps({"event_id": f"{number:032x}", "type": kind, "t_lo_ms": at_ms, "source": "tests", **more})

    files = []
    for n in range(n_files):
        at_ms, number = 1_000 + n * STEP_MS, 100 * n
        lines = [event(number, "JobStart", at_ms, job_id=f"job_{n}")]
        lines += [event(number + 1 + i, "Mapper", at_ms + 500 * i, job_id=f"job_{n}") for i in range(4)]
        lines += [event(number + 10, "NodeLost", at_ms + 2_000, host=f"n{n % 3}"), '{"event_id": "cut of']
        if n % 2:
            lines.append(event(number + 11, "JobEnd", at_ms + 100, job_id=f"job_{n - 1}", status="SUCCEEDED"))
        if n > 1:
            lines.append(event(number + 12, "Mapper", at_ms - 2 * STEP_MS, job_id=f"job_{n - 2}"))
        files.append(lines)
    return files
