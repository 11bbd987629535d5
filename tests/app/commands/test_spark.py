"""A job's process: its words, its exit code, the signals that are passed on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from app.commands.spark import run_spark_job, words_of

JOB = """
import os, signal, sys, time
if sys.argv[1] == "code":
    sys.exit(int(sys.argv[2]))
if sys.argv[1] == "die":
    os.kill(os.getpid(), signal.SIGKILL)
if sys.argv[1] == "late":
    print("ready", flush=True)
    time.sleep(1)  # what it would import
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
print("ready", flush=True)
time.sleep(600)
"""


@pytest.fixture
def jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a module spark_jobs.example.job that child processes find first."""
    package = tmp_path / "spark_jobs" / "example"
    package.mkdir(parents=True)
    for folder in (package.parent, package):
        (folder / "__init__.py").write_text("")
    (package / "job.py").write_text(JOB)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("code", [0, 1, 2, 130])
def test_the_exit_code_is_the_jobs(jobs: Path, code: int) -> None:
    assert run_spark_job("example", ["code", str(code)]) == code


def test_a_job_that_a_signal_kills(jobs: Path) -> None:
    assert run_spark_job("example", ["die"]) == 128 + signal.SIGKILL


@pytest.mark.parametrize("when", ["wait", "late"])
def test_signals_reach_the_job(when: str, jobs: Path) -> None:
    """Also one that comes before the job listens."""
    starter = f"import sys; sys.path.append({str(Path(__file__).parents[3])!r}); " \
              "from app.commands.spark import run_spark_job as run; sys.exit(run('example', sys.argv[1:]))"  # fmt: skip
    with subprocess.Popen(
        [sys.executable, "-c", starter, when], cwd=jobs, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        os.kill(process.pid, signal.SIGTERM)
        assert process.wait(timeout=240) == 143


def test_words() -> None:
    assert words_of({"--a": None, "--b": 3, "--c": Path("/x y"), "--d": "-e"}) == ["--b=3", "--c=/x y", "--d=-e"]
