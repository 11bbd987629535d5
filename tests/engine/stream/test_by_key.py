"""Shares of a batch are the rows of their partitions, read as the whole batch would read them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import EventError
from engine.events import MAX_EXACT_INT, AttributeType, EventBatch, EventSchema
from engine.stream.by_key import begin_shares, rows_of, shares_of
from engine.stream.columns import StreamColumns
from engine.stream.interner import Interner
from engine.stream.texts import Texts

SCHEMA = EventSchema.of(
    {
        "A": {"k": AttributeType.INT, "x": AttributeType.INT, "y": AttributeType.FLOAT, "s": AttributeType.STRING},
        "B": {"k": AttributeType.INT, "x": AttributeType.INT},
        "N": {"x": AttributeType.INT},
    }
)
KINDS = SCHEMA.attributes


def column(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """As columns of events are: not to be written to."""
    values.flags.writeable = False
    return values


def shard_by_definition(key: tuple[float, ...], n_shards: int) -> int:
    """The hash in numbers of any size: what saved states were divided by."""
    state = 0
    for value in key:
        bits = int(np.array([value + 0.0]).view(np.uint64)[0])
        state = (state ^ bits) * 0x9E3779B97F4A7C15 % 2**64
        state ^= state >> 29
    return (state * 0x9E3779B97F4A7C15 % 2**64 >> 33) % n_shards


@given(
    st.lists(st.tuples(*[st.sampled_from([0.0, -0.0, 1.0, 2.5, -7.0, 1e300, np.nan])] * 2), max_size=12),
    st.integers(1, 5),
    st.sampled_from([1, 400]),
)
def test_rows_of_a_shard_are_those_of_its_keys_and_those_without(
    keys: list[tuple[float, ...]], n_shards: int, times: int
) -> None:
    keys = keys * times  # more than a block
    columns = np.array(keys, np.float64).reshape(len(keys), 2).T.copy()
    for number in range(n_shards):
        expected = [
            row for row, key in enumerate(keys) if np.isnan(key).any() or shard_by_definition(key, n_shards) == number
        ]
        own = rows_of(columns, number, n_shards, column(np.arange(0, 2 * len(keys), 2)))
        assert own.rows.tolist() == expected
        assert own.t_ms.tolist() == [2 * row for row in expected]
        assert np.array_equal(own.keys, columns[:, expected], equal_nan=True)
        assert np.array_equal(own.greatest, np.abs(columns).max(initial=0.0), equal_nan=True)


@given(st.lists(st.integers(-(2**53), 2**53) | st.sampled_from([0, 1, 2]), max_size=12), st.integers(1, 5))
def test_whole_numbers_have_the_shards_of_their_doubles(keys: list[int], n_shards: int) -> None:
    stored, t_ms = column(np.array([keys], np.int64)), column(np.arange(len(keys)))
    for number in range(n_shards):
        own = rows_of(stored, number, n_shards, t_ms)
        expected = [row for row, key in enumerate(keys) if shard_by_definition((float(key),), n_shards) == number]
        assert own.rows.tolist() == expected
        assert own.keys[0].tolist() == [keys[row] for row in expected]


def test_shards_are_about_equally_large() -> None:
    keys, t_ms = np.arange(10_000.0)[np.newaxis], column(np.arange(10_000))
    assert min(len(rows_of(keys, number, 2, t_ms).rows) for number in (0, 1)) > 4_500


@given(st.data())
def test_texts_are_numbered_in_order_of_arrival(data: st.DataObject) -> None:
    few = data.draw(st.lists(st.text(max_size=20), min_size=1, max_size=5))
    texts = data.draw(st.lists(st.sampled_from(few), max_size=30))
    column = pa.array(["", "left out", *texts], pa.string()).slice(2)
    rows = np.array(data.draw(st.lists(st.integers(0, len(texts) - 1), max_size=30)) if texts else [], np.int64)
    found = Texts(column).numbered(rows, np.empty(len(rows), np.int32))
    chosen = [texts[row] for row in rows]
    assert list(found.texts) == list(dict.fromkeys(chosen))
    assert [found.texts[number] for number in found.numbers] == chosen
    assert found.counts.tolist() == [chosen.count(text) for text in found.texts]


@pytest.mark.parametrize("n_texts", [512, 513, 2_000])
def test_many_texts_are_numbered_too(n_texts: int) -> None:
    texts = [f"a rather long text, number {number}" for number in range(n_texts)] * 2
    found = Texts(pa.array(texts)).numbered(None, np.empty(len(texts), np.int32))
    assert [found.texts[number] for number in found.numbers] == texts
    assert found.counts.tolist() == [2] * n_texts


def stream_of(rows: list[dict[str, object]]) -> StreamColumns:
    given = [
        {"event_id": str(n), "source_seq": 7 * n, "t_lo_ms": n, "t_hi_ms": n + n % 2, **row}
        for n, row in enumerate(rows)
    ]
    return StreamColumns(EventBatch.from_rows(given, SCHEMA), Interner())


KEYED_BY_K: list[dict[str, object]] = [{"type": "A", "k": n, "x": 1, "y": 0.5, "s": "p"} for n in range(9)]
ROWS = st.lists(
    st.one_of(
        st.fixed_dictionaries(
            {
                "type": st.just("A"),
                "k": st.integers(0, 4),
                "x": st.integers(-9, 9),
                "y": st.sampled_from([0.5, None]),
                "s": st.sampled_from(["p", "q", None]),
                "clock_id": st.sampled_from(["c", None]),
            }
        ),
        st.fixed_dictionaries({"type": st.just("B"), "k": st.sampled_from([1, 2, None]), "x": st.just(3)}),
        st.fixed_dictionaries({"type": st.just("N"), "x": st.integers(0, 1)}),
    ),
    min_size=1,
    max_size=15,
)


@given(ROWS, st.sampled_from([("k",), ("k", "s")]))
def test_a_share_reads_what_the_whole_reads(rows: list[dict[str, object]], key: tuple[str, ...]) -> None:
    whole, divided = stream_of(rows), stream_of(rows)
    shares = [shares_of(divided, key, KINDS, number, 2) for number in range(2)]
    for number, share in enumerate(shares):
        assert shares_of(divided, key, KINDS, number, 2) is share
        own = rows_of(whole.stacked(key, KINDS), number, 2, whole.t_lo_ms).rows
        assert share.t_lo_ms.tolist() == whole.t_lo_ms[own].tolist()
        assert share.t_hi_ms.tolist() == whole.t_hi_ms[own].tolist()
        assert share.source_seq.tolist() == whole.source_seq[own].tolist()
        numbers, positions = share.sources
        assert numbers[positions].tolist() == whole.source_seq[own].tolist()
        assert share.event_ids.to_pylist() == whole.event_ids.take(pa.array(own)).to_pylist()
        for name in "kxys":
            read, expected = share.column(name, KINDS[name]), whole.column(name, KINDS[name])[own]
            assert np.array_equal(read, expected, equal_nan=True)
        for event_type in "ABN":
            expected_rows = np.flatnonzero(np.isin(own, whole.rows_of_type(event_type)))
            assert share.rows_of_type(event_type).tolist() == expected_rows.tolist()
        every = np.arange(len(own))
        assert share.clocks_of(every).tolist() == whole.clocks_of(own).tolist()
    for names in ("A", "AB", "N", "ABN"):
        assert divided.n_of_types(names) == whole.n_of_types(names) == sum(row["type"] in names for row in rows)


def test_a_number_that_is_not_exact_is_refused_in_its_share() -> None:
    stream = stream_of([{"type": "B", "k": 1, "x": MAX_EXACT_INT + 1}])
    owner = [number for number in range(2) if len(shares_of(stream, ("k",), KINDS, number, 2))]
    with pytest.raises(EventError, match="attribute x: 9007199254740993 is beyond"):
        shares_of(stream, ("k",), KINDS, owner[0], 2).column("x", AttributeType.INT)


@pytest.mark.parametrize("number", [0, 1])
def test_a_key_that_is_not_exact_is_refused(number: int) -> None:
    shares_of(stream_of([{"type": "B", "k": MAX_EXACT_INT, "x": 1}]), ("k",), KINDS, number, 2)
    for key in (MAX_EXACT_INT + 1, -MAX_EXACT_INT - 1):
        with pytest.raises(EventError, match="attribute k: 9007199254740993 is beyond"):
            shares_of(stream_of([{"type": "B", "k": key, "x": 1}]), ("k",), KINDS, number, 2)


@pytest.mark.parametrize("happens", ["done", "under way", "not begun"])
def test_a_share_that_another_thread_has_begun_is_waited_for(happens: str) -> None:
    stream, given, made = stream_of(KEYED_BY_K), list[Callable[[], object]](), list[object]()
    begun = Future[object]()

    def submit(task: Callable[[], object]) -> Future[object]:
        given.append(task)
        return begun

    def make() -> None:
        made.append(given[0]())
        begun.set_result(None)

    for _ in range(2):  # for two queries
        begin_shares(stream, ("k",), KINDS, 2, submit)
    assert len(given) == 1  # the calling thread makes the first one
    assert happens == "not begun" or begun.set_running_or_notify_cancel()
    if happens == "done":
        make()
    elif happens == "under way":
        threading.Thread(target=make).start()
    found = shares_of(stream, ("k",), KINDS, 1, 2)
    assert begun.cancelled() == (happens == "not begun")
    assert [one is found for one in made] == [True] * (happens != "not begun")
    assert shares_of(stream, ("k",), KINDS, 1, 2) is found
    assert len(shares_of(stream, ("k",), KINDS, 0, 2)) + len(found) == len(stream)


def test_nothing_is_begun_that_would_leave_a_trace() -> None:
    """Codes of strings stay, whether the events that have them are refused or not."""
    stream = stream_of(KEYED_BY_K)
    for key in (("s",), ("k", "x"), ("timestamp",)):
        begin_shares(stream, key, {**KINDS, "timestamp": AttributeType.INT}, 2, lambda _: Future[object]())
    assert not stream.begun


def test_what_goes_wrong_ahead_goes_wrong_where_it_is_asked_for() -> None:
    stream = stream_of([{"type": "B", "k": MAX_EXACT_INT + 1, "x": 1}])

    def submit(task: Callable[[], object]) -> Future[object]:
        failed = Future[object]()
        with pytest.raises(EventError) as error:
            task()
        failed.set_exception(error.value)
        return failed

    begin_shares(stream, ("k",), KINDS, 2, submit)
    with pytest.raises(EventError, match="attribute k: 9007199254740993 is beyond"):
        shares_of(stream, ("k",), KINDS, 1, 2)
