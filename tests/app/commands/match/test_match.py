"""`clustercep match` and `explain`: what they read, print and refuse."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import Result
from typer.testing import CliRunner

import engine
from app.commands.match.match import app
from collectors.schema import load_event_types
from engine import Limits
from engine.plan.evaluation import RuntimeKind

QUERY = "PATTERN SEQ(A a, B+ b[]) WHERE skip_till_any_match { [k] } WITHIN 100 RETURN a.k, avg(b[].x) AS mean"
ROWS: list[dict[str, Any]] = [
    {"id": "a1", "type": "A", "t": 1, "k": "p"},
    {"id": "b1", "type": "B", "t": 2, "k": "p", "x": 4},
    {"id": "b2", "type": "B", "t": 3, "k": "q", "x": 5},
]
MATCH = {"bindings": {"a": ["a1"], "b": ["b1"]}, "confidence": 1.0, "values": {"k": "p", "mean": 4.0}}


def run(*arguments: str, stdin: str | bytes | None = None) -> Result:
    result = CliRunner().invoke(app, list(arguments), input=stdin)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def match(folder: Path, data: str | bytes, query: str = QUERY, options: Sequence[str] = ()) -> Result:
    """The command by the oracle on an events file with this content."""
    (folder / "q.cep").write_text(query, encoding="utf-8")
    (folder / "events").write_bytes(data.encode() if isinstance(data, str) else data)
    return run("match", str(folder / "q.cep"), str(folder / "events"), "--runtime", "oracle", *options)


def rows_of(result: Result) -> list[dict[str, Any]]:
    assert result.exit_code in (0, 1), result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


def json_lines(rows: Sequence[object]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def csv_text(rows: Sequence[dict[str, Any]]) -> str:
    names = list(dict.fromkeys(name for row in rows for name in row))
    out = io.StringIO()
    writer = csv.DictWriter(out, names)
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def parquet_bytes(rows: Sequence[dict[str, Any]]) -> bytes:
    out = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist([{name: row.get(name) for name in (*ROWS[0], "x")} for row in rows]), out)
    return out.getvalue().to_pybytes()


@pytest.mark.parametrize("write", [json_lines, csv_text, parquet_bytes])
def test_every_format_reads_the_same(write: Any, tmp_path: Path) -> None:
    assert rows_of(match(tmp_path, write(ROWS))) == [MATCH]


def test_standard_input(tmp_path: Path) -> None:
    (tmp_path / "q.cep").write_text(QUERY)
    result = run("match", str(tmp_path / "q.cep"), "-", "--runtime", "oracle", stdin=json_lines(ROWS))
    assert rows_of(result) == [MATCH]


def test_exit_code_1_without_matches(tmp_path: Path) -> None:
    result = match(tmp_path, json_lines(ROWS[:1] + ROWS[2:]))
    assert (result.exit_code, result.stdout, result.stderr) == (1, "", "")
    result = match(tmp_path, json_lines(ROWS[:1] + ROWS[2:]), options=["--format", "table"])
    assert (result.exit_code, result.stdout, result.stderr) == (1, f"No match among {len(ROWS) - 1} events.\n", "")


@pytest.mark.parametrize("data", ["", "\n", "type,t\n"])
def test_no_events_are_no_matches(data: str, tmp_path: Path) -> None:
    result = match(tmp_path, data, "PATTERN SEQ(A a) WHERE skip_till_any_match WITHIN 1")
    assert result.exit_code == 1
    assert "no event has the type 'A'; found none" in result.stderr


def test_ids_default_to_the_row_number_and_ties_to_its_order(tmp_path: Path) -> None:
    rows = [{"type": "B", "t": 5}, {"type": "A", "t": 5}, {"type": "B", "t": 5}]
    query = "PATTERN SEQ(A a, B b) WHERE skip_till_any_match WITHIN 9"
    assert [row["bindings"] for row in rows_of(match(tmp_path, json_lines(rows), query))] == [{"a": ["2"], "b": ["3"]}]
    assert match(tmp_path, json_lines(rows), query, ["--ties", "strict"]).exit_code == 1


def test_options_take_the_place_of_clauses(tmp_path: Path) -> None:
    rows = [{"id": "a", "type": "A", "t_lo": 0, "t_hi": 1}] + [
        {"id": f"b{n}", "type": "B", "t_lo": n, "t_hi": n + 1} for n in (0, 1, 2)
    ]
    query = "PATTERN SEQ(A a, B b) WHERE skip_till_any_match WITHIN 9 CONFIDENCE >= 0.9 LIMIT 9 TIES SOURCE"
    data = json_lines(rows)

    def shares(*options: str) -> list[float]:
        return [row["confidence"] for row in rows_of(match(tmp_path, data, query, options))]

    assert shares() == [1.0]
    assert shares("--confidence", "0.5") == [0.75, 1.0]
    assert shares("--confidence", "0") == [0.25, 0.75, 1.0]
    limited = match(tmp_path, data, query, ["--confidence", "0", "--limit", "1"])
    assert len(rows_of(limited)) == 1
    assert "limit was reached: 1 row(s) are shown" in limited.stderr


SEVERAL = [
    {"id": "a", "type": "A", "t": 0},
    *({"id": f"b{n}", "type": "B", "t_lo": 1, "t_hi": 4} for n in (1, 2)),
    {"id": "c", "type": "C", "t": 3},
]


@pytest.mark.parametrize("output", ["COLLAPSED", "COUNT"])
@pytest.mark.parametrize("runtime", ["oracle", "compiled"])
def test_rows_of_several_matches_tell_how_sure_one_of_them_is(tmp_path: Path, output: str, runtime: str) -> None:
    query = f"PATTERN SEQ(A a, B+ b[], C c) WHERE skip_till_any_match WITHIN 9 OUTPUT {output}"
    (row,) = rows_of(match(tmp_path, json_lines(SEVERAL), query, ["--runtime", runtime]))
    assert (row["confidence"], row["at_least_one_low"], row["at_least_one_high"]) == (0.5, 0.75, 0.75)
    table = match(tmp_path, json_lines(SEVERAL), query, ["--runtime", runtime, "--format", "table"]).stdout
    assert "at least one match" in table
    assert "0.75" in table


@pytest.mark.parametrize("runtime", ["oracle", "compiled"])
def test_what_the_confidence_says_is_not_said_twice(tmp_path: Path, runtime: str) -> None:
    query = "PATTERN SEQ(A a, B+ b[], C c) WHERE skip_till_any_match WITHIN 9 OUTPUT COLLAPSED"
    precise = [{**row, "t_lo": 1, "t_hi": 1} if row["type"] == "B" else row for row in SEVERAL]
    for rows in (SEVERAL[:2] + SEVERAL[3:], precise):
        (row,) = rows_of(match(tmp_path, json_lines(rows), query, ["--runtime", runtime]))
        assert not any(name.startswith("at_least") for name in row)


def test_an_estimate_is_told_with_its_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine.at_least_one, "__kwdefaults__", {**engine.at_least_one.__kwdefaults__, "work_limit": 0})
    rows = [{**row, "t_lo": 0, "t_hi": 4} if row["type"] != "B" else row for row in SEVERAL]
    query = "PATTERN SEQ(A a, B+ b[], C c) WHERE skip_till_any_match WITHIN 9 OUTPUT COLLAPSED"
    (row,) = rows_of(match(tmp_path, json_lines(rows), query, ["--runtime", "compiled"]))
    (exact,) = rows_of(match(tmp_path, json_lines(rows), query, ["--runtime", "oracle"]))
    assert row["at_least_one_low"] < exact["at_least_one_low"] < row["at_least_one_high"]
    error = row["at_least_one_standard_error"]
    assert abs(row["at_least_one_estimate"] - exact["at_least_one_low"]) < 6 * error
    table = match(tmp_path, json_lines(rows), query, ["--runtime", "compiled", "--format", "table"]).stdout
    assert "about " in table


def test_a_search_that_was_stopped_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.Limits", partial(Limits, work_budget=10))
    rows = [{"type": "B", "t": t, "x": 1} for t in range(12)]
    query = "PATTERN SEQ(B+ b[]) WHERE skip_till_any_match { avg(b[].x) = 1.5 } WITHIN 99 OUTPUT COUNT"
    result = match(tmp_path, json_lines(rows), query, ["--runtime", "compiled"])
    assert (result.exit_code, result.stdout) == (1, "")
    assert "stopped by the work budget" in result.stderr
    assert "matches may be missing" in result.stderr


@pytest.mark.parametrize(
    ("given", "expected"), [("5", ["b2"]), ("5.5", []), ("3 ms", ["b1", "b2"]), ("1s", []), ("-1", ["b1", "b2"])]
)
def test_parameters(given: str, expected: list[str], tmp_path: Path) -> None:
    rows = [{"id": "b1", "type": "B", "t": 1, "x": 4}, {"id": "b2", "type": "B", "t": 2, "x": 5}]
    query = "PATTERN SEQ(B b) WHERE skip_till_any_match { b.x >= :least } WITHIN 9 PARAMETERS least = 100"
    result = match(tmp_path, json_lines(rows), query, ["--param", f"least={given}"])
    assert [row["bindings"]["b"][0] for row in rows_of(result)] == expected


def test_text_parameters(tmp_path: Path) -> None:
    rows = [{"id": "b1", "type": "B", "t": 1, "s": "5"}, {"id": "b2", "type": "B", "t": 2, "s": "it's"}]
    query = "PATTERN SEQ(B b) WHERE skip_till_any_match { b.s = :s } WITHIN 9"
    for given, expected in (("'5'", "b1"), ("it's", "b2"), ("'it''s'", "b2")):
        (row,) = rows_of(match(tmp_path, json_lines(rows), query, ["--param", f"s={given}"]))
        assert row["bindings"] == {"b": [expected]}


def test_table(tmp_path: Path) -> None:
    hostile = [{**ROWS[0], "id": "[red]a\x1b[2J"}, *ROWS[1:]]
    result = match(tmp_path, json_lines(hostile), options=["--format", "table"])
    assert result.exit_code == 0
    assert "[red]a?[2J" in result.stdout
    assert "\x1b" not in result.stdout
    assert "mean" in result.stdout


def test_collapsed_rows_say_more(tmp_path: Path) -> None:
    query = "PATTERN SEQ(A a, B+ b[]) WHERE skip_till_any_match WITHIN 100 OUTPUT COLLAPSED"
    rows = rows_of(match(tmp_path, json_lines(ROWS), query))
    assert rows[-1] | {"bindings": {}} == {
        "bindings": {},
        "confidence": 1.0,
        "values": {},
        "count": 2,
        "count_exact": True,
        "candidates": {"a": ["a1"], "b": ["b1", "b2"]},
        "exact": True,
    }


# ------------------------------------------------------------------- types


def test_whole_and_real_numbers_make_a_real_attribute(tmp_path: Path) -> None:
    rows = [{"type": "B", "t": 1, "x": 4}, {"type": "B", "t": 2, "x": 4.5}]
    query = "PATTERN SEQ(B b) WHERE skip_till_any_match WITHIN 9 RETURN b.x"
    assert [row["values"]["x"] for row in rows_of(match(tmp_path, json_lines(rows), query))] == [4.0, 4.5]


def test_a_type_that_does_not_occur_has_no_match_and_a_warning(tmp_path: Path) -> None:
    query = "PATTERN SEQ(A a, Z z) WHERE skip_till_any_match { [k] AND z.status = 'x' AND z.n > 1 } WITHIN 9"
    result = match(tmp_path, json_lines(ROWS), query)
    assert result.exit_code == 1
    assert "no event has the type 'Z'; found 'A', 'B'" in result.stderr


def test_a_negated_type_that_does_not_occur_forbids_nothing(tmp_path: Path) -> None:
    query = "PATTERN SEQ(A a, !Z z, B b) WHERE skip_till_any_match { [k] AND z.s = a.k } WITHIN 9"
    assert [row["bindings"] for row in rows_of(match(tmp_path, json_lines(ROWS), query))] == [
        {"a": ["a1"], "b": ["b1"]}
    ]


def test_an_attribute_that_a_type_lacks_is_an_error_with_its_place(tmp_path: Path) -> None:
    result = match(tmp_path, json_lines(ROWS), "PATTERN SEQ(A a) WHERE skip_till_any_match { a.z = 1 } WITHIN 9")
    assert result.exit_code == 2
    assert "q.cep:1:46: events of type A have no attribute z" in result.stderr
    assert "^" in result.stderr


def test_the_schema_of_the_cluster(tmp_path: Path) -> None:
    rows = [
        {"id": "s", "type": "JobStart", "t": 1, "job_id": "17", "n_maps": "4"},
        {"id": "u", "type": "Unheard", "t": 2, "job_id": "17", "n_maps": ""},
    ]
    query = "PATTERN SEQ(JobStart a) WHERE skip_till_any_match { a.job_id = '17' AND a.n_maps > 3 } WITHIN 9"
    result = match(tmp_path, csv_text(rows), query, ["--schema", "cluster"])
    assert [row["bindings"] for row in rows_of(result)] == [{"a": ["s"]}]
    assert "1 event(s) of the unknown type 'Unheard' left out" in result.stderr
    bad = match(tmp_path, csv_text([{**rows[0], "n_maps": "many", "colour": "red"}]), query, ["--schema", "cluster"])
    assert bad.exit_code == 2
    assert "no event type has the attribute 'colour'" in bad.stderr
    assert "row 1 (line 2): attribute 'n_maps' is 'many'; expected a whole number" in bad.stderr
    mistyped = match(tmp_path, csv_text(rows), query.replace("JobStart", "JobStrat"), ["--schema", "cluster"])
    assert mistyped.exit_code == 2
    assert "did you mean JobStart?" in mistyped.stderr


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


def test_lo_and_hi_are_attributes_beside_t(tmp_path: Path) -> None:
    rows = [{"type": "A", "t": 1, "lo": 5, "hi": 3}]
    query = "PATTERN SEQ(A a) WHERE skip_till_any_match { a.lo > a.hi } WITHIN 9"
    assert len(rows_of(match(tmp_path, json_lines(rows), query))) == 1


def test_rows_of_points_and_intervals_mix(tmp_path: Path) -> None:
    rows = [{"id": "a", "type": "A", "t": 1}, {"id": "b", "type": "B", "t_lo": 1, "t_hi": 2}]
    query = "PATTERN SEQ(A a, B b) WHERE skip_till_any_match WITHIN 9"
    (row,) = rows_of(match(tmp_path, csv_text(rows), query))
    assert row["confidence"] == 0.5


CONTRADICTION = "PATTERN SEQ(A a, B b) WHERE skip_till_any_match { a.v > 5 AND a.v < 3 } WITHIN 9"


@pytest.mark.parametrize("command", ["match", "explain"])
def test_predicates_that_no_match_can_satisfy_are_told(command: str, tmp_path: Path) -> None:
    (tmp_path / "q.cep").write_text(CONTRADICTION)
    (tmp_path / "events").write_text(json_lines([{"type": "A", "t": 1, "v": 5}, {"type": "B", "t": 2, "v": 5}]))
    result = run(command, str(tmp_path / "q.cep"), str(tmp_path / "events"))
    assert result.exit_code == (1 if command == "match" else 0)
    assert "q.cep:1:63: no match can satisfy a.v > 5 and a.v < 3 together" in result.stderr
    assert "warning" not in result.stdout


def test_types_that_only_open_windows_need_no_event(tmp_path: Path) -> None:
    query = "PATTERN SEQ(A a) WHERE skip_till_any_match WITHIN 9 OPEN ON type = 'Never' AND level > 3"
    result = match(tmp_path, json_lines(ROWS), query, ["--runtime", "oracle"])
    assert result.exit_code == 1
    assert "no event has the type 'Never'" in result.stderr


def test_explain(tmp_path: Path) -> None:
    (tmp_path / "q.cep").write_text(QUERY)
    (tmp_path / "events").write_text(json_lines(ROWS))
    result = run("explain", str(tmp_path / "q.cep"), str(tmp_path / "events"))
    assert result.exit_code == 0
    assert "skip_till_any_match" in result.stdout
    graph = run("explain", str(tmp_path / "q.cep"), str(tmp_path / "events"), "--dot")
    assert graph.stdout.startswith("digraph ")
    (tmp_path / "bad.cep").write_text("PATTERN")
    bad = run("explain", str(tmp_path / "bad.cep"))
    assert bad.exit_code == 2
    assert "bad.cep:1:8" in bad.stderr


def test_explain_tells_programs_the_same(tmp_path: Path) -> None:
    (tmp_path / "two-bs.cep").write_text(
        "PATTERN SEQ(B b, C+ c[]) WHERE skip_till_next_match { c[i].x > :least AND b.x > 3 } WITHIN 5 "
        "PARAMETERS least = 2 RETURN b.x AS r"
    )
    (tmp_path / "q.cep").write_text("PATTERN SEQ(two_bs t, NOT A n) WHERE skip_till_any_match WITHIN 7 LIMIT 4")
    (tmp_path / "events").write_text(json_lines(ROWS))
    (tmp_path / "config.yaml").write_text("engine: {latency_bound: 500 ms}\n")
    files = [str(tmp_path / "q.cep"), str(tmp_path / "events"), "--with", str(tmp_path / "two-bs.cep")]
    told = run("explain", *files, "--json", "--config", str(tmp_path / "config.yaml"))
    assert told.exit_code == 0, told.output
    used, query = json.loads(told.stdout)
    assert (used["query"], used["uses"], used["parameters"]) == ("two-bs", [], {"least": 2})
    assert (used["strategy"], used["within_ms"], used["output"]) == ("skip_till_next_match", 5, "ALL")
    assert (query["uses"], query["within_ms"], query["limit"], query["latency_bound_ms"]) == (["two-bs"], 7, 4, 500)
    (plan,) = used["plans"]
    assert plan["runtime"] == "runs"
    assert [(one["name"], one["type"], one["kleene"]) for one in plan["variables"]] == [
        ("b", "B", False), ("c", "C", True),
    ]  # fmt: skip
    texts = [(found["edge"], found["text"]) for one in plan["variables"] for found in one["predicates"]]
    assert texts == [("begin", "b.x > 3"), ("begin", "c[i].x > 2"), ("take", "c[i].x > 2")]
    assert [(one["name"], one["type"]) for one in query["plans"][0]["negated"]] == [("n", "A")]
    both = run("explain", *files, "--json", "--dot")
    assert both.exit_code == 2
    assert "--dot and --json are both given" in both.stderr


def test_every_shipped_query_is_explained_to_programs() -> None:
    texts = {path.stem: path.read_text(encoding="utf-8") for path in sorted(Path("queries").glob("*.cep"))}
    compiled = engine.compile_queries(texts, load_event_types())
    assert len(compiled) >= len(texts) > 0
    for query in compiled:
        told = query.facts()
        assert json.loads(json.dumps(told)) == told, query.name
        runtimes = [f"runtime    {RuntimeKind[plan['runtime'].upper()].summary}" for plan in told["plans"]]
        assert [line for line in query.explain().splitlines() if line.startswith("runtime")] == runtimes


def test_explain_tells_what_is_dropped_under_overload(tmp_path: Path) -> None:
    (tmp_path / "q.cep").write_text(QUERY.replace("skip_till_any_match", "skip_till_next_match"))
    (tmp_path / "events").write_text(json_lines(ROWS))
    (tmp_path / "config.yaml").write_text("engine: {latency_bound: 500 ms}\n")
    (tmp_path / "unbounded.yaml").write_text("engine: {threads: 1}\n")
    files = ["explain", str(tmp_path / "q.cep"), str(tmp_path / "events")]
    alone = run(*files).stdout.splitlines()
    assert "overload   drops partial matches" in alone
    assert not [line for line in alone if line.startswith("bound")]
    bounded = run(*files, "--config", str(tmp_path / "config.yaml")).stdout.splitlines()
    assert bounded[-2].startswith("bound      engine.latency_bound 500 ms: ")
    unbounded = run(*files, "--config", str(tmp_path / "unbounded.yaml")).stdout.splitlines()
    assert unbounded[-2].startswith("bound      none")


def test_rows_of_windows_say_which(tmp_path: Path) -> None:
    query = "PATTERN SEQ(A a, B b) WHERE skip_till_any_match { [k] } WITHIN 10 SLIDE 5"
    rows = json_lines([{"id": "a", "type": "A", "t": 3, "k": "p"}, {"id": "b", "type": "B", "t": 7, "k": "p"}])
    result = match(tmp_path, rows, query, ("--runtime", "compiled"))
    bound = {"bindings": {"a": ["a"], "b": ["b"]}, "confidence": 1.0, "values": {}}
    assert rows_of(result) == [{"window_start": 0, "window_end": 10, **bound}]
    table = match(tmp_path, rows, query, ("--runtime", "compiled", "--format", "table"))
    assert "window_start" in table.stdout
    assert "10" in table.stdout


def test_a_query_over_the_matches_of_another(tmp_path: Path) -> None:
    other = tmp_path / "two-bs.cep"
    other.write_text("PATTERN SEQ(B b, B c) WHERE skip_till_any_match { [k] } WITHIN 100 RETURN c.x - b.x AS rise")
    rows = [{"id": f"b{x}", "type": "B", "t": x, "k": "p", "x": x * x} for x in (1, 2, 4)]
    query = "PATTERN SEQ(two_bs t) WHERE skip_till_any_match { t.rise > 9 } WITHIN 0 RETURN t.rise, t.k"
    result = match(tmp_path, json_lines(rows), query, ("--runtime", "auto", "--with", str(other)))
    assert sorted(row["values"]["rise"] for row in rows_of(result)) == [12, 15]
    assert all(row["values"]["k"] == "p" for row in rows_of(result))


def test_the_oracle_and_the_engine_name_matches_of_other_queries_alike(tmp_path: Path) -> None:
    other = tmp_path / "two-bs.cep"
    other.write_text("PATTERN SEQ(B b, B c) WHERE skip_till_next_match { [k] } WITHIN 100 RETURN c.x - b.x AS rise")
    rows = [{"id": f"b{x}", "type": "B", "t": x, "k": "p", "x": x * x} for x in (1, 2, 4, 5)]
    query = "PATTERN SEQ(two_bs t, B b) WHERE skip_till_next_match { [k] AND t.rise > 3 } WITHIN 9 RETURN t.rise, b.k"
    by_oracle = match(tmp_path, json_lines(rows), query, ("--with", str(other)))
    compiled = match(tmp_path, json_lines(rows), query, ("--with", str(other), "--runtime", "compiled"))
    assert rows_of(by_oracle) == rows_of(compiled)
    assert [row["values"] for row in rows_of(by_oracle)] == [{"rise": 12, "k": "p"}]


def test_explain_tells_of_the_queries_that_are_used(tmp_path: Path) -> None:
    (tmp_path / "two-bs.cep").write_text(
        "PATTERN SEQ(B b, B c) WHERE skip_till_any_match WITHIN 5 RETURN c.x - b.x AS r"
    )
    (tmp_path / "q.cep").write_text(
        "PATTERN SEQ(two_bs t) WHERE skip_till_any_match { t.r > 9 } WITHIN 0 CERTAIN_ABOVE 0.5"
    )
    (tmp_path / "events").write_text(json_lines(ROWS))
    files = [str(tmp_path / "q.cep"), str(tmp_path / "events"), "--with", str(tmp_path / "two-bs.cep")]
    told = run("explain", *files).stdout
    assert [line for line in told.splitlines() if line.startswith(("query", "matches"))] == [
        "query      two-bs",
        f"query      {tmp_path / 'q.cep'}",
        "matches    of two-bs: those of confidence 0.5 or more",
    ]
    assert run("explain", *files, "--dot").stdout.count("digraph ") == 2


@pytest.mark.parametrize("runtime", ["oracle", "compiled"])
def test_an_aggregate_of_an_installed_module(runtime: str, tmp_path: Path) -> None:
    query = "PATTERN SEQ(B+ b[]) WHERE strict_contiguity WITHIN 9 HAVING median(b[].x) > 4 RETURN median(b[].x) AS m"
    result = match(tmp_path, json_lines(ROWS), query, ("--runtime", runtime, "--aggregate", "statistics:median"))
    assert sorted(row["values"]["m"] for row in rows_of(result)) == [4.5, 5.0]
    told = run("explain", str(tmp_path / "q.cep"), str(tmp_path / "events"), "--aggregate", "statistics:median").stdout
    assert "having   median(b[].x) > 4" in told
    assert "return   median(b[].x)" in told
    refused = match(tmp_path, json_lines(ROWS), query, ("--aggregate", "no_such_module:median"))
    assert refused.exit_code == 2
    assert "--aggregate: found 'no_such_module:median'" in refused.stderr


def test_pandas_is_loaded_for_functions_of_others_alone(tmp_path: Path) -> None:
    (tmp_path / "own_functions.py").write_text(
        "import pandas\ndef spread(values): return values.max() - values.min()\n"
    )
    query = "PATTERN SEQ(A a, B+ b[]) WHERE skip_till_any_match WITHIN 100 RETURN {}(b[].x) AS it"
    (tmp_path / "q.cep").write_text(query.format("max"))
    (tmp_path / "own.cep").write_text(query.format("spread"))
    (tmp_path / "events").write_text(json_lines(ROWS))
    script = "import sys; from app.cli import main\ntry: main()\nexcept SystemExit: print('pandas' in sys.modules)"
    for words, is_loaded in ((["q.cep"], "False"), (["own.cep", "--aggregate", "own_functions:spread"], "True")):
        told = subprocess.run(
            [sys.executable, "-c", script, "match", words[0], "events", *words[1:]],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": f"{tmp_path}:{Path(__file__).parents[4]}"},
            capture_output=True,
            text=True,
            check=True,
        )
        *rows, last = told.stdout.splitlines()
        assert (len(rows), last) == (3, is_loaded)


TRENDS = """
PATTERN SEQ(A, B+) WHERE [k] AND B.x < NEXT(B).x GROUP BY k WITHIN 10 SLIDE 10 RETURN COUNT(*), SUM(B.x)
"""


def test_rows_about_trends(tmp_path: Path) -> None:
    query, events = tmp_path / "q.cep", tmp_path / "events"
    query.write_text(TRENDS)
    rows = [*ROWS, {"id": "b3", "type": "B", "t": 4, "k": "p", "x": 7}]
    events.write_text("\n".join(map(json.dumps, rows)))
    printed = {"window_start": 0, "window_end": 10, "group": {"k": "p"}, "values": {"count": 3, "sum_x": 22}}
    for runtime in ("auto", "oracle"):
        result = run("match", str(query), str(events), "--runtime", runtime)
        assert [json.loads(line) for line in result.stdout.splitlines()] == [printed]
    table = run("match", str(query), str(events), "--format", "table").stdout
    assert all(word in table for word in ("window_start", "k", "count", "sum_x", "22"))
    out = tmp_path / "rows.parquet"
    assert run("match", str(query), str(events), "--format", "parquet", "--out", str(out)).exit_code == 0
    assert pq.read_table(out).to_pylist() == [
        {
            "window_start_ms": 0,
            "window_end_ms": 10,
            "group": {"k": "p"},
            "values": {"count": {"decimal": "3", "value": 3.0}, "sum_x": {"decimal": "22", "value": 22.0}},
            "exact": True,
            "expected": None,
        }
    ]
    assert "an index of prefix aggregates" in run("explain", str(query), str(events)).stdout


def test_numbers_of_trends_are_written_whole(tmp_path: Path) -> None:
    """2^2000 - 1 trends: no double holds that."""
    query, events, out = tmp_path / "q.cep", tmp_path / "events", tmp_path / "rows.parquet"
    query.write_text("PATTERN A+ WITHIN 2000 SLIDE 2000 RETURN COUNT(*), MAX(A.x)")
    events.write_text("\n".join(json.dumps({"type": "A", "t": n + 1, "x": n}) for n in range(2000)))
    (line,) = run("match", str(query), str(events)).stdout.splitlines()
    assert json.loads(line)["exact"] is False
    assert json.loads(line)["values"]["count"].startswith("1.14813069527425")
    assert json.loads(line)["values"]["count"].endswith("e+602")
    run("match", str(query), str(events), "--format", "parquet", "--out", str(out))
    (row,) = pq.read_table(out).to_pylist()
    assert row["values"]["count"]["value"] is None
    assert row["values"]["count"]["decimal"] == json.loads(line)["values"]["count"]
    assert row["values"]["max_x"] == 1999
    assert "(rounded)" in run("match", str(query), str(events), "--format", "table").stdout


def test_trends_of_intervals_are_expected_values(tmp_path: Path) -> None:
    query, events, out = tmp_path / "q.cep", tmp_path / "events", tmp_path / "rows.parquet"
    query.write_text("PATTERN A+ WITHIN 10 SLIDE 10 RETURN COUNT(*), AVG(A.x)")
    events.write_text("\n".join(json.dumps({"type": "A", "t_lo": 1, "t_hi": 4, "x": x}) for x in (1, 2)))
    printed = {"window_start": 0, "window_end": 10, "group": {}, "values": {"count": 2.75, "avg_x": 1.5}}
    for runtime in ("auto", "oracle"):
        result = run("match", str(query), str(events), "--runtime", runtime)
        assert json.loads(result.stdout) == {**printed, "expected": "expected"}
    assert "(expected)" in run("match", str(query), str(events), "--format", "table").stdout
    assert run("match", str(query), str(events), "--format", "parquet", "--out", str(out)).exit_code == 0
    (row,) = pq.read_table(out).to_pylist()
    assert (row["values"]["count"]["value"], row["expected"], row["exact"]) == (2.75, "expected", False)


@pytest.mark.parametrize(
    ("pattern", "more", "told"),
    [
        ("SEQ(A, NOT B, A a2)", {}, "NOT in an aggregate over trends is not defined over imprecise events; found 2"),
        ("A+", {"skew_ms": 1}, "an aggregate over trends is not defined over imprecise events; found 2"),
        ("A+", {"clock_id": "k"}, "an aggregate over trends is not defined over imprecise events; found 1"),
    ],
)
def test_times_that_trends_cannot_have(tmp_path: Path, pattern: str, more: dict[str, Any], told: str) -> None:
    query, events = tmp_path / "q.cep", tmp_path / "events"
    query.write_text(f"PATTERN {pattern} WITHIN 10 SLIDE 10 RETURN COUNT(*)")
    rows = [{"type": "A", "t_lo": 1, "t_hi": 4, **more}, {"type": "A", "t_lo": 2, "t_hi": 5, **more}]
    events.write_text("\n".join(map(json.dumps, [*rows, {"type": "B", "t": 9}])))
    result = run("match", str(query), str(events))
    assert result.exit_code == 2
    assert told in result.stderr
