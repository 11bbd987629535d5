"""How loads of nodes are derived; `load` in config.yaml."""

from __future__ import annotations

from pydantic import Field

from app.section import Section


class Load(Section):
    """How LoadStd, Balance and Imbalance are derived from Metric."""

    metric: str = "cpu_user"
    busy_percent: float = Field(default=20.0, ge=0)
    low_ratio: float = Field(default=0.2, ge=0, le=1)
    high_ratio: float = Field(default=0.8, ge=0, le=1)


__all__ = ["Load"]
