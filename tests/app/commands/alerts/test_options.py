"""`clustercep alerts`: filters, silences and messages sent again, as they are typed."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from app.alerting.recording.recorder import Recorder
from app.cli import cli
from app.commands.alerts import listing as commands
from app.durations import parse_time_ms
from app.errors import AppError
from app.store import open_store
from app.store.api import Store
from tests.app.alerting_fixtures import FakeMatch, kept, options, receiver
from tests.app.process.test_runner import write_settings
from tests.app.test_cli import alerts_of, invoke

SLOW = options().queries["slow"]
NOW_MS = 1_800_000_000_000


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A store with an open alert of job 1 on n1, and one of job 2 on n2 that is over."""
    write_settings(tmp_path)
    url = f"sqlite:///{tmp_path / 'store/clustercep.db'}"
    with open_store(url) as store, store.transaction() as writer:
        recorder = Recorder(options(ops=receiver()), writer, kept, 10_000)
        tasks = [("task_9_1_m_1", "n1", 5_000), ("task_9_2_m_1", "n2", 1_000)]
        recorder.live(
            [FakeMatch(t, t + 1_000, key=(("task_id", i),), values={"host": host}) for i, host, t in tasks], 3_000
        )
    return tmp_path / "config.yaml"


def jobs(config: Path, *words: str) -> list[object]:
    return [alert["job_id"] for alert in alerts_of(config, *words)]


def test_a_store_that_is_not_there_is_not_made(config: Path, tmp_path: Path) -> None:
    (tmp_path / "store").rename(tmp_path / "away")
    result = invoke("alerts", "list", "--config", config)
    assert result.exit_code == 2
    assert "start 'clustercep run'" in " ".join(result.output.split())
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize("port", ["99x", "99999"])
def test_a_bad_port_of_the_database_is_one_line_without_its_password(tmp_path: Path, port: str) -> None:
    url = f"postgresql+psycopg://127.0.0.1:{port}/db?password=hunter2"
    (tmp_path / "config.yaml").write_text(f"store: {{directory: data, url: '{url}'}}\n")
    result = invoke("alerts", "list", "--config", tmp_path / "config.yaml")
    assert result.exit_code == 2
    assert isinstance(result.exception, SystemExit)  # told, not raised
    assert "store" in result.output
    assert "hunter2" not in result.output


def test_filters(config: Path) -> None:
    assert jobs(config) == ["job_9_1", "job_9_2"]
    assert jobs(config, "--job", "job_9_2") == ["job_9_2"]
    assert jobs(config, "--host", "n1") == ["job_9_1"]
    assert jobs(config, "--host", "n1", "--job", "job_9_2") == []
    assert jobs(config, "--from", "1970-01-01T00:00:03") == ["job_9_1"]
    assert jobs(config, "--to", "1970-01-01T01:00:03+01:00") == ["job_9_2"]
    assert jobs(config, "--from", "1970-01-01T00:00:02", "--to", "1970-01-01T00:00:05Z") == ["job_9_1", "job_9_2"]
    assert jobs(config, "--from", "1 day ago") == []


def test_an_alert_tells_its_hosts_and_times(config: Path) -> None:
    (alert,) = alerts_of(config, "--job", "job_9_1")
    assert alert["hosts"] == [{"host": "n1", "role": "suspect", "value_name": None, "value": None}]
    assert (alert["onset"], alert["last_seen"], alert["raised"]) == (
        *("1970-01-01T00:00:06.000Z", "1970-01-01T00:00:06.000Z"),
        "1970-01-01T00:00:10.000Z",
    )
    shown = invoke("alerts", "show", str(alert["id"]), "-c", config).stdout
    assert "suspect: n1" in shown
    assert "began 1970-01-01T00:00:06.000Z" in shown


def test_the_runbook_has_the_alerts_own_values(config: Path, tmp_path: Path) -> None:
    with open_store(f"sqlite:///{tmp_path / 'store/clustercep.db'}") as store, store.transaction() as writer:
        queries = {"slow": replace(SLOW, runbook="`mapred job -status {job}` on {host}, {nothing}")}
        recorder = Recorder(replace(options(), queries=queries), writer, kept, 10_000)
        recorder.live([FakeMatch(5_000, 6_000, key=(("task_id", "task_9_7_m_1"),), values={"host": "n7"})], 3_000)
    (alert,) = alerts_of(config, "--job", "job_9_7")
    told = "`mapred job -status job_9_7` on n7, {nothing}"
    assert told in invoke("alerts", "show", str(alert["id"]), "-c", config).stdout
    assert json.loads(invoke("alerts", "show", str(alert["id"]), "--json", "-c", config).stdout)["runbook"] == told


