"""Numbers of rows, each once, against the set of them."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from engine.stream.row_numbers import each_once

ROWS = st.lists(st.integers(0, 60), max_size=40)


@given(st.lists(ROWS, min_size=1, max_size=3), st.integers(0, 10**12))
def test_each_number_once_in_order(parts: list[list[int]], least: int) -> None:
    found = each_once(*(np.array(part, np.int64) + least for part in parts))
    assert found.tolist() == sorted({number + least for part in parts for number in part})
    assert found.dtype == np.int64
