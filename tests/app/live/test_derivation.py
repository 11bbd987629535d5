"""The load of the nodes, from samples of any source: a host counts once, Ganglia's results stay as they were."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.live.derivation import Derivation
from app.live.intake import Intake, Source
from collectors.base import PositionError
from collectors.ganglia.rrd import GangliaRrdCollector, GangliaRrdOptions
from collectors.metrics.load_balance import LoadDeriver
from collectors.schema import load_event_types
from engine.events import EventBatch
from tests.collectors.prometheus.exporters import T0, Exporter, collector_of, recorded
from tests.collectors.prometheus.test_prometheus import cpu

STEP_MS = 15_000


def samples(source: str, end_ms: int, **hosts: float) -> Intake:
    """A step of cpu_user."""
    rows: list[dict[str, Any]] = [
        {
            "event_id": f"{source}/{host}/{end_ms}", "type": "Metric", "t_lo_ms": end_ms - STEP_MS + 1,
            "t_hi_ms": end_ms, "clock_id": f"{source}:c", "host": host, "name": "cpu_user", "value": value,
        }
        for host, value in hosts.items()
    ]  # fmt: skip
    return Intake(source, end_ms, EventBatch.from_rows(rows, load_event_types()), end_ms + 1)


def load(intake: Intake) -> list[tuple[str, int]]:
    """(clock, number of hosts) of each LoadStd."""
    return [(row["clock_id"], row["n_hosts"]) for row in intake.events.rows() if row["type"] == "LoadStd"]


def derivation() -> Derivation:
    return Derivation({"ganglia_rrd": LoadDeriver(), "prometheus": LoadDeriver(of_polls=True)})


def test_a_host_counts_in_the_source_that_goes_before() -> None:
    stage = derivation()
    assert load(stage.apply(samples("prometheus", 15_000, a=1.0, b=2.0))) == [("load:prometheus:c", 2)]
    assert load(stage.apply(samples("ganglia_rrd", 15_000, a=1.0))) == [("load:ganglia_rrd:c", 1)]
    both = stage.apply(samples("prometheus", 30_000, a=1.0, b=2.0))
    assert load(both) == [("load:prometheus:c", 1)]
    assert len(both.events.of_types(["Metric"])) == 2  # the samples themselves stay
    assert load(stage.apply(samples("ganglia_rrd", 30_000, a=1.0))) == [("load:ganglia_rrd:c", 1)]
    # Ganglia falls silent: after some steps the host is the other's.
    later = [load(stage.apply(samples("prometheus", end, a=1.0, b=2.0))) for end in range(45_000, 150_000, 15_000)]
    assert [n for ((_, n),) in later] == [1, 1, 1, 1, 2, 2, 2]


def test_samples_that_hold_keep_their_host_as_long() -> None:
    """However short their intervals are: those of reports are a second long."""
    derivers = {"gmond": LoadDeriver(of_polls=True, hold_ms=60_000), "jmx": LoadDeriver(of_polls=True)}
    stage = Derivation(derivers, holds_ms={"gmond": 60_000})
    stage.apply(samples("gmond", 15_000, a=1.0))
    found = [load(stage.apply(samples("jmx", end, a=1.0, b=2.0))) for end in (30_000, 75_000, 105_000)]
    assert [n for ((_, n),) in found] == [1, 1, 2]


def test_samples_without_a_length_keep_their_host_for_some_polls() -> None:
    """As those of daemons and of `load_one`: their length says nothing of how often they come."""

    def asked(source: str, t_ms: int, **hosts: float) -> Intake:
        told = samples(source, t_ms, **hosts)
        rows = [row | {"t_lo_ms": t_ms, "t_hi_ms": t_ms} for row in told.events.rows()]
        return Intake(source, t_ms, EventBatch.from_rows(rows, load_event_types()), t_ms - 5_000)

    stage = Derivation({"jmx": LoadDeriver(of_polls=True), "prometheus": LoadDeriver(of_polls=True)})
    assert load(stage.apply(asked("jmx", 0, a=1.0))) == [("load:jmx:c", 1)]
    later = [load(stage.apply(asked("prometheus", t_ms, a=1.0, b=2.0))) for t_ms in (10_000, 90_000, 180_001)]
    assert [n for ((_, n),) in later] == [1, 1, 2]


def test_the_state_goes_on_after_a_restart() -> None:
    stage = derivation()
    stage.apply(samples("ganglia_rrd", 15_000, a=1.0, b=5.0))
    again = derivation()
    again.restore(json.loads(json.dumps(stage.save())))
    intake = samples("prometheus", 30_000, a=1.0, c=2.0)
    assert load(again.apply(intake)) == load(stage.apply(intake)) == [("load:prometheus:c", 1)]
    with pytest.raises(PositionError):
        again.restore({"version": 1})


def test_the_state_of_checkpoints_of_before_is_taken_up() -> None:
    """They had it beside the source's read position."""
    deriver, stage = LoadDeriver(), Derivation({"ganglia_rrd": LoadDeriver()})
    waiting = samples("ganglia_rrd", 15_000, a=1.0)
    deriver.derive(waiting.events, 0)
    stage.restore_from_positions({"ganglia_rrd": {"collector": {}, "deriver": deriver.checkpoint()}, "jmx": {}})
    assert load(stage.apply(samples("ganglia_rrd", 30_000, a=1.0))) == [("load:ganglia_rrd:c", 1)] * 2
    with pytest.raises(PositionError):
        stage.restore_from_positions({"ganglia_rrd": {"deriver": 7}})


