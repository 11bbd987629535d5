"""The editor: what is a query and why not, addresses, parameters, runs in a real process, results and files."""

from __future__ import annotations

import csv
import io
import json
import sys
from typing import Any

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from app.queries.messages import End, EndReason, QueryRequest, ResultRow, RunLimits
from collectors.schema import event_table
from dashboard.events.details import bound_events_frame
from dashboard.queries import panel
from dashboard.queries.check import OtherQueries, check_query
from dashboard.queries.notes import notes_of_recent
from dashboard.queries.panel import pool
from dashboard.queries.pool import QueryPool, QueryRun, Snapshot
from dashboard.queries.results import as_csv, as_json_lines, job_id_of, result_frame
from dashboard.views import editor
from dashboard.views.editor import BLANK, MAX_FOUND, MAX_URL_CHARS, events_frame, reference_frame
from tests.dashboard.queries.test_pool import HANGS, PRELUDE
from tests.dashboard.query_fixtures import (
    HOSTILE,
    SLOW,
    TIMES,
    Installation,
    attempts,
    given,
    in_address,
    installation,
    rerun,
    tables,
    texts,
    view,
)

__all__ = ["installation"]  # a fixture

MINE = "PATTERN SEQ(MapEnd a) WHERE skip_till_next_match WITHIN 1 s RETURN a.host"
OF_THE_ORACLE = """PATTERN (MapStart a OR JobStart b){2,3}
WHERE partition_contiguity { [job_id] AND [task_id] } WITHIN 1 s"""
"""No runtime but the oracle evaluates it."""

WAIT_S = 600.0


def typed(page: AppTest, text: str, *, run: bool = False) -> AppTest:
    """As the text field tells what is typed; `run`: Ctrl+Enter."""
    state: dict[str, Any] = {"text": text}
    page.session_state[f"editor-field-{page.session_state['editor-number']}"] = state
    if run:
        page.button(key="editor-run-button").click()
    return rerun(page)


def field(page: AppTest) -> dict[str, Any]:
    """What the text field was given."""
    (data,) = (found for found in given(page) if "checked" in found)
    return data


# ------------------------------------------------------------------- checking


def test_a_valid_text_is_compiled_with_its_parameters() -> None:
    checked = check_query(SLOW, {"least": "2 min"})
    assert checked.problem is None
    assert checked.compiled is not None
    assert checked.compiled.resolved.parameters == {"least": 120_000}
    assert check_query(SLOW, {"least": ""}).parameters == {}
    assert check_query(SLOW, {"least": " 5 "}).parameters == {"least": 5}


def test_a_mistake_has_its_place_caret_and_remedy() -> None:
    problem = check_query("PATTERN SEQ(MapEnd a)\nWHERE skip_till_next_match { a.hots = 'x' } WITHIN 1 s", {}).problem
    assert problem is not None
    assert (problem.line, problem.column, problem.end_column) == (2, 30, 36)
    assert problem.excerpt[1] == " " * 29 + "^" * 6
    assert problem.remedy == "did you mean host?"


@pytest.mark.parametrize(
    ("text", "written", "words"),
    [
        ("", {}, "empty"),
        ("x" * 70_000, {}, "70,000 bytes"),
        (SLOW, {"least": "soon"}, "least"),
        (SLOW, {"least": "nan"}, "least"),
        (OF_THE_ORACLE, {}, "iterations of different keys"),
        ("PATTERN SEQ(MapEnd a) WHERE skip_till_next_match WITHIN 1 s RETURN COUNT(*)", {}, ""),
        ("(" * 5_000, {}, ""),
        (HOSTILE, {}, ""),
        ("\ud800", {}, "half of a surrogate pair"),
        (SLOW.replace("WITHIN", "AND a.host != '\ud83d' WITHIN", 1), {}, "half of a surrogate pair"),
    ],
)
def test_whatever_is_no_query_is_a_problem_with_words(text: str, written: dict[str, str], words: str) -> None:
    checked = check_query(text, written)
    assert checked.compiled is None
    assert checked.problem is not None
    assert checked.problem.message
    assert words in checked.problem.message


