"""All counters of an attempt or job as one text, and back: no counter is chosen before it is known who asks.

The text is a JSON object of groups by full name, each an object of values by counter, names sorted.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, TypeGuard

from collectors.lifecycle import clean_text
from collectors.network.bounded_json import loads

MAX_CHARS = 1 << 16
"""Of a text; beyond it Hadoop's own groups alone are kept. A usual attempt has 2,000."""
MAX_NAME_CHARS = 256
MAX_VALUES = 20_000
_MAX_LONG = (1 << 63) - 1

HADOOP_GROUPS = frozenset({
    "org.apache.hadoop.mapreduce.TaskCounter", "org.apache.hadoop.mapred.Task$Counter",
    "org.apache.hadoop.mapreduce.FileSystemCounter", "FileSystemCounters",
    "org.apache.hadoop.mapreduce.JobCounter", "org.apache.hadoop.mapred.JobInProgress$Counter",
    "org.apache.hadoop.mapreduce.lib.input.FileInputFormatCounter",
    "org.apache.hadoop.mapreduce.lib.output.FileOutputFormatCounter", "Shuffle Errors",
})  # fmt: skip
"""What Hadoop counts itself; a program's own group may use any name within."""

TASK_GROUPS = frozenset({
    "org.apache.hadoop.mapreduce.TaskCounter", "org.apache.hadoop.mapred.Task$Counter",
    "org.apache.hadoop.mapreduce.FileSystemCounter", "FileSystemCounters",
})  # fmt: skip


def whole_counters(groups: Iterable[tuple[str, Iterable[Any]]]) -> tuple[str | None, bool]:
    """(text, whether something was left out); None without a single counter.

    Left out are values that are no integers of 64 bits, names longer than MAX_NAME_CHARS, and what makes a text longer
    than MAX_CHARS.
    """
    found: dict[str, dict[str, int]] = {}
    cut = False
    for group, counters in groups:
        for counter in counters:
            name = counter.get("name") if isinstance(counter, dict) else None
            value = counter.get("value") if isinstance(counter, dict) else None
            if not isinstance(name, str) or not _is_long(value) or max(len(name), len(group)) > MAX_NAME_CHARS:
                cut = True
                continue
            found.setdefault(clean_text(group), {})[clean_text(name)] = value
    text = _text(found)
    if len(text) > MAX_CHARS:
        text, cut = _text({group: found[group] for group in found if group in HADOOP_GROUPS}), True
    if len(text) > MAX_CHARS:
        return None, True
    return (text if text != "{}" else None), cut


def task_counters(text: str | None) -> dict[str, int] | None:
    """Hadoop's own counters of a task by name: those of TaskCounter and of file systems; None for no such text."""
    groups = parsed_counters(text)
    if groups is None:
        return None
    return {name: value for group in TASK_GROUPS & groups.keys() for name, value in groups[group].items()}


def parsed_counters(text: str | None) -> Mapping[str, Mapping[str, int]] | None:
    """The groups of a text; None for what is none."""
    if text is None or len(text) > MAX_CHARS:
        return None
    try:
        groups = loads(text.encode("utf-8", "surrogatepass"), MAX_VALUES)
    except (ValueError, RecursionError):
        return None
    if not isinstance(groups, dict):
        return None
    return {
        group: {name: value for name, value in counters.items() if _is_long(value)}
        for group, counters in groups.items()
        if isinstance(counters, dict)
    }


def _is_long(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= _MAX_LONG


def _text(groups: Mapping[str, Mapping[str, int]]) -> str:
    return json.dumps(groups, sort_keys=True, separators=(",", ":"))


__all__ = ["MAX_CHARS", "parsed_counters", "task_counters", "whole_counters"]
