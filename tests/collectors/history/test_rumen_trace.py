"""Rumen traces: concatenated JSON objects, with what Rumen does not know written as -1."""

from __future__ import annotations

import gzip
import json
import re
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collectors.base import Problem, ProblemLog
from collectors.history import rumen_trace
from collectors.history.rumen_trace import RumenJob, RumenParser
from collectors.identity import lifecycle_id
from engine.events import EventBatch
from tests.conftest import SHARED
from tests.examples import examples

JOB = "job_201001020304_0007"


def attempt(kind: str, **changes: Any) -> dict[str, Any]:
    told = {
        "attemptID": f"attempt_201001020304_0007_{kind}_000000_0",
        "hostName": "/r\\.1/n1\\.example",
        "startTime": 1_262_401_450_000,
        "finishTime": 1_262_401_459_000,
        "result": "SUCCESS",
        "shuffleFinished": 1_262_401_452_000 if kind == "r" else -1,
        "sortFinished": 1_262_401_452_500 if kind == "r" else -1,
        "mapInputRecords": 12 if kind == "m" else -1,
        "mapInputBytes": -1,
        "reduceShuffleBytes": 44 if kind == "r" else -1,
        "spilledRecords": 5,
        "resourceUsageMetrics": {"cumulativeCpuUsage": 290},
    }
    return told | changes


def job(**changes: Any) -> dict[str, Any]:
    told = {
        "jobID": JOB, "jobName": None, "user": "u", "queue": "q", "totalMaps": 1, "totalReduces": 1,
        "launchTime": 1_262_401_441_000, "finishTime": 1_262_401_460_000, "outcome": "SUCCESS",
        "mapTasks": [{"attempts": [attempt("m")]}], "reduceTasks": [{"attempts": [attempt("r")]}],
        "otherTasks": [{"attempts": [attempt("m", attemptID="attempt_201001020304_0007_m_000009_0")]}],
    }  # fmt: skip
    return told | changes


def parse(data: bytes) -> tuple[list[RumenJob], tuple[Problem, ...]]:
    problems = ProblemLog("rumen_trace")
    parser = RumenParser("t", problems, 5)
    parser.parse(data)
    return parser.jobs, problems.drain()


def text_of(*jobs: dict[str, Any]) -> bytes:
    return "\n ".join(json.dumps(told, indent=2) for told in jobs).encode()


def test_events_of_a_trace_have_the_ids_that_histories_give() -> None:
    (first, second), problems = parse(text_of(job(), job(jobID="job_201001020304_0008", mapTasks=[], reduceTasks=[])))
    assert problems == ()
    rows = {row["type"]: row for row in first.events.take_batch().rows()}
    assert set(rows) == {
        "JobStart", "JobEnd", "MapStart", "MapEnd", "Mapper", "ReducerStart", "ReducerEnd", "Reducer",
    }  # fmt: skip
    assert rows["JobEnd"]["event_id"] == lifecycle_id("JobEnd", JOB)
    assert (rows["JobEnd"]["status"], rows["JobEnd"]["period_ms"]) == ("SUCCEEDED", 19_000)
    mapper, reducer = rows["Mapper"], rows["Reducer"]
    assert (mapper["host"], mapper["rack"], mapper["clock_id"]) == ("n1.example", "/r.1", "host:n1.example")
    assert (mapper["n_input_records"], mapper.get("input_bytes"), mapper["cpu_ms"]) == (12, None, 290)
    assert (reducer["input_bytes"], reducer["shuffle_ms"], reducer["sort_ms"], reducer["reduce_ms"]) == (
        44, 2_000, 500, 6_500,
    )  # fmt: skip
    assert second.events.take_batch().strings("type").to_pylist() == ["JobStart", "JobEnd"]


@pytest.mark.parametrize(
    ("changes", "kinds", "n_events"),
    [
        ({"launchTime": -1}, ["missing_time"], 7),
        ({"outcome": None}, ["unfinished"], 7),
        ({"finishTime": 1}, ["negative_period"], 8),
        ({"mapTasks": [{"attempts": [attempt("m", startTime=-1)]}]}, ["missing_time"], 7),
        ({"mapTasks": [{"attempts": [attempt("m", finishTime=1_262_401_440_000)]}]}, ["negative_period"], 8),
        ({"mapTasks": [{"attempts": [attempt("m", result=None)]}]}, ["missing_time"], 6),
        ({"mapTasks": [{"attempts": [attempt("m", attemptID="attempt_1_1_m_1_1")]}]}, ["bad_record"], 5),
        ({"mapTasks": [{"attempts": [attempt("m", hostName=None, result="KILLED")]}]}, [], 8),
        ({"mapTasks": None, "reduceTasks": [3]}, [], 2),
    ],
)
def test_what_a_trace_lacks_is_not_invented(changes: dict[str, Any], kinds: list[str], n_events: int) -> None:
    (told,), problems = parse(text_of(job(**changes)))
    assert [p.kind for p in problems] == kinds
    assert len(told.events) == n_events


