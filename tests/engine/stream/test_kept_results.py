"""What an engine returned stays what it was, whatever comes later: memory of batches is used again, that of results not
while anybody has them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pytest

from engine import Engine, Limits, compile_query
from engine.events import FOREVER_MS, AttributeType, EventBatch, EventSchema
from engine.matching.output.match_row import MatchRow
from engine.matching.output.reading.rows_as_arrow import rows_table
from engine.matching.output.rows import RowBlock, RowSink

SCHEMA = EventSchema({kind: {"k": AttributeType.INT, "x": AttributeType.FLOAT} for kind in "AB"})
N_BATCHES, N = 12, 400

TEXTS = {
    "listed": "PATTERN SEQ(A a, B b) WHERE skip_till_any_match { [k] AND a.x < b.x } WITHIN 40 ms RETURN a.x, b.x AS y",
    "kleene": "PATTERN SEQ(A a, B+ b[], A c) WHERE skip_till_any_match { [k] AND b[i].x > 6 } WITHIN 25 ms RETURN c.x",
    "counted": "PATTERN SEQ(A a, B+ b[], A c) WHERE skip_till_any_match { [k] } WITHIN 20 ms OUTPUT COUNT",
    "collapsed": "PATTERN SEQ(A a, B+ b[], A c) WHERE skip_till_any_match { [k] } WITHIN 20 ms OUTPUT COLLAPSED",
    "next": "PATTERN SEQ(A a, B+ b[], A c) WHERE skip_till_next_match { [k] } WITHIN 40 ms RETURN a.x, max(b[].x) AS y",
    "negated": "PATTERN SEQ(A a, !A n, B b) WHERE skip_till_any_match { [k] } WITHIN 40 ms",
    "trends": "PATTERN A+ WHERE [k] AND A.x < NEXT(A).x WITHIN 40 ms SLIDE 20 ms GROUP BY k RETURN COUNT(*), SUM(A.x) "
    "ALERT warning 'found'",
}


def batches() -> Iterator[EventBatch]:
    """Of several sizes, so that memory of one fits the next one or does not."""
    random, number, t_ms = np.random.default_rng(4), 0, 0
    for batch in range(N_BATCHES):
        rows = []
        for _ in range(N if batch % 3 else N // 4):
            t_ms += int(random.integers(0, 2))
            kind = "AB"[int(random.integers(2))]
            rows.append(
                {"event_id": f"e{number}", "type": kind, "t_lo_ms": t_ms, "k": int(random.integers(12)),
                 "x": float(random.integers(10))}
            )  # fmt: skip
            number += 1
        yield EventBatch.from_rows(rows, SCHEMA)
        t_ms += 1


def copied(table: pa.Table) -> pa.Table:
    """With memory of its own."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return pa.ipc.open_stream(sink.getvalue().to_pybytes()).read_all()


@dataclass
class Kept:
    """Rows that were returned, or a block of them, with its table; and the same as it was told at once."""

    rows: Sequence[MatchRow]
    table: pa.Table
    emitted: list[MatchRow]
    copy: pa.Table

    @classmethod
    def of(cls, rows: Sequence[MatchRow]) -> Kept:
        table = table_of(rows)
        return cls(rows, table, [*rows], copied(table))

    def check(self) -> None:
        assert self.table.equals(self.copy)
        assert table_of(self.rows).equals(self.copy)
        assert [*self.rows] == self.emitted


def table_of(rows: Sequence[MatchRow]) -> pa.Table:
    return rows.to_arrow() if isinstance(rows, RowBlock) else rows_table(rows)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("name", TEXTS)
def test_rows_and_tables_that_are_kept_do_not_change(name: str, threads: int) -> None:
    kept: list[Kept] = []
    sink = RowSink(lambda block: kept.append(Kept.of(block)))
    assert_kept(Engine([compile_query(TEXTS[name], SCHEMA, name=name)], SCHEMA, threads=threads, sink=sink), kept)


@pytest.mark.parametrize("threads", [1, 3])
def test_those_of_queries_that_share_batches_do_not_change(threads: int) -> None:
    queries = [compile_query(text, SCHEMA, name=name) for name, text in TEXTS.items()]
    assert_kept(Engine(queries, SCHEMA, threads=threads, limits=Limits(possibilities=True)), [])


def assert_kept(engine: Engine, kept: list[Kept]) -> None:
    """`kept` gets the blocks that a sink gets."""
    saved: list[tuple[dict[str, pa.Table], str]] = []
    last_ms = 0
    for batch in batches():
        last_ms = int(batch.t_lo_ms[-1])
        kept.append(Kept.of(engine.process(batch, last_ms)))
        state = engine.save()
        saved.append((state, emitted(state)))
    kept.append(Kept.of(engine.process(EventBatch.empty(), FOREVER_MS)))
    assert sum(len(each.emitted) for each in kept) > 10
    for each in kept:
        each.check()
    for state, before in saved:
        assert emitted(state) == before


def emitted(state: dict[str, pa.Table]) -> str:
    """As text: NaN does not equal itself."""
    return repr({part: table.to_pydict() for part, table in state.items()})
