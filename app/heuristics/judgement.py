"""What all heuristics together say of a job or an application."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from app.heuristics.severity import Finding, Severity


class Judged(Protocol):
    """A job or an application."""

    def facts(self) -> Mapping[str, Any]:
        """What a report of it begins with."""


FiguresT_co = TypeVar("FiguresT_co", bound=Judged, covariant=True)


@dataclass(frozen=True)
class Judgement(Generic[FiguresT_co]):
    """What the heuristics say of one job or application."""

    figures: FiguresT_co
    dr_elephant: tuple[Finding, ...]
    """As Dr. Elephant computes them; a heuristic that does not apply is not among them. Empty for what still runs."""
    corrected: tuple[Finding, ...]
    gaps: tuple[str, ...]
    """What is missing, in words."""

    @property
    def severity(self) -> Severity | None:
        """The worst of the corrected findings; None where none is known."""
        known = [finding.severity for finding in self.corrected if finding.severity is not None]
        return max(known) if known else None

    @property
    def worst(self) -> tuple[str, ...]:
        """The heuristics with that severity; none where it is NONE."""
        return tuple(one.heuristic for one in self.corrected if one.severity and one.severity == self.severity)

    def findings(self, *, compatible: bool) -> tuple[Finding, ...]:
        """`compatible`: those of Dr. Elephant in place of the corrected ones."""
        return self.dr_elephant if compatible else self.corrected

    def to_json(self) -> dict[str, Any]:
        """As `clustercep report job` prints it."""
        return {
            **self.figures.facts(),
            "severity": None if self.severity is None else self.severity.name,
            "corrected": [finding.to_json() for finding in self.corrected],
            "dr_elephant": [finding.to_json() for finding in self.dr_elephant],
            "gaps": list(self.gaps),
        }


__all__ = ["Judged", "Judgement"]