def test_damaged_traces() -> None:
    whole = text_of(job(), job(jobID="job_201001020304_0008", mapTasks=[], reduceTasks=[]))
    jobs, problems = parse(whole[:-40])
    assert ([j.job.job_id for j in jobs], [p.kind for p in problems]) == ([JOB], ["truncated"])
    jobs, problems = parse(whole.replace(b'"jobID"', b'"jobID', 1))
    assert ([j.job.job_id[-4:] for j in jobs], [p.kind for p in problems]) == (["0008"], ["bad_record"])
    for other in (b"", b"[1]", b'{"name": "<root>", "children": []}'):
        jobs, problems = parse(other)
        assert (jobs, problems[-1].kind) == ([], "not_a_trace")
    assert parse(b"[" * 100_000)[1]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**30), 10**30) | st.floats(allow_nan=False) | st.text(max_size=200),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=90), inner, max_size=6),
    max_leaves=20,
)


@settings(max_examples=examples(50), deadline=None)
@given(VALUES, st.booleans(), st.sampled_from(["", "\n", " x", "{", "]" * 200]), st.integers(0, 300))
def test_values_are_read_in_pieces_as_they_are_whole(value: Any, is_plain: bool, behind: str, n_cut: int) -> None:
    text = "\n" + json.dumps(value, ensure_ascii=is_plain)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rumen_trace, "MIN_PIECE_CHARS", rumen_trace._CUT_CHARS + 6)
        patch.setattr(rumen_trace, "GROWTH", 2)
        for given_text in (text + behind, text[: max(1, len(text) - n_cut)]):
            try:
                expected = json.JSONDecoder().raw_decode(given_text, 1)
            except ValueError as error:
                with pytest.raises(rumen_trace._NoJsonError, match=re.escape(str(error).partition(":")[0])):
                    rumen_trace._decoded(given_text, 1)
            else:
                assert rumen_trace._decoded(given_text, 1) == expected


@pytest.mark.parametrize(
    ("damage", "kind"),
    [
        (b"".join(b'{"type":%d\n' % n for n in range(30_000)) + b"9" * 8_000_000, "more_bad_records"),
        ((b'{"a":[\n' + b"{},\n" * 100) * 900, "damaged"),
    ],
    ids=["lines that are no JSON", "values that might go on"],
)
def test_damage_costs_what_it_is_long(damage: bytes, kind: str) -> None:
    """Not as much as all of the text for each mistake."""
    started_s = time.process_time()
    (told,), problems = parse(text_of(job()) + b"\n" + damage)
    assert time.process_time() - started_s < 20
    assert told.job.job_id == JOB
    assert kind in [problem.kind for problem in problems]


@pytest.mark.external
@pytest.mark.parametrize(
    "path", sorted(p for p in (SHARED / "data/traces").glob("*") if re.search(r"trace.*(json|gz)|rumen-jh", p.name)),
    ids=lambda p: p.name,
)  # fmt: skip
def test_real_traces_agree_with_a_count_of_their_fields(path: Path) -> None:
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    jobs, problems = parse(data)
    text = data.decode()
    found = Counter(EventBatch.concat(job.events.take_batch() for job in jobs).strings("type").to_pylist())
    n_other = len(re.findall(r'"taskType" : "(?:SETUP|CLEANUP)"', text))
    assert found["MapEnd"] + found["ReducerEnd"] == len(re.findall(r'"result" : "', text)) - n_other
    assert found["JobStart"] == len(re.findall(r'"launchTime" : \d', text))
    assert found["JobEnd"] == len(re.findall(r'"outcome" : "', text)) - sum(p.kind == "unfinished" for p in problems)
    assert {p.kind for p in problems} <= {"unfinished"}


def _places(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    if path:
        yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inner:
        yield from _places(item, (*path, key))


@pytest.mark.parametrize("wrong", [None, 1, -1, 1.5, "x", "\ud800", True, 10**30, [], [1], {}, {"a": 1}], ids=repr)
def test_a_value_of_any_other_type_costs_no_more_than_itself(wrong: Any) -> None:
    for path in _places(job()):
        changed = job()
        place: Any = changed
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = wrong
        jobs, problems = parse(text_of(changed, job()))
        assert [told.job.job_id for told in jobs][-1] == JOB, path
        assert len(jobs) == 2 or any(problem.kind == "bad_record" for problem in problems), path
