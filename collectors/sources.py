"""The sources, registered once: live detection, `check`, ingest, documents and tests ask here which there are.

What a source tells stands in events.csv, how it is built from settings in `app.live.sources`, which settings it has in
`app.settings`; tests hold all of them together with this table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from collectors.file_kinds import (
    AUDIT_LOG,
    CONTAINER_LOG,
    DAEMON_LOG,
    HADOOP1,
    JHIST,
    JOB_CLIENT_LOG,
    JOB_CONF,
    RRD,
    RUMEN,
    SPARK_EVENTS,
)
from collectors.schema import event_table
from collectors.spark import STAGE_TYPES


class Samples(Enum):
    """What the samples of one step have in common."""

    ALIGNED = "they end at one time"
    OF_POLLS = "one poll brought them"
    HELD = "one poll brought them, or they are of before and hold until they are another"
    OF_WINDOWS = "they end in one window of the source's step"


@dataclass(frozen=True, slots=True)
class SourceSpec:
    """One source of events."""

    name: str
    """Also the key of its settings below `sources`, and what stored events call it."""
    bulk_kinds: tuple[str, ...] = ()
    """Kinds of files that ingest reads as its own."""
    is_live: bool = True
    """Whether it can be polled; else its files are read in bulk alone."""
    samples: Samples | None = None
    """Whether it yields Metric, from which the load of the nodes is derived, and what a step of it is."""

    types_of_histories: frozenset[str] = frozenset()
    """What it tells live in histories alone, each whole: queries over these types judge each by itself."""

    @property
    def event_types(self) -> frozenset[str]:
        """What it yields, or is derived from that, by events.csv."""
        return frozenset(row.type for row in event_table() if self.name in row.sources)


SPECS: tuple[SourceSpec, ...] = (
    SourceSpec("job_history", (JHIST, HADOOP1, JOB_CONF)),
    SourceSpec("yarn_rest"),
    SourceSpec("yarn_timeline"),
    SourceSpec("container_log", (CONTAINER_LOG,)),
    SourceSpec("daemon_log", (DAEMON_LOG,)),
    SourceSpec("hdfs_audit", (AUDIT_LOG,)),
    SourceSpec("job_client_log", (JOB_CLIENT_LOG,)),
    SourceSpec("spark_events", (SPARK_EVENTS,), types_of_histories=STAGE_TYPES),
    SourceSpec("ganglia_rrd", (RRD,), samples=Samples.ALIGNED),
    SourceSpec("gmond", samples=Samples.HELD),
    SourceSpec("gmond_udp", samples=Samples.HELD),
    SourceSpec("jmx", samples=Samples.OF_POLLS),
    SourceSpec("prometheus", samples=Samples.OF_POLLS),
    SourceSpec("remote_write", samples=Samples.OF_WINDOWS),
    SourceSpec("rumen_trace", (RUMEN,), is_live=False),
)
"""In order of precedence: of copies of one event that of the first enters matching unless the settings differ."""

LIVE_SOURCES: tuple[str, ...] = tuple(spec.name for spec in SPECS if spec.is_live)

TYPES_WITHOUT_COPIES: frozenset[str] = frozenset({"Metric", "LoadStd", "Balance", "Imbalance", "DaemonUnreachable"})
"""Of several sources, but what each of them tells is its own: no other source has an event of the same id."""

SOURCE_OF_KIND: Mapping[str, str] = {kind: spec.name for spec in SPECS for kind in spec.bulk_kinds}
"""Kind of file -> the source whose precedence and rank its events have."""

__all__ = ["LIVE_SOURCES", "SOURCE_OF_KIND", "SPECS", "TYPES_WITHOUT_COPIES", "Samples", "SourceSpec"]
