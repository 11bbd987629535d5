"""Which kind a file is of: by its name and folders before it is read, by how it begins afterwards."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from app.live.clock_skew import EXACT_CLOCKS, ClockSkewBounds
from collectors.file_kinds import AUDIT_LOG, CONTAINER_LOG, DAEMON_LOG, JHIST, JOB_CONF, RRD, SPARK_EVENTS
from collectors.ganglia.rrd import DEFAULT_METRICS, SUMMARY_FOLDER
from collectors.hadoop_ids import CONTAINER
from collectors.history.job_conf import job_of_name
from collectors.logs.container_log import ROTATION
from collectors.logs.daemon_log import NAME_PATTERN
from collectors.logs.hdfs_audit import AUDIT_NAME_PATTERN
from collectors.metrics.load_balance import LoadOptions
from collectors.sources import SOURCE_OF_KIND
from collectors.spark.log_files import ROLLED, is_marker, part_of

IN_CONTAINER = re.compile(rf"{CONTAINER.pattern}")
CONTAINER_FILE = re.compile(rf"{CONTAINER.pattern}\.log(?:\.\d+)?")


@dataclass(frozen=True, slots=True)
class IngestOptions:
    """How files are read: what the live collectors are configured with, as plain values that travel to executors."""

    ranks: Mapping[str, int] = field(default_factory=dict)
    """Rank of each source; those that are not named come last."""
    hosts: Mapping[str, str] = field(default_factory=dict)
    """Folder or name in logs -> host name as job history writes it."""
    layout: str = "{host}/{application}/{container}/{role}"
    roles: tuple[str, ...] = ("syslog", "syslog.shuffle")
    container_host: str | None = None
    container_zone: str = "UTC"
    daemon_zone: str = "UTC"
    daemon_pattern: str = NAME_PATTERN
    client_trace: bool = True
    audit_zone: str = "UTC"
    audit_pattern: str = AUDIT_NAME_PATTERN
    audit_host: str | None = None
    client_zone: str = "UTC"
    client_pattern: str | None = None
    client_host: str | None = None
    metrics: tuple[str, ...] = DEFAULT_METRICS
    load: LoadOptions = field(default_factory=LoadOptions)
    clock_skew: ClockSkewBounds = EXACT_CLOCKS
    max_bytes: int = 1 << 29
    """Of a file, and of what a compressed one holds; a larger one is skipped."""

    def rank(self, kind: str) -> int:
        """Of the events of a kind of file."""
        return self.ranks.get(SOURCE_OF_KIND[kind], len(self.ranks))


def plain_name(name: str) -> str:
    """Without the ending of a compressed file."""
    return name.removesuffix(".gz")


def kind_by_name(parts: tuple[str, ...], options: IngestOptions) -> str | None:
    """The kind of a file by the names of its folders and its own (the last); None: its content must tell."""
    name = plain_name(parts[-1])
    if name.endswith(".jhist"):
        return JHIST
    if job_of_name(name) is not None:
        return JOB_CONF
    if name.endswith(".rrd"):
        return RRD
    if CONTAINER_FILE.fullmatch(name) or (len(parts) > 1 and IN_CONTAINER.fullmatch(parts[-2])):
        return CONTAINER_LOG
    if part_of(_folder_of(parts), name) is not None:
        return SPARK_EVENTS
    if re.fullmatch(options.daemon_pattern, name):
        return DAEMON_LOG
    if re.fullmatch(options.audit_pattern, name):
        return AUDIT_LOG
    return None


def _folder_of(parts: tuple[str, ...]) -> str:
    """The folder that a file lies in; one that was asked for itself may be that of a rolled log of Spark."""
    return parts[-2] if len(parts) > 1 else ROLLED


def skipped_by_name(parts: tuple[str, ...], options: IngestOptions) -> str | None:
    """Why a file need not be opened; None when it must be."""
    name = plain_name(parts[-1])
    if name.startswith((".", "_")):
        return "hidden: its name begins with a dot or an underscore"
    if name.endswith(".crc"):
        return "a check sum"
    if is_marker(_folder_of(parts), name):
        return "says only whether a Spark event log goes on"
    if name.endswith("_conf.xml") and job_of_name(name) is None:
        return "a configuration whose name tells no job"
    kind = kind_by_name(parts, options)
    if kind == RRD:
        return _skipped_rrd(parts, name, options)
    if kind == CONTAINER_LOG and not CONTAINER_FILE.fullmatch(name) and role_of(name, options) is None:
        return f"of a container, but none of {', '.join(options.roles)}"
    return None


def role_of(name: str, options: IngestOptions) -> str | None:
    """The role that a container's file has: its name, or that without the number that rotation gave it."""
    for candidate in (name, ROTATION.sub("", name)):
        if candidate in options.roles:
            return candidate
    return None


def rrd_place(parts: tuple[str, ...]) -> tuple[str, str, str] | None:
    """(cluster, host, metric) of an RRD: its folders, below gmetad's `rrds` where a folder is called so."""
    if len(parts) < 3 or ("rrds" in parts[:-1] and parts.index("rrds") != len(parts) - 4):
        return None
    return parts[-3], parts[-2], parts[-1].removesuffix(".rrd")


def _skipped_rrd(parts: tuple[str, ...], name: str, options: IngestOptions) -> str | None:
    if SUMMARY_FOLDER in parts:
        return "a summary over hosts"
    if name != parts[-1]:
        return "a compressed RRD; decompress it"
    if name.removesuffix(".rrd") not in options.metrics:
        return "a metric that sources.ganglia_rrd.metrics does not name"
    if rrd_place(parts) is None:
        return "an RRD that is not at <cluster>/<host>/<metric>.rrd"
    return None
