"""The texts of ALERT and REPORT: `{name}`, `{name.last}`, `{name:size}`, `{name.max:duration}`.

A name is a value of RETURN, in the text of INCIDENT also `queries`; what stands behind a dot says of which match, what
stands behind a colon how it is written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from engine.language.ast import Aspect

UNIT = "unit"
"""The way of writing a number beside its unit, and the value of RETURN that names the unit."""

FORMATS = {"duration": "milliseconds", "size": "bytes", "time": "milliseconds since 1970", UNIT: "what unit says"}
"""Ways of writing a number, with what the number is."""

BOUND_QUERIES = "queries"
"""In the text of INCIDENT: the names of the queries whose matches it binds."""

ASPECTS = {aspect.value.lower(): aspect for aspect in Aspect}

_BRACES = re.compile(r"\{([^{}]*)\}")
_PLACEHOLDER = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?:\.([A-Za-z0-9_]*))?(?::([A-Za-z0-9_]*))?")


@dataclass(frozen=True, slots=True)
class Placeholder:
    """`{name.aspect:format}`; an `aspect` of None: as SHOW says, a `form` of None: as it is."""

    name: str
    aspect: Aspect | None = None
    form: str | None = None


def placeholders(template: str) -> Iterator[tuple[str, Placeholder | None]]:
    """What stands in braces, each with what it means; None where it means nothing."""
    for found in _BRACES.finditer(template):
        yield found[0], placeholder_of(found[1])


def placeholder_of(text: str) -> Placeholder | None:
    """The meaning of what stands between braces; None when it is no placeholder."""
    found = _PLACEHOLDER.fullmatch(text)
    if found is None or (found[2] is not None and found[2] not in ASPECTS):
        return None
    if found[3] is not None and found[3] not in FORMATS:
        return None
    return Placeholder(found[1], None if found[2] is None else ASPECTS[found[2]], found[3])


__all__ = ["ASPECTS", "BOUND_QUERIES", "FORMATS", "UNIT", "Placeholder", "placeholder_of", "placeholders"]
