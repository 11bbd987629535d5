"""One RRD ingested three times as it ages: each time is stored once, as fine as it was ever there."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from app.live.clock_skew import ClockSkewBounds
from spark_jobs.event_store import EventStore
from spark_jobs.event_store.on_this_machine import read_few
from spark_jobs.ingest.job import ingest, ingest_here
from spark_jobs.ingest.kinds import IngestOptions
from spark_jobs.ingest.on_this_machine import Limits
from spark_jobs.ingest.report import IngestReport
from tests.collectors import rrds
from tests.collectors.rrds import STEP_S, T0_S

ARCHIVES = ((1, 20), (4, 30), (24, 20))
AGES = (70, 84, 420)
"""In steps: hardly older, and so old that the finest archive has forgotten all that it had."""
COLUMNS = ("event_id", "type", "t_lo_ms", "t_hi_ms", "host", "value", "resolution_ms", "n_hosts", "skew_ms")


def values_of(seed: int) -> list[float | None]:
    generator, values = random.Random(seed), list[float | None]()
    while len(values) < AGES[-1]:
        known = not values or generator.random() < 0.7
        values += [generator.uniform(0, 100) if known else None for _ in range(generator.randint(1, 40))]
    return values[: AGES[-1]]


def aged(root: Path) -> list[Path]:
    """Copies of two hosts' files at each age."""
    for host, seed in (("h1", 1), ("h2", 2)):
        values = values_of(seed)
        for age in AGES:  # in one go or in pieces, an RRD is the same
            texts = [f"RRA:AVERAGE:0.5:{n_steps}:{n_rows}" for n_steps, n_rows in ARCHIVES]
            rrds.write_rrd(root / str(age) / "rrds" / "c" / host / "cpu_user.rrd", values[:age], archives=texts)
    return [root / str(age) for age in AGES]


def expected(folders: list[Path]) -> dict[tuple[str, int, int], float]:
    """By host, end and length in seconds, from what the command line tool reads of all copies."""
    found = {}
    for host in ("h1", "h2"):
        rows: dict[rrds.Sample, float] = {}
        for folder in folders:
            updated_s = T0_S + int(folder.name) * STEP_S
            rows |= rrds.archived(folder / "rrds" / "c" / host / "cpu_user.rrd", ARCHIVES, updated_s)
        found.update({(host, *row): value for row, value in rrds.each_time_once(rows).items()})
    return found


def stored(place: Path) -> list[dict[str, Any]]:
    table = read_few(str(place), ("Metric", "LoadStd"), COLUMNS, None, None, 1_000_000)
    assert table is not None
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


def samples(rows: list[dict[str, Any]]) -> dict[tuple[str, int, int], float]:
    own = [row for row in rows if row["type"] == "Metric"]
    skew_ms = [row.get("skew_ms") or 0 for row in own]
    found = {
        (row["host"], (row["t_hi_ms"] - skew) // 1000, row["resolution_ms"] // 1000): row["value"]
        for row, skew in zip(own, skew_ms, strict=True)
    }
    assert len(found) == len(own)
    return found


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 0)])
@pytest.mark.parametrize("skew_ms", [0, 4_000])
def test_each_time_as_fine_as_it_ever_was(tmp_path: Path, order: tuple[int, ...], skew_ms: int) -> None:
    rrds.rrdtool_or_skip()
    folders = aged(tmp_path / "in")
    options = IngestOptions(clock_skew=ClockSkewBounds(skew_ms))
    told = list[IngestReport]()
    for n_done, place in enumerate(order, 1):
        report = ingest_here(
            str(tmp_path / "s"), ("ganglia_rrd",), [str(folders[place])], options, Limits(100, 1 << 24)
        )
        assert report is not None
        told.append(report)
        assert samples(stored(tmp_path / "s")) == pytest.approx(expected([folders[i] for i in order[:n_done]]))
    assert sum(report.n_overlapped + report.n_superseded for report in told) > 0
    resolutions = {step_s for _, _, step_s in samples(stored(tmp_path / "s"))}
    assert resolutions == {15, 60, 360}
    again = ingest_here(str(tmp_path / "s"), ("ganglia_rrd",), [str(folders[0])], options, Limits(100, 1 << 24))
    assert again is not None
    assert (again.n_new, again.n_stored_files, again.n_superseded) == (0, 0, 0)


def test_load_is_of_the_finest_samples_alone(tmp_path: Path) -> None:
    folders = aged(tmp_path / "in")
    for folder in folders:
        assert ingest_here(str(tmp_path / "s"), ("ganglia_rrd",), [str(folder)], IngestOptions(), Limits(100, 1 << 24))
    rows = stored(tmp_path / "s")
    ends = {end_s * 1000 for _, end_s, step_s in samples(rows) if step_s == STEP_S}
    load = [row for row in rows if row["type"] == "LoadStd"]
    assert sorted(row["t_hi_ms"] for row in load) == sorted(ends)
    assert {row["t_hi_ms"] - row["t_lo_ms"] + 1 for row in load} == {STEP_S * 1000}
    hosts = [end_s for _, end_s, step_s in samples(rows) if step_s == STEP_S]
    assert all(row["n_hosts"] == hosts.count(row["t_hi_ms"] // 1000) for row in load)


def test_on_spark_as_here(spark: SparkSession, tmp_path: Path) -> None:
    folders = aged(tmp_path / "in")
    store = EventStore.create(spark, str(tmp_path / "there"), precedence=("ganglia_rrd",))
    for folder in (folders[2], folders[0]):
        here = ingest_here(str(tmp_path / "s"), ("ganglia_rrd",), [str(folder)], IngestOptions(), Limits(100, 1 << 24))
        there = ingest(spark, store, [str(folder)], IngestOptions())
        assert here is not None
        for name in ("n_new", "n_duplicate", "n_overlapped", "n_superseded"):
            assert getattr(there, name) == getattr(here, name)
        assert {row["event_id"] for row in stored(tmp_path / "there")} == {
            row["event_id"] for row in stored(tmp_path / "s")
        }
