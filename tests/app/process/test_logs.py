"""The process's own log: one line per happening, fields that machines read, names that steer nothing."""

from __future__ import annotations

import json

import pytest
import structlog

from app.alerting.recording.outcome import AlertLine
from app.process.logs import configure_logs
from app.settings import Log

HOSTILE = "job\nINFO forged\x1b[31m\u202eevil"


def test_json_lines_name_query_alert_and_job(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs(Log(format="json"))
    structlog.get_logger("x").info("alert", **AlertLine("slow", "a1", HOSTILE, "firing").fields())
    structlog.get_logger("x").info("alert", **AlertLine("slow", "a2", None, "firing").fields())
    first, second = map(json.loads, capsys.readouterr().err.splitlines())
    assert (first["query"], first["alert"], first["what"], first["level"]) == ("slow", "a1", "firing", "info")
    assert "job" not in second
    assert first["timestamp"].endswith("Z")


@pytest.mark.parametrize("form", ["json", "console"])
def test_a_hostile_name_stays_in_its_line(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs(Log.model_validate({"format": form}))
    structlog.get_logger("x").info("polled", source=HOSTILE)
    line = capsys.readouterr().err
    assert line.count("\n") == 1
    assert "\x1b[31m" not in line
    assert "\u202e" not in line


def test_what_failed_is_told_with_its_place(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs(Log(format="json"))
    try:
        raise ValueError(HOSTILE)
    except ValueError:
        structlog.get_logger("x").exception("failed")
    (line,) = capsys.readouterr().err.splitlines()
    assert "test_logs.py" in json.loads(line)["exception"]


def test_the_level_can_change(capsys: pytest.CaptureFixture[str]) -> None:
    log = structlog.get_logger("x")
    configure_logs(Log(level="error"))
    log.warning("unheard")
    configure_logs(Log(level="debug"))
    log.debug("heard")
    told = capsys.readouterr().err
    assert "heard" in told
    assert "unheard" not in told
