"""The page of one job."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from dashboard.jobs.alerts import FIRST_ALERTS
from dashboard.views import job as job_view
from tests.dashboard.job_fixtures import (
    DONE,
    HOSTILE_JOB,
    RUNNING_JOB,
    alert_row,
    at,
    batch,
    job_rows,
    of_attempt,
)
from tests.dashboard.query_fixtures import (
    HOSTILE,
    Installation,
    facts,
    installation,
    lists,
    opened,
    rerun,
    tables,
    texts,
    view,
)

__all__ = ["installation"]  # a fixture


def charts(page: AppTest) -> list[dict[str, Any]]:
    """The specifications of the page's charts."""
    return [json.loads(element.proto.spec) for element in page.get("vega_lite_chart")]


def table_with(page: AppTest, column: str) -> dict[str, list[str]]:
    """The small table that has this column."""
    return next(found for found in tables(page) if column in found)


def test_a_finished_job(installation: Installation) -> None:
    """Facts, its straggler by the rule, curves, queued data and fetches."""
    installation.log(batch(job_rows()))
    page = view("job", id=DONE)
    said = texts(page)
    assert page.title[0].value == "count"
    assert "✓ succeeded" in said
    assert facts(page)["Duration"] == "51 s"
    assert "1 straggler." in said
    assert "at most 3.9 KiB" in said
    assert [found.value for found in page.subheader] == [
        "Attempts by host",
        "Attempts begun and finished",
        "Queued data",
        "Fetches by source host",
        "Life times",
        "Heuristics",
    ]
    assert len(charts(page)) == 6
    assert not page.dataframe, "long tables are made when they are opened"
    attempts = opened(page, "attempts-table").dataframe[0].value
    assert attempts["Straggler"].tolist() == ["by the rule", "", "", "", ""]
    assert attempts["Duration"].tolist() == ["40 s", "6 s", "5.5 s", "5 s", "5 s"]
    assert attempts["Progress"].tolist() == [1.0] * 5
    fetched = table_with(opened(page, "fetches"), "Served by")
    assert fetched["Size"] == ["3.9 KiB"]
    assert len(fetched["Served by"][0]) <= 80


def test_an_alert_marks_its_attempt(installation: Installation) -> None:
    """The attempt that an alert of a straggler query names: no other of its task, and for no other query's alert."""
    sibling = of_attempt(2_000, "MapEnd", DONE, "m", 1, host="node1", status="KILLED", period_ms=500)
    sibling["attempt_id"] = sibling["attempt_id"][:-1] + "1"
    installation.log(batch([*job_rows(), sibling]))
    marked = {"attempt_id": f"attempt_{DONE[4:]}_m_000001_0", "task_id": f"task_{DONE[4:]}_m_000001"}
    with installation.store() as store, store.transaction() as writer:
        query = {"query": "mapper-straggler-running"}
        writer.alerts.add(alert_row("a1", job_id=DONE, values=marked, summary="<script>slow</script>", **query))
        writer.alerts.add(alert_row("a2", job_id=DONE, key={"task_id": f"task_{DONE[4:]}_m_000002"}, **query))
        other = {"attempt_id": f"attempt_{DONE[4:]}_m_000000_0"}
        writer.alerts.add(alert_row("a3", job_id=DONE, values=other, query="container-killed"))
        writer.alerts.add(alert_row("a4", job_id=RUNNING_JOB, values=other, **query))
        third = {"attempt_id": f"attempt_{DONE[4:]}_m_000003_0"}
        writer.alerts.add(alert_row("a5", job_id=DONE, values=third, query="own-straggler"))
    page = view("job", id=DONE)
    [alerts] = lists(page)
    assert sorted(row["title"] for row in alerts["rows"]) == ["<script>slow</script>", "slow", "slow", "slow"]
    assert {row["url"] for row in alerts["rows"]} == {f"alert?id=a{n}" for n in (1, 2, 3, 5)}
    attempts = opened(page, "attempts-table").dataframe[0].value.set_index("Attempt")["Straggler"]
    assert {str(name)[-10:]: why for name, why in attempts.items() if why} == {
        "m_000001_0": "alert mapper-straggler-running",
        "m_000003_0": "alert own-straggler and by the rule",
    }