def test_numbers_and_durations_have_units(config: Path, tmp_path: Path) -> None:
    with open_store(f"sqlite:///{tmp_path / 'store/clustercep.db'}") as store, store.transaction() as writer:
        matches = [
            FakeMatch(
                *(t, t), key=(("task_id", "task_9_3_m_1"),), bindings={"a": (f"e{t}",)},
                values={"period_ms": ms, "queued_bytes": size},
            )
            for t, ms, size in ((20_000, 63_665, 48_016_392), (20_001, 120_605, 144_049_176))
        ]  # fmt: skip
        slow = replace(SLOW, numbers=frozenset({"period_ms", "queued_bytes"}))
        Recorder(replace(options(), queries={"slow": slow}), writer, kept, 30_000).live(matches, 40_000)
        once = FakeMatch(50_000, 50_000, key=(("task_id", "task_9_4_m_1"),))
        Recorder(options(), writer, kept, 60_000).live([once], 60_000)
    (alert,) = alerts_of(config, "--job", "job_9_3")
    shown = invoke("alerts", "show", str(alert["id"]), "-c", config).stdout
    assert "period_ms: first 1 min 4 s, last 2 min 1 s, max 2 min 1 s, min 1 min 4 s" in shown
    assert "queued_bytes: first 45.8 MiB, last 137.4 MiB" in shown
    assert "seen once" in " ".join(invoke("alerts", "list", "--job", "job_9_4", "-c", config).stdout.split())


def test_what_still_fires_in_a_recording_has_lasted_until_the_recordings_time(config: Path, tmp_path: Path) -> None:
    with open_store(f"sqlite:///{tmp_path / 'store/clustercep.db'}") as store, store.transaction() as writer:
        writer.progress.put_process_status({}, 66_000)
        writer.progress.put_replay_status({}, 66_000)
    shown = invoke("alerts", "list", "--state", "firing", "-c", config).stdout
    assert "│ 1 min  │" in shown
    assert "A recording, as of 1970-01-01 00:01:06" in shown


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [
        ("2 h", NOW_MS - 7_200_000),
        ("2 h ago", NOW_MS - 7_200_000),
        ("1970-01-02", 86_400_000),
        ("1970-01-01T00:00:00.250", 250),
        ("1970-01-01T00:00+02:00", -7_200_000),
    ],
)
def test_times(text: str, expected_ms: int) -> None:
    assert parse_time_ms("--from", text, NOW_MS) == expected_ms


@pytest.mark.parametrize("text", ["", "soon", "2", "1970-13-01", "-2 h"])
def test_what_is_no_time_is_told(text: str) -> None:
    with pytest.raises(AppError, match="--from: found"):
        parse_time_ms("--from", text, NOW_MS)


def test_a_silence_is_listed_and_ended(config: Path) -> None:
    assert "No silence holds" in invoke("alerts", "silences", "-c", config).stdout
    alert = str(alerts_of(config)[0]["id"])
    invoke("alerts", "silence", alert, "-c", config, "--note", "[bold]known")
    listed = invoke("alerts", "silences", "-c", config).stdout
    assert "[bold]known" in listed
    assert "slow" in listed
    ended = invoke("alerts", "unsilence", "1", "-c", config)
    assert "1 open alert(s) are silenced no longer" in ended.stdout
    again = invoke("alerts", "unsilence", "1", "-c", config)
    assert (again.exit_code, "no silence 1 holds" in again.stderr) == (2, True)


def test_matchers_are_previewed_silenced_and_changed(config: Path) -> None:
    found = invoke("alerts", "silence", 'alertname="slow"', 'task_id=~".*"', "--preview", "-c", config)
    assert "nothing was changed" in found.stdout
    assert "No silence holds" in invoke("alerts", "silences", "-c", config).stdout
    made = invoke("alerts", "silence", 'alertname="slow"', "--start", "2100-01-01", "--for", "1 h", "-c", config)
    assert made.exit_code == 2  # so far ahead it is a mistake
    invoke("alerts", "silence", 'alertname="slow"', "--for", "1 h", "-c", config)
    changed = invoke("alerts", "edit-silence", "1", 'alertname="other"', "--note", "moved", "-c", config)
    assert "Silence 1 is changed" in changed.stdout
    listed = invoke("alerts", "silences", "-c", config).stdout
    assert "other" in listed
    assert "moved" in listed
    everything = invoke("alerts", "silence", 'team=""', "-c", config)
    assert (everything.exit_code, "hides everything" in everything.stderr) == (2, True)


