"""Every way to evaluate a query that the conformance cases hold to one answer."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from app.commands.match.match import EXIT_BAD, EXIT_MATCHES, EXIT_NO_MATCH, app

RUNTIMES = ("oracle", "compiled", "auto", "automaton")

Bindings = tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(frozen=True)
class Outcome:
    """What `clustercep match` did: the parsed rows, or the refusal in `message`."""

    exit_code: int
    rows: list[dict[str, Any]] = field(default_factory=list)
    message: str = ""

    @property
    def matches(self) -> dict[Bindings, float]:
        """Bindings by variable -> confidence."""
        found = {bindings_key(row["bindings"]): row["confidence"] for row in self.rows}
        assert len(found) == len(self.rows), "a match was returned twice"
        return found


def bindings_key(bindings: Mapping[str, Sequence[object]]) -> Bindings:
    """Bindings as a value that can be compared and hashed."""
    return tuple(sorted((variable, tuple(map(str, ids))) for variable, ids in bindings.items()))


def write_case(folder: Path, query: str, events: Sequence[Mapping[str, Any]]) -> tuple[str, str]:
    """Query and events as files; their paths."""
    query_file, events_file = folder / "query.cep", folder / "events.jsonl"
    query_file.write_text(query, encoding="utf-8")
    events_file.write_text("".join(json.dumps(event) + "\n" for event in events), encoding="utf-8")
    return str(query_file), str(events_file)


def run_match(query_file: str, events_file: str, runtime: str, *options: str) -> Outcome:
    """`clustercep match` in this process."""
    result = CliRunner().invoke(app, ["match", query_file, events_file, "--runtime", runtime, *options])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return outcome(result.exit_code, result.stdout, result.stderr)


def outcome(exit_code: int, stdout: str, stderr: str) -> Outcome:
    """What a finished command printed; the exit code must agree with it."""
    if exit_code == EXIT_BAD:
        assert not stdout
        return Outcome(exit_code, message=stderr)
    rows = [json.loads(line) for line in stdout.splitlines()]
    assert exit_code == (EXIT_MATCHES if rows else EXIT_NO_MATCH), stderr
    return Outcome(exit_code, rows, stderr)
