"""Generated queries that run side by side in one stream, each over types and a stretch of time of its own."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import engine
from app.config import load_settings
from app.queries.loading import load_queries
from app.settings import Queries
from app.store.api import Store
from engine.errors import UnsupportedQueryError
from engine.events import FOREVER_MS, HEADER_NAMES, SKEW, EventBatch, EventSchema
from spark_jobs.event_store.schema import SOURCE
from spark_jobs.stream.job import StreamJob, StreamOptions
from spark_jobs.stream.sources import FolderInput
from tests.engine.strategies import EVERYTHING, IMPRECISE, PRECISE, SCHEMA, Case, cases
from tests.examples import each_drawn_anew
from tests.spark_jobs.stream_fixtures import ROOT, write_file

N_CASES = 12
N_KEYED = 3
"""Of them at least: those without a key are all in one bucket."""

N_FILES = 4
LATENESS_MS = 60
APART_MS = 100
"""Between the beginnings of two cases: further than any window reaches."""

WIDE = EventSchema.of(
    {f"{name}{number}": attributes for number in range(N_CASES) for name, attributes in SCHEMA.types.items()}
)
"""The types of the strategies once for each case."""

_QUERIES = EVERYTHING
CASES = st.one_of(
    cases(_QUERIES, PRECISE),
    cases(
        replace(_QUERIES, strategies=("skip_till_any_match",), within_events=False, selection=False),
        replace(IMPRECISE, clocks=False),
    ),
)


@dataclass(frozen=True)
class Own:
    """A case with its own types, ids and times."""

    name: str
    text: str
    stream: EventBatch

    @property
    def query(self) -> engine.CompiledQuery:
        """Compiled."""
        return engine.compile_query(self.text, WIDE, name=self.name)


def drawn() -> list[Own]:
    """N_CASES of which the engine finds something, the same ones in every run."""
    found: list[Own] = []

    @settings(
        max_examples=12,
        deadline=None,
        phases=[Phase.generate],
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.lists(CASES, min_size=2 * N_CASES, max_size=2 * N_CASES))
    def draw(several: list[Case]) -> None:
        for case in several:
            own = _own(case, len(found) % N_CASES)
            if not _is_evaluated(own):
                continue
            n_keyed = sum(bool(other.query.distribution.key) for other in found)
            is_wanted = bool(own.query.distribution.key) or len(found) - n_keyed < N_CASES - N_KEYED
            is_wanted = is_wanted and not _counts_others(own) and not _counts_without_end(own)
            if len(found) < N_CASES and is_wanted and _finds_something(own):
                found.append(own)

    with each_drawn_anew():
        draw()
    assert len(found) == N_CASES
    return found


def _is_evaluated(own: Own) -> bool:
    """False for the few queries that are refused: a predicate that relates two negated patterns."""
    try:
        return bool(own.query)
    except UnsupportedQueryError:
        return False


def _counts_others(own: Own) -> bool:
    """Whether windows are begun by the events of all cases, so that those of one before reach into this one."""
    query = own.query.resolved.query
    return query.within_events is not None and (query.open_on is not None or query.slide_ms is not None)


def _counts_without_end(own: Own) -> bool:
    """Whether LIMIT or TOP would count over the whole of a stream, which is refused."""
    query = own.query.resolved.query
    has_window = query.slide_ms is not None or query.open_on is not None
    return (query.limit is not None or query.top_k is not None) and not has_window


def _finds_something(own: Own) -> bool:
    try:
        running = engine.Engine([own.query], WIDE)
    except UnsupportedQueryError:
        return False
    return len(running.process(own.stream, FOREVER_MS)) + len(running.finish()) > 0


def _own(case: Case, number: int) -> Own:
    rows = [
        {
            **{name: value for name, value in row.items() if value is not None},
            "event_id": f"{number}-{row['event_id']}",
            "type": f"{row['type']}{number}",
            "t_lo_ms": row["t_lo_ms"] + (number + 1) * APART_MS,
            "t_hi_ms": row["t_hi_ms"] + (number + 1) * APART_MS,
        }
        for row in case.stream.rows()
    ]
    return Own(f"q{number}", re.sub(r"\b([ABCNLP])\b", rf"\g<1>{number}", case.query), EventBatch.from_rows(rows, WIDE))


def stored(batch: EventBatch, schema: EventSchema, source: str | None = None) -> pa.Table:
    """Rows as files have them: all columns of the schema, absent ones null, and with a source where one is given."""
    table = batch.table
    kinds = {SKEW.name: SKEW.type, **{name: kind.arrow for name, kind in schema.attributes.items()}}
    for name, kind in kinds.items():
        if name not in table.column_names:
            table = table.append_column(name, pa.nulls(table.num_rows, kind))
    table = table.select([*HEADER_NAMES, *schema.attributes])
    return table if source is None else table.append_column(SOURCE, pa.array([source] * len(batch), pa.string()))


def write_input(folder: Path, drawn_cases: Sequence[Own], seed: int) -> list[dict[str, Any]]:
    """Query files, and event files in which events stand in any order, each at most the lateness after its time.

    Some events come twice. Returns the events that come too late: the first cases' own once more, under other ids.
    """
    (folder / "queries").mkdir(parents=True)
    (folder / "in").mkdir()
    for own in drawn_cases:
        (folder / "queries" / f"{own.name}.cep").write_text(own.text, encoding="utf-8")
    rows = pa.concat_tables([stored(own.stream, WIDE, "tests") for own in drawn_cases])
    rng, chance = np.random.default_rng(seed), random.Random(seed)
    arrivals = rows.column("t_lo_ms").to_numpy() + rng.integers(0, LATENESS_MS, rows.num_rows)
    ordered = rows.take(pa.array(np.argsort(arrivals, kind="stable"))).to_pylist()
    files = [[dict(row) for row in part] for part in np.array_split(np.array(ordered, object), N_FILES)]
    for number in range(1, N_FILES):
        copies = chance.sample(files[number - 1], 5)
        files[number] += [{**row, SOURCE: "another"} for row in copies if row["t_lo_ms"] is not None]
    late = [{**row, "event_id": f"late-{row['event_id']}"} for row in files[0][:10]]
    files[-1] += late
    for number, part in enumerate(files):
        chance.shuffle(part)
        path = folder / "in" / f"{number:04d}.parquet"
        write_file(pa.Table.from_pylist(part, schema=rows.schema), path, 1_700_000_000 + number)
    return late


def told_rows(folder: Path, batch_id: int) -> Path:
    """Where a process that will be killed leaves what a micro-batch told."""
    return folder / f"told-{batch_id}.jsonl"


def generated_job(folder: Path, name: str, store: Store, **more: Any) -> StreamJob:
    """The queries over the files of `folder`; the checkpoint is called `name`."""
    source = FolderInput(str(folder / "in"), "parquet", max_files=1)
    options = StreamOptions(source, str(folder / name), n_buckets=3, lateness_ms=LATENESS_MS, once=True)
    queries = load_queries(Queries(directory=folder / "queries"), 60_000, WIDE)
    return StreamJob(options, load_settings(ROOT / "config.yaml", {}), queries, store, schema=WIDE, **more)
