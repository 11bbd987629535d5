"""Which samples a finer one touches: against the definition; and that what is left does not depend on the order."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from collectors.metrics.resolution import overlapped

ROWS = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 40), st.integers(1, 12), st.sampled_from((1, 2, 3, 6)), st.booleans()),
    max_size=12,
)


@given(ROWS)
def test_against_the_definition(rows: list[tuple[int, int, int, int, bool]]) -> None:
    expected = [
        any(
            among and series == own and level < resolution and lo <= t_lo + length - 1 and t_lo <= lo + n - 1
            for series, lo, n, level, among in rows
        )
        for own, t_lo, length, resolution, _ in rows
    ]
    columns = np.array(rows, np.int64).reshape(len(rows), 5).T
    series, lo, n, resolution, among = columns
    found = overlapped(series, lo + 10**13, lo + 10**13 + n - 1, resolution, among.astype(np.bool_))
    assert found.tolist() == expected
