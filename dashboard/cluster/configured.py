"""The metrics of hosts that the settings name beside the usual ones."""

from __future__ import annotations

from app.settings import Settings
from dashboard.cluster.hottest import NEEDED


def further_metrics(settings: Settings) -> tuple[str, ...]:
    """That of the load, then those of each source's `metrics` and `more_metrics`, in their order, each once; without
    those that the columns of the hottest hosts are made of anyway."""
    sources = settings.sources
    named = [settings.load.metric]
    for section in (getattr(sources, name) for name in type(sources).model_fields):
        named += [*getattr(section, "metrics", ()), *getattr(section, "more_metrics", ())]
    return tuple(name for name in dict.fromkeys(named) if name not in NEEDED)


__all__ = ["further_metrics"]
