"""`clustercep match` and `explain` run by tests, with a query and events that match it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from click.testing import Result
from typer.testing import CliRunner

from app.commands.match.match import app

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
