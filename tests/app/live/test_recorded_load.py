"""Q5 and Q6 on the recorded cluster: samples with their true intervals, through the collectors, against sums by hand.

All samples are of one clock and their intervals do not overlap, so a match is in doubt only where its first and its
last sample meet the exact times of the reducer: the confidences below are products of two or four fractions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from collectors.base import Collector
from collectors.ganglia.rrd import GangliaRrdCollector, GangliaRrdOptions
from collectors.history.job_history import JobHistoryCollector, JobHistoryOptions
from collectors.metrics.load_balance import LoadDeriver
from collectors.schema import load_event_types
from engine import Engine, MatchRow, compile_query, reference_output
from engine.events import FOREVER_MS, EventBatch

ROOT = Path(__file__).parents[3]
TYPES = ("ReducerStart", "ReducerEnd", "LoadStd", "Balance", "Imbalance")
OPTIONS = ("papers/q6-option1.cep", "papers/q6-option2.cep")
SCHEMA = load_event_types()

Event = dict[str, Any]


@pytest.fixture(scope="module")
def manifest(recording: Path) -> dict[str, Any]:
    found = yaml.safe_load((recording / "manifest.yaml").read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    return found


@pytest.fixture(scope="module")
def events(recording: Path, manifest: dict[str, Any]) -> EventBatch:
    """What the collectors tell of reducers and of the load, in stream order."""
    load = LoadDeriver()
    history: Collector = JobHistoryCollector(JobHistoryOptions((recording / "history",)))
    ganglia: Collector = GangliaRrdCollector(GangliaRrdOptions(recording / "rrds"))
    parts = []
    for now_ms in range(manifest["started_ms"], manifest["ended_ms"] + 120_000, 15_000):
        told = history.poll(now_ms)
        parts += [told.events, *(finished.events for finished in told.finished)]
        samples = ganglia.poll(now_ms)
        parts.append(load.derive(samples.events, samples.watermark_ms))
    return EventBatch.concat(parts).of_types(TYPES).sorted()


def found_by(path: str, clauses: str, batch: EventBatch) -> list[MatchRow]:
    query = compile_query((ROOT / "queries" / path).read_text(encoding="utf-8") + clauses, SCHEMA, name="q")
    running = Engine([query], SCHEMA)
    rows = [*running.process(batch, FOREVER_MS), *running.finish()]
    assert running.n_refused == {}
    return rows


def first_part(batch: EventBatch, manifest: dict[str, Any], length_ms: int) -> EventBatch:
    return batch.where(batch.t_lo_ms < manifest["started_ms"] + length_ms)


# ------------------------------------------------------- the definition by hand


def share(sample: Event, after_ms: float = float("-inf"), before_ms: float = float("inf")) -> Fraction:
    """P(after < t < before) of a sample, both ends excluded."""
    lo, hi = sample["t_lo_ms"], sample["t_hi_ms"]
    inside = min(hi, before_ms - 1) - max(lo, after_ms + 1) + 1
    return Fraction(max(0, int(inside)), hi - lo + 1)


def in_between(chain: Sequence[Event], start_ms: int, end_ms: int) -> Fraction:
    """P(all samples of the chain lie between): those inside do for certain."""
    if len(chain) == 1:
        return share(chain[0], start_ms, end_ms)
    return share(chain[0], after_ms=start_ms) * share(chain[-1], before_ms=end_ms)


def reducers(batch: EventBatch) -> Iterator[tuple[Event, Event]]:
    rows = list(batch.rows())
    ends = {row["task_id"]: row for row in rows if row["type"] == "ReducerEnd"}
    return ((row, ends[row["task_id"]]) for row in rows if row["type"] == "ReducerStart" and row["task_id"] in ends)


def meeting(batch: EventBatch, kind: str, start: Event, end: Event) -> list[Event]:
    """Samples of a kind that may lie inside a reducer's life, in order."""
    rows = [row for row in batch.rows() if row["type"] == kind]
    return [row for row in rows if share(row, start["t_lo_ms"], end["t_lo_ms"])]


def rising(samples: Sequence[Event]) -> Iterator[tuple[Event, ...]]:
    """Every choice of samples whose values do not fall."""
    for n in range(1, len(samples) + 1):
        for chosen in combinations(samples, n):
            if all(later["val"] >= earlier["val"] for earlier, later in pairwise(chosen)):
                yield chosen


def q6_by_hand(batch: EventBatch) -> dict[tuple[str, ...], Fraction]:
    found = {}
    for start, end in reducers(batch):
        for chosen in rising(meeting(batch, "LoadStd", start, end)):
            ids = (start["event_id"], *(row["event_id"] for row in chosen), end["event_id"])
            found[ids] = in_between(chosen, start["t_lo_ms"], end["t_lo_ms"])
    return found


