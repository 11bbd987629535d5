"""Event files as other programs and editors write them."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.event_file import EventFileError, read_event_file

BOM = b"\xef\xbb\xbf"


@pytest.mark.parametrize("data", [b'{"type": "A", "t": "1"}\n', b"type,t\nA,1\n"])
def test_a_byte_order_mark_changes_nothing(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "events"
    path.write_bytes(BOM + data)
    raw, _ = read_event_file(str(path))
    assert raw.columns == {"type": ["A"], "t": ["1"]}


def test_a_name_of_half_a_character_is_a_problem(tmp_path: Path) -> None:
    path = tmp_path / "events"
    path.write_text('{"type": "A", "t": 1}\n{"type": "A", "t": 2, "s\\ud83d": 1}\n')
    with pytest.raises(EventFileError, match=r"row 2 \(line 2\): the name 's.ud83d' is no Unicode text"):
        read_event_file(str(path))


def test_a_single_line_of_something_else_is_no_header(tmp_path: Path) -> None:
    path = tmp_path / "events"
    path.write_bytes(b"<events/>")
    with pytest.raises(EventFileError, match="line 1: no column 'type': found '<events/>'; expected JSON lines"):
        read_event_file(str(path))


def test_a_line_of_many_equal_cells_is_refused_with_the_first_names(tmp_path: Path) -> None:
    """Found by a search: comparing each of 50,000 names with all others took a minute."""
    path = tmp_path / "events"
    path.write_bytes(b"type," + b"{}," * 50_000 + b",".join(b"n%d,n%d" % (n, n) for n in range(100)))
    with pytest.raises(EventFileError, match="two columns have one name") as raised:
        read_event_file(str(path))
    assert len(str(raised.value)) < 500
