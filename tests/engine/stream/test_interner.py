"""Strings of a batch: whether they are all one. Those whose codes no state has are forgotten: a stream that names ever
new ones takes no more memory."""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine import Engine, compile_query
from engine.errors import StateError
from engine.events import AttributeType, EventBatch, EventSchema
from engine.stream.interner import Interner, is_one_text, numbers_in

SCHEMA = EventSchema.of(
    {name: {"k": AttributeType.STRING, "s": AttributeType.STRING, "x": AttributeType.INT} for name in "AB"}
)
QUERIES = (
    "PATTERN SEQ(A a, B b) WHERE skip_till_next_match { [k] AND a.s = 'ok' } WITHIN 20 ms RETURN b.s",
    "PATTERN SEQ(A a, B+ b[]) WHERE skip_till_any_match { [k] } WITHIN 20 ms OUTPUT COLLAPSED RETURN a.s",
    "PATTERN SEQ(A a, (SEQ(B b, B c))+) WHERE skip_till_next_match { [k] } WITHIN 20 ms RETURN a.k, a.s",
    "PATTERN SEQ(A a, B b) WHERE skip_till_any_match { a.s != b.s } WITHIN 20 ms SLIDE 20 ms OUTPUT COUNT",
    "PATTERN SEQ(A a, B b) WHERE skip_till_any_match { [k] } WITHIN 20 ms CONSUME a RETURN a.s",
)
N_STEPS, PER_STEP = 60, 200


def steps() -> Iterator[tuple[EventBatch, int]]:
    """Keys that come for a while and never again, a value that comes for ever, and one that comes back."""
    for number in range(N_STEPS):
        rows = [
            {
                "event_id": f"e{at}",
                "type": "ABB"[at % 3],
                "t_lo_ms": at,
                "k": f"task-{at // 6}",
                "s": "ok" if at % 6 == 0 else f"value-{at // 4 % 2_000}",
                "x": at,
            }
            for at in range(number * PER_STEP, (number + 1) * PER_STEP)
        ]
        yield EventBatch.from_rows(rows, SCHEMA), (number + 1) * PER_STEP


def engine_for(text: str) -> Engine:
    return Engine([compile_query(text, SCHEMA)], SCHEMA)


@pytest.mark.parametrize("text", QUERIES)
def test_a_stream_of_ever_new_names_takes_no_more_memory(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are the same as of an engine that forgets nothing; those that are spelled out late, too."""
    monkeypatch.setattr("engine.stream.interner._LEAST_TEXTS", 256)
    monkeypatch.setattr("engine.stream.intake._LEAST_AT_ONCE", 64)
    whole, saving = engine_for(text), engine_for(text)
    expected, emitted, sizes = [], [], []
    for batch, watermark_ms in steps():
        expected += whole.process(batch, watermark_ms)
        emitted.append(saving.process(batch, watermark_ms))
        sizes.append(saving.save()["engine"].num_rows)
    assert len(expected) > 100
    assert [row for rows in emitted for row in rows] == expected
    assert max(sizes) <= 1_500
    assert len(whole._interner) > 2_000
    assert len(saving._interner) <= 1_500


@pytest.mark.parametrize("text", QUERIES)
def test_an_engine_goes_on_from_state_with_forgotten_strings(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.stream.interner._LEAST_TEXTS", 64)
    whole, going = engine_for(text), engine_for(text)
    for batch, watermark_ms in steps():
        expected = list(whole.process(batch, watermark_ms))
        assert list(going.process(batch, watermark_ms)) == expected
        state, going = going.save(), engine_for(text)
        going.restore(state)


def test_state_of_before_is_read() -> None:
    """It has all strings, in the order of their codes."""
    first, second = (engine_for(QUERIES[0]) for _ in range(2))
    (batch, watermark_ms), (other, end_ms) = list(steps())[:2]
    first.process(batch, watermark_ms)
    state = first.save()
    meta = {key: value for key, value in state["engine"].schema.metadata.items() if key != b"n_texts"}
    state["engine"] = state["engine"].select(["text"]).replace_schema_metadata({**meta, b"version": b"1"})
    second.restore(state)
    assert list(second.process(other, end_ms)) == list(first.process(other, end_ms))


def test_a_version_to_come_is_refused() -> None:
    engine = engine_for(QUERIES[0])
    state = engine.save()
    meta = state["engine"].schema.metadata
    state["engine"] = state["engine"].replace_schema_metadata({**meta, b"version": b"3"})
    with pytest.raises(StateError, match="version 3, expected 2 or an earlier one"):
        engine.restore(state)


def test_codes_are_not_given_again() -> None:
    interner = Interner()
    pinned, kept, gone = interner.constant("pinned"), interner.code("kept"), interner.code("gone")
    before = interner.known
    interner.keep([pa.table({"x": [float(kept), np.nan]})])
    assert interner.texts == ("pinned", "kept")
    assert before.text(gone) == "gone"
    assert interner.code("gone") not in {pinned, kept, gone}
    again = Interner.restored(interner.save())
    assert [again.code(text) for text in interner.texts] == [interner.code(text) for text in interner.texts]
    assert again.code("new") == interner.code("new")


@pytest.mark.parametrize(
    "column",
    [
        pa.array([7.0]),
        pa.array([7]),
        pa.array(np.array([7.0]).view(np.int64)),
        pa.array([[1, 7], None]),
        pa.array([{"k": [7.0]}]),
        pa.array([json.dumps({"keys": [[7.0, 1.5]]})]),
        pa.array([json.dumps(np.array([7.0]).view(np.int64).tolist())]),
        pa.array(["of 7"]).dictionary_encode(),
        pa.array([[7.0, 8.0]], pa.list_(pa.float64(), 2)),
    ],
)
def test_a_code_is_found_wherever_it_is(column: pa.Array) -> None:
    assert any(7.0 in numbers for numbers in numbers_in([pa.table({"x": column})]))
    meta = pa.table({"x": [True]}).replace_schema_metadata({"state": '{"a": 7}'})
    assert any(7.0 in numbers for numbers in numbers_in([meta]))


def test_a_column_that_says_nothing_of_its_codes_is_an_error() -> None:
    with pytest.raises(TypeError, match="binary"):
        list(numbers_in([pa.table({"x": [b"7"]})]))


def test_saved_strings_that_come_twice_are_damage() -> None:
    with pytest.raises(StateError, match="twice"):
        Interner.restored(pa.table({"text": ["a", "a"], "code": [0, 1]}))
    with pytest.raises(StateError, match="twice"):
        Interner.restored(pa.table({"text": ["a", "b"], "code": [1, 1]}))


@given(st.lists(st.sampled_from(["", "a", "ab", "aba", "bab", "é"]), max_size=5), st.integers(0, 4), st.integers(0, 4))
def test_one_text_throughout(texts: list[str], start: int, times: int) -> None:
    for strings in (texts, texts[:1] * (times + 1)):
        part = pa.array(strings, pa.string())[start:]
        assert is_one_text(part) == (len(set(part.to_pylist())) == 1)


def test_nulls_are_no_text() -> None:
    assert not is_one_text(pa.array([None, None], pa.string()))