def test_a_silence_is_shown_with_what_was_done_to_it(config: Path) -> None:
    """Who made, changed and ended it, and what it said before; also once it is over."""
    invoke("alerts", "silence", 'alertname="slow"', "--for", "1 h", "--note", "[bold]why", "-c", config)
    invoke("alerts", "edit-silence", "1", "--note", "moved", "-c", config)
    invoke("alerts", "unsilence", "1", "-c", config)
    assert "No silence holds" in invoke("alerts", "silences", "-c", config).stdout
    whole = json.loads(invoke("alerts", "silences", "1", "--json", "-c", config).stdout)
    who = whole["by"]
    made, changed, ended = whole["history"]
    assert (made["what"], ended["what"]) == ("made", "ended")
    assert changed["what"] == "changed: comment was '[bold]why'"
    assert {made["by"], changed["by"], ended["by"]} == {who}
    assert made["at"] <= changed["at"] <= ended["at"]
    told = invoke("alerts", "silences", "1", "-c", config).stdout
    missing = [word for word in ("made", "[bold]why", "ended", "expired", made["at"][:19]) if word not in told]
    assert not missing, told
    missing = invoke("alerts", "silences", "7", "-c", config)
    assert (missing.exit_code, "there is no silence 7" in missing.stderr) == (2, True)


def test_what_was_given_up_is_sent_again(config: Path) -> None:
    with open_store(f"sqlite:///{config.parent / 'store/clustercep.db'}") as store:
        for message in store.notifications():
            with store.transaction() as writer:
                writer.outbox.record_attempt(
                    message.idempotency_key, "ops", status="failed", error="no", next_attempt_ms=0, now_ms=1
                )
    mistyped = invoke("alerts", "resend", "-c", config, "--receiver", "opps")
    assert mistyped.stdout == "0 message(s) will be sent again.\n"
    assert "There was never a message for 'opps'; did you mean 'ops'?" in mistyped.stderr
    assert "2 message(s)" in invoke("alerts", "resend", "-c", config).stdout  # the end of one, not its beginning
    assert "0 message(s)" in invoke("alerts", "resend", "-c", config).stdout
    for alert in alerts_of(config):
        assert "sent again to ops" in invoke("alerts", "show", str(alert["id"]), "-c", config).stdout


def test_a_silence_by_a_label_that_none_has_is_warned_of(config: Path) -> None:
    mistyped = "warning: no alert of this store has a label 'alertnme'; did you mean 'alertname'?"
    for option in ("--preview", "--json"):
        result = invoke("alerts", "silence", 'alertnme="slow"', option, "-c", config)
        assert (result.exit_code, result.stderr.strip()) == (0, mistyped)
    for known in ('task_id="no_such"', 'user="nobody"', 'alertname="slow"'):  # of a key, of every query, one that hides
        assert invoke("alerts", "silence", known, "-c", config).stderr == ""


def test_what_was_overtaken_is_told(config: Path) -> None:
    with open_store(f"sqlite:///{config.parent / 'store/clustercep.db'}") as store:
        over = next(message for message in store.notifications() if message.state == "resolved")
        messages = {m.state: m for m in store.notifications() if m.alert_id == over.alert_id}
        for state, status in (("firing", "failed"), ("resolved", "delivered")):
            with store.transaction() as writer:
                key = messages[state].idempotency_key
                writer.outbox.record_attempt(key, "ops", status=status, error=None, next_attempt_ms=0, now_ms=1)
    told = invoke("alerts", "resend", "-c", config).stdout
    assert "0 message(s) will be sent again" in told
    assert "1 stay given up" in told


def test_several_alerts_are_acknowledged_or_none(config: Path) -> None:
    ids = [str(alert["id"]) for alert in alerts_of(config)]
    refused = invoke("alerts", "ack", ids[0], "nosuch", "-c", config)
    assert refused.exit_code == 2
    assert "nosuch" in refused.output
    assert not alerts_of(config, "--state", "acknowledged")
    firing = [str(alert["id"]) for alert in alerts_of(config, "--state", "firing")]
    assert invoke("alerts", "ack", *firing, firing[0][:10], "-c", config).stdout.count("is acknowledged") == len(firing)
    assert [alert["id"] for alert in alerts_of(config, "--state", "acknowledged")] == firing


