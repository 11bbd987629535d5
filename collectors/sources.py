"""The sources, registered once: live detection, `check`, ingest, documents and tests ask here which there are.

What a source tells stands in events.csv, how it is built from settings in `app.live.sources`, which settings it has in
`app.settings`; tests hold all of them together with this table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from collectors.file_kinds import CONTAINER_LOG, DAEMON_LOG, HADOOP1, JHIST, JOB_CONF, RRD, RUMEN
from collectors.schema import event_table


@dataclass(frozen=True, slots=True)
class SourceSpec:
    """One source of events."""

    name: str
    """Also the key of its settings below `sources`, and what stored events call it."""
    bulk_kinds: tuple[str, ...] = ()
    """Kinds of files that ingest reads as its own."""
    is_live: bool = True
    """Whether it can be polled; else its files are read in bulk alone."""

    @property
    def event_types(self) -> frozenset[str]:
        """What it yields, or is derived from that, by events.csv."""
        return frozenset(row.type for row in event_table() if self.name in row.sources)


SPECS: tuple[SourceSpec, ...] = (
    SourceSpec("job_history", (JHIST, HADOOP1, JOB_CONF)),
    SourceSpec("yarn_rest"),
    SourceSpec("container_log", (CONTAINER_LOG,)),
    SourceSpec("daemon_log", (DAEMON_LOG,)),
    SourceSpec("ganglia_rrd", (RRD,)),
    SourceSpec("jmx"),
    SourceSpec("rumen_trace", (RUMEN,), is_live=False),
)
"""In order of precedence: of copies of one event that of the first enters matching unless the settings differ."""

LIVE_SOURCES: tuple[str, ...] = tuple(spec.name for spec in SPECS if spec.is_live)

SOURCE_OF_KIND: Mapping[str, str] = {kind: spec.name for spec in SPECS for kind in spec.bulk_kinds}
"""Kind of file -> the source whose precedence and rank its events have."""

__all__ = ["LIVE_SOURCES", "SOURCE_OF_KIND", "SPECS", "SourceSpec"]
