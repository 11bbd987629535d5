"""Every threshold from both sides: the values stand here as computed by hand from the formulas."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from app.heuristics import dr_elephant
from app.heuristics.figures import JobFigures, TaskFigures
from app.heuristics.severity import Finding, Severity
from tests.app.heuristics.jobs import MIB, MINUTE, job

NONE, LOW, MODERATE, SEVERE, CRITICAL = Severity
NAMES = [severity.name for severity in Severity][1:]
STEPS = [*zip((LOW, MODERATE, SEVERE, CRITICAL), (NONE, LOW, MODERATE, SEVERE), strict=True)]
"""(severity at a limit, severity just before it)."""


def steps(limits: Sequence[int]) -> list[tuple[int, tuple[Severity, Severity]]]:
    return [*zip(limits, STEPS, strict=True)]


BLOCK = 64 * MIB
SIDES = ("maps", "reduces")


def told(found: Finding) -> tuple[Severity | None, int]:
    return found.severity, found.score


def same(n: int, **values: Any) -> list[dict[str, Any]]:
    return [values] * n


# ---- skew: 16 times the smaller size, a block, 200 tasks in the smaller group, unless a limit is tried ---------------


def skewed_data(side: str, n_small: int, small: int, large: int) -> Finding:
    counter = "HDFS_BYTES_READ" if side == "maps" else "REDUCE_SHUFFLE_BYTES"
    tasks = [*same(n_small, **{counter: small}), {counter: large}]
    judge = dr_elephant.mapper_skew if side == "maps" else dr_elephant.reducer_skew
    return judge(job(**{side: tasks}))


def skewed_time(side: str, n_small: int, small_ms: int, large_ms: int) -> Finding:
    tasks = [*same(n_small, run_ms=small_ms), {"run_ms": large_ms}]
    judge = dr_elephant.mapper_skew if side == "maps" else dr_elephant.reducer_skew
    return judge(job(**{side: tasks}))


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize(("times", "step"), steps((2, 4, 8, 16)), ids=NAMES)
def test_deviation_of_bytes(side: str, times: int, step: tuple[Severity, Severity]) -> None:
    at = skewed_data(side, 200, BLOCK, (times + 1) * BLOCK)  # (3 - 1) / 1 = 2 and so on
    before = skewed_data(side, 200, BLOCK, (times + 1) * BLOCK - 1)
    assert told(at) == (step[0], 0 if step[0] == LOW else step[0] * 201)
    assert before.severity == step[1]


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize(("size", "step"), steps((BLOCK // 8, BLOCK // 4, BLOCK // 2, BLOCK)), ids=NAMES)
def test_size_of_the_larger_group(side: str, size: int, step: tuple[Severity, Severity]) -> None:
    assert skewed_data(side, 200, 0, size).severity == step[0]
    assert skewed_data(side, 200, 0, size - 1).severity == step[1]


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize(("n", "step"), steps((10, 50, 100, 200)), ids=NAMES)
def test_tasks_of_the_smaller_group(side: str, n: int, step: tuple[Severity, Severity]) -> None:
    assert skewed_data(side, n, BLOCK, 17 * BLOCK).severity == step[0]
    assert skewed_data(side, n - 1, BLOCK, 17 * BLOCK).severity == step[1]
    assert skewed_time(side, n, 60_000, 17 * 60_000).severity == step[0]
    assert skewed_time(side, n - 1, 60_000, 17 * 60_000).severity == step[1]


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize(("times", "step"), steps((2, 4, 8, 16)), ids=NAMES)
def test_deviation_of_run_time_in_whole_seconds_and_without_a_score(
    side: str, times: int, step: tuple[Severity, Severity]
) -> None:
    at = skewed_time(side, 200, 60_000, (times + 1) * 60_000)
    assert told(at) == (step[0], 0)  # the original's score knows the bytes alone
    assert skewed_time(side, 200, 60_000, (times + 1) * 60_000 - 1).severity == step[1]  # 179.999 s are 179 s


def test_the_block_is_that_of_the_job() -> None:
    tasks = [*same(200, HDFS_BYTES_READ=0), {"HDFS_BYTES_READ": 64 * MIB}]
    assert dr_elephant.mapper_skew(job(tasks, settings={"dfs.blocksize": "128m"})).severity == SEVERE
    assert dr_elephant.mapper_skew(job(tasks, settings={"dfs.blocksize": "67108864"})).severity == CRITICAL


def test_bytes_are_those_of_hdfs_and_s3_together() -> None:
    parts = {"HDFS_BYTES_READ": BLOCK, "S3_BYTES_READ": BLOCK, "S3A_BYTES_READ": BLOCK, "S3N_BYTES_READ": BLOCK}
    tasks = [*same(200, HDFS_BYTES_READ=BLOCK), parts]
    assert dr_elephant.mapper_skew(job(tasks)).severity == LOW  # (4 - 1) div 1 = 3
    tasks = [*same(200, HDFS_BYTES_READ=BLOCK), parts | {"GS_BYTES_READ": 100 * BLOCK}]
    assert dr_elephant.mapper_skew(job(tasks)).severity == LOW


def test_the_next_middle_is_the_difference_of_the_means() -> None:
    # mean 3: {1, 1, 1} and {5, 9}, means 1 and 7; 7 - 1 = 6: {1, 1, 1, 5} and {9}; 9 - 2 = 7. Midpoints: {5, 9} stays.
    assert dr_elephant.two_groups([1, 9, 1, 5, 1]) == ([1, 1, 5, 1], [9])
    assert dr_elephant.two_groups([]) == ([], [])
    assert dr_elephant.two_groups([7, 7]) == ([], [7, 7])


def test_skew_names_the_tasks_of_the_larger_group() -> None:
    found = skewed_data("maps", 200, BLOCK, 17 * BLOCK)
    assert found.tasks == ("task_1_0001_m_000200",)
    assert "mapreduce.input.fileinputformat.split.maxsize" in found.advice
    assert [(m.value, m.passed) for m in found.measures[:3]] == [(16, 16), (17 * BLOCK, BLOCK), (200, 200)]


# ---- GC ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize(("gc_ms", "step"), steps((10_000, 20_000, 30_000, 40_000)), ids=NAMES)
def test_gc_ratio(side: str, gc_ms: int, step: tuple[Severity, Severity]) -> None:
    judge = dr_elephant.mapper_gc if side == "maps" else dr_elephant.reducer_gc
    for value, expected in ((gc_ms, step[0]), (gc_ms - 1, step[1])):
        one = {"run_ms": 15 * MINUTE, "GC_TIME_MILLIS": value, "CPU_MILLISECONDS": 1_000_000}
        assert told(judge(job(**{side: [one, one]}))) == (expected, 0 if expected <= LOW else expected * 2)


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize(("minutes", "step"), steps((5, 10, 12, 15)), ids=NAMES)
def test_gc_run_time(side: str, minutes: int, step: tuple[Severity, Severity]) -> None:
    judge = dr_elephant.mapper_gc if side == "maps" else dr_elephant.reducer_gc
    for run_ms, expected in ((minutes * MINUTE, step[0]), (minutes * MINUTE - 1, step[1])):
        one = {"run_ms": run_ms, "GC_TIME_MILLIS": 40_000, "CPU_MILLISECONDS": 1_000_000}
        assert judge(job(**{side: [one]})).severity == expected


def test_gc_without_processor_time() -> None:
    some = {"run_ms": 15 * MINUTE, "GC_TIME_MILLIS": 1, "CPU_MILLISECONDS": 0}
    assert dr_elephant.mapper_gc(job([some])).severity == CRITICAL  # 1 / 0 is infinite in Java
    assert dr_elephant.mapper_gc(job([some | {"GC_TIME_MILLIS": 0}])).severity == NONE  # 0 / 0 passes nothing


def test_averages_are_cut_to_whole_numbers() -> None:
    assert dr_elephant.average([1, 2]) == 1
    assert dr_elephant.average([]) == 0
    assert dr_elephant.median([1, 2]) == 1
    assert dr_elephant.median([3, 1, 2]) == 2


# ---- time --------------------------------------------------------------------------------------------------------


def timed(side: str, n: int, run_ms: int) -> Finding:
    judge = dr_elephant.mapper_time if side == "maps" else dr_elephant.reducer_time
    return judge(job(**{side: same(n, run_ms=run_ms)}))


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize(("minutes", "step"), steps((10, 4, 2, 1)), ids=NAMES)
def test_short_tasks(side: str, minutes: int, step: tuple[Severity, Severity]) -> None:
    assert told(timed(side, 1000, minutes * MINUTE)) == (step[0], 0 if step[0] == LOW else step[0] * 1000)
    assert timed(side, 1000, minutes * MINUTE + 1).severity == step[1]


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize(("n", "step"), steps((50, 101, 500, 1000)), ids=NAMES)
def test_number_of_short_tasks(side: str, n: int, step: tuple[Severity, Severity]) -> None:
    assert timed(side, n, MINUTE).severity == step[0]
    assert timed(side, n - 1, MINUTE).severity == step[1]


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize(("minutes", "step"), steps((15, 30, 60, 120)), ids=NAMES)
def test_long_tasks_however_few(side: str, minutes: int, step: tuple[Severity, Severity]) -> None:
    assert timed(side, 1, minutes * MINUTE).severity == step[0]
    assert timed(side, 1, minutes * MINUTE - 1).severity == step[1]


# ---- speed -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("speed", "step"), steps((52_428_800, 26_214_400, 13_107_200, 3_276_800)), ids=NAMES)
def test_speed(speed: int, step: tuple[Severity, Severity]) -> None:
    for per_s, expected in ((speed, step[0]), (speed + 1, step[1])):
        found = dr_elephant.mapper_speed(job([{"run_ms": 30 * MINUTE, "HDFS_BYTES_READ": per_s * 1800}]))
        assert told(found) == (expected, 0 if expected <= LOW else int(expected))


@pytest.mark.parametrize(("minutes", "step"), steps((5, 10, 15, 30)), ids=NAMES)
def test_run_time_of_slow_maps(minutes: int, step: tuple[Severity, Severity]) -> None:
    assert dr_elephant.mapper_speed(job([{"run_ms": minutes * MINUTE}])).severity == step[0]
    assert dr_elephant.mapper_speed(job([{"run_ms": minutes * MINUTE - 1}])).severity == step[1]


def test_speed_where_the_original_ends_in_an_error() -> None:
    assert dr_elephant.mapper_speed(job([{"run_ms": 0}])).severity is None
    assert dr_elephant.mapper_speed(job()).severity == NONE


# ---- spill -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("parts", "step"), steps((20_101, 22_000, 25_000, 30_000)), ids=NAMES)
def test_spill_ratio(parts: int, step: tuple[Severity, Severity]) -> None:
    # 2.01 * 10,000 is 20,099.999... in doubles and cut to 20,099: exactly 2.01 spills per record are none.
    for value, expected in ((parts, step[0]), (parts - 1, step[1])):
        maps = [{"SPILLED_RECORDS": value, "MAP_OUTPUT_RECORDS": 10_000}, *same(999, SPILLED_RECORDS=0)]
        found = dr_elephant.mapper_spill(job(maps))
        assert told(found) == (expected, 0 if expected <= LOW else expected * 1000)


@pytest.mark.parametrize(("n", "step"), steps((50, 100, 500, 1000)), ids=NAMES)
def test_number_of_maps_that_spill(n: int, step: tuple[Severity, Severity]) -> None:
    one = {"SPILLED_RECORDS": 3, "MAP_OUTPUT_RECORDS": 1}
    assert dr_elephant.mapper_spill(job(same(n, **one))).severity == step[0]
    assert dr_elephant.mapper_spill(job(same(n - 1, **one))).severity == step[1]


def test_spills_of_nothing() -> None:
    assert dr_elephant.mapper_spill(job(same(1000, SPILLED_RECORDS=1))).severity == CRITICAL
    assert dr_elephant.mapper_spill(job(same(1000))).severity == NONE


# ---- memory ------------------------------------------------------------------------------------------------------

MEMORY = {"maps": "mapreduce.map.memory.mb", "reduces": "mapreduce.reduce.memory.mb"}


def held(side: str, megabytes: str | None, *used: int) -> Finding:
    judge = dr_elephant.mapper_memory if side == "maps" else dr_elephant.reducer_memory
    settings = {} if megabytes is None else {MEMORY[side]: megabytes}
    return judge(job(**{side: [{"PHYSICAL_MEMORY_BYTES": n} for n in used]}, settings=settings))


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize(
    ("used", "step"), steps((3_221_225_472, 2_684_354_560, 2_147_483_648, 1_610_612_736)), ids=NAMES
)
def test_memory_used(side: str, used: int, step: tuple[Severity, Severity]) -> None:
    # 0.6, 0.5, 0.4 and 0.3 of 5120 MiB
    assert told(held(side, "5120", used)) == (step[0], 0 if step[0] == LOW else int(step[0]))
    assert held(side, "5120", used + 1).severity == step[1]


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize(("megabytes", "step"), steps((2253, 3072, 4096, 5120)), ids=NAMES)
def test_size_of_containers(side: str, megabytes: int, step: tuple[Severity, Severity]) -> None:
    assert held(side, str(megabytes), 1).severity == step[0]  # 1.1 * 2048 is 2252.8
    assert held(side, str(megabytes - 1), 1).severity == step[1]


@pytest.mark.parametrize("text", [None, "-1", "${unknown}", "4 GB", ""])
def test_container_of_2048_mb_where_the_setting_tells_none(text: str | None) -> None:
    found = held("maps", text, 1)
    assert (found.severity, found.measures[1].value) == (NONE, 2048 * MIB)


def test_memory_is_an_average() -> None:
    assert held("maps", "5120", 0, 3_221_225_472 * 2).severity == LOW


# ---- shuffle and sort --------------------------------------------------------------------------------------------


def phases(what: str, took_ms: int, code_ms: int) -> Finding:
    return dr_elephant.shuffle_sort(job(reduces=[{"run_ms": took_ms + code_ms, f"{what}_ms": took_ms}]))


@pytest.mark.parametrize("what", ["shuffle", "sort"])
@pytest.mark.parametrize(("minutes", "step"), steps((1, 5, 10, 30)), ids=NAMES)
def test_time_of_shuffle_and_sort(what: str, minutes: int, step: tuple[Severity, Severity]) -> None:
    for code_ms in (1, 0, -5):  # without time in code the run time alone counts
        assert phases(what, minutes * MINUTE, code_ms).severity == step[0]
        assert phases(what, minutes * MINUTE - 1, code_ms).severity == step[1]


@pytest.mark.parametrize("what", ["shuffle", "sort"])
@pytest.mark.parametrize(("code_ms", "step"), steps((3_600_000, 1_800_000, 900_000, 450_000)), ids=NAMES)
def test_shuffle_and_sort_against_code(what: str, code_ms: int, step: tuple[Severity, Severity]) -> None:
    # twice 30 minutes are 3,600,000 ms: 1, 2, 4, 8 times the time in code
    assert told(phases(what, 30 * MINUTE, code_ms)) == (step[0], 0 if step[0] == LOW else int(step[0]))
    assert phases(what, 30 * MINUTE, code_ms + 1).severity == step[1]


def test_advice_is_of_the_phase_that_decided() -> None:
    assert "slowstart" in phases("shuffle", 30 * MINUTE, 1).advice
    assert "io.sort.factor" in phases("sort", 30 * MINUTE, 1).advice


# ---- cache, failures ---------------------------------------------------------------------------------------------


def cached(kind: str, names: str, sizes: str) -> Finding | None:
    settings = {f"mapreduce.job.cache.{kind}": names, f"mapreduce.job.cache.{kind}.filesizes": sizes}
    return dr_elephant.distributed_cache(job(settings=settings))


@pytest.mark.parametrize("kind", ["files", "archives"])
def test_cached_files(kind: str) -> None:
    at, above = cached(kind, "a.jar,b.jar", "1,524288000"), cached(kind, "a.jar,b.jar", "1,524288001")
    assert at is not None
    assert told(at) == (NONE, 0)
    assert above is not None
    assert told(above) == (CRITICAL, 0)
    assert above.tasks == ("b.jar",)
    mismatch = cached(kind, "a.jar,b.jar", "1")
    assert mismatch is not None
    assert told(mismatch) == (MODERATE, 0)
    assert cached(kind, "a.jar,,", "1") is not None
    assert cached(kind, "a.jar,,", "1").severity == NONE  # type: ignore[union-attr]  # Java leaves empty ends out


def test_no_cache_no_result() -> None:
    assert dr_elephant.distributed_cache(job()) is None
    unknown = dr_elephant.distributed_cache(job(settings=None))
    assert unknown is not None
    assert unknown.severity is None


def test_a_failed_job_is_an_exception_and_nothing_else() -> None:
    failed = dr_elephant.judge(job(same(1000, run_ms=1), status="FAILED", diagnostics="Task failed: disk full"))
    assert [(f.heuristic, f.severity, f.score, f.note) for f in failed] == [
        ("exception", MODERATE, 0, "Task failed: disk full")
    ]
    assert dr_elephant.judge(job(same(1000, run_ms=1), status="KILLED")) == []


def test_a_job_without_reducers_is_judged_by_all() -> None:
    found = dr_elephant.judge(job(same(3, run_ms=MINUTE)))
    assert [f.heuristic for f in found] == [
        "mapper-skew", "mapper-gc", "mapper-time", "mapper-speed", "mapper-spill", "mapper-memory", "reducer-skew",
        "reducer-gc", "reducer-time", "reducer-memory", "shuffle-sort",
    ]  # fmt: skip
    assert {f.severity for f in found} == {NONE}


# ---- what is not known -------------------------------------------------------------------------------------------

OF_COUNTERS: list[Callable[[JobFigures], Finding]] = [
    dr_elephant.mapper_skew, dr_elephant.mapper_gc, dr_elephant.mapper_time, dr_elephant.mapper_speed,
    dr_elephant.mapper_spill, dr_elephant.mapper_memory,
]  # fmt: skip


@pytest.mark.parametrize("judge", OF_COUNTERS)
def test_counters_that_are_not_stored_are_not_none(judge: Callable[[JobFigures], Finding]) -> None:
    found = judge(JobFigures("job_1_0001", status="SUCCEEDED", settings={}, maps=(TaskFigures("t", 5),)))
    assert found.severity is None
    assert "ingest its history again" in found.note


@pytest.mark.parametrize("judge", dr_elephant.HEURISTICS[:-1])
def test_tasks_that_are_not_known_are_not_none(judge: Callable[[JobFigures], Finding]) -> None:
    found = judge(JobFigures("job_1_0001", status="SUCCEEDED", settings={}, n_maps=4, n_reduces=4))
    assert found.severity is None


def test_memory_without_a_configuration_is_not_known() -> None:
    found = dr_elephant.mapper_memory(job([{"PHYSICAL_MEMORY_BYTES": 1}], settings=None))
    assert found.severity is None
    assert "_conf.xml" in found.note
