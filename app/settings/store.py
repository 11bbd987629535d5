"""Where alerts are kept, and how long; `store` in config.yaml."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, SecretStr

from app.anchored_path import AnchoredPath, anchored
from app.durations import DurationMs, SizeBytes
from app.section import Section


class Retention(Section):
    """How long the store keeps what is over."""

    alerts_ms: DurationMs = Field(default=31_536_000_000, ge=0)
    reports_ms: DurationMs = Field(default=31_536_000_000, ge=0)
    evidence_ms: DurationMs = Field(default=7_776_000_000, ge=0)
    notifications_ms: DurationMs = Field(default=2_592_000_000, ge=0)
    late_events_ms: DurationMs = Field(default=604_800_000, ge=0)
    problems_ms: DurationMs = Field(default=2_592_000_000, ge=0)
    events_ms: DurationMs = Field(default=604_800_000, ge=0)
    events_size_bytes: SizeBytes = Field(default=20 * 2**30, ge=0)


class StoreSettings(Section):
    """Where alerts, reports and checkpoints are kept."""

    url: SecretStr | None = None
    url_file: AnchoredPath | None = None
    directory: AnchoredPath = Field(default_factory=lambda: anchored(Path("data")))
    retention: Retention = Field(default_factory=Retention)


__all__ = ["Retention", "StoreSettings"]
