"""Ids of Hadoop: applications, jobs, tasks, attempts, containers, and how they contain each other."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import UTC, datetime
from typing import Literal, TypeGuard

from collectors.time_units import MAX_TIME_MS

TaskKind = Literal["MAP", "REDUCE"]

JOB = re.compile(r"job_(\d+)_(\d+)")
TASK = re.compile(r"task_(\d+)_(\d+)_([mr])_(\d+)")
ATTEMPT = re.compile(r"attempt_(\d+)_(\d+)_([mr])_(\d+)_(\d+)")
APPLICATION = re.compile(r"application_(\d+)_(\d+)")
CONTAINER = re.compile(r"container_(?:e\d+_)?(\d+)_(\d+)_(\d+)_(\d+)")
"""A container's id may carry the epoch of the ResourceManager: container_e11_..."""


def is_job(text: object) -> TypeGuard[str]:
    """True for "job_<cluster start>_<number>"."""
    return isinstance(text, str) and JOB.fullmatch(text) is not None


def is_task(text: object) -> TypeGuard[str]:
    """True for "task_<cluster start>_<job>_<m|r>_<number>"."""
    return isinstance(text, str) and TASK.fullmatch(text) is not None


def is_attempt(text: object) -> TypeGuard[str]:
    """True for "attempt_<cluster start>_<job>_<m|r>_<task>_<number>"."""
    return isinstance(text, str) and ATTEMPT.fullmatch(text) is not None


def is_application(text: object) -> TypeGuard[str]:
    """True for "application_<cluster start>_<number>"."""
    return isinstance(text, str) and APPLICATION.fullmatch(text) is not None


def task_of(attempt_id: str) -> str:
    """The task of a valid attempt id."""
    return "task" + attempt_id[len("attempt") : attempt_id.rindex("_")]


def job_of(task_or_attempt_id: str) -> str:
    """The job of a valid task or attempt id."""
    return "job_" + "_".join(task_or_attempt_id.split("_")[1:3])


def job_of_application(application_id: str) -> str:
    """The MapReduce job that a valid application id runs."""
    return "job" + application_id.removeprefix("application")


def application_of_job(job_id: str) -> str:
    """The application of a valid job id."""
    return "application" + job_id.removeprefix("job")


def kind_of(task_or_attempt_id: str) -> TaskKind:
    """MAP or REDUCE, from a valid task or attempt id."""
    return "MAP" if task_or_attempt_id.split("_")[3] == "m" else "REDUCE"


def job_of_container(container_id: str) -> str:
    """The job of a valid container id, as `job_of_application` names it."""
    return "job_" + "_".join(container_id.split("_")[-4:-2])


def cluster_start_ms(job_id: str) -> int:
    """When the ResourceManager, or JobTracker, of a valid job id was started, in ms; 1 where the id tells no time.

    Hadoop 1 writes yyyyMMddHHmm, in a zone that it does not tell: UTC is assumed.
    """
    digits = job_id.split("_")[1]
    start_ms = int(digits) if len(digits) <= 15 else 0
    if len(digits) == 12:
        with suppress(ValueError):  # a number of another kind
            start_ms = int(datetime.strptime(digits, "%Y%m%d%H%M").replace(tzinfo=UTC).timestamp()) * 1000
    return start_ms if 0 < start_ms <= MAX_TIME_MS else 1
