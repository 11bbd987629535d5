"""The first page of a store that the demo filled."""

from __future__ import annotations

from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from app.replay.demo_report import judged_faults, verdict_text
from dashboard import links, main
from tests.dashboard.conftest import HOSTILE, T0_MS, Raised
from tests.dashboard.query_fixtures import rerun, texts, view

ENDED_MS = T0_MS + 600_000


def row(fault: str, query: str, job_id: str = "job_1_0002", alert: str = "ab12") -> dict[str, Any]:
    """A fault of the summary, with the alert that found it."""
    alert_row = {"id": alert, "query": query, "summary": f"{fault} seen", "raised": "2023-11-14T22:15:00.000Z"}
    found = {"fault": fault, "query": query, "job_id": job_id, "note": "slept", "alert": alert_row}
    return {**found, "from": "2023-11-14T22:14:30.000Z", "to": "2023-11-14T22:16:00.000Z"}


def truth(**changes: Any) -> dict[str, Any]:
    nothing: dict[str, Any] = {"found": [], "missed": [], "false_alarms": [], "secondary": [], "unexplained": []}
    return {**nothing, **changes}


def judged(raised: Raised, **changes: Any) -> None:
    with raised.store.transaction() as writer:
        writer.progress.put_process_status({}, ENDED_MS)
        writer.progress.put_replay_status(
            {"started_ms": T0_MS, "ended_ms": ENDED_MS, "demo": truth(**changes)}, ENDED_MS
        )


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"found": [row("a", "q"), row("b", "q")]}, "2 of 2 faults found, no false alarm."),
        ({"found": [row("a", "q"), row("a", "r")]}, "1 of 1 faults found, no false alarm."),
        ({"found": [row("a", "q")], "missed": [row("a", "r")]}, "0 of 1 faults found, no false alarm."),
        ({"missed": [row("a", "r")], "false_alarms": [{}]}, "0 of 1 faults found, 1 false alarm."),
        ({"found": [row("a", "q"), row("a", "q", job_id="j")], "false_alarms": [{}, {}]},
         "2 of 2 faults found, 2 false alarms."),
    ],
)  # fmt: skip
def test_a_fault_is_found_when_each_of_its_queries_found_it(changes: dict[str, Any], expected: str) -> None:
    assert verdict_text(truth(**changes)) == expected


def test_the_alert_that_was_raised_first_stands_for_a_fault() -> None:
    later, earlier = row("a", "q"), row("a", "r")
    earlier["alert"] = {**earlier["alert"], "raised": "2023-11-14T22:14:59.000Z"}
    ((fault),) = judged_faults(truth(found=[later, earlier]))
    assert fault.found == (earlier, later)


def test_the_first_page_shows_what_was_found_as_of_the_recordings_time(raised: Raised) -> None:
    judged(raised, found=[row("slow_node", "slow"), row("late", "stuck")], secondary=[{}])
    test = view("demo")
    shown = texts(test).replace("\\", "")
    assert "2 of 2 faults found, no false alarm." in test.success[0].value.replace("\\", "")
    for told in (
        "2023-11-14 22:23:20",
        "slow node",
        "slow_node seen",
        "late seen",
        "30 s after it began, by slow",
        "1 further",
    ):
        assert told in shown, told
    buttons = [found.proto for found in test.get("link_button")]
    urls = [button.url for button in buttons]
    assert urls[:3] == ["alert?id=ab12", "job?id=job_1_0002", "query?name=slow"]


def test_the_menu_and_the_root_lead_there_only_for_the_demo(raised: Raised) -> None:
    whole = lambda: rerun(AppTest.from_file(str(main.ROOT / "dashboard/main.py"), default_timeout=300))  # noqa: E731  # asked twice
    assert [title.value for title in whole().title] == ["Alerts"]
    judged(raised, found=[row("slow_node", "slow")])
    assert [title.value for title in whole().title] == ["What the demo found"]
    with raised.store.transaction() as writer:  # a live process goes on with the store
        writer.progress.put_process_status({}, ENDED_MS + 86_400_000)
    assert [title.value for title in whole().title] == ["Alerts"]


def test_names_of_the_recording_stay_text(raised: Raised) -> None:
    judged(raised, found=[row(name, name) for name in HOSTILE], missed=[row(f"{name} ", name) for name in HOSTILE])
    assert "<script>" not in texts(view("demo")).replace("\\<", "")


def test_another_store_says_what_the_demo_is(raised: Raised) -> None:
    assert "make demo" in texts(view("demo"))
    assert links.url("demo") == "demo"
