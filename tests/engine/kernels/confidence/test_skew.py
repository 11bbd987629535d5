"""Confidence under skew bounds: worked by hand, against all worlds, and the sum by pieces against the plain one."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.events import EventBatch
from engine.kernels.confidence import skew, skew_offset
from engine.kernels.confidence.ordering import Events
from engine.reference.observed import ObservedEvent, observe
from engine.reference.worlds import confidence_by_steps
from tests.engine.kernels.plain import as_python
from tests.engine.strategies import SCHEMA
from tests.examples import examples

FAR = 2**60


def observed(*rows: dict[str, Any]) -> list[ObservedEvent]:
    """Events by their nominal interval `lo`, `hi` (default: `lo`), `clock`, `skew`, `weights`, in the order given."""
    columns = [
        {
            "event_id": f"e{number}",
            "type": "A",
            "t_lo_ms": row["lo"] - row.get("skew", 0),
            "t_hi_ms": row.get("hi", row["lo"]) + row.get("skew", 0),
            "source_seq": number,
            "clock_id": row.get("clock"),
            "skew_ms": row.get("skew"),
            "weights": row.get("weights"),
        }
        for number, row in enumerate(rows)
    ]
    found = {event.event_id: event for event in observe(EventBatch.from_rows(columns, SCHEMA), SCHEMA)}
    return [found[f"e{number}"] for number in range(len(rows))]


def as_rows(events: Sequence[ObservedEvent], *, strict: bool = False) -> tuple[Events, np.ndarray[Any, Any]]:
    """The arrays of a store, in stream order, and the rows of the events in the order given."""
    stored = sorted(events, key=lambda event: event.stream_order)
    clocks: dict[str, int] = {}
    weight_at = np.full(len(stored), -1, np.int64)
    weights: list[float] = []
    for row, event in enumerate(stored):
        times = range(event.lo_ms + event.skew_ms, event.hi_ms - event.skew_ms + 1)
        shares = [event.nominal.get(time_ms, Fraction(0)) for time_ms in times]
        if len(set(shares)) > 1:
            weight_at[row] = -2 - len(weights) if event.skew_ms else len(weights)
            weights += map(float, shares)
    arrays = Events(
        lo_ms=np.array([event.lo_ms for event in stored], np.int64),
        hi_ms=np.array([event.hi_ms for event in stored], np.int64),
        clock=np.array([-1 if e.clock_id is None else clocks.setdefault(e.clock_id, len(clocks)) for e in stored]),
        source_seq=np.array([event.source_seq for event in stored], np.int64),
        weight_at=weight_at,
        weights=np.array(weights, np.float64),
        columns=np.empty((0, len(stored)), np.float64),
        strict=strict,
        skew=np.array([event.skew_ms for event in stored], np.int64),
    )
    return arrays, np.array([stored.index(event) for event in events])


def confidence(events: Sequence[ObservedEvent], within_ms: int | None = None, *, strict: bool = False) -> float:
    arrays, rows = as_rows(events, strict=strict)
    return float(skew.match_confidence(arrays, rows, len(rows), FAR if within_ms is None else within_ms))


def at(lo: int, hi: int | None = None, **more: Any) -> dict[str, Any]:
    return {"lo": lo, "hi": lo if hi is None else hi, **more}


def h(lo: int, hi: int | None = None, bound: int = 2) -> dict[str, Any]:
    return at(lo, hi, clock="h", skew=bound)


@pytest.mark.parametrize(
    ("rows", "within_ms", "expected"),
    [
        # One clock: its offset makes no difference, neither to the order nor to the window.
        ([h(5), h(6)], None, 1),
        ([h(6), h(5)], None, 0),
        ([h(5), h(9)], 4, 1),
        ([h(5), h(9)], 3, 0),
        ([h(0, 1), h(9, 10)], 9, Fraction(3, 4)),
        # h says 5 and is at 3..7, each as likely; 5 is no time after itself: 3 and 4 of 5 are before.
        ([h(5), at(5)], None, Fraction(2, 5)),
        # Both sides of one clock around an exact event: 5 + o < 6 < 7 + o only for o = 0 of -2..2. Independent times
        # (3..7 and 5..9) would give 3/5 * 3/5.
        ([h(5), at(6), h(7)], None, Fraction(1, 5)),
        # Further apart: 4 + o < 6 < 8 + o for o = -1, 0, 1.
        ([h(4), at(6), h(8)], None, Fraction(3, 5)),
        # Two clocks, both off by at most 1: 5 + o < 6 + p < 7 + o needs o = p (of 9 pairs 3).
        ([at(5, clock="h", skew=1), at(6, clock="g", skew=1), at(7, clock="h", skew=1)], None, Fraction(1, 3)),
        # Nominal 0..1, off by -1..1: at -1, 0, 1, 2 with 1, 2, 2, 1 of 6; before 1 in 3 of them.
        ([at(0, 1, clock="h", skew=1), at(1)], None, Fraction(1, 2)),
        # Weights are those of the nominal times: 0 with 1/4, 1 with 3/4.
        ([at(0, 1, clock="h", skew=1, weights=[1, 3]), at(1)], None, Fraction(1 * 2 + 3 * 1, 12)),
        # Inside the window the offset of the first decides: 5 - (2 + o) <= 3 for o >= 0.
        ([h(2), at(5)], 3, Fraction(3, 5)),
        # The ends share the offset, what stands between them has another: the window is certain, the order is not.
        ([h(0), at(2, clock="g", skew=2), h(4)], 4, Fraction(13, 25)),
    ],
)
def test_known_values(rows: list[dict[str, Any]], within_ms: int | None, expected: Fraction | int) -> None:
    events = observed(*rows)
    assert confidence_by_steps(events, within_ms, strict_ties=False) == expected
    assert confidence(events, within_ms) == pytest.approx(float(expected), abs=1e-15)


def test_equal_times_of_one_clock_are_as_those_of_exact_clocks() -> None:
    events = observed(h(5), h(5))
    assert confidence(events) == 1.0
    assert confidence(events[::-1]) == 0.0
    assert confidence(events, strict=True) == 0.0


@st.composite
def sequences(draw: st.DrawFn, max_skew_ms: int = 3, max_length_ms: int = 8) -> list[ObservedEvent]:
    bounds = {clock: draw(st.integers(0, max_skew_ms)) for clock in ("a", "b", "c")}
    rows = []
    for _ in range(draw(st.integers(2, 6))):
        clock = draw(st.sampled_from(["a", "a", "b", "b", "c", None]))
        length = draw(st.sampled_from([1, 1, 2, 3, max_length_ms]))
        lo = draw(st.integers(0, 10))
        row = at(lo, lo + length - 1, clock=clock)
        row["skew"] = draw(st.integers(0, max_skew_ms)) if clock is None else bounds[clock]
        if draw(st.integers(0, 5)) == 0:
            row["weights"] = draw(st.lists(st.integers(0, 3), min_size=length, max_size=length).filter(any))
        rows.append(row)
    if draw(st.booleans()):
        rows.sort(key=lambda row: int(row["hi"]))
    return observed(*rows)


@settings(max_examples=examples(40), deadline=None)
@given(sequences(), st.one_of(st.none(), st.integers(0, 14)), st.booleans())
def test_the_share_of_all_worlds(events: list[ObservedEvent], within_ms: int | None, strict: bool) -> None:
    exact = confidence_by_steps(events, within_ms, strict_ties=strict)
    found = confidence(events, within_ms, strict=strict)
    assert found == pytest.approx(float(exact), abs=1e-12)
    assert (found > 0) == (exact > 0)
    arrays, rows = as_rows(events, strict=strict)
    mass = 1.0
    for n in range(2, len(events) + 1):
        with as_python():
            shorter, mass = mass, float(skew.prefix_mass(arrays, rows, 0, n, 1.0, mass))
        assert mass <= shorter
    assert mass >= found - 1e-12


@settings(max_examples=examples(25), deadline=None)
@given(st.data())
def test_offsets_by_the_piece_are_all_offsets(data: st.DataObject) -> None:
    """Bounds of many milliseconds: what is summed over pieces equals the mean over all offsets, one by one."""
    bound = data.draw(st.integers(30, 150))
    rows = []
    for n in range(data.draw(st.integers(3, 4))):
        lo = data.draw(st.integers(0, 60))
        mine = n % 2 == 0
        length = data.draw(st.sampled_from([1, 10, 40]))
        rows.append(at(lo, lo + length - 1, clock="h" if mine else "g", skew=bound if mine else 0))
    rows.sort(key=lambda row: int(row["hi"]))
    events = observed(*rows)
    within_ms = data.draw(st.sampled_from([None, 20, 60]))
    by_offset = [confidence(_given(rows, offset), within_ms, strict=True) for offset in range(-bound, bound + 1)]
    assert confidence(events, within_ms, strict=True) == pytest.approx(sum(by_offset) / len(by_offset), abs=1e-12)


def _given(rows: Sequence[dict[str, Any]], offset: int) -> list[ObservedEvent]:
    """The events with the offset of clock h known."""
    moved = [
        {**row, "lo": row["lo"] + offset, "hi": row["hi"] + offset, "skew": 0} if row["clock"] == "h" else row
        for row in rows
    ]
    return observed(*moved)


def test_too_many_combinations_of_offsets_are_no_confidence() -> None:
    # Four clocks twice each, so intertwined that all their offsets bear upon each other.
    rows = [at(10 * (n // 4) + n % 4, clock=f"c{n % 4}", skew=1_000) for n in range(8)]
    assert confidence(observed(*rows)) == skew.TOO_MUCH


@pytest.mark.parametrize("n_needed", range(1, skew_offset._MAX_DEGREE + 2))
def test_sums_of_polynomials_over_all_points(n_needed: int) -> None:
    for n_points in (0, 1, n_needed, 2 * n_needed, 3 * n_needed + 1, 1_000):
        with as_python():
            nodes, shares = skew_offset._nodes(n_points, n_needed)
        assert (shares > 0).all()
        assert len(nodes) <= 2 * n_needed
        x = np.arange(n_points) / max(n_points - 1, 1)
        for degree in range(n_needed):
            assert (shares * x[nodes] ** degree).sum() == pytest.approx((x**degree).sum(), rel=1e-12)
