"""All counters of an attempt, kept whole and within bounds."""

from __future__ import annotations

from typing import Any

from collectors.base import ProblemLog
from collectors.history.hadoop1_history import Hadoop1Parser
from collectors.history.jhist import JhistParser
from collectors.history.whole_counters import MAX_CHARS, parsed_counters, task_counters, whole_counters
from tests.collectors import histories
from tests.collectors.history.test_hadoop1_history import HISTORY

TASK, FILES = "org.apache.hadoop.mapreduce.TaskCounter", "org.apache.hadoop.mapreduce.FileSystemCounter"


def group(name: str, **counters: Any) -> tuple[str, list[dict[str, Any]]]:
    return name, [{"name": counter, "value": value} for counter, value in counters.items()]


def test_there_and_back() -> None:
    text, is_cut = whole_counters(
        [group(TASK, B=2, A=-1), group("my.Own", GC_TIME_MILLIS=9), group(FILES, S3A_BYTES_READ=7)]
    )
    assert not is_cut
    assert parsed_counters(text) == {
        TASK: {"A": -1, "B": 2},
        "my.Own": {"GC_TIME_MILLIS": 9},
        FILES: {"S3A_BYTES_READ": 7},
    }
    assert task_counters(text) == {"A": -1, "B": 2, "S3A_BYTES_READ": 7}  # a program's own group passes for nothing


def test_odd_values_are_left_out_and_told() -> None:
    odd = [None, "1", 1.5, True, 1 << 63, [1]]
    text, is_cut = whole_counters([group(TASK, **{f"C{n}": value for n, value in enumerate(odd)}, OK=1)])
    assert (text, is_cut) == ('{"' + TASK + '":{"OK":1}}', True)
    assert whole_counters([(TASK, [None, 3, {"value": 1}])]) == (None, True)
    assert whole_counters([]) == (None, False)
    assert whole_counters([group("x" * 300, A=1)]) == (None, True)


def test_too_many_counters_leave_hadoops_own() -> None:
    own = group("my.Own", **{f"COUNTER_{n}": n for n in range(10_000)})
    text, is_cut = whole_counters([own, group(TASK, A=1)])
    assert is_cut
    assert parsed_counters(text) == {TASK: {"A": 1}}
    many = group(TASK, **{f"COUNTER_{n}": n for n in range(10_000)})
    assert whole_counters([many]) == (None, True)


def test_texts_that_are_none() -> None:
    for text in (None, "", "x", "[1]", "1", "[" * 5_000, "{" + "1" * MAX_CHARS):
        assert parsed_counters(text) is None
        assert task_counters(text) is None
    assert task_counters('{"' + TASK + '": {"A": "x", "B": true, "C": 1}, "other": 3}') == {"C": 1}


def test_of_job_history() -> None:
    parser = JhistParser("/x/job_1700000000000_0007.jhist", ProblemLog("h"), 0, keeps_counters=True)
    parser.feed(histories.whole_history())
    parser.close()
    rows = list(parser.events.take_batch().rows())
    kept = {row["attempt_id"]: row["counters"] for row in rows if row["type"] == "AttemptCounters"}
    summaries = {row["attempt_id"]: row for row in rows if row["type"] in ("Mapper", "Reducer")}
    assert kept.keys() == summaries.keys()
    for attempt_id, text in kept.items():
        counters = task_counters(text)
        assert counters is not None
        assert counters["GC_TIME_MILLIS"] == summaries[attempt_id]["gc_ms"]


def test_diagnostics_of_a_failed_job() -> None:
    failed = histories.record(
        "JOB_FAILED", "JobUnsuccessfulCompletion", jobid="job_1700000000000_0007", finishTime=histories.T0 + 9_000,
        jobStatus="FAILED", diagnostics="disk full",
    )  # fmt: skip
    parser = JhistParser("/x/job_1700000000000_0007.jhist", ProblemLog("h"), 0, keeps_counters=True)
    parser.feed(histories.history(histories.start_records(), [failed]))
    parser.close()
    [told] = [row for row in parser.events.take_batch().rows() if row["type"] == "JobCounters"]
    assert (told["diagnostics"], told.get("counters")) == ("disk full", None)


def test_of_hadoop_1() -> None:
    parser = Hadoop1Parser("/x/history", ProblemLog("h"), 0, keeps_counters=True)
    parser.feed(HISTORY)
    parser.close()
    rows = [row for job in parser.jobs for row in job.events.take_batch().rows()]
    kept = {row["attempt_id"] for row in rows if row["type"] == "AttemptCounters"}
    assert kept
    assert kept <= {row["attempt_id"] for row in rows if row["type"] in ("Mapper", "Reducer")}


def test_not_kept_unless_asked() -> None:
    parser = JhistParser("/x/job_1700000000000_0007.jhist", ProblemLog("h"), 0)
    parser.feed(histories.whole_history())
    parser.close()
    assert not {"AttemptCounters", "JobCounters"} & {row["type"] for row in parser.events.take_batch().rows()}
