"""Bindings as JSON text: whatever the ids, what the standard library writes."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine import Binding, binding_json

_IDS = st.one_of(st.text(max_size=4), st.text('",\\ab \x7f', max_size=4), st.integers(0, 99).map(str))
_FLAT = st.lists(_IDS, max_size=5).map(tuple)


@given(st.one_of(_FLAT, st.lists(_FLAT, max_size=4).map(tuple)))
def test_it_is_what_json_writes(binding: Binding) -> None:
    assert binding_json(binding) == json.dumps(binding)


@pytest.mark.parametrize("binding", [(), ("",), ('", "',), ("a", '"'), ("\\",), ("\x7f",), ("\u00e9",), ("a\nb",)])
def test_ids_that_need_care(binding: Binding) -> None:
    assert binding_json(binding) == json.dumps(binding)
