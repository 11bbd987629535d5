"""What a file is, by how it begins."""

from __future__ import annotations

import re

JHIST, HADOOP1, RUMEN = "job history (.jhist)", "job history (Hadoop 1)", "Rumen trace"
CONTAINER_LOG, DAEMON_LOG, RRD = "container log", "daemon log", "Ganglia RRD"
JOB_CONF = "job configuration"
AUDIT_LOG = "HDFS audit log"
JOB_CLIENT_LOG = "job client log"
SPARK_EVENTS = "Spark event log"

HISTORY_BEGINS = re.compile(rb'\s*(?:\f?!!FILE=|Meta VERSION="|Job JOBID=")')
RUMEN_BEGINS = re.compile(rb'\s*\{\s*"(?:[^"\\]|\\.)*"\s*:')
SPARK_BEGINS = re.compile(rb'\s*\{\s*"Event"\s*:\s*"(?:org\.apache\.spark\.)?[\w.$]*SparkListener')
LOG_BEGINS = re.compile(rb"(?:\d{4}-\d\d-\d\d[ T]|\d\d/\d\d/\d\d )\d\d:\d\d:\d\d")

CLIENT_LINE = re.compile(rb"Running job: job_\d|Task Id : attempt_\d|[ :]map \d{1,3}% {1,2}reduce \d{1,3}%")
"""In what a job's client prints; what its program prints may come first."""

MAX_LOOKED_AT_BYTES = 1 << 16
MAX_LOOKED_THROUGH_BYTES = 1 << 20
CLIENT_TRACE = re.compile(rb"^.{10,200}?clienttrace: +src: ", re.MULTILINE | re.IGNORECASE)


def kind_by_content(data: bytes) -> tuple[str | None, str]:
    """(kind, "") by how a file begins, or (None, why it is skipped)."""
    from collectors.spark.codecs import LZF_BEGINS, begin_of_text  # Arrow, which names of kinds do without

    begin = data[:MAX_LOOKED_AT_BYTES]
    if not begin.strip():
        return None, "empty"
    if begin.startswith(b"RRD\0"):
        return None, "an RRD without the ending .rrd"
    if LZF_BEGINS.match(begin):
        return None, "compressed with lzf, which is not read: have Spark compress with zstd"
    if SPARK_BEGINS.match(begin_of_text(begin)):
        return SPARK_EVENTS, ""
    if b"Avro-Json\n" in begin[:1024] or begin.startswith(b"Avro-Binary"):
        return JHIST, ""
    if HISTORY_BEGINS.match(begin):
        return HADOOP1, ""
    if RUMEN_BEGINS.match(begin):
        if b'"jobID"' in begin:
            return RUMEN, ""
        return None, "a network topology" if b'"children"' in begin else "JSON, but no trace of jobs"
    if CLIENT_LINE.search(data, 0, MAX_LOOKED_THROUGH_BYTES) and b"\0" not in begin:
        return JOB_CLIENT_LOG, ""
    if CLIENT_TRACE.search(begin):
        return None, "a log of ClientTrace lines (who read and wrote which blocks) whose name tells no daemon and host"
    if LOG_BEGINS.match(begin):
        return None, "a log that neither its name nor its folder attributes to a container or a daemon"
    if begin.lstrip().startswith(b"<"):
        return None, "XML: no kind that is read from files"
    return None, "no kind that is known"


__all__ = [
    "AUDIT_LOG",
    "CLIENT_TRACE",
    "CONTAINER_LOG",
    "DAEMON_LOG",
    "HADOOP1",
    "JHIST",
    "JOB_CLIENT_LOG",
    "LOG_BEGINS",
    "MAX_LOOKED_AT_BYTES",
    "RRD",
    "RUMEN",
    "SPARK_BEGINS",
    "SPARK_EVENTS",
    "kind_by_content",
]