def test_the_recording_gives_what_ganglia_alone_gives(recording: Path) -> None:
    """As the deriver gives it straight behind the collector, at the same polls, whatever else is configured."""
    manifest = yaml.safe_load((recording / "manifest.yaml").read_text(encoding="utf-8"))
    alone, collector = LoadDeriver(), GangliaRrdCollector(GangliaRrdOptions(recording / "rrds"))
    source, stage = Source(GangliaRrdCollector(GangliaRrdOptions(recording / "rrds"))), derivation()
    n_derived = 0
    for now_ms in range(manifest["started_ms"], manifest["ended_ms"] + 120_000, 15_000):
        told = collector.poll(now_ms)
        expected = EventBatch.concat([told.events, alone.derive(told.events, told.watermark_ms)])
        intake = stage.apply(source.poll(now_ms))
        assert list(intake.events.rows()) == list(expected.rows())
        assert intake.watermark_ms == told.watermark_ms
        n_derived += len(intake.events.of_types(["LoadStd"]))
    assert n_derived == 151


def test_exporters_alone_yield_the_load_at_the_poll_that_brought_it() -> None:
    exporters = {f"n{i}:9100": Exporter(cpu(idle=1_000, user=100)) for i in range(4)}
    collector = collector_of(exporters)
    source, stage = Source(collector), Derivation({"prometheus": LoadDeriver(of_polls=True)})
    first = stage.apply(source.poll(T0))
    assert load(first) == []
    shares = (10.0, 10.0, 10.0, 90.0)
    for exporter, share in zip(exporters.values(), shares, strict=True):
        exporter.text = cpu(idle=1_000 + (100 - share) / 10, user=100 + share / 10)
    second = stage.apply(source.poll(T0 + 15_000))
    (std,) = [row for row in second.events.rows() if row["type"] == "LoadStd"]
    assert std["val"] == pytest.approx(statistics.pstdev(shares))
    assert (std["n_hosts"], std["n_missing"], std["host_1"], std["clock_id"]) == (4, 0, "n3", "load:prometheus:default")
    assert (std["t_lo_ms"], std["t_hi_ms"]) == (T0 + 1, T0 + 15_000)
    (unbalanced,) = second.events.of_types(["Imbalance", "Balance"]).rows()
    assert (unbalanced["type"], unbalanced["busy_ratio"]) == ("Imbalance", 0.25)
    assert first.watermark_ms is not None
    assert std["t_lo_ms"] >= first.watermark_ms  # it is never late
    exporters["n3:9100"].failure = "gone"
    for exporter in exporters.values():
        exporter.text = cpu(idle=1_100, user=200)
    third = stage.apply(source.poll(T0 + 30_000))
    (std,) = [row for row in third.events.rows() if row["type"] == "LoadStd"]
    assert (std["n_hosts"], std["n_missing"]) == (3, 1)


def test_a_recorded_exporter_and_ganglia_name_and_measure_alike() -> None:
    """The table that both use: units of what both tell are the same."""
    exporter = Exporter(recorded(1))
    collector = collector_of({"n:9100": exporter})
    collector.poll(T0)
    exporter.text = recorded(2)
    told = {row["name"]: row.get("unit") for row in collector.poll(T0 + STEP_MS).events.rows()}
    assert told["cpu_user"] == "%"
    assert told["bytes_in"] == "bytes/sec"
