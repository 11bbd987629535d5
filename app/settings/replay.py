"""How recordings are replayed; `replay` and `demo` in config.yaml."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from app.anchored_path import AnchoredPath, anchored
from app.durations import SizeBytes
from app.section import Section
from app.settings.queries import ParameterValue


class Replay(Section):
    """How recordings are replayed."""

    speed: float | Literal["max"] = "max"
    max_files: int = Field(default=200_000, ge=1)
    max_size_bytes: SizeBytes = Field(default=2**31, ge=1)


class Demo(Section):
    """What `clustercep demo` replays, and where it leaves its store."""

    recording: AnchoredPath = Field(
        default_factory=lambda: anchored(Path("tests/fixtures/recording/minicluster.tar.xz"))
    )
    directory: AnchoredPath = Field(default_factory=lambda: anchored(Path("build/demo")))
    parameters: dict[str, dict[str, ParameterValue]] = Field(default_factory=dict)


__all__ = ["Demo", "Replay"]
