"""`clustercep match`: what it reads and prints."""

from __future__ import annotations

import csv
import io
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

import engine
from engine import Limits
from tests.app.commands.match.commands import MATCH, QUERY, ROWS, json_lines, match, rows_of, run


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


def test_lo_and_hi_are_attributes_beside_t(tmp_path: Path) -> None:
    rows = [{"type": "A", "t": 1, "lo": 5, "hi": 3}]
    query = "PATTERN SEQ(A a) WHERE skip_till_any_match { a.lo > a.hi } WITHIN 9"
    assert len(rows_of(match(tmp_path, json_lines(rows), query))) == 1


def test_rows_of_points_and_intervals_mix(tmp_path: Path) -> None:
    rows = [{"id": "a", "type": "A", "t": 1}, {"id": "b", "type": "B", "t_lo": 1, "t_hi": 2}]
    query = "PATTERN SEQ(A a, B b) WHERE skip_till_any_match WITHIN 9"
    (row,) = rows_of(match(tmp_path, csv_text(rows), query))
    assert row["confidence"] == 0.5


def test_types_that_only_open_windows_need_no_event(tmp_path: Path) -> None:
    query = "PATTERN SEQ(A a) WHERE skip_till_any_match WITHIN 9 OPEN ON type = 'Never' AND level > 3"
    result = match(tmp_path, json_lines(ROWS), query, ["--runtime", "oracle"])
    assert result.exit_code == 1
    assert "no event has the type 'Never'" in result.stderr


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
