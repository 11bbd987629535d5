"""Sources that ask servers: gmond, YARN, JMX, exporters; `sources.*` in config.yaml."""

from __future__ import annotations

import re
from typing import Literal

from pydantic import Field, field_validator, model_validator

from app.anchored_path import AnchoredPath
from app.durations import DurationMs, SizeBytes
from app.section import Section
from app.settings.source import HttpSource, Source, told_in_time


class GmondSource(Source):
    """gmond, or gmetad, asked for their XML."""

    interval_ms: DurationMs = Field(default=15_000, ge=1_000)
    addresses: tuple[str, ...] = Field(default=(), max_length=1_000)
    metrics: tuple[str, ...] = ()
    lateness_ms: DurationMs = Field(default=20_000, ge=0)
    hold_ms: DurationMs = Field(default=180_000, ge=1_000)
    silent_ms: DurationMs = Field(default=120_000, ge=0)
    timeout_ms: DurationMs = Field(default=10_000, ge=100)
    poll_timeout_ms: DurationMs = Field(default=60_000, ge=1_000)
    n_workers: int = Field(default=8, ge=1, le=64)
    max_size_bytes: SizeBytes = Field(default=2**26, ge=1_024, le=2**28)

    @field_validator("interval_ms")
    @classmethod
    def _within_a_gap(cls, interval_ms: int) -> int:
        return told_in_time(interval_ms)


class YarnRestSource(HttpSource):
    """REST interfaces of ResourceManager, MapReduce AM (through the proxy) and JobHistoryServer."""

    resource_managers: tuple[str, ...] = ("http://127.0.0.1:8088",)
    history_server: str = "http://127.0.0.1:19888"
    n_attempts: int = Field(default=3, ge=1, le=10)
    lookback_ms: DurationMs = Field(default=0, ge=0)
    history_wait_ms: DurationMs = Field(default=180_000, ge=0)
    sample_counters: bool = False
    master_timeout_ms: DurationMs = Field(default=30_000, ge=100)
    n_workers: int = Field(default=4, ge=1, le=32)

    @model_validator(mode="before")
    @classmethod
    def _earlier_key(cls, section: object) -> object:
        """`certificates` is what `ca_file` was called."""
        if isinstance(section, dict) and "certificates" in section and "ca_file" not in section:
            return {"ca_file" if key == "certificates" else key: value for key, value in section.items()}
        return section


class YarnTimelineSource(HttpSource):
    """YARN's timeline server, asked for applications that have ended."""

    server: str = "http://127.0.0.1:8188"
    interval_ms: DurationMs = Field(default=30_000, ge=1_000)
    lateness_ms: DurationMs = Field(default=10_000, ge=0)
    lookback_ms: DurationMs = Field(default=0, ge=0)
    containers: bool = True
    settle_ms: DurationMs = Field(default=30_000, ge=0)


class JmxSource(HttpSource):
    """Daemons of Hadoop over the `/jmx` of their web servers."""

    interval_ms: DurationMs = Field(default=30_000, ge=1_000)
    name_nodes: tuple[str, ...] = ()
    data_nodes: tuple[str, ...] = ()
    resource_managers: tuple[str, ...] = ()
    node_managers: tuple[str, ...] = ()
    history_servers: tuple[str, ...] = ()
    host_metrics: bool = False
    daemon_timeout_ms: DurationMs = Field(default=20_000, ge=100)
    n_workers: int = Field(default=8, ge=1, le=64)

    @field_validator("interval_ms")
    @classmethod
    def _within_a_gap(cls, interval_ms: int) -> int:
        return told_in_time(interval_ms)


class BasicAuth(Section):
    """A user and the file of the password."""

    username: str = Field(min_length=1, max_length=200)
    password_file: AnchoredPath


class ChosenMetric(Section):
    """A further metric of exporters."""

    metric: str = Field(pattern=r"^[a-zA-Z_:][a-zA-Z0-9_:]*$", max_length=200)
    labels: dict[str, str] = Field(default_factory=dict, max_length=20)
    kind: Literal["gauge", "rate"] = "gauge"
    factor: float = Field(default=1.0, allow_inf_nan=False)
    unit: str | None = Field(default=None, max_length=40)


class PrometheusSource(HttpSource):
    """Exporters of Prometheus, scraped."""

    interval_ms: DurationMs = Field(default=15_000, ge=1_000)
    targets: tuple[str, ...] = ()
    file_sd: tuple[AnchoredPath, ...] = ()
    http_sd: tuple[str, ...] = ()
    n_workers: int = Field(default=8, ge=1, le=64)
    refresh_ms: DurationMs = Field(default=60_000, ge=1_000)
    scheme: Literal["http", "https"] = "http"
    metrics_path: str = Field(default="/metrics", pattern="^/", max_length=500)
    cluster: str = Field(default="default", min_length=1, max_length=100)
    metrics: tuple[str, ...] = ()
    more_metrics: dict[str, ChosenMetric] = Field(default_factory=dict, max_length=1_000)
    max_size_bytes: SizeBytes = Field(default=2**24, ge=1_024, le=2**28)
    bearer_token_file: AnchoredPath | None = None
    basic_auth: BasicAuth | None = None

    @field_validator("interval_ms")
    @classmethod
    def _within_a_gap(cls, interval_ms: int) -> int:
        return told_in_time(interval_ms)

    @field_validator("more_metrics")
    @classmethod
    def _names_of_metrics(cls, more: dict[str, ChosenMetric]) -> dict[str, ChosenMetric]:
        for name in more:
            if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.:-]{0,99}", name):
                raise ValueError(f"{name[:100]!r}: expected a metric's name: letters, digits, _, ., : and -")
        return more


__all__ = [
    "BasicAuth",
    "ChosenMetric",
    "GmondSource",
    "JmxSource",
    "PrometheusSource",
    "YarnRestSource",
    "YarnTimelineSource",
]
