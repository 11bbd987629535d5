"""What each host does now: processor, load, memory, swap, disk and network, as far as its metrics say it, and further
metrics that the settings name.

Whoever measured, names and units are the normal ones (`collectors.metrics.normal`): memory in KB, disks in GB, network
in bytes per second. Further metrics stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from dashboard.cluster.data import natural_key
from engine.events import Float64Array

Means = Mapping[str, Float64Array]
"""Of each metric the mean of every host; NaN where it has no sample."""

CPU, LOAD, MEMORY, SWAP, DISK, IN, OUT = (
    "CPU busy",
    "Load per core",
    "Memory used",
    "Swap used",
    "Disk used",
    "Network in",
    "Network out",
)
SHARES = (CPU, MEMORY, SWAP, DISK)
"""In percent."""
RATES = (IN, OUT)
"""In bytes per second."""


_BUSY = (("cpu_idle",), ("cpu_user", "cpu_system"), ("cpu_busy",))


def _share(used: Float64Array, total: Float64Array) -> Float64Array:
    with np.errstate(invalid="ignore", divide="ignore"):
        found = np.where(total > 0, 100.0 * used / total, np.nan)
    clipped: Float64Array = np.clip(found, 0.0, 100.0)
    return clipped


def _busy(of: Means) -> Float64Array:
    """Of each host by the first of these that it has: hosts may be measured by different sources."""
    ways: tuple[Callable[[], Float64Array], ...] = (
        lambda: 100.0 - of["cpu_idle"],
        lambda: of["cpu_user"] + of["cpu_system"],
        lambda: of["cpu_busy"],  # all that the JVM of a daemon tells
    )
    found: Float64Array = np.full(len(next(iter(of.values()))), np.nan)
    for names, value in zip(_BUSY, ways, strict=True):
        if all(name in of for name in names):
            found = np.where(np.isnan(found), value(), found)
    return found


def _load(of: Means) -> Float64Array:
    with np.errstate(invalid="ignore", divide="ignore"):
        found: Float64Array = np.where(of["cpu_num"] > 0, of["load_one"] / of["cpu_num"], np.nan)
    return found


def _memory(of: Means) -> Float64Array:
    """Without what the system can take back at once (buffers, cached files)."""
    back = sum((of[name] for name in ("mem_buffers", "mem_cached") if name in of), np.zeros(len(of["mem_total"])))
    return _share(of["mem_total"] - of["mem_free"] - np.nan_to_num(back), of["mem_total"])


def _disk(of: Means) -> Float64Array:
    """The fullest file system where gmond tells it, else all of them together."""
    if "part_max_used" in of:
        return of["part_max_used"]
    return _share(of["disk_total"] - of["disk_free"], of["disk_total"])


_COLUMNS: tuple[tuple[str, tuple[tuple[str, ...], ...], Callable[[Means], Float64Array]], ...] = (
    (CPU, _BUSY, _busy),
    (LOAD, (("load_one", "cpu_num"),), _load),
    ("Load", (("load_one",),), lambda of: of["load_one"]),
    (MEMORY, (("mem_total", "mem_free"),), _memory),
    (SWAP, (("swap_total", "swap_free"),), lambda of: _share(of["swap_total"] - of["swap_free"], of["swap_total"])),
    (DISK, (("part_max_used",), ("disk_total", "disk_free")), _disk),
    (IN, (("bytes_in",),), lambda of: of["bytes_in"]),
    (OUT, (("bytes_out",),), lambda of: of["bytes_out"]),
)
"""Column, the metrics that any one way to compute it needs, and how."""

NEEDED = frozenset(name for _, ways, _ in _COLUMNS for way in ways for name in way) | {"mem_buffers", "mem_cached"}

MAX_FURTHER = 4
"""A table is to fit beside what everybody looks for."""


def hottest(samples: Iterable[pa.Table], further: Sequence[str] = ()) -> pd.DataFrame:
    """Hosts by how busy they are, the busiest first: Host, and of CPU busy, Load per core (or Load), Memory used, Swap
    used, Disk used (each in %), Network in, Network out (bytes per second) those that the metrics tell; NaN of hosts
    that lack them.

    samples: Metric events (name, host, value) of the last minutes; values are their means. further: metrics that have a
    column of their name, the first MAX_FURTHER of them that anybody measures; where hosts are equally busy, or nothing
    tells how busy they are, the highest of these come first.
    """
    parts = [part.select(["name", "host", "value"]) for part in samples]
    if not parts:
        return pd.DataFrame(columns=["Host"])
    table = pa.concat_tables(parts)
    wanted = pc.and_(
        pc.is_in(table.column("name"), pa.array(sorted({*NEEDED, *further}))),
        pc.and_(pc.is_valid(table.column("host")), pc.fill_null(pc.is_finite(table.column("value")), False)),
    )
    means = table.filter(wanted).group_by(["host", "name"]).aggregate([("value", "mean")])
    by_host = means.to_pandas().pivot(index="host", columns="name", values="value_mean")
    of = {str(name): by_host[name].to_numpy(np.float64) for name in by_host.columns}
    columns = {}
    for column, ways, value in _COLUMNS:
        if any(all(name in of for name in way) for way in ways) and not (column == "Load" and LOAD in columns):
            columns[column] = value(of)
    measured = [name for name in further if name in of][:MAX_FURTHER]
    columns |= {name: of[name] for name in measured}
    frame = pd.DataFrame({"Host": by_host.index.astype(str), **columns})
    places = pd.Series(range(len(frame)), sorted(frame["Host"], key=natural_key))
    order = [name for name in (CPU, LOAD, "Load", MEMORY, *measured) if name in columns]
    return (
        frame.assign(place=frame["Host"].map(places))
        .sort_values([*order, "place"], ascending=[*(False for _ in order), True], na_position="last")
        .drop(columns="place")
        .reset_index(drop=True)
    )


__all__ = ["CPU", "DISK", "LOAD", "MAX_FURTHER", "MEMORY", "NEEDED", "RATES", "SHARES", "SWAP", "hottest"]
