"""Hadoop task counters -> attributes of Mapper and Reducer, the same for job history and REST."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeGuard

from collectors.hadoop_ids import TaskKind
from engine.events import MAX_EXACT_INT

_COMMON = {"SPILLED_RECORDS": "n_spilled_records", "GC_TIME_MILLIS": "gc_ms", "CPU_MILLISECONDS": "cpu_ms"}

WANTED: Mapping[TaskKind, Mapping[str, Mapping[str, str]]] = {
    "MAP": {
        "TaskCounter": {
            "MAP_INPUT_RECORDS": "n_input_records",
            "MAP_OUTPUT_RECORDS": "n_output_records",
            "MAP_OUTPUT_BYTES": "output_bytes",
            "MAP_OUTPUT_MATERIALIZED_BYTES": "materialized_bytes",
            **_COMMON,
        },
        "FileInputFormatCounter": {"BYTES_READ": "input_bytes"},
    },
    "REDUCE": {
        "TaskCounter": {
            "REDUCE_INPUT_RECORDS": "n_input_records",
            "REDUCE_OUTPUT_RECORDS": "n_output_records",
            "REDUCE_SHUFFLE_BYTES": "input_bytes",
            **_COMMON,
        },
        "FileOutputFormatCounter": {"BYTES_WRITTEN": "output_bytes"},
    },
}
"""Last part of the group's name -> counter -> attribute."""

ONLY_WITH_REDUCERS = frozenset({"output_bytes", "materialized_bytes", "n_spilled_records"})
"""Attributes of maps that a job without reducers has no counters for: its maps sort and keep nothing."""

ATTRIBUTES: Mapping[TaskKind, tuple[str, ...]] = {
    kind: tuple(attribute for group in groups.values() for attribute in group.values())
    for kind, groups in WANTED.items()
}


def read_counters(kind: TaskKind, groups: Iterable[tuple[str, Iterable[Any]]]) -> dict[str, int]:
    """Attributes from counter groups (group name, counters with "name" and "value"); those not found are left out.

    A value that is no integer of at most 2^53, or negative, counts as not found: it could not be compared exactly.
    """
    wanted = WANTED[kind]
    found: dict[str, int] = {}
    for group_name, group_counters in groups:
        of_group = wanted.get(group_name.rpartition(".")[2])
        if of_group is None:
            continue
        for counter in group_counters:
            name = counter.get("name") if isinstance(counter, dict) else None
            if isinstance(name, str) and name in of_group and is_count(value := counter.get("value")):
                found[of_group[name]] = value
    return found


def missing_counters(kind: TaskKind, found: Mapping[str, int], n_reduces: int | None) -> list[str]:
    """Attributes that a successful attempt of this kind should have and lacks."""
    map_only = kind == "MAP" and n_reduces == 0
    return [a for a in ATTRIBUTES[kind] if a not in found and not (map_only and a in ONLY_WITH_REDUCERS)]


def is_count(value: object) -> TypeGuard[int]:
    """True for an integer in 0..2^53."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_EXACT_INT
