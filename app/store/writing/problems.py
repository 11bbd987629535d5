"""Problems, each kept once and counted."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from app.store.models import ProblemRow
from app.store.storable import MAX_MESSAGE_CHARS, storable_text
from app.store.writing.gathered import GatheredRows

MAX_PLACE_CHARS = 500


@dataclass(frozen=True, slots=True)
class NewProblem:
    """Something to be reported once."""

    source: str
    place: str
    kind: str
    message: str


class Problems:
    """Problems as one transaction writes them."""

    def __init__(self, rows: GatheredRows) -> None:
        self._rows = rows

    def add(self, problems: Iterable[NewProblem], now_ms: int) -> list[NewProblem]:
        """Count problems; returns those that are new, for the log."""
        new = []
        for problem in problems:
            place = storable_text(problem.place, MAX_PLACE_CHARS)
            row = self._rows.session.get(ProblemRow, (problem.source, place, problem.kind))
            message = storable_text(problem.message, MAX_MESSAGE_CHARS)
            if row is None:
                row = ProblemRow(
                    source=problem.source,
                    place=place,
                    kind=problem.kind,
                    message=message,
                    n_times=1,
                    first_ms=now_ms,
                    last_ms=now_ms,
                )
                self._rows.session.add(row)
                self._rows.session.flush()
                new.append(problem)
            else:
                row.n_times, row.last_ms, row.message = row.n_times + 1, now_ms, message
        return new

    def end(self, problem: NewProblem, now_ms: int) -> None:
        """A problem that lasted is over: its message says so from now on, and it is counted no further."""
        place = storable_text(problem.place, MAX_PLACE_CHARS)
        row = self._rows.session.get(ProblemRow, (problem.source, place, problem.kind))
        if row is not None:
            row.message, row.last_ms = storable_text(problem.message, MAX_MESSAGE_CHARS), now_ms


__all__ = ["NewProblem", "Problems"]
