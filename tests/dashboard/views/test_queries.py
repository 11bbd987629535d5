"""The list of queries and the page of one: states, figures, parameters, what was found, hostile names."""

from __future__ import annotations

from typing import Any

import pytest

from app.store.models import AlertRow, ReportRow
from dashboard.queries.list import QueryState, is_about_trends, known_queries
from tests.dashboard.query_fixtures import (
    HOSTILE,
    TIMES,
    Installation,
    copied,
    in_address,
    installation,
    lists,
    rerun,
    tables,
    texts,
    view,
)

__all__ = ["installation"]  # a fixture


def alert(number: int, query: str = "slow", **changes: Any) -> AlertRow:
    """An alert of the store."""
    values: dict[str, Any] = {
        "id": f"{number:032x}", "query": query, "query_hash": "h", "key": {}, "key_text": "{}", "severity": "warning",
        "state": "resolved", "open": False, "start_ms": number * 1_000, "end_ms": number * 1_000 + 500,
        "group_gap_ms": 0, "revision": 1, "n_matches": 1, "n_matches_exact": True, "best_confidence": 1.0,
        "values": {}, "summary": f"summary {number}", "runbook": "", "best_n_events": 1, "lane": "live",
        "merged_into": None, "created_ms": 0, "updated_ms": 0, "resolved_ms": None,
    }  # fmt: skip
    return AlertRow(**{**values, **changes})


def report(number: int, **values: Any) -> ReportRow:
    """A row of a report."""
    return ReportRow(
        id=f"{number:032x}", query="times", query_hash="h", key={}, key_text="{}", start_ms=number * 1_000,
        end_ms=number * 1_000, confidence=1.0, n_matches=1, n_matches_exact=True, values=values, summary="",
        lane="live", created_ms=0,
    )  # fmt: skip


def fill(place: Installation, *rows: AlertRow | ReportRow) -> None:
    with place.store() as store, store.transaction() as writer:
        writer.session.add_all(rows)


# -------------------------------------------------------------------- reading


def test_active_disabled_and_broken_queries_are_all_there(installation: Installation) -> None:
    installation.query("odd", "PATTERN SEQ(Nothing a) WHERE skip_till_next_match WITHIN 1 s REPORT 'x'")
    installation.configure("  disabled: [times, gone]\n  parameters: {slow: {least: 2 min}}")
    known = known_queries(installation.settings)
    states = {query.name: query.state for query in known.queries}
    assert states == {"odd": QueryState.BROKEN, "slow": QueryState.ACTIVE, "times": QueryState.DISABLED}
    slow, odd, times = known.named("slow"), known.named("odd"), known.named("times")
    assert slow is not None
    assert (slow.severity, slow.strategy, slow.within_ms) == ("warning", "skip_till_next_match", 3_600_000)
    assert (slow.defaults, slow.configured, slow.in_use) == ({"least": 1_000}, {"least": "2 min"}, {"least": 120_000})
    assert times is not None
    assert times.severity == "report"
    assert odd is not None
    assert odd.problem is not None
    assert "Nothing" in odd.problem
    assert any("gone" in problem for problem in known.problems)
    assert not any("Nothing" in problem for problem in known.problems)


def test_a_query_without_a_runbook_paragraph_runs_and_is_told_of(installation: Installation) -> None:
    installation.query("bare", "PATTERN SEQ(MapEnd a) WHERE skip_till_next_match WITHIN 1 s REPORT 'x'")
    known = known_queries(installation.settings)
    bare = known.named("bare")
    assert bare is not None
    assert bare.state is QueryState.ACTIVE
    assert any("no runbook paragraph" in problem for problem in known.problems)


# ------------------------------------------------------------------- the list


def test_which_are_about_trends(installation: Installation) -> None:
    installation.query("rising", "PATTERN MapEnd+ m GROUP BY host WITHIN 1 s SLIDE 1 s RETURN host, COUNT(*) AS n")
    installation.query("broken", "PATTERN")
    assert [name for name in ("slow", "rising", "broken", "gone") if is_about_trends(name)] == ["rising"]
    installation.query("rising", TIMES)
    assert not is_about_trends("rising"), "files are read again when they have changed"


def test_list_with_figures(installation: Installation) -> None:
    fill(installation, alert(1), alert(2, state="firing", open=True), alert(3, merged_into="0" * 32), report(1))
    with installation.store() as store, store.transaction() as writer:
        writer.progress.add_statistics({("matches", "live", "slow"): 5, ("matches", "history", "slow"): 2})
        writer.progress.put_process_status(
            {"queries": {"slow": {"n_events": 70, "n_rows": 5, "n_kept": 3, "n_rejected": 0, "seconds": 1.5}}}, 1
        )
    frame = view("queries").dataframe[0].value.set_index("Query")
    slow = frame.loc["slow"]
    assert (slow["Open"], slow["Alerts"], slow["Matches"], slow["Events"]) == (1, "2", 7, 70)
    assert (slow["Engine time"], slow["State"], slow["Kind"]) == ("1.5 s", "runs", "warning")
    assert frame.loc["times", "Report rows"] == 1
    assert frame.loc["times", "Kind"] == "report"


