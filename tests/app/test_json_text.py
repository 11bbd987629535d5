"""Encoders that are made once write what those of the standard library write."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.json_text import json_encoder, json_text
from app.store.storable import is_storable_json, storable, storable_json, storable_texts

TEXTS = st.text(st.characters(exclude_categories=()), max_size=8) | st.sampled_from(
    ["NaN", "\x00", "\ud800", "\\u0000"]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


@given(VALUES)
def test_texts_are_those_of_the_standard_library(value: Any) -> None:
    assert json_text(value) == json.dumps(value)
    compact = json_encoder(sort_keys=True, separators=(",", ":"), default=str)
    assert compact({"b": value, "a": 1}) == json.dumps({"b": value, "a": 1}, sort_keys=True, separators=(",", ":"))


def test_what_is_no_json_is_handed_to_the_default_or_refused() -> None:
    assert json_encoder(default=str)({"at": {1}.__class__}) == json.dumps({"at": str(set)})
    with pytest.raises(TypeError):
        json_text({"at": object()})


def texts_in(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from texts_in(item)
    elif isinstance(value, dict):
        for name, item in value.items():
            yield name
            yield from texts_in(item)


def refuse(constant: str) -> None:
    raise AssertionError(constant)


@given(VALUES)
def test_what_databases_do_not_accept_is_written_out(value: Any) -> None:
    text = storable_json(value)
    assert text == json_text(storable(value))
    for found in texts_in(json.loads(text, parse_constant=refuse)):
        assert "\x00" not in found
        found.encode()
    if is_storable_json(json_text(value)):
        assert json.loads(text) == value


@given(st.lists(st.none() | VALUES, max_size=4))
def test_texts_of_many_values_are_those_of_each(values: list[Any]) -> None:
    assert storable_texts(values) == [None if value is None else storable_json(value) for value in values]
