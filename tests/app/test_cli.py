"""The command line: exit codes, friendly errors, what is printed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner, Result

from app.alerting.recording.recorder import Recorder
from app.cli import COMMANDS, cli
from app.commands.alerts.group import ALERT_COMMANDS
from app.commands.lazy import LazyCommands
from app.commands.process import read_speed
from app.errors import AppError
from app.store import open_store
from tests.app.alerting_fixtures import FakeMatch, kept, options
from tests.app.process.test_runner import write_settings
from tests.app.recording_fixtures import T0_MS, write_recording


def invoke(*words: str | Path) -> Result:
    result = CliRunner().invoke(cli, [str(word) for word in words])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A configuration with one query."""
    write_settings(tmp_path)
    return tmp_path / "config.yaml"


@pytest.fixture
def filled(config: Path) -> Path:
    """The same, with two alerts in its store."""
    with open_store(f"sqlite:///{config.parent / 'store/clustercep.db'}") as store, store.transaction() as writer:
        recorder = Recorder(options(), writer, kept, 10_000)
        recorder.live(
            [FakeMatch(1_000, 2_000), FakeMatch(5_000, 6_000, values={"task_id": "[red]x", "period_ms": 1})], 3_000
        )
    return config


def alerts_of(config: Path, *words: str) -> list[dict[str, object]]:
    found = json.loads(invoke("alerts", "list", "-c", config, "--format", "json", *words).stdout)
    assert isinstance(found, list)
    return found


def test_help_lists_every_command() -> None:
    text = invoke("--help").stdout
    for name in ("run", "demo", "replay", "check", "test", "match", "explain", "alerts"):
        assert f"  {name} " in text


@pytest.mark.parametrize(("typed", "meant"), [("alerst", "alerts"), ("explian", "explain"), ("dashbord", "dashboard")])
def test_a_mistyped_command_is_told_the_nearest(typed: str, meant: str) -> None:
    result = invoke(typed)
    assert result.exit_code == 2
    assert f"Did you mean '{meant}'" in result.output


