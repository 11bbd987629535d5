"""Every example of docs/query-language.md is a query that resolves against the events of a Hadoop cluster."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from engine.errors import QueryError
from engine.events import AttributeType, EventSchema
from engine.language.parser import parse
from engine.language.printer import print_query
from engine.language.resolver import resolve

PAGE = Path(__file__).parents[3] / "docs" / "query-language.md"
EXAMPLES = re.findall(r"^```cep\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)

INT, FLOAT, STRING = AttributeType.INT, AttributeType.FLOAT, AttributeType.STRING
_JOB = {"job_id": STRING, "user": STRING}
_END = {"status": STRING, "period_ms": INT}
_ATTEMPT = {"job_id": STRING, "task_id": STRING, "attempt_id": STRING, "host": STRING}
SCHEMA = EventSchema.of(
    {
        "JobStart": _JOB,
        "JobEnd": {**_JOB, **_END},
        "MapStart": _ATTEMPT,
        "MapEnd": {**_ATTEMPT, **_END},
        "Mapper": {**_ATTEMPT, **_END, "spilled_records": INT},
        "ReducerStart": _ATTEMPT,
        "ReducerEnd": {**_ATTEMPT, **_END},
        "DataPull": {**_ATTEMPT, "source_host": STRING, "bytes": INT, "period_ms": INT},
        "DataIO": {"job_id": STRING, "task_id": STRING, "size_bytes": INT},
        "LoadStd": {"val": FLOAT},
        "Balance": {},
        "Imbalance": {},
        "NodeLost": {"host": STRING, "reason": STRING},
        "NodeUnhealthy": {"host": STRING, "reason": STRING},
    }
)


def test_the_page_has_examples() -> None:
    assert len(EXAMPLES) >= 15


@pytest.mark.parametrize("text", EXAMPLES, ids=lambda text: text.splitlines()[0])
def test_example_is_accepted(text: str) -> None:
    query = parse(text)
    resolved = resolve(query, SCHEMA, text=text)
    assert parse(print_query(resolved.query)) == resolved.query


def test_the_error_shown_is_the_error_printed() -> None:
    schema = EventSchema.of({"Mapper": {"job_id": STRING, "task_id": STRING, "period_ms": INT}})
    text = "PATTERN Mapper+ b[]\nWHERE skip_till_any_match { b[i].perod_ms > 5 }\nWITHIN 1 hour\n"
    with pytest.raises(QueryError) as caught:
        resolve(parse(text), schema, text=text, name="tasks.cep")
    shown = re.search(r"^```text\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    assert shown is not None
    assert str(caught.value) == shown[1].rstrip("\n")
