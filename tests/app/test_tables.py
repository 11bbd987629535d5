"""Tables of 80 columns with long names of hosts, jobs and users: nothing is wider, figures stay whole."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

import engine
from app.alerting.recording.recorder import Recorder
from app.commands import routes
from app.commands.alerts import listing as alerts
from app.commands.alerts import operations as alerts_operations
from app.commands.match import output as match_output
from app.heuristics.printing import print_judgement
from app.heuristics.severity import Finding, Severity
from app.replay.demo_report import print_summary
from app.reports.printing import print_report
from app.reports.tables import LIFE_TIMES, QUEUING, REPORTS, STRAGGLERS
from app.store import open_store
from app.tables import Column, Fit, number, print_table
from tests.app.alerting_fixtures import FakeMatch, kept, options, receiver
from tests.app.process.test_runner import write_settings
from tests.app.test_cli import alerts_of, invoke
from tests.dashboard.report_fixtures import REPORT_ROWS, straggler
from tests.terminals import ATTEMPT, LONG_HOST, LONG_JOB, LONG_USER, WIDTH, fitting, lines_of, pipe, terminal

NAMES = ("host", "wrapped", "figure", "spare")
COLUMNS = (Column("host"), Column("what is wrapped", Fit.WRAP, 12), number("figure"), number("spare", spare=1))

ROWS = st.lists(
    st.tuples(
        st.text(st.characters(categories=["Lu", "Ll", "Nd", "Lo"]), min_size=1, max_size=60),
        st.text("abcdefgh ", min_size=1, max_size=200),
        st.integers(0, 10**9).map("{:,}".format),
        st.integers(0, 10**9).map("{:,}".format),
    ),
    min_size=1,
    max_size=5,
)


@given(ROWS, st.integers(40, 200))
def test_a_table_is_never_wider_and_its_figures_are_whole(rows: list[tuple[str, ...]], width: int) -> None:
    console = terminal(width)
    print_table(console, COLUMNS, rows, title="of all")
    lines = lines_of(console)
    assert max(map(cell_len, lines)) <= width
    assert all(any(row[2] in line.split() for line in lines) for row in rows)
    table, said, told = " ".join(lines).partition("For this width")
    assert ("spare" in table.split()) != ("without spare" in " ".join(told.split()))
    assert bool(said) or all(row[3] in table.split() for row in rows)


@given(ROWS)
def test_what_is_piped_has_all(rows: list[tuple[str, ...]]) -> None:
    console = pipe()
    print_table(console, COLUMNS, rows)
    text = "\n".join(lines_of(console))
    assert all(row[place] in text for row in rows for place in (0, 2, 3))
    assert "…" not in text
    assert "For this width" not in text


def test_names_are_no_markup_and_no_control_characters() -> None:
    console = terminal()
    print_table(console, (Column("[red]name"),), [("[bold]\x1b[2J",)], title="[blink]")
    assert [line.strip("┃┏┓┡┩│└┘━─ ") for line in lines_of(console)] == [
        "[blink]", "", "[red]name", "", "[bold]\\x1b[2J", "",
    ]  # fmt: skip


def test_rows_of_a_terminal_are_lines() -> None:
    console = terminal()
    print_table(console, COLUMNS[:1] + COLUMNS[2:], [(LONG_HOST * 2, "1", "2")] * 3)
    lines = fitting(console)
    assert sum("…" in line for line in lines) == 3
    assert lines[-1] == "For this width long texts are cut off. What is piped has all."


@pytest.mark.parametrize("name", [STRAGGLERS, LIFE_TIMES, QUEUING])
def test_reports(name: str) -> None:
    long = {
        "host": LONG_HOST, "job_name": LONG_JOB, "attempt_id": ATTEMPT, "job_id": "job_1700000000000_0123456",
        "user": LONG_USER, "period_ms": 3_723_000, "mean_ms": 3_723_000, "max_ms": 993_723_000, "n_attempts": 1_234_567,
    }  # fmt: skip
    given: dict[str, list[dict[str, Any]]] = {**REPORT_ROWS[name]}
    if name == STRAGGLERS:
        given["attempts"] = [straggler(n) for n in range(3)]
    rows = {
        table: [{**row, **{key: value for key, value in long.items() if key in row}} for row in found]
        for table, found in given.items()
    }
    tables = {
        table: pa.table({column: [row.get(column) for row in rows[table]] for column in schema.names}, schema)
        for table, schema in REPORTS[name].items()
    }
    console, piped = terminal(), pipe()
    print_report(console, name, tables, 10)
    shown = "\n".join(fitting(console))
    figures = {STRAGGLERS: ("1 h 2 min", "without attempt"), LIFE_TIMES: ("11 d 12 h",), QUEUING: ("5.0 MiB",)}[name]
    assert all(text in shown for text in figures)
    print_report(piped, name, tables, 10)
    told = "\n".join(lines_of(piped))
    wanted = {STRAGGLERS: (LONG_HOST, ATTEMPT), LIFE_TIMES: (LONG_USER,), QUEUING: (LONG_USER,)}[name]
    assert all(text in told for text in wanted)


def test_a_judged_job() -> None:
    from app.heuristics.printing import _print_findings

    finding = Finding("mapper-memory", Severity.SEVERE, 12_345, 1_000, tasks=(ATTEMPT,) * 3, note=f"{LONG_JOB} " * 3)
    console = terminal()
    _print_findings(console, "heuristics", [finding] * 2)
    lines = fitting(console)
    assert sum("severe" in line for line in lines) == 2
    assert print_judgement


def alert() -> dict[str, Any]:
    summary = f"attempt {ATTEMPT} of {LONG_JOB} is slow"
    return {"hosts": [LONG_HOST], "summary": summary, "began": 0, "raised": 60_000, "last_seen": 120_000}


def test_the_demos_summary(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.replay.demo_report._clock", lambda _: "12:34:56")
    row = {"from": "a", "to": "b", "fault": "slow disk of a node", "job_id": None, "query": "reducer-straggler-running"}
    truth = {
        "found": [{**row, "alert": alert()}], "missed": [{**row, "query": "mapper-straggler-running"}],
        "secondary": [{"alert": {**alert(), "query": "reducer-straggler-running"}}],
        "unexplained": [], "false_alarms": [{**alert(), "query": "several-signals-host"}],
    }  # fmt: skip
    counts = {"reducer-straggler-running": 1_234_567}
    summary = {
        "events": {"AttemptCounters": 1_234_567}, "events_in_histories": {}, "matches": counts,
        "matches_in_histories": counts, "alerts": counts, "reports": counts, "ground_truth": truth,
        "incidents": [{"query": "several-signals-host", "host": LONG_HOST, "alerts": [1] * 12, "summary": LONG_JOB}],
        "notifications": {}, "duplicates": 0, "late": 0, "problems": {}, "seconds": 1, "peak_memory_bytes": 1,
    }  # fmt: skip
    console = terminal()
    print_summary(console, summary)
    lines = fitting(console)
    assert any("MISSED" in line for line in lines)
    assert sum("1,234,567" in line for line in lines) == 3


def test_matches(monkeypatch: pytest.MonkeyPatch) -> None:
    console = terminal()
    monkeypatch.setattr("rich.console.Console", lambda **_: console)
    values = {"host": LONG_HOST, "job_name": LONG_JOB, "user": LONG_USER, "period_ms": 3_723_000, "n": 12}
    bound = {"a": (ATTEMPT,), "b": tuple(f"event-{n}" for n in range(40))}
    row = engine.MatchRow("q", (), 0, 9, bound, 0.25, values)
    match_output.print_table([row] * 2)
    lines = fitting(console)
    assert sum("1 h 2 min" in line for line in lines) == 2


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A store with an open alert and one that is over, of long names, and a routing tree."""
    write_settings(tmp_path)
    with open_store(f"sqlite:///{tmp_path / 'store/clustercep.db'}") as store, store.transaction() as writer:
        tasks = [(f"task_1700000000000_0123456_m_00000{n}", LONG_HOST, 1_000 * n) for n in range(1, 4)]
        Recorder(options(ops=receiver()), writer, kept, 10_000).live(
            [FakeMatch(t, t + 1_000, key=(("task_id", i),), values={"host": host}) for i, host, t in tasks], 2_000
        )
    path = tmp_path / "config.yaml"
    route = {
        "receiver": "ops",
        "group_by": ["alertname", "application", "queue", "user"],
        "routes": [{"matchers": [f'host=~"({LONG_HOST}|{LONG_HOST[::-1]})"', f'user="{LONG_USER}"'], "continue": True}],
    }
    receivers = {"ops": {"url": "http://127.0.0.1:9/x"}}
    path.write_text(path.read_text() + "alerting: " + json.dumps({"receivers": receivers, "route": route}) + "\n")
    return path


@pytest.mark.parametrize(
    "words",
    [
        ("alerts", "list"),
        ("alerts", "show", "ID"),
        ("alerts", "silence", f'host="{LONG_HOST}"', "--preview"),
        ("alerts", "silences"),
        ("routes", "show"),
    ],
    ids=" ".join,
)
def test_commands(words: tuple[str, ...], config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    invoke("alerts", "silence", f'host="{LONG_HOST}"', "--note", LONG_JOB, "-c", config)
    ids = [str(found["id"]) for found in alerts_of(config)]
    consoles: list[Console] = []

    def opened(**_: object) -> Console:
        consoles.append(terminal(WIDTH))
        return consoles[-1]

    for module in (alerts, alerts_operations, routes):
        monkeypatch.setattr(module, "table_console", opened)
    result = invoke(*(ids[0] if word == "ID" else word for word in words), "-c", config)
    assert result.exit_code == 0, result.output
    (console,) = consoles
    assert max(map(cell_len, lines_of(console))) <= WIDTH
    if words[1] != "show" or words[0] == "alerts":
        fitting(console)
