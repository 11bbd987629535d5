"""Measures every virtual host from its process tree and sends the figures with gmetric under the host's name."""

from __future__ import annotations

import re
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import exp
from pathlib import Path

from deploy.minicluster.ganglia.ganglia import find_program
from deploy.minicluster.processes import process_tree
from deploy.minicluster.processes.process_tree import TreeFigures
from deploy.minicluster.settings import Host, Settings

_INODE = re.compile(r"\bino:(\d+)")
_SENT = re.compile(r"\bbytes_sent:(\d+)")
_RECEIVED = re.compile(r"\bbytes_received:(\d+)")
_CONSTANT_EVERY_S = 60.0


@dataclass(frozen=True)
class Metric:
    """One figure as gmetric takes it."""

    name: str
    value: float
    kind: str
    units: str
    group: str
    slope: str = "both"


@dataclass
class HostState:
    """What the next sample of one host is compared with."""

    time_s: float
    figures: TreeFigures
    sockets: dict[int, tuple[int, int]] = field(default_factory=dict)
    load_one: float = 0.0


def parse_sockets(listing: str) -> dict[int, tuple[int, int]]:
    """Inode -> (bytes received, bytes sent) from `ss -HtineO`. Missing counters are zeros that ss leaves out."""
    sockets = {}
    for line in listing.splitlines():
        inode = _INODE.search(line)
        if inode:
            received, sent = _RECEIVED.search(line), _SENT.search(line)
            sockets[int(inode.group(1))] = (
                int(received.group(1)) if received else 0,
                int(sent.group(1)) if sent else 0,
            )
    return sockets


def network_delta(before: Mapping[int, tuple[int, int]], now: Mapping[int, tuple[int, int]]) -> tuple[int, int]:
    """Bytes (in, out) since the last sample: a lower bound, as what a socket moved before it closed is not seen."""
    received = sent = 0
    for inode, (total_in, total_out) in now.items():
        old_in, old_out = before.get(inode, (0, 0))
        received += max(0, total_in - old_in)
        sent += max(0, total_out - old_out)
    return received, sent


def derive(
    state: HostState, now_s: float, figures: TreeFigures, sockets: dict[int, tuple[int, int]], cores: float
) -> tuple[list[Metric], HostState]:
    """The figures of one step and the state for the next.

    cpu_*: percent of the host's capacity of `cores` cores, at most 100 together. Rates are per second.
    A total that went back (a process ended between two reads) counts as no change, and is made up later.
    """
    span_s = max(now_s - state.time_s, 1e-3)
    before = state.figures
    user = 100 * max(0.0, figures.user_s - before.user_s) / (span_s * cores)
    system = 100 * max(0.0, figures.system_s - before.system_s) / (span_s * cores)
    shrink = max(1.0, (user + system) / 100)
    user, system = user / shrink, system / shrink
    received, sent = network_delta(state.sockets, sockets)
    decay = exp(-span_s / 60)
    load_one = state.load_one * decay + figures.n_running * (1 - decay)
    metrics = [
        Metric("cpu_user", user, "float", "%", "cpu"),
        Metric("cpu_system", system, "float", "%", "cpu"),
        Metric("cpu_idle", max(0.0, 100 - user - system), "float", "%", "cpu"),
        Metric("load_one", load_one, "float", " ", "load"),
        Metric("proc_run", figures.n_running, "uint32", " ", "process"),
        Metric("proc_total", figures.n_processes, "uint32", " ", "process"),
        Metric("mem_rss", figures.rss_bytes / 1024, "float", "KB", "memory"),
        Metric("bytes_in", received / span_s, "float", "bytes/sec", "network"),
        Metric("bytes_out", sent / span_s, "float", "bytes/sec", "network"),
        Metric(
            "disk_read_bytes",
            max(0, figures.disk_read_bytes - before.disk_read_bytes) / span_s,
            "float",
            "bytes/sec",
            "disk",
        ),
        Metric(
            "disk_write_bytes",
            max(0, figures.disk_write_bytes - before.disk_write_bytes) / span_s,
            "float",
            "bytes/sec",
            "disk",
        ),
    ]
    return metrics, HostState(now_s, figures, sockets, load_one)


