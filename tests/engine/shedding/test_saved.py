"""Saved models: read as they were written, refused where they were changed."""

from __future__ import annotations

import json

import numpy as np
import pytest

from engine.errors import StateError
from engine.shedding.partial_matches.saved import RunModel
from engine.shedding.partial_matches.transitions import RunObservations


def model() -> RunModel:
    observed = RunObservations(np.array([30, 20]), np.array([[20, 10, 0], [0, 15, 5]]))
    return RunModel("abc", 1, observed, 17, np.array([1e-7, 2.5e-7]), 400)


def test_what_was_written_is_read() -> None:
    read = RunModel.read(model().text(), "abc")
    assert read.text() == model().text()
    assert read.observed.n_next.tolist() == model().observed.n_next.tolist()
    assert read.seconds_per_offer.tolist() == [1e-7, 2.5e-7]


def test_every_truncation_is_refused() -> None:
    text = model().text()
    for end in range(len(text)):
        with pytest.raises(StateError, match="learned again"):
            RunModel.read(text[:end], "abc")


def test_what_was_changed_is_refused() -> None:
    changed = json.loads(model().text())
    changed["n_next"][0][1] += 1
    with pytest.raises(StateError, match="it was changed"):
        RunModel.read(json.dumps(changed), "abc")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "something else"),
        ('{"format": "clustercep run model", "version": 99}', "version 99, expected 1"),
        ("\x80\x04K\x01.", "no JSON"),
    ],
)
def test_what_is_no_model_is_refused(text: str, message: str) -> None:
    with pytest.raises(StateError, match=message):
        RunModel.read(text, "abc")


def test_a_model_of_another_query_is_refused() -> None:
    with pytest.raises(StateError, match="of query abc, expected def"):
        RunModel.read(model().text(), "def")
