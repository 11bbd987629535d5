"""A shedding model: what was learned of the runs of queries, and of events, from a history; kept in one file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from engine.compiled.query import CompiledQuery
from engine.errors import StateError
from engine.shedding.events.saved import EventModel
from engine.shedding.partial_matches.saved import RunModel
from engine.shedding.partial_matches.transitions import Transitions
from engine.shedding.partial_matches.utilities import Outlook
from engine.shedding.sealed import Seal

VERSION = 1
MOST_MODEL_BYTES = 1 << 28
_REMEDY = "train it again ('clustercep shed train')"
_SEAL = Seal("clustercep shedding model", VERSION, "the shedding model", _REMEDY)


@dataclass(frozen=True, slots=True)
class SheddingModel:
    """`runs`: by query, those of its branches. `events`: None where of no type an event may be dropped. `n_events`:
    that it was trained with, from `from_ms` to `to_ms`."""

    queries: Mapping[str, str]
    """Hashes of the meaning of the queries that it was trained for."""
    runs: tuple[tuple[str, RunModel], ...]
    events: EventModel | None
    n_events: int
    from_ms: int
    to_ms: int

    def text(self) -> str:
        """As `read` takes it."""
        body: dict[str, Any] = {
            "queries": dict(sorted(self.queries.items())),
            "runs": [[name, model.text()] for name, model in self.runs],
            "events": None if self.events is None else self.events.text(),
            "n_events": self.n_events,
            "from_ms": self.from_ms,
            "to_ms": self.to_ms,
        }
        return _SEAL.text(body, indent=1)

    @classmethod
    def read(cls, text: str, queries: Mapping[str, CompiledQuery]) -> Self:
        """What `text` returned. Raises StateError for one that is damaged, of another version, or that does not fit
        these queries."""
        found = _SEAL.opened(text)
        with _SEAL.reading():
            known = {str(name): str(hashed) for name, hashed in dict(found["queries"]).items()}
            _check_fits(known, queries)
            runs = tuple((str(name), RunModel.read(str(model), known[str(name)])) for name, model in found["runs"])
            for name, run_model in runs:
                _check_states(queries[name], run_model)
            events = None if found["events"] is None else EventModel.read(str(found["events"]))
            model = cls(known, runs, events, int(found["n_events"]), int(found["from_ms"]), int(found["to_ms"]))
        if model.events is not None and dict(model.events.queries) != known:
            raise StateError(f"the shedding model's events are of other queries than its runs; {_REMEDY}")
        return model


def run_utilities(model: SheddingModel) -> Iterator[tuple[str, int, list[float]]]:
    """By query and branch: the matches to be expected of a run in each state with a whole window left."""
    for name, run_model in model.runs:
        outlook = Outlook.of(Transitions.of(run_model.observed), run_model.seconds_per_offer, run_model.most_events)
        yield name, run_model.branch, outlook.completions[:, -1].tolist()


def event_utilities(model: SheddingModel) -> list[tuple[str, int, float | None]]:
    """Of each type of which events may be dropped: how many were observed, and what they are worth on average (None:
    not known), those that are dropped first first."""
    if model.events is None:
        return []
    observed, types = model.events.observed, model.events.features.types
    kinds = observed.features[:, 0]
    n_events = np.bincount(kinds, observed.n_events, len(types))
    worth = np.bincount(kinds, observed.contributed, len(types))
    found = [
        (name, int(n), float(total / n) if n else None)
        for name, n, total in zip(types, n_events, worth, strict=True)
    ]  # fmt: skip
    return sorted(found, key=lambda each: (each[2] is None, each[2] or 0.0, each[0]))


def _check_fits(known: Mapping[str, str], queries: Mapping[str, CompiledQuery]) -> None:
    """All that the model knows is about these queries, and it knows all of them."""
    wrong = [f"{name} is new" for name in sorted(queries.keys() - known.keys())]
    wrong += [f"{name} means something else" for name in sorted(queries.keys() & known.keys())
              if queries[name].hash != known[name]]  # fmt: skip
    wrong += [f"{name} is gone" for name in sorted(known.keys() - queries.keys())]
    if wrong:
        raise StateError(f"the shedding model was trained for other queries: {'; '.join(wrong)}; {_REMEDY}")


def _check_states(query: CompiledQuery, model: RunModel) -> None:
    n_states = len(model.observed.n_offers)
    expected = [branch.n_run_states for branch in query.evaluation.branches]
    if not 0 <= model.branch < len(expected) or n_states != expected[model.branch]:
        raise StateError(
            f"the shedding model has {n_states} states for branch {model.branch} of {query.name}, whose branches have "
            f"{expected}; {_REMEDY}"
        )


__all__ = ["MOST_MODEL_BYTES", "VERSION", "SheddingModel", "event_utilities", "run_utilities"]
