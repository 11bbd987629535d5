"""Where events come from; `sources` in config.yaml."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field, model_validator

from app.durations import DurationMs, SignedDurationMs
from app.nearest_name import did_you_mean
from app.section import Section
from app.settings.asking_sources import (
    GmondSource,
    JmxSource,
    PrometheusSource,
    YarnRestSource,
    YarnTimelineSource,
)
from app.settings.file_sources import (
    ContainerLogSource,
    DaemonLogSource,
    GangliaRrdSource,
    HdfsAuditSource,
    JobClientLogSource,
    JobHistorySource,
    SparkEventsSource,
)
from app.settings.receiving_sources import GmondUdpSource, RemoteWriteSource
from collectors.sources import LIVE_SOURCES
from collectors.time_units import DAY_MS, HOUR_MS

MAX_SKEW_MS = HOUR_MS

MAX_OFFSET_MS = DAY_MS
"""A clock that is further off is set, not bounded."""


def _live_source(name: str) -> str:
    if name not in LIVE_SOURCES:
        known = ", ".join(map(repr, LIVE_SOURCES))
        nearest = did_you_mean(name, LIVE_SOURCES, "; ")
        raise ValueError(f"there is no source {name!r}; expected one of {known}{nearest}")
    return name


SourceName = Annotated[str, AfterValidator(_live_source)]


class ClockSkew(Section):
    """By how much clocks may be off: one unknown offset per clock, shared by all its events; and known offsets."""

    default_ms: DurationMs = Field(default=0, ge=0, le=MAX_SKEW_MS)
    clocks: dict[str, Annotated[DurationMs, Field(ge=0, le=MAX_SKEW_MS)]] = Field(default_factory=dict)
    offsets: dict[str, Annotated[SignedDurationMs, Field(ge=-MAX_OFFSET_MS, le=MAX_OFFSET_MS)]] = Field(
        default_factory=dict
    )
    """By clock how far it is ahead (negative: behind); its events are set right by that."""


class Sources(Section):
    """Where events come from."""

    silence_timeout_ms: DurationMs = Field(default=300_000, ge=1_000)
    max_waiting_events: int = Field(default=2_000_000, ge=1)
    """For a source that is behind; when there are more, the others go on without it."""
    remember_ids_ms: DurationMs = Field(default=172_800_000, ge=60_000)
    precedence: tuple[SourceName, ...] = LIVE_SOURCES
    hosts: dict[str, str] = Field(default_factory=dict)
    clock_skew: ClockSkew = Field(default_factory=ClockSkew)
    ganglia_rrd: GangliaRrdSource = Field(default_factory=GangliaRrdSource)
    gmond: GmondSource = Field(default_factory=GmondSource)
    gmond_udp: GmondUdpSource = Field(default_factory=GmondUdpSource)
    job_history: JobHistorySource = Field(default_factory=JobHistorySource)
    container_log: ContainerLogSource = Field(default_factory=ContainerLogSource)
    daemon_log: DaemonLogSource = Field(default_factory=DaemonLogSource)
    hdfs_audit: HdfsAuditSource = Field(default_factory=HdfsAuditSource)
    job_client_log: JobClientLogSource = Field(default_factory=JobClientLogSource)
    spark_events: SparkEventsSource = Field(default_factory=SparkEventsSource)
    yarn_rest: YarnRestSource = Field(default_factory=YarnRestSource)
    yarn_timeline: YarnTimelineSource = Field(default_factory=YarnTimelineSource)
    jmx: JmxSource = Field(default_factory=JmxSource)
    prometheus: PrometheusSource = Field(default_factory=PrometheusSource)
    remote_write: RemoteWriteSource = Field(default_factory=RemoteWriteSource)

    @model_validator(mode="after")
    def _check_precedence(self) -> Sources:
        if len(set(self.precedence)) != len(self.precedence):
            raise ValueError("precedence names a source twice; expected each at most once")
        return self


__all__ = ["MAX_OFFSET_MS", "MAX_SKEW_MS", "ClockSkew", "SourceName", "Sources"]
