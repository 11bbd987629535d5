"""Rows of a query from the engine's columns, without a Python object per event: see `spark_jobs.match_rows`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import engine
from app.commands.match.output import json_text, printable
from spark_jobs.match_rows import ARROW_PLACED_ROWS, Source

MOST_IDS = 1_000_000
"""Ids whose texts are joined together; a match with more is by itself."""

MOST_BYTES = 2**31
"""Of an array of texts with 32-bit offsets, which is what Arrow joins."""

_BETWEEN = '", "'
_NEEDS_ESCAPE = np.ones(256, np.bool_)
_NEEDS_ESCAPE[32:127] = False
_NEEDS_ESCAPE[[ord('"'), ord("\\")]] = True


def columnar_batches(table: pa.Table, source: Source) -> Iterator[pa.RecordBatch]:
    """The rows of a block's `to_arrow`, where `is_columnar`, as `match_rows.rows_batch` has them."""
    for part in _parts(table):
        yield _batch(part.combine_chunks(), source)


def _parts(table: pa.Table) -> Iterator[pa.Table]:
    """The table cut into parts of few enough ids."""
    n_ids = np.zeros(table.num_rows, np.int64)
    for name in _variables(table):
        n_ids += pc.list_value_length(pc.struct_field(table.column("bindings"), name)).to_numpy()
    parts = np.cumsum(n_ids) // MOST_IDS
    bounds = [0, *(np.flatnonzero(np.diff(parts)) + 1).tolist(), table.num_rows]
    for start, stop in pairwise(bounds):
        if start < stop:
            yield table.slice(start, stop - start)


def _batch(table: pa.Table, source: Source) -> pa.RecordBatch:
    bindings = table.column("bindings").combine_chunks()
    texts = {name: _json_lists(pc.struct_field(bindings, name)) for name in _variables(table)}
    bound = list(zip(*texts.values(), strict=True))
    keys = [tuple(key.items()) for key in table.column("key").to_pylist()]
    n = table.num_rows
    start = [f"{json_text(name)}: " for name in texts]
    confidence = table.column("confidence").combine_chunks()
    columns: dict[str, Any] = {
        "match_id": [
            engine.match_id_of_json(source.name, source.hash, key, None, dict(zip(texts, of, strict=True)))
            for key, of in zip(keys, bound, strict=True)
        ],
        "query": [source.name] * n,
        "key": [json_text({name: printable(value) for name, value in key}) for key in keys],
        "first_ms": table.column("first_lo_ms").combine_chunks(),
        "last_ms": table.column("last_hi_ms").combine_chunks(),
        "confidence": confidence,
        "at_least_one_low": confidence,
        "at_least_one_high": confidence,
        "count": np.ones(n, np.int64),
        "count_exact": np.ones(n, np.bool_),
        "bindings": ["{" + ", ".join(map("".join, zip(start, of, strict=True))) + "}" for of in bound],
        "values": [
            json_text({name: printable(value) for name, value in values.items()})
            for values in table.column("values").to_pylist()
        ],
    }
    arrays = [
        pa.array(columns[field.name], field.type) if field.name in columns else pa.nulls(n, field.type)
        for field in ARROW_PLACED_ROWS
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=ARROW_PLACED_ROWS)


def _variables(table: pa.Table) -> Sequence[str]:
    return [field.name for field in table.schema.field("bindings").type]


def _json_lists(ids: pa.Array) -> list[str]:
    """The JSON text of each list of ids, which are over a dictionary."""
    if pa.types.is_dictionary(ids.type.value_type):
        ids = ids.cast(pa.list_(pa.string()))
    if not _is_plain(ids.flatten()):
        return [engine.binding_json(tuple(of)) for of in ids.to_pylist()]
    joined = pc.binary_join(ids, _BETWEEN).to_pylist()
    lengths = pc.list_value_length(ids).to_pylist()
    return [f'["{text}"]' if length else "[]" for text, length in zip(joined, lengths, strict=True)]


def _is_plain(texts: pa.Array) -> bool:
    """Whether these are texts that JSON writes as they are, and few enough for one array of Arrow's."""
    if pa.types.is_nested(texts.type):
        return False
    *_, data = texts.buffers()
    if data is None or not len(texts):
        return True
    width = np.int64 if pa.types.is_large_string(texts.type) else np.int32
    offsets = np.frombuffer(texts.buffers()[1], width)[texts.offset : texts.offset + len(texts) + 1]
    found = np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]]
    return len(found) + len(texts) * len(_BETWEEN) < MOST_BYTES and not _NEEDS_ESCAPE[found].any()


__all__ = ["columnar_batches"]
