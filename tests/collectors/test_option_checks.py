"""Options that cannot work are refused where they are given, each by its name, with what was found."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from collectors.base import OptionError
from collectors.client.job_client_log import JobClientLogOptions
from collectors.ganglia.rrd import GangliaRrdOptions
from collectors.history.job_history import JobHistoryOptions
from collectors.logs.container_log import ContainerLogOptions
from collectors.logs.daemon_log import DaemonLogOptions
from collectors.logs.hdfs_audit import HdfsAuditOptions
from collectors.network.http import HttpOptions
from collectors.rest.yarn_rest import YarnRestOptions
from collectors.rest.yarn_timeline import YarnTimelineOptions


def yarn_rest(**options: Any) -> YarnRestOptions:
    return YarnRestOptions(("http://rm:8088",), "http://jhs:19888", **options)


def yarn_timeline(**options: Any) -> YarnTimelineOptions:
    return YarnTimelineOptions("http://ts:8188", **options)


NOT_NEGATIVE: list[tuple[str, Callable[..., object], str]] = [
    ("job client log", lambda **o: JobClientLogOptions(Path(), **o), "lateness_ms hold_ms abandon_ms revisit_ms"),
    ("container log", lambda **o: ContainerLogOptions(Path(), **o), "lateness_ms hold_ms abandon_ms revisit_ms"),
    ("daemon log", lambda **o: DaemonLogOptions(Path(), **o), "lateness_ms"),
    ("HDFS audit log", lambda **o: HdfsAuditOptions(Path(), **o), "lateness_ms"),
    ("job history", lambda **o: JobHistoryOptions((Path(),), **o), "lateness_ms quiet_ms forget_ms max_bytes_per_poll"),
    (
        "ganglia",
        lambda **o: GangliaRrdOptions(Path(), **o),
        "lateness_ms backfill_ms silent_ms vanished_steps forget_ms",
    ),
    ("yarn", yarn_rest, "lateness_ms lookback_ms history_wait_ms stall_ms max_requests_per_poll"),
    ("yarn timeline", yarn_timeline, "lateness_ms lookback_ms settle_ms"),
]
POSITIVE: list[tuple[str, Callable[..., object], str]] = [
    ("yarn", yarn_rest, "master_timeout_ms poll_timeout_ms n_workers"),
    ("yarn timeline", yarn_timeline, "poll_timeout_ms max_requests_per_poll"),
    ("http", HttpOptions, "connect_timeout_s read_timeout_s total_timeout_s n_attempts max_answer_bytes"),
]


@pytest.mark.parametrize(("what", "build", "names"), NOT_NEGATIVE)
def test_what_may_not_be_negative_may_be_zero(what: str, build: Callable[..., object], names: str) -> None:
    for name in names.split():
        assert getattr(build(**{name: 0}), name) == 0
        with pytest.raises(OptionError, match=re.escape(f"{what}: {name} is -1; expected 0 or more")):
            build(**{name: -1})


@pytest.mark.parametrize(("what", "build", "names"), POSITIVE)
def test_what_must_be_more_than_zero(what: str, build: Callable[..., object], names: str) -> None:
    for name in names.split():
        assert getattr(build(**{name: 1}), name) == 1
        for wrong in (0, -1):
            with pytest.raises(OptionError, match=re.escape(f"{what}: {name} is {wrong}; expected more than 0")):
                build(**{name: wrong})


@pytest.mark.parametrize(
    ("what", "build", "name"),
    [
        ("job client log", JobClientLogOptions, "name_pattern"),
        ("daemon log", DaemonLogOptions, "name_pattern"),
        ("HDFS audit log", HdfsAuditOptions, "name_pattern"),
        ("ganglia", GangliaRrdOptions, "metric_pattern"),
    ],
)
def test_a_pattern_that_is_none_is_shown(what: str, build: Callable[..., object], name: str) -> None:
    build(Path(), **{name: r"(?P<host>.+)\.log"})
    with pytest.raises(OptionError, match=re.escape(f"{what}: {name} '(' is no regular expression: missing )")):
        build(Path(), **{name: "("})
