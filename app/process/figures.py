"""Figures of the process itself, in the form that the store keeps."""

from __future__ import annotations

import os
import resource
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from app.store.status import QueryFigures
from engine import QueryStatistics

_STATM = Path("/proc/self/statm")


def memory_bytes() -> int:
    """Resident memory now; where the system does not tell, the most that it has been."""
    try:
        n_pages = int(_STATM.read_text(encoding="ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return n_pages * os.sysconf("SC_PAGE_SIZE")


def query_figures(
    statistics: Mapping[str, QueryStatistics], earlier: Mapping[str, QueryFigures] = MappingProxyType({})
) -> dict[str, QueryFigures]:
    """Per query, since its engine was made; with those of earlier engines, since the process started."""
    figures = {}
    for name, counted in statistics.items():
        before = earlier.get(name, QueryFigures())
        figures[name] = QueryFigures(
            n_events=counted.n_events + before.get("n_events", 0),
            n_rows=counted.n_rows + before.get("n_rows", 0),
            n_kept=counted.n_kept,
            n_rejected=counted.n_rejected + before.get("n_rejected", 0),
            n_unfinished=counted.n_unfinished + before.get("n_unfinished", 0),
            seconds=round(counted.seconds + before.get("seconds", 0.0), 6),
        )
    return figures
