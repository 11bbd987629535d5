"""Where jobs on Spark run; `spark` in config.yaml."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field, field_validator

from app.anchored_path import AnchoredPath, anchored
from app.durations import SizeBytes
from app.section import Section


def _anchored_url(text: str | None) -> str | None:
    """A plain path starts at the folder of the configuration file; a URL is left as it is."""
    return text if text is None or "://" in text else str(anchored(Path(text)).absolute())


class SparkSettings(Section):
    """Where the jobs on Spark run, and where the events are that they read."""

    master: str | None = Field(default=None, min_length=1)
    store: Annotated[str | None, AfterValidator(_anchored_url)] = Field(default=None, min_length=1)
    conf: dict[str, str] = Field(default_factory=dict)
    kafka_config: AnchoredPath | None = None
    small_query_events: int = Field(default=500_000, ge=0)
    small_ingest_bytes: SizeBytes = Field(default=64 * 2**20, ge=0)

    @field_validator("conf")
    @classmethod
    def _names_of_spark(cls, conf: dict[str, str]) -> dict[str, str]:
        for name in conf:
            if not name.startswith("spark."):
                raise ValueError(f"{name}: expected a setting of Spark, whose names start with spark.")
        return conf


__all__ = ["SparkSettings"]
