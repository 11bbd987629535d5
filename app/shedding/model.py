"""`engine.shedding_model`: what load shedding has learned from a history, in a file; trained, written, read."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

import engine
from app.alerting.text import iso
from app.errors import AppError
from app.event_log import EventLogReader
from app.queries.loading import Loaded
from app.settings import Settings
from collectors.schema import load_event_types
from engine.errors import StateError
from engine.events import FOREVER_MS

MOST_EVENTS = 2_000_000
"""That a model is trained with: the latest."""
_SETTING = "engine.shedding_model"


class EventsBy(StrEnum):
    """By what a model values events."""

    TABLE = "table"
    TREE = "tree"
    FOREST = "forest"


_STRATEGIES = {EventsBy.TABLE: "gspice-h", EventsBy.TREE: "gspice-t", EventsBy.FOREST: "gspice-f"}


class ModelError(AppError):
    """A shedding model that cannot be used, or made; the message says what is wrong with which file, and what to do."""


def read_model(path: Path, queries: Mapping[str, engine.CompiledQuery]) -> engine.SheddingModel:
    """The model of a file for these queries; raises ModelError."""
    most = engine.MOST_MODEL_BYTES
    try:
        with path.open("rb") as file:
            content = file.read(most + 1)
        text = content.decode("utf-8")
    except OSError as error:
        raise ModelError(
            f"{_SETTING}: {path} cannot be read: {error.strerror}; expected what 'clustercep shed train' writes"
        ) from error
    except UnicodeDecodeError as error:
        raise ModelError(f"{_SETTING}: {path} is no text; expected what 'clustercep shed train' writes") from error
    if len(content) > most:
        raise ModelError(
            f"{_SETTING}: {path} has more than {engine.MOST_MODEL_BYTES} bytes; expected a smaller model: train again"
        )
    try:
        return engine.SheddingModel.read(text, queries)
    except StateError as error:
        raise ModelError(f"{_SETTING}: {path}: {error}") from error


def write_model(path: Path, model: engine.SheddingModel) -> None:
    """Whole, or not at all; raises ModelError."""
    text, most = model.text() + "\n", engine.MOST_MODEL_BYTES
    if len(text) > most:
        raise ModelError(f"the model has {len(text):,} bytes, of which {most:,} would be read; use a shorter --pane")
    part = path.with_name(f".{path.name}.part")
    try:
        with part.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        raise ModelError(f"{path} cannot be written: {error.strerror}; name another file with --out") from error


def trained_model(
    settings: Settings,
    queries: Loaded,
    history: EventLogReader,
    *,
    from_ms: int | None = None,
    to_ms: int | None = None,
    pane_events: int = 0,
    events_by: EventsBy = EventsBy.TABLE,
    clock: Callable[[], float] = time.perf_counter,
) -> engine.SheddingModel:
    """Learned from the events that a store keeps, evaluated without shedding; raises ModelError without any.

    `clock`: by which it is measured what partial matches cost.
    """
    limits = engine.Limits(
        max_rows=settings.engine.max_rows, work_budget=settings.engine.work_budget, possibilities=True
    )
    compiled = {query.name: query for query in queries.compiled}
    training = engine.ModelTraining(
        compiled, load_event_types(), limits, pane_events, clock, engine.EventStrategy(_STRATEGIES[events_by])
    )
    for batch in history.batches(from_ms=_latest(history, from_ms, to_ms), to_ms=to_ms):
        training.take(batch)
    if not training.n_events:
        raise ModelError(
            "there is nothing to learn from: found no events in the event log, expected several windows of the "
            "queries; let 'clustercep run' go on for longer, or name another span with --from and --to"
        )
    return training.finished(FOREVER_MS)


def _latest(history: EventLogReader, from_ms: int | None, to_ms: int | None) -> int | None:
    """From when on there are no more than `MOST_EVENTS`, about, where there are more: what is learned from is held in
    memory."""
    span = history.span()
    if span is None or history.count(from_ms=from_ms, to_ms=to_ms) <= MOST_EVENTS:
        return from_ms
    too_many_ms = span[0] if from_ms is None else max(span[0], from_ms)
    few_ms = span[1] if to_ms is None else min(span[1], to_ms)
    while few_ms - too_many_ms > 1_000:
        middle_ms = (few_ms + too_many_ms) // 2
        if history.count(from_ms=middle_ms, to_ms=to_ms) > MOST_EVENTS:
            too_many_ms = middle_ms
        else:
            few_ms = middle_ms
    return few_ms


def described(model: engine.SheddingModel) -> list[str]:
    """For people: what it was learned from, and what is worth what."""
    lines = [
        f"Learned from {model.n_events:,} events, {iso(model.from_ms)} to {iso(model.to_ms)}, for "
        f"{len(model.queries):,} queries."
    ]
    if not model.runs:
        lines.append("Partial matches: none of them went on often enough to learn from.")
    for name, branch, utilities in engine.run_utilities(model):
        states = ", ".join(f"state {state}: {most:.3g}" for state, most in enumerate(utilities))
        lines.append(f"Partial matches of {name} (branch {branch}), matches to be expected at most: {states}")
    worth = engine.event_utilities(model)
    if not worth:
        lines.append("Events: of no type may one be dropped without making matches that are none.")
    if model.events is not None and model.events.forest is not None:
        forest = model.events.forest
        trees = "a tree" if len(forest.roots) == 1 else f"a forest of {len(forest.roots)} trees"
        lines.append(f"Events are valued by {trees} with {len(forest.asked):,} nodes.")
    for event_type, n_events, utility in worth:
        what = "never seen: never dropped" if utility is None else f"{utility:.3g} matches each, of {n_events:,} events"
        lines.append(f"Events {event_type}: {what}")
    return lines


def as_mapping(model: engine.SheddingModel) -> dict[str, Any]:
    """As `described`, for programs; `matches_each` of events is null for a type that was never seen."""
    return {
        "n_events": model.n_events,
        "from": iso(model.from_ms),
        "to": iso(model.to_ms),
        "queries": sorted(model.queries),
        "partial_matches": [
            {"query": name, "branch": branch, "matches_at_most": [float(most) for most in utilities]}
            for name, branch, utilities in engine.run_utilities(model)
        ],
        "events": [
            {"type": event_type, "n_events": n_events, "matches_each": None if worth is None else float(worth)}
            for event_type, n_events, worth in engine.event_utilities(model)
        ],
    }


__all__ = ["EventsBy", "ModelError", "as_mapping", "described", "read_model", "trained_model", "write_model"]
