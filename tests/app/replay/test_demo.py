"""The recorded cluster through the whole program: what was injected is found, and nothing else."""

from __future__ import annotations

from pathlib import Path

from app.config import load_settings
from app.replay.demo import DemoResult
from app.replay.demo_report import verdict_text
from app.replay.recording import Recording
from app.store import open_store
from app.watching import watched

ROOT = Path(__file__).parents[3]


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
    assert verdict_text(truth) == "5 of 5 faults found, no false alarm."


def test_the_store_says_that_it_holds_a_recording_and_what_the_demo_found(demo: DemoResult) -> None:
    with open_store(f"sqlite:///{demo.store_directory / 'clustercep.db'}") as store:
        replayed = store.replay_status()
        assert replayed is not None
        ended_ms = replayed.value["ended_ms"]
        watch = watched(store, ended_ms + 86_400_000)
    assert replayed.value["demo"] == demo.summary["ground_truth"]
    assert (watch.is_replay, watch.is_alive) == (True, False)
    assert watch.as_of_ms is not None
    assert ended_ms - 60_000 < watch.as_of_ms < ended_ms + 60_000


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
    assert notifications["delivered"] == notifications["received"] > 0
    n_hidden = 2 * n_alerts - notifications["delivered"]
    assert n_hidden >= 8  # three slow fetches and the queued data are told by their incidents alone
    with open_store(f"sqlite:///{demo.store_directory / 'clustercep.db'}") as store:
        told: dict[str, list[str]] = {}
        for message in store.notifications():
            told.setdefault(message.alert_id, []).append(message.state)
    assert all(states == ["firing", "resolved"] for states in told.values())
    assert {row["id"] for row in demo.summary["incidents"]} <= told.keys()


def test_eleven_alerts_are_five_incidents_each_with_the_host_of_its_fault_first(demo: DemoResult) -> None:
    incidents, faults = demo.summary["incidents"], demo.summary["ground_truth"]["found"]
    assert sum(len(row["alerts"]) for row in incidents) == 11
    assert len(incidents) <= 5
    for fault in faults:
        (row,) = [row for row in incidents if fault["alert"]["id"] in row["alerts"]]
        assert row["host"] in fault["hosts"] or not fault["hosts"]
    assert len({fault["fault"] for fault in faults}) == 5
    assert all(len({f["fault"] for f in faults if f["alert"]["id"] in row["alerts"]}) == 1 for row in incidents)


def test_the_summary_is_written(demo: DemoResult) -> None:
    assert demo.summary_path.name == "demo-summary.json"
    assert demo.summary_path.is_file()
    assert demo.summary["seconds"] > 0
    assert demo.summary["peak_memory_bytes"] > 0
