"""The dashboard and who may see it; `dashboard` in config.yaml."""

from __future__ import annotations

import re

from pydantic import Field, field_validator, model_validator

from app.alerting.people import Role
from app.anchored_path import AnchoredPath
from app.durations import DurationMs
from app.section import Section


class ProxySettings(Section):
    """A reverse proxy that tells who asks: by a header that counts only beside the secret that it alone knows."""

    user_header: str = Field(default="X-Forwarded-User", pattern=r"^[A-Za-z0-9-]{1,100}$")
    secret_header: str = Field(default="X-Clustercep-Secret", pattern=r"^[A-Za-z0-9-]{1,100}$")
    secret_file: AnchoredPath


class DashboardSettings(Section):
    """Where the dashboard listens, who may see it and what its queries may cost."""

    address: str = "127.0.0.1"
    port: int = Field(default=8501, ge=1, le=65_535)
    base_path: str = Field(default="", pattern=r"^(/?[A-Za-z0-9._~-]+)*/?$", max_length=200)
    allowed_hosts: tuple[str, ...] = ()
    login: bool = False
    anonymous_role: Role | None = None
    roles_claim: str | None = Field(default=None, min_length=1, max_length=100)
    claim_roles: dict[str, Role] = Field(default_factory=dict)
    roles_file: AnchoredPath | None = None
    proxy: ProxySettings | None = None
    links: dict[str, str] = Field(default_factory=dict)
    straggler_queries: tuple[str, ...] = ("*straggler*",)
    query_timeout_ms: DurationMs = Field(default=120_000, ge=1_000)
    max_query_events: int = Field(default=5_000_000, ge=1)
    history_queries: int = Field(default=1, ge=0, le=100)
    history_timeout_ms: DurationMs = Field(default=1_800_000, ge=1_000)

    @model_validator(mode="after")
    def _who_gives_roles(self) -> DashboardSettings:
        if (self.roles_claim is None) != (not self.claim_roles):
            raise ValueError("roles_claim and claim_roles go together; expected both, or neither")
        if self.login and self.proxy is not None:
            raise ValueError("login and proxy both tell who somebody is; expected one of them")
        return self

    @field_validator("links")
    @classmethod
    def _templates(cls, links: dict[str, str]) -> dict[str, str]:
        for name, template in links.items():
            if not template.startswith(("http://", "https://")):
                raise ValueError(f"{name}: expected a URL that starts with http:// or https://")
            unknown = set(re.findall(r"\{([^{}]*)\}", template)) - {"job_id", "application_id"}
            if unknown:
                found = ", ".join(sorted(unknown))
                raise ValueError(f"{name} names {{{found}}}; expected {{job_id}} and {{application_id}} only")
        return links


__all__ = ["DashboardSettings", "ProxySettings"]
