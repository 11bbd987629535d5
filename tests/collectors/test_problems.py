"""What a source may tell about what it cannot read: each problem once, and no more than an operator can look at."""

from __future__ import annotations

from pathlib import Path

from collectors.base import MAX_OF_FILE, MAX_OF_POLL, MORE, ProblemLog
from collectors.job_history import JobHistoryCollector, JobHistoryOptions
from tests.collectors import histories as h


def test_a_file_tells_the_first_ones_and_counts_the_others() -> None:
    log = ProblemLog("s")
    for line in range(MAX_OF_FILE + 7):
        log.report(f"/a/b.log:{line}", "bad", f"line {line}")
    log.report("/a/c.log:1", "bad", "of another file")
    told = log.drain()
    assert [problem.message for problem in told[:MAX_OF_FILE]] == [f"line {line}" for line in range(MAX_OF_FILE)]
    assert told[MAX_OF_FILE].place == "/a/c.log:1"
    (more,) = told[MAX_OF_FILE + 1 :]
    assert (more.place, more.kind) == ("/a/b.log", MORE)
    assert more.message == f"7 further problem(s), the first: line {MAX_OF_FILE}"
    log.report("/a/b.log:7000", "bad", "in a later poll")
    assert [(problem.kind, problem.message) for problem in log.drain()] == [
        (MORE, "1 further problem(s), the first: in a later poll")
    ]
    assert log.drain() == ()


def test_a_poll_tells_no_more_than_can_be_looked_at() -> None:
    log = ProblemLog("s")
    for number in range(MAX_OF_POLL + 3):
        log.report(f"/a/{number}.log", "bad", "not read")
    *told, more = log.drain()
    assert len(told) == MAX_OF_POLL
    assert (more.place, more.kind) == ("s", MORE)
    assert more.message == f"3 further problem(s), the first: /a/{MAX_OF_POLL}.log: not read"
    log.report("/a/next.log", "bad", "not read")
    assert [problem.place for problem in log.drain()] == ["/a/next.log"]


def test_many_files_with_many_problems_are_counted_together() -> None:
    log = ProblemLog("s")
    for file in range(3 * MAX_OF_FILE):
        for line in range(MAX_OF_FILE + 1):
            log.report(f"/a/{file}.log:{line}", "bad", "not read")
    told = log.drain()
    assert len(told) <= MAX_OF_POLL + MAX_OF_FILE + 1
    n_more = sum(int(problem.message.split()[0]) for problem in told if problem.kind == MORE)
    assert len([problem for problem in told if problem.kind != MORE]) + n_more == 3 * MAX_OF_FILE * (MAX_OF_FILE + 1)


def test_a_problem_whose_episode_is_over_does_not_use_up_what_its_file_may_tell() -> None:
    log = ProblemLog("s")
    for _ in range(3 * MAX_OF_FILE):
        log.report("/a", "unreadable", "cannot be listed")
        log.forget(("/a", "unreadable"))
    assert {problem.kind for problem in log.drain()} == {"unreadable"}


def test_a_history_of_thousands_of_unknown_types_fills_no_store(tmp_path: Path) -> None:
    unknown = [h.record(f"TYPE_{number}", "Unknown") for number in range(20_000)]
    (tmp_path / "job_1700000000000_0007_1.jhist").write_bytes(h.history(unknown, h.start_records(), h.end_records()))
    polled = JobHistoryCollector(JobHistoryOptions((tmp_path,))).poll(h.T0 + 60_000)
    assert len(polled.problems) <= MAX_OF_FILE + 1
    assert polled.problems[-1].message.startswith(f"{20_000 - MAX_OF_FILE} further problem(s), the first: record of")
    assert len(polled.finished) == 1