def test_an_alert_is_assigned_acknowledged_for_a_time_taken_back_and_closed(config: Path) -> None:
    alert = str(alerts_of(config, "--state", "firing")[0]["id"])

    def shown() -> dict[str, object]:
        return next(found for found in alerts_of(config) if found["id"] == alert)

    assert f"{alert} is assigned to bob." in invoke("alerts", "assign", alert, "--to", "bob", "-c", config).stdout
    assert shown()["assigned_to"] == "bob"
    assert "assigned to bob" in invoke("alerts", "show", alert, "-c", config).stdout
    assert invoke("alerts", "assign", alert, "--to", "x", "--nobody", "-c", config).exit_code == 2
    assert "is assigned to nobody." in invoke("alerts", "assign", alert, "--nobody", "-c", config).stdout
    assert "for 2 h." in invoke("alerts", "ack", alert, "--for", "2h", "-c", config).stdout
    assert shown()["acknowledged_until"] is not None
    assert "acknowledged until" in invoke("alerts", "show", alert, "-c", config).stdout
    wrong = invoke("alerts", "ack", alert, "--for", "soon", "-c", config)
    assert (wrong.exit_code, "--for: found 'soon'" in wrong.output) == (2, True)
    assert "fires again." in invoke("alerts", "unack", alert, "-c", config).stdout
    assert "is closed." in invoke("alerts", "close", alert, "--note", "restarted", "-c", config).stdout
    assert (shown()["state"], shown()["acknowledged_until"]) == ("resolved", None)


def test_a_list_of_nothing_says_so(config: Path) -> None:
    assert "No alert is like that." in invoke("alerts", "list", "--host", "other", "-c", config).stdout
    mistyped = invoke("alerts", "list", "--query", "slwo", "-c", config).stdout
    assert "No alert is like that. There is none of 'slwo'; did you mean 'slow'?" in mistyped
    known = invoke("alerts", "list", "--query", "slow", "--host", "other", "-c", config).stdout
    assert "No alert is like that.\n" in known
    mistyped = invoke("alerts", "list", "--job", "job_9_11", "-c", config).stdout
    assert "There is none about 'job_9_11'; did you mean 'job_9_1'?" in mistyped
    both = invoke("alerts", "list", "--query", "slwo", "--host", "n11", "-c", config).stdout
    assert "did you mean 'slow'? There is none that names 'n11'; did you mean 'n1'?" in both
    with open_store(f"sqlite:///{config.parent / 'other/clustercep.db'}"):
        pass
    assert "There is no alert." in invoke("alerts", "list", "--store", config.parent / "other").stdout


def completed(monkeypatch: pytest.MonkeyPatch, *words: object) -> list[str]:
    """What bash is offered for the last of these words."""
    monkeypatch.setenv("_CLUSTERCEP_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", " ".join(map(str, ["clustercep", *words])))
    monkeypatch.setenv("COMP_CWORD", str(len(words)))
    return CliRunner().invoke(cli, prog_name="clustercep").stdout.split()


