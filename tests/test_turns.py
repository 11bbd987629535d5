"""Of tests that go in turn each change runs a part, and all changes together run all."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest

from tests.turns import MARKER, VARIABLE, others, this_turn


@dataclass(frozen=True)
class Collected:
    """As much of a test as is asked for."""

    nodeid: str
    path: Path
    marker: pytest.Mark | None

    def get_closest_marker(self, name: str) -> pytest.Mark | None:
        assert name == MARKER
        return self.marker


def in_turn(*args: object, **named: object) -> pytest.Mark:
    return pytest.Mark(MARKER, args, named, _ispytest=True)


def collected(file: str, n: int, marker: pytest.Mark | None) -> list[pytest.Item]:
    return [cast("pytest.Item", Collected(f"{file}::{index}", Path(file), marker)) for index in range(n)]


def run(items: list[pytest.Item], turn: int) -> list[str]:
    left_out = others(items, turn)
    return [item.nodeid for item in items if item not in left_out]


ITEMS = [
    *collected("plain.py", 3, None),
    *collected("thirds.py", 7, in_turn(of=3)),
    *collected("whole.py", 4, in_turn(of=2, together=True)),
    *collected("other.py", 2, in_turn(of=2, together=True)),
]


def test_so_many_turns_in_a_row_run_each_test_as_often_as_said() -> None:
    times = {item.nodeid: 0 for item in ITEMS}
    for turn in range(100, 106):
        for name in run(ITEMS, turn):
            times[name] += 1
    assert {file: {n for name, n in times.items() if name.startswith(file)} for file in ("plain", "thirds")} == {
        "plain": {6},
        "thirds": {2},
    }
    assert {n for name, n in times.items() if name.startswith(("whole", "other"))} == {3}


def test_a_turn_has_a_part_of_each_file_and_those_that_go_together_whole_or_not_at_all() -> None:
    for turn in range(6):
        names = run(ITEMS, turn)
        assert [name.partition("::")[0] for name in names].count("plain.py") == 3
        assert [name.partition("::")[0] for name in names].count("thirds.py") in (2, 3)
        assert [name.partition("::")[0] for name in names].count("whole.py") in (0, 4)
        assert run(ITEMS, turn) == names


@pytest.mark.parametrize("marker", [in_turn(), in_turn(3), in_turn(of=1), in_turn(of=True), in_turn(of=2, whole=True)])
def test_a_mark_that_says_no_turns_is_refused(marker: pytest.Mark) -> None:
    with pytest.raises(pytest.UsageError, match=r"bad\.py::0: found .*; expected in_turn\(of=n\), n from 2 on"):
        others(collected("bad.py", 1, marker), 0)


@pytest.mark.parametrize(("text", "turn"), [("", None), ("0", 0), ("00ff", 255)])
def test_the_turn_is_a_hexadecimal_number(monkeypatch: pytest.MonkeyPatch, text: str, turn: int | None) -> None:
    monkeypatch.setenv(VARIABLE, text)
    assert this_turn() == turn


def test_anything_else_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "next")
    with pytest.raises(pytest.UsageError, match="CLUSTERCEP_TEST_TURN: found 'next'; expected a hexadecimal number"):
        this_turn()
