"""`clustercep dashboard`: how it is started, and a real one from its first answer to its end."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import requests
from typer.testing import CliRunner

from app.chosen_store import STORE_VARIABLE, in_chosen_store
from app.cli import cli
from app.commands.dashboard import (
    Place,
    check_port,
    command,
    environment,
    free_port,
    hosts,
    place_of,
    run_dashboard,
)
from app.config import load_settings
from app.errors import AppError
from app.replay.demo import DemoResult, show_demo, with_demo_parameters
from app.settings import DashboardSettings, Settings
from app.store import open_store
from tests.ports import own_port


@pytest.fixture
def config(tmp_path: Path) -> Path:
    (tmp_path / "config.yaml").write_text("store: {directory: data}\n")
    return tmp_path / "config.yaml"


def configured(config: Path, text: str) -> Settings:
    config.write_text(f"store: {{directory: data}}\n{text}\n")
    return load_settings(config, {})


def dashboard(**values: Any) -> DashboardSettings:
    return DashboardSettings.model_validate(values)


@pytest.mark.parametrize(
    ("settings", "port", "url"),
    [
        ({}, None, "http://127.0.0.1:8501/"),
        ({"base_path": "/a/b/"}, 9, "http://127.0.0.1:9/a/b/"),
        ({"address": "0.0.0.0"}, None, "http://127.0.0.1:8501/"),
        ({"address": "::"}, None, "http://[::1]:8501/"),
        ({"address": "cep.example"}, None, "http://cep.example:8501/"),
    ],
)
def test_where_it_is_found(settings: dict[str, Any], port: int | None, url: str) -> None:
    assert place_of(dashboard(**settings), port).url == url


def test_it_sends_nothing_to_anybody_and_hides_what_fails(config: Path) -> None:
    settings = configured(config, "dashboard: {base_path: /cep, port: 4711}")
    words = command(settings, place_of(settings.dashboard))
    assert words[1:3] == ["-m", "dashboard"]
    options = json.loads(words[3])
    wanted = {
        "browser.gatherUsageStats": False,
        "server.address": "127.0.0.1",
        "server.port": 4711,
        "server.baseUrlPath": "cep",
        "server.allowedHosts": ["127.0.0.1", "::1", "localhost"],
        "client.showErrorDetails": "type",
        "server.headless": True,
    }
    assert {name: options[name] for name in wanted} == wanted


def test_only_known_names_are_let_in(config: Path) -> None:
    settings = configured(
        config, "dashboard: {allowed_hosts: [other.example]}\nalerting: {external_url: 'https://cep.example:8443/x'}"
    )
    loopback = ["127.0.0.1", "::1", "localhost"]
    assert hosts(settings, Place("127.0.0.1", 1, "")) == [*loopback, "cep.example", "other.example"]
    assert hosts(settings, Place("0.0.0.0", 1, ""))[-1] == "other.example"
    assert hosts(settings, Place("10.0.0.5", 1, ""))[-1] == "10.0.0.5"


def test_the_pages_read_the_same_configuration(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(STORE_VARIABLE, raising=False)
    monkeypatch.chdir(config.parent)
    settings = with_demo_parameters(
        configured(config, "queries: {parameters: {a: {x: 1, y: 2}}}\ndemo: {parameters: {a: {y: 3}, b: {z: 4}}}")
    )
    plain = environment(settings, Path("config.yaml"), None)
    assert plain["CLUSTERCEP_CONFIG"] == str(config)
    assert STORE_VARIABLE not in plain
    given = environment(settings, config, Path("elsewhere"))
    assert given[STORE_VARIABLE] == str(config.parent / "elsewhere")
    assert load_settings(config, given).queries.parameters == {"a": {"x": 1, "y": 3}, "b": {"z": 4}}
    assert json.loads(given["CLUSTERCEP__QUERIES__PARAMETERS"])["b"] == {"z": 4}


def test_a_port_that_is_taken_is_an_error_with_its_remedy(config: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(AppError, match=rf"port {port} of 127\.0\.0\.1: address already in use; .*--port"):
            check_port(Place("127.0.0.1", port, ""))
        result = CliRunner().invoke(cli, ["dashboard", "-c", str(config), "--port", str(port)])
    assert result.exit_code == 2
    assert "already in use" in result.stderr


def test_an_address_that_is_not_ours_is_an_error() -> None:
    with pytest.raises(AppError, match=r"of 192\.0\.2\.1"):
        check_port(Place("192.0.2.1", free_port("127.0.0.1"), ""))


def test_a_folder_without_a_store_is_an_error(config: Path) -> None:
    result = CliRunner().invoke(cli, ["dashboard", "-c", str(config), "--store", str(config.parent)])
    assert result.exit_code == 2
    assert "expected a folder with clustercep.db" in result.stderr


@pytest.mark.parametrize("below", ["event-store", "."])
def test_a_folder_that_holds_only_history_is_shown(config: Path, monkeypatch: pytest.MonkeyPatch, below: str) -> None:
    """The folder above what `clustercep ingest` fills, or that folder; before the `spark.store` of the settings."""
    settings = configured(config, "spark: {store: hdfs://master:8020/events}")
    folder = config.parent / "other"
    (folder / below / "_commits").mkdir(parents=True)
    given: list[Any] = []

    def run(settings: Settings, **words: Any) -> int:
        given.append(words["store_folder"])
        return 0

    monkeypatch.setattr("app.commands.dashboard.run_dashboard", run)
    result = CliRunner().invoke(cli, ["dashboard", "-c", str(config), "--store", str(folder)])
    assert (result.exit_code, given) == (0, [folder])
    chosen = in_chosen_store(settings, environment(settings, config, folder))
    assert Path(chosen.event_store_url) == (folder / below).absolute()
    (folder / below / "_commits").rmdir()
    assert in_chosen_store(settings, environment(settings, config, folder)).event_store_url.startswith("hdfs:")


def test_what_ends_at_once_gives_its_exit_code(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = configured(config, "")
    told: list[str] = []
    monkeypatch.setattr("app.commands.dashboard.command", lambda *_: [sys.executable, "-c", "raise SystemExit(7)"])
    before = signal.getsignal(signal.SIGTERM)
    with own_port() as port:
        assert run_dashboard(settings, config=config, port=port, announce=told.append) == 7
    assert told == []
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_dashboard_for_everybody_says_so(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.commands.dashboard.command", lambda *_: [sys.executable, "-c", ""])
    told: list[str] = []
    settings = configured(config, "dashboard: {address: 0.0.0.0}")
    with own_port() as port:
        run_dashboard(settings, config=config, port=port, announce=told.append)
    assert "dashboard.login is off" in told[0]


def test_a_real_one_answers_and_ends_with_the_signal(config: Path) -> None:
    open_store(f"sqlite:///{config.parent / 'clustercep.db'}").close()
    words = [sys.executable, "-m", "app.cli", "dashboard", "-c", str(config), "--store", str(config.parent)]
    given = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with (
        own_port() as port,
        subprocess.Popen(
            [*words, "--port", str(port)], env=given, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process,
    ):
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == f"Dashboard: http://127.0.0.1:{port}/\n"
            answer = requests.get(f"http://127.0.0.1:{port}/alerts", timeout=120)
            assert "<title>" in answer.text
            process.send_signal(signal.SIGTERM)
            _, complaints = process.communicate(timeout=300)
        finally:
            process.kill()
        assert process.returncode == 0
        assert complaints == ""
        with pytest.raises(requests.ConnectionError):
            requests.get(f"http://127.0.0.1:{port}/alerts", timeout=300)


def test_the_demo_ends_in_the_dashboard_on_its_own_store(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: dict[str, Any] = {}

    def run(settings: Settings, **given: Any) -> int:
        started.update(given, parameters=settings.queries.parameters)
        return 0

    monkeypatch.setattr("app.replay.demo.run_dashboard", run)
    told: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        settings = configured(config, f"dashboard: {{port: {port}}}\ndemo: {{parameters: {{a: {{y: 3}}}}}}")
        result = DemoResult({}, config, config.parent / "demo/store", True)
        show_demo(settings, result, config, told.append)
    assert told[0].startswith(f"Port {port} of 127.0.0.1 is taken; using ")
    assert started["port"] != port
    assert started["store_folder"] == config.parent / "demo/store"
    assert started["parameters"] == {"a": {"y": 3}}


def test_once_starts_no_dashboard(monkeypatch: pytest.MonkeyPatch, config: Path) -> None:
    monkeypatch.setattr("app.replay.demo.run_demo", lambda *_, **_how: DemoResult({}, config, config.parent, True))
    monkeypatch.setattr("app.replay.demo.show_demo", lambda *_: pytest.fail("started"))
    result = CliRunner().invoke(cli, ["demo", "--once", "-c", str(config)])
    assert result.exit_code == 0
    assert "Store: " in result.stdout
