"""The XML that gmond (port 8649) and gmetad (8651, 8652) answer with: what each host said last, and how long ago.

Ages (TN) are whole seconds, rounded down, by the clock of who answers. gmetad adds its own to what it was told, of
times that are cut to seconds as well: there an age may be a second less or two more than it says.

What is read comes from others: no entities, no long defaults of attributes, elements and their nesting bounded, no tag
longer than 64 KiB. An answer that is cut tells what stands before the cut.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any
from xml.etree.ElementTree import ParseError

from defusedxml import DefusedXmlException
from defusedxml.ElementTree import XMLParser

from collectors.base import CollectorError
from collectors.metrics.normal import UNITS
from collectors.network.deadlines import remaining_s
from collectors.printable import printable

MAX_ELEMENTS = 4_000_000
"""Some 200 a host."""
MAX_DEPTH = 32
"""Grids within grids, and 6."""
MAX_HOSTS = 20_000
MAX_CHOSEN = 500_000
MAX_TAG_BYTES = 1 << 16
MAX_DECLARATIONS, MAX_DEFAULTS, MAX_DEFAULT_CHARS = 1_000, 16, 64
"""Attributes that the DTD declares, those of them with a default, and the longest of these: it is in every element."""
MAX_TEXT_CHARS = 255
MAX_AGE_S = 10**9
_SLICE_BYTES = 1 << 16
_UNITS_AS_WRITTEN = {"percent": "%", "seconds": "s", "sec": "s", "cpus": "CPUs"}
"""Of modules that are not gmond's own, in lower case."""


