"""Rows about trends through the live path: windows become episodes, groups keys, and the events are shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import engine
from app.alerting.catalog import QueryInfo
from app.alerting.recording.found import found_in
from app.alerting.recording.options import AlertingOptions
from app.alerting.recording.set_aside import from_table, to_table
from app.live.assembly import _is_of_jobs
from app.live.recent import RecentEvents
from app.queries.loading import describe
from app.store import open_store
from tests.app.alerting_fixtures import receiver
from tests.app.live.test_pipeline import BOUNDARIES, Killed, content, without_polls
from tests.app.pipeline_fixtures import SCHEMA, Process, Script, batch, event, start
from tests.new_store import placed

TEXT = """
PATTERN MapEnd+ m
WHERE   m.period_ms < NEXT(m).period_ms
GROUP BY host
WITHIN  40 SLIDE 20
HAVING  COUNT(*) >= 20
RETURN  host, COUNT(*) AS n, MAX(m.period_ms) AS longest
ALERT   warning '{host}: {n} rising, {longest.max} at most'
SHOW    MAX n WITH (longest)
GROUP_GAP 5
"""
QUERY = engine.compile_query(TEXT, SCHEMA, {}, name="rising")
N_EVENTS = 30


def scripts() -> list[Script]:
    """On w1 mappers take longer and longer from 30 to 60; on w2 they do not."""
    rows = []
    for n in range(N_EVENTS):
        t_ms = 4 * n + 1
        rising = t_ms if 30 < t_ms < 60 else 5
        rows.append((t_ms + 2, event(f"w1-{n}", t_ms, task_id=f"a{n}", host="w1", period_ms=rising)))
        rows.append((t_ms + 2, event(f"w2-{n}", t_ms + 1, task_id=f"b{n}", host="w2", period_ms=100 - n)))
    return [Script("yarn_rest", rows, 3)]


def info() -> QueryInfo:
    return describe(QUERY, "Look at the host.", 5)


def process(store: Any, folder: Path, now_ms: int = 0, **options: Any) -> Process:
    return start(
        store,
        folder,
        scripts(),
        now_ms=now_ms,
        alerting=AlertingOptions({"rising": info()}, {"ops": receiver()}),
        recent=RecentEvents({"MapEnd": 40}),
        matcher=engine.Engine([QUERY], SCHEMA),
        **options,
    )


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("whole")
    with open_store(f"sqlite:///{folder / 'whole.db'}", durable=False) as store:
        process(store, folder / "whole").run(0, 250)
        return content(store, folder / "whole")


def test_an_alert_tells_windows_group_values_and_events(tmp_path: Path) -> None:
    with open_store(f"sqlite:///{tmp_path / 'store.db'}", durable=False) as store:
        process(store, tmp_path / "files").run(0, 250)
        (found,) = store.alerts()
        details = store.alert(found.id)
        assert details is not None
        alert = details.alert
        # Windows (0, 40], (20, 60] and (40, 80]: 35, 511 and 36 trends; elsewhere an event is one alone, 10 at most.
        assert (alert.start_ms, alert.end_ms, alert.state, alert.key) == (0, 80, "resolved", {"host": "w1"})
        # In (20, 60]: three of 5, then seven that rise: 2^7 - 1 of these alone, three alone, 3 * (2^7 - 1) of both.
        assert alert.values == {"host": "w1", "n": 127 + 3 + 3 * 127, "longest": 57}
        assert alert.summary == "w1: 511 rising, 57 at most"
        assert alert.labels["host"] == "w1"
        assert alert.best_n_events == 10
        assert [row.event_id for row in details.evidence] == [f"w1-{n}" for n in range(5, 15)]
        assert {row.type for row in details.evidence} == {"MapEnd"}
        assert alert.n_matches == 3
        assert alert.onset_ms == 40
        assert {n.receiver for n in store.notifications()} == {"ops"}


@pytest.mark.in_turn(of=2)
@pytest.mark.parametrize("name", BOUNDARIES)
def test_a_kill_at_any_boundary_changes_nothing(tmp_path: Path, expected: dict[str, Any], name: str) -> None:
    for at_step in (4, 7):
        folder = tmp_path / str(at_step)
        folder.mkdir()
        placed(folder / "store.db")
        left = at_step

        def boundary(reached: str) -> None:
            nonlocal left
            if reached == name:
                if left == 0:
                    raise Killed
                left -= 1

        with open_store(f"sqlite:///{folder / 'store.db'}", durable=False) as store, pytest.raises(Killed):
            process(store, folder / "files", boundary=boundary).run(0, 1_000)
        with open_store(f"sqlite:///{folder / 'store.db'}", durable=False) as store:
            process(store, folder / "files", 10 * at_step).run(10 * at_step, 250)
            assert without_polls(content(store, folder / "files")) == without_polls(expected)


def test_the_number_of_events_is_set_aside_with_the_sample() -> None:
    rows = [event(f"e{n}", n + 1, task_id=f"t{n}", host="w1", period_ms=n) for n in range(39)]
    matches = engine.Engine([QUERY], SCHEMA).process(batch(*rows), 1_000)
    queries = {"rising": info()}
    found = found_in(matches, queries)
    (episode,) = from_table(to_table(found, queries, 8)).episodes
    seen = episode.extremes.most[next(iter(episode.extremes.most))]
    shown = max(episode.extremes.all(), key=lambda seen: seen.n_events)
    assert shown.n_events == 39
    assert len(shown.evidence(8)) == 8
    assert seen.digest


def test_histories_of_jobs_are_judged_by_trends_of_jobs_alone() -> None:
    """The events of one job are not those of a host."""
    of_jobs = engine.compile_query(TEXT.replace("GROUP BY host", "GROUP BY host, job_id"), SCHEMA, {}, name="rising")
    assert _is_of_jobs(of_jobs)
    assert not _is_of_jobs(QUERY)
    keyed = "PATTERN MapEnd+ m WHERE [job_id] GROUP BY host WITHIN 40 SLIDE 20 RETURN host, COUNT(*) AS n"
    assert not _is_of_jobs(engine.compile_query(keyed, SCHEMA, {}, name="keyed")), "it adds over the jobs of a host"


@pytest.mark.parametrize("exact", ["", "EXACT"])
def test_numbers_beyond_all_doubles_are_compared(exact: str) -> None:
    rows = [event(f"e{n}", n + 1, task_id=f"t{n}", host="w1", period_ms=n) for n in range(2_100)]
    text = TEXT.replace("WITHIN  40 SLIDE 20", f"WITHIN 2000 SLIDE 1000 {exact}")
    query = engine.compile_query(text, SCHEMA, {}, name="rising")
    queries = {"rising": describe(query, "x", 5)}
    (episode,) = found_in(engine.Engine([query], SCHEMA).process(batch(*rows), 10_000), queries).episodes
    most = {name: seen.values[name] for (aspect, name), seen in episode.extremes.most.items() if aspect.value == "MAX"}
    largest = 2**2000 - 1  # of the window that holds most
    assert most["n"] == str(largest) if exact else str(most["n"]).endswith("e+602")


def test_an_alert_over_uncertain_times_says_that_its_numbers_are_expected() -> None:
    """Each of two events at 1, 2 or 3 ms, the second one higher: a pair where the first comes first, in three worlds of
    nine."""
    text = TEXT.replace("COUNT(*) >= 20", "COUNT(*) >= 2")
    query = engine.compile_query(text, SCHEMA, {}, name="rising")
    rows = [
        {**event(f"e{n}", 1, task_id=f"t{n}", host="w1", period_ms=n), "t_hi_ms": 3, "clock_id": f"c{n}"}
        for n in range(2)
    ]
    queries = {"rising": describe(query, "x", 5)}
    (episode,) = found_in(engine.Engine([query], SCHEMA).process(batch(*rows), 1_000), queries).episodes
    assert episode.expectation == "expected"
    assert episode.extremes.last.values["n"] == pytest.approx(2 + 3 / 9)
