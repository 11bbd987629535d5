"""The normal names of metrics of hosts and their units: those of Ganglia's gmond, whatever source a sample is from.

So queries, the load of the nodes and the pages need not know who measured. Sources convert to these units; what they
call otherwise stands in tables of their own (`collectors.prometheus.readings`).
"""

from __future__ import annotations

from collections.abc import Mapping

_PERCENT = (
    "cpu_user",
    "cpu_system",
    "cpu_nice",
    "cpu_idle",
    "cpu_aidle",
    "cpu_wio",
    "cpu_steal",
    "cpu_intr",
    "cpu_sintr",
    "cpu_guest",
    "cpu_busy",
    "part_max_used",
)
_KILOBYTES = ("mem_total", "mem_free", "mem_shared", "mem_buffers", "mem_cached", "swap_total", "swap_free")

UNITS: Mapping[str, str] = {
    **dict.fromkeys(_PERCENT, "%"),
    **dict.fromkeys(_KILOBYTES, "KB"),
    **dict.fromkeys(("bytes_in", "bytes_out", "disk_read_bytes", "disk_write_bytes"), "bytes/sec"),
    **dict.fromkeys(("pkts_in", "pkts_out"), "packets/sec"),
    **dict.fromkeys(("disk_total", "disk_free"), "GB"),
    "boottime": "s",
    "cpu_num": "CPUs",
    "cpu_speed": "MHz",
}
"""Of metrics that have one: a load or a number of processes has none."""

USUAL_METRICS = ("cpu_user", "cpu_system", "cpu_idle", "load_one", "bytes_in", "bytes_out")
"""What is read unless the settings choose."""
