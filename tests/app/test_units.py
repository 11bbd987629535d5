"""Named values with their units."""

from __future__ import annotations

from typing import Any

import pytest

from app.units import Unit, unit_of, value_text
from collectors.schema import event_table


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("elapsed_ms", 63_665, "1 min 4 s"),
        ("avg_before_ms", 26.6, "27 ms"),
        ("bytes", 144_049_176, "137.4 MiB"),
        ("queued_bytes", 40_413_796.0, "38.5 MiB"),
        ("at_ms", 1_795_178_714_919, "2026-11-20 12:45:14.919 UTC"),
        ("peak_ms", 1_795_178_714_919, "2026-11-20 12:45:14.919 UTC"),
        ("b.period_ms", 0, "0 ms"),
        ("n_matches", 2_822_616, "2,822,616"),
        ("progress", 0.123456789, "0.1235"),
        ("ratio", 1234.5678, "1,235"),
        ("elapsed_ms", None, None),
        ("elapsed_ms", float("nan"), float("nan")),
        ("elapsed_ms", float("inf"), float("inf")),
        ("elapsed_ms", "5", "5"),
        ("elapsed_ms", True, True),
        ("at_ms", 10**18, 10**18),
    ],
)
def test_a_value_is_read_by_its_name(name: str, value: Any, text: Any) -> None:
    found = value_text(name, value)
    assert found == text or (found != found and text != text)  # NaN


def test_times_are_written_as_the_page_wants() -> None:
    assert value_text("at_ms", 1_795_178_714_919.4, str) == "1795178714919"


def test_names_and_the_table_of_attributes_agree() -> None:
    expected = {"ms": Unit.DURATION, "bytes": Unit.SIZE}
    for row in event_table():
        assert unit_of(row.attribute) is expected.get(row.unit), row
