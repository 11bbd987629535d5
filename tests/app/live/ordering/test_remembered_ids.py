"""Remembered ids beside a dictionary, one id at a time; their bits beside Python's own."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.live.ordering.remembered_ids import SCHEMA, RememberedIds, keys_of

NAMES = [f"{number:032x}" for number in range(8)] + ["", "e1", "é" * 16, "A" * 32, "g" * 32, "a" * 31, "\x00" * 32]

moments = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.lists(st.tuples(st.sampled_from(NAMES), st.integers(0, 40)), max_size=6)),
        st.tuples(st.just("forget"), st.integers(-2, 45)),
        st.tuples(st.just("restart"), st.none()),
    ),
    max_size=25,
)


def strings(values: list[str]) -> pa.Array:
    return pa.array(values, pa.string())


@given(moments, st.integers(1, 9))
def test_agrees_with_a_dictionary(script: list[tuple[str, object]], pane_ids: int) -> None:
    ids, plain, passed_ms = RememberedIds(pane_ids), dict[str, int](), -(2**40)
    for what, content in script:
        if what == "add":
            assert isinstance(content, list)
            # As the path does: only what is not remembered is added.
            fresh = {name: until for name, until in content if name not in plain}
            ids.add(strings(list(fresh)), pa.array(list(fresh.values()), pa.int64()))
            plain |= {name: until for name, until in fresh.items() if until >= passed_ms}
        elif what == "forget":
            assert isinstance(content, int)
            ids.forget(content)
            passed_ms = max(passed_ms, content)
            plain = {name: until for name, until in plain.items() if until >= passed_ms}
        else:
            again = RememberedIds(pane_ids)
            again.restore(ids.save(), ids.sealed())
            ids = again
        assert ids.hold(strings(NAMES)).tolist() == [name in plain for name in NAMES]
        assert len(ids) == len(plain)
        if what == "forget":
            assert ids.n_kept <= 2 * len(plain)


def test_sealed_panes_stay_as_they_are_until_most_of_them_is_forgotten() -> None:
    ids = RememberedIds(pane_ids=4)
    for start in range(0, 12, 2):
        names = [f"{start + i}" for i in range(2)]
        ids.add(strings(names), pa.array([start, start + 1], pa.int64()))
    before = ids.sealed()
    assert [table.num_rows for table in before.values()] == [4, 4, 4]
    assert ids.save().num_rows == 0
    ids.forget(2)  # half of the first is left
    after = ids.sealed()
    assert [after[name] is before[name] for name in before] == [True, True, True]
    assert len(ids) == 10
    ids.forget(3)
    after = ids.sealed()
    assert [table is old for table, old in zip(after.values(), list(before.values())[1:], strict=True)] == [True, True]
    assert ids.save().num_rows == 1
    assert ids.hold(strings(["2", "3", "4"])).tolist() == [False, True, True]


@given(st.lists(st.one_of(st.sampled_from(NAMES), st.text(), st.from_regex(r"[0-9a-f]{32}", fullmatch=True))))
def test_bits_of_ids(names: list[str]) -> None:
    """32 small hexadecimal digits are the bits themselves; no other text is taken for them."""
    names = [name for name in names if name.isprintable()]
    for array in (strings(names), strings(["x", *names])[1:], *(strings([name]) for name in names)):
        keys = keys_of(array)
        found = [f"{int(high):016x}{int(low):016x}" for high, low in zip(keys.high, keys.low, strict=True)]
        expected = [name if is_hex(name) else hashed(name) for name in array.to_pylist()]
        assert found == expected


def is_hex(text: str) -> bool:
    return len(text) == 32 and set(text) <= set("0123456789abcdef")


def hashed(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=16, person=b"clustercep-id").hexdigest()


def test_ids_with_equal_first_halves_are_told_apart() -> None:
    names = [f"{7:016x}{low:016x}" for low in range(6)]
    ids = RememberedIds(pane_ids=4)
    ids.add(strings(names[:5]), pa.array([5] * 5, pa.int64()))
    assert ids.hold(strings(names)).tolist() == [True] * 5 + [False]


@pytest.mark.parametrize("wrong", ["unsorted", "column", "metadata"])
def test_what_was_not_saved_here_is_refused(wrong: str) -> None:
    ids = RememberedIds()
    ids.add(strings(["a", "b", "c"]), pa.array([1, 2, 3], pa.int64()))
    saved = ids.save()
    if wrong == "unsorted":
        saved = saved.take(pa.array(np.array([2, 1, 0])))
    elif wrong == "column":
        saved = saved.drop_columns(["low"])
    else:
        saved = saved.replace_schema_metadata(None)
    with pytest.raises((KeyError, ValueError)):
        RememberedIds().restore(saved, {})


def test_24_bytes_are_kept_per_id() -> None:
    ids = RememberedIds(pane_ids=100)
    ids.add(strings([f"{i:032x}" for i in range(1_000)]), pa.array(range(1_000), pa.int64()))
    assert sum(table.nbytes for table in ids.sealed().values()) == 24 * 1_000
    assert all(table.schema == SCHEMA for table in ids.sealed().values())


@pytest.mark.parametrize(("chosen", "expected"), [({}, "system"), ({"ARROW_DEFAULT_MEMORY_POOL": "mimalloc"}, None)])
def test_arrow_takes_the_allocator_of_the_system_unless_told_otherwise(
    chosen: dict[str, str], expected: str | None
) -> None:
    tell = "import json, app.cli, pyarrow; print(json.dumps(pyarrow.default_memory_pool().backend_name))"
    inherited = {name: value for name, value in os.environ.items() if name != "ARROW_DEFAULT_MEMORY_POOL"}
    words = [sys.executable, "-c", tell]
    told = subprocess.run(words, env=inherited | chosen, cwd=Path(__file__).parents[4], check=True, capture_output=True)
    assert json.loads(told.stdout) == (expected or chosen["ARROW_DEFAULT_MEMORY_POOL"])