def q5_by_hand(batch: EventBatch) -> dict[tuple[str, ...], Fraction]:
    """With `Balance` on both sides; the window is certain in a part of less than ten minutes."""
    found = {}
    balanced = [row for row in batch.rows() if row["type"] == "Balance"]
    for start, end in reducers(batch):
        unbalanced = meeting(batch, "Imbalance", start, end)
        chains = [c for n in range(1, len(unbalanced) + 1) for c in combinations(unbalanced, n)]
        for before in balanced:
            for chosen in chains:
                for after in balanced:
                    if not before["t_hi_ms"] < chosen[0]["t_hi_ms"] <= chosen[-1]["t_hi_ms"] < after["t_hi_ms"]:
                        continue
                    confidence = (
                        share(before, before_ms=start["t_lo_ms"])
                        * in_between(chosen, start["t_lo_ms"], end["t_lo_ms"])
                        * share(after, after_ms=end["t_lo_ms"])
                    )
                    if confidence:
                        sequence = (before, start, *chosen, end, after)
                        found[tuple(row["event_id"] for row in sequence)] = confidence
    return found


def check(rows: Sequence[MatchRow], wanted: dict[tuple[str, ...], Fraction]) -> None:
    found = {row.event_ids: row.confidence for row in rows}
    assert len(found) == len(rows)
    assert found == pytest.approx({ids: float(confidence) for ids, confidence in wanted.items()}, abs=1e-12)


# ------------------------------------------------------------------------ tests


def test_the_recorded_events_are_those_of_the_cluster(events: EventBatch) -> None:
    """Steps of five seconds, one after the other on one clock; 24 reducers with exact times."""
    kinds = events.strings("type").to_pylist()
    assert {kind: kinds.count(kind) for kind in TYPES} == {
        "ReducerStart": 24, "ReducerEnd": 24, "LoadStd": 151, "Balance": 90, "Imbalance": 61,
    }  # fmt: skip
    samples = [row for row in events.rows() if row["type"] == "LoadStd"]
    assert {row["t_hi_ms"] - row["t_lo_ms"] + 1 for row in samples} == {5_000}
    assert {row["clock_id"] for row in samples} == {"load:ganglia:minicluster"}
    assert all(a["t_hi_ms"] < b["t_lo_ms"] for a, b in pairwise(samples))


@pytest.mark.parametrize("path", OPTIONS)
def test_q6_lists_every_rise_with_its_confidence(path: str, events: EventBatch, manifest: dict[str, Any]) -> None:
    part = first_part(events, manifest, 180_000)
    wanted = q6_by_hand(part)
    assert len({ids[0] for ids in wanted}) == 6
    check(found_by(path, "", part), wanted)


@pytest.mark.parametrize("path", OPTIONS)
def test_q6_counts_every_rise_of_the_whole_recording(path: str, events: EventBatch, manifest: dict[str, Any]) -> None:
    rows = {dict(row.key)["task_id"]: row for row in found_by(path, " OUTPUT COLLAPSED", events)}
    assert len(rows) == 24
    counts = {}
    for start, end in reducers(events):
        samples = meeting(events, "LoadStd", start, end)
        ways = [1] * len(samples)
        for k, sample in enumerate(samples):
            ways[k] += sum(ways[j] for j in range(k) if samples[j]["val"] <= sample["val"])
        row = rows[start["task_id"]]
        counts[start["task_id"]] = sum(ways)
        assert (row.count, row.count_exact) == (sum(ways), True)
        times = start["t_lo_ms"], end["t_lo_ms"]
        pairs = [pair for pair in combinations(samples, 2) if pair[0]["val"] <= pair[1]["val"]]
        best = max(in_between(chosen, *times) for chosen in [*((sample,) for sample in samples), *pairs])
        assert row.confidence == pytest.approx(float(best), abs=1e-12)
    # Facts of this recording: the reducers that ran while two nodes were made busy stand out.
    (fault,) = [fault for fault in manifest["ground_truth"] if fault["query"] == "imbalance-window-task"]
    assert {task: n for task, n in counts.items() if n > 403} == dict.fromkeys(fault["task_ids"], 73_967)


def test_q5_lists_every_choice_of_unbalanced_steps(events: EventBatch, manifest: dict[str, Any]) -> None:
    part = first_part(events, manifest, 105_000)
    wanted = q5_by_hand(part)
    assert len({ids[1] for ids in wanted}) == 5
    check(found_by("papers/q5.cep", "", part), wanted)


@pytest.mark.parametrize("path", ["papers/q5.cep", *OPTIONS])
def test_the_oracle_agrees_on_the_first_reducer(path: str, events: EventBatch, manifest: dict[str, Any]) -> None:
    part = first_part(events, manifest, 52_000)
    part = part.where(
        np.array([task is None or task.endswith("_0001_r_000000") for task in part.strings("task_id").to_pylist()])
    )
    query = compile_query((ROOT / "queries" / path).read_text(encoding="utf-8"), SCHEMA, name="q")
    rows = {
        tuple(i for ids in r.bindings.values() for i in ids): r.confidence
        for r in reference_output(query.resolved, part)
    }
    assert rows
    assert rows == (q5_by_hand(part) if path == "papers/q5.cep" else q6_by_hand(part))
