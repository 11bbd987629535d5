"""Folders of the store: whatever is in them is the business of the user who runs clustercep alone."""

from __future__ import annotations

from pathlib import Path

PRIVATE = 0o700


def private_folder(folder: Path) -> None:
    """Make it where it is not there; one that is there keeps the access that somebody gave it. Raises OSError."""
    folder.mkdir(PRIVATE, parents=True, exist_ok=True)


__all__ = ["PRIVATE", "private_folder"]
