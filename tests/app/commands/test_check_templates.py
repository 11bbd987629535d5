"""`clustercep check` of receivers: templates that are none, and templates that fail for every alert."""

from __future__ import annotations

from pathlib import Path

from app.commands.check import check_all

QUERIES = Path(__file__).parents[3] / "queries"


def test_templates_are_tried_with_an_alert_that_has_all_values(tmp_path: Path) -> None:
    for name, text in (
        ("good", "{{ alerts[0].labels.host }} {{ alerts[0].annotations.summary }}"),
        ("unknown", "{{ alerts[0].labels.hots }}"),
        ("broken", "{{ alerts"),
        ("short", "{{ headline | truncate(2) }}"),
    ):
        (tmp_path / f"{name}.j2").write_text(f'{{"text": "{text}"}}')
    (tmp_path / "nan.j2").write_text('{"text": "x", "n": NaN}')
    receivers = ", ".join(
        f'{name}: {{url: "http://127.0.0.1:9/", template: {name}.j2}}'
        for name in ("good", "unknown", "broken", "short", "nan")
    )
    config = tmp_path / "config.yaml"
    config.write_text(f"queries: {{directory: {QUERIES}}}\nalerting: {{receivers: {{{receivers}}}}}\n")
    report = check_all(config)
    (problem,) = [problem for problem in report.problems if "receivers" in problem]
    assert "receivers.broken.template: found text, line 1: " in problem
    nan, short, warning = [warning for warning in report.warnings if "receivers" in warning]
    assert warning.startswith("alerting.receivers.unknown.template: text: ")
    assert "hots" in warning
    assert nan.startswith("alerting.receivers.nan.template: ")
    assert short.startswith("alerting.receivers.short.template: text: expected length >= ")
