"""What `clustercep match` and `explain` refuse, and how they say it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.app.commands.match.commands import QUERY, ROWS, json_lines, match, run


def test_an_attribute_that_a_type_lacks_is_an_error_with_its_place(tmp_path: Path) -> None:
    result = match(tmp_path, json_lines(ROWS), "PATTERN SEQ(A a) WHERE skip_till_any_match { a.z = 1 } WITHIN 9")
    assert result.exit_code == 2
    assert "q.cep:1:46: events of type A have no attribute z" in result.stderr
    assert "^" in result.stderr


# ------------------------------------------------------------------ bad input


REFUSED = """\
{"id": "good", "type": "A", "t_lo": 1, "t_hi": 2, "weights": [0.5, 0.5]}
{"id": "last", "type": "B", "t": 5}
{"id": "swapped", "type": "B", "t_lo": 5, "t_hi": 1}
{"id": "negative", "type": "B", "t": -5}
{"id": "half", "type": "B", "t_lo": 4, "t_hi": 5, "weights": [0.25, 0.25]}
{"id": "nan", "type": "B", "t_lo": 4, "t_hi": 5, "weights": [NaN, 1]}
{"id": "long", "type": "A", "t_lo": 1, "t_hi": 11}
"""


@pytest.mark.parametrize("runtime", ["auto", "compiled", "oracle"])
def test_refused_events_are_told_and_the_others_matched(runtime: str, tmp_path: Path) -> None:
    query = "PATTERN SEQ(A a, B b) WHERE skip_till_any_match WITHIN 9"
    result = match(tmp_path, REFUSED, query, ["--runtime", runtime])
    assert result.exit_code == 0
    assert [json.loads(line)["bindings"] for line in result.stdout.splitlines()] == [{"a": ["good"], "b": ["last"]}]
    for message in (
        "4 event(s) refused: event swapped (B): its interval starts at 5 ms, after its end at 1 ms",
        "event negative (B): its interval [-5, -5] ms; expected times from 0",
        "event half (B): its 2 weights with sum 0.5 do not fit",
        "event nan (B): its 2 weights with sum nan do not fit",
        "1 event(s) refused: event long (A): its interval is 10 ms long, longer than the window of 9 ms",
    ):
        assert message in result.stderr


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ('{"type": "A", "t": 1}\n{"type": "A", \n', "row 2 (line 2): no JSON (Expecting property name"),
        ('\n{"type": "A", "t": 1}\n\n[1]\n', "row 2 (line 4): found [1]; expected one JSON object per line"),
        (b'{"type": "A", "t": 1, "s": "\xff\xfe"}\n', "row 1 (line 1): byte 29 (0xff) is not UTF-8"),
        ('{"type": "A", "t": 1, "s": "\\ud800"}\n', "row 1 (line 1): s is '\\ud800', which is no Unicode text"),
        ('{"type": "A"}\n', "row 1 (line 1): no time; expected t, or t_lo and t_hi"),
        ('{"t": 1}\n', "row 1 (line 1): type is missing"),
        ('{"type": 7, "t": 1}\n', "row 1 (line 1): type is 7; expected the name"),
        ('{"type": "A", "t": "soon"}\n', "row 1 (line 1): t is 'soon'; expected a whole number of milliseconds"),
        ('{"type": "A", "t": 1.5}\n', "row 1 (line 1): t is 1.5; expected a whole number"),
        ('{"type": "A", "t": 1e300}\n', "row 1 (line 1): t is 1e+300; expected a whole number"),
        ('{"type": "A", "t": true}\n', "row 1 (line 1): t is True; expected a whole number"),
        ('{"type": "A", "t_lo": 1}\n', "row 1 (line 1): t_lo without t_hi; give both"),
        ('{"type": "A", "t": 1, "x": [1]}\n', "row 1 (line 1): attribute 'x' is [1]; expected a number or text"),
        ('{"type": "A", "t": 1, "x": true}\n', "row 1 (line 1): attribute 'x' is True; expected a number or text"),
        (
            '{"type": "A", "t": 1, "x": 1}\n{"type": "B", "t": 2, "x": "one"}\n',
            "row 2 (line 2): attribute 'x' is text ('one'), but a number (1) in row 1 (line 1)",
        ),
        ('{"type": "A", "t": 1, "x": 9007199254740993}\n', "row 1 (line 1): attribute 'x' is 9007199254740993"),
        ('{"type": "A", "t": 1, "id": "e"}\n{"type": "A", "t": 1, "id": "e"}\n', "id 'e' is that of row 1 (line 1)"),
        ('{"type": "A", "t": 1, "id": 1.5}\n', "row 1 (line 1): id is 1.5; expected a text or a whole number"),
        ('{"type": "A", "t": 1, "timestamp": 5}\n', "the column 'timestamp' is reserved; name the time t"),
        (
            '{"type": "A", "t_lo": 1, "t_hi": 2, "weights": ["1"]}\n',
            "row 1 (line 1): weights is ['1']; expected a list",
        ),
        ('{"type": "A", "t": 1, "skew_ms": -1}\n', "row 1 (line 1): skew_ms is -1; expected a whole number from 0"),
        ('{"type": "A", "t": 1, "source_seq": -1}\n', "row 1 (line 1): source_seq is -1; expected a whole number"),
        ('{"a": ' * 100_000, "row 1 (line 1): no JSON"),
        ('{"type": "A", "t": ' + "9" * 10_000 + "}", "row 1 (line 1): no JSON"),
        ("type,t\nA,1\nA\n", "row 2 (line 3): found 1 cells; expected 2"),
        ("type,t,t\nA,1,1\n", "line 1: two columns have one name: 't'"),
        ('type,t\nA,"1\n', "no CSV (unexpected end of data)"),
        ("type,t,x\nA,1,5\nA,2,five\n", "row 2 (line 3): attribute 'x' is text ('five'), but a number ('5') in row 1"),
        (b"type,t\nA,\x80\n", "line 2: byte 10 (0x80) is not UTF-8; expected JSON lines, CSV or Parquet"),
        (b"\x00\x01\x02\x03", "row"),
        (b"PAR1 and nothing else", "a damaged Parquet file"),
    ],
)
def test_bad_events_are_named(data: str | bytes, message: str, tmp_path: Path) -> None:
    if data == b"\x00\x01\x02\x03":
        data, message = data + b"\n\xff", "is not UTF-8"
    result = match(tmp_path, data, "PATTERN SEQ(A a) WHERE skip_till_any_match WITHIN 9")
    assert result.exit_code == 2
    assert result.stdout == ""
    assert message in result.stderr
    assert "Traceback" not in result.stderr


def test_all_problems_are_counted_and_the_first_shown(tmp_path: Path) -> None:
    result = match(tmp_path, "{\n" * 20)
    assert result.exit_code == 2
    assert "20 problem(s)" in result.stderr
    assert "row 5 (line 5)" in result.stderr
    assert "row 6" not in result.stderr
    assert "and 15 more problems" in result.stderr


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "q.cep").write_text(QUERY)
    missing = run("match", str(tmp_path / "q.cep"), str(tmp_path / "none"))
    assert missing.exit_code == 2
    assert "none: cannot be read: No such file or directory; expected a file of JSON lines" in missing.stderr
    folder = run("match", str(tmp_path), str(tmp_path / "q.cep"))
    assert folder.exit_code == 2
    assert "Is a directory" in folder.stderr
    (tmp_path / "bad.cep").write_bytes(b"PATTERN \xff")
    bad = run("match", str(tmp_path / "bad.cep"), str(tmp_path / "q.cep"))
    assert bad.exit_code == 2
    assert "bad.cep: byte 9 is not UTF-8" in bad.stderr


def test_a_query_that_is_not_there_is_told_the_nearest(tmp_path: Path) -> None:
    (tmp_path / "slow-reads.cep").write_text(QUERY)
    for command in (["explain"], ["match"]):
        words = [str(tmp_path / "none")] if command == ["match"] else []
        told = run(*command, str(tmp_path / "slow-reeds.cep"), *words)
        assert told.exit_code == 2
        assert f"; did you mean {tmp_path / 'slow-reads.cep'}?" in told.stderr.replace("\n", "")
        assert "did you mean" not in run(*command, str(tmp_path / "other.cep"), *words).stderr
    assert "did you mean queries/queued-data.cep?" in run("explain", "queued-dta").stderr
    too_long = run("explain", "q" * 300)
    assert (too_long.exit_code, "File name too long" in too_long.stderr) == (2, True)


NAMED = "PATTERN SEQ(A a) WHERE skip_till_any_match { a.s = :who } WITHIN 9 PARAMETERS who = 'ann'"


@pytest.mark.parametrize(
    ("query", "options", "message"),
    [
        ("PATTERN SEQ(A a", [], "q.cep:1:16"),
        ("PATTERN SEQ(A a) WITHIN 9", [], "names no event selection strategy"),
        (QUERY, ["--param", "rise"], "expected NAME=VALUE"),
        (QUERY, ["--param", "rise=1", "--param", "rise=2"], "rise is given twice"),
        (QUERY, ["--param", "rise=1"], "the parameter rise, which the query does not have"),
        (QUERY, ["--param", "ri\udcffse=1"], "which the query does not have"),
        (NAMED, ["--param", "who=\udcff"], "the parameter who is given '\\udcff', with half of a surrogate pair"),
        (NAMED, ["--param", "who=\udcff", "--runtime", "oracle"], "half of a surrogate pair"),
    ],
)
def test_bad_queries_and_parameters(query: str, options: list[str], message: str, tmp_path: Path) -> None:
    result = match(tmp_path, json_lines(ROWS), query, options)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert message in result.stderr
