"""The strategies themselves: drawn queries resolve, every construct is reached, streams and deliveries are sound."""

from __future__ import annotations

from collections import Counter

from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from engine.events import EventBatch
from engine.language.parser import parse
from engine.language.resolver import resolve
from engine.reference import reference_output
from tests.engine.constructs import CONSTRUCTS, constructs_of
from tests.engine.strategies import (
    EVERYTHING,
    IMPRECISE,
    PRECISE,
    SCHEMA,
    WEIGHTED,
    Case,
    cases,
    deliveries,
    queries,
    streams,
)
from tests.examples import each_drawn_anew, examples

N_COUNTED = 1_000


@settings(max_examples=examples(120), deadline=None)
@given(queries())
def test_every_query_resolves(text: str) -> None:
    resolve(parse(text), SCHEMA, text=text)


def test_every_construct_is_reached() -> None:
    counts: Counter[str] = Counter()

    @seed(1)
    @settings(max_examples=N_COUNTED, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow])
    @given(queries())
    def count(text: str) -> None:
        counts.update(constructs_of(text))

    with each_drawn_anew():
        count()
    rare = {construct: counts[construct] for construct in CONSTRUCTS if counts[construct] < N_COUNTED // 300}
    assert not rare, rare


def test_a_fair_share_of_cases_has_matches() -> None:
    n_cases = n_matched = 0

    @seed(1)
    @settings(max_examples=120, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow])
    @given(cases(EVERYTHING, PRECISE))
    def count(case: Case) -> None:
        nonlocal n_cases, n_matched
        n_cases += 1
        n_matched += bool(reference_output(resolve(parse(case.query), SCHEMA, text=case.query), case.stream))

    with each_drawn_anew():
        count()
    assert n_matched > n_cases / 12


@settings(max_examples=examples(60), deadline=None)
@given(st.sampled_from([PRECISE, IMPRECISE, WEIGHTED]).flatmap(lambda scope: st.tuples(st.just(scope), streams(scope))))
def test_streams_keep_to_their_scope(drawn: tuple[object, EventBatch]) -> None:
    scope, batch = drawn
    widths = batch.t_hi_ms - batch.t_lo_ms + 1
    assert len(batch) <= scope.max_events  # type: ignore[attr-defined]
    assert all(1 <= width <= scope.width_ms for width in widths)  # type: ignore[attr-defined]
    ids = batch.table.column("event_id").to_pylist()
    assert len(set(ids)) == len(ids)


@settings(max_examples=examples(60), deadline=None)
@given(st.data())
def test_deliveries_are_the_stream_without_late_events(data: st.DataObject) -> None:
    batch = data.draw(streams(IMPRECISE))
    parts = data.draw(deliveries(batch))
    delivered = [event_id for part in parts for event_id in part.batch.table.column("event_id").to_pylist()]
    assert sorted(delivered) == sorted(batch.table.column("event_id").to_pylist())
    watermarks = [part.watermark_ms for part in parts]
    assert watermarks == sorted(watermarks)
    for number, part in enumerate(parts[1:], start=1):
        assert all(lo_ms >= watermarks[number - 1] for lo_ms in part.batch.t_lo_ms)
