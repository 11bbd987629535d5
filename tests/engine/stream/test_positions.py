"""Places of events in their partitions against their definition: counted one by one."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.events import AttributeType, EventBatch, EventSchema
from engine.matching.positioned import PositionedRows
from engine.stream.columns import StreamColumns
from engine.stream.interner import Interner
from engine.stream.positions import PartitionPositions
from tests.examples import examples

INT = AttributeType.INT
SCHEMA = EventSchema.of({"Whole": {"k": INT, "j": INT}, "K": {"k": INT}, "J": {"j": INT}, "None": {}})
HELD = {name: frozenset(has) for name, has in SCHEMA.types.items()}
Row = tuple[str, int | None, int | None]

rows = st.tuples(st.sampled_from(list(HELD)), st.sampled_from([1, 2, 3, None]), st.sampled_from([1, 2, None]))


def columns(drawn: list[Row]) -> StreamColumns:
    events = []
    for at, (name, k, j) in enumerate(drawn):
        held = {x: value for x, value in (("k", k), ("j", j)) if x in HELD[name]}
        events.append({"event_id": str(at), "type": name, "t_lo_ms": at, "t_hi_ms": at, "source_seq": at, **held})
    batch = EventBatch.from_rows(events, SCHEMA) if events else EventBatch.empty()
    return StreamColumns(batch, Interner())


def is_member(row: Row, key: tuple[float, ...]) -> bool:
    values = {"k": row[1], "j": row[2]}
    return all(x not in HELD[row[0]] or values[x] == own for x, own in zip("kj", key, strict=True))


def of_definition(drawn: list[Row], start: int, keys: list[tuple[float, ...]]) -> dict[tuple[int, int], int]:
    """(row, partition) -> position, of the rows from `start` on."""
    found = {}
    for number, key in enumerate(keys):
        members = [at for at, row in enumerate(drawn) if is_member(row, key)]
        found |= {(at - start, number): position for position, at in enumerate(members) if at >= start}
    return found


@settings(max_examples=examples(35), deadline=None)
@given(st.lists(rows, max_size=14), st.integers(0, 14), st.booleans())
def test_every_event_counts_in_every_partition_that_agrees(drawn: list[Row], cut: int, needs_whole: bool) -> None:
    positions = PartitionPositions(("k", "j"), {"k": INT, "j": INT}, HELD, frozenset(HELD), needs_whole=needs_whole)
    for start, part in ((0, drawn[:cut]), (cut, drawn[cut:])):
        stream = columns(part)
        before, known = positions.ends(), len(positions.keys)
        positions.begin(stream)
        at = positions.assign(stream, np.ones(len(stream), np.bool_), 0, known)
        found = dict(zip(zip(at.rows.tolist(), at.partition.tolist(), strict=True), at.position.tolist(), strict=True))
        assert found == of_definition(drawn[: start + len(part)], start, positions.keys.all())
        assert (positions.ends()[:known] == before + at.growth[:known]).all()
        again = PartitionPositions(("k", "j"), {"k": INT, "j": INT}, HELD, frozenset(HELD), needs_whole=needs_whole)
        again.restore(positions.save())
        positions = again


@settings(max_examples=examples(25), deadline=None)
@given(st.lists(rows, max_size=14))
def test_a_partition_is_an_event_with_the_whole_key_or_every_combination_of_values(drawn: list[Row]) -> None:
    whole = {(k, j) for name, k, j in drawn if name == "Whole" and k is not None and j is not None}
    ks = {k for name, k, _ in drawn if k is not None and "k" in HELD[name]}
    js = {j for name, _, j in drawn if j is not None and "j" in HELD[name]}
    for needs_whole, expected in ((True, whole), (False, {(k, j) for k in ks for j in js})):
        positions = PartitionPositions(("k", "j"), {"k": INT, "j": INT}, HELD, frozenset(HELD), needs_whole=needs_whole)
        positions.begin(columns(drawn))
        assert set(positions.keys.all()) == expected


@settings(max_examples=examples(25), deadline=None)
@given(st.lists(rows, max_size=12), st.lists(rows, max_size=6))
def test_forgotten_partitions_leave_the_others_where_they_were(drawn: list[Row], more: list[Row]) -> None:
    positions = PartitionPositions(("k", "j"), {"k": INT, "j": INT}, HELD, frozenset(HELD), needs_whole=True)
    stream = columns(drawn)
    positions.begin(stream)
    positions.assign(stream, np.ones(len(stream), np.bool_), 0, 0)
    kept = np.arange(0, len(positions.keys), 2)
    ends, keys = positions.ends()[kept], [positions.keys.key(number) for number in kept.tolist()]
    positions.keep(kept)
    assert (positions.ends() == ends).all()
    stream = columns([row for row in more if row[0] != "Whole"])
    positions.begin(stream)
    at = positions.assign(stream, np.ones(len(stream), np.bool_), 0, len(kept))
    assert positions.keys.all() == keys
    assert (positions.ends() == ends + at.growth).all()


def test_rows_that_were_forgotten_are_not_taken_for_others() -> None:
    placed = PositionedRows()
    one = np.arange(4)
    placed.append(one, one, one, one)
    placed.keep(np.array([False, True, False, True]))
    at, is_there = placed.at(np.array([0, 1, 2, 3, 4]))
    assert is_there.tolist() == [False, True, False, True, False]
    assert placed.position[at[is_there]].tolist() == [1, 3]
