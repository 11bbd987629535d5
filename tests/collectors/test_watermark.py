"""When a source's watermark advances, and when it is taken back."""

from __future__ import annotations

import pytest

from collectors.base import NO_PROMISE_MS, next_watermark


@pytest.mark.parametrize(
    ("before_ms", "watermark_ms", "is_behind", "expected_ms"),
    [
        (None, 50, False, 50),
        (None, 50, True, NO_PROMISE_MS),
        (NO_PROMISE_MS, 50, True, NO_PROMISE_MS),
        (NO_PROMISE_MS, 50, False, 50),
        (40, 50, False, 50),
        (60, 50, False, 60),
        (40, 50, True, 40),
        (60, 50, True, 60),
    ],
)
def test_it_is_not_taken_back_and_waits_for_what_is_left_to_read(
    before_ms: int | None, watermark_ms: int, is_behind: bool, expected_ms: int
) -> None:
    assert next_watermark(before_ms, watermark_ms, 100, is_behind=is_behind) == expected_ms


@pytest.mark.parametrize("is_behind", [False, True])
def test_one_ahead_of_the_time_is_taken_back(is_behind: bool) -> None:
    assert next_watermark(200, 50, 100, is_behind=is_behind) == 50
