"""`clustercep match --format parquet|arrow`: the rows that are printed as JSON, in files of one schema."""

from __future__ import annotations

import errno
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import Result
from typer.testing import CliRunner

from app.commands.match import files as match_files
from app.commands.match.match import app

EVENTS = """\
{"type": "A", "t": 1, "k": "p", "x": 1}
{"type": "B", "t": 2, "k": "p", "x": 5}
{"type": "B", "t": 3, "k": "p", "x": 2.5}
{"type": "C", "t": 4, "k": "p", "x": null}
{"type": "A", "t_lo": 20, "t_hi": 24, "k": "q", "x": 3}
{"type": "B", "t_lo": 22, "t_hi": 26, "k": "q", "x": 1}
{"type": "C", "t": 25, "k": "q", "x": 7}
"""
ANY = "WHERE skip_till_any_match { [k] } WITHIN 10 ms"
QUERIES = {
    "listed": f"PATTERN SEQ(A a, B+ b[], C c) {ANY} RETURN a.k AS who, count(b[]) AS n, max(b[].x) AS most, c.x AS x",
    "collapsed": f"PATTERN SEQ(A a, B+ b[], C c) {ANY} OUTPUT COLLAPSED",
    "counted": f"PATTERN SEQ(A a, B+ b[]) {ANY} OUTPUT COUNT",
    "groups": f"PATTERN (SEQ(A a, B+ b[], C? c))+ {ANY}",
    "either": f"PATTERN SEQ(A a, OR(B b, C c)) {ANY} RETURN a.x AS x",
    "windows": f"PATTERN SEQ(A a, B b) {ANY} SLIDE 5 ms",
    "limited": f"PATTERN SEQ(A a, B b) {ANY} LIMIT 1",
    "no key": "PATTERN SEQ(A a, B b) WHERE skip_till_any_match WITHIN 10 ms",
    "nothing": "PATTERN SEQ(C c, A a) WHERE skip_till_any_match WITHIN 1 ms",
}


@pytest.fixture
def events(tmp_path: Path) -> str:
    path = tmp_path / "events.jsonl"
    path.write_text(EVENTS)
    return str(path)


def run(tmp_path: Path, text: str, events: str, *words: str) -> Result:
    query = tmp_path / "query.cep"
    query.write_text(text)
    return CliRunner().invoke(app, ["match", str(query), events, *words])


def printed(row: dict[str, Any]) -> dict[str, Any]:
    """A row of a file as it is printed as JSON."""

    def nested(ids: Any) -> Any:
        return [] if ids is None else [nested(each) for each in ids] if isinstance(ids, list) else ids

    def bound(of: dict[str, Any]) -> dict[str, Any]:
        return {name: nested(ids) for name, ids in of.items() if ids is not None}

    found = {"bindings": bound(row["bindings"]), "confidence": row["confidence"], "values": row.get("values", {})}
    if row.get("window_start_ms") is not None:
        found |= {"window_start": row["window_start_ms"], "window_end": row["window_end_ms"]}
    if row.get("candidates") is not None:
        found |= {"candidates": bound(row["candidates"]), "exact": row["exact"]}
    if row.get("count", 1) != 1 or not row.get("count_exact", True) or row.get("candidates") is not None:
        found |= {"count": row["count"], "count_exact": row["count_exact"]}
    for name in ("at_least_one_low", "at_least_one_high"):
        found |= {name: row[name]} if row.get(name) is not None else {}
    return found | ({"capped": True} if row["capped"] else {})


