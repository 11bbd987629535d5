"""Strings of a batch: whether they are all one."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from engine.matching.interner import is_one_text


@given(st.lists(st.sampled_from(["", "a", "ab", "aba", "bab", "é"]), max_size=5), st.integers(0, 4), st.integers(0, 4))
def test_one_text_throughout(texts: list[str], start: int, times: int) -> None:
    for strings in (texts, texts[:1] * (times + 1)):
        part = pa.array(strings, pa.string())[start:]
        assert is_one_text(part) == (len(set(part.to_pylist())) == 1)


def test_nulls_are_no_text() -> None:
    assert not is_one_text(pa.array([None, None], pa.string()))
