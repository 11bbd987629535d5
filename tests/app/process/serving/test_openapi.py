"""The OpenAPI document of the live process's endpoints holds: each is in it, and answers with what it says."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from app.process.serving.web import openapi_text
from tests.app.process.serving.test_web import Outcome, Reply, Site, here

DOCUMENT = json.loads(openapi_text())
__all__ = ["here"]


def described(method: str, path: str, reply: Reply) -> None:
    response = DOCUMENT["paths"][path][method.lower()]["responses"][str(reply.status)]
    if "$ref" in response:
        response = DOCUMENT["components"]["responses"][response["$ref"].rpartition("/")[2]]
    assert reply.headers["content-type"].partition(";")[0] in response["content"]
    assert {name.lower() for name in response.get("headers", ())} <= set(reply.headers)


def sick(site: Site) -> None:
    site.process.health = site.process.readiness = (False, "the store is out")
    site.process.outcome = Outcome(ok=False, problems=("queries: found none",))


def broken(site: Site) -> None:
    def fail() -> None:
        raise RuntimeError

    site.process.during = fail


@pytest.mark.parametrize("state", [lambda _: None, sick, broken])
def test_every_answer_is_described(here: Site, state: Callable[[Site], None]) -> None:
    state(here)
    for path, methods in DOCUMENT["paths"].items():
        for method in methods:
            described(method, path, here.ask(method.upper(), path))
            described(method, path, here.ask(method.upper(), path, host="evil.example.org"))
            described(method, path, here.ask("PATCH", path))
    described("get", "/metrics", here.ask("GET", "/metrics", "Accept: application/openmetrics-text;version=1.0.0"))


def test_every_endpoint_is_described(here: Site) -> None:
    assert json.loads(here.ask("GET", "/-/openapi.json").body) == DOCUMENT
    routes = {path: {method.lower()} for path, (method, _) in here.endpoints._routes().items()}
    assert {path: set(methods) for path, methods in DOCUMENT["paths"].items()} == routes
