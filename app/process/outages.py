"""Outages: the store, or the disk, refuses for a while. Nobody gives up; the step is tried again, ever less often.

Any other failure of a step is a defect of the program.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sqlalchemy.exc import DataError, IntegrityError, ProgrammingError

from app.alerting.text import iso
from app.errors import CheckpointError, DamageError, OwnershipError, StoreError
from app.store.writing.problems import NewProblem

FIRST_RETRY_MS = 1_000
MAX_RETRY_MS = 30_000

OutageKind = Literal["store", "disk"]

_DEFECTS = (DataError, IntegrityError, ProgrammingError)
"""What the database says of rows and statements, not of itself."""

OUTAGES = (StoreError, CheckpointError, OSError)
"""What may be an outage: `outage_kind` says whether it is."""


def outage_kind(error: BaseException) -> OutageKind | None:
    """Who refused; None when the error is a defect."""
    if isinstance(error, OwnershipError | DamageError):
        return None
    if isinstance(error, StoreError):
        return None if isinstance(error.__cause__, _DEFECTS) else "store"
    cause = error.__cause__ if isinstance(error, CheckpointError) else error
    return "disk" if isinstance(cause, OSError) else None


@dataclass
class Outage:
    """One outage that still lasts."""

    since_ms: int
    reason: str
    """Of the first failure."""
    tried_ms: int = 0
    n_tries: int = 0
    """Steps that were tried in vain."""
    retry_ms: int = FIRST_RETRY_MS
    """How long to wait after the last of them."""

    def failed(self, now_ms: int) -> None:
        """One more step failed."""
        self.n_tries += 1
        self.tried_ms = now_ms
        self.retry_ms = min(FIRST_RETRY_MS << min(self.n_tries - 1, 16), MAX_RETRY_MS)

    def is_due(self, now_ms: int) -> bool:
        """Whether it is time to try again; a clock that was set back does not put it off."""
        return not 0 <= now_ms - self.tried_ms < self.retry_ms

    def message(self, now_ms: int) -> str:
        """What is told when it is over."""
        span = f"from {iso(self.since_ms)} to {iso(now_ms)}"
        return f"the store could not be written {span}: {self.reason}; {self.n_tries} steps were repeated"

    def problem(self, now_ms: int) -> NewProblem:
        """The same, to be kept."""
        return NewProblem("pipeline", "store", "store_outage", self.message(now_ms))
