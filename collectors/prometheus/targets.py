"""Which exporters there are, by lists in files and from servers, as Prometheus' file_sd and http_sd have them.

What files and servers say is looked at before it is used: of a list that cannot be read the targets of before stay, as
they do in Prometheus. Labels that mean something here: `__scheme__`, `__metrics_path__`, `cluster`, `host` and `job`.
"""

from __future__ import annotations

import glob
import os
import re
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from collectors.base import CollectorError, OptionError, ProblemLog
from collectors.network.bounded_json import loads
from collectors.network.http import Answer, check_url
from collectors.plain_yaml import load_plain
from collectors.printable import printable

MAX_TARGETS = 10_000
MAX_FILES = 1_000
MAX_LIST_BYTES = 1 << 22
MAX_YAML_BYTES = 1 << 19
"""Of which PyYAML without libyaml takes some seconds; as JSON the list may be longer."""
MAX_VALUES = 200_000
MAX_TEXT_CHARS = 255
DEFAULT_CLUSTER = "default"
METRICS_PATH = "/metrics"

_ADDRESS = re.compile(r"(?P<host>[A-Za-z0-9]([A-Za-z0-9._-]{0,252}[A-Za-z0-9])?|\[[0-9A-Fa-f:.]{2,45}\])(:[0-9]{1,5})?")
_PATH = re.compile(r"/[A-Za-z0-9._~!$&'()*+,;=:@%/-]{0,500}")


class TargetsError(CollectorError):
    """A list of targets that is none."""


@dataclass(frozen=True, slots=True)
class Target:
    """One exporter."""

    url: str
    """Of its metrics."""
    host: str
    """Of which it tells."""
    cluster: str = DEFAULT_CLUSTER
    job: str | None = None

    @property
    def instance(self) -> str:
        """Where it listens, as Prometheus' label of this name has it."""
        return urlsplit(self.url).netloc


@dataclass(frozen=True, slots=True)
class TargetDefaults:
    """What a target has unless its labels say otherwise."""

    scheme: str = "http"
    path: str = METRICS_PATH
    cluster: str = DEFAULT_CLUSTER
    hosts: Mapping[str, str] = field(default_factory=dict)
    """Name or address -> host as the job history writes it."""


def target_of(address: str, labels: Mapping[str, str], defaults: TargetDefaults) -> Target:
    """A target by its address, HOST:PORT or a URL; raises TargetsError."""
    scheme, path = labels.get("__scheme__", defaults.scheme), labels.get("__metrics_path__", defaults.path)
    if "://" in address:
        scheme, _, rest = address.partition("://")
        address, slash, below = rest.partition("/")
        path = slash + below if slash else path
    if scheme not in ("http", "https"):
        raise TargetsError(f"the scheme {printable(scheme, 40)!r}; expected http or https")
    if (found := _ADDRESS.fullmatch(address)) is None:
        raise TargetsError(f"the address {printable(address, 100)!r}; expected HOST:PORT or http(s)://HOST:PORT/PATH")
    if _PATH.fullmatch(path) is None:
        raise TargetsError(f"the path {printable(path, 100)!r}; expected one such as {METRICS_PATH}")
    url = f"{scheme}://{address}{path}"
    try:
        check_url(url)
    except OptionError as error:
        raise TargetsError(f"the address {printable(address, 100)!r}: {error}") from error
    name = found["host"].strip("[]").lower()
    host = labels.get("host") or defaults.hosts.get(name, name)
    return Target(url, _text(host), _text(labels.get("cluster") or defaults.cluster), _text(labels.get("job") or ""))


def _text(told: str) -> str:
    return printable(told, MAX_TEXT_CHARS)


def listed(document: Any, defaults: TargetDefaults) -> list[Target]:
    """The targets of a list as file_sd and http_sd have it; raises TargetsError."""
    if not isinstance(document, list):
        raise TargetsError(f"found {type(document).__name__}; expected a list of objects with `targets` and `labels`")
    found: list[Target] = []
    for group in document:
        addresses = group.get("targets") if isinstance(group, dict) else None
        labels = (group.get("labels") or {}) if isinstance(group, dict) else None
        if not isinstance(addresses, list) or not all(isinstance(address, str) for address in addresses):
            raise TargetsError("an entry without a list of addresses in `targets`; expected one")
        if not isinstance(labels, dict) or not all(isinstance(p, str) for pair in labels.items() for p in pair):
            raise TargetsError("an entry whose `labels` are no texts; expected names with texts")
        if unknown := sorted(name for name in labels if name.startswith("__param_")):
            raise TargetsError(f"the label {printable(unknown[0], 60)!r}: parameters of requests are not known here")
        found += (target_of(address, labels, defaults) for address in addresses)
        if len(found) > MAX_TARGETS:
            raise TargetsError(f"more than {MAX_TARGETS:,} targets")
    return found