@pytest.mark.parametrize("runtime", ["auto", "oracle", "automaton"])
@pytest.mark.parametrize("name", QUERIES)
def test_files_have_what_is_printed(tmp_path: Path, events: str, name: str, runtime: str) -> None:
    text = QUERIES[name]
    if runtime == "automaton" and "WITHIN" not in text:
        return
    lines = run(tmp_path, text, events, "--runtime", runtime)
    rows = [json.loads(line) for line in lines.stdout.splitlines()]
    parquet, arrow = tmp_path / "rows.parquet", tmp_path / "rows.arrows"
    for form, out in (("parquet", parquet), ("arrow", arrow)):
        told = run(tmp_path, text, events, "--runtime", runtime, "--format", form, "--out", str(out))
        assert (told.exit_code, told.stdout) == (lines.exit_code, "")
        assert told.stderr == lines.stderr
    tables = pq.read_table(parquet), pa.ipc.open_stream(arrow.read_bytes()).read_all()
    for table in tables:
        assert [printed(row) for row in table.to_pylist()] == rows
    assert tables[0].column_names == tables[1].column_names
    assert [path.name for path in tmp_path.glob(".*")] == []


def test_standard_output_takes_them_as_well(tmp_path: Path, events: str) -> None:
    told = run(tmp_path, QUERIES["listed"], events, "--format", "parquet")
    table = pq.read_table(io.BytesIO(told.stdout_bytes))
    assert table.num_rows == len(run(tmp_path, QUERIES["listed"], events).stdout.splitlines()) > 2
    assert table.column("key").to_pylist()[0] == {"k": "p"}
    assert table.column("first_ms").to_pylist()[0] == 1


def test_no_rows_are_a_file_as_well(tmp_path: Path, events: str) -> None:
    out = tmp_path / "rows.parquet"
    assert run(tmp_path, QUERIES["nothing"], events, "--format", "parquet", "--out", str(out)).exit_code == 1
    table = pq.read_table(out)
    assert table.num_rows == 0
    assert table.schema.field("bindings").type.num_fields == 2


def test_what_cannot_be_written_is_told_and_what_was_there_stays(tmp_path: Path, events: str) -> None:
    text = QUERIES["listed"]
    told = run(tmp_path, text, events, "--out", "rows.jsonl")
    assert (told.exit_code, "--out is for --format parquet or arrow" in told.stderr) == (2, True)
    told = run(tmp_path, text, events, "--format", "arrow", "--out", str(tmp_path / "none" / "rows"))
    assert (told.exit_code, "cannot be written: No such file or directory" in told.stderr) == (2, True)
    out = tmp_path / "rows.parquet"
    out.write_text("before")
    refused = "PATTERN SEQ(A a, B b) WHERE skip_till_next_match WITHIN 10 ms"
    told = run(tmp_path, refused, events, "--format", "parquet", "--out", str(out))
    assert told.exit_code == 2
    assert out.read_text() == "before"
    assert [path.name for path in tmp_path.glob(".*")] == []


def test_a_full_disk_is_told_and_leaves_nothing(tmp_path: Path, events: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    out = tmp_path / "rows.parquet"
    out.write_text("before")
    monkeypatch.setattr(match_files._Sink, "write", full)
    told = run(tmp_path, QUERIES["listed"], events, "--format", "parquet", "--out", str(out))
    assert (told.exit_code, f"--out {out}: cannot be written: No space left" in told.stderr) == (2, True)
    assert out.read_text() == "before"
    assert [path.name for path in tmp_path.glob(".*")] == []


def test_a_folder_in_place_of_a_file_is_told(tmp_path: Path, events: str) -> None:
    told = run(tmp_path, QUERIES["listed"], events, "--format", "arrow", "--out", str(tmp_path))
    assert (told.exit_code, "found a folder, expected the name of a file" in told.stderr) == (2, True)


def test_standard_output_that_takes_nothing_is_told(tmp_path: Path, events: str) -> None:
    (tmp_path / "query.cep").write_text(QUERIES["listed"])
    words = [sys.executable, "-m", "app.cli", "match", str(tmp_path / "query.cep"), events, "--format", "arrow"]
    with Path("/dev/full").open("wb") as full:
        told = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert told.returncode == 2
    assert "standard output: cannot be written: No space left on device" in told.stderr
    assert "Traceback" not in told.stderr