def constants(settings: Settings) -> list[Metric]:
    """Figures that do not change; sent now and then."""
    return [
        Metric("cpu_num", settings.ganglia.cores_per_host, "float", "CPUs", "cpu", "zero"),
        Metric("mem_total", settings.memory.node * 1024, "float", "KB", "memory", "zero"),
    ]


def gmetric_command(program: str, config: Path, host: Host, metric: Metric, step_s: int) -> list[str]:
    """The command that sends one figure under `host`'s name."""
    return [
        program, "-c", str(config), "--spoof", f"{host.address}:{host.name}", "-n", metric.name,
        "-v", f"{metric.value:.3f}" if metric.kind == "float" else str(int(metric.value)), "-t", metric.kind,
        "-u", metric.units, "-s", metric.slope, "-g", metric.group,
        "-x", str(2 * step_s if metric.slope != "zero" else int(2 * _CONSTANT_EVERY_S)),
    ]  # fmt: skip


class Sampler:
    """A thread that samples all hosts once a step, on multiples of the step."""

    def __init__(self, settings: Settings, roots: Mapping[Host, int], config: Path, environment: dict[str, str]):
        """`roots`: the process id at the root of each host's tree."""
        self._settings = settings
        self._roots = dict(roots)
        self._config = config
        self._environment = environment
        self._gmetric = find_program("gmetric")
        self._states: dict[Host, HostState] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="host-metrics", daemon=True)
        self._constants_due_s = 0.0
        self.n_failed = 0

    def start(self) -> None:
        """Begin to sample."""
        self._thread.start()

    def stop(self) -> None:
        """End after the sample in progress."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        step_s = self._settings.ganglia.step_s
        while not self._stop.wait(step_s - time.time() % step_s):
            self.sample()

    def sample(self) -> None:
        """Measure and send every host once."""
        now_s = time.monotonic()
        processes = process_tree.scan()
        sockets = self._sockets()
        with_constants = now_s >= self._constants_due_s
        if with_constants:
            self._constants_due_s = now_s + _CONSTANT_EVERY_S
        for host, root in self._roots.items():
            figures = process_tree.measure(processes, root)
            inodes = process_tree.socket_inodes(figures.pids)
            own = {inode: counts for inode, counts in sockets.items() if inode in inodes}
            state = self._states.get(host)
            if state is None:
                self._states[host] = HostState(now_s, figures, own)
                continue
            metrics, self._states[host] = derive(state, now_s, figures, own, self._settings.ganglia.cores_per_host)
            metrics += [
                Metric(
                    "mem_free",
                    max(0.0, self._settings.memory.node * 1024 - figures.rss_bytes / 1024),
                    "float",
                    "KB",
                    "memory",
                )
            ]
            self._send(host, metrics + (constants(self._settings) if with_constants else []))

    def _sockets(self) -> dict[int, tuple[int, int]]:
        try:
            listing = subprocess.run(["ss", "-HtineO"], capture_output=True, text=True, check=False, timeout=10)  # noqa: S607
        except (OSError, subprocess.TimeoutExpired):
            return {}  # no iproute2 here: network figures stay 0
        return parse_sockets(listing.stdout)

    def _send(self, host: Host, metrics: Sequence[Metric]) -> None:
        step_s = self._settings.ganglia.step_s
        heartbeat = [self._gmetric, "-c", str(self._config), "--spoof", f"{host.address}:{host.name}", "--heartbeat"]
        commands = [gmetric_command(self._gmetric, self._config, host, metric, step_s) for metric in metrics]
        for command in [heartbeat, *commands]:
            done = subprocess.run(command, env=self._environment, capture_output=True, check=False)  # noqa: S603
            self.n_failed += done.returncode != 0
