"""Commands to copy that look at what an alert is about.

Nothing in a name may act in the shell that they are pasted into: ids stand in them where they have Hadoop's form, hosts
where they may be a host's name; all else is quoted.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

from dashboard.store import AlertRow

MAX_NAME_CHARS = 200
"""Longer names stand in no command."""

_JOB = re.compile(r"job_([0-9]{1,20}_[0-9]{1,10})")
_APPLICATION = re.compile(r"application_[0-9]{1,20}_[0-9]{1,10}")
_ATTEMPT = re.compile(r"attempt_([0-9]{1,20}_[0-9]{1,10})_[mr]_[0-9]{1,10}_[0-9]{1,10}")
_CONTAINER = re.compile(r"container_(?:e[0-9]{1,10}_)?([0-9]{1,20}_[0-9]{1,10})_[0-9]{1,10}_[0-9]{1,20}")
_HOST = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,252}[A-Za-z0-9])?")


@dataclass(frozen=True, slots=True)
class Command:
    """What it is for, and its line."""

    label: str
    line: str


_OF_QUERIES: tuple[tuple[re.Pattern[str], Command], ...] = (
    (re.compile(r"hdfs-safe-mode.*"), Command("Whether it is in safe mode", "hdfs dfsadmin -safemode get")),
    (
        re.compile(r"hdfs-(missing-blocks|under-replicated)"),
        Command("Files whose blocks are lost", "hdfs fsck / -list-corruptfileblocks"),
    ),
    (
        re.compile(r"hdfs-no-active|hdfs-standby-late|journal-slow"),
        Command("Which NameNode is active", "hdfs haadmin -getAllServiceState"),
    ),
    (re.compile(r"hdfs-.*|datanode-.*"), Command("What the NameNode knows of its DataNodes", "hdfs dfsadmin -report")),
    (
        re.compile(r"node-.*|nodemanager.*|queue-.*|containers-pending"),
        Command("What the ResourceManager knows of its nodes", "yarn node -list -all"),
    ),
)
"""What looks further than an alert's own ids do, by its query: nothing of the alert stands in it."""


def commands(alert: AlertRow) -> list[Command]:
    """What helps with this alert, the first to be tried first."""
    job = _matching(_JOB, alert.job_id, alert.labels.get("job"))
    application = _matching(_APPLICATION, alert.labels.get("application"))
    if job is not None:
        application = f"application_{job.removeprefix('job_')}"
    attempt = _matching(_ATTEMPT, alert.values.get("attempt_id"), alert.values.get("last_attempt_id"))
    container = _matching(_CONTAINER, alert.values.get("container_id"))
    found = [Command("What clustercep knows of it", f"clustercep alerts show {alert.id}")]
    found += [command for queries, command in _OF_QUERIES if queries.fullmatch(alert.query or "")]
    if attempt is not None:
        its_job = f"job_{'_'.join(attempt.split('_')[1:3])}"
        found.append(Command("The attempt's log", f"mapred job -logs {its_job} {attempt}"))
    if application is not None:
        if container is not None:
            of = f"-applicationId {application} -containerId {container}"
            found.append(Command("The container's log", f"yarn logs {of}"))
        found.append(Command("How the application stands", f"yarn application -status {application}"))
        found.append(Command("All of its logs", f"yarn logs -applicationId {application} | less"))
    if job is not None:
        found.append(Command("The job with its counters", f"mapred job -status {job}"))
    if (host := _matching(_HOST, alert.host)) is not None:
        found.append(
            Command("Load, memory and disks of the host", f"ssh {host} 'uptime; free -m; df -h; iostat -x 5 2'")
        )
    if (queue := _quoted(alert.labels.get("queue"))) is not None and not queue.startswith("-"):
        found.append(Command("The queue", f"yarn queue -status {queue}"))
    if (name := _quoted(alert.values.get("job_name"))) is not None:
        found.append(Command("Applications of this name", f"yarn application -list -appStates ALL | grep -F -e {name}"))
    if attempt is not None:
        found.append(Command("Kill the attempt: Hadoop tries it again elsewhere", f"mapred job -kill-task {attempt}"))
    return found


def _matching(form: re.Pattern[str], *values: object) -> str | None:
    """The first value that has the form as a whole."""
    return next((value for value in values if isinstance(value, str) and form.fullmatch(value)), None)


def _quoted(value: object) -> str | None:
    """One word of a shell, of one line; None for what is no text or too long."""
    if not isinstance(value, str) or not value or len(value) > MAX_NAME_CHARS:
        return None
    if value.isprintable():
        return shlex.quote(value)
    # What a terminal would act on while it is pasted (line breaks, escapes) stands in it as written out.
    return "$'" + "".join(_written_out(c) for c in value) + "'"


def _written_out(c: str) -> str:
    if c in "\\'":
        return f"\\{c}"
    return c if c.isprintable() else "".join(f"\\x{byte:02x}" for byte in c.encode("utf-8", "surrogatepass"))