def pulled(n: int, source: str, period_ms: int) -> dict[str, Any]:
    """The n-th fetch of the finished job's reducer."""
    given = {"source_host": source, "bytes": 1_000, "period_ms": period_ms}
    return of_attempt(46_000 + n, "DataPull", DONE, "r", 0, **given)


def test_fetches_come_first_where_they_explain_an_alert(installation: Installation) -> None:
    """The host that the alert names as source, in words and on top, however long others' fetches took."""
    slow = [pulled(n, "node0", 400 + 200 * n) for n in range(3)]
    installation.log(batch([*job_rows(), *slow, pulled(4, "node1", 10), pulled(5, "node1", 20)]))
    with installation.store() as store, store.transaction() as writer:
        values = {"source_host": "node0", "period_ms": 800}
        writer.alerts.add(alert_row("a1", job_id=DONE, values=values, query="data-pull-straggler"))
        writer.alerts.add(alert_row("a2", job_id=DONE, values={"source_host": "node7"}, query="data-pull-straggler"))
    page = view("job", id=DONE)
    headings = [found.value for found in page.subheader]
    assert headings.index("Fetches by source host") < headings.index("Attempts by host")
    assert headings.count("Fetches by source host") == 1
    told = texts(page).replace("\\", "")
    # 600 of 400, 600, 800; 20 of 10, 20 and the 900 of another host
    assert "**node0** (alert data-pull-straggler) served 3 fetches, in the median in 600 ms; " in told
    assert "the other hosts 3, in 20 ms: 30.0 times as long." in told
    assert "node7" not in told
    table = table_with(page, "Served by")
    assert table["Served by"][0] == "▶ node0"
    assert table["Longest"][:2] == ["800 ms", "900 ms"]
    fetches = charts(page)[0]
    assert fetches["layer"][0]["encoding"]["y"]["scale"]["domain"][0] == "▶ node0"


def test_many_alerts_leave_room_for_the_job(installation: Installation) -> None:
    """The latest first; those before on demand."""
    installation.log(batch(job_rows()))
    n = FIRST_ALERTS + 3
    with installation.store() as store, store.transaction() as writer:
        for i in range(n):
            writer.alerts.add(alert_row(f"a{i:02}", job_id=DONE, start_ms=1_000 * i, summary=f"the {i}th"))
    page = view("job", id=DONE)
    first, before = lists(page)
    assert [row["title"] for row in first["rows"]] == [f"the {n - 1 - i}th" for i in range(FIRST_ALERTS)]
    assert [row["title"] for row in before["rows"]] == ["the 2th", "the 1th", "the 0th"]
    assert next(found.label for found in page.expander) == "3 earlier ones"


def test_curves_have_alerts_and_thresholds(installation: Installation) -> None:
    """A threshold far above the peak is told, not drawn."""
    query = """PARAMETERS max_queued_bytes = {limit}
PATTERN SEQ(JobStart a, DataIO+ b[])
WHERE   skip_till_next_match {{ [job_id] AND sum(b[].size_bytes) > :max_queued_bytes }}
WITHIN  1 day
RETURN  a.job_id, sum(b[].size_bytes) AS queued_bytes
ALERT   warning 'job {{job_id}}: {{queued_bytes}}'
"""
    for name, limit in (("near", 5_000), ("far", 10_000_000)):
        installation.query(name, query.format(limit=limit))
    installation.log(batch(job_rows()))
    with installation.store() as store, store.transaction() as writer:
        writer.alerts.add(alert_row("a1", job_id=DONE, query="near"))
    page = view("job", id=DONE)
    told = texts(page).replace("\\", "")
    assert "The dashed line is the threshold of near (4.9 KiB)." in told
    assert "The threshold of far (9.5 MiB) lies far above." in told
    assert "Dotted lines are where this job's alerts began (◆ warning)." in told
    rules = [
        [layer["encoding"] for layer in chart["layer"] if isinstance(layer.get("mark"), dict)
         and layer["mark"]["type"] == "rule"]
        for chart in charts(page)
    ]  # fmt: skip
    assert [sorted(place for rule in found for place in rule if place in ("x", "y")) for found in rules[1:]] == [
        ["x"], ["x", "y"], ["x"], ["x"], []
    ]  # fmt: skip


