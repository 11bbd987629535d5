"""What an alert of a shipped query says at once is of one match: a number with the host that it was measured on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.language import ast
from engine.language.parser import parse
from engine.language.templates import placeholders

SHIPPED = Path(__file__).resolve().parents[3] / "queries"
QUERIES = {path.stem: parse(path.read_text(encoding="utf-8")) for path in sorted(SHIPPED.glob("*.cep"))}
CHOOSING = [
    name
    for name, query in QUERIES.items()
    if query.shown and query.shown[0].aspect is not ast.Aspect.LAST and query.notice is not None
]
"""Queries whose alerts show another match than the last one."""

FOLLOWS = {
    "job_id": {"job_name", "user", "queue"},
    "attempt_id": {"attempt_id", "task_id", "job_id", "job_name", "user", "host"},
}
"""What is the same in all matches of one key."""

OF_THE_LAST = {
    "datanode-slow-disk": {"volume", "n_sightings"},
    "datanode-slow-peer": {"last_peer"},
    "fetch-failures-host": {"last_attempt_id", "last_host"},
    "journal-slow": {"n_sightings"},
}
"""The text calls these the last, or they are the query's threshold in each match."""


def constant(query: ast.Query) -> Iterator[str]:
    """Values that are the same in all matches of an alert."""
    assert query.notice is not None
    keys = {each.attribute for each in query.equivalences} | {*query.notice.per, *query.group_by}
    for key in [*keys]:
        keys |= FOLLOWS.get(key, set())
    yield from keys
    for item in query.returns:
        if isinstance(item.expression, ast.Attribute) and item.expression.name in keys:
            yield item.name


@pytest.mark.parametrize("name", CHOOSING)
def test_what_stands_beside_the_greatest_is_of_its_match(name: str) -> None:
    query = QUERIES[name]
    assert query.notice is not None
    told = {found.name for _, found in placeholders(query.notice.summary) if found is not None and found.aspect is None}
    told -= {"queries"} if query.notice.is_incident else set()  # of all matches
    told |= (
        {"unit"}
        if any(found is not None and found.form == "unit" for _, found in placeholders(query.notice.summary))
        else set()
    )
    told |= {each for host in query.hosts for each in (host.name, host.value) if each is not None}
    told |= {item.name for item in query.returns if item.name == "suspect"}  # what incidents go by
    chosen = {each for shown in query.shown for each in (shown.name, *shown.beside)}
    assert told - chosen - {*constant(query)} - OF_THE_LAST.get(name, set()) == set()


def test_there_are_such_queries() -> None:
    assert len(CHOOSING) > 15
