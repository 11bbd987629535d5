"""The committed recording shows what its ground truth says, by the simple means of `verify`."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.minicluster.recording import verification
from tests.conftest import RECORDING

FOREIGN = ("/root", "/home", "/usr/local", "build/hadoop")


@pytest.fixture(scope="module")
def manifest(recording: Path) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load((recording / "manifest.yaml").read_text(encoding="utf-8"))
    return content


def test_every_finding_holds(recording: Path) -> None:
    assert [finding.text for finding in verification.verify(recording, FOREIGN) if not finding.holds] == []


def another_attempt(attempt_id: str) -> str:
    """The first attempt of the next of ten tasks."""
    prefix, number, _ = attempt_id.rsplit("_", 2)
    return f"{prefix}_{(int(number) + 1) % 10:06d}_0"


def test_a_fault_that_is_not_there_is_noticed(recording: Path, manifest: dict[str, Any], tmp_path: Path) -> None:
    for truth in manifest["ground_truth"]:
        if truth["fault"] == "mapper_straggler":
            truth["attempt_ids"] = [another_attempt(truth["attempt_ids"][0])]
    for path in recording.iterdir():
        (tmp_path / path.name).symlink_to(path)
    (tmp_path / "manifest.yaml").unlink()
    (tmp_path / "manifest.yaml").write_text(yaml.safe_dump(manifest), encoding="utf-8")
    failed = [finding.text for finding in verification.verify(tmp_path, FOREIGN) if not finding.holds]
    assert len(failed) == 1
    assert "mapper_straggler" in failed[0]


def test_contents(recording: Path, manifest: dict[str, Any]) -> None:
    n_jobs = len(manifest["jobs"])
    assert len(list((recording / "history").glob("*.jhist"))) == n_jobs
    assert len(list((recording / "history").glob("*_conf.xml"))) == n_jobs
    assert sum(job["healthy"] for job in manifest["jobs"]) >= 5
    assert {path.name for path in (recording / "daemons").iterdir()} == {
        "resourcemanager.log",
        *(f"nodemanager-{host['name']}.log" for host in manifest["hosts"]),
    }


def test_size() -> None:
    assert RECORDING.stat().st_size < 8_000_000
