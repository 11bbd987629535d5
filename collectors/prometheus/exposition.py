"""The text that exporters answer with: Prometheus' text format and OpenMetrics, of which chosen metrics are parsed.

Lines of other metrics are looked at for their name alone and counted: an exporter of a JVM may tell tens of thousands.
The chosen ones go to the parsers of `prometheus_client`. As Prometheus does, an answer with a line that is none is
refused whole: it is not known what the rest of it means.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families

from collectors.base import CollectorError
from collectors.printable import printable
from collectors.time_units import MAX_TIME_MS

OPENMETRICS = "application/openmetrics-text"
ACCEPT = f"{OPENMETRICS};version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"

MAX_SERIES = 200_000
"""Lines of samples of one answer."""
MAX_LINES = 1_000_000
"""With those of types, helps and none: a line of nothing but its end takes a byte, and as long as others."""
MAX_CHOSEN = 20_000
"""Of them such as are parsed."""
MAX_LINE_CHARS = 8_192
"""Name, labels, value and exemplar: what takes longer to parse than it is worth."""
MAX_LABELS = 64
MAX_LABEL_CHARS = 1_024

_NAME = re.compile(r"[ \t]*([a-zA-Z_:][a-zA-Z0-9_:]*)(?=[ \t{])")
_QUOTED = re.compile(r'[ \t]*\{[ \t]*"')
_METADATA = re.compile(r"#[ \t]+(?:TYPE|UNIT)[ \t]+([a-zA-Z_:][a-zA-Z0-9_:]*)[ \t]")
_EOF = "# EOF"
PARSER_ERRORS = (ValueError, LookupError, AttributeError, TypeError, OverflowError, UnboundLocalError)
"""What the parsers raise for text that is none of theirs."""

Labels = Mapping[str, str]


class ExpositionError(CollectorError):
    """An answer that is none of an exporter; `kind` is a slug for counting."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


@dataclass(frozen=True, slots=True)
class Sample:
    """One series' value."""

    name: str
    labels: Labels
    value: float
    t_ms: int | None
    """Where the exporter tells it, when it was measured."""


@dataclass(frozen=True, slots=True)
class Exposition:
    """What an answer holds."""

    samples: tuple[Sample, ...]
    """Of the chosen metrics, one per series."""
    n_others: int
    """Samples of other metrics."""
    n_repeated: int
    """Samples of series that had been told before in the same answer; they are left out."""


def parse_exposition(body: bytes, content_type: str, metrics: Collection[str]) -> Exposition:
    """The samples of these metrics; raises ExpositionError."""
    if body.count(b"\n") > MAX_LINES:
        raise ExpositionError("too_large", f"it has more than {MAX_LINES:,} lines; it is not read")
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ExpositionError("not_exposition", f"expected text in UTF-8, found {error.reason}") from error
    is_openmetrics = content_type.partition(";")[0].strip().lower() == OPENMETRICS
    lines = text.split("\n")
    if is_openmetrics:
        while lines and not lines[-1].strip():
            lines.pop()
        if not lines or lines[-1].rstrip("\r") != _EOF:
            raise ExpositionError("truncated", f"expected OpenMetrics that ends with {_EOF!r}: it is not whole")
        lines.pop()
    chosen, n_others = _chosen_lines(lines, metrics, keep_metadata=is_openmetrics)
    samples, n_repeated = _distinct(_parsed(chosen, is_openmetrics))
    return Exposition(samples, n_others, n_repeated)


def _chosen_lines(
    lines: Iterable[str], metrics: Collection[str], *, keep_metadata: bool
) -> tuple[list[tuple[int, str]], int]:
    chosen: list[tuple[int, str]] = []
    families = {*metrics, *(metric.removesuffix("_total") for metric in metrics)}
    n_series, n_chosen = 0, 0
    for number, line in enumerate(lines, 1):
        found = _NAME.match(line)
        if found is None:
            if line.startswith("#"):
                if keep_metadata and (told := _METADATA.match(line)) is not None and told[1] in families:
                    chosen.append((number, line))
                continue
            if not line.strip():
                continue
            if _QUOTED.match(line) is None:
                raise _bad_line(number, line, "expected NAME{LABELS} VALUE: is it the address of an exporter?")
        n_series += 1
        if n_series > MAX_SERIES:
            raise ExpositionError("too_large", f"it holds more than {MAX_SERIES:,} samples; it is not read")
        if found is not None and found[1] in metrics:
            if len(line) > MAX_LINE_CHARS:
                raise _bad_line(number, line, f"longer than {MAX_LINE_CHARS:,} characters")
            n_chosen += 1
            if n_chosen > MAX_CHOSEN:
                raise ExpositionError("too_large", f"more than {MAX_CHOSEN:,} samples are chosen; it is not read")
            chosen.append((number, line))
    return chosen, n_series - n_chosen


def _parsed(chosen: list[tuple[int, str]], is_openmetrics: bool) -> list[Sample]:
    try:
        return _samples(_families([line for _, line in chosen], is_openmetrics))
    except PARSER_ERRORS as error:
        for number, line in () if is_openmetrics else chosen:  # once more, to say where
            try:
                _samples(_families([line], is_openmetrics))
            except PARSER_ERRORS as of_line:
                raise _bad_line(number, line, f"it cannot be parsed ({of_line})") from of_line
        raise ExpositionError("not_exposition", f"its lines cannot be parsed ({error})") from error


def _families(lines: list[str], is_openmetrics: bool) -> Iterable[Any]:
    if not lines:
        return ()
    found: Iterable[Any]
    if is_openmetrics:
        found = openmetrics.text_string_to_metric_families("\n".join([*lines, _EOF, ""]))  # type: ignore[no-untyped-call]
    else:
        found = text_string_to_metric_families("\n".join(lines) + "\n")
    return found


def _samples(families: Iterable[Any]) -> list[Sample]:
    return [_sample(told) for family in families for told in family.samples]


def _sample(told: Any) -> Sample:
    labels: dict[str, str] = told.labels or {}
    if len(labels) > MAX_LABELS:
        raise ValueError(f"{len(labels)} labels; expected at most {MAX_LABELS}")
    if any(len(name) > MAX_LABEL_CHARS or len(value) > MAX_LABEL_CHARS for name, value in labels.items()):
        raise ValueError(f"a label of more than {MAX_LABEL_CHARS:,} characters")
    t_ms = None
    if told.timestamp is not None:
        t_ms = round(float(told.timestamp) * 1000)
        if not 0 < t_ms <= MAX_TIME_MS:
            raise ValueError(f"a time of {t_ms} ms after the epoch")
    return Sample(told.name, labels, float(told.value), t_ms)


def _distinct(samples: Iterable[Sample]) -> tuple[tuple[Sample, ...], int]:
    first: dict[tuple[str, frozenset[tuple[str, str]]], Sample] = {}
    n = 0
    for sample in samples:
        n += 1
        first.setdefault((sample.name, frozenset(sample.labels.items())), sample)
    return tuple(first.values()), n - len(first)


def _bad_line(number: int, line: str, reason: str) -> ExpositionError:
    start = printable(line[:60], 80)
    return ExpositionError("not_exposition", f"line {number}, which begins {start!r}: {reason}")


__all__ = ["ACCEPT", "Exposition", "ExpositionError", "Labels", "Sample", "parse_exposition"]
