"""`clustercep alerts test`: a marked alert, and what the service answers."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from app.commands.alerts.group import alerts_cli
from tests.app.webhook import webhook


def run(folder: Path, receivers: str, *arguments: str) -> tuple[int, str]:
    file = folder / "config.yaml"
    file.write_text(f"alerting:\n  receivers: {receivers}\n")
    result = CliRunner().invoke(alerts_cli, ["test", *arguments, "--config", str(file)])
    return result.exit_code, " ".join(result.output.split())


def test_a_receiver_is_told_of_a_marked_alert_and_of_its_end(tmp_path: Path) -> None:
    with webhook(202) as hook:
        code, said = run(tmp_path, f'{{ops: {{url: "{hook.url}"}}}}', "ops")
    assert (code, said) == (
        0,
        "ops (webhook) took it (firing): answered 202 ops (webhook) took it (resolved): answered 200",
    )
    (_, firing), (_, resolved) = hook.received
    (alert,) = firing["alerts"]
    assert (firing["status"], resolved["status"]) == ("firing", "resolved")
    assert alert["labels"]["alertname"] == "clustercep-test"
    assert alert["annotations"]["summary"].startswith("This is a test of the receiver ops")
    assert alert["fingerprint"] == resolved["alerts"][0]["fingerprint"]


def test_answers_as_json(tmp_path: Path) -> None:
    with webhook(202) as hook:
        code, said = run(tmp_path, f'{{ops: {{url: "{hook.url}"}}}}', "ops", "--json")
    told = {"firing": "answered 202", "resolved": "answered 200"}
    answers = [{"state": state, "answer": answer} for state, answer in told.items()]
    assert (code, json.loads(said)) == (0, {"receiver": "ops", "kind": "webhook", "answers": answers})
    with webhook(404) as hook:
        code, said = run(tmp_path, f'{{ops: {{url: "{hook.url}"}}}}', "ops", "--json")
    assert (code, json.loads(said)["answers"]) == (1, [{"state": "firing", "error": "answered 404"}])


def test_what_is_refused_says_so(tmp_path: Path) -> None:
    with webhook(404) as hook:
        code, said = run(tmp_path, f'{{ops: {{url: "{hook.url}"}}}}', "ops")
    assert (code, said) == (1, "ops (webhook) did not take it (firing): answered 404")
    with webhook() as hook:
        assert run(tmp_path, f'{{ops: {{url: "{hook.url}"}}}}', "ops", "--no-resolve")[0] == 0
    assert len(hook.received) == 1
    code, said = run(tmp_path, '{ops: {url: "http://127.0.0.1:9/"}}', "opps")
    assert "did you mean 'ops'?" in said
    assert code
    assert run(tmp_path, "{}", "ops")[1].endswith("expected its name in alerting.receivers, which has none yet")
    code, said = run(tmp_path, '{ops: {url: "http://127.0.0.1:9/", enabled: false}}', "ops")
    assert "is disabled" in said
    assert code


def test_why_a_receiver_cannot_be_reached_is_told_without_its_address(tmp_path: Path) -> None:
    (tmp_path / "ops.url").write_text("http://127.0.0.1:9/hook/T0123456789secret\n")  # nobody listens on port 9
    code, said = run(tmp_path, "{ops: {url_file: ops.url}}", "ops")
    assert (code, said) == (1, "ops (webhook) did not take it (firing): ConnectionError: Connection refused")
    mail = '{ops: {kind: email, smarthost: "127.0.0.1:9", from: a@b.example, to: [c@d.example], tls: none}}'
    code, said = run(tmp_path, mail, "ops")
    assert (code, said) == (1, "ops (email) did not take it (firing): ConnectionRefusedError: Connection refused")
    (tmp_path / "ops.url").write_text("http://no-such-host.invalid/hook/T0123456789secret\n")
    code, said = run(tmp_path, "{ops: {url_file: ops.url}}", "ops")
    assert (code, "secret" in said, "no-such-host" in said) == (1, False, False)
    assert said.endswith("ConnectionError: its host's name cannot be resolved")
