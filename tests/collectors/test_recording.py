"""All collectors on the recorded cluster, poll by poll: counts agree with independent ones, nothing is late."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.replay.recorded_rest import RecordedRest
from collectors.base import Collector, Problem, SourceUnavailableError
from collectors.ganglia.rrd import GangliaRrdCollector, GangliaRrdOptions
from collectors.history.job_history import JobHistoryCollector, JobHistoryOptions
from collectors.logs.container_log import ContainerLogCollector, ContainerLogOptions
from collectors.logs.daemon_log import DaemonLogCollector, DaemonLogOptions
from collectors.metrics.load_balance import LoadDeriver
from collectors.network.http import Answer
from collectors.rest.yarn_rest import YarnRestCollector, YarnRestOptions
from engine.events import EventBatch
from tests.collectors.rrds import rrdtool_rows


@dataclass
class Replayed:
    """What one collector gave over the whole recording."""

    batches: list[EventBatch] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    n_late: int = 0
    watermark_ms: int = 0

    @property
    def events(self) -> EventBatch:
        return EventBatch.concat(self.batches)

    @property
    def types(self) -> Counter[str]:
        return Counter(self.events.strings("type").to_pylist())

    def rows(self) -> dict[str, dict[str, Any]]:
        return {row["event_id"]: row for row in self.events.rows()}


class RecordedTransport:
    """REST as it was answered."""

    def __init__(self, path: Path) -> None:
        self._recorded = RecordedRest(path)

    def get(self, base_url: str, path: str, now_ms: int) -> Answer:
        answer = self._recorded.answer(path, now_ms)
        if answer.status == 0:
            raise SourceUnavailableError("there was no answer")
        return Answer(base_url + path, answer.status, answer.content_type, answer.body.encode(), answer.t_ms)


@pytest.fixture(scope="module")
def replayed(recording: Path) -> dict[str, Replayed]:
    manifest = yaml.safe_load((recording / "manifest.yaml").read_text(encoding="utf-8"))
    load = LoadDeriver()
    collectors: list[Collector] = [
        JobHistoryCollector(JobHistoryOptions((recording / "history",))),
        ContainerLogCollector(ContainerLogOptions(recording / "userlogs")),
        DaemonLogCollector(DaemonLogOptions(recording / "daemons")),
        GangliaRrdCollector(GangliaRrdOptions(recording / "rrds")),
        YarnRestCollector(YarnRestOptions(lateness_ms=1_000), RecordedTransport(recording / "rest.jsonl.gz")),
    ]
    found = {collector.name: Replayed() for collector in collectors} | {"load": Replayed()}
    for now_ms in range(manifest["started_ms"], manifest["ended_ms"] + 120_000, 5_000):
        for collector in collectors:
            result = found[collector.name]
            try:
                polled = collector.poll(now_ms)
            except SourceUnavailableError:
                assert now_ms == manifest["started_ms"]  # before the recorder's first answer
                continue
            assert polled.watermark_ms >= result.watermark_ms
            result.n_late += int((polled.events.t_lo_ms < result.watermark_ms).sum())
            assert not len(polled.events) or polled.events.t_hi_ms.max() <= now_ms
            result.batches += [polled.events, *(finished.events for finished in polled.finished)]
            result.problems += polled.problems
            if collector.name == "ganglia_rrd":
                derived = load.derive(polled.events, polled.watermark_ms)
                found["load"].n_late += int((derived.t_lo_ms < result.watermark_ms).sum())
                found["load"].batches.append(derived)
            result.watermark_ms = polled.watermark_ms
    return found


def text_of(folder: Path, pattern: str) -> Iterator[str]:
    for path in sorted(folder.rglob(pattern)):
        yield path.read_text(encoding="utf-8", errors="replace")


def test_nothing_is_late_double_or_wrong(replayed: dict[str, Replayed]) -> None:
    for name, result in replayed.items():
        assert result.n_late == 0, name
        ids = result.events.strings("event_id").to_pylist()
        assert len(ids) == len(set(ids)), name
        assert name == "daemon_log" or ids
    assert [p for name, result in replayed.items() for p in result.problems if name != "yarn_rest"] == []


def test_job_history_agrees_with_a_count_of_records(recording: Path, replayed: dict[str, Replayed]) -> None:
    text = "\n".join(text_of(recording / "history", "*.jhist"))
    records = Counter(re.findall(r'^ ?\{"type":"([A-Z_]+)","event"', text, re.MULTILINE))
    found = replayed["job_history"].types
    assert found["JobStart"] == records["JOB_INITED"]
    assert found["JobEnd"] == sum(records[f"JOB_{how}"] for how in ("FINISHED", "FAILED", "KILLED", "ERROR"))
    assert found["MapStart"] == records["MAP_ATTEMPT_STARTED"] > 30
    assert found["ReducerStart"] == records["REDUCE_ATTEMPT_STARTED"] > 10


def test_every_fetch_is_a_pull(recording: Path, replayed: dict[str, Replayed]) -> None:
    text = "\n".join(text_of(recording / "userlogs", "syslog*"))
    read = Counter(re.findall(r"Read \d+ bytes from map-output for (attempt_\w+)", text))
    pulls = [row for row in replayed["container_log"].rows().values() if row["type"] == "DataPull"]
    assert Counter(row["map_attempt_id"] for row in pulls) == read
    assert -sum(
        row["size_bytes"] for row in replayed["container_log"].rows().values() if row["type"] == "DataIO"
    ) == sum(int(n) for n in re.findall(r"about to shuffle output of map \S+ decomp: \d+ len: (\d+)", text))
    freed = [int(ms) for ms in re.findall(r"freed by fetcher#\d+ in (\d+)ms", text)]
    periods = [row["period_ms"] for row in pulls]
    # Each pull of an assignment is a part of it, and what is between is little.
    assert max(freed) - 50 <= max(periods) <= max(freed)
    assert sum(periods) <= sum(freed)
    assert {row["source_host"] for row in pulls} <= {f"node{i}" for i in range(1, 7)}


def test_rrds_agree_with_the_command_line_tool(recording: Path, replayed: dict[str, Replayed]) -> None:
    found: dict[tuple[str, str], dict[int, float]] = {}
    for row in replayed["ganglia_rrd"].events.rows():
        found.setdefault((row["host"], row["name"]), {})[row["t_hi_ms"] // 1000] = row["value"]
    hosts = {host for host, _ in found}
    assert len(hosts) == 6
    for host in sorted(hosts):
        (path,) = (recording / "rrds").glob(f"*/{host}/cpu_user.rrd")
        rows = found[host, "cpu_user"]
        expected = rrdtool_rows(path, min(rows) - 1, max(rows))
        assert rows == pytest.approx(expected)
        assert len(rows) > 50
    n_steps = len({t for rows in found.values() for t in rows})
    assert replayed["load"].types["LoadStd"] == n_steps


# A host's rack is known to REST from the start; all else is the same.
OF_ONE_SIDE = ("origin", "source_seq", "source_rank", "rack")
COUNTED = ("Mapper", "Reducer", "DataIO")


def test_rest_tells_the_life_cycles_that_history_tells(replayed: dict[str, Replayed]) -> None:
    history, rest = told_by_then(replayed), replayed["yarn_rest"].rows()
    only_rest = set(rest) - set(replayed["job_history"].rows())
    assert {rest[event_id]["type"] for event_id in only_rest} == {"TaskSample", "AppWaiting"}
    life_cycle = {event_id: row for event_id, row in history.items() if row["type"] not in COUNTED}
    assert len(life_cycle) > 100
    assert {event_id: plain(rest[event_id]) for event_id in life_cycle} == {i: plain(r) for i, r in life_cycle.items()}


def test_rest_tells_the_counters_that_history_tells(replayed: dict[str, Replayed]) -> None:
    history, rest = told_by_then(replayed), replayed["yarn_rest"].rows()
    assert {event_id: plain(rest[event_id]) for event_id in history} == {i: plain(r) for i, r in history.items()}
    assert replayed["yarn_rest"].problems == []


def test_pending_containers_are_those_whose_memory_the_scheduler_counts(replayed: dict[str, Replayed]) -> None:
    waits = [row for row in replayed["yarn_rest"].rows().values() if row["type"] == "AppWaiting"]
    told = Counter((row["state"], row["n_pending"]) for row in waits)
    # Racks and hosts that stand in the list beside them are not counted, nor what is left of fulfilled requests.
    assert told == {("ACCEPTED", 0): 14, ("ACCEPTED", 1): 1, ("RUNNING", 1): 3}
    assert all(row["pending_bytes"] == row["n_pending"] * 512 * 2**20 for row in waits)
    assert all(row["allocated_bytes"] == row["n_containers"] * 512 * 2**20 for row in waits)


def told_by_then(replayed: dict[str, Replayed]) -> dict[str, dict[str, Any]]:
    """What history says of the time that REST's last watermark has passed: REST must have told it all."""
    last_ms = replayed["yarn_rest"].watermark_ms
    return {event_id: row for event_id, row in replayed["job_history"].rows().items() if row["t_lo_ms"] < last_ms}


def plain(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in OF_ONE_SIDE}


def test_logs_prove_ends_at_the_times_of_history(replayed: dict[str, Replayed]) -> None:
    history = replayed["job_history"].rows()
    ends = [row for row in replayed["container_log"].rows().values() if row["type"] in ("MapEnd", "ReducerEnd")]
    assert len(ends) > 40
    differences = [
        abs(history[row["event_id"]]["t_lo_ms"] - row["t_lo_ms"]) for row in ends if row["event_id"] in history
    ]
    assert len(differences) == len(ends)
    assert max(differences) < 1_000
