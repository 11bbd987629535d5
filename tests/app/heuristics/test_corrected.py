"""What is corrected, each beside what the original says of the same job."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.heuristics import corrected, dr_elephant
from app.heuristics.figures import JobFigures, TaskFigures
from app.heuristics.judging import judged
from app.heuristics.severity import Severity
from tests.app.heuristics.jobs import MIB, MINUTE, job

NONE, LOW, MODERATE, SEVERE, CRITICAL = Severity
BLOCK = 64 * MIB
RATIO = "mapreduce.job.heap.memory-mb.ratio"


def squares(values: list[int]) -> float:
    mean = sum(values) / len(values) if values else 0.0
    return sum((value - mean) ** 2 for value in values)


@given(st.lists(st.integers(0, 60), max_size=12))
def test_groups_have_the_least_squares_of_all_cuts(values: list[int]) -> None:
    small, large = corrected.two_groups(values)
    assert sorted([*small, *large]) == sorted(values)
    if small and large:
        assert max(small) < min(large)
    ordered = sorted(values)
    cuts = [k for k, (a, b) in enumerate(pairwise(ordered), start=1) if a != b]
    best = min((squares(ordered[:k]) + squares(ordered[k:]) for k in cuts), default=squares(ordered))
    assert squares(small) + squares(large) == pytest.approx(best)


def test_groups_that_the_original_cuts_elsewhere() -> None:
    assert corrected.two_groups([1, 1, 1, 8, 9]) == ([1, 1, 1], [8, 9])
    assert dr_elephant.two_groups([1, 1, 1, 8, 10, 12]) == ([1, 1, 1, 8], [10, 12])  # 10 - 1 = 9, then 11 - 2 = 9
    assert corrected.two_groups([1, 1, 1, 8, 10, 12]) == ([1, 1, 1], [8, 10, 12])
    assert corrected.two_groups([5, 5]) == ([5, 5], [])


def test_time_skew_has_a_score() -> None:
    maps = [{"run_ms": MINUTE, "HDFS_BYTES_READ": 1}] * 200 + [{"run_ms": 17 * MINUTE, "HDFS_BYTES_READ": 1}]
    assert (dr_elephant.mapper_skew(job(maps)).severity, dr_elephant.mapper_skew(job(maps)).score) == (CRITICAL, 0)
    found = corrected.mapper_skew(job(maps))
    assert (found.severity, found.score, found.tasks) == (CRITICAL, 804, ("task_1_0001_m_000200",))


def test_exactly_2_01_spills_are_2_01() -> None:
    maps = [{"SPILLED_RECORDS": 201, "MAP_OUTPUT_RECORDS": 100}] * 1000
    assert dr_elephant.mapper_spill(job(maps)).severity == NONE
    assert corrected.mapper_spill(job(maps)).severity == LOW
    fewer = [{"SPILLED_RECORDS": 2009, "MAP_OUTPUT_RECORDS": 1000}] * 1000
    assert corrected.mapper_spill(job(fewer)).severity == NONE


def test_shuffle_1_99_times_is_not_once() -> None:
    reduces = [{"run_ms": 30 * MINUTE + 1_800_001, "shuffle_ms": 30 * MINUTE}]
    assert corrected.shuffle_sort(job(reduces=reduces)).severity == LOW
    assert corrected.shuffle_sort(job(reduces=reduces)).measures[1].value == pytest.approx(2, abs=1e-5)
    assert (
        corrected.shuffle_sort(job(reduces=[{"run_ms": 60 * MINUTE, "shuffle_ms": 30 * MINUTE}])).severity == MODERATE
    )


def test_all_shared_file_systems_are_read() -> None:
    maps = [{"GS_BYTES_READ": BLOCK, "FILE_BYTES_READ": 1}] * 200 + [{"GS_BYTES_READ": 17 * BLOCK}]
    assert dr_elephant.mapper_skew(job(maps)).severity == NONE
    assert corrected.mapper_skew(job(maps)).severity == CRITICAL
    local = [{"FILE_BYTES_READ": BLOCK}] * 200 + [{"FILE_BYTES_READ": 17 * BLOCK}]
    assert corrected.mapper_skew(job(local)).severity is None


def test_a_map_that_reads_nothing_has_no_speed() -> None:
    maps = [{"run_ms": 30 * MINUTE, "HDFS_BYTES_READ": 0}]
    assert dr_elephant.mapper_speed(job(maps)).severity == CRITICAL
    assert corrected.mapper_speed(job(maps)).severity is None
    some = [*maps, {"run_ms": 0, "HDFS_BYTES_READ": 1}, {"run_ms": 30 * MINUTE, "HDFS_BYTES_READ": 1800 * 13_107_200}]
    assert corrected.mapper_speed(job(some)).severity == SEVERE


def test_the_greatest_peak_counts() -> None:
    settings = {"mapreduce.map.memory.mb": "5120"}
    maps = [{"PHYSICAL_MEMORY_BYTES": 256 * MIB}] * 9 + [
        {"PHYSICAL_MEMORY_BYTES": 1, "MAP_PHYSICAL_MEMORY_BYTES_MAX": 4000 * MIB}
    ]
    assert dr_elephant.mapper_memory(job(maps, settings=settings)).severity == CRITICAL
    assert corrected.mapper_memory(job(maps, settings=settings)).severity == NONE
    found = corrected.mapper_memory(job(maps[:9], settings=settings))
    assert found.severity == CRITICAL
    assert "mapreduce.map.memory.mb to about 512" in found.advice  # 256 MiB and a fifth, in steps of 256


@pytest.mark.parametrize(
    ("settings", "expected_mb"),
    [
        ({"mapreduce.map.memory.mb": "3000"}, 3000),
        ({"mapreduce.map.memory.mb": "-1", "mapreduce.map.java.opts": "-Xmx2g"}, 2560),
        ({"mapreduce.map.memory.mb": "-1", "mapreduce.map.java.opts": "-Xmx800m", RATIO: "0.5"}, 1600),
        ({"mapreduce.map.memory.mb": "-1"}, 1024),
        ({"mapreduce.map.memory.mb": "-1", "mapred.child.java.opts": "-Xmx8g"}, 10240),
        (
            {
                "mapreduce.map.memory.mb": "-1",
                "mapred.child.java.opts": "-Xmx8g",
                "mapreduce.map.java.opts": "-Xmx2g",
            },
            2560,
        ),
        ({"mapreduce.map.memory.mb": "-1", "mapreduce.map.java.opts": "-Xmx1m", RATIO: "x"}, None),
        ({}, None),
        (None, None),
    ],
)  # fmt: skip
def test_size_of_a_container(settings: dict[str, str] | None, expected_mb: int | None) -> None:
    found = corrected.container_bytes(job(settings=settings), "MAP")
    assert found == (None if expected_mb is None else expected_mb * MIB)


def test_memory_of_a_container_that_is_not_known() -> None:
    found = corrected.mapper_memory(job([{"PHYSICAL_MEMORY_BYTES": 1}]))
    assert found.severity is None
    assert "mapreduce.map.memory.mb" in found.note
    without = corrected.mapper_memory(job([{"PHYSICAL_MEMORY_BYTES": 0}], settings={"mapreduce.map.memory.mb": "5120"}))
    assert without.severity is None


def test_gc_of_sums() -> None:
    # averages: 1.5 of 100 ms cut to 1; sums: 3 of 200
    maps = [{"run_ms": 15 * MINUTE, "GC_TIME_MILLIS": n, "CPU_MILLISECONDS": 100} for n in (1, 2)]
    assert dr_elephant.mapper_gc(job(maps)).measures[0].value == 0.01
    assert corrected.mapper_gc(job(maps)).measures[0].value == 0.015
    assert corrected.mapper_gc(job([{"run_ms": 15 * MINUTE, "GC_TIME_MILLIS": 1}])).severity is None


def test_every_threshold_is_that_of_the_original() -> None:
    """The same jobs at and before a limit, where nothing is corrected."""
    for minutes, severity in ((10, LOW), (4, MODERATE), (2, SEVERE), (1, CRITICAL)):
        assert corrected.mapper_time(job([{"run_ms": minutes * MINUTE}] * 1000)).severity == severity
        assert corrected.reducer_time(job(reduces=[{"run_ms": minutes * MINUTE + 1}] * 1000)).severity == severity - 1
    for minutes, severity in ((15, LOW), (30, MODERATE), (60, SEVERE), (120, CRITICAL)):
        assert corrected.mapper_time(job([{"run_ms": minutes * MINUTE}])).severity == severity
        assert corrected.reducer_time(job(reduces=[{"run_ms": minutes * MINUTE - 1}])).severity == severity - 1
    for times, severity in ((2, LOW), (4, MODERATE), (8, SEVERE), (16, CRITICAL)):
        small = [{"REDUCE_SHUFFLE_BYTES": BLOCK}] * 200
        at = [*small, {"REDUCE_SHUFFLE_BYTES": BLOCK * (times + 1)}]
        before = [*small, {"REDUCE_SHUFFLE_BYTES": BLOCK * (times + 1) - 1}]
        assert corrected.reducer_skew(job(reduces=at)).severity == severity
        assert corrected.reducer_skew(job(reduces=before)).severity == severity - 1


def test_sizes_that_do_not_fit_their_names_are_not_known() -> None:
    settings = {"mapreduce.job.cache.files": "a,b", "mapreduce.job.cache.files.filesizes": "1"}
    found = corrected.cached_files(job(settings=settings))
    assert found is not None
    assert found.severity is None


def test_cached_files_of_which_only_names_or_sizes_are_told() -> None:
    for settings in ({"mapreduce.job.cache.files": "a"}, {"mapreduce.job.cache.archives.filesizes": "1"}):
        found = corrected.cached_files(job(settings=settings))
        assert found is not None
        assert found.severity is None
        assert dr_elephant.distributed_cache(job(settings=settings)) is None


def test_a_large_file_is_told_whatever_is_not_known_of_archives() -> None:
    large = {"mapreduce.job.cache.files": "a", "mapreduce.job.cache.files.filesizes": str(10 << 30)}
    for other in ({"mapreduce.job.cache.archives": "b"}, {
        "mapreduce.job.cache.archives": "b,c", "mapreduce.job.cache.archives.filesizes": "1"
    }):  # fmt: skip
        found = corrected.cached_files(job(settings=large | other))
        assert found is not None
        assert found.severity == CRITICAL
        assert found.tasks == ("a",) or list(found.tasks) == ["a"]


@pytest.mark.parametrize("text", ["0" * 5_000, "0" * 20 + "9" * 400, "9" * 30, "-5", "x"])
def test_sizes_that_are_no_numbers_of_bytes_are_0(text: str) -> None:
    settings = {"mapreduce.job.cache.files": "a", "mapreduce.job.cache.files.filesizes": text}
    for judge in (corrected.cached_files, dr_elephant.distributed_cache):
        found = judge(job(settings=settings))
        assert found is not None
        assert found.severity == NONE


def test_nothing_known_is_never_none() -> None:
    bare = JobFigures("job_1_0001", status="SUCCEEDED", n_maps=2, n_reduces=1, maps=(TaskFigures("t"),))
    judgement = judged(bare)
    assert {finding.severity for finding in (*judgement.corrected, *judgement.dr_elephant)} == {None}
    assert judgement.severity is None
    assert any("only 1 of its 2 maps" in gap for gap in judgement.gaps)
    assert any("_conf.xml" in gap for gap in judgement.gaps)


def test_a_map_only_job() -> None:
    found = {one.heuristic: one.severity for one in judged(job([{"run_ms": MINUTE, "HDFS_BYTES_READ": 1}])).corrected}
    assert found["mapper-spill"] == NONE
    assert found["shuffle-sort"] == NONE
    assert found["reducer-memory"] == NONE
