"""The health page: what needs attention, tables of hostile rows, sending again, a store that cannot be read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.settings import StoreSettings
from app.store.models import (
    AlertRow,
    LateEventRow,
    NotificationRow,
    ProcessStatusRow,
    ReceiverStatusRow,
    SilenceRow,
    SourceStatusRow,
)
from app.store.status import OverloadFigures, ProcessStatus, SheddingFigures, SourceStatus
from app.store.writing.problems import NewProblem
from app.watching import Watch
from dashboard.health_figures import (
    Level,
    Observed,
    engine_frame,
    findings,
    receivers_frame,
    shedding_frame,
    size,
    sources_frame,
)
from dashboard.storage_figures import database, folder_bytes
from engine.events import FOREVER_MS
from tests.dashboard.conftest import T0_MS
from tests.dashboard.query_fixtures import HOSTILE, Installation, attempts, installation, rerun, texts, view

__all__ = ["installation"]  # a fixture

NOW_MS = 1_000_000_000
WELL = SourceStatus("yarn_rest", 15_000, NOW_MS - 5_000, NOW_MS - 2_000, NOW_MS - 2_000, 0, None, False)

WATCHED = Watch(NOW_MS, NOW_MS, False, ())


def source_row(**changes: Any) -> SourceStatusRow:
    status = replace(WELL, **changes)
    return SourceStatusRow(**{name: getattr(status, name) for name in SourceStatus.__slots__})


def observed(status: ProcessStatus | None, *sources: SourceStatusRow, **changes: Any) -> Observed:
    updated_ms = changes.pop("updated_ms", NOW_MS - 1_000)
    row = None if status is None else ProcessStatusRow(name="live", updated_ms=updated_ms, value=dict(status))
    seen = Observed(
        now_ms=NOW_MS, status=row, sources=sources, n_notifications={}, free_bytes=2**40, total_bytes=2**41,
        silence_timeout_ms=300_000, watch=Watch(NOW_MS, updated_ms if status is not None else None, False, ()),
    )  # fmt: skip
    return replace(seen, **changes)


def told(seen: Observed) -> list[tuple[Level, str]]:
    return [(finding.level, finding.text) for finding in findings(seen)]


# ------------------------------------------------------------------- findings


def overload(**changes: Any) -> OverloadFigures:
    figures = OverloadFigures(
        bound_ms=500,
        strategy="pspice",
        is_shedding=False,
        latency_ms=90.0,
        longest_ms=480.0,
        n_steps=9,
        n_shed_steps=3,
        shedding_seconds=0.25,
        exempt=["other"],
        queries={
            "few": SheddingFigures(n_partial_matches=900, expected_matches=1.0),
            "many": SheddingFigures(n_partial_matches=10, expected_matches=30.4, n_unvalued=4, n_events=5),
        },
    )
    return {**figures, **changes}  # type: ignore[typeddict-item]  # keys of it


def test_what_holding_a_bound_costs_is_told_while_it_does() -> None:
    assert told(observed(ProcessStatus(overload=overload()), source_row())) == []
    [(level, text)] = told(observed(ProcessStatus(overload=overload(is_shedding=True)), source_row()))
    assert level is Level.WARNING
    assert "engine.latency_bound" in text
    many = "many (15 dropped, about 30 matches missing, 9 of them without an estimate)"
    assert text.index(many) < text.index("few (900 dropped, about 1 matches missing)")
    unknown = {"kept": SheddingFigures(n_events=48_211)}
    [(_, text)] = told(observed(ProcessStatus(overload=overload(is_shedding=True, queries=unknown)), source_row()))
    assert "kept (48,211 dropped, 48,211 of them without an estimate)" in text
    [(level, text)] = told(observed(ProcessStatus(overload=overload(achievable_ms=2_000)), source_row()))
    assert level is Level.ERROR
    assert "2 s could" in text
    assert "other" in text


def test_every_query_has_a_line_of_what_was_dropped() -> None:
    frame = shedding_frame(overload(), ["few", "many", "other", HOSTILE])
    assert frame["Query"].tolist()[:2] == ["many", "few"]
    assert frame["Dropped"].tolist() == [15, 900, 0, 0]
    assert frame["Without estimate"].tolist() == [9, 0, 0, 0]
    fixed = frame.set_index("Query")["Can be dropped"]
    assert fixed["other"] == "nothing: a fixed cost"
    assert HOSTILE not in frame["Query"].tolist()


def test_nothing_to_tell_when_all_is_well() -> None:
    assert findings(observed({"watermark_ms": NOW_MS - 5_000}, source_row())) == []


def test_no_process_yet() -> None:
    ((level, text),) = told(observed(None))
    assert level is Level.WARNING
    assert "clustercep run" in text


@pytest.mark.parametrize(("age_ms", "is_told"), [(59_000, False), (61_000, True)])
def test_a_process_that_does_not_step(age_ms: int, is_told: bool) -> None:
    found = told(observed({}, updated_ms=NOW_MS - age_ms))
    assert bool(found) is is_told
    assert all("Nothing is lost" in text for _, text in found)


def test_a_store_of_a_recording_is_no_failure() -> None:
    ((level, text),) = told(observed({}, watch=Watch(NOW_MS, T0_MS, True, ())))
    assert level is Level.INFO
    assert "as of 2023-11-14 22:13:20" in text


def test_failing_and_left_out_sources_with_their_error() -> None:
    failing = source_row(n_failed_in_a_row=3, last_error=HOSTILE)
    silent = source_row(name="ganglia_rrd", left_out=True, n_failed_in_a_row=9)
    (first, first_text), (second, second_text) = told(observed({}, failing, silent))
    assert (first, second) == (Level.ERROR, Level.WARNING)
    assert "ganglia_rrd" in first_text
    assert "3 times in a row" in second_text
    assert "\n" not in second_text


@pytest.mark.parametrize(
    ("watermark_ms", "is_told"),
    [(NOW_MS - 300_000, False), (NOW_MS - 301_000, True), (FOREVER_MS, False), (-FOREVER_MS, False)],
)
def test_a_watermark_that_is_behind(watermark_ms: int, is_told: bool) -> None:
    assert bool(told(observed({"watermark_ms": watermark_ms}))) is is_told


def test_reload_problems_outages_failed_notifications_and_disk() -> None:
    seen = observed(
        {"reload_problems": ["queries/x.cep: no"], "store_outages": 2},
        n_notifications={("ops", "failed"): 4, ("ops", "delivered"): 9},
        free_bytes=2**20,
    )
    levels = [level for level, _ in told(seen)]
    text = "\n".join(text for _, text in told(seen))
    assert levels == [Level.ERROR, Level.WARNING, Level.WARNING, Level.INFO]
    for words in ("queries/x.cep: no", "2 times", "4 notifications to ops", "1.0 MiB are free"):
        assert words in text


def test_a_receiver_that_is_down_is_told_with_its_error_and_what_waits() -> None:
    down = ReceiverStatusRow(receiver="ops", down_since_ms=0, last_error=HOSTILE, delivered_ms=None)
    well = ReceiverStatusRow(receiver="chat", down_since_ms=None, last_error=None, delivered_ms=5)
    counts = {("ops", "pending"): 1_200, ("ops", "overtaken"): 3, ("chat", "delivered"): 7}
    ((level, text),) = told(observed({}, n_notifications=counts, receivers=[well, down]))
    assert level is Level.ERROR
    assert text.startswith("ops has taken no notification since 1970-01-01 00:00:00")
    assert "1,200 wait" in text
    assert "\n" not in text
    frame = receivers_frame(counts, ["ops", "chat"], [well, down]).set_index("Receiver")
    assert frame.loc["ops", "State"].startswith("down since 1970")
    assert (frame.loc["ops", "Overtaken"], frame.loc["chat", "State"]) == (3, "")


# --------------------------------------------------------------------- tables


def test_sources_that_were_never_heard_of_are_listed() -> None:
    frame = sources_frame([source_row()], ["job_history", "yarn_rest"], WATCHED).set_index("Source")
    assert frame.loc["yarn_rest", "State"] == "well"
    assert frame.loc["yarn_rest", "Behind"] == "5 s"
    assert frame.loc["job_history", "State"] == "not heard of yet"


@pytest.mark.parametrize(
    ("changes", "state"),
    [({"left_out": True}, "left out"), ({"n_failed_in_a_row": 1}, "fails"), ({"watermark_ms": FOREVER_MS}, "complete")],
)
def test_states_of_sources(changes: dict[str, Any], state: str) -> None:
    assert sources_frame([source_row(**changes)], [], WATCHED)["State"][0] == state


def test_engine_shares_and_load() -> None:
    frame = engine_frame({"a": {"seconds": 1.0, "n_events": 5}, "b": {"seconds": 3.0}}, 100_000).set_index("Query")
    assert list(frame.index) == ["b", "a"]
    assert (frame.loc["b", "Share"], frame.loc["b", "Load"], frame.loc["a", "Events"]) == (0.75, 0.03, 5)
    assert engine_frame({"a": {}}, None)["Share"][0] == 0.0


@pytest.mark.parametrize(
    ("n_bytes", "text"), [(None, "—"), (5, "5 B"), (1536, "1.5 KiB"), (3 * 2**30, "3.0 GiB"), (2**52, "4.0 PiB")]
)
def test_sizes(n_bytes: int | None, text: str) -> None:
    assert size(n_bytes) == text


def test_a_database_is_named_without_its_password(installation: Installation) -> None:
    url = "postgresql+psycopg://ops:secret@db.example:5432/clustercep"
    configured = installation.settings.model_copy(update={"store": StoreSettings.model_validate({"url": url})})
    assert database(configured) == ("postgresql: clustercep on db.example", None)


def test_size_of_the_sqlite_file_and_of_a_folder(installation: Installation, tmp_path: Path) -> None:
    installation.store().close()
    name, n_bytes = database(installation.settings)
    assert name.startswith("SQLite: ")
    assert n_bytes is not None
    assert n_bytes >= (tmp_path / "data" / "clustercep.db").stat().st_size
    folder = tmp_path / "some"
    (folder / "deep").mkdir(parents=True)
    (folder / "a").write_bytes(b"12")
    (folder / "deep" / "b").write_bytes(b"345")
    assert folder_bytes(folder) == 5
    assert folder_bytes(tmp_path / "none") is None


# ----------------------------------------------------------------------- page


def notification(key: str, status: str, receiver: str = "ops") -> NotificationRow:
    return NotificationRow(
        idempotency_key=key, receiver=receiver, sequence=ord(key[-1]), alert_id="0" * 32, state="firing", revision=1,
        fingerprint=key,
        payload={}, status=status, n_attempts=8, next_attempt_ms=0, last_error=HOSTILE, created_ms=0, finished_ms=0,
    )  # fmt: skip


def fill(place: Installation) -> None:
    """Everything that the page shows, with hostile texts."""
    with place.store() as store, store.transaction() as writer:
        writer.progress.put_process_status(
            {
                "version": HOSTILE, "pid": 7, "started_ms": 0, "n_steps": 3, "step_seconds": 0.2, "memory_bytes": 2**20,
                "queues": {"waiting": 3}, "queries": {HOSTILE: {"seconds": 1.0}}, "reload_problems": [HOSTILE],
            },
            1_000,
        )  # fmt: skip
        writer.progress.put_source_status([replace(WELL, last_error=HOSTILE, n_failed_in_a_row=1)])
        writer.progress.add_statistics({("events", "yarn_rest", "MapEnd"): 5, ("late", "yarn_rest", "MapEnd"): 1})
        writer.problems.add([NewProblem("job_history", HOSTILE, "rejected", HOSTILE)], 1_000)
        writer.problems.add([NewProblem("yarn_rest", "http://rm", "http_error", "no")], 2_000)
        writer.progress.add_late_events(
            [
                LateEventRow(
                    event_id="e",
                    source="yarn_rest",
                    type="MapEnd",
                    t_lo_ms=1_000,
                    t_hi_ms=1_000,
                    watermark_ms=4_000,
                    attributes={"host": HOSTILE},
                    origin=HOSTILE,
                    seen_ms=1,
                )
            ]
        )
        writer.silences.add(
            SilenceRow(
                matchers=[["alertname", "=", HOSTILE]], until_ms=2**45, created_ms=0, reason=HOSTILE, actor=HOSTILE
            )
        )
        writer.session.add(
            AlertRow(
                id="0" * 32,
                query="slow",
                query_hash="h",
                key={},
                key_text="{}",
                severity="info",
                state="firing",
                open=True,
                start_ms=0,
                end_ms=0,
                group_gap_ms=0,
                revision=1,
                n_matches=1,
                n_matches_exact=True,
                best_confidence=1.0,
                values={},
                summary="",
                runbook="",
                best_n_events=0,
                lane="live",
                merged_into=None,
                created_ms=0,
                updated_ms=0,
                resolved_ms=None,
            )
        )
        for row in (notification("k1", "failed"), notification("k2", "failed"), notification("k3", "pending")):
            writer.session.add(row)


PARTS = ("Sources", "Problems", "Engine", "Notifications", "Storage")


@pytest.mark.parametrize("part", PARTS)
def test_an_empty_store_says_what_to_do(installation: Installation, part: str) -> None:
    page = view("health", part=part)
    assert "clustercep run" in page.warning[0].value
    assert len(page.info) >= 1
    assert not page.error


@pytest.mark.parametrize("part", PARTS)
def test_hostile_texts_are_inert(installation: Installation, part: str) -> None:
    fill(installation)
    installation.log(attempts(3))
    page = view("health", part=part)
    assert "<script>" not in texts(page)
    assert "](http" not in texts(page)
    cells = [str(cell) for table in page.dataframe for cell in table.value.to_numpy().ravel()]
    for text in (*cells, texts(page)):
        assert "\u202e" not in text
    for cell in cells:
        assert "\n" not in cell
        assert len(cell) <= 1_000


def test_problems_are_filtered_by_address(installation: Installation) -> None:
    fill(installation)
    page = view("health", part="Problems")
    assert list(page.dataframe[0].value["Source"]) == ["yarn_rest", "job_history"]
    sent = view("health", part="Problems", source="job_history")
    assert list(sent.dataframe[0].value["Kind"]) == ["rejected"]
    none = view("health", part="Problems", source="job_history", kind="http_error")
    assert "Choose others" in none.info[-1].value


def test_an_odd_part_is_the_first_one(installation: Installation) -> None:
    fill(installation)
    assert "Watermark" in view("health", part=HOSTILE).dataframe[0].value


def test_given_up_notifications_are_sent_again(installation: Installation) -> None:
    fill(installation)
    page = view("health", part="Notifications")
    page.button(key="health-send-all").click()
    rerun(page)
    with installation.store() as store:
        rows = store.notifications()
        assert {row.idempotency_key: (row.status, row.n_attempts) for row in rows} == {
            "k1": ("pending", 0), "k2": ("pending", 0), "k3": ("pending", 8),
        }  # fmt: skip
    assert "Send all" not in "".join(button.label for button in page.button)


def test_only_what_nothing_has_overtaken_is_offered(installation: Installation) -> None:
    fill(installation)
    with installation.store() as store, store.transaction() as writer:
        writer.outbox.record_attempt("k2", "ops", status="delivered", error=None, next_attempt_ms=0, now_ms=1)
        writer.session.add(notification("k4", "failed"))
        first = writer.session.get(NotificationRow, ("k1", "ops"))
        assert first is not None
        first.fingerprint = "k2"
    page = view("health", part="Notifications")
    assert page.button(key="health-send-all").label == "Send all 1 again"
    assert "1 of them stay given up" in texts(page)
    page.button(key="health-send-all").click()
    rerun(page)
    with installation.store() as store:
        assert {row.idempotency_key: row.status for row in store.notifications()} == {
            "k1": "failed", "k2": "delivered", "k3": "pending", "k4": "pending",
        }  # fmt: skip
    assert page.button(key="health-send-all").disabled


def test_storage_tells_span_and_sizes(installation: Installation) -> None:
    installation.log(attempts(3))
    page = view("health", part="Storage")
    assert "SQLite" in texts(page)
    metrics = {metric.label: metric.value for metric in page.metric}
    assert metrics["Events cover"] == "2.2 s"
    assert metrics["Event log"].endswith("iB")


def test_a_damaged_file_of_the_event_log_is_named(installation: Installation) -> None:
    installation.log(attempts(3))
    folder = installation.folder / "data" / "events"
    (file,) = folder.iterdir()
    (folder / file.name.replace("live", "history")).write_bytes(b"PAR1 no columns PAR1")
    page = view("health", part="Storage")
    assert "history" in page.warning[-1].value
    assert {metric.label: metric.value for metric in page.metric}["Events cover"] == "2.2 s"
    assert "left out: 1" in texts(view("editor", name="slow"))


def test_a_store_that_cannot_be_read_is_explained(installation: Installation) -> None:
    installation.store().close()
    (installation.folder / "data" / "clustercep.db").write_bytes(b"no database" * 1_000)
    page = view("health")
    shown = texts(page)
    assert "cannot be" in page.error[0].value
    for words in ("Nothing is lost", "What to check", "store.directory"):
        assert words in shown
    assert "Traceback" not in shown
