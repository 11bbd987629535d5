"""Read positions as a new process finds them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from pyarrow import ipc

from app.live.positions import put_together, take_apart


def saved(position: Mapping[str, Any]) -> dict[str, Any]:
    """A collector's position, through the forms that a checkpoint has for it."""
    taken = take_apart({"source": {"collector": position}})
    tables = {name: _stored(table) for name, table in {**taken.tables, **taken.lasting}.items()}
    found: dict[str, Any] = put_together(json.loads(json.dumps(taken.json)), tables)["source"]["collector"]
    return found


def _stored(table: pa.Table) -> pa.Table:
    sink = pa.BufferOutputStream()
    with ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return ipc.open_stream(sink.getvalue()).read_all()
