"""Listed matches as arrays."""

import numpy as np

from engine.matching.output.listed import ListedMatches


def test_chosen_matches_keep_their_events_in_order() -> None:
    listed = ListedMatches(
        partition=np.array([0, 1, 0]),
        offsets=np.array([0, 2, 3, 6]),
        rows=np.array([4, 7, 5, 1, 2, 9]),
        components=np.array([0, 1, 0, 0, 0, 1]),
        iterations=np.array([[0], [-1], [0], [0], [1], [-1]]),
        confidence=np.array([1.0, 0.5, 0.25]),
        values=np.array([[1.0], [2.0], [3.0]]),
    )
    chosen = listed.chosen(np.array([2, 0]))
    assert chosen.offsets.tolist() == [0, 3, 5]
    assert chosen.rows.tolist() == [1, 2, 9, 4, 7]
    assert chosen.components.tolist() == [0, 0, 1, 0, 1]
    assert chosen.iterations is not None
    assert chosen.iterations[:, 0].tolist() == [0, 1, -1, 0, -1]
    assert chosen.confidence.tolist() == [0.25, 1.0]
    assert chosen.values.tolist() == [[3.0], [1.0]]


def test_no_matches_have_the_shapes_of_matches() -> None:
    none = ListedMatches.none(2, depth=1)
    assert none.n_matches == 0
    assert none.values.shape == (0, 2)
    assert none.chosen(np.empty(0, np.int64)).offsets.tolist() == [0]
