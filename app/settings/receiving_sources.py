"""Sources that take what others send: remote write, gmetric; `sources.*` in config.yaml."""

from __future__ import annotations

import ipaddress

from pydantic import Field, field_validator, model_validator

from app.anchored_path import AnchoredPath
from app.durations import DurationMs, SizeBytes
from app.settings.asking_sources import ChosenMetric
from app.settings.source import Source, told_in_time


def _is_loopback(address: str) -> bool:
    try:
        return address == "localhost" or ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


class RemoteWriteSource(Source):
    """A receiver of what Prometheus servers send (remote write 1.0)."""

    interval_ms: DurationMs = Field(default=5_000, ge=1_000)
    lateness_ms: DurationMs = Field(default=30_000, ge=1_000)
    address: str = Field(default="127.0.0.1", min_length=1)
    port: int = Field(default=9479, ge=0, le=65_535)
    token_file: AnchoredPath | None = None
    cert_file: AnchoredPath | None = None
    key_file: AnchoredPath | None = None
    scrape_interval_ms: DurationMs = Field(default=15_000, ge=1_000)
    cluster: str = Field(default="default", min_length=1, max_length=100)
    metrics: tuple[str, ...] = ()
    more_metrics: dict[str, ChosenMetric] = Field(default_factory=dict, max_length=1_000)
    max_body_bytes: SizeBytes = Field(default=2**22, ge=1_024, le=2**26)
    max_unpacked_bytes: SizeBytes = Field(default=2**25, ge=1_024, le=2**28)
    spool_size_bytes: SizeBytes = Field(default=2**30, ge=2**20)
    n_connections: int = Field(default=32, ge=1, le=1_000)

    @model_validator(mode="after")
    def _not_open_to_others(self) -> RemoteWriteSource:
        if not _is_loopback(self.address) and (self.token_file is None or self.cert_file is None):
            raise ValueError(
                f"address {self.address!r} is not loopback: expected token_file and cert_file, too, as others could "
                "write what they like and read what is sent"
            )
        return self


class GmondUdpSource(Source):
    """A receiver of what gmonds and gmetric send."""

    interval_ms: DurationMs = Field(default=5_000, ge=1_000)
    address: str = Field(default="127.0.0.1", min_length=1)
    port: int = Field(default=8649, ge=0, le=65_535)
    allow: tuple[str, ...] = Field(default=(), max_length=10_000)
    cluster: str = Field(default="default", min_length=1, max_length=100)
    metrics: tuple[str, ...] = ()
    hold_ms: DurationMs = Field(default=180_000, ge=1_000)

    @field_validator("interval_ms")
    @classmethod
    def _within_a_gap(cls, interval_ms: int) -> int:
        return told_in_time(interval_ms)

    @model_validator(mode="after")
    def _not_open_to_others(self) -> GmondUdpSource:
        if not _is_loopback(self.address) and not self.allow:
            raise ValueError(
                f"address {self.address!r} is not loopback: expected `allow` with the addresses or networks of "
                "senders, as the protocol has no authentication"
            )
        return self


__all__ = ["GmondUdpSource", "RemoteWriteSource"]