def parse_list(answer: Answer, defaults: TargetDefaults) -> list[Target]:
    """Of what a server answers; raises TargetsError."""
    if answer.status != 200:
        raise TargetsError(f"expected status 200, found {answer.status}")
    try:
        document = loads(answer.body.decode("utf-8-sig"), MAX_VALUES)
    except (ValueError, RecursionError) as error:
        raise TargetsError(f"expected JSON ({error})") from error
    return listed(document, defaults)


def read_list(path: str, defaults: TargetDefaults) -> list[Target]:
    """Of a file, JSON or YAML by its name; raises TargetsError."""
    try:
        with open(path, "rb", opener=_without_waiting) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise TargetsError("it is no regular file")
            body = file.read(MAX_LIST_BYTES + 1)
    except OSError as error:
        raise TargetsError(f"it cannot be read: {error.strerror or error}") from error
    if len(body) > MAX_LIST_BYTES:
        raise TargetsError(f"more than {MAX_LIST_BYTES >> 20} MiB")
    if path.endswith(".json"):
        return parse_list(Answer(path, 200, "", body), defaults)
    if len(body) > MAX_YAML_BYTES:
        raise TargetsError(f"more than {MAX_YAML_BYTES >> 10} KiB of YAML; write so long a list as JSON, NAME.json")
    try:
        document = load_plain(body.decode("utf-8-sig"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise TargetsError(f"expected YAML ({error})") from error
    return listed(document, defaults)


def _without_waiting(path: str, flags: int) -> int:
    """A pipe is opened when somebody writes into it, which may be never."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)


class TargetFiles:
    """The targets in files whose names match patterns, read again when a file has changed."""

    def __init__(self, patterns: Sequence[Path], defaults: TargetDefaults) -> None:
        self._patterns, self._defaults = [str(pattern) for pattern in patterns], defaults
        self._known: dict[str, tuple[tuple[int, int, int] | None, tuple[Target, ...]]] = {}
        """By path: its stamp, None where it is to be read again, and its targets."""

    def targets(self, problems: ProblemLog) -> list[Target]:
        """As the files are now."""
        paths: dict[str, None] = {}
        for pattern in self._patterns:
            found = sorted(glob.glob(pattern))  # noqa: PTH207 - a pattern may begin at the root
            paths |= dict.fromkeys(found)
            if found:
                problems.forget((pattern, "no_targets"))
            else:
                problems.report(pattern, "no_targets", f"{pattern}: no such file; expected a list of targets")
        if len(paths) > MAX_FILES:
            message = f"{len(paths):,} files; the first {MAX_FILES} are read"
            problems.report(self._patterns[0], "too_many_files", message)
        self._known = {path: self._read(path, problems) for path in list(paths)[:MAX_FILES]}
        return [target for _, found in self._known.values() for target in found]

    def _read(self, path: str, problems: ProblemLog) -> tuple[tuple[int, int, int] | None, tuple[Target, ...]]:
        before = self._known.get(path, (None, ()))
        try:
            status = os.stat(path)  # noqa: PTH116 - of a path that may be no text
            stamp = (status.st_ino, status.st_size, status.st_mtime_ns)
            if stamp == before[0]:
                return before
            found = tuple(read_list(path, self._defaults))
        except (TargetsError, OSError) as error:
            message = f"{path}: {error}; the {len(before[1])} targets of before stay"
            problems.report(path, "bad_targets", message)
            return None, before[1]
        problems.forget((path, "bad_targets"))
        return stamp, found


def distinct(targets: Iterable[Target]) -> dict[str, Target]:
    """By address; of several with one address the first."""
    by_url: dict[str, Target] = {}
    for target in targets:
        by_url.setdefault(target.url, target)
    return by_url


__all__ = ["Target", "TargetDefaults", "TargetFiles", "TargetsError", "distinct", "listed", "parse_list", "target_of"]
