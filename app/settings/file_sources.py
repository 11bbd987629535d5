"""Sources that read files: RRDs, histories and logs; `sources.*` in config.yaml."""

from __future__ import annotations

from pydantic import Field

from app.anchored_path import AnchoredPath
from app.durations import DurationMs
from app.settings.source import Source
from collectors.time_units import HOUR_MS


class GangliaRrdSource(Source):
    """Round-robin databases as gmetad writes them."""

    directory: AnchoredPath | None = None
    metrics: tuple[str, ...] = ()
    backfill_ms: DurationMs = Field(default=HOUR_MS, ge=0)
    silent_ms: DurationMs = Field(default=120_000, ge=0)
    daemon: str | None = Field(default=None, min_length=1, max_length=300)


class JobHistorySource(Source):
    """Folders in which the JobHistoryServer leaves `.jhist` files."""

    directories: tuple[AnchoredPath, ...] = ()
    quiet_ms: DurationMs = Field(default=HOUR_MS, ge=0)
    hold_future: bool = True
    counters: bool = False


class ContainerLogSource(Source):
    """Container logs below a folder."""

    directory: AnchoredPath | None = None
    layout: str = "{host}/{application}/{container}/{role}"
    roles: tuple[str, ...] = Field(default=("syslog", "syslog.shuffle"), min_length=1)
    host: str | None = None
    time_zone: str = "UTC"
    hold_ms: DurationMs = Field(default=60_000, ge=0)
    abandon_ms: DurationMs = Field(default=600_000, ge=0)
    revisit_ms: DurationMs = Field(default=600_000, ge=0)
    hold_future: bool = True


class DaemonLogSource(Source):
    """Logs of ResourceManagers, NodeManagers, NameNodes and DataNodes in one folder."""

    directory: AnchoredPath | None = None
    name_pattern: str | None = None
    client_trace: bool = True
    time_zone: str = "UTC"
    hold_future: bool = True


class HdfsAuditSource(Source):
    """Audit logs of NameNodes in one folder."""

    directory: AnchoredPath | None = None
    host: str | None = None
    name_pattern: str | None = None
    time_zone: str = "UTC"
    hold_future: bool = True


class JobClientLogSource(Source):
    """Files with what clients of MapReduce jobs print."""

    directory: AnchoredPath | None = None
    host: str | None = None
    name_pattern: str | None = None
    time_zone: str = "UTC"
    hold_ms: DurationMs = Field(default=10_000, ge=0)
    abandon_ms: DurationMs = Field(default=12 * HOUR_MS, ge=0)
    revisit_ms: DurationMs = Field(default=60_000, ge=0)
    hold_future: bool = True


class SparkEventsSource(Source):
    """Event logs of Spark applications in one folder."""

    directory: AnchoredPath | None = None
    quiet_ms: DurationMs = Field(default=HOUR_MS, ge=0)
    hold_future: bool = True


__all__ = [
    "ContainerLogSource",
    "DaemonLogSource",
    "GangliaRrdSource",
    "HdfsAuditSource",
    "JobClientLogSource",
    "JobHistorySource",
    "SparkEventsSource",
]
