"""Answers of `/jmx`, and the values in them: nothing of them is believed before it is looked at."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from collectors.base import CollectorError
from collectors.jmx.readings import DaemonKind, Kind, Reading, Sample
from collectors.network.bounded_json import TooManyValuesError, loads
from collectors.network.http import REDIRECTS, Answer
from collectors.printable import printable

MAX_VALUES = 200_000
"""Of one answer; a NameNode's largest bean that is asked for has some thousand."""
MAX_BEANS = 2_000
MAX_INSTANCES = 1_000
"""Events of one type that one answer may give: queues, ports."""
MAX_TEXT_CHARS = 500
MAX_KEPT_CHARS = 1 << 16
"""Of a text in a bean; a longer one is none that anybody reads."""
MAX_COUNT = 2**62

Bean = Mapping[str, Any]


class BeansError(CollectorError):
    """An answer that is none of `/jmx`; `kind` is a slug for counting."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def parse_beans(answer: Answer) -> list[Bean]:
    """The beans of an answer; raises BeansError."""
    if answer.status in REDIRECTS:
        to = printable(answer.location, 200)
        raise BeansError("redirect", f"it points to {to}: give the address that answers itself, or its credentials")
    if answer.status != 200:
        raise BeansError("bad_status", f"expected status 200, found {answer.status}")
    try:
        document = loads(answer.body.decode("utf-8-sig"), MAX_VALUES)
    except TooManyValuesError as error:
        raise BeansError("too_large", f"{error}; it is not read") from error
    except (ValueError, RecursionError) as error:
        start = printable(answer.body[:60].decode("utf-8", "replace"), 80)
        raise BeansError("not_json", f"expected JSON, found what begins {start!r} ({error})") from error
    beans = document.get("beans") if isinstance(document, dict) else None
    if not isinstance(beans, list):
        raise BeansError("bad_document", "expected an object with a list of beans: is it the address of a daemon?")
    if len(beans) > MAX_BEANS:
        raise BeansError("too_large", f"it holds {len(beans):,} beans, more than {MAX_BEANS:,}; it is not read")
    return [bean for bean in beans if isinstance(bean, dict) and isinstance(bean.get("name"), str)]


def wanted_of(kind: DaemonKind, beans: Iterable[Bean]) -> list[Bean]:
    """The beans with nothing but what readings need: an answer is let go before the next one is asked for."""
    readings = [reading for sample in kind.samples for reading in sample.readings]
    names = {name for reading in readings for name in (*reading.names, *reading.less)}
    names |= {"name", *(sample.instance_tag for sample in kind.samples if sample.instance_tag)}
    slim = ({name: bean[name] for name in names & bean.keys() if _is_small(bean[name])} for bean in beans)
    return [bean for bean in slim if "name" in bean]


def _is_small(value: object) -> bool:
    return isinstance(value, (int, float)) or (isinstance(value, str) and len(value) <= MAX_KEPT_CHARS)


def of_sample(sample: Sample, kind: DaemonKind, beans: Iterable[Bean]) -> list[tuple[str | None, list[Bean]]]:
    """(instance, its beans), an entry for each event that the sample gives; none where no bean of it is there."""
    prefix = f"Hadoop:service={kind.service},name="
    own = [bean for bean in beans if bean["name"].startswith(prefix)]
    if sample.each is None:
        wanted = {reading.bean for reading in sample.readings}
        found = [bean for bean in own if any(_is(bean, prefix, name) for name in wanted)]
        return [(None, found)] if found else []
    instances: dict[str, Bean] = {}
    for bean in own:
        rest = bean["name"][len(prefix) :]
        if not rest.startswith(sample.each) or any(part in rest for part in sample.not_instances):
            continue
        told = bean.get(sample.instance_tag) if sample.instance_tag else rest[len(sample.each) :]
        if isinstance(told, str) and told and len(instances) < MAX_INSTANCES:
            instances.setdefault(printable(told, MAX_TEXT_CHARS), bean)
    return [(instance, [bean]) for instance, bean in sorted(instances.items())]


def raw_value(reading: Reading, kind: DaemonKind, beans: Iterable[Bean]) -> Any:
    """As the daemon told it; None where no bean has it."""
    prefix = f"Hadoop:service={kind.service},name="
    for bean in beans:
        if _is(bean, prefix, reading.bean):
            for name in reading.names:
                if bean.get(name) is not None:
                    return _less(bean[name], [bean.get(other) for other in reading.less])
    return None


def _less(told: Any, others: list[Any]) -> Any:
    """What is left of a count; as it was told where that is no number."""
    n = _number(told)
    return told if n is None or not others else max(0, n - sum(_number(other) or 0 for other in others))


def value_of(reading: Reading, told: Any, now_ms: int) -> int | float | str | None:
    """The event's value of anything but a counter, or of that the counter's level; None for what is no such value."""
    if reading.kind is Kind.TEXT:
        return printable(told, MAX_TEXT_CHARS) if isinstance(told, str) and told else None
    if reading.kind is Kind.IS_THERE:
        return int(bool(told)) if isinstance(told, str) else None
    if reading.kind is Kind.N_FAILED:
        return _n_failed(told)
    if reading.kind in (Kind.N_LISTED, Kind.LISTED):
        names = _listed(told)
        if names is None or reading.kind is Kind.N_LISTED:
            return None if names is None else len(names)
        return printable(", ".join(names), MAX_TEXT_CHARS) or None
    number = _number(told)
    if number is None:
        return None
    if reading.kind is Kind.NUMBER:
        return float(number)
    if reading.kind is Kind.AGE:
        return max(0, now_ms - int(number)) if number else None
    scaled = number * reading.factor
    return round(scaled) if scaled < MAX_COUNT else None


def _is(bean: Bean, prefix: str, name: str) -> bool:
    """Of that name, or with an instance behind it that is no letter: FSNamesystem is not FSNamesystemState."""
    rest = bean["name"][len(prefix) :] if bean["name"].startswith(prefix) else ""
    return rest.startswith(name) and not rest[len(name) : len(name) + 1].isalpha()


def _number(told: Any) -> int | float | None:
    """A finite number from 0 on; beans say -1 for what they do not know."""
    if isinstance(told, bool) or not isinstance(told, (int, float)):
        return None
    if isinstance(told, float) and not math.isfinite(told):
        return None
    return told if 0 <= told < MAX_COUNT else None


def _n_failed(told: Any) -> int | None:
    if not isinstance(told, str):
        return None
    try:
        failed = loads(told, MAX_VALUES)["failed"]
    except (ValueError, RecursionError, KeyError, TypeError):
        return None
    return len(failed) if isinstance(failed, dict) else None


def _listed(told: Any) -> list[str] | None:
    """Names of slow DataNodes or disks, as the NameNode reports them."""
    if not isinstance(told, str):
        return None
    try:
        entries = loads(told, MAX_VALUES)
    except (ValueError, RecursionError):
        return None
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        return None
    return [str(entry.get("SlowNode") or entry.get("SlowDiskID") or "unknown") for entry in entries]