def test_which_queries_are_of_stragglers_is_configured(installation: Installation) -> None:
    installation.configure('dashboard: {straggler_queries: ["slow-*"]}')
    installation.log(batch(job_rows()))
    with installation.store() as store, store.transaction() as writer:
        for n, query in enumerate(("slow-mapper", "mapper-straggler-running")):
            values = {"attempt_id": f"attempt_{DONE[4:]}_m_00000{n}_0"}
            writer.alerts.add(alert_row(f"a{n}", job_id=DONE, values=values, query=query))
    marks = opened(view("job", id=DONE), "attempts-table").dataframe[0].value["Straggler"]
    assert sorted(why for why in marks if why) == ["alert slow-mapper", "by the rule"]


def test_a_running_job_is_drawn_up_to_what_is_known(installation: Installation) -> None:
    installation.log(batch(job_rows()))
    page = view("job", id=RUNNING_JOB)
    said = texts(page)
    assert "▶ running" in said
    assert f"read again every {job_view.REFRESH_S} s" in said
    assert "No map output was queued" in said
    attempts = opened(page, "attempts-table").dataframe[0].value
    assert attempts["Status"].tolist() == ["RUNNING"]
    assert attempts["Duration"].tolist() == ["30 s"]


def test_hostile_names_are_text(installation: Installation) -> None:
    """In the title, facts, tables and charts: cut, in one line, without effect."""
    installation.log(batch(job_rows()))
    page = view("job", id=HOSTILE_JOB)
    assert "\\<script\\>" in page.title[0].value
    assert len(page.title[0].value) < 600
    assert all("<script>" not in text.replace("\\<", "") for text in texts(page).splitlines())
    assert "\u202e" not in texts(page)
    assert all("\u202e" not in json.dumps(chart, ensure_ascii=False) for chart in charts(page))
    assert all("<script" not in element.proto.body for element in page.get("html"))
    host = opened(page, "attempts-table").dataframe[0].value["Host"].tolist()[0]
    assert (len(host) <= 60, host.isprintable()) == (True, True)


@pytest.mark.parametrize("job_id", ["job_1_9", "<script>alert(1)</script>", "x" * 10_000, "../../etc", "job\x00"])
def test_an_unknown_job(installation: Installation, job_id: str) -> None:
    installation.log(batch(job_rows()))
    page = view("job", id=job_id)
    warning = page.warning[-1]  # below the one that nobody watches
    assert "store.retention.events" in warning.value
    assert len(warning.value) < 1_000
    assert "<script>" not in warning.value


def test_no_job_named_and_no_log(installation: Installation) -> None:
    assert "Which job" in view("job").info[0].value
    assert "No job" in view("job", id=DONE).warning[-1].value


def test_a_job_without_attempts(installation: Installation) -> None:
    installation.log(batch([at(0, "JobStart", DONE), at(1, "JobEnd", DONE, status="SUCCEEDED")]))
    page = view("job", id=DONE)
    assert "Nothing is known of this job's attempts" in page.info[0].value
    assert charts(page) == []


