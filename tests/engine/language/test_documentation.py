"""Every example of docs/query-language.md is a query; those with events have the matches that stand below them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from typer.testing import CliRunner

from app.commands.match.match import app
from engine.errors import QueryError
from engine.events import AttributeType, EventSchema
from engine.language.parser import parse
from engine.language.printer import print_query
from engine.language.resolver import resolve

PAGE = (Path(__file__).parents[3] / "docs" / "query-language.md").read_text(encoding="utf-8")


class Example(NamedTuple):
    """A query, its events and its matches as the page shows them; `others` are the files it uses, each in a block."""

    others: str
    query: str
    events: str
    matches: str


EXAMPLES = [
    Example(*found)
    for found in re.findall(
        r"((?:^```cep \S+\n(?:(?!```)[^\n]*\n)*```\n)*)"
        r"^```cep\n(.*?)^```\n^```events\n(.*?)^```\n^```matches\n(.*?)^```",
        PAGE,
        re.DOTALL | re.MULTILINE,
    )
]
CONSTRUCTS = {
    "single component": r"Balance a, Imbalance b\)",
    "kleene plus": r"\+ b\[\]",
    "negation at the start": r"SEQ\(!",
    "negation in the middle": r", !\w+ \w+, ",
    "negation at the end": r", !\w+ \w+\)",
    "negated pattern": r"!SEQ",
    "or": r"\w OR \w",
    "optional": r"\? *[,)]|m\?",
    "star": r"\w\* b",
    "bounded": r"\{2,3\}",
    "and": r"AND\(",
    "any": r"ANY\(",
    "repeated group": r"\(SEQ\(.*\)\)\+",
    "strict contiguity": r"strict_contiguity",
    "partition contiguity": r"partition_contiguity",
    "skip till next match": r"skip_till_next_match",
    "skip till any match": r"skip_till_any_match",
    "equivalence": r"\[task_id\]",
    "equivalence of one variable": r"\[b\.source_host\]",
    "membership": r" IN \(",
    "arithmetic": r"% 1000",
    "time": r"b\.timestamp",
    "each": r"b\[i\]",
    "previous": r"b\[i-1\]",
    "first and last": r"b\[b\.len\]\.val >= b\[1\]\.val",
    "aggregate": r"stddev\(b\[\]",
    "values that repeat": r"repeats\(",
    "aggregate but the last": r"\.len-1\]",
    "running aggregate": r"\[\.\.i-1\]",
    "window of time": r"WITHIN +5 seconds",
    "window of events": r"EVENTS",
    "slide": r"SLIDE",
    "open on": r"OPEN ON",
    "sets": r"SETS",
    "collapsed": r"COLLAPSED",
    "count": r"OUTPUT +COUNT",
    "non-overlapping": r"NON_OVERLAPPING",
    "top": r"TOP 1 BY",
    "limit": r"LIMIT",
    "having": r"HAVING",
    "select first": r"SELECT +FIRST",
    "consume": r"CONSUME",
    "weight": r"WEIGHT",
    "confidence": r"CONFIDENCE >=",
    "ties": r"TIES +STRICT",
    "return": r"RETURN +a\.\(",
    "parameters": r"PARAMETERS",
    "queries on queries": r"failed_jobs",
    "certain above": r"CERTAIN_ABOVE",
    "alert": r"ALERT",
    "report": r"REPORT",
    "group gap": r"GROUP_GAP",
    "show": r"SHOW +MAX \w+ WITH",
    "hosts": r"HOSTS +SUSPECT \w+ \(\w+\), AFFECTED",
    "onset": r"ONSET",
    "format": r"\{\w+:size\}",
    "aspect": r"\{\w+\.last:size\}",
}


def _rows(lines: str) -> list[dict[str, Any]]:
    """Rows in an order of their own, with what the page leaves out."""
    rows = [{"confidence": 1.0, "values": {}, **json.loads(line)} for line in lines.splitlines()]
    return sorted(rows, key=lambda row: json.dumps(row, sort_keys=True))


@pytest.mark.parametrize("construct", CONSTRUCTS)
def test_every_construct_has_an_example_with_events(construct: str) -> None:
    assert any(re.search(CONSTRUCTS[construct], example.query) for example in EXAMPLES)


def test_no_example_is_without_events() -> None:
    assert PAGE.count("```cep\n") == len(EXAMPLES)
    assert all(example.matches for example in EXAMPLES)


@pytest.mark.parametrize("runtime", ["oracle", "auto"])
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.query.splitlines()[0])
def test_example_has_the_matches_shown(example: Example, runtime: str, tmp_path: Path) -> None:
    if example.others and runtime == "oracle":  # it evaluates one query alone
        runtime = "compiled"
    (tmp_path / "q.cep").write_text(example.query, encoding="utf-8")
    (tmp_path / "events").write_text(example.events, encoding="utf-8")
    words = ["match", str(tmp_path / "q.cep"), str(tmp_path / "events"), "--runtime", runtime]
    for name, text in re.findall(r"^```cep (\S+)\n(.*?)^```", example.others, re.DOTALL | re.MULTILINE):
        (tmp_path / name).write_text(text, encoding="utf-8")
        words += ["--with", str(tmp_path / name)]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.stderr
    assert "by the oracle instead" not in result.stderr
    assert _rows(result.stdout) == _rows(example.matches)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.query.splitlines()[0])
def test_example_survives_printing(example: Example) -> None:
    query = parse(example.query)
    assert parse(print_query(query)) == query


def test_the_program_shown_runs(tmp_path: Path) -> None:
    (program,) = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    (tmp_path / "program.py").write_text(program, encoding="utf-8")
    # In a process of its own: what it registers would stay for all other tests.
    words = [sys.executable, "-c", "import runpy, sys; sys.exit(not runpy.run_path(sys.argv[1])['rows'])"]
    subprocess.run([*words, str(tmp_path / "program.py")], cwd=Path(__file__).parents[3], check=True)


def test_the_error_shown_is_the_error_printed() -> None:
    string, whole = AttributeType.STRING, AttributeType.INT
    schema = EventSchema.of({"Mapper": {"job_id": string, "task_id": string, "period_ms": whole}})
    text = "PATTERN Mapper+ b[]\nWHERE skip_till_any_match { b[i].perod_ms > 5 }\nWITHIN 1 hour\n"
    with pytest.raises(QueryError) as caught:
        resolve(parse(text), schema, text=text, name="tasks.cep")
    shown = re.search(r"^```text\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    assert shown is not None
    assert str(caught.value) == shown[1].rstrip("\n")
