"""The parser of one history: what it yields, and what it says of files that are not as they should be."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest

from collectors.base import Problem, ProblemLog
from collectors.history.jhist import JhistParser
from collectors.identity import lifecycle_id
from tests.collectors import histories as h

NAME = "/done/job_1700000000000_0007-1-ann-word+count-2-1-1-SUCCEEDED-etl.jhist"


def parse(data: bytes, name: str = NAME, chunk: int = 0) -> tuple[JhistParser, list[dict[str, Any]], list[Problem]]:
    problems = ProblemLog("job_history")
    parser = JhistParser(name, problems, source_rank=3)
    for start in range(0, len(data), chunk or max(1, len(data))):
        parser.feed(data[start : start + (chunk or len(data))])
    parser.close()
    return parser, list(parser.events.take_batch().rows()), list(problems.drain())


def kinds(problems: list[Problem]) -> list[str]:
    return [problem.kind for problem in problems]


def one(rows: list[dict[str, Any]], event_type: str) -> dict[str, Any]:
    (row,) = [row for row in rows if row["type"] == event_type]
    return row


def test_whole_history() -> None:
    parser, rows, problems = parse(h.whole_history())
    assert problems == []
    assert parser.finished
    assert [row["type"] for row in rows] == [
        "JobStart", "MapStart", "MapEnd", "Mapper", "DataIO", "ReducerStart", "ReducerEnd", "Reducer", "JobEnd",
    ]  # fmt: skip
    assert [row["source_seq"] for row in rows] == list(range(9))
    assert {row["source_rank"] for row in rows} == {3}
    assert {row["clock_id"] for row in rows} == {"host:node1"}
    assert all(row["t_lo_ms"] == row["t_hi_ms"] for row in rows)


@pytest.mark.parametrize("chunk", [0, 1 << 16])
def test_a_record_as_long_as_a_disk_is_not_taken_into_memory(chunk: int) -> None:
    """Whatever it is made of: objects of JSON take twenty times its length."""
    long = b'{"type":[' + b"{}," * 10_000_000 + b"{}]}"
    data = h.whole_history().replace(b"\n\n", b"\n\n" + long + b"\n", 1)
    tracemalloc.start()
    try:
        parser, rows, problems = parse(data, chunk=chunk)
        assert tracemalloc.get_traced_memory()[1] < 100 << 20
    finally:
        tracemalloc.stop()
    assert (kinds(problems), len(rows), parser.finished) == (["oversized_record"], 9, True)


def test_job_attributes() -> None:
    _, rows, _ = parse(h.whole_history())
    start, end = one(rows, "JobStart"), one(rows, "JobEnd")
    job = {
        "job_id": "job_1700000000000_0007", "job_name": "word count", "user": "ann", "queue": "etl", "n_maps": 1,
        "n_reduces": 1,
    }  # fmt: skip
    assert job.items() <= start.items()
    assert job.items() <= end.items()
    assert (start["t_lo_ms"], end["t_lo_ms"]) == (h.T0 + 5_000, h.T0 + 12_500)
    assert (end["status"], end["period_ms"]) == ("SUCCEEDED", 7_500)
    assert start["event_id"] == lifecycle_id("JobStart", "job_1700000000000_0007")


def test_mapper_and_its_output() -> None:
    _, rows, _ = parse(h.whole_history())
    mapper, data = one(rows, "Mapper"), one(rows, "DataIO")
    attempt_id = "attempt_1700000000000_0007_m_000000_0"
    assert {
        "t_lo_ms": h.T0 + 9_000, "task_id": "task_1700000000000_0007_m_000000", "attempt_id": attempt_id,
        "host": "node2", "rack": "/r1", "status": "SUCCEEDED", "period_ms": 3_000, "n_input_records": 7,
        "n_output_records": 14, "input_bytes": 700, "output_bytes": 280, "materialized_bytes": 310,
        "n_spilled_records": 14, "gc_ms": 21, "cpu_ms": 950,
    }.items() <= mapper.items()  # fmt: skip
    assert (data["size_bytes"], data["t_lo_ms"], data["attempt_id"]) == (310, h.T0 + 9_000, attempt_id)
    assert data["event_id"] == lifecycle_id("DataIO", attempt_id)


def test_reducer_phases_and_union_wrapped_values() -> None:
    _, rows, _ = parse(h.whole_history())
    reducer = one(rows, "Reducer")
    assert {
        "shuffle_ms": 3_000, "sort_ms": 200, "reduce_ms": 1_800, "period_ms": 5_000, "rack": "/r2",
        "input_bytes": 310, "output_bytes": 44, "n_input_records": 14, "n_output_records": 2, "cpu_ms": 640,
    }.items() <= reducer.items()  # fmt: skip


@pytest.mark.parametrize("chunk", [1, 7, 1000])
def test_pieces_change_nothing(chunk: int) -> None:
    assert parse(h.whole_history(), chunk=chunk)[1] == parse(h.whole_history())[1]


def test_a_comment_before_the_mark_and_crlf_are_read() -> None:
    data = b"# made by hand\n\n" + h.whole_history().replace(b"\n", b"\r\n")
    _, rows, problems = parse(data)
    assert len(rows) == 9
    assert problems == []


def test_a_whole_last_record_needs_no_line_end() -> None:
    parser, rows, problems = parse(h.whole_history().rstrip(b"\n"))
    assert parser.finished
    assert len(rows) == 9
    assert problems == []


def test_end_in_the_middle_of_a_record() -> None:
    data = h.whole_history()
    cut = data[: data.index(b"REDUCE_ATTEMPT_FINISHED") + 200]
    parser, rows, problems = parse(cut)
    assert not parser.finished
    assert [row["type"] for row in rows] == ["JobStart", "MapStart", "MapEnd", "Mapper", "DataIO", "ReducerStart"]
    assert kinds(problems) == ["truncated"]
    assert problems[0].place == NAME


def test_no_end_of_the_job() -> None:
    _, rows, problems = parse(h.history(h.start_records(), h.map_records()))
    assert "JobEnd" not in {row["type"] for row in rows}
    assert kinds(problems) == ["unfinished"]


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"", "empty"),
        (b"Avro-Binary\n{}\n\x00\x01\x02", "avro_binary"),
        (b"Obj\x01\x04\x16avro.schema", "not_jhist"),
        (b"<html>\n<body>\n", "not_jhist"),
        (b'{"apps": null}\n', "not_jhist"),
        (b"\x00" * 100_000, "not_jhist"),
        (b"line\n" * 500, "not_jhist"),
    ],
)
def test_files_that_are_no_history(data: bytes, kind: str) -> None:
    parser, rows, problems = parse(data)
    assert kinds(problems) == [kind]
    assert rows == []
    assert parser.job is None


def test_a_bad_record_costs_itself_alone() -> None:
    bad = [
        "{not json}",
        "[1, 2]",
        json.dumps({"type": "MAP_ATTEMPT_STARTED", "event": {}}),
        json.dumps({"type": "MAP_ATTEMPT_STARTED", "event": {"X": {"attemptId": "attempt_../../etc"}}}),
        json.dumps({"type": "JOB_FINISHED", "event": {"X": {"jobid": "job_9_9", "finishTime": 1}}}),
        json.dumps({"type": "MAP_ATTEMPT_FINISHED", "event": {"X": 5}}),
    ]
    _, rows, problems = parse(h.history(h.start_records(), bad, h.map_records(), h.reduce_records(), h.end_records()))
    assert len(rows) == 9
    assert kinds(problems) == ["bad_record"] * 6
    assert problems[0].place == f"{NAME}:11"  # after five lines, each with a blank one behind it


def test_unknown_record_type_is_reported_once() -> None:
    strange = [json.dumps({"type": "JOB_TELEPORTED", "event": {"X": {}}})] * 3
    _, rows, problems = parse(h.history(h.start_records(), strange, h.end_records()))
    assert kinds(problems) == ["unknown_record"]
    assert len(rows) == 2


def test_finish_without_a_start_has_no_period() -> None:
    _, rows, problems = parse(h.history(h.start_records(), h.map_records()[2:], h.end_records()))
    assert "MapStart" not in {row["type"] for row in rows}
    assert "period_ms" not in one(rows, "MapEnd")
    assert kinds(problems) == ["finish_without_start"]


@pytest.mark.parametrize("finish", [0, -1, None, "soon", True])
def test_no_finish_time_no_end(finish: object) -> None:
    _, rows, problems = parse(h.history(h.start_records(), h.map_records(finishTime=finish), h.end_records()))
    assert [row["type"] for row in rows] == ["JobStart", "MapStart", "JobEnd"]
    assert kinds(problems) == ["missing_time"]


def test_an_attempt_that_was_killed_before_it_ran_is_no_problem() -> None:
    killed = h.record(
        "REDUCE_ATTEMPT_KILLED", "TaskAttemptUnsuccessfulCompletion", taskid="x", taskType="REDUCE", finishTime=0,
        attemptId="attempt_1700000000000_0007_r_000000_0", hostname="UNKNOWN", rackname="UNKNOWN", status="KILLED",
    )  # fmt: skip
    _, rows, problems = parse(h.history(h.start_records(), [killed], h.end_records()))
    assert [row["type"] for row in rows] == ["JobStart", "JobEnd"]
    assert problems == []


def test_clock_that_went_back() -> None:
    _, rows, problems = parse(h.history(h.start_records(), h.map_records(finishTime=h.T0), h.end_records()))
    assert one(rows, "MapEnd")["t_lo_ms"] == h.T0
    assert "period_ms" not in one(rows, "MapEnd")
    assert kinds(problems) == ["negative_period"]


def test_missing_counter_is_empty_and_reported_once() -> None:
    few = h.counters(MAP_INPUT_RECORDS=1, MAP_OUTPUT_RECORDS=2**70)
    attempts = [h.map_records(f"attempt_1700000000000_0007_m_00000{i}_0", counters=few) for i in range(3)]
    _, rows, problems = parse(h.history(h.start_records(), *attempts, h.end_records()))
    mappers = [row for row in rows if row["type"] == "Mapper"]
    assert [row["n_input_records"] for row in mappers] == [1, 1, 1]
    assert not any("n_output_records" in row or "cpu_ms" in row for row in mappers)
    assert not [row for row in rows if row["type"] == "DataIO"]
    assert set(kinds(problems)) == {"missing_counter"}
    assert len(problems) == 7
    assert "3 attempt(s)" in problems[0].message


def test_map_only_job_queues_nothing() -> None:
    only = {
        k: v for k, v in h.MAP_COUNTERS.items() if k in ("MAP_INPUT_RECORDS", "MAP_OUTPUT_RECORDS", "IN_BYTES_READ")
    }
    attempt = h.map_records(counters=h.counters(**only, GC_TIME_MILLIS=1, CPU_MILLISECONDS=2))
    _, rows, problems = parse(h.history(h.start_records(n_reduces=0), attempt, h.end_records()))
    assert problems == []
    assert "DataIO" not in {row["type"] for row in rows}


@pytest.mark.parametrize(
    ("kind", "status"), [("JOB_FAILED", "FAILED"), ("JOB_KILLED", "KILLED"), ("JOB_ERROR", "ERROR")]
)
def test_jobs_that_do_not_succeed(kind: str, status: str) -> None:
    job_id = "job_1700000000000_0007"
    end = [h.record(kind, "JobUnsuccessfulCompletion", jobid=job_id, finishTime=h.T0 + 8_000, jobStatus=status)]
    _, rows, problems = parse(h.history(h.start_records(), end))
    assert (one(rows, "JobEnd")["status"], one(rows, "JobEnd")["period_ms"]) == (status, 3_000)
    assert problems == []


def test_failed_attempt_needs_no_counters() -> None:
    attempt_id = "attempt_1700000000000_0007_m_000000_0"
    failed = h.record(
        "MAP_ATTEMPT_FAILED", "TaskAttemptUnsuccessfulCompletion", taskid="x", attemptId=attempt_id, taskType="MAP",
        finishTime=h.T0 + 8_000, hostname="node2", status="FAILED", error="boom\n\tat x",
    )  # fmt: skip
    _, rows, problems = parse(h.history(h.start_records(), h.map_records()[:2], [failed], h.end_records()))
    assert problems == []
    assert (one(rows, "Mapper")["status"], one(rows, "Mapper")["period_ms"]) == ("FAILED", 2_000)
    assert "DataIO" not in {row["type"] for row in rows}


def test_a_second_finish_of_an_attempt_is_reported_and_changes_nothing() -> None:
    again = h.map_records(taskStatus="KILLED")[2]
    _, rows, problems = parse(h.history(h.start_records(), h.map_records(), [again], h.end_records()))
    assert one(rows, "MapEnd")["status"] == "SUCCEEDED"
    assert kinds(problems) == ["second_finish"]


@pytest.mark.parametrize("name", ["job_1700000000000_0007_1.jhist", "job_1700000000000_0007.jhist"])
def test_names_of_unfinished_histories_agree(name: str) -> None:
    assert parse(h.whole_history(), name)[2] == []


def test_what_a_second_master_repeats_is_told_once() -> None:
    repeated = [*h.start_records(), *h.map_records()]
    _, rows, problems = parse(h.history(repeated, repeated, h.end_records()))
    expected = parse(h.history(repeated, h.end_records()))[1]
    assert [row["event_id"] for row in rows] == [row["event_id"] for row in expected]
    assert problems == []


@pytest.mark.parametrize("name", ["/done/job_2.4.0-FAILED.jhist", "job_1700000000000_00071-x.jhist"])
def test_name_that_disagrees_with_the_content(name: str) -> None:
    parser, rows, problems = parse(h.whole_history(), name)
    assert kinds(problems) == ["name_disagrees"]
    assert parser.job is not None
    assert parser.job.job_id == "job_1700000000000_0007"
    assert len(rows) == 9


def test_hostile_text_stays_text() -> None:
    nasty = "a\ud800b\u202e'; DROP TABLE jobs;--\x1b[31m"
    start = h.start_records()
    start[1] = h.record("JOB_SUBMITTED", "JobSubmitted", jobid="job_1700000000000_0007", jobName=nasty, userName=None)
    _, rows, _ = parse(h.history(start, h.end_records()))
    assert one(rows, "JobStart")["job_name"] == nasty.replace("\ud800", "\ufffd")
    assert "user" not in one(rows, "JobStart")


DEEP = b'{"a":' * 100_000 + b"}" * 100_000


@pytest.mark.parametrize(
    "last",
    [
        DEEP,
        DEEP + b"\n",
        b'{"type":"JOB_FINISHED","event":"\\ud800"}\n',
        b'{"type":"JOB_KILLED","event":{"E":"\\ud800"}}',
    ],
)
def test_a_last_record_that_cannot_be_read_costs_only_itself(last: bytes) -> None:
    data = h.whole_history()
    n_lines = data.count(b"\n")
    _, rows, problems = parse(data + last)
    assert len(rows) == 9
    assert [(problem.kind, problem.place) for problem in problems] == [("bad_record", f"{NAME}:{n_lines + 1}")]


def test_a_byte_order_mark_before_the_first_line() -> None:
    _, rows, problems = parse(b"\xef\xbb\xbf" + h.whole_history())
    assert (len(rows), problems) == (9, [])


def test_of_many_bad_records_the_first_are_told_and_the_others_counted() -> None:
    _, rows, problems = parse(h.history(h.start_records(), ["{no"] * 1_000, h.map_records()))
    assert "MapEnd" in {row["type"] for row in rows}
    assert kinds(problems) == ["bad_record"] * 20 + ["unfinished", "more_bad_records"]
    assert problems[-1].message.startswith("980 more")


def test_a_binary_file_is_refused_before_it_ends() -> None:
    problems = ProblemLog("job_history")
    parser = JhistParser(NAME, problems, source_rank=3)
    parser.feed(b"\x01\x00binary\n" * 3)
    assert parser.refused
    assert kinds(list(problems.drain())) == ["not_jhist"]
