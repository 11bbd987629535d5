"""What processes write about themselves; `log` in config.yaml."""

from __future__ import annotations

from typing import Literal

from app.section import Section


class Log(Section):
    """What the process writes about itself."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["console", "json"] = "console"


__all__ = ["Log"]
