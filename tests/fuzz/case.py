"""A case of the search: queries, a stream in pieces, restarts; its files are those of `clustercep match`, too."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from app.event_columns import load_events
from app.event_file import read_event_file
from engine.events import HEADER_NAMES, EventBatch
from tests.conformance.ways import Setting
from tests.engine.strategies import SCHEMA, Delivery

_EVENTS, _CASE = "events.jsonl", "case.json"
_NAMES = {"event_id": "id", "t_lo_ms": "t_lo", "t_hi_ms": "t_hi"}


@dataclass(frozen=True)
class FuzzCase:
    """`setting`: the queries, evaluated together in one engine. `watermarks`: after each piece of the stream, and
    `piece_of` the piece of each event by its id; a new engine goes on after the pieces in `restarts`."""

    setting: Setting
    stream: EventBatch
    watermarks: tuple[int, ...]
    piece_of: Mapping[str, int]
    restarts: frozenset[int] = frozenset()

    @property
    def parts(self) -> list[Delivery]:
        """The pieces in order."""
        rows: list[list[int]] = [[] for _ in self.watermarks]
        for row, event_id in enumerate(self.stream.table.column("event_id").to_pylist()):
            rows[self.piece_of[event_id]].append(row)
        cut = [EventBatch(self.stream.table.take(own)) if own else EventBatch.empty() for own in rows]
        return [Delivery(part, mark) for part, mark in zip(cut, self.watermarks, strict=True)]

    def with_events(self, rows: Sequence[Mapping[str, Any]]) -> FuzzCase:
        """The same with these events, of which each has an id that it has."""
        return replace(self, stream=EventBatch.from_rows(rows, SCHEMA))

    def save(self, folder: Path) -> None:
        """Write the case; each query is a file NAME.cep."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in self.setting.texts.items():
            (folder / f"{name}.cep").write_text(text.rstrip() + "\n", encoding="utf-8")
        rows = [_as_json(row) for row in self.stream.sorted().rows()]
        (folder / _EVENTS).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        emitted = {
            "queries": list(self.setting.texts),
            "parameters": self.setting.parameters,
            "watermarks": self.watermarks,
            "piece_of": self.piece_of,
            "restarts": sorted(self.restarts),
        }
        (folder / _CASE).write_text(json.dumps(emitted, indent=1) + "\n", encoding="utf-8")

    def __str__(self) -> str:
        """For people: queries, one line per event, pieces."""
        lines = [f"-- {name}\n{text.rstrip()}" for name, text in self.setting.texts.items()]
        lines += [f"parameters {dict(given)}" for given in self.setting.parameters.values() if given]
        lines += [json.dumps(_as_json(row)) for row in self.stream.sorted().rows()]
        pieces = [
            f"{[i for i, piece in self.piece_of.items() if piece == n]} then {mark}"
            for n, mark in enumerate(self.watermarks)
        ]
        return "\n".join([*lines, f"pieces {'; '.join(pieces)}; restarts after {sorted(self.restarts)}"])


def of_parts(setting: Setting, parts: Sequence[Delivery], restarts: frozenset[int]) -> FuzzCase:
    """The case of a delivery."""
    piece_of = {
        event_id: number
        for number, part in enumerate(parts)
        for event_id in part.batch.table.column("event_id").to_pylist()
    }
    stream = EventBatch.concat([part.batch for part in parts])
    return FuzzCase(setting, stream, tuple(part.watermark_ms for part in parts), piece_of, restarts)


def load(folder: Path) -> FuzzCase:
    """What `FuzzCase.save` wrote."""
    emitted = json.loads((folder / _CASE).read_text(encoding="utf-8"))
    texts = {name: (folder / f"{name}.cep").read_text(encoding="utf-8") for name in emitted["queries"]}
    stream = EventBatch.empty()
    if (folder / _EVENTS).stat().st_size:
        stream = load_events(*read_event_file(str(folder / _EVENTS)), SCHEMA).batch
    setting = Setting(texts, emitted["parameters"])
    return FuzzCase(setting, stream, tuple(emitted["watermarks"]), emitted["piece_of"], frozenset(emitted["restarts"]))


def _as_json(row: Mapping[str, Any]) -> dict[str, Any]:
    """As the command reads it, without what is the same left out."""
    names = (*HEADER_NAMES, *SCHEMA.types[row["type"]])
    return {_NAMES.get(name, name): row[name] for name in names if row.get(name) is not None}


__all__ = ["FuzzCase", "load", "of_parts"]
