"""A backlog that is released in shares moves the watermark in several steps: that is one leap."""

from __future__ import annotations

from app.live.ordering.leaps import Leaps
from engine.events import EventBatch

HOUR_MS = 3_600_000


def taken(*steps: tuple[int, bool]) -> list[list[int]]:
    """(From, to) of each leap. steps: the hour where each ends, and whether the one before took its share alone."""
    leaps = Leaps()
    for hour, goes_on in steps:
        leaps.take(hour * HOUR_MS, EventBatch.empty(), [], goes_on=goes_on)
    return [[before // HOUR_MS, after // HOUR_MS] for before, after in leaps.save()[1]["leaps"]]


def test_shares_of_a_backlog_are_one_leap() -> None:
    assert taken((0, False), (3, False), (9, True), (24, True)) == [[0, 24]]


def test_steps_that_end_by_themselves_are_leaps_of_their_own() -> None:
    assert taken((0, False), (3, False), (9, True), (24, False)) == [[0, 9], [9, 24]]
