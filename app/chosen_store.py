"""Another store than the configured one, such as a replay's, for the processes that only look at it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from app.settings import Settings

STORE_VARIABLE = "CLUSTERCEP_STORE"
"""Its folder; `clustercep dashboard --store` sets it."""


def in_chosen_store(settings: Settings, environment: Mapping[str, str] | None = None) -> Settings:
    """The settings with the folder of $CLUSTERCEP_STORE, and its SQLite file, in place of their store if it is set."""
    folder = (os.environ if environment is None else environment).get(STORE_VARIABLE)
    if not folder:
        return settings
    store = settings.store.model_copy(update={"directory": Path(folder), "url": None, "url_file": None})
    return settings.model_copy(update={"store": store})


__all__ = ["STORE_VARIABLE", "in_chosen_store"]
