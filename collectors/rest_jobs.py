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
    """How often its counters could not be had."""


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
    """Polls in a row at which its documents could not be had."""
    attempts: dict[str, AttemptState] = field(default_factory=dict)
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
        return self.attempts.setdefault(attempt_id, AttemptState())

    def to_json(self) -> dict[str, Any]:
        """As JSON-able values."""
        return asdict(self) | {"tasks_done": sorted(self.tasks_done)}

    @classmethod
    def from_json(cls, saved: Mapping[str, Any]) -> JobState:
        """Back from `to_json`; raises TypeError or KeyError for anything else."""
        return cls(
            **{
                **saved,
                "facts": JobFacts(**saved["facts"]),
                "attempts": {str(key): AttemptState(**state) for key, state in saved["attempts"].items()},
                "tasks_done": set(saved["tasks_done"]),
            }
        )