@pytest.mark.parametrize(
    ("typed", "completed"), [("clustercep rep", "replay report"), ("clustercep alerts sil", "silence silences")]
)
def test_shells_complete_commands(typed: str, completed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_CLUSTERCEP_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", typed)
    monkeypatch.setenv("COMP_CWORD", str(len(typed.split()) - 1))
    assert CliRunner().invoke(cli, prog_name="clustercep").stdout.split() == completed.split()


def test_check_is_content(config: Path) -> None:
    result = invoke("check", "-c", config)
    assert (result.exit_code, result.stdout) == (0, "Configuration, 1 queries and 0 receivers are fine.\n")


def test_check_warns_of_queries_that_reject_the_events_of_clocks_with_skew(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLUSTERCEP__SOURCES__CLOCK_SKEW__DEFAULT", "5 ms")
    result = invoke("check", "-c", config)
    assert result.exit_code == 0, result.stderr
    assert "warning: sources.clock_skew: events of a clock with a bound" in result.stderr
    assert "skip_till_any_match: pair" in result.stderr


def test_check_warns_of_predicates_that_no_match_can_satisfy(config: Path) -> None:
    (config.parent / "queries/never.cep").write_text(
        "PATTERN SEQ(MapStart a, MapEnd b)\nWHERE skip_till_next_match { b.period_ms < 0 AND b.period_ms > 9 }\n"
        "WITHIN 1 s REPORT 'x'"
    )
    result = invoke("check", "-c", config)
    assert "warning: never:2:50: no match can satisfy b.period_ms < 0 and b.period_ms > 9 together" in result.stderr


def test_check_finds_everything_at_once(config: Path) -> None:
    folder = config.parent
    (folder / "queries/bad.cep").write_text("PATTERN SEQ(Nope a) WITHIN 1 s")
    (folder / "queries/worse.cep").write_text("PATTERN PATTERN")
    (folder / "queries/summary.cep").write_text(
        "PATTERN SEQ(MapStart a, MapEnd b) WHERE skip_till_next_match { [task_id] } WITHIN 1 s ALERT info '{nope}'"
    )
    config.write_text(
        config.read_text()
        + "queries: {disabled: [pear]}\n"
        + "alerting: {receivers: {a: {url_file: none}, b: {url: 'ftp://x/hunter2'}}}\n"
    )
    result = invoke("check", "-c", config)
    assert result.exit_code == 2
    for part in (
        "bad.cep",
        "worse.cep",
        "nope",
        "did you mean 'pair'?",
        "receivers.a.url_file",
        "receivers.b.url",
    ):
        assert part in result.stderr
    assert "hunter2" not in result.stderr


def test_check_looks_at_files_of_certificates(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(
        "sources: {yarn_rest: {enabled: true, ca_file: config.yaml}}\n"
        "alerting: {receivers: {a: {url: 'https://x', ca_file: gone.pem}}}\n"
    )
    result = invoke("check", "-c", tmp_path / "config.yaml")
    assert result.exit_code == 2
    expected = "expected a readable PEM file with the certificates to trust"
    for key, found in (
        ("sources.yarn_rest", f"{tmp_path / 'config.yaml'}, which holds no certificates"),
        ("alerting.receivers.a", f"{tmp_path / 'gone.pem'}: No such file or directory"),
    ):
        assert f"{key}.ca_file: found {found}; {expected}" in result.stderr.replace("\n", " ")


def test_check_of_a_broken_file(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("sources: {yarn_rst: {}}")
    result = invoke("check", "-c", tmp_path / "config.yaml")
    assert result.exit_code == 2
    assert "did you mean 'yarn_rest'?" in result.stderr


@pytest.mark.parametrize(
    "words", [["run"], ["demo"], ["replay", "x"], ["alerts", "list"], ["alerts", "show", "abcd"], ["test"]]
)
def test_a_missing_configuration_is_a_friendly_error(words: list[str], tmp_path: Path) -> None:
    result = invoke(*words, "-c", tmp_path / "none.yaml")
    assert result.exit_code == 2
    assert result.stderr.startswith("clustercep: ")
    assert "Traceback" not in result.stderr


def test_alerts_are_listed(filled: Path) -> None:
    listed = alerts_of(filled)
    assert [(a["state"], a["start"]) for a in listed] == [
        ("firing", "1970-01-01T00:00:05.000Z"),
        ("resolved", "1970-01-01T00:00:01.000Z"),
    ]
    assert len(alerts_of(filled, "--state", "firing")) == 1
    table = invoke("alerts", "list", "-c", filled, "--limit", "1").stdout
    assert "1 of 2 alerts" in table


def test_an_alert_is_shown_with_evidence_and_hostile_text_as_it_is(filled: Path) -> None:
    alert = str(alerts_of(filled)[0]["id"])
    shown = json.loads(invoke("alerts", "show", alert[:8], "-c", filled, "--format", "json").stdout)
    assert [e["id"] for e in shown["evidence"]] == ["e1", "e2", "e3"]
    assert shown["runbook"] == "Look at the task."
    text = invoke("alerts", "show", alert, "-c", filled).stdout
    assert "[red]x took 1" in text
    assert "Look at the task." in text


def test_acknowledge_and_silence(filled: Path) -> None:
    firing, resolved = (str(a["id"]) for a in alerts_of(filled))
    assert invoke("alerts", "ack", firing, "-c", filled, "--note", "on it").exit_code == 0
    assert alerts_of(filled)[0]["state"] == "acknowledged"
    refused = invoke("alerts", "ack", resolved, "-c", filled)
    assert refused.exit_code == 2
    assert "only firing alerts" in refused.stderr
    assert invoke("alerts", "silence", firing, "-c", filled, "--for", "2 h").exit_code == 0
    assert (alerts_of(filled)[0]["state"], alerts_of(filled)[0]["silenced"]) == ("acknowledged", True)
    wrong = invoke("alerts", "silence", firing, "-c", filled, "--for", "ever")
    assert wrong.exit_code == 2
    assert "unit of time" in wrong.stderr


def test_an_unknown_alert(filled: Path) -> None:
    result = invoke("alerts", "show", "ffffffff", "-c", filled)
    assert result.exit_code == 2
    assert "no alert has the id 'ffffffff'" in result.stderr


def test_an_id_that_is_too_short_says_so(filled: Path) -> None:
    alert = str(alerts_of(filled)[0]["id"])
    assert invoke("alerts", "show", alert[:4], "-c", filled).exit_code == 0
    result = invoke("alerts", "show", alert[:3], "-c", filled)
    assert result.exit_code == 2
    assert f"found '{alert[:3]}'; expected the id of an alert, or its first 4 characters" in result.stderr


def test_query_tests(config: Path) -> None:
    failing = invoke("test", config.parent / "queries")
    assert failing.exit_code == 1
    assert "needs a test file" in failing.stdout
    (config.parent / "queries/pair.test.yaml").write_text(
        "cases:\n"
        "  - name: fires\n"
        "    events: [{type: MapStart, t: 1 s, task_id: t}, {type: MapEnd, t: 2 s, task_id: t}]\n"
        "    expect: [{key: {task_id: t}, bindings: {a: [1], b: [2]}}]\n"
        "  - name: silent\n"
        "    events: [{type: MapStart, t: 1 s, task_id: t}]\n"
        "    expect: []\n"
    )
    passing = invoke("test", "-c", config)
    assert passing.exit_code == 0, passing.stdout
    assert "1 of 1 queries pass." in passing.stdout
    assert invoke("test", config.parent / "nowhere").exit_code == 2


def test_replay_of_a_small_recording(config: Path) -> None:
    folder = config.parent
    recording = write_recording(folder / "recording")
    result = invoke("replay", recording, "-c", config, "--into", folder / "out")
    assert result.exit_code == 0, result.stderr
    with open_store(f"sqlite:///{folder / 'out/store/clustercep.db'}") as store:
        polls = {(s.name, s.source): s.value for s in store.statistics() if s.name.endswith("polls")}
        assert polls["polls", "container_log"] == 5
        assert polls["failed_polls", "yarn_rest"] > 0
        assert {p.source for p in store.problems()} >= {"yarn_rest"}
    again = invoke("replay", recording, "-c", config, "--into", folder / "out")
    assert again.exit_code == 2
    assert "not an empty folder" in again.stderr


@pytest.mark.parametrize(("found", "code"), [(True, 0), (False, 1)])
def test_demo_says_by_its_exit_code_whether_all_was_found(config: Path, found: bool, code: int) -> None:
    folder = config.parent
    config.write_text(config.read_text() + "demo: {directory: demo}\n")
    fault = {"fault": "f", "query": "pair", "job_id": "job_1_1", "from_ms": T0_MS, "to_ms": T0_MS + 1}
    recording = write_recording(folder / "recording", ground_truth=[] if found else [fault])
    result = invoke("demo", "-c", config, "--once", "--recording", recording)
    assert result.exit_code == code, result.stderr
    summary = json.loads((folder / "demo-summary.json").read_text())
    assert {"events", "matches", "alerts", "ground_truth", "seconds", "notifications", "problems"} <= set(summary)
    assert len(summary["ground_truth"]["missed"]) == code
    assert ("MISSED" in result.stdout) == bool(code)


def test_speed() -> None:
    assert read_speed("max") == "max"
    assert read_speed("2.5") == 2.5
    for wrong in ("0", "-1", "fast", "nan", "inf"):
        with pytest.raises(AppError, match="--speed"):
            read_speed(wrong)


def test_names_of_keys_and_files_cannot_steer_the_terminal(config: Path) -> None:
    config.write_text('"k\\e[31m": 1')
    hostile = config.parent / "hostile"
    hostile.mkdir()
    (hostile / "x\x1b[31m\udcff.cep").write_text("PATTERN")
    for words in (["check", "-c", str(config)], ["test", str(hostile)], ["test", str(config.parent / "no\x1b[31m")]):
        result = CliRunner().invoke(cli, words, color=True)
        assert "\x1b" not in result.output
        assert "\\x1b[31m" in result.output
        assert isinstance(result.exception, SystemExit)


def test_help_tells_what_each_command_tells_of_itself() -> None:
    group = typer.main.get_command(cli)
    assert isinstance(group, LazyCommands)
    alerts = group.get_command(typer.Context(group), "alerts")
    assert isinstance(alerts, LazyCommands)
    for some, table in ((group, COMMANDS), (alerts, ALERT_COMMANDS)):
        context = typer.Context(some)
        for name, entry in table.items():
            command = some.get_command(context, name)
            assert command is not None
            told = " ".join((command.help or "").split())
            assert told.startswith(entry.help), name
            assert command.name == name
        assert some.get_command(context, "nothing") is None


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("alerts", "list", "--severity", "critcal"), "'critcal' is not one of 'info', 'warning', 'critical'; did you"),
        (("alerts", "list", "--severity", "critcal"), "did you mean 'critical'?"),
        (("match", "q.cep", "e.jsonl", "--format", "xml"), "'xml' is not one of 'jsonl', 'table', 'parquet', 'arrow'"),
        (("alerts", "list", "--limit", "many"), "Invalid value for '--limit': expected a valid integer"),
        (("match", "q.cep", "e.jsonl", "--confidence", "2"), "expected less than or equal to 1"),
        (("report", "--order", "lots"), "did you mean 'lost'?"),
    ],
)
def test_a_wrong_value_of_an_option_is_told_in_plain_words(words: tuple[str, ...], complaint: str) -> None:
    result = invoke(*words)
    assert result.exit_code == 2
    assert complaint in " ".join(result.stderr.split())
    assert "Value error" not in result.output
    assert "Input should" not in result.output


WITHOUT_JSON = {
    *("run", "dashboard", "api", "stream"),  # they run until they are ended, and tell by their log
    *("replay", "demo", "warm"),  # they make files, of which the demo's summary is JSON
}


def test_every_command_that_answers_prints_json() -> None:
    assert {name for name, command in leaves() if not takes(command, "--json")} == WITHOUT_JSON


def leaves() -> Iterator[tuple[str, Any]]:
    """All commands without commands of their own, by what is typed."""
    group = typer.main.get_command(cli)
    assert isinstance(group, typer.core.TyperGroup)
    for name in COMMANDS:
        command: Any = group.get_command(typer.Context(group), name)
        if isinstance(command, typer.core.TyperGroup):
            context = typer.Context(command)
            yield from ((f"{name} {sub}", command.get_command(context, sub)) for sub in command.list_commands(context))
        else:
            yield name, command


def takes(command: Any, option: str) -> bool:
    return any(option in parameter.opts for parameter in command.params)


def test_answers_as_json(filled: Path) -> None:
    def told(*words: str | Path, code: int = 0) -> Any:
        result = invoke(*words, "--json")
        assert result.exit_code == code, result.output
        return json.loads(result.stdout)

    config = ("-c", filled)
    firing, resolved = (str(a["id"]) for a in alerts_of(filled))
    assert told("check", *config) == {"problems": [], "warnings": [], "queries": 1, "receivers": 0, "shared": []}
    (tested,) = told("test", filled.parent / "queries", code=1)
    assert (tested["passed"], tested["cases"]) == (False, [])
    assert "needs a test file" in tested["complaints"][0]
    refused, done = told("alerts", "ack", resolved, firing, *config, code=1)
    assert (done, refused["done"]) == ({"id": firing, "done": True, "error": None}, False)
    assert "only firing alerts" in refused["error"]
    hidden = told("alerts", "silence", firing, "--preview", *config)
    assert [(alert["id"], alert["state"]) for alert in hidden] == [(firing, "acknowledged")]
    made = told("alerts", "silence", firing, "--note", "why", *config)
    assert (made["number"], made["open_alerts"]) == (1, 1)
    changed = told("alerts", "edit-silence", "1", "--note", "other", *config)
    assert (changed["number"], changed["why"], changed["what"]) == (1, "other", made["what"])
    assert told("alerts", "unsilence", "1", *config) == {"number": 1, "open_alerts": 1}
    assert told("alerts", "silences", *config) == []
    assert told("alerts", "resend", *config) == {"pending": 0, "overtaken": 0}
    (filled.parent / "queries/pair.cep").write_text("PATTERN PATTERN")
    assert told("check", *config, code=2)["problems"][0].count("pair.cep") == 1


def test_a_silence_is_told_by_its_number_and_silences_fit_80_columns(
    filled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    firing = str(alerts_of(filled)[0]["id"])
    said = invoke("alerts", "silence", firing, "-c", filled, "--note", "new disks", "--for", "2 h").stdout
    assert said.endswith("Silence 1.\n")
    silence = 'host=~"node(1|2|3|4|5|6|7|8|9|10|11|12|13)"'
    assert invoke("alerts", "silence", silence, "-c", filled).stdout.endswith("Silence 2.\n")
    piped = invoke("alerts", "silences", "-c", filled).stdout
    assert len(piped.splitlines()) == 3, "what is piped has a line for each"
    assert "from (UTC)" in piped
    monkeypatch.setattr("app.commands.alerts.operations.table_console", lambda **_: Console(width=80))
    shown = invoke("alerts", "silences", "-c", filled).stdout
    assert max(map(len, shown.splitlines())) <= 80
    first_column = shown.splitlines()[0].index("what and why")
    assert silence in "".join(line[first_column:].strip() for line in shown.splitlines()), "it is never cut off"


NEVER_LOADED = {
    "--help": ("numpy", "pyarrow", "pydantic", "sqlalchemy", "numba", "engine", "collectors"),
    "--version": ("numpy", "pyarrow", "pydantic", "sqlalchemy", "numba", "engine", "collectors"),
    "alerts --help": ("numpy", "pyarrow", "sqlalchemy", "numba", "engine.language", "app.settings", "app.store.api"),
    "alerts list": (
        *("numba", "llvmlite", "scipy", "lark", "pandas", "alembic", "jinja2", "requests", "prometheus_client"),
        *(
            "engine.plan",
            "engine.runtime",
            "engine.kernels",
            "engine.matching",
            "collectors.ganglia",
            "collectors.logs",
        ),
        *("app.live", "app.event_log", "app.alerting.operations", "app.alerting.delivery", "app.alerting.notifier"),
        *("numpy", "pyarrow", "engine.events", "app.event_store.reader", "collectors.base"),
    ),
    "match": (
        *("sqlalchemy", "pydantic_settings", "rich", "requests", "pandas", "pyarrow.parquet", "asyncio", "ssl"),
        *("app.settings", "app.config", "app.store", "app.live", "app.alerting", "app.commands.match.files"),
        *("engine.reference", "engine.baselines", "engine.trends", "engine.shedding", "engine.runtime.shedding"),
        *("engine.matching.automaton", "engine.matching.runs", "engine.matching.count_windows", "engine.runtime.warm"),
    ),
}
"""By command, what it does not use: a name stands for all below it."""


@pytest.mark.parametrize("asked", NEVER_LOADED)
def test_a_command_loads_only_what_it_uses(asked: str, filled: Path) -> None:
    (filled.parent / "pair.cep").write_text("PATTERN SEQ(A a, B b) WHERE skip_till_any_match WITHIN 10 s")
    (filled.parent / "ten.csv").write_text("type,t,x\n" + "".join(f"A,{t},1\nB,{t + 1},2\n" for t in range(0, 50, 10)))
    files = {
        "alerts list": ["-c", str(filled)],
        "match": [str(filled.parent / "pair.cep"), str(filled.parent / "ten.csv")],
    }
    script = f"""
import sys
from app.cli import main
sys.argv = ["clustercep", *{asked.split()!r}, *{files.get(asked, [])!r}]
try:
    main()
except SystemExit as end:
    print(end.code, [name for name in {NEVER_LOADED[asked]!r} if name in sys.modules])
"""
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert told.splitlines()[-1] == "0 []"
    shown = {
        **{"--version": "clustercep 0.", "--help": "explain    Print how", "alerts --help": "edit-silence"},
        **{"alerts list": "resolved", "match": '"bindings"'},
    }
    assert shown[asked] in told
