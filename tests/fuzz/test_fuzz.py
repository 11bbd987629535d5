"""The search itself: it finds a fault that is put in, shrinks it to what matters, and repeats it from its files."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.errors import QueryError, UnsupportedQueryError
from tests.conformance.ways import AUTOMATON, Way, rows_by
from tests.examples import examples
from tests.fuzz.__main__ import main, repeat
from tests.fuzz.case import FuzzCase, load
from tests.fuzz.checking import TooLongError, at_most
from tests.fuzz.drawing import FIELDS, fuzz_cases
from tests.fuzz.searching import Found, Order, Search, Tally, relaxed
from tests.fuzz.shrinking import shrunk

ANY_FIELD = st.sampled_from(sorted(FIELDS)).flatmap(lambda name: fuzz_cases(FIELDS[name]))
AMPLE_S = 600.0
"""For shrinking to its end, on a busy machine too."""
_FEW = settings(max_examples=examples(25), deadline=None, suppress_health_check=list(HealthCheck))


@_FEW
@given(ANY_FIELD)
def test_a_saved_case_is_the_case(tmp_path_factory: pytest.TempPathFactory, case: FuzzCase) -> None:
    folder = tmp_path_factory.mktemp("case")
    case.save(folder)
    loaded = load(folder)
    assert str(loaded) == str(case)
    assert [str(part) for part in loaded.parts] == [str(part) for part in _ordered(case)]


def _ordered(case: FuzzCase) -> Sequence[Any]:
    """Its pieces with the events of each in stream order, as files have them."""
    return FuzzCase(case.setting, case.stream.sorted(), case.watermarks, case.piece_of, case.restarts).parts


@pytest.mark.parametrize("name", FIELDS)
def test_what_is_drawn_can_be_planned(name: str) -> None:
    """Also with fewer predicates; but for queries on matches, which may lack an attribute or a key."""

    @settings(_FEW, max_examples=examples(3))
    @given(fuzz_cases(FIELDS[name]))
    def plan(case: FuzzCase) -> None:
        for other in (case, relaxed(case, 2), relaxed(case, 8)):
            with suppress(UnsupportedQueryError, *((QueryError,) if FIELDS[name].is_cascade else ())):
                assert other.setting.compiled()

    plan()


@_FEW
@given(fuzz_cases(FIELDS["everything"]))
def test_shrinking_leaves_what_is_shown(case: FuzzCase) -> None:
    def shows(other: FuzzCase) -> bool:
        types = other.stream.table.column("type").to_pylist()
        return "B" in types and len(other.setting.compiled()) == 1

    if not shows(case):
        return
    small = shrunk(case, shows, AMPLE_S)
    assert len(small.stream) == 1
    assert len(small.watermarks) == 1
    assert not small.restarts
    (text,) = small.setting.texts.values()
    assert "{ " not in text
    assert "OUTPUT" not in text


def _without_kleene_of_two(
    way: Way, queries: Sequence[Any], parts: Sequence[Any], restarts: Sequence[int] = ()
) -> list[Any]:
    """An automaton that forgets matches in which a list has two events."""
    rows = rows_by(way, queries, parts, restarts)
    if way is not AUTOMATON:
        return rows
    return [row for row in rows if all(len(bound) != 2 for bound in row.bindings.values())]


def test_a_fault_is_found_shrunk_and_repeated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    emitted: list[Found | Tally] = []
    order = Order(3, 600.0, ["plain"], (), tmp_path, tmp_path / "current")
    with (
        patch("tests.fuzz.checking.rows_by", _without_kleene_of_two),
        patch("tests.fuzz.searching.SHRINK_SECONDS", AMPLE_S),
    ):
        search = Search(order, emitted.append)
        number = 0
        while not emitted:
            search.round("plain", number)
            number += 1
        (found, *_) = emitted
        assert isinstance(found, Found)
        assert (found.finding.way, found.finding.against) == ("automaton", "oracle")
        assert len(load(found.folder).stream) <= 3  # two in the list, one more where another part must have one
        assert repeat(found.folder) == 1
    assert "automaton against oracle" in capsys.readouterr().out
    assert repeat(found.folder) == 0


def test_the_command_tells_what_was_searched(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(tmp_path)
    assert main(["--minutes", "0.3", "--seed", "1", "--only", "plain", "--folder", folder]) == 0
    shown = capsys.readouterr().out
    assert "0 finding(s); seed 1" in shown
    assert main(["--only", "no such field", "--folder", folder]) == 2
    assert main(["--without", "no such construct", "--folder", folder]) == 2


def test_a_process_that_ends_by_itself_is_a_finding(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As after a fault of memory in a kernel: here the folder for the cases is a file."""
    occupied = tmp_path / "file"
    occupied.write_text("")
    with patch("tests.fuzz.overseer._MOST_BEGUN", 1):
        assert main(["--minutes", "0.3", "--seed", "1", "--only", "plain", "--folder", str(occupied)]) == 1
    assert "the process ended with code 1" in capsys.readouterr().out


def test_a_limit_that_ends_what_c_code_had_called_is_one() -> None:
    """The time is up within a callback, and comes as another error: no finding."""

    def called() -> None:
        try:
            raise TooLongError
        except TooLongError as error:
            raise SystemError("returned a result with an exception set") from error

    with pytest.raises(TooLongError), at_most(60.0):
        called()
    with pytest.raises(SystemError), at_most(60.0):
        raise SystemError("of its own")
