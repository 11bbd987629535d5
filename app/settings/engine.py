"""What queries may cost; `engine` in config.yaml."""

from __future__ import annotations

from pydantic import Field

from app.anchored_path import AnchoredPath
from app.durations import DurationMs
from app.section import Section
from collectors.time_units import DAY_MS


class EngineLimits(Section):
    """What one query may cost, and how many cores evaluate them."""

    max_rows: int = Field(default=100_000, ge=1)
    work_budget: int = Field(default=2_000_000, ge=1)
    threads: int = Field(default=1, ge=1, le=256)
    trend_overlap: int = Field(default=6, ge=0, le=10)
    latency_bound_ms: DurationMs | None = Field(default=None, ge=10, le=DAY_MS)
    shedding_model: AnchoredPath | None = None


__all__ = ["EngineLimits"]
