"""What every source has; `sources.*` in config.yaml."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from app.anchored_path import AnchoredPath
from app.durations import DurationMs
from app.section import Section

MAX_DAEMON_INTERVAL_MS = 90_000
"""Half of the GROUP_GAP of the queries over daemons: one poll may fail."""


def told_in_time(interval_ms: int) -> int:
    """An interval at which daemons are asked; raises ValueError for one at which their alerts would end."""
    if interval_ms > MAX_DAEMON_INTERVAL_MS:
        raise ValueError(
            f"more than {MAX_DAEMON_INTERVAL_MS // 1000} s; expected at most that: "
            "alerts about daemons end when nothing was told for 3 minutes, so they would end and begin again"
        )
    return interval_ms


class Source(Section):
    """What every source has."""

    enabled: bool = False
    interval_ms: DurationMs = Field(default=15_000, ge=100)
    lateness_ms: DurationMs = Field(default=5_000, ge=0)


class KerberosSettings(Section):
    """Who asks servers that want tickets."""

    principal: str = Field(pattern=r"^[^\s@]+@[^\s@]+$", max_length=300)
    keytab_file: AnchoredPath
    mutual_authentication: bool = True


class HttpSource(Source):
    """One that asks servers over HTTP."""

    timeout_ms: DurationMs = Field(default=10_000, ge=100)
    poll_timeout_ms: DurationMs = Field(default=60_000, ge=100)
    verify_tls: bool = True
    ca_file: AnchoredPath | None = None
    cert_file: AnchoredPath | None = None
    """A certificate to show, PEM."""
    key_file: AnchoredPath | None = None
    """Its key; None: it stands in `cert_file` too."""
    kerberos: KerberosSettings | None = None

    @model_validator(mode="after")
    def _certificate_with_key(self) -> Self:
        if self.key_file is not None and self.cert_file is None:
            raise ValueError("key_file without cert_file; expected the certificate, too")
        return self


__all__ = ["MAX_DAEMON_INTERVAL_MS", "HttpSource", "KerberosSettings", "Source", "told_in_time"]
