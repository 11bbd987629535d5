"""What an alert is about, for filters: its job and its host, from its key and its RETURN values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from app.store.storable import storable_text

MAX_SUBJECT_CHARS = 255
"""Names are hostile and indexed; an index takes no more than about 2,700 bytes per row everywhere."""

SUSPECT, AFFECTED = "suspect", "affected"
"""What a host has to do with an alert, as it is stored."""

_PART_OF_JOB = (
    ("task_id", re.compile(r"task_(\d+_\d+)_[mr]_\d+")),
    ("attempt_id", re.compile(r"attempt_(\d+_\d+)_[mr]_\d+_\d+")),
)
"""Attribute -> the cluster's time stamp and the number that it shares with its job."""

_PART_OF_APPLICATION = (
    ("application_id", re.compile(r"application_(\d+_\d+)")),
    ("container_id", re.compile(r"container_(?:e\d+_)?(\d+_\d+)_\d+_\d+")),
)
"""The same; the application may be of another type than MapReduce and run no job."""


def subject_text(name: str) -> str:
    """A job or host name as it is stored and looked for."""
    return storable_text(name, MAX_SUBJECT_CHARS)


def job_of(key: Mapping[str, Any], values: Mapping[str, Any]) -> str | None:
    """The job: `job_id`, else what the id of a task, attempt, application or container tells; None when unknown.

    Where `job_id` is named and null, an application or a container is of no MapReduce job.
    """
    named = _text("job_id", key, values)
    if named is not None:
        return named
    runs_none = "job_id" in {**key, **values}
    for name, pattern in _PART_OF_JOB if runs_none else (*_PART_OF_JOB, *_PART_OF_APPLICATION):
        part = _text(name, key, values)
        if part is not None and (found := pattern.fullmatch(part)) is not None:
            return subject_text(f"job_{found[1]}")
    return None


def application_of(job_id: str | None) -> str | None:
    """The application that a job is to YARN; None when the job is unknown, or its id is none of MapReduce's."""
    found = re.fullmatch(r"job_(\d+_\d+)", job_id or "")
    return None if found is None else f"application_{found[1]}"


def host_of(key: Mapping[str, Any], values: Mapping[str, Any]) -> str | None:
    """The host: `host`, else `source_host`; None when unknown. As stores had it that know no roles of hosts."""
    return _text("host", key, values) or _text("source_host", key, values)


def default_roles(key: Mapping[str, Any], values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(host, role) of an alert whose query does not say which values name hosts, the first suspect first.

    `source_host` served the data that others waited for; where it is there, `host` is one that waited, unless alerts
    are raised per host.
    """
    source, host = _text("source_host", key, values), _text("host", key, values)
    if "host" in key:
        found = [(host, SUSPECT), (source, SUSPECT)]
    else:
        found = [(source, SUSPECT), (host, SUSPECT if source is None else AFFECTED)]
    roles: dict[str, str] = {}
    for name, role in found:
        if name is not None:
            roles.setdefault(name, role)
    return list(roles.items())


def _text(name: str, key: Mapping[str, Any], values: Mapping[str, Any]) -> str | None:
    for named in (key, values):
        value = named.get(name)
        if isinstance(value, str) and value:
            return subject_text(value)
    return None