def test_a_query_may_use_the_matches_of_others() -> None:
    others = OtherQueries({"map-ends": MINE, "broken": "PATTERN SEQ(Nothing a)", "beside": BLANK}, {"map-ends": {}})
    text = "PATTERN SEQ({} m) WHERE skip_till_any_match {{ m.host = 'x' }} WITHIN 0 RETURN m.host"
    checked = check_query(text.format("map_ends"), {}, "mine", others)
    assert checked.compiled is not None
    assert checked.used.texts == {"map-ends": MINE}
    assert "matches    of map-ends: the certain ones" in checked.compiled.explain()
    problem = check_query(text.format("broken"), {}, "mine", others).problem
    assert problem is not None
    assert problem.message.startswith("it uses the matches of broken, which is refused: ")
    assert problem.line is None
    unknown = check_query(text.format("map_end"), {}, "mine", others).problem
    assert unknown is not None
    assert (unknown.line, unknown.column) == (1, 13)


def test_what_only_the_oracle_evaluates_has_the_engines_remedy() -> None:
    problem = check_query(OF_THE_ORACLE, {}).problem
    assert problem is not None
    assert problem.remedy is not None
    assert "oracle" in problem.remedy


# ------------------------------------------------------------------ addresses


def test_begins_with_the_named_query_and_its_configured_parameters(installation: Installation) -> None:
    installation.configure("  parameters: {slow: {least: 2 min}}")
    page = view("editor", name="slow")
    assert field(page)["checked"] == SLOW
    assert page.text_input(key="editor-parameter-1-least").value == "2 min"
    assert "least = 120000" in texts(page)


def test_begins_with_the_text_of_the_address(installation: Installation) -> None:
    page = view("editor", text=MINE)
    assert field(page)["checked"] == MINE
    assert field(page)["problem"] is None
    assert in_address(page, "text") == MINE


def test_begins_with_an_example_that_is_valid(installation: Installation) -> None:
    page = view("editor")
    assert field(page)["checked"] == BLANK
    assert field(page)["problem"] is None


@pytest.mark.parametrize("name", ["gone", HOSTILE, "../slow"])
def test_an_unknown_name_is_told(installation: Installation, name: str) -> None:
    page = view("editor", name=name)
    assert "There is no query" in page.warning[0].value
    assert "<script>" not in texts(page)
    assert field(page)["checked"] == BLANK


def test_what_is_typed_stands_in_the_address_and_is_judged(installation: Installation) -> None:
    page = typed(view("editor", name="slow"), "PATTERN SEQ(MapEn a) WHERE skip_till_next_match WITHIN 1 s")
    assert "name" not in page.query_params
    assert in_address(page, "text").startswith("PATTERN SEQ(MapEn a)")
    data = field(page)
    assert data["checked"] == in_address(page, "text")
    assert data["problem"]["remedy"] == "did you mean MapEnd?"
    assert page.session_state["editor-number"] == 1, "the field must not be replaced while one types"
    typed(page, SLOW)
    assert in_address(page, "name") == "slow"
    assert "text" not in page.query_params


