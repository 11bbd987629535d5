"""Steps that are left out tell nothing else: each step has the rows of one in which every runtime advances."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine import Engine, MatchRow, compile_query
from engine.events import FOREVER_MS, EventBatch
from engine.matching.quiet import QuietSteps
from engine.parallel import workers
from tests.engine.strategies import EVERYTHING, IMPRECISE, PRECISE, SCHEMA, Case, cases

Step = tuple[EventBatch, int]


class EveryStep(Engine):
    """An engine that leaves out none."""

    def _is_quiet(self, *_: Any) -> bool:
        return False


def steps_of(stream: EventBatch, starts: Collection[int] | None = None) -> list[Step]:
    """The events in steps that begin with these, by position in stream order (None: each in one of its own;
    events of one time stay together), and steps without any where there is time between them."""
    order = stream.sorted()
    times = order.t_lo_ms.tolist()
    chosen = range(len(times)) if starts is None else starts
    begins = sorted({0, *(at for at in chosen if at < len(times) and times[at] > times[at - 1])})
    found: list[Step] = []
    for begin, end in zip(begins, [*begins[1:], len(times)], strict=True):
        if begin == end:
            continue
        passed_ms = times[end - 1] + 1
        until_ms = times[end] if end < len(times) else passed_ms + 30
        found.append((EventBatch(order.table.slice(begin, end - begin)), passed_ms))
        found += [(EventBatch.empty(), mark) for mark in range(passed_ms + 1, until_ms + 1, 3)]
    return [*found, (EventBatch.empty(), FOREVER_MS)]


def emitted(kind: type[Engine], text: str, steps: Sequence[Step], restarts: frozenset[int]) -> list[list[MatchRow]]:
    queries = [compile_query(text, SCHEMA, name="q")]
    engine, found = kind(queries, SCHEMA), []
    for number, (batch, watermark_ms) in enumerate(steps):
        found.append(list(engine.process(batch, watermark_ms)))
        if number in restarts:
            state = engine.save()
            assert state.keys() == engine.save().keys()
            engine = kind(queries, SCHEMA)
            assert not engine.restore(state)
    return found


@pytest.mark.parametrize("scope", [PRECISE, IMPRECISE], ids=["precise", "imprecise"])
@given(data=st.data())
def test_each_step_has_the_rows_of_one_that_is_not_left_out(data: st.DataObject, scope: Any) -> None:
    case: Case = data.draw(cases(EVERYTHING, scope))
    n_events = len(case.stream)
    starts = data.draw(st.sets(st.integers(0, max(n_events - 1, 0)))) if data.draw(st.booleans()) else None
    steps = steps_of(case.stream, starts)
    restarts = frozenset(data.draw(st.sets(st.integers(0, len(steps) - 1), max_size=3)))
    found = emitted(Engine, case.query, steps, restarts)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(QuietSteps, "may_leave_out", lambda *_: False)
        expected = emitted(EveryStep, case.query, steps, restarts)
    assert found == expected


def advances(text: str, steps: Sequence[Step]) -> Counter[str]:
    """How often a runtime advanced, and was asked for its state."""
    counted: Counter[str] = Counter()
    engine = Engine([compile_query(text, SCHEMA, name="q")], SCHEMA)
    runtime = engine._runtimes["q"]
    within, saved = runtime.advance, runtime.save

    def advance(*given: Any) -> Sequence[MatchRow]:
        counted["advance"] += 1
        return within(*given)

    def save() -> Any:
        counted["save"] += 1
        return saved()

    runtime.advance, runtime.save = advance, save  # type: ignore[method-assign]
    for batch, watermark_ms in steps:
        engine.process(batch, watermark_ms)
        engine.save()
    return counted


def stream_of(*events: tuple[str, int]) -> EventBatch:
    return EventBatch.from_rows(
        [
            {"event_id": str(n), "type": kind, "t_lo_ms": t, "t_hi_ms": t, "k": "a", "x": 1}
            for n, (kind, t) in enumerate(events)
        ],
        SCHEMA,
    )


PAIR = "PATTERN SEQ(A a, B b) WHERE skip_till_any_match { [k] } WITHIN 10"
TRAILING = "PATTERN SEQ(A a, B b, ~C c) WHERE skip_till_any_match { [k] } WITHIN 10"


@pytest.mark.parametrize("text", [PAIR, TRAILING])
def test_a_query_without_any_event_does_nothing(text: str) -> None:
    assert advances(text, steps_of(stream_of(("N", 1), ("L", 40), ("N", 90)))) == {"save": 1}


def test_a_query_forgets_what_it_keeps_and_then_does_nothing() -> None:
    steps = steps_of(stream_of(("A", 0), *(("N", at) for at in range(1, 60))))
    counted = advances(PAIR, steps)
    assert counted["advance"] == 3  # its event; a window later; at the end
    assert counted["save"] == len(steps)


def test_what_threads_have_found_of_a_step_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """They have forgotten the event by the time that it is asked whether the step can be left out."""
    monkeypatch.setattr(workers, "LEAST_EVENTS", 1)
    engine = Engine([compile_query("PATTERN SEQ(C c) WHERE skip_till_any_match WITHIN 6", SCHEMA)], SCHEMA, threads=2)
    rows = [("e1", "C", 3, 4), ("e3", "N", 7, 7)]
    names = ("event_id", "type", "t_lo_ms", "t_hi_ms")
    batch = EventBatch.from_rows([{**dict(zip(names, row, strict=True)), "x": 1} for row in rows], SCHEMA)
    assert list(engine.process(batch, 4)) == []
    (found,) = engine.process(EventBatch.empty(), 20)
    assert found.event_ids == ("e1",)
