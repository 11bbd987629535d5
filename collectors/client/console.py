"""What is known of one file of a client's output between two lines of it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from collectors.client.counters import CounterBlock
from collectors.client.lines import Times

MAX_JOBS = 200
"""In one file at once, and as many that wait for their counters; beyond them the oldest is forgotten."""


@dataclass(slots=True)
class Told:
    """One event."""

    type: str
    event_id: str
    times: Times
    job_id: str | None
    attributes: dict[str, Any]
    number: int
    """Of its line in the file, from 1."""
    origin: str
    raw: str


@dataclass(slots=True)
class OpenJob:
    """A job that the client waits for."""

    thread: str
    started_ms: int | None
    """t_lo_ms of the line that announces it; None: it has no date."""
    last_ms: int | None = None
    """Of the last line that is its own."""
    printed: list[int] = field(default_factory=list)
    """Of its progress: time, map and reduce of the line before, and how many equal ones stand in a row."""


@dataclass(slots=True)
class Waiting:
    """An event whose text may go on in the lines that follow."""

    told: Told
    text: list[str]
    names: str
    """Attribute that the text is of."""
    verdict: bool = False
    """Not text is waited for but the record of Hadoop 1 that says how the job ended."""


@dataclass
class ClientConsole:
    """One file, line by line."""

    jobs: dict[str, OpenJob] = field(default_factory=dict)
    ended: dict[str, list[Any]] = field(default_factory=dict)
    """Job -> [thread, when], until its counters come."""
    waiting: Waiting | None = None
    verdict: Waiting | None = None
    block: CounterBlock | None = None
    urls: dict[str, str | None] = field(default_factory=dict)
    """Application that was submitted -> its address."""
    run_jobs: list[str] = field(default_factory=list)
    """Jobs that ended since the program said that it starts."""
    run_ended: list[int] | None = None
    told: list[Told] = field(default_factory=list)

    @property
    def is_open(self) -> bool:
        """Whether the lines that follow need what was read before."""
        return bool(self.jobs or self.ended or self.waiting or self.verdict or self.block or self.run_jobs)

    @property
    def takes_every_line(self) -> bool:
        """Whether the next line counts without a mark, too."""
        return self.block is not None or self.waiting is not None

    def waiting_since_ms(self) -> int | None:
        """The earliest of the events that wait for further lines."""
        waiting = [each.told.times[0] for each in (self.waiting, self.verdict) if each is not None]
        if self.block is not None and self.block.times is not None:
            waiting.append(self.block.times[0])
        return min(waiting, default=None)

    def forget_ended(self) -> None:
        """Nothing more comes of jobs that have ended."""
        self.ended, self.run_jobs, self.run_ended = {}, [], None

    # ---- saved -------------------------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """As JSON-able values."""
        return asdict(self)

    @classmethod
    def from_json(cls, saved: dict[str, Any]) -> ClientConsole:
        """Back from `to_json`; raises TypeError, KeyError or ValueError for anything else."""

        def waiting(found: dict[str, Any] | None) -> Waiting | None:
            return None if found is None else Waiting(**{**found, "told": _told(found["told"])})

        return cls(
            {str(job_id): OpenJob(**job) for job_id, job in saved["jobs"].items()},
            {str(job_id): list(ended) for job_id, ended in saved["ended"].items()},
            waiting(saved["waiting"]),
            waiting(saved["verdict"]),
            None if saved["block"] is None else CounterBlock.from_json(saved["block"]),
            dict(saved["urls"]),
            list(saved["run_jobs"]),
            saved["run_ended"],
            [_told(told) for told in saved["told"]],
        )


def _told(saved: dict[str, Any]) -> Told:
    return Told(**{**saved, "times": tuple(saved["times"])})


__all__ = ["MAX_JOBS", "ClientConsole", "OpenJob", "Told", "Waiting"]
