"""What Grafana's Alertmanager data source (implementation: prometheus) asks through Grafana's server."""

from __future__ import annotations

import base64
from typing import Any

from tests.app.alertmanager.served import NOW_MS, TOKEN, Served, fire, lost, slow, values
from tests.app.alertmanager.test_silences import HOUR_MS, iso

PASSED_ON = {
    "Accept": "application/json, text/plain, */*",
    "Accept-Encoding": "gzip, deflate, br",
    "Accept-Language": "en-US,en;q=0.9",
    "Authorization": "Basic " + base64.b64encode(f"mia:{TOKEN}".encode()).decode(),
    "Sec-Fetch-Dest": "empty",
    "Sec-Fetch-Mode": "cors",
    "Sec-Fetch-Site": "same-origin",
    "User-Agent": "Grafana/11.2.0",
    "X-Forwarded-For": "10.1.2.3, 10.1.2.4",
    "X-Grafana-Device-Id": "0123456789abcdef",
    "X-Grafana-Org-Id": "1",
    "X-Grafana-Referer": "https://grafana.example.org/alerting/groups?alertmanager=clustercep",
}
"""What Grafana's server sends on of the headers of a browser: neither Origin nor Referer."""


def ask(api: Served, path: str) -> Any:
    reply = api.get(path, PASSED_ON)
    assert reply.status == 200, reply.body
    assert reply.headers["Content-Type"] == "application/json"
    return reply.json


def test_the_test_of_the_data_source(api: Served) -> None:
    """It is taken for an Alertmanager of Prometheus where only the second path answers."""
    assert api.get("/alertmanager/api/v2/status", PASSED_ON).status == 404
    assert {"cluster", "config", "uptime", "versionInfo"} <= ask(api, "/api/v2/status").keys()


def test_the_pages_of_groups_and_of_one_group(api: Served) -> None:
    fire(api.store, slow("t1", "n1"), slow("t2", "n2"), lost("n1"))
    groups = ask(api, "/api/v2/alerts/groups")
    assert sorted(group["receiver"]["name"] for group in groups) == ["db", "ops"]
    of_panel = ask(
        api, "/api/v2/alerts/groups?active=true&inhibited=false&silenced=false&unprocessed=false&filter=host%3D%22n2%22"
    )
    assert [values(group["alerts"], "host") for group in of_panel] == [["n2"]]


def test_a_silence_is_made_with_a_preview_shown_changed_and_ended(api: Served) -> None:
    fire(api.store, slow("t1", "n1"), slow("t2", "n2"))
    preview = ask(api, "/api/v2/alerts?filter=alertname%3D%22slow%22&filter=host%3D~%22n2%22")
    assert values(preview, "task_id") == ["t2"]
    wanted = {
        "startsAt": iso(NOW_MS),
        "endsAt": iso(NOW_MS + 2 * HOUR_MS),
        "comment": "created 2026-09-21 16:13",
        "createdBy": "admin",
        "matchers": [
            {"name": "alertname", "value": "slow", "isRegex": False, "isEqual": True},
            {"name": "host", "value": "n2", "isRegex": True, "isEqual": True},
        ],
    }
    made = api.ask("POST", "/api/v2/silences", wanted, PASSED_ON)
    assert made.status == 200
    silence_id = made.json["silenceID"]
    (shown,) = ask(api, "/api/v2/silences")
    assert (shown["id"], shown["createdBy"], shown["status"]["state"]) == (silence_id, "admin", "active")
    hidden = ask(api, "/api/v2/alerts?silenced=true&active=false&inhibited=false")
    assert [alert["status"]["silencedBy"] for alert in hidden] == [[silence_id]]
    changed = api.ask("POST", "/api/v2/silences", {**wanted, "id": silence_id, "comment": "longer"}, PASSED_ON)
    assert changed.json == {"silenceID": silence_id}
    assert ask(api, f"/api/v2/silence/{silence_id}")["comment"] == "longer"
    assert api.ask("DELETE", f"/api/v2/silence/{silence_id}", None, PASSED_ON).status == 200
    assert ask(api, f"/api/v2/silence/{silence_id}")["status"]["state"] == "expired"
