"""The OpenAPI document holds: every path and method is in it, and answers are of its schemas."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from app.alertmanager.api import openapi_text
from tests.app.alertmanager.served import NOW_MS, Served, fire, lost, slow
from tests.app.alertmanager.test_alerts import silence
from tests.app.alertmanager.test_silences import NO_SILENCE, body

DOCUMENT = json.loads(openapi_text())


def check(method: str, path: str, status: int, told: Any) -> None:
    responses = DOCUMENT["paths"][path][method]["responses"]
    response = responses[str(status)]
    if "$ref" in response:
        response = DOCUMENT["components"]["responses"][response["$ref"].rpartition("/")[2]]
    schema = response["content"]["application/json"]["schema"]
    jsonschema.Draft202012Validator(
        {**schema, "components": DOCUMENT["components"]}, format_checker=jsonschema.FormatChecker()
    ).validate(told)


@pytest.mark.parametrize("path", ["/status", "/receivers", "/alerts", "/alerts/groups", "/silences"])
def test_answers_are_of_their_schemas(api: Served, path: str) -> None:
    fire(api.store, slow("t1", "n1"), slow("t2", "n2"), lost("n1"))
    silence(api.store, 'host="n2"')
    told = api.get(f"/api/v2{path}")
    check("get", path, 200, told.json)
    assert told.json


def test_refusals_are_of_their_schemas(api: Served) -> None:
    for method, path, given in (
        ("GET", "/alerts?filter=x", None),
        ("POST", "/alerts", []),
        ("POST", "/silences", {}),
        ("POST", "/silences", body(endsAt="2020-01-01T00:00:00Z")),
        ("POST", "/silences", body(id=NO_SILENCE)),
        ("POST", "/silences", body(padding="x" * 70_000)),
    ):
        told = api.write(method, f"/api/v2{path}", given)
        check(method.lower(), path.partition("?")[0], told.status, told.json)
    told = api.ask("POST", "/api/v2/silences", {})
    check("post", "/silences", 401, told.json)
    assert "silenceID" in api.write("POST", "/api/v2/silences", body()).json
    assert api.store.silences(NOW_MS)


def test_every_path_and_method_is_described(api: Served) -> None:
    for path, methods in DOCUMENT["paths"].items():
        told = api.write("PATCH", f"/api/v2{path}".replace("{silenceID}", NO_SILENCE), {})
        assert told.status == 405
        assert set(told.headers["Allow"].lower().split(",")) == set(methods)
    assert api.get("/api/v2/openapi.json").json == DOCUMENT