def test_shells_complete_names_of_this_installation(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alerts = {str(alert["state"]): str(alert["id"]) for alert in alerts_of(config)}
    of = ("--config", config)
    assert completed(monkeypatch, "alerts", "ack", *of, alerts["firing"][:6]) == [alerts["firing"]]
    assert completed(monkeypatch, "alerts", "show", *of, alerts["resolved"]) == []  # many are over: open ones are meant
    assert completed(monkeypatch, "alerts", "list", *of, "--query", "s") == ["slow"]
    assert completed(monkeypatch, "alerts", "list", *of, "--job", "job") == ["job_9_1", "job_9_2"]
    assert completed(monkeypatch, "alerts", "list", "--store", config.parent / "store", "--host", "n") == ["n1", "n2"]
    assert completed(monkeypatch, "query", *of, "pa") == ["pair"]
    assert completed(monkeypatch, "alerts", "test", *of, "") == []
    with config.open("a") as settings:
        settings.write("alerting: {receivers: {ops: {url: http://127.0.0.1:9/hook}}}\n")
    assert completed(monkeypatch, "alerts", "test", *of, "") == ["ops"]
    for wrong in (("--config", config.parent / "no.yaml"), ("--store", config.parent / "nowhere")):
        assert completed(monkeypatch, "alerts", "list", *wrong, "--query", "s") == []


@pytest.mark.parametrize("name", ["$(reboot)", "n;id", "n`id`", "n 1", "n\\$(id)", "n'", 'n"', "-n", "n\nm"])
def test_shells_are_offered_no_name_that_they_could_run(
    name: str, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Store, "host_names", lambda _: [name, "n1"])
    assert completed(monkeypatch, "alerts", "list", "--config", config, "--host", "") == ["n1"]
    monkeypatch.setattr(Store, "host_names", lambda _: [name])
    assert completed(monkeypatch, "alerts", "list", "--config", config, "--host", "") == []


@pytest.mark.parametrize("words", [["list"], ["show", "ID"], ["silences"]])
def test_json_has_a_short_name(words: list[str], config: Path) -> None:
    given = [str(alerts_of(config)[0]["id"]) if word == "ID" else word for word in words]
    long, short = (
        invoke("alerts", *given, "--format", "json", "-c", config),
        invoke("alerts", *given, "--json", "-c", config),
    )
    assert long.exit_code == short.exit_code == 0
    assert json.loads(short.stdout) == json.loads(long.stdout)


@pytest.mark.parametrize("width", [80, 120, 200])
def test_each_alert_is_a_line_of_a_terminal(width: int, config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Console(width=width, force_terminal=True, no_color=True, file=io.StringIO())
    monkeypatch.setattr(commands, "table_console", lambda **_: terminal)
    for words in ([], ["--ids"]):
        invoke("alerts", "list", *words, "-c", config)
    assert isinstance(terminal.file, io.StringIO)
    lines = re.sub(r"\x1b\[[0-9;]*m", "", terminal.file.getvalue()).splitlines()
    assert max(map(len, lines)) <= width
    assert sum("warning" in line for line in lines) == 4
    assert str(alerts_of(config)[0]["id"])[:8] in "\n".join(lines)


def test_what_is_piped_is_never_cut(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    shown = invoke("alerts", "list", "-c", config).stdout
    assert all(str(alert["summary"]) in shown for alert in alerts_of(config))


def test_one_that_is_over_does_not_keep_others_from_being_acknowledged(config: Path) -> None:
    by_state = {str(alert["state"]): str(alert["id"]) for alert in alerts_of(config)}
    result = invoke("alerts", "ack", by_state["resolved"], by_state["firing"], "-c", config)
    assert result.exit_code == 1
    assert f"{by_state['firing']} is acknowledged." in result.stdout
    assert "clustercep: " in result.stderr
    assert invoke("alerts", "ack", by_state["resolved"], "-c", config).exit_code == 2


def test_members_stand_below_their_incident_and_are_counted(config: Path) -> None:
    with open_store(f"sqlite:///{config.parent / 'store/clustercep.db'}") as store:
        with store.transaction() as writer:
            recorder = Recorder(options(ops=receiver()), writer, kept, 20_000)
            recorder.live([FakeMatch(9_000, 9_500, key=(("task_id", "task_9_3_m_1"),), values={"host": "n1"})], 3_000)
        newest, oldest = store.alerts()[0], store.alerts()[-1]
        with store.transaction() as writer:
            incident, member = writer.alerts.get(oldest.id), writer.alerts.get(newest.id)
            assert incident is not None
            assert member is not None
            incident.is_incident, member.incident_id, member.inhibited = True, incident.id, True
            writer.incidents.add(incident.id, member.id, 1, covered=True)
    listed = invoke("alerts", "list", "--config", config).output.splitlines()
    place = next(number for number, line in enumerate(listed) if "[1 alert] " in line)
    assert "- " in listed[place + 1]
    assert len(alerts_of(config, "--incidents")) == len(alerts_of(config)) - 1
    by_id = {alert["id"]: alert for alert in alerts_of(config)}
    assert (by_id[oldest.id]["members"], by_id[newest.id]["incident_id"]) == ([newest.id], oldest.id)
    shown = json.loads(invoke("alerts", "show", oldest.id, "--config", config, "--json").output)
    assert shown["incident"]["n_members"] == 1
    assert shown["incident"]["for"][0] == "1 alert: 1 slow"
    text = " ".join(invoke("alerts", "show", newest.id, "--config", config).output.split())
    assert f"part of the incident {oldest.id[:8]}, which is told in its place" in text
