"""Errors of the process: each says what was found, what was expected and the remedy."""

from __future__ import annotations

from dataclasses import dataclass


class AppError(Exception):
    """Anything that stops a command; the message is meant for the user."""


@dataclass(frozen=True, slots=True)
class ConfigProblem:
    """One thing wrong with the configuration."""

    key: str
    """Key path, as "sources.yarn_rest.interval"."""
    found: str
    expected: str
    remedy: str = ""

    def __str__(self) -> str:
        text = f"{self.key}: found {self.found}; expected {self.expected}"
        return f"{text}; {self.remedy}" if self.remedy else text


class ConfigError(AppError):
    """A configuration that cannot be used, with every problem that was found."""

    def __init__(self, place: str, problems: tuple[ConfigProblem, ...]) -> None:
        self.place = place
        self.problems = problems
        super().__init__("\n".join(f"{place}: {problem}" for problem in problems))


class StoreError(AppError):
    """The store cannot be opened, read or written."""


class OwnershipError(StoreError):
    """The store belongs to another process."""


class DamageError(StoreError):
    """What the database holds is damaged: another attempt, or waiting, cures nothing."""


class CheckpointError(AppError):
    """A checkpoint that cannot be restored: damaged, or of another version."""


class EventLogError(AppError):
    """The event log cannot be read, or would tell what did not happen."""


class RecordingError(AppError):
    """A recording that cannot be replayed: not one, damaged, or beyond the limits."""


class NotFoundError(AppError):
    """No alert of that id."""


__all__ = [
    "AppError",
    "CheckpointError",
    "ConfigError",
    "ConfigProblem",
    "DamageError",
    "EventLogError",
    "NotFoundError",
    "OwnershipError",
    "RecordingError",
    "StoreError",
]
