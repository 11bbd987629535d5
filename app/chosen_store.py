"""Which store: the configured one, or for processes that only look at it another, such as a replay's."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from app.config import read_secret
from app.event_store.commits import COMMITS
from app.settings import EVENT_STORE, Settings

STORE_VARIABLE = "CLUSTERCEP_STORE"
"""Its folder; `clustercep dashboard --store` sets it."""

DATABASE = "clustercep.db"


def store_url(settings: Settings) -> str:
    """Where the store is: as configured, else a file in store.directory."""
    url = read_secret(settings.store.url, settings.store.url_file, "store.url_file")
    return f"sqlite:///{settings.store.directory / DATABASE}" if url is None else url.get_secret_value()


def in_chosen_store(settings: Settings, environment: Mapping[str, str] | None = None) -> Settings:
    """The settings with the folder of $CLUSTERCEP_STORE, and its SQLite file, in place of their store if it is set.

    A history in it goes before `spark.store`, which belongs to the store that was not chosen.
    """
    folder = (os.environ if environment is None else environment).get(STORE_VARIABLE)
    if not folder:
        return settings
    store = settings.store.model_copy(update={"directory": Path(folder), "url": None, "url_file": None})
    chosen = settings.model_copy(update={"store": store})
    past = history_in(Path(folder))
    if past is None:
        return chosen
    return chosen.model_copy(update={"spark": settings.spark.model_copy(update={"store": str(past.absolute())})})


def history_in(folder: Path) -> Path | None:
    """The event store in a folder: what `clustercep ingest` fills there, or the folder itself; None without one."""
    places = (folder / EVENT_STORE, folder)
    return next((place for place in places if (place / COMMITS).is_dir()), None)


def has_store(folder: Path) -> bool:
    """Whether there is anything that pages can show: a database, or a history."""
    return (folder / DATABASE).is_file() or history_in(folder) is not None


__all__ = ["DATABASE", "STORE_VARIABLE", "has_store", "history_in", "in_chosen_store", "store_url"]
