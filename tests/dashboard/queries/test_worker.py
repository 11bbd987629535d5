"""The process that runs one query: it gives way, ends with its parent, and says what it cannot do."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from app.chosen_store import STORE_VARIABLE, in_chosen_store
from app.config import load_settings
from app.queries.messages import EndReason, QueryRequest, RunLimits, request_line
from collectors.schema import load_event_types
from dashboard.queries import worker
from dashboard.queries.pool import SPARE_S, WORKER, QueryPool
from dashboard.queries.worker import opened_log
from dashboard.store import event_log, settings
from engine import parse, reference_output, resolve
from tests.dashboard.query_fixtures import HOSTILE, SLOW, Installation, attempts, installation

__all__ = ["installation"]  # a fixture

LIMITS = RunLimits(max_events=1_000, timeout_ms=600_000)
REQUEST = QueryRequest(SLOW, {"least": 500}, 0, 10**9)
WAIT_S = 600.0
ROOT = Path(__file__).parents[3]


def modest(script: str, limits: RunLimits) -> subprocess.CompletedProcess[str]:
    """A script in a process that has made itself modest."""
    text = (
        "import json, os, resource, sys\n"
        "from app.queries.messages import RunLimits\n"
        "from dashboard.queries.worker import be_modest\n"
        f"be_modest(RunLimits(max_events=1, timeout_ms={limits.timeout_ms}, "
        f"max_memory_bytes={limits.max_memory_bytes}))\n{script}"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, timeout=WAIT_S, env=environment, check=False
    )


def test_rows_over_a_real_log_are_the_oracles(installation: Installation) -> None:
    events = attempts(30)
    installation.log(events)
    run = QueryPool().start(REQUEST, LIMITS)
    assert run.wait(WAIT_S)
    snapshot = run.snapshot()
    expected = reference_output(resolve(parse(SLOW), load_event_types(), {"least": 500}), events)
    assert [row.values for row in snapshot.rows] == [row.values for row in expected]
    assert len(expected) == 25
    assert snapshot.end is not None
    assert (snapshot.end.reason, snapshot.end.n_events) == (EndReason.FINISHED, 60)


def test_a_query_reads_the_store_that_the_pages_show(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    installation.log(attempts(30))
    monkeypatch.setenv(STORE_VARIABLE, str(installation.folder / "elsewhere"))
    (installation.folder / "data").rename(installation.folder / "elsewhere")
    assert settings() == in_chosen_store(load_settings())
    with opened_log() as log:
        assert log.span() == event_log().span() == (0, 31_900)
    assert not (installation.folder / "data").exists()


def test_a_query_waits_for_no_pages() -> None:
    """Their framework takes longer to be loaded than most queries do to run."""
    script = "import dashboard.queries.worker, sys; sys.exit('streamlit' in sys.modules)"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ended = subprocess.run([sys.executable, "-c", script], timeout=WAIT_S, env=environment, check=False)
    assert ended.returncode == 0


def test_it_ends_in_silence_when_nobody_asks() -> None:
    """It was started before there was a request, and the dashboard has ended."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(
        WORKER, stdin=subprocess.DEVNULL, capture_output=True, timeout=WAIT_S, env=environment, check=False
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"", b"")


def test_a_process_that_waits_is_younger_than_its_own_end() -> None:
    assert SPARE_S < worker.IDLE_S


def test_hostile_values_come_back_unchanged(installation: Installation) -> None:
    installation.log(attempts(6, host=HOSTILE))
    run = QueryPool().start(REQUEST, LIMITS)
    assert run.wait(WAIT_S)
    (row,) = run.snapshot().rows
    assert row.values["host"] == HOSTILE


@pytest.mark.in_turn(of=2)
@pytest.mark.parametrize("broken", ["config", "store"])
def test_what_cannot_be_opened_is_told(installation: Installation, broken: str) -> None:
    if broken == "config":
        (installation.folder / "config.yaml").write_text("queries: [", encoding="utf-8")
    else:
        installation.store().close()
        (installation.folder / "data" / "clustercep.db").write_bytes(b"no database" * 1_000)
    run = QueryPool().start(REQUEST, LIMITS)
    assert run.wait(WAIT_S)
    failure = run.snapshot().failure
    assert failure is not None
    assert "Traceback" not in failure
    assert ("config.yaml" if broken == "config" else "clustercep.db is damaged") in failure


def test_it_ends_when_nobody_listens_any_more(installation: Installation) -> None:
    """The parent's end of its input closes: killed or crashed, whatever the query is doing."""
    script = (
        "import dashboard.queries.worker as worker, signal\n"
        "worker.run_query = lambda *_: iter(lambda: signal.pause(), 1)\n"
        "worker.tell = lambda *_: None\n"
        "worker.main()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    process.communicate(request_line(REQUEST, LIMITS), timeout=WAIT_S)
    assert process.returncode == 1


def test_a_kernel_that_does_not_return_is_ended_by_the_system() -> None:
    ended = modest("while True: pass", RunLimits(max_events=1, timeout_ms=-2_900))
    assert ended.returncode == -signal.SIGALRM


def test_memory_beyond_its_limit_is_refused() -> None:
    limits = RunLimits(max_events=1, timeout_ms=60_000, max_memory_bytes=2**28)
    ended = modest("try:\n    bytearray(2**31)\nexcept MemoryError:\n    print('refused')", limits)
    assert ended.stdout.strip() == "refused"


def test_it_gives_way_to_the_live_process() -> None:
    script = "print(json.dumps([os.nice(0), resource.getrlimit(resource.RLIMIT_DATA)[0]]))"
    niceness, most = json.loads(modest(script, LIMITS).stdout)
    assert niceness >= os.nice(0) + 10 or niceness == 19
    assert LIMITS.max_memory_bytes < most != resource.RLIM_INFINITY


@pytest.mark.parametrize("words", [["streamlit"], ["pandas"]])
def test_it_needs_nothing_of_the_pages(words: Sequence[str]) -> None:
    script = f"import dashboard.queries.worker, sys; print([w for w in {words!r} if w in sys.modules])"
    found: Any = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        timeout=WAIT_S,
        check=True,
    )
    assert found.stdout.strip() == "[]"
