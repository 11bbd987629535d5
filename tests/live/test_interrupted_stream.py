"""Ctrl-C to a stream in a process of its own, in the middle of a file; then it goes on as if nothing had been.

`tests/spark_jobs/stream/test_job.py` sends the signal within the tests' process every day.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from app.store.api import open_store
from deploy.minicluster.processes.guard import descendants
from spark_jobs.stream import job as stream
from tests.spark_jobs.conftest import spark
from tests.spark_jobs.stream.test_job import lines_of_small_stream, stored
from tests.spark_jobs.stream_fixtures import small_stream
from tests.spark_jobs.test_interruption import WITHIN_S, opened_by_its_reader, program, started

__all__ = ["spark"]  # a fixture


def words_for(folder: Path, store: str) -> list[str]:
    """Of a stream over the folder's files, one per micro-batch; checkpoint and store are called `store`."""
    config = folder / f"{store}.yaml"
    config.write_text(f"store: {{directory: {folder / store}}}\nqueries: {{directory: {folder / 'queries'}}}\n")
    words = [str(folder / "in"), "--format=jsonl", f"--checkpoint={folder / store / 'checkpoint'}"]
    words += [f"--config={config}", "--buckets=3", "--lateness=5 s", "--max-files=1", "--trigger=1 ms"]
    return [*words, "--idle-timeout=never"]


def test_ctrl_c_in_the_middle_of_a_file(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small_stream(tmp_path, lines_of_small_stream())
    (tmp_path / "queries" / "RUNBOOK.md").write_text(
        "".join(f"## {name}\nWait.\n" for name in ("jobs", "lost", "nodes"))
    )
    fifo = tmp_path / "in" / ".0001.jsonl.crc"
    os.mkfifo(fifo)
    with started(["stream", *words_for(tmp_path, "stopped"), "--master=local[1]"]) as process:
        other_end = opened_by_its_reader(fifo, process)
        below = descendants(process.pid)
        assert "java" in {program(pid) for pid in below}
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=WITHIN_S)
        os.close(other_end)
        assert process.returncode == 128 + signal.SIGINT, told
        assert "Traceback" not in told
        assert not any(program(pid) in ("java", "python3.11") for pid in below)
    fifo.unlink()

    @contextmanager
    def this_session(*_given: object) -> Iterator[SparkSession]:
        yield spark

    monkeypatch.setattr(stream, "spark_session", this_session)
    found = []
    for name in ("stopped", "whole"):
        assert stream.main([*words_for(tmp_path, name), "--once"]) == 0
        with open_store(f"sqlite:///{next((tmp_path / name).glob('*.db'))}") as store:
            found.append(stored(store))
    assert found[0]["alerts"]
    assert found[0] == found[1]
