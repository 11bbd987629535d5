"""The real amtool, unchanged, against the API; and a real Alertmanager that was told the same."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from app.alerting.links import Links
from app.alerting.receivers.alertmanager import alertmanager_of
from app.alerting.receivers.settings import AlertmanagerReceiver
from app.alerting.snapshots import snapshot_of
from app.alertmanager.status import config_text, go_duration
from app.clock import SystemClock
from app.store import Store
from tests.app.alertmanager.programs import Amtool, alertmanager, amtool
from tests.app.alertmanager.served import VIEWER_TOKEN, Served, configured, fire, lost, served, slow

WAIT_S = 120.0


@pytest.fixture
def now_ms() -> int:
    """amtool has no other clock."""
    return SystemClock().now_ms()


@pytest.fixture
def here(store: Store, tmp_path: Path, now_ms: int) -> Iterator[Served]:
    at_ms = now_ms - 60_000
    fire(store, slow("t1", "n1", at_ms), slow("t2", "n2", at_ms), lost("n1", at_ms), now_ms=now_ms - 30_000)
    with served(store, tmp_path, clock=SystemClock()) as found:
        yield found


@pytest.fixture
def tool(here: Served, tmp_path: Path) -> Amtool:
    return amtool(here, tmp_path)


def test_alerts_are_queried(tool: Amtool) -> None:
    assert [(line[0], line[-1]) for line in tool.lines("alert", "query")] == [
        ("node-lost", "active"),
        ("slow", "active"),
    ]
    assert [line[-1] for line in tool.lines("alert", "query", "-i")] == ["suppressed"]
    found = json.loads(tool.run("alert", "query", "-o", "json", "alertname=slow", "host=~n[23]"))
    assert [alert["labels"]["task_id"] for alert in found] == ["t2"]
    assert tool.lines("alert", "query", 'host!="n1"', "alertname=slow")[0][-1] == "active"
    assert tool.lines("alert", "query", "host=n9") == []
    assert 'severity="critical"' in tool.run("alert", "query", "-o", "extended", "severity=critical")
    assert [alert["labels"]["host"] for alert in json.loads(tool.run("alert", "query", "-r", "db", "-o", "json"))] == [
        "n1"
    ]


def test_a_silence_lives_its_life(tool: Amtool, here: Served, tmp_path: Path) -> None:
    silence_id = tool.run(
        "silence", "add", "alertname=slow", "host=~n2|n3", "-c", "new disks", "-a", "bob", "-d", "2h"
    ).strip()
    ((shown, *_),) = tool.lines("silence", "query")
    assert shown == silence_id
    assert [line[0] for line in tool.lines("alert", "query")] == ["node-lost"]
    suppressed = json.loads(tool.run("alert", "query", "-s", "-o", "json"))
    assert [alert["status"]["silencedBy"] for alert in suppressed] == [[silence_id]]
    assert tool.run("silence", "query", "-q", "host=~n2.n3").strip() == silence_id

    tool.run("silence", "update", silence_id, "-c", "newer disks", "-d", "3h")
    (told,) = json.loads(tool.run("silence", "query", "-o", "json"))
    assert (told["id"], told["comment"], told["createdBy"]) == (silence_id, "newer disks", "bob")
    assert [(row.actor, row.created_by) for row in here.store.silences(0)] == [("mia", "bob")]

    backup = tmp_path / "silences.json"
    backup.write_text(
        json.dumps([told, {**told, "id": "5cf1dd49-9fb2-4f12-8d22-6f1d9d9d1a01", "comment": "of others"}])
    )
    tool.run("silence", "expire", silence_id)
    assert tool.lines("silence", "query") == []
    assert [line[0] for line in tool.lines("silence", "query", "--expired")] == [silence_id]
    imported = tool.run("silence", "import", str(backup)).split()
    assert len(set(imported) - {silence_id}) == 2
    assert {s["comment"] for s in json.loads(tool.run("silence", "query", "-o", "json"))} == {
        "newer disks",
        "of others",
    }
    tool.run("silence", "expire", *imported)
    assert tool.run("silence", "query", "-q").strip() == ""


def test_what_is_refused_is_said(tool: Amtool, here: Served, tmp_path: Path) -> None:
    refused = tool.ask("alert", "add", "alertname=foreign")
    assert refused.returncode == 1
    assert "clustercep takes no alerts from others" in refused.stderr
    refused = tool.ask("silence", "add", "team=~.*", "-c", "everything")
    assert "it hides everything" in refused.stderr
    nobody = amtool(here, tmp_path, as_operator=False)
    assert len(nobody.lines("alert", "query")) == 2
    assert nobody.ask("silence", "add", "host=n1", "-c", "x").returncode == 1
    assert here.store.silences(0) == []


def test_why_somebody_may_not_is_printed(tool: Amtool, here: Served, tmp_path: Path) -> None:
    viewer = Amtool(tool.path, here.url.replace("://", f"://vic:{VIEWER_TOKEN}@"), tmp_path)
    assert len(viewer.lines("alert", "query")) == 2
    refused = viewer.ask("silence", "add", "host=n1", "-c", "x")
    assert refused.returncode == 1
    assert "vic is viewer; expected an operator or admin" in refused.stderr
    refused = tool.ask("silence", "add", "host=n1", "-c", "x", "-d", "30d")
    assert "expected the role admin" in refused.stderr
    assert here.store.silences(0) == []


def test_the_routing_tree_is_that_of_the_configuration(tool: Amtool, here: Served) -> None:
    assert tool.run("config", "routes", "test", "severity=critical").strip() == "db"
    assert tool.run("config", "routes", "test", "severity=info").strip() == "ops"
    assert "group_wait: 1m30s" in tool.run("config")
    assert "secret" not in tool.run("config")
    assert "disabled" in tool.run("cluster", "show")


INTERVALS = [
    {
        "name": "nights",
        "time_intervals": [
            {
                "times": [{"start_time": "22:00", "end_time": "24:00"}],
                "weekdays": ["monday:friday", "sunday"],
                "days_of_month": ["1:5", "-3:-1"],
                "months": ["january:march", "12"],
                "years": ["2026:2030"],
                "location": "Europe/Berlin",
            }
        ],
    }
]


@pytest.mark.parametrize("kind", ["routes", "none", "two receivers"])
def test_the_configuration_is_one_to_amtool(tool: Amtool, tmp_path: Path, kind: str) -> None:
    route = {
        "receiver": "ops",
        "group_by": ["..."],
        "routes": [
            {
                "matchers": ['a=~"x|\\"y"', "b!=c"],
                "continue": True,
                "mute_time_intervals": ["nights"],
                "receiver": "db",
            },
            {"match": {"severity": "critical"}, "active_time_intervals": ["nights"], "repeat_interval": "1d"},
        ],
    }
    settings = {
        "routes": configured(route=route, time_intervals=INTERVALS),
        "none": configured(none=True),
        "two receivers": configured(route=None, inhibit_rules=[]),
    }[kind]
    file = tmp_path / "am.yml"
    file.write_text(config_text(settings))
    assert "SUCCESS" in tool.run("check-config", str(file))
    told = {"routes": "ops", "none": "none", "two receivers": "ops,db"}[kind]
    assert tool.run("config", "routes", "test", f"--config.file={file}", "a=b").strip() == told


@pytest.mark.parametrize(
    ("duration_ms", "text"), [(0, "0s"), (90_000, "1m30s"), (86_400_000, "1d"), (90_061_001, "1d1h1m1s1ms")]
)
def test_durations_are_written_as_in_go(duration_ms: int, text: str) -> None:
    assert go_duration(duration_ms) == text


# ---------------------------------------------------------- beside a real Alertmanager

_OF_MOMENTS = frozenset({"startsAt", "endsAt", "updatedAt"})


def comparable(alert: dict[str, Any]) -> dict[str, Any]:
    """Without times, and what later versions have beside."""
    told = {name: value for name, value in alert.items() if name not in _OF_MOMENTS}
    return {**told, "status": {name: value for name, value in alert["status"].items() if name != "mutedBy"}}


def kinds(value: Any) -> Any:
    """The shape of an answer."""
    if isinstance(value, dict):
        return {name: kinds(inside) for name, inside in sorted(value.items())}
    return [kinds(value[0])] if isinstance(value, list) and value else type(value).__name__


def test_silences_come_from_a_real_alertmanager_as_the_page_says(here: Served, tool: Amtool, tmp_path: Path) -> None:
    folder = tmp_path / "real"
    folder.mkdir()
    file = tmp_path / "silences.json"
    with alertmanager(folder, config_text(here.settings[0])) as url:
        old = Amtool(tool.path, url, tmp_path)
        old.run("silence", "add", "alertname=slow", "host=n2", "-d", "2h", "-c", "new disks", "-a", "ann")
        old.run("silence", "add", "host=~n[1-4]", "severity!=critical", "-d", "3h", "-c", "rack", "-a", "bob")
        old.run("silence", "expire", old.run("silence", "add", "host=n9", "-c", "over", "-a", "eve").strip())
        file.write_text(old.run("silence", "query", "-o", "json"))
        moved = [line[1:] for line in old.lines("silence", "query")]
    nobody = amtool(here, tmp_path, as_operator=False).ask("silence", "import", str(file))
    assert nobody.returncode == 1
    assert "status 401" in nobody.stderr
    assert here.store.silences(0) == []
    assert len(tool.run("silence", "import", str(file)).split()) == 2
    assert sorted(line[1:] for line in tool.lines("silence", "query")) == sorted(moved)


def test_a_real_alertmanager_that_was_told_the_same_answers_the_same(
    here: Served, tool: Amtool, tmp_path: Path, now_ms: int
) -> None:
    folder = tmp_path / "real"
    folder.mkdir()
    # at once: else its groups are there after group_wait
    config = config_text(here.settings[0]).replace("group_wait: 1m30s", "group_wait: 0s")
    with alertmanager(folder, config) as url:
        receiver = AlertmanagerReceiver.model_validate({"kind": "alertmanager", "url": url})
        service = alertmanager_of("test", receiver)
        snapshots = [snapshot_of(alert) for alert in here.store.alerts()]
        links = Links("http://127.0.0.1:8501")
        service.send(service._message(snapshots, links, now_ms), "key", WAIT_S)
        real = Amtool(tool.path, url, tmp_path)
        for of in (tool, real):
            of.run(
                "silence",
                "add",
                "alertname=slow",
                "host=n2",
                "-c",
                "why",
                "-a",
                "bob",
                f"--start={_rfc(now_ms - 5_000)}",
            )
        ids = {one.run("silence", "query", "-q").strip(): "the silence" for one in (tool, real)}

        def both(path: str) -> tuple[Any, Any]:
            with urllib.request.urlopen(f"{url}{path}", timeout=120) as answer:
                told = answer.read()
            ours = here.get(path).body
            return tuple(json.loads(_replaced(text.decode(), ids)) for text in (ours, told))

        def same(path: str, shown: Callable[[Any], Any]) -> None:
            """It follows what it was told in threads of its own."""
            until_s = time.monotonic() + WAIT_S
            while True:
                ours, theirs = (shown(told) for told in both(path))
                if ours == theirs:
                    return
                assert time.monotonic() < until_s, (path, ours, theirs)

        for query in (
            "",
            "?filter=host%3Dn1",
            "?active=false",
            "?inhibited=false",
            "?silenced=false",
            "?receiver=db",
            "?filter=alertname%3D~%22s.*%22",
            "?filter=nothing%3D%22%22",
            "?filter=host!%3D%22%22",
        ):
            same(f"/api/v2/alerts{query}", lambda alerts: list(map(comparable, alerts)))
            same(
                f"/api/v2/alerts/groups{query}",
                lambda groups: [(g["labels"], g["receiver"], list(map(comparable, g["alerts"]))) for g in groups],
            )
        ours, theirs = both("/api/v2/silences")
        assert [one.pop("annotations") for one in ours] == [{} for _ in ours]  # what is installed has none yet
        assert kinds(ours) == kinds([{n: v for n, v in one.items() if n != "annotations"} for one in theirs])
        assert [{n: v for n, v in s.items() if n not in _OF_MOMENTS} for s in ours] == [
            {n: v for n, v in s.items() if n not in _OF_MOMENTS} for s in theirs
        ]
        ours, theirs = both("/api/v2/status")
        assert kinds(ours) == kinds(theirs)
        ours, theirs = both("/api/v2/receivers")
        assert ours == theirs


def _rfc(time_ms: int) -> str:
    from app.alerting.text import iso

    return iso(time_ms)[:19] + "Z"


def _replaced(text: str, names: dict[str, str]) -> str:
    for name, other in names.items():
        text = text.replace(name, other)
    return text
