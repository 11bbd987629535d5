"""What is around every page: navigation, login, sidebar, links, times, and a store that is not there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from threading import Event
from typing import Any
from unittest.mock import MagicMock, patch

import pytest
from streamlit.testing.v1 import AppTest

from app.store.api import open_store
from app.store.models import ProcessStatusRow
from dashboard import links, login, main, times
from dashboard import store as dashboard_store
from dashboard.store import AppError, NotFoundError, now_ms, settings
from tests.dashboard.conftest import T0_MS, Raised
from tests.dashboard.query_fixtures import in_address, rerun, texts, view

JOB = "job_1795178134302_0012"
APPLICATION = "application_1795178134302_0012"


def whole() -> AppTest:
    return AppTest.from_file(str(main.ROOT / "dashboard/main.py"), default_timeout=300)


@pytest.fixture
def logged_in(request: pytest.FixtureRequest) -> Iterator[dict[str, Any]]:
    claims = dict(request.param)
    with patch.object(login.st, "user", claims):
        yield claims


# ----------------------------------------------------------------- navigation


def test_every_page_has_a_module_and_its_own_path() -> None:
    assert set(main.pages()) == {spec.name for spec in main.PAGES}
    assert len({spec.icon for spec in main.PAGES}) == len(main.PAGES)


def test_a_defective_page_leaves_the_others_alone(empty: Raised) -> None:
    test = AppTest.from_string(
        "from dashboard import main\nfrom app.errors import AppError\nfrom unittest.mock import MagicMock, patch\n"
        "class Broken:\n    def page(self): raise AppError('the disk <b>burns</b>; put it out')\n"
        "with patch.object(main.importlib, 'import_module', lambda name: Broken()):\n    main.show('alerts')\n"
    )
    assert rerun(test).error[0].value == ("This page cannot be shown. the disk \\<b\\>burns\\<\\/b\\>\\; put it out")


@pytest.mark.parametrize("page", [spec.name for spec in main.PAGES])
def test_no_page_raises_on_an_empty_store(empty: Raised, page: str) -> None:
    assert view(page).title


@pytest.mark.parametrize("page", ["alerts", "alert"])
def test_no_page_raises_on_a_store_that_is_not_one(
    empty: Raised, page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.setenv("CLUSTERCEP_STORE", str(tmp_path / "elsewhere"))
    assert "no store there" in texts(view(page, id="abcdef")).replace("\\", "")
    (tmp_path / "elsewhere/clustercep.db").write_bytes(b"no database at all, but long enough to be one" * 100)
    assert "is damaged" in texts(view(page, id="abcdef"))


@pytest.mark.parametrize("page", ["alerts", "health"])
def test_a_store_that_was_moved_away_is_not_made_anew(empty: Raised, page: str, tmp_path: Path) -> None:
    """The process that waits for its return would take the new one for its own, and begin without a past."""
    empty.store.close()
    (empty.folder / "data").rename(tmp_path / "away")
    assert "there is no database file" in texts(view(page)).replace("\\", "")
    assert not (empty.folder / "data").exists()


def test_mistakes_in_the_settings_are_shown_in_place_of_everything(empty: Raised) -> None:
    empty.configure("dashboard: {port: many}")
    test = rerun(whole())
    assert "dashboard.port" in test.error[0].value.replace("\\", "")
    assert not test.title


# ---------------------------------------------------------------------- login


def test_nothing_is_shown_before_the_login(raised: Raised) -> None:
    raised.configure("dashboard: {login: true}")
    with patch.object(login.st, "user", {"is_logged_in": False}):
        test = rerun(whole())
    assert [found.value for found in test.title] == ["clustercep"]
    assert [found.label for found in test.button] == ["Log in"]
    assert not test.dataframe
    assert not test.sidebar.markdown


def test_a_login_that_is_not_set_up_says_how(raised: Raised) -> None:
    raised.configure("dashboard: {login: true}")
    test = rerun(whole())
    assert "secrets.toml" in test.error[0].value
    assert not test.dataframe
    assert not test.button


@pytest.mark.parametrize(
    ("logged_in", "actor"),
    [
        ({"is_logged_in": True, "name": "Ann\u202e <b>", "email": "ann@x.example"}, "Ann <b>"),
        ({"is_logged_in": True, "name": " ", "email": "ann@x.example"}, "ann@x.example"),
        ({"is_logged_in": True, "sub": "4711"}, "4711"),
        ({"is_logged_in": True}, "somebody who logged in without a name"),
        ({"is_logged_in": False, "name": "Ann"}, "dashboard"),
    ],
    indirect=["logged_in"],
)
def test_who_acts(empty: Raised, logged_in: dict[str, Any], actor: str) -> None:
    empty.configure("dashboard: {login: true}")
    assert login.person().name == actor
    assert login.admitted() is (logged_in["is_logged_in"] is True)


@pytest.mark.parametrize("logged_in", [{"is_logged_in": True, "name": "Ann"}], indirect=True)
def test_without_a_login_nobody_is_somebody(empty: Raised, logged_in: dict[str, Any]) -> None:
    assert login.person().name == "dashboard"


@pytest.mark.parametrize("logged_in", [{"is_logged_in": True, "name": "Ann"}], indirect=True)
def test_the_login_stands_in_the_history(raised: Raised, logged_in: dict[str, Any]) -> None:
    raised.configure("dashboard: {login: true}")
    alert = raised.store.alerts()[0]
    test = view("alert", id=alert.id)
    test.button(key="alert-acknowledge").click()
    rerun(test)
    assert raised.store.alert(alert.id).changes[-1].actor == "Ann"


# -------------------------------------------------------------------- sidebar


def sidebar(raised: Raised, updated_ms: int | None) -> str:
    if updated_ms is not None:
        with raised.store.transaction() as writer:
            writer.session.add(ProcessStatusRow(name="live", updated_ms=updated_ms, value={}))
    test = rerun(AppTest.from_string("from dashboard import sidebar\nsidebar.show()", default_timeout=300))
    return "\n".join(found.value for found in [*test.sidebar.markdown, *test.sidebar.caption])


def test_the_sidebar_counts_what_fires(raised: Raised) -> None:
    shown = sidebar(raised, None)
    assert "**3 firing**" in shown
    assert "1 critical" in shown
    assert "2 warning" in shown
    assert "info" not in shown
    assert "No process has told its state yet" in shown


def test_the_sidebar_knows_a_live_process_from_a_dead_one(empty: Raised) -> None:
    assert "is alive" in sidebar(empty, now_ms() - 5_000)


def test_the_sidebar_says_that_nobody_watches(empty: Raised) -> None:
    shown = sidebar(empty, now_ms() - 3_600_000)
    assert "Nobody watches" in shown
    assert "last wrote 1 h" in shown


# ---------------------------------------------------------------------- links


def test_addresses_are_relative_and_quoted(empty: Raised) -> None:
    assert links.url("alerts") == "alerts"
    assert links.url("alert", id="a&b #", host=None) == "alert?id=a%26b+%23"
    assert links.sent_url("alert", id="ab") == "http://127.0.0.1:8501/alert?id=ab"


def test_links_of_a_job(empty: Raised) -> None:
    assert links.job_links(JOB) == []
    empty.configure(
        "sources: {yarn_rest: {enabled: true, resource_managers: ['http://rm1:8088/', 'http://rm2:8088'], "
        "history_server: 'http://history:19888'}}\n"
        "dashboard: {links: {Grafana: 'https://g.example/?j={job_id}&a={application_id}'}}"
    )
    expected = [
        ("Grafana", f"https://g.example/?j={JOB}&a={APPLICATION}"),
        ("JobHistoryServer", f"http://history:19888/jobhistory/job/{JOB}"),
        ("ResourceManager", f"http://rm1:8088/cluster/app/{APPLICATION}"),
    ]
    assert links.job_links(JOB) == expected
    assert links.job_links(APPLICATION) == expected
    assert links.application_links(APPLICATION) == expected[2:]  # it need not run a job
    assert [links.application_links(no) for no in (JOB, "", f"{APPLICATION}/../x", "application_٣_٣")] == [[]] * 4


@pytest.mark.parametrize("job_id", ["", "job_1", f"{JOB}/../x", f"javascript:{JOB}", f"{JOB}\n", "job_٣_٣"])
def test_what_is_no_job_has_no_links(empty: Raised, job_id: str) -> None:
    empty.configure("dashboard: {links: {Grafana: 'https://g.example/{job_id}'}}")
    assert links.job_links(job_id) == []


@pytest.mark.parametrize("template", ["javascript:alert({job_id})", "https://g.example/{user}", "//g.example"])
def test_templates_of_links_are_checked(empty: Raised, template: str) -> None:
    empty.configure(f"dashboard: {{links: {{Grafana: '{template}'}}}}")
    with pytest.raises(AppError, match=r"dashboard\.links"):
        settings()


# ---------------------------------------------------------------------- times


@pytest.fixture
def berlin() -> Iterator[None]:
    with patch.object(times, "zone", lambda: times.ZoneInfo("Europe/Berlin")):
        yield


def test_times_are_shown_in_the_viewers_zone(berlin: None) -> None:
    assert times.shown(T0_MS) == "2023-11-14 23:13:20"
    assert times.exactly(T0_MS + 7) == "2023-11-14 23:13:20.007"
    assert times.shown(None) == "—"


def test_times_beyond_the_calendar_are_shown_as_its_ends(berlin: None) -> None:
    assert times.shown(2**62).startswith("9999")
    assert times.shown(-(2**62)).startswith("1970")


def test_durations() -> None:
    assert [times.duration(ms) for ms in (0, 999, 61_000, -61_000, None)] == [
        "0 ms", "999 ms", "1 min 1 s", "-1 min 1 s", "—",
    ]  # fmt: skip
    assert times.ago(1_000, 62_000) == "1 min 1 s ago"
    assert times.ago(62_000, 1_000) == "in 1 min 1 s"
    assert times.ago(None, 0) == "never"


PICKER = "from dashboard import times\nimport streamlit as st\nst.text(repr(times.{}))"


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({}, (5, 10)),
        ({"from": "7"}, (7, 10)),
        ({"from": "20", "to": "15"}, (15, 20)),
        ({"from": "-3", "to": "٣"}, (5, 10)),
        ({"from": "1" * 30}, (5, 10)),
    ],
)
def test_a_span_comes_from_the_address(params: dict[str, str], expected: tuple[int, int]) -> None:
    test = AppTest.from_string(PICKER.format("span_picker('p', (5, 10))"))
    for name, value in params.items():
        test.query_params[name] = value
    assert rerun(test).text[0].value == repr(expected)


def test_a_span_goes_into_the_address() -> None:
    test = AppTest.from_string(PICKER.format("open_span_picker('p')"))
    rerun(test).datetime_input[0].set_value(datetime(2023, 11, 14, 22, 13))
    assert rerun(test).text[0].value == "(1699999980000, None)"
    assert test.query_params["from"] in ("1699999980000", ["1699999980000"])


def test_spans_of_late_and_back_to_any_time() -> None:
    test = rerun(AppTest.from_string(PICKER.format("open_span_picker('p')")))
    before_ms = now_ms()
    test.button(key="p-3600000").click()
    rerun(test)
    from_ms = int(in_address(test, "from"))
    assert before_ms - 3_600_000 <= from_ms <= now_ms() - 3_600_000
    assert test.text[0].value == f"({from_ms}, None)"
    test.button(key="p-any").click()
    assert rerun(test).text[0].value == "(None, None)"


FOLLOWED = "followed_span_picker('p', (5, 10_000_000), 3_600_000)"


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({}, ((6_400_000, 10_000_000), True)),
        ({"last": "900000"}, ((9_100_000, 10_000_000), True)),
        ({"last": "9" * 30}, ((6_400_000, 10_000_000), True)),
        ({"last": "0"}, ((6_400_000, 10_000_000), True)),
        ({"last": "99999999"}, ((5, 10_000_000), True)),
        ({"last": "900000", "from": "7"}, ((7, 10_000_000), False)),
        ({"to": "7"}, ((5, 7), False)),
    ],
)
def test_a_span_follows_what_is_known(params: dict[str, str], expected: tuple[tuple[int, int], bool]) -> None:
    test = AppTest.from_string(PICKER.format(FOLLOWED))
    for name, value in params.items():
        test.query_params[name] = value
    assert rerun(test).text[0].value == repr(expected)


def test_a_span_that_follows_is_chosen_and_left_again() -> None:
    test = rerun(AppTest.from_string(PICKER.format(FOLLOWED)))
    test.button(key="p-900000").click()
    assert rerun(test).text[0].value == "((9100000, 10000000), True)"
    assert in_address(test, "last") == "900000"
    test.datetime_input[0].set_value(datetime(1970, 1, 1, 1, 0))
    assert rerun(test).text[0].value == "((3600000, 10000000), False)", "the other end is what it was"
    assert (in_address(test, "from"), in_address(test, "to")) == ("3600000", "10000000")
    assert "last" not in test.query_params
    test.button(key="p-3600000").click()
    assert rerun(test).text[0].value == "((6400000, 10000000), True)"
    assert "from" not in test.query_params


def test_an_end_that_is_cleared_leaves_the_address() -> None:
    address = {"from": "7", "to": "8"}
    with patch.object(times.st, "query_params", address), patch.object(times.st, "session_state", {"w": None}):
        times._put_into_url("from", "w")
    assert address == {"to": "8"}


# ---------------------------------------------------------------------- store


def test_the_same_store_is_opened_once_and_another_one_anew(empty: Raised, tmp_path: Path) -> None:
    first = dashboard_store.store()
    assert dashboard_store.store() is first
    other = empty.folder / "data/other.db"
    (empty.folder / "data/clustercep.db").rename(other)
    open_store(f"sqlite:///{empty.folder / 'data/clustercep.db'}").close()
    second = dashboard_store.store()
    assert second is not first
    assert second.alerts() == []


def test_settings_are_read_anew_when_they_change(empty: Raised) -> None:
    assert settings().dashboard.port == 8501
    empty.configure("dashboard: {port: 9000}")
    assert settings().dashboard.port == 9000


def test_an_unknown_alert_is_an_error_of_its_own(empty: Raised) -> None:
    with pytest.raises(NotFoundError):
        dashboard_store.store().alert("abcdef")


def test_no_server_outside_is_asked_for_this_machines_address(monkeypatch: pytest.MonkeyPatch) -> None:
    from streamlit import net_util
    from streamlit.web import server

    from dashboard import __main__ as command

    asked: list[str] = []
    monkeypatch.setattr(net_util, "get_external_ip", lambda: asked.append("outside"))
    monkeypatch.setattr(command, "Dashboard", MagicMock())
    monkeypatch.setattr(command, "load_pages", lambda: None)
    monkeypatch.setattr(command.signal, "signal", lambda *_: None)
    command.main({})
    assert not server.server_util.is_url_from_allowed_origins("http://evil.example")
    assert asked == []


def test_a_server_has_loaded_its_pages_before_anybody_opens_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Those that a viewer may open, what they draw with, the queries, and where events are; serving does not wait."""
    from dashboard import __main__ as command

    load_pages = command.load_pages
    loaded, may_load = Event(), Event()

    def load() -> None:
        may_load.wait(300)
        loaded.set()

    monkeypatch.setattr(command, "Dashboard", MagicMock())
    monkeypatch.setattr(command.signal, "signal", lambda *_: None)
    monkeypatch.setattr(command, "load_pages", load)
    command.main({})
    assert not loaded.is_set()
    may_load.set()
    assert loaded.wait(300)

    looked: list[str] = []
    log = MagicMock(span=lambda: looked.append("span"))
    monkeypatch.setattr(command, "event_log", lambda: log)
    monkeypatch.setattr(command, "live_store", lambda: None)
    monkeypatch.setattr(command, "rarely_collect", lambda: None)
    load_pages()
    assert looked == []  # where nobody has made a store none is made
    monkeypatch.setattr(command, "live_store", MagicMock())
    load_pages()
    assert looked == ["span"]

    told = """
import json, sys
from dashboard.__main__ import load_pages
load_pages()
from dashboard.queries import list as queries
queries.known_queries = None  # what is known by now is not read again
names = [query.name for query in queries.loaded_queries().queries]
print(json.dumps([sorted(sys.modules), names]))
"""
    open_store(f"sqlite:///{tmp_path / 'clustercep.db'}").close()
    environment = {**os.environ, "CLUSTERCEP_STORE": str(tmp_path)}
    run = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True, env=environment)
    modules, names = json.loads(run.stdout)
    assert set(names) == {path.stem for path in Path("queries").glob("*.cep")}
    assert "ScriptRunContext" not in run.stderr  # nothing of Streamlit's is asked for that only a page has
    assert {f"dashboard.views.{page.name}" for page in main.PAGES} | {"altair", "pandas", "app.store.api"} <= set(
        modules
    )
