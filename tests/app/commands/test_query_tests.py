"""`clustercep test`: what the comparison finds, and what a test file must have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from app.commands import query_tests
from app.commands.query_tests import CasesError, QueryResult, differences, read_events
from collectors.schema import load_event_types
from engine.errors import QueryTypeError
from engine.events import EventBatch
from engine.matching.output.match_row import MatchRow

SCHEMA = load_event_types()


def row(task: str = "t1", confidence: float = 1.0, count: int = 1) -> MatchRow:
    return MatchRow("q", (("task_id", task),), 0, 9, {"a": ("1",), "b": ("2", "3")}, confidence, {"x": 2.5}, count)


@pytest.mark.parametrize(
    "want",
    [
        {"key": {"task_id": "t1"}},
        {"bindings": {"b": [2, "3"]}},
        {"values": {"x": 2.5}, "count": 1},
        {"confidence": 1},
    ],
)
def test_agreement(want: Mapping[str, Any]) -> None:
    assert differences([want], [row()]) == []


@pytest.mark.parametrize(
    "want",
    [
        {"key": {"task_id": "t2"}},
        {"key": {"task": "t1"}},
        {"bindings": {"b": ["3", "2"]}},
        {"bindings": {"c": ["1"]}},
        {"values": {"x": 2.4}},
        {"values": {"y": 2.5}},
        {"values": {"x": "2.5"}},
        {"confidence": 0.9},
        {"count": 2},
    ],
)
def test_disagreement_shows_both_sides(want: Mapping[str, Any]) -> None:
    missing, extra = differences([want], [row()])
    assert missing.startswith("expected, missing: ")
    assert extra.startswith("got, unexpected: ")


def test_every_row_needs_its_own_partner() -> None:
    general, special = {"count": 1}, {"key": {"task_id": "t1"}}
    assert differences([general, special], [row("t1"), row("t2")]) == []
    assert differences([special, general], [row("t1"), row("t2")]) == []
    assert len(differences([special, special], [row("t1"), row("t2")])) == 2
    assert len(differences([], [row()])) == 1


def test_times_of_events() -> None:
    events = [
        {"type": "MapEnd", "t": 1500},
        {"type": "MapEnd", "t": "2 s", "id": "x", "task_id": "t"},
        {"type": "MapEnd", "t_lo": "1 min", "t_hi": "1.5 min"},
        {"type": "MapEnd", "t": "1970-01-01T00:00:05"},
        {"type": "MapEnd", "t": 1500, "skew_ms": 20},
    ]
    batch = read_events(events, "f", SCHEMA)
    assert batch.t_lo_ms.tolist() == [1500, 2000, 60_000, 5_000, 1480]
    assert batch.t_hi_ms.tolist() == [1500, 2000, 90_000, 5_000, 1520]
    assert batch.strings("event_id").to_pylist() == ["1", "x", "3", "4", "5"]


@pytest.mark.parametrize(
    ("event", "complaint"),
    [
        ({"type": "Nope", "t": 1}, "unknown type 'Nope'"),
        ({"type": "MapEnd"}, "no time"),
        ({"type": "MapEnd", "t": "soon"}, "time 'soon'"),
        ({"type": "MapEnd", "t": True}, "time True"),
        ({"type": "MapEnd", "t": 1, "skew_ms": "1 s"}, "skew_ms is '1 s'"),
        ({"type": "MapEnd", "t": 1, "size_bytes": 3}, "MapEnd has no size_bytes"),
        ({"type": "MapEnd", "t": 1, "period_ms": "long"}, "period_ms"),
        ({"type": "MapEnd", "t_lo": 5, "t_hi": 1}, "interval starts"),
        (["MapEnd"], "expected a mapping"),
    ],
)
def test_bad_events_name_their_place(event: Any, complaint: str) -> None:
    with pytest.raises(CasesError, match=complaint) as caught:
        read_events([event], "q.test.yaml: case 1", SCHEMA)
    assert "q.test.yaml: case 1" in str(caught.value)


FIRING = "{name: fires, events: [{type: MapEnd, t: 1, task_id: t1}], expect: [{key: {task_id: t1}}]}"
SILENT = "{name: silent, events: [], expect: []}"


def run(folder: Path, cases: str | None, *, text: str = "any") -> QueryResult:
    """One query whose rows are one per event."""
    (folder / "q.cep").write_text(text)
    if cases is not None:
        (folder / "q.test.yaml").write_text(cases)

    def evaluate(
        name: str, texts: Mapping[str, str], _parameters: Mapping[str, Any], events: EventBatch
    ) -> Sequence[MatchRow]:
        if texts[name] == "wrong":
            raise QueryTypeError("no such type")
        return [row(task) for task in events.strings("task_id").to_pylist()]

    (result,) = query_tests.run_tests([folder], SCHEMA, evaluate)
    return result


def test_passing(tmp_path: Path) -> None:
    result = run(tmp_path, f"cases: [{FIRING}, {SILENT}]")
    assert result.passed
    assert [case.fires for case in result.cases] == [True, False]


@pytest.mark.parametrize(
    ("cases", "complaint"),
    [
        (None, "not there"),
        (f"cases: [{FIRING}]", "stays silent"),
        (f"cases: [{SILENT}]", "no case in which the query fires"),
        ("cases: []", "no list 'cases'"),
        ("[1, 2]", "no list 'cases'"),
        ("cases: [{name: x, events: [], expects: []}]", "unknown expects"),
        ("cases: [{name: x, events: []}]", "no expect"),
        ("cases: [{name: x, events: [], expect: [{vals: 1}]}]", "a row gives some of"),
        ("cases: [", "not YAML"),
        ("!!python/object/apply:os.getcwd []", "not YAML"),
    ],
)
def test_incomplete_test_files_fail(tmp_path: Path, cases: str | None, complaint: str) -> None:
    result = run(tmp_path, cases)
    assert not result.passed
    assert complaint in result.complaints[0]


def test_a_query_with_an_error_fails_its_cases(tmp_path: Path) -> None:
    result = run(tmp_path, f"cases: [{FIRING}, {SILENT}]", text="wrong")
    assert [case.complaints for case in result.cases] == [("query: no such type",)] * 2


def test_a_folder_without_queries_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CasesError, match=r"no \.cep file"):
        query_tests.run_tests([tmp_path], SCHEMA)


@pytest.mark.parametrize(
    ("query", "cases", "expected"),
    [
        (b"\xff", "cases: []", ["q.cep: byte 1 is not UTF-8"]),
        (b"PATTERN", "a: !!timestamp x", ["q.test.yaml: not YAML"]),
        (b"PATTERN", "a: 2020-13-45", ["q.test.yaml: not YAML", "month must be in 1..12"]),
        (b"PATTERN", "cases: [1]\ncases: [2]", ["q.test.yaml: not YAML", "the key 'cases' twice"]),
    ],
)
def test_files_that_cannot_be_read_are_named(tmp_path: Path, query: bytes, cases: str, expected: list[str]) -> None:
    (tmp_path / "q.cep").write_bytes(query)
    (tmp_path / "q.test.yaml").write_text(cases)
    (tmp_path / "folder.cep").mkdir()
    folder, broken = query_tests.run_tests([tmp_path], SCHEMA)
    assert "folder.cep: no file; expected the text of a query" in folder.complaints[0]
    assert [part for part in expected if part not in broken.complaints[0]] == []


def test_a_query_may_use_the_matches_of_those_beside_it(tmp_path: Path) -> None:
    (tmp_path / "map-times.cep").write_text(
        "PATTERN SEQ(MapEnd m) WHERE skip_till_any_match WITHIN 0 RETURN m.task_id, m.period_ms AS took_ms"
    )
    (tmp_path / "broken.cep").write_text("PATTERN nothing")
    (tmp_path / "q.cep").write_text(
        "PATTERN SEQ(map_times m) WHERE skip_till_any_match { m.took_ms > 5 } WITHIN 0 RETURN m.task_id"
    )
    events = "[{type: MapEnd, t: 1, task_id: t1, period_ms: 9}, {type: MapEnd, t: 2, task_id: t2, period_ms: 3}]"
    (tmp_path / "q.test.yaml").write_text(
        f"cases: [{{name: slow, events: {events}, expect: [{{values: {{task_id: t1}}}}]}}, {SILENT}]"
    )
    (result,) = query_tests.run_tests([tmp_path / "q.cep"], load_event_types())
    assert result.passed, result


def test_a_query_that_is_not_there_is_told_with_the_nearest(tmp_path: Path) -> None:
    (tmp_path / "slow-reads.cep").write_text("PATTERN SEQ(A a)")
    with pytest.raises(CasesError, match=r"slow-reeds: not there; .*; did you mean .*slow-reads\.cep\?$"):
        query_tests.run_tests([tmp_path / "slow-reeds"], load_event_types())
    with pytest.raises(CasesError, match=r"or a \.cep file$"):
        query_tests.run_tests([tmp_path / "nothing-like-it"], load_event_types())
