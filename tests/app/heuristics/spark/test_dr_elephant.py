"""Every threshold from both sides: the values stand here as computed by hand from the formulas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from app.heuristics.severity import Finding, Severity
from app.heuristics.spark import dr_elephant
from app.heuristics.spark.figures import SparkExecutor, SparkFigures, SparkJob
from app.heuristics.spark.judging import judged
from tests.app.heuristics.spark.applications import MIB, MINUTE, application, stage

NONE, LOW, MODERATE, SEVERE, CRITICAL = Severity
NAMES = [severity.name for severity in Severity][1:]
STEPS = [*zip((LOW, MODERATE, SEVERE, CRITICAL), (NONE, LOW, MODERATE, SEVERE), strict=True)]
"""(severity at a limit, severity just before it)."""
RATES = [(100, (LOW, NONE)), (300, (MODERATE, LOW)), (500, (CRITICAL, MODERATE))]
"""Of rates of failures, in thousandths: from 0.5 on critical at once."""

Step = tuple[Severity, Severity]


def steps(limits: Sequence[Any]) -> list[tuple[Any, Step]]:
    return [*zip(limits, STEPS, strict=True)]


def same(n: int, **values: Any) -> list[dict[str, Any]]:
    return [values] * n


def failed(n: int) -> list[dict[str, Any]]:
    return same(n, status="FAILED", run_ms=None, gc_ms=None)


# ---- GC --------------------------------------------------------------------------------------------------------------


def gc(*tasks: dict[str, Any]) -> Finding:
    return dr_elephant.executor_gc(application(stage(tasks)))


@pytest.mark.parametrize(("gc_ms", "step"), steps((80, 100, 150, 200)), ids=NAMES)
def test_gc_against_the_life_times_of_tasks(gc_ms: int, step: Step) -> None:
    at = gc({"gc_ms": gc_ms, "life_ms": 400, "run_ms": 1}, {"gc_ms": 0, "life_ms": 600, "run_ms": 1})
    assert (at.severity, at.score) == (step[0], 0)
    assert at.measures[0].value == gc_ms / 1000
    assert at.measures[0].passed == gc_ms / 1000
    assert gc({"gc_ms": gc_ms - 1, "life_ms": 1000}).severity == step[1]


@pytest.mark.parametrize(
    ("gc_ms", "is_told"), [(51, False), (50, False), (41, False), (40, True), (30, True), (10, True)]
)
def test_too_little_gc_is_a_remark_from_moderate_on(gc_ms: int, is_told: bool) -> None:
    found = gc({"gc_ms": gc_ms, "life_ms": 1000})
    assert (found.severity, "larger than needed" in found.note) == (NONE, is_told)


def test_gc_of_the_driver_is_left_out() -> None:
    on_driver = {"gc_ms": 900, "life_ms": 1000, "executor_id": "driver"}
    assert gc(on_driver, {"gc_ms": 79, "life_ms": 1000}).severity == NONE
    assert gc(on_driver).severity == NONE  # 0 / 0


# ---- executors -------------------------------------------------------------------------------------------------------


def compared(figure: str, *values: int) -> Finding:
    """The driver has nothing of anything."""
    tasks = [{"executor_id": str(n), "life_ms": 0, figure: value} for n, value in enumerate(values)]
    there = tuple(SparkExecutor(str(n), f"n{n}") for n in range(len(values)))
    return dr_elephant.executors(application(stage(tasks), executors=there))


FIGURES = ("storage_bytes", "input_bytes", "shuffle_read_bytes", "shuffle_write_bytes", "life_ms")
GIB = 1 << 30


@pytest.mark.parametrize("figure", FIGURES)
@pytest.mark.parametrize(
    ("most", "step"),
    # 10^0.125 = 1.33352..., 10^0.25 = 1.77827..., 10^0.5 = 3.16227..., of 1,000,000,000
    steps((1_333_521_433, 1_778_279_411, 3_162_277_661, 10_000_000_000)),
    ids=NAMES,
)
def test_the_greatest_against_the_median(figure: str, most: int, step: Step) -> None:
    middle = 1_000_000_000
    assert compared(figure, middle, middle, middle, most).severity == step[0]
    assert compared(figure, middle, middle, middle, most - 1).severity == step[1]


@pytest.mark.parametrize(
    ("figure", "least"), [*((figure, 100 * MIB) for figure in FIGURES[:-1]), ("life_ms", 5 * MINUTE)]
)
def test_what_is_small_is_not_compared(figure: str, least: int) -> None:
    assert compared(figure, 1, 1, 1, least).severity == CRITICAL
    assert compared(figure, 1, 1, 1, least - 1).severity == NONE


def test_the_driver_takes_part_in_the_median() -> None:
    found = compared("input_bytes", GIB, GIB)  # the middle of 0, 1 and 1
    assert (found.severity, found.score) == (NONE, 0)
    one = compared("input_bytes", GIB)  # of 0 and 1: 1/2
    assert (one.severity, one.measures[0].value, one.tasks) == (MODERATE, 2.0, ("executor 0 on n0",))
    several = compared("input_bytes", GIB, 0, 0)  # of 0, 0, 0 and 1: 0
    assert (several.severity, several.measures[0].value) == (CRITICAL, float("inf"))


def test_the_median_of_executors_is_cut() -> None:
    # of 0 (driver), 100 MiB, 100 MiB + 1 and the greatest: the middle two have the mean 100 MiB and a half
    found = compared("input_bytes", 100 * MIB, 100 * MIB + 1, 1000 * MIB)
    assert (found.severity, found.measures[0].value) == (CRITICAL, 10.0)


# ---- jobs and stages -------------------------------------------------------------------------------------------------


def of_jobs(n_failed: int, n: int) -> Finding:
    jobs = tuple(
        SparkJob(number, "FAILED" if number < n_failed else "SUCCEEDED", stages=frozenset()) for number in range(n)
    )
    return dr_elephant.jobs(application(jobs=jobs))


@pytest.mark.parametrize(("n", "step"), RATES, ids=("LOW", "MODERATE", "CRITICAL"))
def test_jobs_that_fail(n: int, step: Step) -> None:
    assert (of_jobs(n, 1000).severity, of_jobs(n, 1000).score) == (step[0], 0)
    assert of_jobs(n - 1, 1000).severity == step[1]


@pytest.mark.parametrize(("n", "step"), RATES, ids=("LOW", "MODERATE", "CRITICAL"))
def test_tasks_of_a_job_and_of_a_stage_that_fail(n: int, step: Step) -> None:
    at = application(stage([*failed(n), *same(1000 - n)]))
    before = application(stage([*failed(n - 1), *same(1001 - n)]))
    for judge, name in ((dr_elephant.jobs, "job 0"), (dr_elephant.stages, "stage 0.0")):
        assert (judge(at).severity, judge(at).score, judge(at).tasks) == (step[0], 0, (name,))
        assert judge(before).severity == step[1]


@pytest.mark.parametrize(("n", "step"), RATES, ids=("LOW", "MODERATE", "CRITICAL"))
def test_stages_that_fail(n: int, step: Step) -> None:
    def of_stages(n_failed: int) -> Finding:
        stages = [
            stage(same(1), f"{number}.0", status="FAILED" if number < n_failed else "SUCCEEDED")
            for number in range(1000)
        ]
        return dr_elephant.stages(application(*stages))

    assert (of_stages(n).severity, of_stages(n).score) == (step[0], 0)
    assert of_stages(n - 1).severity == step[1]


@pytest.mark.parametrize(("minutes", "step"), steps((15, 30, 45, 60)), ids=NAMES)
def test_run_time_of_a_stage_by_executors(minutes: int, step: Step) -> None:
    def taking(run_ms: int, instances: str | None) -> Finding:
        settings = {} if instances is None else {"spark.executor.instances": instances}
        return dr_elephant.stages(application(stage(same(2, run_ms=run_ms)), settings=settings))

    assert taking(2 * minutes * MINUTE, "4").severity == step[0]  # twice so long by 4
    assert taking(2 * minutes * MINUTE - 1, "4").severity == step[1]  # 2 ms less by 4 are cut to 1 ms less
    assert taking(2 * minutes * MINUTE - 1, "4").measures[2].value == minutes * MINUTE - 1
    assert taking(minutes * MINUTE, None).severity == step[0]  # by executor 1 and the driver
    assert taking(minutes * MINUTE - 1, None).severity == step[1]


def test_no_executors_were_asked_for() -> None:
    found = dr_elephant.stages(application(stage(same(1)), settings={"spark.executor.instances": "0"}))
    assert found.severity is None
    assert "division by zero" in found.note


def test_a_stage_counts_for_the_job_during_which_it_ran() -> None:
    """A later job names the same stage, and skips it."""
    first = SparkJob(0, "SUCCEEDED", start_ms=0, end_ms=100, stages=frozenset({0}))
    second = SparkJob(1, "SUCCEEDED", start_ms=200, end_ms=300, stages=frozenset({0, 1}))
    bad, good = stage([*failed(1), *same(1)], start_ms=50), stage(same(1), "1.0", start_ms=210)
    assert dr_elephant.jobs(application(bad, good, jobs=(first, second))).tasks == ("job 0",)
    again = stage([*failed(1), *same(1)], "0.1", start_ms=250)  # its output was lost meanwhile
    good_first = stage(same(1), start_ms=50)
    assert dr_elephant.jobs(application(good_first, again, good, jobs=(first, second))).tasks == ("job 1",)


# ---- stages ----------------------------------------------------------------------------------------------------------


def skewed(times: Sequence[int], period_ms: int | None = 200_000) -> Finding:
    return dr_elephant.stage_skew(application(stage([{"run_ms": one} for one in times], period_ms=period_ms)))


@pytest.mark.parametrize(("times", "step"), steps((2, 4, 8, 16)), ids=NAMES)
def test_skew(times: int, step: Step) -> None:
    middle = 80_000
    at = skewed([middle, middle, middle * times], middle * times)
    assert (at.severity, at.score) == (step[0], 0 if step[0] == LOW else step[0] * 3)
    assert skewed([middle, middle, middle * times - 1], middle * times).severity == step[1]


def test_a_task_that_is_short_is_no_skew() -> None:
    assert skewed([1, 1, 150_001]).severity == CRITICAL
    assert skewed([1, 1, 150_000], 150_000).severity == NONE  # it has to be longer


def test_a_task_that_is_not_most_of_its_stage_is_no_skew() -> None:
    assert skewed([1, 1, 300_001], 400_000).severity == CRITICAL
    assert skewed([1, 1, 300_000], 400_000).severity == NONE  # it has to be more than 3/4
    assert skewed([1, 1, 300_000], None).severity == NONE


def test_the_median_of_two_tasks_is_the_longer_one() -> None:
    assert skewed([1, 160_000]).severity == NONE
    assert skewed([0, 0, 160_000]).severity == CRITICAL


def spilled(spilled_bytes: int, **data: int) -> Finding:
    told = {"memory_spilled_bytes": spilled_bytes, **data}
    return dr_elephant.stage_spill(application(stage([told, {}], n_tasks=7)))


@pytest.mark.parametrize("figure", ["input_bytes", "output_bytes", "shuffle_read_bytes", "shuffle_write_bytes"])
@pytest.mark.parametrize(("permille", "step"), steps((10, 100, 250, 500)), ids=NAMES)
def test_spill_against_the_most_data(figure: str, permille: int, step: Step) -> None:
    at = spilled(permille * 1000, **{"input_bytes": 1, "shuffle_write_bytes": 2, figure: 1_000_000})
    assert (at.severity, at.score) == (step[0], 0 if step[0] == LOW else step[0] * 7)
    assert spilled(permille * 1000 - 1, **{figure: 1_000_000}).severity == step[1]


def test_spill_of_3_tib_is_none() -> None:
    large = 3 << 40
    assert spilled(large, input_bytes=large).severity == NONE
    assert spilled(large, input_bytes=large - 1).severity == CRITICAL
    assert spilled(1).severity == CRITICAL  # of nothing
    assert spilled(0).severity == NONE


@pytest.mark.parametrize(("seconds", "step"), steps((150, 300, 600, 900)), ids=NAMES)
def test_long_tasks(seconds: int, step: Step) -> None:
    def taking(run_ms: int) -> Finding:
        tasks = [{"run_ms": 1}, {"run_ms": run_ms}, {"run_ms": 10_000_000}]
        return dr_elephant.long_tasks(application(stage(tasks)))

    at = taking(seconds * 1000)
    assert (at.severity, at.score) == (step[0], 0 if step[0] == LOW else step[0] * 3)
    assert taking(seconds * 1000 - 1).severity == step[1]


def test_tasks_that_did_not_succeed_are_in_no_median() -> None:
    killed = {"run_ms": 10_000_000, "status": "KILLED"}
    assert dr_elephant.long_tasks(application(stage([{"run_ms": 1}, killed, killed]))).severity == NONE


@pytest.mark.parametrize(("n", "step"), steps((50, 100, 150, 200)), ids=NAMES)
def test_task_failures(n: int, step: Step) -> None:
    def of(n_failed: int) -> Finding:
        return dr_elephant.task_failures(application(stage([*failed(n_failed), *same(1000)], n_tasks=1000)))

    assert (of(n).severity, of(n).score) == (step[0], 0 if step[0] == LOW else step[0] * n)
    assert of(n - 1).severity == step[1]


def test_scores_of_stages_add_up() -> None:
    long = [stage(same(3, run_ms=10 * MINUTE)), stage(same(2, run_ms=5 * MINUTE), "1.0"), stage(same(5), "2.0")]
    found = dr_elephant.long_tasks(application(*long))
    assert (found.severity, found.score, found.n_tasks) == (SEVERE, 3 * 3 + 2 * 2, 3)
    assert found.tasks == ("stage 0.0", "stage 1.0")


# ---- what is not known -----------------------------------------------------------------------------------------------


def test_an_older_store_says_ingest_again() -> None:
    told = stage([{"memory_spilled_bytes": None}, {"memory_spilled_bytes": None}])
    older = application(told, settings=None, jobs=(SparkJob(0, "SUCCEEDED"),))
    by_name = {found.heuristic: found for found in judged(older).dr_elephant}
    for name in ("spark-jobs", "spark-stages", "spark-stage-spill"):
        assert by_name[name].severity is None
        assert "ingest its event log again" in by_name[name].note
    assert by_name["spark-long-tasks"].severity == NONE


def test_of_an_application_that_runs_dr_elephant_says_nothing() -> None:
    assert judged(application(stage(same(1)), end_ms=None)).dr_elephant == ()


def test_an_application_without_tasks() -> None:
    empty: SparkFigures = application()
    by_name = {found.heuristic: found.severity for found in judged(empty).dr_elephant}
    assert by_name == {
        "spark-executor-gc": None, "spark-executors": None, "spark-jobs": NONE, "spark-stages": NONE,
        "spark-stage-skew": NONE, "spark-stage-spill": NONE, "spark-long-tasks": NONE, "spark-task-failures": NONE,
    }  # fmt: skip
