"""What was learned of events, as a sealed text: read again as it was written, else refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from engine.errors import StateError
from engine.events import Float64Array
from engine.shedding.events.features import AttributeBins, Features
from engine.shedding.events.forest import Forest
from engine.shedding.events.observations import AggregatedObservations
from engine.shedding.sealed import Seal

VERSION = 2
_REMEDY = "train it again ('clustercep shed train')"
_SEAL = Seal("clustercep event model", VERSION, "a saved event model", _REMEDY)
_MOST_PANE_EVENTS = 1_000_000
_MOST_BINS = 65_536
_MOST = 1 << 53


@dataclass(frozen=True, slots=True)
class EventModel:
    """`queries`: hash of the meaning of each query, by name, whose matches events contributed to. `type_utility`,
    `type_share`: float64 (n_types,), see `TypeUtilities`."""

    queries: Mapping[str, str]
    features: Features
    type_utility: Float64Array
    type_share: Float64Array
    observed: AggregatedObservations
    forest: Forest | None = None
    """Events are valued by these trees; `observed` does not tell panes apart then. None: by a table of `observed`."""

    def text(self) -> str:
        """As `read` takes it."""
        features, observed = self.features, self.observed
        body: dict[str, Any] = {
            "queries": dict(sorted(self.queries.items())),
            "types": list(features.types),
            "attributes": [[bins.name, bins.low, bins.width, bins.n_bins] for bins in features.attributes],
            "pane_events": features.pane_events,
            "pane_ms": features.pane_ms,
            "count_bin": features.count_bin,
            "seed": features.seed,
            "type_utility": self.type_utility.tolist(),
            "type_share": self.type_share.tolist(),
            "features": observed.features.tolist(),
            "n_events": observed.n_events.tolist(),
            "contributed": observed.contributed.tolist(),
            "forest": None if self.forest is None else self.forest.saved(),
        }
        return _SEAL.text(body)

    @classmethod
    def read(cls, text: str) -> Self:
        """What `text` returned; raises StateError for one that is damaged or of another version."""
        found = _SEAL.opened(text)
        with _SEAL.reading():
            return cls._of(found)

    @classmethod
    def _of(cls, found: Mapping[str, Any]) -> Self:
        features = Features(
            tuple(map(str, found["types"])),
            tuple(AttributeBins(str(name), float(low), float(w), int(n)) for name, low, w, n in found["attributes"]),
            None if found["pane_events"] is None else int(found["pane_events"]),
            None if found["pane_ms"] is None else int(found["pane_ms"]),
            int(found["count_bin"]),
            int(found["seed"]),
        )
        if (features.pane_events or 0) > _MOST_PANE_EVENTS or any(b.n_bins > _MOST_BINS for b in features.attributes):
            raise StateError(f"a saved event model has a longer pane, or more bins, than there may be; {_REMEDY}")
        if max(features.pane_ms or 0, features.count_bin) > _MOST or not 0 <= features.seed <= _MOST:
            raise StateError(f"a saved event model has numbers out of range; {_REMEDY}")
        n_types, n_attributes = len(features.types), len(features.attributes)
        rows = np.array(found["features"], np.int64).reshape(-1, 1 + n_attributes + n_types)
        _check_bins(features, rows)
        observed = AggregatedObservations(
            rows, np.array(found["n_events"], np.int64), np.array(found["contributed"], np.float64)
        )
        utility, share = (np.array(found[name], np.float64) for name in ("type_utility", "type_share"))
        for values in (utility, share, observed.contributed):
            if not (np.isfinite(values).all() and (values >= 0).all()):
                raise StateError(f"a saved event model has utilities below 0, or that are no numbers; {_REMEDY}")
        if utility.shape != (n_types,) or share.shape != (n_types,):
            raise StateError(f"a saved event model has {utility.shape} utilities for {n_types} types; {_REMEDY}")
        queries = {str(name): str(hashed) for name, hashed in dict(found["queries"]).items()}
        n_features = 1 + n_attributes + n_types
        forest = None if found["forest"] is None else Forest.read(dict(found["forest"]), n_features)
        return cls(queries, features, utility, share, observed, forest)


def _check_bins(features: Features, rows: np.ndarray[Any, np.dtype[np.int64]]) -> None:
    """Each row a type, bins of attributes and bins of the pane that there are."""
    limits = [len(features.types), *(bins.n_bins + 1 for bins in features.attributes)]
    limits += [features.n_count_bins] * len(features.types)
    if len(rows) and ((rows < 0).any() or (rows >= np.array(limits)).any()):
        raise StateError(f"a saved event model has features that there are none of; {_REMEDY}")


__all__ = ["VERSION", "EventModel"]
