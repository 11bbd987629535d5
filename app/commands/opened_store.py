"""The store that a command reads or changes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from app.chosen_store import DATABASE, store_url
from app.config import load_settings
from app.errors import AppError
from app.store.api import Store, open_store


@contextmanager
def opened(config: Path | None, folder: Path | None) -> Iterator[Store]:
    """The store of the settings, or the one in a folder; raises AppError."""
    if folder is None:
        url = store_url(load_settings(config))
    else:
        file = folder / DATABASE
        if not file.is_file():
            raise AppError(f"{folder}: no store there; expected a folder with {DATABASE}")
        url = f"sqlite:///{file}"
    with open_store(url, make=False) as found:
        yield found


__all__ = ["opened"]
