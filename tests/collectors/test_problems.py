"""What a source may tell about what it cannot read: each problem once, and no more than an operator can look at."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from collectors.base import MAX_OF_FILE, MAX_OF_POLL, MORE, Problem, ProblemLog
from collectors.ganglia.rrd import GangliaRrdCollector, GangliaRrdOptions
from collectors.history.hadoop1_history import Hadoop1Parser
from collectors.history.job_history import JobHistoryCollector, JobHistoryOptions
from collectors.history.rumen_trace import RumenParser
from collectors.logs.container_log import ContainerLogCollector, ContainerLogOptions
from collectors.logs.daemon_log import DaemonLogCollector, DaemonLogOptions
from tests.collectors import histories as h
from tests.collectors import reducer_logs as logs
from tests.collectors import rrds


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


N_BAD = 20_000


def _jhist(folder: Path) -> tuple[Problem, ...]:
    lines = [f'{{"type":"{kind}","event":{n}}}' for n in range(N_BAD) for kind in (f"T{n}", "JOB_INITED")]
    (folder / "job_1700000000000_0007.jhist").write_bytes(h.history(h.start_records(), lines, h.end_records()))
    return JobHistoryCollector(JobHistoryOptions((folder,))).poll(h.T0 + 10**9).problems


def _hadoop1(folder: Path) -> tuple[Problem, ...]:
    problems = ProblemLog("hadoop1")
    parser = Hadoop1Parser("/x/history", problems, 0)
    records = (b'Kind%d A="%d" .\nJob JOBID="%d" .\n' % (n, n, n) for n in range(N_BAD))
    parser.feed(b'Meta VERSION="1" .\n' + b"".join(records))
    parser.close()
    return problems.drain()


def _rumen(folder: Path) -> tuple[Problem, ...]:
    problems = ProblemLog("rumen")
    parser = RumenParser("/x/trace", problems, 0)
    jobs = (b'{"jobID": "job_1_%04d", "mapTasks": [{"attempts": [7]}]}\n{"jobID": %d}\n' % (n, n) for n in range(N_BAD))
    parser.parse(b"".join(jobs))
    return problems.drain()


def _container_log(folder: Path) -> tuple[Problem, ...]:
    lines = [logs.named(1), *logs.assigned(2, 1, "n")]
    for n in range(N_BAD):
        lines.append(logs.read(9 + n, 1, n, 77))  # whose size was not logged
    logs.write_log(folder, "\n".join(lines) + "\n" + "x" * (3 << 20) + "\n")
    return ContainerLogCollector(ContainerLogOptions(folder)).poll(logs.DAY_MS + 86_400_000).problems


def _daemon_log(folder: Path) -> tuple[Problem, ...]:
    (folder / "yarn-nodemanager-n.log").write_text(("x" * (2 << 20) + "\n") * 20 + "line\n" * N_BAD)
    return DaemonLogCollector(DaemonLogOptions(folder)).poll(logs.DAY_MS).problems


def _rrd(folder: Path) -> tuple[Problem, ...]:
    values = [None if n % 2 else float(n) for n in range(4_000)]
    rrds.write_rrd(folder / "c" / "n" / "cpu_user.rrd", values, rows=5_000)
    options = GangliaRrdOptions(folder, metrics=("cpu_user",), backfill_ms=10**9)
    return GangliaRrdCollector(options).poll(rrds.T0_MS + 4_001 * 15_000).problems


@pytest.mark.parametrize("kind", [_jhist, _hadoop1, _rumen, _container_log, _daemon_log, _rrd])
def test_a_file_of_any_kind_tells_a_bounded_number_of_problems(
    kind: Callable[[Path], tuple[Problem, ...]], tmp_path: Path
) -> None:
    rows = Counter(place.rpartition(":")[0] or place for place, _ in {(p.place, p.kind) for p in kind(tmp_path)})
    assert 1 <= max(rows.values()) <= 100
