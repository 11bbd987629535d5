"""Texts for people: summaries from templates, runbook paragraphs; everything filled in is hostile plain text."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Protocol

import engine
from app.durations import format_duration, format_number, format_size, format_time, format_with_unit

MAX_VALUE_CHARS = 200
MAX_SUMMARY_CHARS = 1_000

_UNIT = "unit"
"""The format of a number beside its unit, and the value that names the unit."""
_BRACES = re.compile(r"\{([A-Za-z0-9_.:]+)\}")
_FORMATS: dict[str, Callable[[float], str]] = {"duration": format_duration, "size": format_size, "time": format_time}

_HEADING = re.compile(r"#{1,6}[ \t]+(?=[^ \t])(.*)")


def fill(
    template: str, values: Mapping[str, object], max_chars: int = MAX_SUMMARY_CHARS, *, for_people: bool = True
) -> str:
    """`template` with `{name}` replaced by `values["name"]`, `{name.max}` by `values["name.max"]`.

    What stands behind a colon says how a number is written (`{name:duration}`); without it, it is rounded as people
    read it, or to six digits. One pass: braces inside values stay as they are. A name without a value stays visible as
    `{name}`. Values are stripped of control characters and cut, as is the result.
    """

    places, rest = _places(template)
    told: list[str] = []
    for place in places:
        value = values.get(place.name)
        if place.name not in values:
            text = place.text
        elif place.form is not None:
            text = written(value, place.form, values.get(_UNIT))
        else:
            text = in_short(value) if for_people else plain(value)
        told += place.before, text
    return cut("".join((*told, rest)), max_chars)


def names_in(template: str) -> frozenset[str]:
    """What `fill` looks for in the values: names, some with an aspect."""
    return frozenset(place.name for place in _places(template)[0])


@dataclass(frozen=True, slots=True)
class _Place:
    """A placeholder, and the text between it and the one before."""

    before: str
    name: str
    form: str | None
    text: str


@lru_cache(maxsize=256)
def _places(template: str) -> tuple[tuple[_Place, ...], str]:
    """The placeholders of a template, and what stands behind the last one."""
    line, at = one_line(template), 0
    places: list[_Place] = []
    for match in _BRACES.finditer(line):
        if (found := engine.placeholder_of(match[1])) is not None:
            name = found.name if found.aspect is None else f"{found.name}.{found.aspect.value.lower()}"
            places.append(_Place(line[at : match.start()], name, found.form, match[0]))
            at = match.end()
    return tuple(places), line[at:]


def placeholders(template: str) -> frozenset[str]:
    """The names a template needs."""
    found = (engine.placeholder_of(inside) for inside in _BRACES.findall(template))
    return frozenset(placeholder.name for placeholder in found if placeholder is not None)


def written(value: object, form: str, unit: object = None) -> str:
    """A value in a format of templates; what the format cannot write stands as it is. `unit`: of the value."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return plain(value)
    if form == _UNIT:
        return format_with_unit(value, "" if unit is None else plain(unit))
    try:
        return _FORMATS[form](value)
    except ValueError:  # a time that no calendar shows
        return plain(value)


def in_short(value: object) -> str:
    """As `plain`, a fraction as people read it."""
    return format_number(value) if isinstance(value, float) else plain(value)


def plain(value: object, max_chars: int = MAX_VALUE_CHARS) -> str:
    """A value as one short line without control characters."""
    if type(value) is str and len(value) <= max_chars and value.isprintable():
        return value
    if value is None:
        return "unknown"
    if isinstance(value, float):
        return f"{value:.6g}"
    return cut(one_line(str(value)), max_chars)


SHED_TEXT = "found while load was shed to hold engine.latency_bound: there may be further matches"
"""Beside what an alert says of its matches."""


EXPECTATION_TEXTS = {
    "expected": "the numbers are expected values over all times that the uncertain events may have had",
    "upper bound": "the counts, and sums of values that are not negative, are upper bounds of expected values: more "
    "uncertain events overlapped than engine.trend_overlap tells apart",
}
"""By engine.Expectation; beside the numbers of an alert about trends."""


class AtLeastOneMatch(Protocol):
    """P(at least one match) as alerts and their snapshots have it."""

    @property
    def at_least_one_lower(self) -> float:
        """Lower bound."""
        ...

    @property
    def at_least_one_upper(self) -> float:
        """Upper bound."""
        ...

    @property
    def at_least_one_method(self) -> str:
        """certain, exact, bounds or estimate."""
        ...

    @property
    def at_least_one_estimate(self) -> float | None:
        """From drawn worlds."""
        ...

    @property
    def at_least_one_error(self) -> float | None:
        """The estimate's standard error."""
        ...


def at_least_one_text(known: AtLeastOneMatch) -> str:
    """`certain`, `93 % (exact)`, `between 81 and 97 %`, `about 93 % (estimated, +- 0.4)`.

    Never 100 % for what is not certain, never 0 % for what is possible.
    """
    match known.at_least_one_method:
        case "certain":
            return "certain"
        case "exact":
            return f"{percent_text(known.at_least_one_lower)} (exact)"
        case "estimate" if known.at_least_one_estimate is not None and known.at_least_one_error is not None:
            error = f"{200 * known.at_least_one_error:.1g}"
            return f"about {percent_text(known.at_least_one_estimate)} (estimated, ± {error})"
    if known.at_least_one_lower <= 0:
        return "unknown" if known.at_least_one_upper >= 1 else f"at most {percent_text(known.at_least_one_upper)}"
    if known.at_least_one_upper >= 1:
        return f"at least {percent_text(known.at_least_one_lower)}"
    lower, upper = percent_text(known.at_least_one_lower), percent_text(known.at_least_one_upper)
    return f"between {lower.removesuffix(' %')} and {upper}"


def percent_text(probability: float) -> str:
    """`87.3 %` of what is neither certain nor impossible."""
    if probability > 0.999:
        return "> 99.9 %"
    return "< 0.1 %" if probability < 0.001 else f"{min(probability * 100, 99.9):.3g} %"


def one_line(text: str) -> str:
    """Unprintable characters (line ends, escapes, direction marks) become spaces."""
    return text if text.isprintable() else "".join(c if c.isprintable() else " " for c in text)


def cut(text: str, max_chars: int) -> str:
    """At most `max_chars` characters, with an ellipsis when something is missing."""
    return text if len(text) <= max_chars else text[: max_chars - 1] + "…"


def runbook_sections(markdown: str) -> dict[str, str]:
    """Text below each heading of a runbook, by heading; the heading is the query's name."""
    sections: dict[str, list[str]] = {}
    current: list[str] | None = None
    for line in markdown.splitlines():
        heading = _HEADING.match(line)
        if heading:
            current = sections.setdefault(heading[1].rstrip(" \t#").strip("`"), [])
        elif current is not None:
            current.append(line)
    return {name: "\n".join(lines).strip() for name, lines in sections.items()}


def iso(time_ms: int) -> str:
    """RFC 3339 with milliseconds, in UTC."""
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