def test_a_request_with_the_address_from_before_overwrites_nothing(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = typed(view("editor"), MINE.replace("MapEnd", "MapEn"))
    typed(page, MINE)
    page.query_params["text"] = MINE.replace("MapEnd", "MapEn")  # the browser has not heard of the other one yet
    rerun(page)
    assert field(page)["checked"] == in_address(page, "text") == MINE
    assert page.session_state["editor-number"] == 1
    monkeypatch.setattr(editor, "LATE_S", 0.0)  # later somebody has gone back to it
    page.query_params["text"] = MINE.replace("MapEnd", "MapEn")
    rerun(page)
    assert field(page)["checked"] == in_address(page, "text") == MINE.replace("MapEnd", "MapEn")


def test_a_long_text_is_not_put_into_the_address(installation: Installation) -> None:
    page = typed(view("editor"), MINE + " " * MAX_URL_CHARS)
    assert "text" not in page.query_params
    assert "too long for the address" in texts(page)


def test_a_template_takes_the_place_and_mine_comes_back(installation: Installation) -> None:
    page = typed(view("editor"), MINE)
    page.selectbox(key="editor-template-1").set_value("times")
    rerun(page)
    assert field(page)["checked"] == TIMES
    page.button(key="editor-undo").click()
    rerun(page)
    assert field(page)["checked"] == MINE


def test_parameters_of_the_address_are_used_and_kept(installation: Installation) -> None:
    page = view("editor", **{"name": "slow", "p.least": "5 s"})
    assert "least = 5000" in texts(page)
    page.text_input(key="editor-parameter-1-least").set_value("7 s")
    rerun(page)
    assert in_address(page, "p.least") == "7 s"
    assert "least = 7000" in texts(page)


def test_a_wrong_parameter_is_told_at_the_text(installation: Installation) -> None:
    problem = field(view("editor", **{"name": "slow", "p.least": "<b>soon</b>"}))["problem"]
    assert "least: found '<b>soon</b>'" in problem["message"]


def test_hostile_text_is_data_only(installation: Installation) -> None:
    page = typed(view("editor"), HOSTILE[:400])
    assert "<script>" not in texts(page)
    assert field(page)["checked"] == HOSTILE[:400]


def test_reference_is_searched_by_all_words() -> None:
    assert len(reference_frame("")) > 50
    found = reference_frame("SHUFFLE ms")
    assert len(found)
    assert all("shuffle" in " ".join(map(str, row)).lower() for row in found.to_numpy())
    assert reference_frame("no such thing").empty


def test_the_reference_begins_with_every_event(installation: Installation) -> None:
    frame = events_frame()
    assert frame["Event"].tolist() == list(dict.fromkeys(row.type for row in event_table()))
    assert frame.set_index("Event").at["JobEnd", "Attributes"].startswith("job_id, job_name, user")
    page = view("editor")
    assert tables(page)[0]["Event"] == frame["Event"].tolist()
    page.text_input(key="editor-reference").set_value("host").run()
    assert f"The first {MAX_FOUND} of {len(reference_frame('host'))}" in texts(page)
    page.text_input(key="editor-reference").set_value("shuffle ms").run()
    found = reference_frame("shuffle ms")
    assert tables(page)[0]["Meaning"] == found["Meaning"].tolist()
    assert "more words find fewer" not in texts(page)


# ----------------------------------------------------------------------- runs


def run_of(page: AppTest) -> QueryRun:
    run = page.session_state["editor-run"]
    assert isinstance(run, QueryRun)
    return run


def finished(page: AppTest) -> AppTest:
    assert run_of(page).wait(WAIT_S)
    return rerun(page)


def test_without_events_the_page_says_what_fills_the_log(installation: Installation) -> None:
    page = view("editor", name="slow")
    assert "clustercep run" in texts(page)
    assert "Traceback" not in texts(page)


def test_a_run_gives_rows_with_links_and_files(installation: Installation) -> None:
    installation.log(attempts(30))
    page = view("editor", name="slow")
    assert "About 60 events" in texts(page)
    page.button(key="editor-run-button").click()
    finished(rerun(page))
    frame = page.dataframe[-1].value
    assert list(frame["period_ms"]) == [f"{n / 1_000:g} s" for n in range(1_000, 3_000, 100)]
    assert set(frame["Job"]) == {"job?id=job_1_1"}
    assert "20 rows from 60 events" in texts(page)


def test_a_run_about_trends_shows_every_window_with_the_threshold(installation: Installation) -> None:
    text = """PATTERN MapEnd+ m
WHERE   m.period_ms < NEXT(m).period_ms
GROUP BY job_id
WITHIN  10 s SLIDE 10 s
HAVING  COUNT(*) >= 1000
RETURN  job_id, COUNT(*) AS n_rising
"""
    # 1 event ends at 0 and 2^9 - 1 trends are in (0, 10 s], 2^9 - 1 in (10 s, 20 s], one in (20 s, 30 s].
    installation.log(attempts(19))
    page = view("editor", text=text)
    assert field(page)["verdict"].startswith("✓ Valid")
    page.button(key="editor-run-button").click()
    said = texts(finished(rerun(page)))
    assert "0 rows from 19 events" in said
    assert "HAVING lets no window through" in said
    assert "they have only the events within it" in said
    (chart,) = page.get("vega_lite_chart")
    assert "HAVING >= 1,000" in str(chart.proto)
    page = view("editor", text=text.replace(">= 1000", "> 1"))
    page.button(key="editor-run-button").click()
    finished(rerun(page))
    assert set(page.dataframe[-1].value["Job"]) == {"job?id=job_1_1"}


def test_a_run_uses_the_parameters_and_the_span(installation: Installation) -> None:
    installation.log(attempts(30))
    page = view("editor", **{"name": "slow", "p.least": "500", "from": "3000", "to": "9950"})
    page.button(key="editor-run-button").click()
    finished(rerun(page))
    assert list(page.dataframe[-1].value["period_ms"]) == [f"{n} ms" for n in (500, 600, 700, 800, 900)]


def test_hostile_values_of_events_are_inert_in_the_table(installation: Installation) -> None:
    installation.log(attempts(12, host=HOSTILE))
    page = view("editor", name="slow")
    page.button(key="editor-run-button").click()
    finished(rerun(page))
    host = page.dataframe[-1].value["host"][0]
    assert "\n" not in host
    assert "\u202e" not in host
    assert len(host) <= 200


def test_no_match_says_so(installation: Installation) -> None:
    installation.log(attempts(3))
    page = view("editor", name="slow")
    page.button(key="editor-run-button").click()
    assert "No match" in texts(finished(rerun(page)))


def test_a_limit_of_events_is_told(installation: Installation, monkeypatch: pytest.MonkeyPatch) -> None:
    installation.log(attempts(30))
    monkeypatch.setenv("CLUSTERCEP__DASHBOARD__MAX_QUERY_EVENTS", "40")
    st.cache_resource.clear()
    page = view("editor", name="slow")
    assert "Only the first 40 are read" in texts(page)
    page.button(key="editor-run-button").click()
    assert "limit of 40 events" in texts(finished(rerun(page)))
    monkeypatch.delenv("CLUSTERCEP__DASHBOARD__MAX_QUERY_EVENTS")
    st.cache_resource.clear()


def test_a_run_can_be_stopped_and_another_takes_its_place(installation: Installation) -> None:
    installation.log(attempts(30))
    page = view("editor", name="slow")
    page.button(key="editor-run-button").click()
    first = run_of(rerun(page))
    page.button(key="editor-run-button").click()
    second = run_of(rerun(page))
    assert second is not first
    assert first.is_over
    second.stop()
    assert second.wait(WAIT_S)
    assert pool().n_running == 0


def test_the_next_run_is_prepared_while_none_is_under_way(
    installation: Installation, prepared: list[None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run lasts until it is stopped: one that ends by itself may be over before the page has been made."""
    running = QueryPool(command=(sys.executable, "-c", f"{PRELUDE}\n{HANGS}"))
    monkeypatch.setattr(panel, "pool", lambda: running)
    installation.log(attempts(30))
    page = view("editor", name="slow")
    n_shown = len(prepared)
    assert n_shown > 0
    page.button(key="editor-run-button").click()
    run = run_of(rerun(page))
    assert len(prepared) == n_shown
    run.stop()
    assert run.wait(WAIT_S)
    rerun(page)
    assert len(prepared) > n_shown


def test_as_many_runs_as_may_run_are_told(installation: Installation, monkeypatch: pytest.MonkeyPatch) -> None:
    installation.log(attempts(3))
    page = view("editor", name="slow")
    monkeypatch.setattr(pool(), "n_at_once", 0)
    page.button(key="editor-run-button").click()
    assert "as many as may run" in rerun(page).warning[0].value


# -------------------------------------------------------------------- results


def result(**changes: Any) -> ResultRow:
    given: dict[str, Any] = {
        "key": {"task_id": "task_1_2_m_3"}, "first_lo_ms": 0, "last_hi_ms": 1, "bindings": {"a": ["1", "2"]},
        "n_bound": {"a": 2}, "confidence": 0.5, "values": {"x": 1},
    }  # fmt: skip
    return ResultRow(**{**given, **changes})


@pytest.mark.parametrize(
    ("values", "job_id"),
    [
        ({"job_id": "job_1_2"}, "job_1_2"),
        ({"task_id": "task_1_2_m_3"}, "job_1_2"),
        ({"attempt_id": "attempt_1_2_m_3_0"}, "job_1_2"),
        ({"application_id": "application_1_2"}, "job_1_2"),
        ({"application_id": "application_1_2", "job_id": None}, None),  # it runs no MapReduce job
        ({"attempt_id": "attempt_1_2_m_3_0", "job_id": None}, "job_1_2"),
        ({"job_id": "job_1_2?x=<script>"}, None),
        ({"job_id": 7}, None),
        ({}, None),
    ],
)
def test_the_job_of_a_row(values: dict[str, Any], job_id: str | None) -> None:
    assert job_id_of(values) == job_id


def test_table_of_rows() -> None:
    frame = result_frame([result(), result(count=5, count_exact=False, values={"Job": "mine"})])
    assert list(frame["Job"]) == ["job?id=job_1_2"] * 2
    assert list(frame["Matches"]) == ["1", "at least 5"]
    assert list(frame["Job (value)"]) == [None, "mine"]
    assert list(frame["Events"]) == [2, 2]


def test_csv_cannot_carry_formulas() -> None:
    rows = [result(values={"x": text}) for text in ("=1+1", "+1", "-1", "@x", "\tx", 'a\nb,"c"', -5)]
    read = list(csv.DictReader(io.StringIO(as_csv(rows))))
    assert [row["x"] for row in read] == ["'=1+1", "'+1", "'-1", "'@x", "'\tx", 'a\nb,"c"', "-5"]
    assert read[0]["confidence"] == "0.5"


def test_json_lines_carry_everything() -> None:
    (line,) = as_json_lines([result(values={"x": HOSTILE})]).splitlines()
    assert json.loads(line)["values"] == {"x": HOSTILE}
    assert json.loads(line)["bindings"] == {"a": ["1", "2"]}


def test_matches_of_other_queries_are_no_events_that_are_gone() -> None:
    request = QueryRequest("PATTERN SEQ(map_ends m, MapEnd b) WITHIN 1 s", {}, 0, 1, "mine", {"map-ends": MINE})
    frame = bound_events_frame({"m": ["0a1b"], "b": ["gone"]}, attempts(1), request.variables_of_others())
    assert list(frame["Event"]) == ["match of map-ends", "no longer kept"]


def test_events_of_a_row_with_those_that_are_gone() -> None:
    frame = bound_events_frame({"a": ["s0", "gone"], "b": ["e0"]}, attempts(1, host=HOSTILE))
    assert list(frame["Event"]) == ["MapStart", "no longer kept", "MapEnd"]
    assert list(frame["Variable"]) == ["a", "a", "b"]
    assert "\n" not in frame["host"][0]
    assert frame["period_ms"][2] == "0 ms"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"reason": EndReason.TIME_LIMIT}, "time limit of 2 min"),
        ({"reason": EndReason.EVENT_LIMIT}, "limit of 10 events"),
        ({"reason": EndReason.ROW_LIMIT}, "first 2 rows"),
        ({"reason": EndReason.MEMORY_LIMIT}, "memory"),
        ({"capped": True}, "more rows"),
        ({"n_rejected": 3}, "3 events were left out: they have no exact time"),
        ({"n_rejected": 3, "left_out_for": "for trends"}, "3 events were left out: for trends."),
        ({"n_unfinished": 3}, "matches may be missing"),
        ({"n_late": 3}, "out of order"),
        ({"assumes_end": True}, "does not happen"),
    ],
)
def test_what_a_reader_has_to_know(changes: dict[str, Any], words: str) -> None:
    end = End(**{
        "reason": EndReason.FINISHED, "n_events": 9, "n_rows": 2, "n_rejected": 0, "n_unfinished": 0, "n_late": 0,
        "capped": False, "assumes_end": False, "seconds": 1.0, **changes,
    })  # fmt: skip
    snapshot = Snapshot((), None, end, None, True, False, 1.0)
    limits = RunLimits(max_events=10, timeout_ms=120_000)
    (text,) = notes_of_recent(limits, snapshot)
    assert words in text


def test_bounds_of_counts_are_told() -> None:
    end = End(EndReason.FINISHED, 9, 2, 0, 0, 0, False, False, 1.0)
    snapshot = Snapshot((result(count=5, count_exact=False),), None, end, None, True, False, 1.0)
    assert ["at least" in text for text in notes_of_recent(RunLimits(10, 120_000), snapshot)] == [True]
