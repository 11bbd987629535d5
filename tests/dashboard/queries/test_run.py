"""Queries over an event log: the oracle's rows for any cut into batches, limits, cancelling, hostile values."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from app.queries.messages import (
    MAX_IDS,
    End,
    EndReason,
    Failure,
    Message,
    Progress,
    QueryRequest,
    ResultRow,
    RunLimits,
    as_json,
    from_json,
    read_request,
    request_line,
    result_row,
)
from collectors.schema import load_event_types
from dashboard.queries.run import run_query
from engine import MatchRow, compile_query, parse, reference_output, resolve
from engine.errors import UnsupportedQueryError
from engine.events import EventBatch, EventSchema
from tests.conformance.comparison import check_rows
from tests.engine.strategies import (
    ANY,
    IMPRECISE,
    NEXT,
    PARTITION,
    PRECISE,
    SCHEMA,
    STRICT,
    WEIGHTED,
    Case,
    QueryScope,
    cases,
)
from tests.examples import examples

COMPILED_ANY = QueryScope(
    strategies=(ANY,),
    outputs=("ALL", "SETS", "COLLAPSED", "COUNT", "TOP 2 BY CONFIDENCE"),
    confidence=True,
    having=True,
)
COMPILED_RUNS = QueryScope(strategies=(NEXT, PARTITION, STRICT), having=True)

LIMITS = RunLimits(max_events=10_000, timeout_ms=600_000)
SETTINGS = settings(max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.too_slow])

MAPS = "PATTERN SEQ(MapStart a, MapEnd b) WHERE skip_till_next_match { [attempt_id] } WITHIN 1 hour RETURN a.attempt_id"
CLUSTER = load_event_types()


class FakeLog:
    """An event log in memory; `read` counts the batches that were asked for."""

    def __init__(self, events: EventBatch) -> None:
        self.events = events.sorted()
        self.n_read = 0

    def batches(
        self, *, types: Collection[str] | None, from_ms: int | None, to_ms: int | None, rows: int
    ) -> Iterator[EventBatch]:
        found = self._found(types, from_ms, to_ms)
        for start in range(0, len(found), rows):
            self.n_read += 1
            yield EventBatch(found.table.slice(start, rows))

    def count(self, *, types: Collection[str] | None, from_ms: int | None, to_ms: int | None) -> int:
        return len(self._found(types, from_ms, to_ms))

    def _found(self, types: Collection[str] | None, from_ms: int | None, to_ms: int | None) -> EventBatch:
        assert types is not None
        assert from_ms is not None
        assert to_ms is not None
        of_types = self.events.of_types(types)
        return of_types.where((of_types.t_hi_ms >= from_ms) & (of_types.t_lo_ms <= to_ms))


def messages(
    text: str,
    events: EventBatch,
    limits: RunLimits = LIMITS,
    schema: EventSchema = CLUSTER,
    **options: Any,
) -> list[Message]:
    span = (0, 0) if not len(events) else (int(events.t_lo_ms.min()), int(events.t_hi_ms.max()))
    request = QueryRequest(text, {}, *span)
    return list(run_query(request, FakeLog(events), limits, schema=schema, **options))


def rows_of(told: Sequence[Message]) -> list[ResultRow]:
    return [message for message in told if isinstance(message, ResultRow)]


def end_of(told: Sequence[Message]) -> End:
    assert isinstance(told[-1], End), told[-1]
    assert not any(isinstance(message, End | Failure) for message in told[:-1])
    return told[-1]


def map_attempts(n: int, gap_ms: int = 1_000) -> EventBatch:
    """n attempts that start every `gap_ms` and take half of that."""
    rows: list[dict[str, Any]] = []
    for i in range(n):
        names = {"job_id": "job_1_1", "attempt_id": f"attempt_1_1_m_{i}_0"}
        for event_type, t_ms in (("MapStart", i * gap_ms), ("MapEnd", i * gap_ms + gap_ms // 2)):
            rows.append({"event_id": f"{event_type}{i}", "type": event_type, "t_lo_ms": t_ms, **names})
    return EventBatch.from_rows(rows, CLUSTER)


# ------------------------------------------------------------- the same rows


def check_against_oracle(case: Case, batch_rows: int) -> None:
    note(f"{case}\nbatches of {batch_rows}")
    try:
        resolved = compile_query(case.query, SCHEMA).resolved
    except UnsupportedQueryError:
        return
    told = messages(case.query, case.stream, schema=SCHEMA, batch_rows=batch_rows)
    assert end_of(told).reason is EndReason.FINISHED
    check_rows(resolved.query.output, rows_of(told), reference_output(resolved, case.stream), case.stream)


@given(cases(COMPILED_ANY, PRECISE), st.integers(1, 7))
@SETTINGS
def test_precise_events_give_the_oracles_rows_for_any_batch_size(case: Case, batch_rows: int) -> None:
    check_against_oracle(case, batch_rows)


@given(st.one_of(cases(COMPILED_ANY, IMPRECISE), cases(COMPILED_ANY, WEIGHTED)), st.integers(1, 7))
@SETTINGS
def test_imprecise_events_give_the_oracles_rows_for_any_batch_size(case: Case, batch_rows: int) -> None:
    check_against_oracle(case, batch_rows)


@given(cases(COMPILED_RUNS, PRECISE), st.integers(1, 7))
@SETTINGS
def test_runs_give_the_oracles_rows_for_any_batch_size(case: Case, batch_rows: int) -> None:
    check_against_oracle(case, batch_rows)


@pytest.mark.parametrize("batch_rows", [1, 3, 1_000])
def test_limit_holds_for_the_whole_run(batch_rows: int) -> None:
    events = map_attempts(10)
    resolved = resolve(parse(f"{MAPS} LIMIT 4"), CLUSTER, {})
    told = messages(f"{MAPS} LIMIT 4", events, batch_rows=batch_rows)
    expected = [row.values for row in reference_output(resolved, events)]
    assert [row.values for row in rows_of(told)] == expected
    assert end_of(told).capped
    assert end_of(told).reason is EndReason.FINISHED


@pytest.mark.parametrize("batch_rows", [1, 1_000])
def test_a_limit_that_is_not_reached_is_not_told(batch_rows: int) -> None:
    told = messages(f"{MAPS} LIMIT 10", map_attempts(10), batch_rows=batch_rows)
    assert len(rows_of(told)) == 10
    assert not end_of(told).capped


@pytest.mark.parametrize("batch_rows", [1, 3, 1_000])
def test_top_holds_for_the_whole_run(batch_rows: int) -> None:
    rows: list[dict[str, Any]] = []
    for i in (3, 7, 1, 9, 5):  # the later a start lies in the interval of its end, the less likely is its order
        name = {"attempt_id": f"attempt_1_1_m_{i}_0"}
        at_ms = len(rows) * 1_000
        rows.append({"event_id": f"s{i}", "type": "MapStart", "t_lo_ms": at_ms + i * 10, **name})
        rows.append({"event_id": f"e{i}", "type": "MapEnd", "t_lo_ms": at_ms, "t_hi_ms": at_ms + 100, **name})
    events = EventBatch.from_rows(rows, CLUSTER)
    text = f"{MAPS.replace('next', 'any')} OUTPUT TOP 2 BY CONFIDENCE"
    expected = reference_output(resolve(parse(text), CLUSTER, {}), events)
    found = rows_of(messages(text, events, batch_rows=batch_rows))
    assert [row.bindings["a"] for row in found] == [["s1"], ["s3"]]
    assert [row.confidence for row in found] == pytest.approx([float(row.confidence) for row in expected])


# ---------------------------------------------------------- progress, ends


@pytest.mark.parametrize("batch_rows", [3, 100])
def test_top_holds_for_each_window(batch_rows: int) -> None:
    text = "PATTERN SEQ(MapStart a, MapEnd b) WHERE skip_till_any_match WITHIN 2 s SLIDE 2 s OUTPUT TOP 1 BY CONFIDENCE"
    told = messages(text, map_attempts(10, 997), batch_rows=batch_rows)
    resolved = resolve(parse(text), CLUSTER)
    expected = reference_output(resolved, map_attempts(10, 997))
    assert len(expected) > 3
    assert sorted(row.bindings["a"] for row in rows_of(told)) == sorted(list(row.bindings["a"]) for row in expected)


# -------------------------------------------------- the matches of other queries


@pytest.mark.parametrize("batch_rows", [3, 100])
def test_a_query_over_the_matches_of_another(batch_rows: int) -> None:
    events = map_attempts(9)
    text = "PATTERN SEQ(map_runs m) WHERE skip_till_any_match { m.attempt_id != :but } WITHIN 0 RETURN m.ended AS ended"
    maps = "PATTERN SEQ(MapStart a, MapEnd b) WHERE skip_till_next_match { [attempt_id] } WITHIN :most s "
    request = QueryRequest(
        "PARAMETERS but = '' " + text,
        {"but": "attempt_1_1_m_4_0"},
        0,
        10**6,
        "mine",
        {
            "map-runs": "PARAMETERS most = 5 " + maps.replace(":most s", ":most") + "RETURN b.timestamp AS ended"
            " REPORT 'x'",
            "unused": "no query at all",
        },
        {"map-runs": {"most": 900}},
    )
    sent, _ = read_request(request_line(request, LIMITS))
    assert sent == request
    told = list(run_query(sent, FakeLog(events), LIMITS, batch_rows=batch_rows))
    assert [row.values["ended"] for row in rows_of(told)] == [i * 1_000 + 500 for i in range(9) if i != 4]
    assert end_of(told).n_events == len(events)


def test_rows_come_before_the_end_and_progress_grows() -> None:
    told = messages(MAPS, map_attempts(100), batch_rows=20)
    assert told[0] == Progress(0, 200, None, 0)
    steps = [message for message in told if isinstance(message, Progress)]
    assert [step.n_events for step in steps] == list(range(0, 201, 20))
    assert steps[-1].watermark_ms == 99_500
    first_row = next(at for at, message in enumerate(told) if isinstance(message, ResultRow))
    assert first_row < told.index(steps[2])
    assert end_of(told) == replace(end_of(told), reason=EndReason.FINISHED, n_events=200, n_rows=100)


def test_a_first_long_batch_is_cut_so_that_rows_come_early() -> None:
    told = messages(MAPS, map_attempts(3_000), batch_rows=6_000)
    assert [message.n_events for message in told if isinstance(message, Progress)] == [0, 2_000, 6_000]


def test_closing_reads_nothing_more() -> None:
    log = FakeLog(map_attempts(100))
    run = run_query(QueryRequest(MAPS, {}, 0, 10**9), log, LIMITS, batch_rows=10)
    next(message for message in run if isinstance(message, ResultRow))
    run.close()  # type: ignore[attr-defined]  # a generator
    assert log.n_read == 1


def test_event_limit_decides_what_was_read() -> None:
    told = messages(MAPS, map_attempts(100), replace(LIMITS, max_events=51), batch_rows=20)
    assert end_of(told).reason is EndReason.EVENT_LIMIT
    assert end_of(told).n_events == 51
    assert len(rows_of(told)) == 25


def test_event_limit_that_just_suffices_is_no_limit() -> None:
    told = messages(MAPS, map_attempts(10), replace(LIMITS, max_events=20), batch_rows=5)
    assert end_of(told).reason is EndReason.FINISHED


def test_time_limit() -> None:
    seconds = iter(range(1_000))
    told = messages(
        MAPS, map_attempts(100), replace(LIMITS, timeout_ms=20_000), batch_rows=2, clock=lambda: next(seconds)
    )
    assert end_of(told).reason is EndReason.TIME_LIMIT
    assert 0 < end_of(told).n_events < 200


def test_memory_limit() -> None:
    bounds = replace(LIMITS, max_memory_bytes=1_000)
    told = messages(MAPS, map_attempts(100), bounds, batch_rows=2, memory_bytes=lambda: 1_000)
    assert end_of(told).reason is EndReason.MEMORY_LIMIT
    assert end_of(told).n_events == 2


@pytest.mark.parametrize("bounds", [replace(LIMITS, max_rows=7), replace(LIMITS, max_row_chars=7 * 250)])
def test_row_limit(bounds: RunLimits) -> None:
    told = messages(MAPS, map_attempts(100), bounds, batch_rows=20)
    assert end_of(told).reason is EndReason.ROW_LIMIT
    assert 0 < end_of(told).n_rows == len(rows_of(told)) <= 7


def test_no_events() -> None:
    told = messages(MAPS, EventBatch.empty())
    assert told[0] == Progress(0, 0, None, 0)
    assert end_of(told).n_rows == 0


def test_only_events_of_the_span_and_the_types_are_read() -> None:
    log = FakeLog(map_attempts(10))
    told = list(run_query(QueryRequest(MAPS, {}, 3_000, 4_999), log, LIMITS))
    assert end_of(told).n_events == 4
    assert [row.values["attempt_id"] for row in rows_of(told)] == ["attempt_1_1_m_3_0", "attempt_1_1_m_4_0"]


def test_rejected_events_are_told() -> None:
    events = EventBatch.from_rows([{**row, "t_hi_ms": row["t_lo_ms"] + 1} for row in map_attempts(3).rows()], CLUSTER)
    end = end_of(messages(MAPS, events))
    assert end.n_rejected == 6
    assert end.left_out_for is not None
    assert end.left_out_for.endswith("; use skip_till_any_match")


def test_why_trends_leave_events_out_is_told() -> None:
    """No strategy is to blame: the intervals are of one clock."""
    text = "PATTERN MapStart+ a WITHIN 1 hour SLIDE 1 hour RETURN COUNT(*)"
    rows = [{**row, "t_hi_ms": row["t_lo_ms"] + 1_500, "clock_id": "k"} for row in map_attempts(3).rows()]
    end = end_of(messages(text, EventBatch.from_rows(rows, CLUSTER)))
    assert end.n_rejected > 0
    assert end.left_out_for is not None
    assert "intervals of one clock must not overlap" in end.left_out_for


def test_absence_up_to_the_end_of_the_span_is_told() -> None:
    never_ended = "PATTERN SEQ(MapStart a, !MapEnd b) WHERE skip_till_next_match { [attempt_id] } WITHIN 1 hour"
    events = map_attempts(3)
    assert end_of(messages(never_ended, events)).assumes_end
    assert not end_of(messages(MAPS, events)).assumes_end


# ------------------------------------------------------------------ failures


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("PATTERN SEQ(MapStart a", ("query:1:", "expected", "^")),
        ("PATTERN SEQ(Mapstart a) WHERE skip_till_next_match WITHIN 1", ("Mapstart", "MapStart")),
        ("", ("query", "empty")),
        (
            "PATTERN (MapEnd a OR NodeLost n){2,3} WHERE skip_till_next_match { [job_id] } WITHIN 3 EVENTS",
            ("iterations of different keys", "remedy"),
        ),
    ],
)
def test_a_text_that_cannot_run_is_one_failure_with_the_engines_words(text: str, words: Sequence[str]) -> None:
    (failure,) = messages(text, map_attempts(1))
    assert isinstance(failure, Failure)
    for word in words:
        assert word in failure.message


def test_want_of_memory_is_a_failure_with_a_remedy() -> None:
    class Greedy(FakeLog):
        def batches(self, **_: Any) -> Iterator[EventBatch]:  # type: ignore[override]
            raise MemoryError

    (*_, failure) = run_query(QueryRequest(MAPS, {}, 0, 10), Greedy(map_attempts(1)), LIMITS)
    assert isinstance(failure, Failure)
    assert "shorter" in failure.message


# ------------------------------------------------------------------ the wire

HOSTILE = "<script>alert(1)</script>\n\r\u202e:red[x] $x$ \x00 \U0001f600" + "x" * 10_000


def test_hostile_values_travel_unchanged() -> None:
    names = {"job_id": HOSTILE, "attempt_id": HOSTILE}
    rows = [
        {"event_id": HOSTILE + kind, "type": kind, "t_lo_ms": at, **names}
        for at, kind in enumerate(("MapStart", "MapEnd"))
    ]
    (row,) = rows_of(messages(MAPS, EventBatch.from_rows(rows, CLUSTER)))
    assert row.values == {"attempt_id": HOSTILE}
    line = json.dumps(as_json(row), allow_nan=False)
    assert "\n" not in line
    assert from_json(json.loads(line)) == row


def match_row(**changes: Any) -> MatchRow:
    return replace(MatchRow("q", (("k", 1.0),), 1, 2, {"a": ("1",)}, 1.0, {}), **changes)


def test_values_that_json_does_not_know() -> None:
    row = result_row(
        match_row(values={"nan": math.nan, "inf": math.inf, "minus": -math.inf}, confidence=np.float64(0.5))
    )
    assert row.values == {"nan": None, "inf": "inf", "minus": "-inf"}
    assert json.loads(json.dumps(as_json(row), allow_nan=False))["confidence"] == 0.5


def test_a_row_tells_a_bounded_number_of_ids() -> None:
    ids = tuple(str(i) for i in range(MAX_IDS + 5))
    row = result_row(match_row(bindings={"b": ids}, candidates={"b": ids}))
    assert row.n_bound == {"b": MAX_IDS + 5}
    assert row.bindings["b"] == list(ids[:MAX_IDS])
    assert row.candidates == {"b": list(ids[:MAX_IDS])}


@pytest.mark.parametrize(
    "message",
    [
        Progress(1, 2, 3, 4),
        Failure("no"),
        End(EndReason.TIME_LIMIT, 1, 2, 3, 4, 5, True, False, 0.5),
        result_row(match_row(count=3, count_exact=False, candidates={"a": ("1",)}, exact=False, capped=True)),
    ],
)
def test_messages_survive_the_wire(message: Message) -> None:
    assert from_json(json.loads(json.dumps(as_json(message)))) == message


@pytest.mark.parametrize(
    "value", [{}, {"kind": "row"}, {"kind": "none"}, {"kind": "failure", "message": "x", "more": 1}, {"kind": "end"}]
)
def test_anything_else_is_no_message(value: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="no message of a run"):
        from_json(value)
