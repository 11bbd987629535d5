"""Queries over the history from the editor, with a stand-in for the job on Spark."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator

import pytest
from streamlit.testing.v1 import AppTest

from app.queries.messages import End, EndReason, HistoryLimits, ResultRow, Tasks, read_history_request
from dashboard.queries import history_panel
from dashboard.queries.history_panel import progress_of
from dashboard.queries.history_pool import HistoryPool, HistoryRun
from dashboard.queries.notes import notes_of_history
from dashboard.queries.pool import Snapshot
from dashboard.queries.shown import bound_events
from tests.dashboard.queries.test_history_pool import OBEYS
from tests.dashboard.queries.test_pool import FINISHES, HANGS, PRELUDE, WAIT_S, with_rows
from tests.dashboard.query_fixtures import (
    HOSTILE,
    SLOW,
    Installation,
    copied,
    in_address,
    installation,
    rerun,
    texts,
    view,
)

__all__ = ["installation"]  # a fixture

TELLS_REQUEST = "tell(kind='failure', message=json.dumps(given))"

Answering = Callable[[str], HistoryPool]


@pytest.fixture
def answering(installation: Installation, monkeypatch: pytest.MonkeyPatch) -> Iterator[Answering]:
    """Sets what the job does; there is a store."""
    (installation.folder / "data" / "event-store").mkdir()
    made: list[HistoryPool] = []

    def answer(script: str) -> HistoryPool:
        made.append(HistoryPool(1, (sys.executable, "-c", f"{PRELUDE}\n{script}")))
        monkeypatch.setattr(history_panel, "pool", lambda: made[-1])
        return made[-1]

    yield answer
    for pool in made:
        for run in pool._runs:
            run._kill()


def over_history(**params: str) -> AppTest:
    return view("editor", over="history", **{"name": "slow", **params})


def clicked(page: AppTest) -> HistoryRun:
    page.button(key="history-run-button").click()
    run = rerun(page).session_state["history-run"]
    assert isinstance(run, HistoryRun)
    return run


def finished(page: AppTest) -> AppTest:
    assert clicked(page).wait(WAIT_S)
    return rerun(page)


def test_the_recent_events_are_what_a_query_runs_over_unless_one_chooses(installation: Installation) -> None:
    page = view("editor", name="slow")
    assert page.button_group(key="editor-over").value == "recent"
    assert "clustercep run" in texts(page)
    page.button_group(key="editor-over").set_value("history")
    assert "clustercep ingest" in texts(rerun(page))
    assert in_address(page, "over") == "history"


def test_without_a_store_the_page_says_what_makes_one(installation: Installation) -> None:
    page = over_history()
    assert "`clustercep ingest FOLDER`" in page.info[-1].value
    assert not [button for button in page.button if button.key == "history-run-button"]


def test_it_can_be_switched_off(answering: Answering, installation: Installation) -> None:
    installation.configure("dashboard: {history_queries: 0}")
    assert "dashboard.history_queries" in over_history().info[-1].value


def test_rows_and_files_as_over_the_recent_events(answering: Answering) -> None:
    answering(FINISHES)
    page = finished(over_history())
    assert list(page.dataframe[-1].value["i"]) == [1, 2]
    assert "2 rows from 3 events, in 0.1 s" in texts(page)
    assert [button.label for button in page.get("download_button")][:2] == ["CSV", "JSON lines"]


def test_the_job_gets_what_the_page_shows(answering: Answering) -> None:
    answering(TELLS_REQUEST)
    page = finished(over_history(**{"p.least": "2 min", "from": "3000"}))
    request, limits = read_history_request(copied(page)[-1])
    assert (request.text, request.parameters) == (SLOW, {"least": 120_000})
    assert (request.from_ms, request.to_ms) == (3_000, None)
    assert limits.timeout_ms == 1_800_000
    assert "as they were when it ran" not in texts(page)
    page.text_input(key="editor-parameter-1-least").set_value("3 min")
    assert "as they were when it ran" in texts(rerun(page))


def test_the_command_that_does_the_same(answering: Answering, installation: Installation) -> None:
    answering(FINISHES)
    config = f"--config={installation.folder / 'config.yaml'}"
    page = over_history(**{"p.least": "2 min", "from": "3000", "to": "1700000000123"})
    (line,) = (text for text in copied(page) if text.startswith("clustercep query"))
    assert shlex.split(line) == [
        "clustercep", "query", "--from=1970-01-01T00:00:03", "--to=2023-11-14T22:13:20.123", config,
        "--param=least=120000", "slow",
    ]  # fmt: skip
    own = view("editor", over="history", text="PATTERN SEQ(slow m) WHERE skip_till_any_match WITHIN 0")
    (line,) = (text for text in copied(own) if text.startswith("clustercep query"))
    used = installation.settings.queries.directory / "slow.cep"
    assert shlex.split(line) == ["clustercep", "query", config, f"--with={used}", "my-query.cep"]
    assert "Download the text (below) as my-query.cep first" in texts(own).replace("\\", "")


def test_where_it_is_and_who_reads_it_are_the_settings_but_never_passwords(
    answering: Answering, installation: Installation
) -> None:
    installation.configure("spark: {master: yarn, store: 's3a://key:secret@bucket/events'}")
    answering("tell(kind='failure', message='s3a://key:secret@bucket: 403 ' + chr(8238) + '<b>')")
    page = finished(over_history())
    said = texts(page)
    assert "bucket" in said
    assert "secret" not in said
    assert "yarn" in said
    assert page.error[0].value == "The query could not be run."


def test_what_the_job_says_of_its_rows_is_inert(answering: Answering) -> None:
    answering(f"tell(kind='note', text={HOSTILE!r}); tell(kind='tasks', what={HOSTILE!r}); {FINISHES}")
    page = finished(over_history())
    assert "<script>" not in page.warning[0].value
    assert "script" in page.warning[0].value


def test_cancelled_with_the_rows_that_came(answering: Answering) -> None:
    answering(OBEYS + HANGS)
    page = over_history()
    run = clicked(page)
    with_rows(run)
    assert "The first 1 of 1 rows so far; the first came after " in texts(rerun(page))
    assert page.button(key="history-run-button").disabled
    page.button(key="history-cancel").click()
    rerun(page)
    assert run.wait(WAIT_S)
    rerun(page)
    assert "Cancelled after" in texts(page)
    assert list(page.dataframe[-1].value["i"]) == [1]
    assert not page.button(key="history-run-button").disabled


def test_another_viewer_is_told_that_one_runs(answering: Answering) -> None:
    answering(OBEYS + HANGS)
    with_rows(clicked(over_history()))
    other = over_history()
    other.button(key="history-run-button").click()
    assert "1 query runs over the history already" in rerun(other).warning[-1].value.replace("\\", "")


def test_a_connection_that_ends_leaves_its_run(answering: Answering) -> None:
    answering(OBEYS + HANGS)
    page = over_history()
    run = clicked(page)
    with_rows(run)
    viewer = history_panel.Viewer()
    viewer.sees(run)
    viewer.leave()
    assert run._end_of_absence is not None
    rerun(page)  # somebody looks again
    assert run._end_of_absence is None


def test_events_that_only_the_store_has_are_told_by_their_ids(installation: Installation) -> None:
    (installation.folder / "data" / "clustercep.db").unlink()
    row = ResultRow({}, 0, 1, {"a": ["1"]}, {"a": 1}, 1.0, {})
    frame = bound_events(row, {}, of_log=False)
    assert frame is not None
    assert frame[["Event", "Event id"]].values.tolist() == [["not in the event log", "1"]]


def snapshot(**changes: object) -> Snapshot:
    end = End(**{
        "reason": EndReason.FINISHED, "n_events": 9, "n_rows": 2, "n_rejected": 0, "n_unfinished": 0, "n_late": 0,
        "capped": False, "assumes_end": False, "seconds": 1.0, **changes,
    })  # type: ignore[arg-type]  # fmt: skip
    return Snapshot((), None, end, None, True, False, 1.0)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"reason": EndReason.TIME_LIMIT}, "time limit of 2 min"),
        ({"reason": EndReason.ROW_LIMIT}, "first 2 rows"),
        ({"capped": True}, "more rows"),
        ({"assumes_end": True}, "does not happen"),
    ],
)
def test_what_a_reader_has_to_know(changes: dict[str, object], words: str) -> None:
    (text,) = notes_of_history(HistoryLimits(timeout_ms=120_000), snapshot(**changes))
    assert words in text


def test_how_far_it_is() -> None:
    row = ResultRow({}, 0, 1, {}, {}, 1.0, {})
    assert progress_of(Snapshot((), None, None, None, False, False, 2.0)) == (0.0, "Starting; 0 rows; 2 s")
    done = Snapshot((row,), None, None, None, False, False, 7.4, Tasks("Counting", 1, 4))
    assert progress_of(done) == (0.25, "Counting: 1 of 4 tasks are done; 1 rows; 7 s")
    unknown = Snapshot((), None, None, None, False, False, 7.4, Tasks("Counting"))
    assert progress_of(unknown) == (0.0, "Counting; 0 rows; 7 s")
