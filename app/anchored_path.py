"""Paths of the configuration, which start at its file."""

from __future__ import annotations

from contextvars import ContextVar
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator

base_directory: ContextVar[Path] = ContextVar("base_directory", default=Path())
"""Relative paths in the file start here: the folder of the configuration file."""


def anchored(path: Path) -> Path:
    """The path from the folder of the configuration file on."""
    return base_directory.get() / path.expanduser()


AnchoredPath = Annotated[Path, AfterValidator(anchored)]

__all__ = ["AnchoredPath", "anchored", "base_directory"]
