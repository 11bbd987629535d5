"""Planning of the workload and the command line, without a cluster."""

import dataclasses
from pathlib import Path

import pytest

from deploy.minicluster import cli
from deploy.minicluster.errors import JobError
from deploy.minicluster.settings import PlannedJob, load
from deploy.minicluster.workload import planned_jobs


def test_the_shipped_plan_has_every_fault_and_healthy_jobs() -> None:
    planned = [job for phase in planned_jobs(load()) for _, job in phase]
    faults = {job.fault for job in planned if not job.healthy}
    assert faults == {"mapper_straggler", "reducer_straggler", "slow_source_host", "late_reducers", "cpu_hungry_node"}
    assert sum(job.healthy for job in planned) >= 5


def test_the_hog_has_the_cluster_for_itself() -> None:
    (phase,) = [phase for phase in load().workload if any(plan.job == "cpu_hungry_node" for plan in phase)]
    assert len(phase) == 1


def test_unknown_jobs_are_named_with_those_that_exist() -> None:
    settings = dataclasses.replace(load(), workload=((PlannedJob("pie"),),))
    with pytest.raises(JobError, match="unknown job 'pie'; known: pi, word_count"):
        planned_jobs(settings)


def test_errors_are_one_line_and_status_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["verify", str(tmp_path)]) == 2
    assert capsys.readouterr().err.startswith(f"minicluster: {tmp_path}/manifest.yaml")
    assert cli.main(["pack", str(tmp_path), str(tmp_path / "x.tar.xz")]) == 2


def test_an_unfinished_recording_is_no_recording(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "manifest.yaml").write_text("incomplete: true\n")
    assert cli.main(["verify", str(tmp_path)]) == 2
    assert "not the manifest of a complete recording" in capsys.readouterr().err


def test_nothing_runs_in_a_new_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "own.yaml"
    config.write_text(f"work_dir: {tmp_path / 'work'}\n")
    assert cli.main(["status", "--config", str(config)]) == 1
    assert cli.main(["stop", "--config", str(config)]) == 0
    assert capsys.readouterr().out == "not running\nnot running\n"
