"""cluster.yaml -> frozen settings; an error names the key path."""

from __future__ import annotations

import dataclasses
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from deploy.minicluster.errors import SettingsError

DEFAULT_PATH = Path(__file__).with_name("cluster.yaml")


@dataclass(frozen=True)
class Host:
    """A virtual host: a name known inside the cluster and its loopback address."""

    name: str
    address: str


@dataclass(frozen=True)
class Memory:
    """Sizes in MiB; see cluster.yaml."""

    daemon_heap: int = 128
    resourcemanager_heap: int = 192
    am_heap: int = 160
    task_heap: int = 112
    node: int = 1536
    container: int = 512


@dataclass(frozen=True)
class Ganglia:
    """Sampling of the virtual hosts; see cluster.yaml."""

    step_s: int = 5
    retention_h: int = 2
    cores_per_host: float = 0.5


@dataclass(frozen=True)
class Recorder:
    """How often the recorder asks."""

    poll_interval_s: int = 5
    xml_interval_s: int = 15


@dataclass(frozen=True)
class PlannedJob:
    """A job of the workload by name, and when it is submitted: so long after its phase began, or after a job ended."""

    job: str
    start_after_s: float = 0.0
    after: str = ""
    """A job further up in the same phase."""


@dataclass(frozen=True)
class Settings:
    """Everything one run of the cluster is made of."""

    cluster: str = "minicluster"
    work_dir: Path = Path("/tmp/clustercep-minicluster")  # noqa: S108 - neutral on purpose: it ends up in logs
    library_dir: Path = Path("build/hadoop/lib")
    master_address: str = "127.0.0.1"
    nodes: int = 6
    first_node_address: str = "127.0.10.1"
    ports: Mapping[str, int] = field(default_factory=dict)
    memory: Memory = field(default_factory=Memory)
    ganglia: Ganglia = field(default_factory=Ganglia)
    recorder: Recorder = field(default_factory=Recorder)
    workload: tuple[tuple[PlannedJob, ...], ...] = ()

    @property
    def hosts(self) -> tuple[Host, ...]:
        """The NodeManagers' hosts: node1 on `first_node_address`, the others on the addresses after it."""
        first = ipaddress.IPv4Address(self.first_node_address)
        return tuple(Host(f"node{i + 1}", str(first + i)) for i in range(self.nodes))

    @property
    def master(self) -> Host:
        """The host of all other daemons."""
        return Host("master", self.master_address)

    @property
    def history_dir(self) -> Path:
        """Local copies of the histories, which the JobHistoryServer keeps in HDFS."""
        return self.work_dir / "history"

    @property
    def shuffle_ports(self) -> dict[str, int]:
        """Names and preferred numbers of the nodes' shuffle ports."""
        return {f"shuffle_{host.name}": self.ports["shuffle"] + i for i, host in enumerate(self.hosts)}


def load(path: Path = DEFAULT_PATH) -> Settings:
    """Read settings from YAML; keys that are left out have the shipped values. Raises SettingsError."""
    shipped = _read(DEFAULT_PATH)
    given = shipped if path == DEFAULT_PATH else _merge(shipped, _read(path), "")
    try:
        settings = Settings(
            **{
                **given,
                "work_dir": Path(given["work_dir"]),
                "library_dir": Path(given["library_dir"]),
                "memory": _section(Memory, given["memory"], "memory"),
                "ganglia": _section(Ganglia, given["ganglia"], "ganglia"),
                "recorder": _section(Recorder, given["recorder"], "recorder"),
                "workload": tuple(_phase(phase, i) for i, phase in enumerate(given["workload"])),
            }
        )
    except TypeError as error:
        raise SettingsError(f"{path}: {error}") from error
    _check(settings, path)
    return settings


def _read(path: Path) -> dict[str, Any]:
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise SettingsError(f"{path}: cannot be read as YAML: {error}") from error
    if not isinstance(content, dict):
        raise SettingsError(f"{path}: expected a mapping of settings, found {type(content).__name__}")
    return content


def _merge(base: dict[str, Any], over: dict[str, Any], where: str) -> dict[str, Any]:
    merged = dict(base)
    for key, value in over.items():
        if key not in base:
            raise SettingsError(f"{where}{key}: unknown setting; known here: {', '.join(sorted(base))}")
        if isinstance(base[key], dict):
            if not isinstance(value, dict):
                raise SettingsError(f"{where}{key}: expected a mapping, found {value!r}")
            merged[key] = _merge(base[key], value, f"{where}{key}.")
        else:
            merged[key] = value
    return merged


def _section(kind: type[Any], values: Mapping[str, Any], where: str) -> Any:
    known = {f.name for f in dataclasses.fields(kind)}
    for key, value in values.items():
        if key not in known:
            raise SettingsError(f"{where}.{key}: unknown setting; known here: {', '.join(sorted(known))}")
        if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
            raise SettingsError(f"{where}.{key}: expected a number above 0, found {value!r}")
    return kind(**values)


def _phase(phase: object, index: int) -> tuple[PlannedJob, ...]:
    where = f"workload[{index}]"
    if not isinstance(phase, list) or not phase:
        raise SettingsError(f"{where}: expected a list of jobs, found {phase!r}")
    jobs: list[PlannedJob] = []
    for position, entry in enumerate(phase):
        place = f"{where}[{position}]"
        if not isinstance(entry, dict) or not set(entry) <= {"job", "start_after_s", "after"} or "job" not in entry:
            expected = "{job: NAME, start_after_s: SECONDS, after: JOB}"
            raise SettingsError(f"{place}: expected {expected}, found {entry!r}")
        job = PlannedJob(str(entry["job"]), float(entry.get("start_after_s", 0)), str(entry.get("after", "")))
        earlier = [planned.job for planned in jobs]
        if job.after and job.after not in earlier:
            listed = ", ".join(earlier) or "there is none"
            raise SettingsError(f"{place}.after: expected a job further up ({listed}), found {job.after!r}")
        jobs.append(job)
    return tuple(jobs)


def _check(settings: Settings, path: Path) -> None:
    for key, port in settings.ports.items():
        if isinstance(port, bool) or not isinstance(port, int) or not 1024 <= port < 65536:
            raise SettingsError(f"{path}: ports.{key}: expected a port from 1024 to 65535, found {port!r}")
    for key in ("master_address", "first_node_address"):
        try:
            address = ipaddress.IPv4Address(getattr(settings, key))
        except ValueError as error:
            raise SettingsError(f"{path}: {key}: {error}") from error
        if not address.is_loopback:
            raise SettingsError(f"{path}: {key}: expected an address in 127.0.0.0/8, found {address}")
    if not 2 <= settings.nodes <= 100:
        raise SettingsError(f"{path}: nodes: expected 2 to 100, found {settings.nodes!r}")
    if not settings.work_dir.is_absolute():
        raise SettingsError(f"{path}: work_dir: expected an absolute path, found {str(settings.work_dir)!r}")
