"""Where processes answer; `web` and `api` in config.yaml."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field, model_validator

from app.anchored_path import AnchoredPath
from app.section import Section


def _not_yes_or_no(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("a number")
    return value


Number = Annotated[int, BeforeValidator(_not_yes_or_no)]
"""YAML reads `no` as false, which would pass for 0."""


class Web(Section):
    """Where the live process answers: health, readiness, reload, metrics."""

    enabled: bool = True
    address: str = Field(default="127.0.0.1", min_length=1)
    port: Number = Field(default=9477, ge=0, le=65_535)
    allowed_hosts: tuple[str, ...] = ()


class ApiSettings(Section):
    """Where `clustercep api` answers, and who may ask."""

    address: str = Field(default="127.0.0.1", min_length=1)
    port: Number = Field(default=9478, ge=0, le=65_535)
    allowed_hosts: tuple[str, ...] = ()
    tokens_file: AnchoredPath | None = None
    cert_file: AnchoredPath | None = None
    key_file: AnchoredPath | None = None

    @model_validator(mode="after")
    def _key_of_a_certificate(self) -> ApiSettings:
        if self.key_file is not None and self.cert_file is None:
            raise ValueError("key_file without cert_file; expected the certificate, too")
        return self


__all__ = ["ApiSettings", "Web"]
