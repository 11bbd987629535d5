"""The counters that a job's client prints at its end, by the names under which they are shown.

Hadoop 2 and 3 print them as one record over many lines, groups behind one tab and counters behind two; Hadoop 0.20 and
1 as a record each, groups behind two spaces and counters behind four. Both say first how many there are.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

from collectors.client.lines import Times
from collectors.printable import printable

MAX_BLOCK_LINES = 5_000
"""Of one job's counters, and other lines among them; beyond, they have ended."""
MAX_NAME_CHARS = 256
MAX_JSON_CHARS = 1 << 16
"""Of all counters of a job; further ones are left out."""

PRINTED = re.compile(r"(\t{1,2})(\S.{0,2000})$")
LOGGED = re.compile(r"( {2}| {4})(\S.{0,2000})$")
VALUE = re.compile(r"(.{1,1900})=(-?[0-9]{1,19})[ \t\r]{0,5}$")
"""Greedy: a name may hold an equals sign."""
_MAX_LONG = (1 << 63) - 1

CHOSEN = {
    "Launched map tasks": "n_maps",
    "Launched reduce tasks": "n_reduces",
    "Failed map tasks": "n_failed_maps",
    "Failed reduce tasks": "n_failed_reduces",
    "Killed map tasks": "n_killed_maps",
    "Killed reduce tasks": "n_killed_reduces",
    "Data-local map tasks": "n_data_local_maps",
    "Rack-local map tasks": "n_rack_local_maps",
    "Map input records": "n_input_records",
    "Spilled Records": "n_spilled_records",
    "Reduce shuffle bytes": "shuffle_bytes",
    "GC time elapsed (ms)": "gc_ms",
    "CPU time spent (ms)": "cpu_ms",
}
"""Counter of Hadoop's own groups -> attribute."""
GROUPS = ("Job Counters", "Map-Reduce Framework")


@dataclass(slots=True)
class CounterBlock:
    """The counters of one job, as far as they have been read."""

    job_id: str | None
    """None: whose they are is not known."""
    times: Times | None
    thread: str
    n_expected: int
    number: int
    """Line that says how many there are."""
    raw: str
    group: str = ""
    groups: dict[str, dict[str, int]] = field(default_factory=dict)
    n_read: int = 0
    n_lines: int = 0
    n_chars: int = 0
    is_printed: bool = False
    """As one record: the first line that is no part of it ends it."""

    @classmethod
    def from_json(cls, saved: dict[str, Any]) -> CounterBlock:
        """Back from `asdict`; raises TypeError or KeyError for anything else."""
        times = saved["times"]
        return cls(**{**saved, "times": None if times is None else tuple(times)})

    @property
    def is_whole(self) -> bool:
        """Whether all have been read."""
        return self.n_read >= self.n_expected

    def take_logged(self, message: str) -> bool:
        """Whether a record of the client's thread is one of them."""
        return self._take(LOGGED.match(message), 2)

    def take_printed(self, line: str) -> bool:
        """Whether a line without a record's beginning is one of them."""
        taken = self._take(PRINTED.match(line.rstrip("\r")), 1)
        self.is_printed = self.is_printed or taken
        return taken

    def _take(self, found: re.Match[str] | None, indent: int) -> bool:
        self.n_lines += 1
        if found is None or self.n_lines > MAX_BLOCK_LINES:
            return False
        text = found[2].rstrip()
        if len(found[1]) == indent:
            self.group = printable(text, MAX_NAME_CHARS)
            return True
        counter = VALUE.match(text)
        if counter is None:
            return False
        self.n_read += 1
        name, value = printable(counter[1], MAX_NAME_CHARS), int(counter[2])
        self.n_chars += len(name) + len(counter[2]) + 5
        if -_MAX_LONG <= value <= _MAX_LONG and self.n_chars <= MAX_JSON_CHARS:
            self.groups.setdefault(self.group, {})[name] = value
        return True


def attributes_of(block: CounterBlock) -> dict[str, Any]:
    """As event attributes: chosen ones by themselves, and all as JSON."""
    own: dict[str, int] = {}
    for group in GROUPS:
        own |= block.groups.get(group, {})
    chosen = {attribute: own.get(name) for name, attribute in CHOSEN.items()}
    return {**chosen, "counters": json.dumps(block.groups, sort_keys=True, separators=(",", ":"))}


__all__ = ["CHOSEN", "MAX_BLOCK_LINES", "CounterBlock", "attributes_of"]
