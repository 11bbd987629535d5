"""Sequences of rows against lists, and the ids of nested bindings."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine import Engine, compile_query
from engine.events import EventBatch, EventSchema
from engine.matching.output.match_row import MatchRow
from engine.matching.output.reading.rows_as_arrow import rows_table
from engine.matching.output.rows import MatchRows, joined_rows
from engine.matching.runs.rows import RunRows


def row(number: int) -> MatchRow:
    return MatchRow("q", (), number, number, {"a": (str(number),)}, 1.0, {})


@given(st.lists(st.integers(0, 4), max_size=5), st.integers(-12, 12), st.integers(-12, 12), st.sampled_from([1, 2, -1]))
def test_joined_rows_are_the_list_of_all(lengths: list[int], start: int, stop: int, step: int) -> None:
    numbers = iter(range(100))
    parts = [[row(next(numbers)) for _ in range(n)] for n in lengths]
    plain = [item for part in parts for item in part]
    joined = joined_rows([MatchRows(parts[:2]), *parts[2:]])
    assert len(joined) == len(plain)
    assert list(joined) == plain
    assert joined == plain
    assert joined[start:stop:step] == plain[start:stop:step]
    if -len(plain) <= start < len(plain):
        assert joined[start] == plain[start]
    else:
        with pytest.raises(IndexError):
            joined[start]
    assert joined != [*plain, row(0)]


def test_ids_of_nested_bindings_in_order() -> None:
    nested = MatchRow("q", (), 0, 9, {"a": (("1", "2"), (), ("3",)), "b": ("4",), "c": ((("5",),), ())}, 1.0, {})
    assert nested.event_ids == ("1", "2", "3", "4", "5")


def test_rows_of_runs_are_counted_and_exported_without_making_any(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = EventSchema.of({"A": {}, "B": {}})
    times = {"event_id": ["a", "b"], "type": ["A", "B"], "t_lo_ms": [1, 2], "t_hi_ms": [1, 2]}
    query = compile_query("PATTERN SEQ(A a, B b) WHERE skip_till_next_match WITHIN 9", schema)
    running = Engine([query], schema)
    rows = joined_rows([running.process(EventBatch.from_columns(times, schema), 9), running.finish()])
    monkeypatch.setattr(RunRows, "_rows", lambda *_: pytest.fail("a row was made"))
    assert isinstance(rows, MatchRows)
    assert rows.n_matches == 1
    assert rows.to_arrow().column("bindings").to_pylist() == [{"a": ["a"], "b": ["b"]}]


def test_an_event_that_an_iteration_lacks_is_null_among_ids() -> None:
    rows = [
        replace(row(0), bindings={"a": (("x", "y"), ()), "b": ("u", ()), "c": ()}),
        replace(row(1), bindings={"a": ((), ()), "b": ((), ()), "c": ("z",)}),
    ]
    emitted = rows_table(rows).column("bindings").to_pylist()
    assert [row["b"] for row in emitted] == [["u", None], [None, None]]
    assert [row["a"] for row in emitted] == [[["x", "y"], []], [[], []]]
    assert [row["c"] for row in emitted] == [[], ["z"]]
