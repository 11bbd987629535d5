"""Matches that incidents may bind: kept for as long as one may, written once, known again when the clock went back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count

import pytest

import engine
from app.alerting.catalog import QueryInfo
from app.live.bound_matches import MATCHES, BoundMatches
from app.settings import Severity
from engine.events import FOREVER_MS
from tests.app.alerting_fixtures import FakeMatch

WITHIN_MS = 100
SLOW = QueryInfo("slow", "s", Severity.WARNING, "", 10, match_hash="m")
CAUSE = QueryInfo("cause", "c", Severity.WARNING, "", 10, within_ms=WITHIN_MS, depth=1, binds=frozenset({"slow"}))
QUERIES = {"slow": SLOW, "cause": CAUSE}


def match(number: int, at_ms: int) -> FakeMatch:
    return FakeMatch(at_ms, at_ms, key=(("task_id", f"t{number}"),), bindings={"a": (f"e{number}",)})


def id_of(found: FakeMatch) -> str:
    return engine.match_id("slow", "m", found.key, None, found.bindings)


def kept(**sizes: int) -> BoundMatches:
    return BoundMatches(QUERIES, **sizes)


def steps(bound: BoundMatches, n_steps: int, per_step: int = 3, step_ms: int = 10) -> Iterator[list[FakeMatch]]:
    """The matches of each step, which are known from then on."""
    numbers = count()
    for step in range(1, n_steps + 1):
        found = [match(next(numbers), step * step_ms - 1) for _ in range(per_step)]
        bound.add(found, step * step_ms)
        yield found


@pytest.mark.parametrize("pane_matches", [1, 4, 10, 1_000])
def test_each_is_found_as_long_as_an_incident_may_bind_it(pane_matches: int) -> None:
    bound, told = kept(pane_matches=pane_matches), list[FakeMatch]()
    for step, found in enumerate(steps(bound, 60), 1):
        told += found
        before_ms = (step - 1) * 10  # what the last watermark left behind is gone
        needed = [of for of in told if of.last_hi_ms + WITHIN_MS >= before_ms]
        for of in needed:
            assert (known := bound.find(id_of(of))) is not None
            assert (known.query, known.at_ms) == ("slow", of.last_hi_ms)
        assert list(bound.lookup([id_of(needed[0])])) == [id_of(needed[0])]
        assert len(bound) <= 2 * len(needed) + pane_matches
    bound.add([], 10_000)
    bound.add([], 10_001)
    assert len(bound) == 0


def test_what_a_step_writes_does_not_grow_with_what_is_kept() -> None:
    bound = kept(pane_matches=10)
    written: dict[int, object] = {}
    for n_done, _ in enumerate(steps(bound, 200, step_ms=1), 1):  # all of 100 steps may still be bound
        assert bound.save()[MATCHES].num_rows < 10
        new = {id(table): table for table in bound.sealed().values()}
        assert sum(known not in written for known in new) <= 3  # the full one, and what is left of dissolved ones
        written = dict(new)
        assert n_done < 100 or len(bound) >= 300


def test_it_goes_on_after_a_restart_at_any_step() -> None:
    whole, told = kept(pane_matches=4), list[FakeMatch]()
    for step, found in enumerate(steps(whole, 30), 1):
        told += found
        again = kept(pane_matches=4)
        again.restore({**whole.save(), **whole.sealed()}, step * 10)
        assert [again.find(id_of(of)) for of in told] == [whole.find(id_of(of)) for of in told]
        assert again.lookup(list(map(id_of, told))) == whole.lookup(list(map(id_of, told)))
        again.add([], step * 10 + 500)
        again.add([], step * 10 + 501)
        assert len(again) == 0, "it knows until when each is kept"


def test_a_checkpoint_of_before_has_all_in_one_table() -> None:
    bound, again = kept(pane_matches=1_000), kept(pane_matches=4)
    told = [of for found in steps(bound, 5) for of in found]
    again.restore(bound.save(), 50)
    assert again.save()[MATCHES].num_rows < 4
    assert [again.find(id_of(of)) for of in told] == [bound.find(id_of(of)) for of in told]


def test_a_pane_of_a_query_that_no_incident_binds_any_more_is_written_no_more() -> None:
    bound = kept(pane_matches=2)
    for _ in steps(bound, 3):
        pass
    other = {"slow": SLOW, "fast": SLOW, "cause": replace(CAUSE, binds=frozenset({"fast"}))}
    again = BoundMatches(other, pane_matches=2)
    again.restore({**bound.save(), **bound.sealed()}, 30)
    again.add([], 40)
    assert again.sealed() == {}


def test_with_too_many_the_oldest_go_and_are_counted() -> None:
    bound = kept(pane_matches=10, most_matches=50)
    told = [match(number, 5) for number in range(100)]
    n_dropped = sum(bound.add(told[at : at + 10], 10) for at in range(0, 100, 10))
    assert (n_dropped, len(bound)) == (50, 50)
    assert [bound.find(id_of(of)) is not None for of in told] == [False] * 50 + [True] * 50


def test_no_match_of_the_step_itself_goes() -> None:
    bound = kept(pane_matches=10, most_matches=50)
    told = [match(number, 5) for number in range(100)]
    assert bound.add(told, 10) == 0
    assert all(bound.find(id_of(of)) is not None for of in told)


def test_when_the_clock_went_back_what_is_found_again_is_known_and_kept() -> None:
    """While the clock was ahead all was forgotten, and from then on it would be at once."""
    bound = kept()
    early, late = match(1, 50), match(2, 1_000_000)
    bound.add([early], 60)
    bound.add([late], 1_000_010)
    bound.add([], 1_000_020)
    assert bound.find(id_of(early)) is None
    bound.go_back([early], 60)
    assert bound.find(id_of(late)) is None, "it was dated by the wrong clock"
    for watermark_ms in (70, 80, 90):
        bound.add([], watermark_ms)
        assert bound.find(id_of(early)) is not None


def test_nothing_is_kept_without_incidents() -> None:
    bound = BoundMatches({"slow": SLOW})
    bound.add([match(1, 5)], FOREVER_MS)
    assert len(bound) == 0