class GmondXmlError(CollectorError):
    """An answer that is none of Ganglia's; `kind` is a slug for counting."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


@dataclass(frozen=True, slots=True)
class Reported:
    """A chosen metric of a host, as it was reported last."""

    value: float
    unit: str | None
    age_s: int


@dataclass(slots=True)
class ReportingHost:
    """One host, and what is known of it."""

    cluster: str
    name: str
    address: str
    age_s: int | None
    """Since it reported anything; None where that is not said."""
    limit_s: int
    """It reports at least so often; 0 is not known."""
    metrics: dict[str, Reported] = field(default_factory=dict)

    @property
    def is_silent(self) -> bool:
        """As Ganglia has it: it missed four reports."""
        return self.age_s is not None and self.limit_s > 0 and self.age_s > 4 * self.limit_s


@dataclass(slots=True)
class GangliaAnswer:
    """What an answer holds."""

    is_of_gmetad: bool = False
    hosts: list[ReportingHost] = field(default_factory=list)
    n_others: int = 0
    """Metrics that are not chosen."""
    n_expired: int = 0
    """Chosen ones whose last report is too old to count (four times TMAX, or DMAX)."""
    odd: dict[str, str] = field(default_factory=dict)
    """Kind of what was left out -> the first of it."""
    fault: str | None = None
    """Why it is not whole."""


def parse_answer(body: bytes, metrics: Collection[str]) -> GangliaAnswer:
    """What an answer tells of these metrics; raises GmondXmlError."""
    reader = _Reader(metrics)
    parser: Any = XMLParser(target=_Nothing(), forbid_dtd=False)
    expat = parser.parser
    expat.StartElementHandler, expat.EndElementHandler = reader.start, reader.end
    expat.AttlistDeclHandler = reader.declare
    expat.DefaultHandlerExpand, expat.ordered_attributes = None, False
    try:
        for at in range(0, len(body), _SLICE_BYTES):
            if remaining_s() <= 0:
                raise GmondXmlError("too_large", "it takes longer to read than a poll may wait for it")
            parser.feed(body[at : at + _SLICE_BYTES])
            if at + _SLICE_BYTES - expat.CurrentByteIndex > MAX_TAG_BYTES + _SLICE_BYTES:
                raise GmondXmlError("too_large", f"a tag longer than {MAX_TAG_BYTES >> 10} KiB; it is not read")
        parser.close()
    except DefusedXmlException as error:
        raise GmondXmlError("not_ganglia", f"it declares entities, which Ganglia never does: {error}") from error
    except (ParseError, ValueError, LookupError) as error:
        if not reader.is_ganglia:
            raise GmondXmlError("not_ganglia", f"expected GANGLIA_XML of gmond or gmetad ({error})") from error
        reader.answer.fault = str(error)
    if not reader.is_ganglia:
        raise GmondXmlError("not_ganglia", "expected GANGLIA_XML of gmond or gmetad; is it another service's port?")
    return reader.answer


class _Nothing:
    """No tree is built."""

    def close(self) -> None:
        """As a target of XMLParser."""


class _Reader:
    """Takes elements as they come."""

    def __init__(self, metrics: Collection[str]) -> None:
        self.answer = GangliaAnswer()
        self.is_ganglia = False
        self._chosen = frozenset(metrics)
        self._cluster = ""
        self._host: ReportingHost | None = None
        self._depth, self._n_elements, self._n_chosen = 0, 0, 0
        self._n_declared, self._n_defaults = 0, 0

    def declare(self, _element: str, _name: str, _kind: str, default: str | None, _required: bool) -> None:
        """An attribute that the DTD declares."""
        self._n_declared += 1
        self._n_defaults += default is not None
        if (
            self._n_declared > MAX_DECLARATIONS
            or self._n_defaults > MAX_DEFAULTS
            or len(default or "") > MAX_DEFAULT_CHARS
        ):
            raise GmondXmlError("not_ganglia", "its DTD declares more, or longer, attributes than Ganglia's")

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        """An element begins."""
        self._n_elements += 1
        self._depth += 1
        if self._n_elements > MAX_ELEMENTS or self._depth > MAX_DEPTH:
            raise GmondXmlError("too_large", f"more than {MAX_ELEMENTS:,} elements, or {MAX_DEPTH} within each other")
        if tag == "METRIC":
            self._metric(attributes)
        elif tag == "HOST":
            self._start_host(attributes)
        elif tag == "CLUSTER":
            self._cluster = printable(attributes.get("NAME", ""), MAX_TEXT_CHARS) or "unspecified"
        elif tag == "GANGLIA_XML" and self._depth == 1:
            self.is_ganglia = True
            self.answer.is_of_gmetad = attributes.get("SOURCE") == "gmetad"
        elif not self.is_ganglia:
            raise GmondXmlError("not_ganglia", f"expected GANGLIA_XML, found {printable(tag, 60)!r}")

    def end(self, tag: str) -> None:
        """An element is over."""
        self._depth -= 1
        if tag == "HOST":
            self._host = None
        elif tag == "CLUSTER":
            self._cluster = ""

    def _start_host(self, attributes: Mapping[str, str]) -> None:
        name = printable(attributes.get("NAME", ""), MAX_TEXT_CHARS)
        age_s, limit_s = _seconds(attributes.get("TN")), _seconds(attributes.get("TMAX"))
        self._host = None
        if not self.is_ganglia or not name:
            self._leave_out("no_name", "a host without a name")
            return
        if "TN" in attributes and age_s is None:
            self._leave_out("bad_age", f"{name}: TN {printable(attributes['TN'], 40)!r}; expected seconds")
        if len(self.answer.hosts) >= MAX_HOSTS:
            raise GmondXmlError("too_large", f"more than {MAX_HOSTS:,} hosts; it is not read")
        address = printable(attributes.get("IP", ""), MAX_TEXT_CHARS)
        # gmond without a cluster section tells hosts alone.
        self._host = ReportingHost(self._cluster or "unspecified", name, address, age_s, limit_s or 0)
        self.answer.hosts.append(self._host)

    def _metric(self, attributes: Mapping[str, str]) -> None:
        name = attributes.get("NAME", "")
        if self._host is None or name not in self._chosen:
            self.answer.n_others += 1
            return
        self._n_chosen += 1
        if self._n_chosen > MAX_CHOSEN:
            raise GmondXmlError("too_large", f"more than {MAX_CHOSEN:,} samples are chosen; it is not read")
        place = f"{self._host.name}: {name}"
        value = _number(attributes.get("VAL", ""))
        if attributes.get("TYPE") == "string" or value is None:
            found = printable(attributes.get("VAL", ""), 60)
            self._leave_out("not_number", f"{place} is {found!r}; expected a number")
            return
        age_s = _seconds(attributes.get("TN"))
        if age_s is None:
            found = printable(attributes.get("TN", "nothing"), 40)
            self._leave_out("bad_age", f"{place}: TN {found!r}; expected seconds: was a clock set back?")
            return
        if is_expired(age_s, _seconds(attributes.get("TMAX")) or 0, _seconds(attributes.get("DMAX")) or 0):
            self.answer.n_expired += 1
            return
        try:
            unit = normal_unit(name, attributes.get("UNITS", ""))
        except ValueError as error:
            self._leave_out("other_unit", f"{place}: {error}")
            return
        self._host.metrics[name] = Reported(value, unit, age_s)

    def _leave_out(self, kind: str, message: str) -> None:
        self.answer.odd.setdefault(kind, message)


def is_expired(age_s: int, limit_s: int, delete_s: int) -> bool:
    """Whether a report is too old to count: four of its like were missed (TMAX), or it is to be deleted (DMAX)."""
    return age_s > 4 * limit_s > 0 or age_s > delete_s > 0


def normal_unit(name: str, told: str) -> str | None:
    """The unit of a metric; raises ValueError for one that a well-known metric of this name does not have."""
    written = printable(told.strip(), MAX_TEXT_CHARS)
    normal = UNITS.get(name)
    if normal is None:
        return written or None
    found = _UNITS_AS_WRITTEN.get(written.lower(), written)
    if found and found.lower() != normal.lower():
        raise ValueError(f"its unit is {written!r}; expected {normal!r}")
    return normal


def _number(text: str) -> float | None:
    try:
        value = float(text) if len(text) <= 64 else math.nan
    except ValueError:
        return None
    return value + 0.0 if math.isfinite(value) else None


def _seconds(text: str | None) -> int | None:
    """None for what is no age: negative where the clock of who answers was set back."""
    if text is None or not (text.isascii() and text.isdecimal() and len(text) <= 10):
        return None
    return min(int(text), MAX_AGE_S)


__all__ = ["GangliaAnswer", "GmondXmlError", "Reported", "ReportingHost", "is_expired", "normal_unit", "parse_answer"]
