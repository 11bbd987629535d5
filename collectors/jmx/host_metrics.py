"""What a daemon's JVM knows of its host: load, processors, memory and swap, as Metric with Ganglia's names and units.

Names are those of `com.sun.management.OperatingSystemMXBean`; further ones behind them are of JVMs before 14. A JVM in
a container tells of the container.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from collectors.jmx.beans import Bean, parse_beans
from collectors.metrics.normal import UNITS
from collectors.network.http import Answer

BEAN = "java.lang:type=OperatingSystem"
PATH = f"/jmx?qry={BEAN}"
KB = 1024


@dataclass(frozen=True, slots=True)
class HostReading:
    """One normal metric."""

    name: str
    attributes: tuple[str, ...]
    """Of the bean; the first that it has counts."""
    factor: float = 1.0


READINGS = (
    HostReading("load_one", ("SystemLoadAverage",)),
    HostReading("cpu_busy", ("CpuLoad", "SystemCpuLoad"), 100.0),
    HostReading("cpu_num", ("AvailableProcessors",)),
    HostReading("mem_total", ("TotalMemorySize", "TotalPhysicalMemorySize"), 1 / KB),
    HostReading("mem_free", ("FreeMemorySize", "FreePhysicalMemorySize"), 1 / KB),
    HostReading("swap_total", ("TotalSwapSpaceSize",), 1 / KB),
    HostReading("swap_free", ("FreeSwapSpaceSize",), 1 / KB),
)


def host_metrics(answer: Answer) -> list[tuple[str, float, str | None]]:
    """(name, value, unit) of what the answer tells; raises BeansError."""
    return list(_told(bean for bean in parse_beans(answer) if bean["name"] == BEAN))


def _told(beans: Iterable[Bean]) -> Iterator[tuple[str, float, str | None]]:
    bean = next(iter(beans), None)
    for reading in READINGS if bean is not None else ():
        told: list[Any] = [bean[name] for name in reading.attributes if bean is not None and name in bean]
        value = told[0] if told else None
        # A JVM says -1, or NaN, for what it does not know.
        if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) and value >= 0:
            yield reading.name, float(value) * reading.factor, UNITS.get(reading.name)


__all__ = ["PATH", "READINGS", "host_metrics"]
