"""Coarser archives of RRDs, where no finer row is: against what the command line tool reads, by definition."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from collectors.base import Collected
from collectors.ganglia.rrd import GangliaRrdCollector, GangliaRrdOptions
from collectors.time_units import MAX_TIME_MS
from tests.collectors import rrds
from tests.collectors.rrds import STEP_S, T0_S

Archives = list[tuple[int, int, float]]
"""Steps in a row, rows, share of unknown steps that a row may have."""


def written(path: Path, archives: Archives, values: list[float | None], *others: str) -> None:
    texts = [f"RRA:AVERAGE:{xff}:{n_steps}:{n_rows}" for n_steps, n_rows, xff in archives]
    rrds.write_rrd(path, values, archives=[*others, *texts])


def polled(root: Path, *, coarser: bool = True, now_ms: int = MAX_TIME_MS) -> Collected:
    options = GangliaRrdOptions(root, backfill_ms=MAX_TIME_MS, coarser=coarser)
    return GangliaRrdCollector(options).poll(now_ms)


def samples(found: Collected) -> dict[rrds.Sample, float]:
    rows = list(found.events.rows())
    told = {(row["t_hi_ms"] // 1000, row["resolution_ms"] // 1000): row["value"] for row in rows}
    assert len(told) == len(rows) == len({row["event_id"] for row in rows})
    assert all(row["t_hi_ms"] - row["t_lo_ms"] + 1 == row["resolution_ms"] for row in rows)
    return told


def expected(path: Path, archives: Archives, n_values: int) -> dict[rrds.Sample, float]:
    all_rows = rrds.archived(path, [(n_steps, n_rows) for n_steps, n_rows, _ in archives], T0_S + n_values * STEP_S)
    return rrds.each_time_once(all_rows)


@pytest.mark.parametrize("seed", range(12))
def test_each_time_once_as_the_command_line_tool_has_it(tmp_path: Path, seed: int) -> None:
    rrds.rrdtool_or_skip()
    generator = random.Random(seed)
    steps = [1, *sorted(generator.sample((2, 3, 4, 6, 8, 9, 12, 24), generator.randint(1, 3)))]
    archives = [(n, generator.randint(3, 20), generator.choice((0.0, 0.5, 0.9))) for n in steps]
    values: list[float | None] = []
    while len(values) < 260:  # in runs, as hosts come and go
        known = generator.random() < 0.6
        values += [generator.uniform(0, 100) if known else None for _ in range(generator.randint(1, 30))]
    path = tmp_path / "c" / "h" / "cpu_user.rrd"
    written(path, archives, values, "RRA:MAX:0.5:1:300", "RRA:LAST:0.5:7:300")
    assert samples(polled(tmp_path)) == pytest.approx(expected(path, archives, len(values)))


def test_coarser_rows_begin_where_the_finer_ones_end(tmp_path: Path) -> None:
    path = tmp_path / "c" / "h" / "cpu_user.rrd"
    written(path, [(1, 10, 0.5), (4, 10, 0.5), (40, 5, 0.5)], [float(i % 7) for i in range(200)])
    found = samples(polled(tmp_path))
    # The last minute of the archive has ended 30 s before the file, so that two are in the last 150 s.
    assert {step_s: sum(step == step_s for _, step in found) for step_s in (15, 60, 600)} == {15: 10, 60: 8, 600: 4}
    assert samples(polled(tmp_path, coarser=False)).keys() == {row for row in found if row[1] == STEP_S}


def test_a_coarser_row_that_a_finer_one_equals_is_another_event(tmp_path: Path) -> None:
    path = tmp_path / "c" / "h" / "cpu_user.rrd"
    minute_s = T0_S + 90
    written(path, [(1, 4, 0.5), (4, 4, 0.5)], [5.0] * 6)
    (fine,) = (row for row in polled(tmp_path).events.rows() if row["t_hi_ms"] == minute_s * 1000)
    rrds.extend_rrd(path, [5.0] * 4, start_s=minute_s)
    (coarse,) = (row for row in polled(tmp_path).events.rows() if row["t_hi_ms"] == minute_s * 1000)
    assert (fine["value"], fine["resolution_ms"]) == (5.0, 15_000)
    assert (coarse["value"], coarse["resolution_ms"]) == (5.0, 60_000)
    assert fine["event_id"] != coarse["event_id"]


def test_what_is_read_anew_goes_on_at_the_finest_rows(tmp_path: Path) -> None:
    path = tmp_path / "c" / "h" / "cpu_user.rrd"
    written(path, [(1, 10, 0.5), (4, 10, 0.5)], [1.0] * 40)
    collector = GangliaRrdCollector(GangliaRrdOptions(tmp_path, coarser=True))
    assert len(collector.poll(MAX_TIME_MS).events) > 10
    rrds.extend_rrd(path, [2.0, 3.0], start_s=T0_S + 40 * STEP_S)
    again = [(row["value"], row["resolution_ms"]) for row in collector.poll(MAX_TIME_MS).events.rows()]
    assert again == [(2.0, 15_000), (3.0, 15_000)]


@pytest.mark.parametrize("restarted", [False, True])
def test_after_a_long_stop_live_reads_the_finest_rows_that_are_left_and_says_what_it_missed(
    tmp_path: Path, restarted: bool
) -> None:
    path = tmp_path / "c" / "h" / "cpu_user.rrd"
    written(path, [(1, 10, 0.5), (4, 100, 0.5)], [1.0] * 20)
    written(path.with_name("load_one.rrd"), [(1, 10, 0.5), (4, 100, 0.5)], [1.0] * 20)
    collector = GangliaRrdCollector(GangliaRrdOptions(tmp_path))
    before_ms = (T0_S + 20 * STEP_S) * 1000
    first = collector.poll(before_ms)
    assert len(first.events) == 20
    if restarted:
        position = collector.checkpoint()
        collector = GangliaRrdCollector(GangliaRrdOptions(tmp_path))
        collector.restore(position)
    for name in ("cpu_user", "load_one"):
        rrds.extend_rrd(path.with_name(f"{name}.rrd"), [2.0] * 40, start_s=T0_S + 20 * STEP_S)
    found = collector.poll(before_ms + 40 * STEP_S * 1000)
    rows = list(found.events.rows())
    assert {row["resolution_ms"] for row in rows} == {STEP_S * 1000}
    assert sorted({row["t_hi_ms"] // 1000 for row in rows}) == [T0_S + n * STEP_S for n in range(51, 61)]
    (problem,) = [problem for problem in found.problems if problem.kind == "missed"]
    # Nothing was promised of the last 5 s before the stop.
    assert (problem.place, problem.message.split(" are left out")[0]) == (
        str(tmp_path),
        f"{30 * STEP_S + 5} s of samples from {T0_S + 20 * STEP_S - 5} s after the epoch on",
    )
    assert collector.poll(before_ms + 41 * STEP_S * 1000).problems == ()


def test_of_two_archives_of_one_step_the_longer_one_is_read(tmp_path: Path) -> None:
    path = tmp_path / "c" / "h" / "cpu_user.rrd"
    written(path, [(1, 5, 0.5), (1, 12, 0.5)], [float(i) for i in range(40)])
    assert [value for _, value in sorted(samples(polled(tmp_path)).items())] == [float(i) for i in range(28, 40)]
