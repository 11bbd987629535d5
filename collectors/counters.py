"""Hadoop task counters -> attributes of Mapper and Reducer, the same for job history and REST."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeGuard

from collectors.hadoop_ids import TaskKind
from engine.events import MAX_EXACT_INT

COMMON = {
    ("TaskCounter", "SPILLED_RECORDS"): "n_spilled_records",
    ("TaskCounter", "GC_TIME_MILLIS"): "gc_ms",
    ("TaskCounter", "CPU_MILLISECONDS"): "cpu_ms",
}

WANTED: Mapping[TaskKind, Mapping[tuple[str, str], str]] = {
    "MAP": {
        ("TaskCounter", "MAP_INPUT_RECORDS"): "n_input_records",
        ("TaskCounter", "MAP_OUTPUT_RECORDS"): "n_output_records",
        ("FileInputFormatCounter", "BYTES_READ"): "input_bytes",
        ("TaskCounter", "MAP_OUTPUT_BYTES"): "output_bytes",
        ("TaskCounter", "MAP_OUTPUT_MATERIALIZED_BYTES"): "materialized_bytes",
        **COMMON,
    },
    "REDUCE": {
        ("TaskCounter", "REDUCE_INPUT_RECORDS"): "n_input_records",
        ("TaskCounter", "REDUCE_OUTPUT_RECORDS"): "n_output_records",
        ("TaskCounter", "REDUCE_SHUFFLE_BYTES"): "input_bytes",
        ("FileOutputFormatCounter", "BYTES_WRITTEN"): "output_bytes",
        **COMMON,
    },
}
"""(last part of the group's name, counter) -> attribute."""

ONLY_WITH_REDUCERS = frozenset({"output_bytes", "materialized_bytes", "n_spilled_records"})
"""Attributes of maps that a job without reducers has no counters for: its maps sort and keep nothing."""

COUNTER_OF = {kind: {attribute: name for (_, name), attribute in wanted.items()} for kind, wanted in WANTED.items()}


def read_counters(kind: TaskKind, groups: Iterable[tuple[str, Iterable[Mapping[str, Any]]]]) -> dict[str, int]:
    """Attributes from counter groups (group name, counters with "name" and "value"); those not found are left out.

    A value that is no integer of at most 2^53, or negative, counts as not found: it could not be compared exactly.
    """
    wanted = WANTED[kind]
    found: dict[str, int] = {}
    for group_name, group_counters in groups:
        group = group_name.rpartition(".")[2]
        for counter in group_counters:
            attribute = wanted.get((group, str(counter.get("name"))))
            if attribute is not None and is_count(value := counter.get("value")):
                found[attribute] = value
    return found


def missing_counters(kind: TaskKind, found: Mapping[str, int], n_reduces: int | None) -> list[str]:
    """Attributes that a successful attempt of this kind should have and lacks."""
    map_only = kind == "MAP" and n_reduces == 0
    return [a for a in COUNTER_OF[kind] if a not in found and not (map_only and a in ONLY_WITH_REDUCERS)]


def is_count(value: object) -> TypeGuard[int]:
    """True for an integer in 0..2^53."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_EXACT_INT
