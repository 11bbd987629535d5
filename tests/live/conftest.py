"""A run on a real cluster takes minutes: made only when this folder is asked for (`make live`,
`make live-daemons`, `make live-spark`)."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.live import report, scenario
from tests.live.scenario import Observed

HERE = Path(__file__).parent
SUMMARY = pytest.StashKey[list[str]]()
"""Lines for a person."""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Plain `pytest` passes by."""
    asked_for = [(config.invocation_params.dir / argument.partition("::")[0]).resolve() for argument in config.args]
    is_asked_for = any(path == HERE or HERE in path.parents for path in asked_for)
    return None if is_asked_for or collection_path.name == "conftest.py" else True


@pytest.fixture(scope="session")
def observed(request: pytest.FixtureRequest) -> Observed:
    """One run of cluster, clustercep and workload; all tests look at what it showed."""
    started_s = time.monotonic()

    def say(message: str) -> None:
        print(f"{time.monotonic() - started_s:7.1f} s  {message}", flush=True)

    seen = scenario.run(say)
    request.config.stash[SUMMARY] = list(report.lines(seen))
    return seen


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """The figures, whether the tests passed or not."""
    lines = config.stash.get(SUMMARY, None)
    if lines is not None:
        terminalreporter.section("live on the mini cluster")
        for line in lines:
            terminalreporter.write_line(line)
