"""`clustercep explain`: what it tells of a query."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import engine
from collectors.schema import load_event_types
from engine.plan.evaluation import RuntimeKind
from tests.app.commands.match.commands import QUERY, ROWS, json_lines, run

CONTRADICTION = "PATTERN SEQ(A a, B b) WHERE skip_till_any_match { a.v > 5 AND a.v < 3 } WITHIN 9"


@pytest.mark.parametrize("command", ["match", "explain"])
def test_predicates_that_no_match_can_satisfy_are_told(command: str, tmp_path: Path) -> None:
    (tmp_path / "q.cep").write_text(CONTRADICTION)
    (tmp_path / "events").write_text(json_lines([{"type": "A", "t": 1, "v": 5}, {"type": "B", "t": 2, "v": 5}]))
    result = run(command, str(tmp_path / "q.cep"), str(tmp_path / "events"))
    assert result.exit_code == (1 if command == "match" else 0)
    assert "q.cep:1:63: no match can satisfy a.v > 5 and a.v < 3 together" in result.stderr
    assert "warning" not in result.stdout


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
