"""Logs that were read in a wrong time zone: the shift is found, and nothing is said of those that are right."""

from __future__ import annotations

import shutil
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.time_units import MINUTE_MS
from deploy.minicluster.recording import packing
from spark_jobs.ingest.job import ingest_here
from spark_jobs.ingest.kinds import IngestOptions
from spark_jobs.ingest.on_this_machine import Limits
from spark_jobs.ingest.time_zones import KIND, LEAST_SHIFT_MS, MOST_SHIFT_MS, SLACK_MS, zone_shift_ms
from tests.conftest import RECORDING

LIMITS, PRECEDENCE = Limits(1_000, 1 << 26), ("job_history", "container_log")


@given(
    st.sampled_from(["Asia/Kathmandu", "America/New_York", "Asia/Kolkata", "Europe/Berlin", "Pacific/Kiritimati"]),
    st.integers(MINUTE_MS, 20 * MINUTE_MS),
    st.integers(0, 10**9),
)
def test_the_shift_of_a_zone_is_found(zone: str, length_ms: int, start_s: int) -> None:
    moment = datetime.fromtimestamp(1_600_000_000 + start_s, ZoneInfo(zone))
    offset_ms = round((moment.utcoffset() or timedelta()).total_seconds() * 1000)
    start_ms = round(moment.timestamp() * 1000)
    # Read as UTC, times of this zone lie so much later than they were.
    first_ms, last_ms = start_ms + 1_000 + offset_ms, start_ms + length_ms - 1_000 + offset_ms
    shift_ms = zone_shift_ms(first_ms, last_ms, start_ms, start_ms + length_ms)
    assert shift_ms is not None
    assert start_ms - SLACK_MS <= first_ms + shift_ms
    assert last_ms + shift_ms <= start_ms + length_ms + SLACK_MS
    if length_ms < 10 * MINUTE_MS:
        assert shift_ms == -offset_ms


@given(st.integers(0, 10**7), st.integers(0, 10**6), st.integers(0, 10**7), st.integers(0, 10**8))
def test_no_shift_that_no_zone_has(first_ms: int, length_ms: int, start_ms: int, job_ms: int) -> None:
    shift_ms = zone_shift_ms(first_ms, first_ms + length_ms, start_ms, start_ms + job_ms)
    if shift_ms is not None:
        assert shift_ms % (15 * MINUTE_MS) == 0
        assert LEAST_SHIFT_MS <= abs(shift_ms) <= MOST_SHIFT_MS
        assert not (first_ms <= start_ms + job_ms and start_ms <= first_ms + length_ms)


@pytest.mark.parametrize("in_one", [True, False], ids=["with histories", "histories stored before"])
def test_an_ingest_warns_of_a_wrong_zone(tmp_path: Path, in_one: bool) -> None:
    recording, store = tmp_path / "recording", str(tmp_path / "store")
    packing.unpack(RECORDING, recording)
    shutil.rmtree(recording / "rrds")
    options = replace(IngestOptions(), container_zone="Asia/Kolkata")
    if not in_one:
        assert ingest_here(store, PRECEDENCE, [str(recording / "history")], options, LIMITS) is not None
    paths = [str(recording)] if in_one else [str(recording / "userlogs")]
    report = ingest_here(store, PRECEDENCE, paths, options, LIMITS)
    assert report is not None
    told = [problem.message for problem in report.problem_list if problem.kind == KIND]
    assert len(told) > 50
    assert all("5 h 30 min later" in message or " 5 h later" in message or " 6 h later" in message for message in told)
    right = ingest_here(str(tmp_path / "right"), PRECEDENCE, [str(recording)], IngestOptions(), LIMITS)
    assert right is not None
    assert right.problems == ()
