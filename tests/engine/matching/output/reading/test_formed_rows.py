"""Rows of output forms as columns: candidates and exactness against their definitions, rows against the oracle's."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from engine.compiled.query import compile_query
from engine.events import FOREVER_MS, EventBatch
from engine.matching.output.candidates import Collapsing, candidates_of
from engine.matching.output.listed import ListedMatches, MatchedEvents, Matches
from engine.matching.output.orders import Steps, has_other_orders
from engine.matching.output.reading.rows_as_arrow import rows_table
from engine.matching.output.rows import RowBlock
from engine.reference.rows.output import reference_output
from engine.runtime.engine import Engine
from tests.engine.strategies import SCHEMA

Chain = tuple[tuple[int, ...], ...]
"""The events of each component of a match."""


@st.composite
def groups_of_matches(draw: st.DrawFn) -> tuple[list[int], list[list[Chain]], frozenset[int], bool]:
    """Times of events, matches in groups of one first and last event, Kleene components, TIES STRICT."""
    n_components = draw(st.integers(1, 3))
    kleene = draw(st.frozensets(st.integers(0, n_components - 1)))
    strict = draw(st.booleans())
    steps = draw(st.lists(st.integers(0, 2), min_size=7, max_size=7))
    times = list(itertools.accumulate(steps))
    chains: dict[tuple[int, int], list[Chain]] = {}
    for size in range(n_components, len(times) + 1):
        for chosen in itertools.combinations(range(len(times)), size):
            if strict and any(times[a] == times[b] for a, b in itertools.pairwise(chosen)):
                continue
            for cuts in itertools.combinations(range(1, size), n_components - 1):
                bounds = [0, *cuts, size]
                parts = tuple(chosen[start:end] for start, end in itertools.pairwise(bounds))
                if all(len(part) == 1 or at in kleene for at, part in enumerate(parts)):
                    chains.setdefault((chosen[0], chosen[-1]), []).append(parts)
    assume(chains)
    groups = draw(st.lists(st.sampled_from(sorted(chains)), min_size=1, max_size=4, unique=True))
    kept = [draw(st.lists(st.sampled_from(chains[ends]), min_size=1, max_size=9, unique=True)) for ends in groups]
    if draw(st.booleans()):
        kept[0] = chains[groups[0]]
    return times, kept, kleene, strict


@given(groups_of_matches())
def test_candidates_and_whether_they_say_it_all(
    drawn: tuple[list[int], list[list[Chain]], frozenset[int], bool],
) -> None:
    times, groups, kleene, strict = drawn
    chains = [chain for group in groups for chain in group]
    n_components = len(chains[0])
    lengths = [sum(map(len, chain)) for chain in chains]
    listed = ListedMatches(
        partition=np.zeros(len(chains), np.int64),
        offsets=np.append(0, np.cumsum(lengths)).astype(np.int64),
        rows=np.array([position for chain in chains for part in chain for position in part], np.int64),
        components=np.array([at for chain in chains for at, part in enumerate(chain) for _ in part], np.int64),
        iterations=None,
        confidence=np.ones(len(chains)),
        values=np.empty((len(chains), 0)),
    )
    t_ms, positions = np.array(times, np.int64), np.arange(len(times))
    events = MatchedEvents(
        pa.array([f"e{at}" for at in positions]), t_ms, t_ms, np.full(len(times), -1), positions, positions
    )
    matches = Matches(listed, events, ((),))
    shapes = [tuple(range(n_components))]
    count = np.array([len(group) for group in groups])
    found = candidates_of(matches, np.arange(len(chains)), count, Collapsing(n_components, kleene, shapes, strict))
    start = 0
    for row, group in enumerate(groups):
        wanted = {at: sorted({position for chain in group for position in chain[at]}) for at in range(n_components)}
        assert {at: own.tolist() for at, own in found.of(row).items()} == wanted
        ends = int(matches.first[start]), int(matches.last[start])
        other = has_other_orders(events, ends, len(group), found.of(row), kleene, shapes, Steps(), strict_ties=strict)
        assert found.exact[row] == (not other)
        start += len(group)


@pytest.mark.parametrize("form", ["COUNT", "COLLAPSED", "SETS"])
def test_rows_are_made_when_they_are_asked_for(form: str) -> None:
    query = compile_query(
        f"PATTERN SEQ(A a, B+ b[]) WHERE skip_till_next_match {{ [k] }} WITHIN 9 ms OUTPUT {form}", SCHEMA
    )
    events = [
        {"event_id": f"e{at}", "type": "A" if at % 3 == 0 else "B", "t_lo_ms": at, "t_hi_ms": at, "source_rank": 0,
         "source_seq": at, "k": "p", "j": at % 2}
        for at in range(40)
    ]  # fmt: skip
    batch = EventBatch.from_rows(events, SCHEMA)
    engine = Engine([query], SCHEMA)
    rows = engine.process(batch, FOREVER_MS)
    engine.finish()
    expected = reference_output(query.resolved, batch)
    assert len(rows) == len(expected) > 50
    assert isinstance(rows, RowBlock)
    assert rows.n_matches == sum(row.count for row in rows) == sum(row.count for row in expected)
    for at in (0, 7, -1):
        assert rows[at].bindings == expected[at].bindings
        assert rows[at].candidates == expected[at].candidates
    assert list(rows[5:8]) == [rows[at] for at in (5, 6, 7)] == list(rows)[5:8]
    assert rows.to_arrow().equals(rows_table(list(rows)))
