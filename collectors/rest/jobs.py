"""What a REST poll remembers of each job from one poll to the next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from collectors.lifecycle import JobFacts


@dataclass(slots=True)
class AttemptState:
    """Which events of an attempt have gone out."""

    started: bool = False
    ended: bool = False
    summarised: bool = False
    n_failures: int = 0
    """How often its end, and once that is told its counters, could not be had."""
    sampled_ms: int = 0
    """Time of its last sample."""


@dataclass
class JobState:
    """A job that is not told to its end yet."""

    facts: JobFacts
    covered_ms: int
    """All that happened before was seen by a poll that succeeded."""
    am_host: str | None = None
    start_told: bool = False
    end_told: bool = False
    gone_ms: int | None = None
    """First poll at which it no longer ran."""
    finish_known_ms: int | None = None
    """When the ResourceManager says the application finished; the job finished no later."""
    final_status: str | None = None
    n_failures: int = 0
    """Polls in a row at which its documents could not be had, or not all of them in time."""
    asked_ms: int = 0
    """Last poll at which it was asked for."""
    stalled_ms: int | None = None
    """First poll of those in a row that did not tell everything up to their time."""
    attempts: dict[str, AttemptState] = field(default_factory=dict)
    attempts_done: set[str] = field(default_factory=set)
    """Attempts of which everything has been told."""
    tasks_done: set[str] = field(default_factory=set)
    """Tasks that have ended and of whose attempts everything has been told."""

    @property
    def job_id(self) -> str:
        """Its id."""
        return self.facts.job_id

    @property
    def clock_id(self) -> str | None:
        """Its times are told by its master's host."""
        return f"host:{self.am_host}" if self.am_host else None

    def attempt(self, attempt_id: str) -> AttemptState:
        """The state of an attempt, new when it was not seen before."""
        if attempt_id in self.attempts_done:
            return AttemptState(started=True, ended=True, summarised=True)
        return self.attempts.setdefault(attempt_id, AttemptState())

    def close_task(self, task_id: str, attempt_ids: list[str]) -> None:
        """Everything of this task has been told; a map whose output is lost may still be run again."""
        self.tasks_done.add(task_id)
        self.attempts_done.update(attempt_ids)
        for attempt_id in attempt_ids:
            self.attempts.pop(attempt_id, None)

    def to_json(self) -> dict[str, Any]:
        """As JSON-able values."""
        return asdict(self) | {name: sorted(getattr(self, name)) for name in ("tasks_done", "attempts_done")}

    @classmethod
    def from_json(cls, saved: Mapping[str, Any]) -> JobState:
        """Back from `to_json`; raises TypeError or KeyError for anything else."""
        return cls(
            **{
                **saved,
                "facts": JobFacts(**saved["facts"]),
                "attempts": {str(key): AttemptState(**state) for key, state in saved["attempts"].items()},
                "tasks_done": set(saved["tasks_done"]),
                "attempts_done": set(saved["attempts_done"]),
            }
        )