def test_of_many_attempts_what_is_not_drawn_is_told(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The density counts all; bars are drawn of the stragglers, the failed and the longest."""
    monkeypatch.setattr(job_view, "MAX_BARS", 2)
    failed = of_attempt(3_000, "MapEnd", DONE, "m", 9, host="node1", status="FAILED", period_ms=10)
    installation.log(batch([*job_rows(), failed]))
    page = view("job", id=DONE)
    assert "Of 6 attempts 2 are drawn one by one below" in texts(page)
    assert "Not drawn: 4 succeeded" in texts(page)
    assert len(charts(page)) == 7


def test_seconds_since_the_start(installation: Installation) -> None:
    """The axis counts from the job's launch, as the figures of the paper do."""
    installation.log(batch(job_rows()))
    page = view("job", id=DONE)
    page.segmented_control(key="axis").set_value("since the job's start")
    found = charts(rerun(page))
    x = found[0]["layer"][1]["encoding"]["x"]
    assert x["axis"]["title"] == "Seconds since the job's start"
    assert x["scale"]["domain"] == pytest.approx([-0.51, 51.51])


def test_jobs_are_compared(installation: Installation) -> None:
    """As the address says, in it by their ids; ids of no job are ignored."""
    other = job_rows()
    for row in other:
        row["job_id"] = row["job_id"].replace("_000", "_100")
    installation.log(batch(job_rows() + other))
    page = view("job", id=DONE, compare="job_1700000000000_1001")
    [mappers, _] = charts(page)[-2:]
    assert mappers["layer"][0]["encoding"]["color"]["scale"]["domain"] == [DONE, "job_1700000000000_1001"]
    page.multiselect(key="job-compare").set_value([])
    rerun(page)
    assert charts(page)[-1]["layer"][0]["encoding"]["color"]["scale"]["domain"] == [DONE]
    assert view("job", id=DONE, compare="job_9_9").title[0].value == "count"


def with_counters() -> list[dict[str, Any]]:
    """The finished job with counters and settings: its maps hold 4 GiB and use 256 MiB."""
    group = "org.apache.hadoop.mapreduce.TaskCounter"
    counters = {"PHYSICAL_MEMORY_BYTES": 256 << 20, "GC_TIME_MILLIS": 1, "CPU_MILLISECONDS": 1_000}
    told = json.dumps({group: counters, HOSTILE: {"x": 1}})
    settings = json.dumps({"mapreduce.map.memory.mb": "5120", "mapreduce.reduce.memory.mb": "1024"})
    of_maps = [of_attempt(7_000, "AttemptCounters", DONE, "m", task, counters=told) for task in range(4)]
    return [*job_rows(), *of_maps, at(51_000, "JobSettings", DONE, settings=settings)]


def test_heuristics_of_a_finished_job(installation: Installation) -> None:
    """Severity, value, limit, tasks and advice."""
    installation.log(batch(with_counters()))
    page = view("job", id=DONE)
    found = pd.DataFrame(table_with(page, "Heuristic")).set_index("Heuristic")
    memory = found.loc["mapper-memory"]
    assert memory["Severity"] == "● critical"
    assert memory["Score"] == "16"  # critical, four tasks
    assert memory["Measured"] == "greatest peak by container 0.05; container 5.0 GiB"
    assert memory["Limit passed"] == "≤ 0.3; ≥ 5.0 GiB"
    assert memory["Tasks"].startswith(f"task_{DONE[4:]}_m_000000, ")
    assert found.loc["reducer-memory"]["Severity"] == "? not known"
    assert found.index[0] == "mapper-memory"
    assert found.loc["mapper-time"]["Limit passed"] == ""  # one of two limits, which alone says nothing
    said = texts(page).replace("\\", "")
    assert "mapreduce.map.memory.mb to about 512" in said
    assert "counters of 1 of 1 reduces are not known" in said


def test_heuristics_of_a_job_without_counters_are_not_known(installation: Installation) -> None:
    installation.log(batch(job_rows()))
    page = view("job", id=DONE)
    found = pd.DataFrame(table_with(page, "Heuristic")).set_index("Heuristic")["Severity"]
    assert found["mapper-gc"] == "? not known"
    assert found["mapper-time"] == "✓ none"  # times are known
    assert "sources.job_history.counters" in texts(page).replace("\\", "")
    failed = view("job", id=HOSTILE_JOB)
    assert table_with(failed, "Heuristic")["Heuristic"] == ["exception"]
    running = view("job", id=RUNNING_JOB)
    assert "Heuristics" not in [found.value for found in running.subheader]


def test_a_running_job_is_judged_by_the_tasks_that_are_done(installation: Installation) -> None:
    figures = {"status": "SUCCEEDED", "period_ms": 16 * 60_000, "gc_ms": 30, "cpu_ms": 1_000}
    done = [of_attempt(45_000 + n, "Mapper", RUNNING_JOB, "m", n, **figures) for n in range(10, 13)]
    installation.log(batch([*job_rows(), *done]))
    page = view("job", id=RUNNING_JOB)
    assert "Heuristics so far" in [found.value for found in page.subheader]
    found = pd.DataFrame(table_with(page, "Heuristic")).set_index("Heuristic")
    assert found.loc["mapper-gc"][["Severity", "Score", "Limit passed"]].tolist() == [
        "◑ severe", "9", "≥ 0.03; ≥ 15 min"
    ]  # fmt: skip
    assert not {"mapper-memory", "reducer-gc"} & set(found.index)
    said = texts(page).replace("\\", "")
    assert "it still runs: so far these are findings about the 3 of" in said
