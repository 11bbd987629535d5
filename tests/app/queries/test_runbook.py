"""What a runbook's paragraph says of the parameters of its query and of the alert itself."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from app.alerting.recording.labels import OF_EVERY_QUERY
from app.alerting.text import runbook_sections
from app.queries.loading import load_queries
from app.settings import Queries

SHIPPED = Path(__file__).resolve().parents[3] / "queries"

QUERY = """
PARAMETERS factor = 3, min_elapsed = 1 minute, max_bytes = 10000000,
           min_pulls = 2000
PATTERN SEQ(MapStart a, MapEnd b)
WHERE skip_till_next_match { [task_id] AND b.period_ms > :factor AND b.period_ms >= :min_elapsed
                             AND b.period_ms > :max_bytes AND b.period_ms > :min_pulls }
WITHIN 1 hour
RETURN a.task_id, b.period_ms
ALERT warning 'task {task_id}'
"""


@pytest.mark.parametrize(
    ("configured", "told"),
    [
        ({}, "Above `factor` (3), `min_elapsed` (1 min), `max_bytes` (9.5 MiB) and `min_pulls` (2,000); `factor`."),
        (
            {"factor": 4, "min_elapsed": "90 s", "max_bytes": 2048, "min_pulls": 5},
            "Above `factor` (4), `min_elapsed` (1 min 30 s), `max_bytes` (2.0 KiB) and `min_pulls` (5); `factor`.",
        ),
    ],
)
def test_parameters_stand_there_with_the_values_in_use(
    tmp_path: Path, configured: dict[str, int | str], told: str
) -> None:
    (tmp_path / "slow.cep").write_text(QUERY, encoding="utf-8")
    runbook = "## slow\n\nAbove `factor`, `min_elapsed`, `max_bytes` and `min_pulls`; `factor`.\n"
    (tmp_path / "RUNBOOK.md").write_text(runbook, encoding="utf-8")
    loaded = load_queries(Queries.model_validate({"directory": tmp_path, "parameters": {"slow": configured}}), 7)
    assert loaded.problems == ()
    assert loaded.infos["slow"].runbook == told


def test_what_shipped_paragraphs_ask_of_an_alert_is_there() -> None:
    loaded = load_queries(Queries(directory=SHIPPED), 60_000)
    assert loaded.problems == ()
    sections = runbook_sections((SHIPPED / "RUNBOOK.md").read_text(encoding="utf-8"))
    queries = {query.name: query for query in loaded.compiled}
    asked = {name: set(re.findall(r"(?<!\$)\{(\w+)\}", text)) for name, text in sections.items() if name in queries}
    assert sum(map(bool, asked.values())) >= 6
    for name, names in asked.items():
        returned = {item.name for item in queries[name].resolved.query.returns}
        assert names <= returned | {*loaded.infos[name].key, *OF_EVERY_QUERY}, name
    wanted = {name: re.findall(r"`[^`]*\b(?:ATTEMPT|APPLICATION|JOB)\b[^`]*`", text) for name, text in sections.items()}
    assert {name: left for name, left in wanted.items() if left} == {
        "mapper-stragglers-host": ["`mapred job -kill-task ATTEMPT`"]  # which of the two is the reader's choice
    }
