"""Layouts of log folders: a path below the root with named places, e.g. "{host}/{application}/{container}/{role}"."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from collectors.base import OptionError
from collectors.hadoop_ids import APPLICATION, CONTAINER

PLACES: Mapping[str, str] = {
    "host": r"[^/]+",
    "user": r"[^/]+",
    "application": APPLICATION.pattern,
    "container": CONTAINER.pattern,
    "role": r"[^/]+",
}


@dataclass(frozen=True, slots=True)
class PathLayout:
    """A compiled layout."""

    text: str
    pattern: re.Pattern[str]

    @classmethod
    def of(cls, text: str, required: frozenset[str]) -> PathLayout:
        """Compile; raises OptionError for an unknown place, one named twice, or a required one that is missing."""
        named = re.findall(r"\{(\w*)\}", text)
        for name in named:
            if name not in PLACES:
                raise OptionError(f"layout {text!r}: unknown place {{{name}}}; known: {', '.join(sorted(PLACES))}")
        if len(named) != len(set(named)) or not required <= set(named):
            raise OptionError(f"layout {text!r}: expected each of {', '.join(sorted(required))} once")
        parts = re.split(r"\{(\w*)\}", text)
        compiled = "".join(
            f"(?P<{part}>{PLACES[part]})" if place % 2 else re.escape(part) for place, part in enumerate(parts)
        )
        return cls(text, re.compile(compiled))

    def match(self, parts: tuple[str, ...]) -> dict[str, str] | None:
        """The named places of a path below the root, or None when it is not of this layout."""
        found = self.pattern.fullmatch("/".join(parts))
        return None if found is None else found.groupdict()