def test_a_broken_query_is_told_with_the_engines_words(installation: Installation) -> None:
    installation.query("odd", "PATTERN SEQ(MapEn a) WHERE skip_till_next_match WITHIN 1 s REPORT 'x'")
    page = view("queries")
    assert "odd" in page.error[0].value
    assert "did you mean MapEnd" in copied(page)[0]
    assert len(page.dataframe[0].value) == 3


def test_no_query_says_what_to_do(installation: Installation) -> None:
    for name in ("slow", "times"):
        (installation.folder / "queries" / f"{name}.cep").unlink()
    assert "Write one in the editor" in texts(view("queries"))


def test_a_removed_folder_is_a_message(installation: Installation) -> None:
    installation.configure("  disabled: []")
    (installation.folder / "queries").rename(installation.folder / "elsewhere")
    assert "no folder" in texts(view("queries"))


# ------------------------------------------------------------------ one query


def test_text_parameters_runbook_and_plan(installation: Installation) -> None:
    installation.configure("  parameters: {slow: {least: 2 min}}")
    page = view("query", name="slow")
    assert page.title[0].value == "slow"
    shown = texts(page)
    for words in ("A map attempt that took long", "Look at the host.", "run-based NFAb", "No alert of this query yet"):
        assert words in shown
    assert tables(page) == [{"Parameter": ["least"], "Default": ["1 s"], "Configured": ["2 min"], "In use": ["2 min"]}]


@pytest.mark.parametrize("name", ["", "gone", HOSTILE])
def test_an_unknown_query_says_what_to_do(installation: Installation, name: str) -> None:
    page = view("query", name=name)
    assert "Choose one" in page.info[0].value
    assert "<script>" not in texts(page)


def test_disabled_and_broken_are_told(installation: Installation) -> None:
    installation.configure("  disabled: [times]")
    installation.query("odd", "PATTERN")
    assert "Switched off" in view("query", name="times").warning[0].value
    broken = view("query", name="odd")
    assert "cannot run" in broken.error[0].value
    assert "odd" in broken.title[0].value


def test_alerts_are_paged_by_address(installation: Installation) -> None:
    fill(installation, *(alert(number) for number in range(60)))
    page = view("query", name="slow")
    assert alerts_of(page) == [f"summary {i}" for i in range(59, 34, -1)]
    page.button(key="alerts-older").click()
    rerun(page)
    assert alerts_of(page) == [f"summary {i}" for i in range(34, 9, -1)]
    sent = view("query", name="slow", alerts=in_address(page, "alerts"))
    assert alerts_of(sent) == alerts_of(page)
    page.button(key="alerts-older").click()
    assert alerts_of(rerun(page)) == [f"summary {i}" for i in range(9, -1, -1)]
    page.button(key="alerts-newer").click()
    assert alerts_of(rerun(page)) == [f"summary {i}" for i in range(34, 9, -1)]


def alerts_of(page: Any) -> list[str]:
    return [row["title"] for shown in lists(page) for row in shown["rows"]]


def test_which_of_how_many_alerts_are_shown(installation: Installation) -> None:
    fill(installation, *(alert(number) for number in range(60)))
    page = view("query", name="slow")
    assert "1 to 25 of 60" in texts(page)
    page.button(key="alerts-older").click()
    assert "26 to 50 of 60" in texts(rerun(page))
    assert lists(page)[0]["rows"][0]["url"] == f"alert?id={alert(34).id}"


def test_report_rows_are_paged_and_link_to_jobs(installation: Installation) -> None:
    fill(installation, *(report(number, job_id=f"job_1_{number}", period_ms=number) for number in range(30)))
    first = view("query", name="times").dataframe[0].value
    assert list(first["period_ms"]) == [f"{n} ms" for n in range(29, 4, -1)]
    assert first["Job"][0] == "job?id=job_1_29"
    second = view("query", name="times", page="1").dataframe[0].value
    assert list(second["period_ms"]) == [f"{n} ms" for n in (4, 3, 2, 1, 0)]
    assert "no more rows" in texts(view("query", name="times", page="7"))


@pytest.mark.parametrize(
    "place", [{"alerts": "x"}, {"alerts": "after." + "9" * 30 + ".a"}, {"alerts": HOSTILE}, {"page": "-1"}]
)
def test_an_odd_place_in_the_address_is_the_first_page(installation: Installation, place: dict[str, str]) -> None:
    fill(installation, alert(1))
    assert alerts_of(view("query", name="slow", **place)) == ["summary 1"]


def test_hostile_text_of_alerts_and_reports_is_inert(installation: Installation) -> None:
    fill(installation, alert(1, summary=HOSTILE), report(1, job_id=HOSTILE, user=HOSTILE))
    (summary,) = alerts_of(view("query", name="slow"))
    row = view("query", name="times").dataframe[0].value.iloc[0]
    for text in (summary, row["job_id"], row["user"]):
        assert "\n" not in text
        assert "\u202e" not in text
        assert len(text) <= 300
    assert row["Job"] is None
