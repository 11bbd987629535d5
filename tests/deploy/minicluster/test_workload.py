"""Planning of the workload and the command line, without a cluster."""

import dataclasses
from pathlib import Path

import pytest

from deploy.minicluster import cli, cluster
from deploy.minicluster.errors import JobError
from deploy.minicluster.settings import DEFAULT_PATH, PlannedJob, load
from deploy.minicluster.workload.jobs import Job
from deploy.minicluster.workload.workload import Workload, planned_jobs

LIVE_PATH = DEFAULT_PATH.with_name("live.yaml")


@pytest.mark.parametrize(("path", "n_healthy"), [(DEFAULT_PATH, 5), (LIVE_PATH, 3)])
def test_the_shipped_plans_have_every_fault_and_healthy_jobs(path: Path, n_healthy: int) -> None:
    planned = [job for phase in planned_jobs(load(path)) for _, job in phase]
    faults = {job.fault for job in planned if not job.healthy}
    assert faults == {"mapper_straggler", "reducer_straggler", "slow_source_host", "late_reducers", "cpu_hungry_node"}
    assert sum(job.healthy for job in planned) >= n_healthy


@pytest.mark.parametrize("path", [DEFAULT_PATH, LIVE_PATH])
def test_the_hog_has_the_cluster_for_itself(path: Path) -> None:
    (phase,) = [phase for phase in load(path).workload if any(plan.job == "cpu_hungry_node" for plan in phase)]
    assert len(phase) == 1


def test_a_job_waits_for_the_one_it_comes_after_even_if_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "find_java", lambda: Path("java"))
    phase = (PlannedJob("pi"), PlannedJob("word_count", after="pi"), PlannedJob("teragen", after="word_count"))
    workload = Workload(cluster.Cluster(dataclasses.replace(load(), workload=(phase,))), lambda _: None)
    events: list[str] = []

    def run_job(job: Job) -> None:
        events.append(f"{job.kind} begins")
        if job.kind == "pi":
            raise JobError("pi fails")
        events.append(f"{job.kind} ends")

    monkeypatch.setattr(workload, "_run_job", run_job)
    outcome = workload.run()
    assert events == ["pi begins", "word_count begins", "word_count ends", "teragen begins", "teragen ends"]
    assert outcome.problems == ["pi: pi fails"]


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
