"""The campaign `spark` in short: an ingest and a stream that are killed, two ingests at once, a damaged file.

A NameNode takes as long to start as all of this: `make torture CAMPAIGN=spark`.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.torture.campaign import Given
from tests.torture.campaigns.spark import ingest, run, stream
from tests.torture.spark import hdfs
from tests.torture.spark.damage import damaged_store
from tests.torture.spark.inputs import Histories, Waiting
from tests.torture.spark.lives import Spark
from tests.torture.spark.tally import Tally


@pytest.mark.long
def test_a_killed_ingest_two_at_once_and_a_damaged_commit(tmp_path: Path) -> None:
    tally, spark = Tally(), Spark(random.Random(3))
    ingest(tally, spark, Histories(tmp_path / "in"), tmp_path / "store", range(1))
    _, (_, newest), _ = damaged_store(tally, spark, tmp_path, tmp_path / "store")
    newest("cut")
    print(tally.figures())
    assert tally.failures == []
    assert tally.killed.total() + tally.whole == 1
    assert tally.named == {"commit": 1}


@pytest.mark.long
def test_a_killed_stream(tmp_path: Path) -> None:
    tally, spark = Tally(), Spark(random.Random(1))
    stream(tally, spark, Waiting(tmp_path, 5), range(1))
    print(tally.figures())
    assert tally.failures == []
    assert tally.killed.total() + tally.whole == 1


def test_without_hadoop_it_fails_and_says_what_installs_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hdfs, "ROOT", tmp_path)
    verdict = run(Given(1, 1, tmp_path))
    (failure,) = verdict.failures
    assert "Hadoop is not installed" in failure
    assert failure.endswith("run deploy/minicluster/install.sh")


def test_what_is_lost_or_doubled_is_counted() -> None:
    tally = Tally()
    tally.same("stream", {"alerts": ["a", "c", "c"]}, {"alerts": ["a", "b", "c"]})
    assert (tally.lost, tally.doubled, len(tally.failures)) == (1, 1, 2)
