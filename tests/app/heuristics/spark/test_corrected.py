"""What is corrected, each beside what the original says of the same application; and that limits are the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from app.heuristics.severity import Severity
from app.heuristics.spark import corrected, dr_elephant
from app.heuristics.spark.figures import SparkExecutor, SparkFigures, SparkJob
from app.heuristics.spark.judging import judged
from tests.app.heuristics.spark.applications import MIB, MINUTE, application, stage

NONE, LOW, MODERATE, SEVERE, CRITICAL = Severity
STEPS = [*zip((LOW, MODERATE, SEVERE, CRITICAL), (NONE, LOW, MODERATE, SEVERE), strict=True)]
GIB = 1 << 30

Step = tuple[Severity, Severity]


def steps(limits: Sequence[Any]) -> list[tuple[Any, Step]]:
    return [*zip(limits, STEPS, strict=True)]


def same(n: int, **values: Any) -> list[dict[str, Any]]:
    return [values] * n


def there(n: int, **facts: Any) -> tuple[SparkExecutor, ...]:
    return tuple(SparkExecutor(str(number), f"n{number}", **facts) for number in range(n))


@pytest.mark.parametrize(("seconds", "step"), steps((80, 100, 150, 200)))
def test_gc_against_the_time_that_tasks_ran(seconds: int, step: Step) -> None:
    def of(gc_ms: int) -> Any:
        waits = {"gc_ms": gc_ms, "run_ms": 1_000_000, "life_ms": 10_000_000}
        lost = {"gc_ms": None, "run_ms": None, "life_ms": 10_000_000, "status": "FAILED"}
        return application(stage([waits, lost]))

    at = corrected.executor_gc(of(seconds * 1000))
    assert (at.severity, at.score) == (step[0], 0 if step[0] == LOW else step[0])
    assert corrected.executor_gc(of(seconds * 1000 - 1)).severity == step[1]
    assert dr_elephant.executor_gc(of(seconds * 1000)).severity == NONE  # of 20,000 s of life


def test_gc_of_less_than_5_minutes_says_nothing() -> None:
    assert corrected.executor_gc(application(stage([{"gc_ms": 9, "run_ms": 5 * MINUTE - 1}]))).measures == ()
    short = application(stage([{"gc_ms": 90_000, "run_ms": 5 * MINUTE - 1, "life_ms": 5 * MINUTE}]))
    assert corrected.executor_gc(short).severity == NONE
    assert dr_elephant.executor_gc(short).severity == CRITICAL
    assert corrected.executor_gc(application(stage([{"gc_ms": 90_000, "run_ms": 5 * MINUTE}]))).severity == CRITICAL


def test_gc_names_the_executors_that_have_most() -> None:
    tasks = [{"executor_id": str(n), "gc_ms": 30_000 * n, "run_ms": 5 * MINUTE} for n in range(3)]
    found = corrected.executor_gc(application(stage(tasks), executors=there(3)))
    assert (found.severity, found.measures[0].value) == (MODERATE, 0.1)
    assert found.tasks == ("executor 2 on n2", "executor 1 on n1")


@pytest.mark.parametrize("figure", ["storage_bytes", "input_bytes", "shuffle_read_bytes", "shuffle_write_bytes", "run_ms"])  # fmt: skip  # noqa: E501
@pytest.mark.parametrize(("most", "step"), steps((1_333_521_433, 1_778_279_411, 3_162_277_661, 10_000_000_000)))
def test_executors_are_compared_with_each_other(figure: str, most: int, step: Step) -> None:
    def of(greatest: int) -> SparkFigures:
        values = (1_000_000_000, 1_000_000_000, greatest)
        tasks = [{"executor_id": str(n), figure: value} for n, value in enumerate(values)]
        return application(stage(tasks), executors=there(3))

    at = corrected.executors(of(most))
    assert (at.severity, at.score) == (step[0], 0 if step[0] == LOW else 3 * step[0])
    assert corrected.executors(of(most - 1)).severity == step[1]


def test_the_driver_and_idle_executors_are_in_no_median() -> None:
    tasks = [{"executor_id": str(n), "input_bytes": GIB} for n in range(2)]
    app = application(stage(tasks), executors=there(6))
    assert dr_elephant.executors(app).severity == CRITICAL  # five of seven have nothing
    found = corrected.executors(app)
    assert (found.severity, found.n_tasks, found.note) == (NONE, 2, "4 of 6 executors ran no task")


def test_local_mode_has_nothing_to_compare() -> None:
    app = application(stage([{"executor_id": "driver", "input_bytes": GIB}]), executors=())
    assert (corrected.executors(app).severity, corrected.executors(app).measures) == (NONE, ())


@pytest.mark.parametrize(("minutes", "step"), steps((15, 30, 45, 60)))
def test_run_time_of_a_stage_by_the_cores_that_ran_it(minutes: int, step: Step) -> None:
    def of(run_ms: int) -> SparkFigures:
        tasks = [{"executor_id": str(n % 2), "run_ms": run_ms} for n in range(8)]
        # of ten executors two ran its tasks, four at a time each
        return application(stage(tasks), executors=there(10, n_cores=4))

    at = corrected.stages(of(minutes * MINUTE))
    assert (at.severity, at.score) == (step[0], 0 if step[0] == LOW else step[0])
    assert corrected.stages(of(minutes * MINUTE - 1)).severity == step[1]
    asked = replace(of(minutes * MINUTE), settings={"spark.executor.instances": "100"})
    assert dr_elephant.stages(asked).severity == NONE
    assert corrected.stages(asked).severity == step[0]


def test_more_cores_than_tasks_are_not_counted() -> None:
    app = application(stage([{"run_ms": 60 * MINUTE}]), executors=(SparkExecutor("1", n_cores=16),))
    assert corrected.stages(app).severity == CRITICAL


@pytest.mark.parametrize(("times", "step"), steps((2, 4, 8, 16)))
def test_skew_of_the_true_median(times: int, step: Step) -> None:
    def of(longest: int) -> SparkFigures:
        # the middle two have 0.5 and 1.5 times 80 s
        runs = (0, 40_000, 120_000, longest)
        return application(stage([{"run_ms": run_ms} for run_ms in runs], period_ms=longest))

    at = corrected.stage_skew(of(80_000 * times))
    assert (at.severity, at.score) == (step[0], 0 if step[0] == LOW else 4 * step[0])
    assert corrected.stage_skew(of(80_000 * times - 1)).severity == step[1]
    assert dr_elephant.stage_skew(of(80_000 * times)).severity == step[1]  # against 120 s it is a third less


def test_advice_on_skew_tells_data_from_slow_hosts() -> None:
    def of(**slowest: Any) -> str:
        runs = [*same(3, run_ms=10_000, input_bytes=MIB), {"run_ms": 200_000, **slowest}]
        return corrected.stage_skew(application(stage(runs, period_ms=200_000))).advice

    assert "look at its host" in of(input_bytes=MIB)
    assert "Make the partitions even" in of(input_bytes=2 * MIB)


def test_a_stage_without_its_time_is_not_judged() -> None:
    app = application(stage([{"run_ms": 1}, {"run_ms": 200_000}]))
    assert corrected.stage_skew(app).severity is None
    assert dr_elephant.stage_skew(app).severity == NONE


@pytest.mark.parametrize(("permille", "step"), steps((10, 100, 250, 500)))
def test_spill(permille: int, step: Step) -> None:
    def of(n_bytes: int) -> SparkFigures:
        return application(stage([{"memory_spilled_bytes": n_bytes, "input_bytes": 1_000_000}, {}]))

    at = corrected.stage_spill(of(permille * 1000))
    assert (at.severity, at.score) == (step[0], 0 if step[0] == LOW else 2 * step[0])
    assert corrected.stage_spill(of(permille * 1000 - 1)).severity == step[1]


def test_spill_of_very_much_data_is_a_remark() -> None:
    found = corrected.stage_spill(application(stage([{"memory_spilled_bytes": 5, "input_bytes": 3 << 40}])))
    assert (found.severity, found.note) == (NONE, "1 stages of 3 TiB and more spilled, as is to be expected")


@pytest.mark.parametrize(("seconds", "step"), steps((150, 300, 600, 900)))
def test_long_tasks_by_the_true_median(seconds: int, step: Step) -> None:
    def of(upper_ms: int) -> SparkFigures:
        return application(stage([{"run_ms": 1000 * seconds - 500}, {"run_ms": upper_ms}]))

    assert corrected.long_tasks(of(1000 * seconds + 500)).severity == step[0]
    assert corrected.long_tasks(of(1000 * seconds + 499)).severity == step[1]
    assert dr_elephant.long_tasks(of(1000 * seconds + 499)).severity == step[0]


@pytest.mark.parametrize(("n", "step"), steps((50, 100, 150, 200)))
def test_task_failures_of_all_attempts(n: int, step: Step) -> None:
    def of(n_failed: int) -> SparkFigures:
        failed = same(n_failed, status="FAILED", reason="OutOfMemoryError")
        return application(stage([*failed, *same(1000 - n_failed), *same(500, status="KILLED")], n_tasks=900))

    at = corrected.task_failures(of(n))
    assert (at.severity, at.score, at.note) == (step[0], 0 if step[0] == LOW else n * step[0], "OutOfMemoryError")
    assert corrected.task_failures(of(n - 1)).severity == step[1]


@pytest.mark.parametrize(("n", "step"), [(100, (LOW, NONE)), (300, (MODERATE, LOW)), (500, (CRITICAL, MODERATE))])
def test_rates_of_jobs_and_stages(n: int, step: Step) -> None:
    def of(n_failed: int) -> SparkFigures:
        stages = [
            stage(same(1), f"{number}.0", status="FAILED" if number < n_failed else "SUCCEEDED")
            for number in range(1000)
        ]
        jobs = [SparkJob(number, "FAILED" if number < n_failed else "SUCCEEDED", stages=frozenset()) for number in range(1000)]  # fmt: skip  # noqa: E501
        return application(*stages, jobs=tuple(jobs))

    for judge in (corrected.jobs, corrected.stages):
        assert (judge(of(n)).severity, judge(of(n)).score) == (step[0], 0 if step[0] == LOW else n * step[0])
        assert judge(of(n - 1)).severity == step[1]


def test_nothing_known_is_never_none() -> None:
    bare = [{"run_ms": None, "gc_ms": None, "memory_spilled_bytes": None}]
    app = application(stage(bare), settings=None, jobs=(SparkJob(0, "SUCCEEDED"),))
    by_name = {one.heuristic: one.severity for one in judged(app).corrected}
    assert by_name.pop("spark-task-failures") == NONE  # it did not fail
    assert set(by_name.values()) == {None}


def test_every_finding_with_a_severity_names_a_setting() -> None:
    tasks = [*same(3, run_ms=20 * MINUTE, gc_ms=10 * MINUTE, memory_spilled_bytes=9, input_bytes=GIB),
             {"run_ms": 400 * MINUTE, "status": "SUCCEEDED"}, {"status": "FAILED"}]  # fmt: skip
    app = application(stage(tasks, period_ms=400 * MINUTE), jobs=(SparkJob(0, "FAILED", stages=frozenset({0})),))
    judgement = judged(app)
    for found in (*judgement.corrected, *judgement.dr_elephant):
        if found.severity:
            assert "spark." in found.advice
    assert judgement.severity == CRITICAL
