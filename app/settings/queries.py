"""Which queries run; `queries` in config.yaml."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from app.anchored_path import AnchoredPath, anchored
from app.section import Section
from app.severity import Severity

ParameterValue = bool | int | float | str


class Queries(Section):
    """Which queries run, with which parameters, and how urgent their alerts are."""

    directory: AnchoredPath = Field(default_factory=lambda: anchored(Path("queries")))
    disabled: tuple[str, ...] = ()
    parameters: dict[str, dict[str, ParameterValue]] = Field(default_factory=dict)
    severities: dict[str, Severity] = Field(default_factory=dict)
    aggregates: tuple[str, ...] = ()


__all__ = ["ParameterValue", "Queries"]
