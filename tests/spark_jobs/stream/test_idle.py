"""The stream's time while no events come."""

from __future__ import annotations

from spark_jobs.stream.idle import IdleClock


def test_time_goes_on_after_the_timeout_as_on_the_wall() -> None:
    clock = IdleClock(timeout_ms=1_000, heard_ms=50_000)
    assert clock.due(99_000) is None, "nothing is known of the stream's time yet"
    clock.heard(7_000, 100_000)
    assert clock.due(100_999) is None
    assert clock.due(101_000) == 8_000
    assert clock.due(101_000) is None, "told already"
    assert clock.due(103_500) == 10_500


def test_events_set_the_time_and_it_never_goes_back() -> None:
    clock = IdleClock(timeout_ms=1_000, heard_ms=0)
    clock.heard(7_000, 0)
    assert clock.due(5_000) == 12_000
    clock.heard(6_500, 6_000)
    assert clock.due(6_500) is None
    assert clock.due(7_500) is None, "less than what was told before"
    assert clock.due(12_000) == 13_000
    clock.heard(None, 13_000)
    assert clock.due(13_500) is None, "something waits to be read"


def test_without_a_timeout_time_stands_still() -> None:
    clock = IdleClock(timeout_ms=None, heard_ms=0, newest_ms=1)
    assert clock.due(10**12) is None
