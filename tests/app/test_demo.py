"""The recorded cluster through the whole program: what was injected is found, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from app.assembly import open_configured_store
from app.config import load_settings
from app.demo import DemoResult
from app.recording import Recording
from app.replay import Progress, replay
from tests.app.test_pipeline import content, without_polls

ROOT = Path(__file__).parents[2]
CUT_MS = 500_000
"""Of the recording that is replayed with restarts: until after the first three faults."""


def test_every_fault_is_found_by_its_query_and_no_healthy_job_alarms(demo: DemoResult) -> None:
    truth = demo.summary["ground_truth"]
    assert truth["missed"] == []
    assert truth["false_alarms"] == []
    assert {row["fault"] for row in truth["found"]} == {
        "mapper_straggler",
        "reducer_straggler",
        "slow_source_host",
        "late_reducers",
        "cpu_hungry_node",
    }
    assert all(row["alert"]["query"] == row["query"] for row in truth["found"])
    assert demo.passed


def test_every_event_entered_once_whatever_its_sources(demo: DemoResult) -> None:
    recording = Recording.open(
        demo.store_directory.parent / "recording/recording", Path(), load_settings(ROOT / "config.yaml", {}).replay
    )
    histories = list((recording.folder / "history").glob("*.jhist"))
    finished = "".join(path.read_text() for path in histories)
    events = demo.summary["events"]
    assert events["JobStart"] >= len(histories)
    assert events["ReducerStart"] == finished.count('"type":"REDUCE_ATTEMPT_STARTED"')
    assert events["ReducerEnd"] == events["Reducer"] == events["ReducerStart"]
    assert events["LoadStd"] == events["Balance"] + events["Imbalance"]
    assert demo.summary["duplicates"] > 0


def test_notifications_are_really_delivered(demo: DemoResult) -> None:
    n_alerts = sum(demo.summary["alerts"].values())
    notifications = demo.summary["notifications"]
    assert notifications == {"delivered": 2 * n_alerts, "received": 2 * n_alerts}


def test_the_summary_is_written(demo: DemoResult) -> None:
    assert demo.summary_path.name == "demo-summary.json"
    assert demo.summary_path.is_file()
    assert demo.summary["seconds"] > 0
    assert demo.summary["peak_memory_bytes"] > 0


def test_restarts_change_nothing(tmp_path: Path) -> None:
    """The first faults with real collectors, engine and store: in one go, and put together anew all the time."""

    def again(progress: Progress) -> None:
        if (progress.now_ms - progress.started_ms) % 70_000 == 0:
            progress.runner.go_back()

    whole = replayed(tmp_path / "whole", lambda _: None)
    interrupted = replayed(tmp_path / "interrupted", again)
    assert len(whole["alerts"]) >= 3
    assert without_polls(interrupted) == without_polls(whole)


def replayed(folder: Path, watch: Any) -> dict[str, Any]:
    settings = load_settings(ROOT / "config.yaml", {})
    settings = settings.model_copy(update={"store": settings.store.model_copy(update={"directory": folder / "store"})})
    recording = Recording.open(
        ROOT / "tests/fixtures/recording/minicluster.tar.xz", folder / "recording", settings.replay
    )
    ended_ms = recording.manifest.started_ms + CUT_MS
    cut = Recording(recording.folder, recording.manifest.model_copy(update={"ended_ms": ended_ms}))
    replay(cut, settings, folder / "spool", watch=watch)
    with open_configured_store(settings) as store:
        return content(store, folder / "store")
