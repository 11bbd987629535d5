"""What was learned of the runs of one plan, as a sealed text: what was cut, changed or learned for another query is
refused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from engine.errors import StateError
from engine.events import Float64Array
from engine.shedding.partial_matches.transitions import RunObservations
from engine.shedding.sealed import Seal

VERSION = 1
MOST_EVENTS = 1_000_000
"""That reach the runs of a partition within a window, as far as utilities are made for them."""
_REMEDY = "leave it out: a model is learned again from the stream"
_SEAL = Seal("clustercep run model", VERSION, "a saved run model", _REMEDY)


@dataclass(frozen=True, slots=True)
class RunModel:
    """`query_hash`: of the query's meaning; `branch`: of its union. `observed` in `n_events` sampled events;
    `seconds_per_offer` float64 (n_states,); `most_events` that reach the runs of a partition within a window."""

    query_hash: str
    branch: int
    observed: RunObservations
    n_events: int
    seconds_per_offer: Float64Array
    most_events: int

    def text(self) -> str:
        """As `read` takes it."""
        body = {
            "query": self.query_hash,
            "branch": self.branch,
            "n_offers": self.observed.n_offers.tolist(),
            "n_next": self.observed.n_next.tolist(),
            "n_events": self.n_events,
            "seconds_per_offer": self.seconds_per_offer.tolist(),
            "most_events": self.most_events,
        }
        return _SEAL.text(body)

    @classmethod
    def read(cls, text: str, query_hash: str) -> Self:
        """What `text` returned. Raises StateError for one that is damaged, of another version or of another query."""
        found = _SEAL.opened(text)
        if found.get("query") != query_hash:
            raise StateError(
                f"a saved run model is of query {found.get('query')}, expected {query_hash}: the query has changed; "
                f"{_REMEDY}"
            )
        with _SEAL.reading():
            return cls._of(found)

    @classmethod
    def _of(cls, found: dict[str, Any]) -> Self:
        observed = RunObservations(np.array(found["n_offers"], np.int64), np.array(found["n_next"], np.int64))
        n, n_events, most_events = observed.n_offers.size, int(found["n_events"]), int(found["most_events"])
        if n < 1 or observed.n_offers.shape != (n,) or observed.n_next.shape != (n, n + 1):
            raise StateError(f"a saved run model has offers {observed.n_offers.shape} and next {observed.n_next.shape}")
        if min(observed.n_offers.min(), observed.n_next.min(), n_events) < 0 or not 1 <= most_events <= MOST_EVENTS:
            raise StateError(f"a saved run model has numbers out of range; {_REMEDY}")
        seconds = np.array(found["seconds_per_offer"], np.float64)
        if seconds.shape != observed.n_offers.shape or not (np.isfinite(seconds).all() and (seconds > 0).all()):
            raise StateError(f"a saved run model has costs {seconds.tolist()}, expected one above 0 for each state")
        return cls(str(found["query"]), int(found["branch"]), observed, n_events, seconds, most_events)


__all__ = ["VERSION", "RunModel"]
