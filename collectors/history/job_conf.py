"""The configuration of a job (`job_..._conf.xml` beside its history): chosen settings, and nothing else of it.

A configuration has a thousand properties, among them passwords and keys of file systems. So settings are named one by
one, each is kept only as far as it has the form that it must have, and what a value refers to (`${name}`) is looked at
for numbers alone. Of JVM options the size of the heap is kept, of cached files their names without folder, user, query
and fragment.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Callable, Mapping
from io import BytesIO
from xml.etree.ElementTree import ParseError

from defusedxml import DefusedXmlException
from defusedxml.ElementTree import iterparse

from collectors.base import ProblemLog
from collectors.hadoop_ids import JOB, cluster_start_ms
from collectors.lifecycle import EventRows, clean_text

MAX_BYTES = 1 << 24
"""Of a configuration; usual ones have some hundred KB."""
MAX_VALUE_CHARS = 1 << 18
"""A list of cached files may be long."""
MAX_ELEMENTS = 500_000
"""A property has three to six."""
MAX_REFERENCES = 5

FILE_NAME = re.compile(rf"(?:.*_)?({JOB.pattern})_conf\.xml")

_NUMBER = re.compile(r"[+-]?[0-9]{1,18}")
_SIZE = re.compile(r"[0-9]{1,18}[kmgtpeKMGTPE]?[bB]?")
_RATIO = re.compile(r"[0-9]{0,9}\.?[0-9]{1,9}")
_FLAG = re.compile(r"true|false")
_CLASS = re.compile(r"[\w$]+(?:\.[\w$]+)*")
_SIZES = re.compile(r"[0-9,\s-]*")
_HEAP = re.compile(r"(?<!\S)-Xmx[0-9]{1,15}[kmgtKMGT]?(?!\S)")
_REFERENCE = re.compile(r"\$\{([\w.-]{1,256})\}")
_SECRET = re.compile(r"pass|secret|token|credential|key", re.IGNORECASE)


def _whole(pattern: re.Pattern[str]) -> Callable[[str], str | None]:
    return lambda text: text if pattern.fullmatch(text) else None


def _heap(text: str) -> str | None:
    """The last -Xmx counts, as in the JVM."""
    found = _HEAP.findall(text)
    return found[-1] if found else None


def _file_names(text: str) -> str | None:
    names, is_query = [], False
    for part in text.split(","):
        is_query = is_query and "://" not in part and not part.strip().startswith("/")
        names.append("" if is_query else _file_name(part))
        is_query = is_query or "?" in part  # which may have a comma, too
    return ",".join(names)


def _file_name(uri: str) -> str:
    """The last name of an address, as file names are; empty where it has none behind user, password and host."""
    _, at, behind = uri.strip().rpartition("@")
    path = re.split(r"[?#;]", behind, maxsplit=1)[0].rstrip("/")
    if at:
        _, slash, path = path.partition("/")
        path = path if slash else ""
    elif "://" in path and (path.count("/") < 3 or not _HOST.match(path.partition("://")[2])):
        path = ""
    name = path.rpartition("/")[2]
    return name if _PLAIN_NAME.fullmatch(name) else ""


_PLAIN_NAME = re.compile(r"[\w.+ -]{1,200}")
_HOST = re.compile(r"[^:/]*(?::\d*)?/")
"""What may stand before the path; after a colon else a password whose rest a comma cut off."""

_NUMBERS = (
    "mapreduce.map.memory.mb", "mapreduce.reduce.memory.mb", "mapreduce.map.cpu.vcores",
    "mapreduce.reduce.cpu.vcores", "mapreduce.task.io.sort.mb", "mapreduce.task.io.sort.factor",
    "mapreduce.job.reduces", "mapreduce.job.maps", "mapreduce.reduce.shuffle.parallelcopies",
    "mapreduce.map.maxattempts", "mapreduce.reduce.maxattempts", "mapreduce.input.fileinputformat.split.maxsize",
    "mapreduce.input.fileinputformat.split.minsize", "mapreduce.input.fileinputformat.numinputfiles",
    "yarn.app.mapreduce.am.resource.mb", "yarn.app.mapreduce.am.resource.cpu-vcores",
)  # fmt: skip
_RATIOS = (
    "mapreduce.map.sort.spill.percent", "mapreduce.job.reduce.slowstart.completedmaps",
    "mapreduce.reduce.shuffle.input.buffer.percent", "mapreduce.job.heap.memory-mb.ratio",
)  # fmt: skip
_FLAGS = (
    "mapreduce.map.output.compress", "mapreduce.map.speculative", "mapreduce.reduce.speculative",
    "mapreduce.job.ubertask.enable",
)  # fmt: skip
_CLASSES = (
    "mapreduce.job.inputformat.class", "mapreduce.job.combine.class", "mapreduce.job.partitioner.class",
    "mapreduce.map.output.compress.codec",
)  # fmt: skip

SETTINGS: Mapping[str, Callable[[str], str | None]] = {
    **dict.fromkeys(_NUMBERS, _whole(_NUMBER)),
    **dict.fromkeys(_RATIOS, _whole(_RATIO)),
    **dict.fromkeys(_FLAGS, _whole(_FLAG)),
    **dict.fromkeys(_CLASSES, _whole(_CLASS)),
    "dfs.blocksize": _whole(_SIZE),
    "mapred.child.java.opts": _heap,
    "mapreduce.map.java.opts": _heap,
    "mapreduce.reduce.java.opts": _heap,
    "mapreduce.job.cache.files": _file_names,
    "mapreduce.job.cache.archives": _file_names,
    "mapreduce.job.cache.files.filesizes": _whole(_SIZES),
    "mapreduce.job.cache.archives.filesizes": _whole(_SIZES),
}
"""Setting -> what is kept of its value; None: nothing."""

_RESOLVED = frozenset({*_NUMBERS, *_RATIOS, "dfs.blocksize"})
"""Settings whose value may refer to another one."""


def job_of_name(name: str) -> str | None:
    """The job whose configuration has this file name; None for another file."""
    found = FILE_NAME.fullmatch(name)
    return found[1] if found else None


def read_settings(data: bytes, place: str, problems: ProblemLog) -> dict[str, str] | None:
    """The chosen settings of a configuration; None, with a problem, for what cannot be read as one."""
    if len(data) > MAX_BYTES:
        problems.report(place, "oversized", f"a configuration of {len(data):,} bytes; at most {MAX_BYTES:,} are read")
        return None
    try:
        properties = _properties(data)
    except (ParseError, DefusedXmlException, ValueError, LookupError) as error:
        why = type(error).__name__ if isinstance(error, DefusedXmlException) else str(error)
        problems.report(place, "bad_configuration", f"no XML of a configuration ({why}); nothing of it is kept")
        return None
    if properties is None:
        problems.report(place, "bad_configuration", "its root is no <configuration>; nothing of it is kept")
        return None
    kept: dict[str, str] = {}
    for name, keep in SETTINGS.items():
        text = properties.get(name)
        if text is None:
            continue
        if name in _RESOLVED:
            text = _resolved(text, properties)
        value = keep(clean_text(text.strip())) if len(text) <= MAX_VALUE_CHARS else None
        if value is None:
            # The value itself may be what must not be told.
            problems.report(
                place, "odd_setting", f"{name}: its value has not the form that is expected; it is left out",
                key=(place, name),
            )  # fmt: skip
        else:
            kept[name] = value
    return kept


def settings_event(job_id: str, settings: Mapping[str, str], source_rank: int, origin: str) -> EventRows:
    """JobSettings, at the start of the cluster that the job's id tells: so it is found without knowing more."""
    rows = EventRows(source_rank)
    rows.job_settings(job_id, settings_text(settings), cluster_start_ms(job_id), None, origin)
    return rows


def settings_text(settings: Mapping[str, str]) -> str:
    """As events have them."""
    return json.dumps(settings, sort_keys=True, separators=(",", ":"))


def read_beside(history: str, job_id: str, problems: ProblemLog) -> tuple[str, dict[str, str]] | None:
    """(place, settings) of the configuration that stands beside a job's history; None where there is none."""
    place = os.path.join(os.path.dirname(history), f"{job_id}_conf.xml")  # noqa: PTH118, PTH120 - undecodable names
    try:
        # Neither a link out of the folder nor a pipe that nobody writes to.
        descriptor = os.open(place, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    except OSError as error:
        problems.report(place, "unreadable", f"file cannot be read: {error.strerror or error}")
        return None
    try:
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return None
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        problems.report(place, "unreadable", f"file cannot be read: {error.strerror or error}")
        return None
    settings = read_settings(data, place, problems)
    return None if settings is None else (place, settings)


def _properties(data: bytes) -> dict[str, str] | None:
    """The last value of each property; None where the document is no configuration. Raises what the parser raises."""
    found: dict[str, str] = {}
    root, n_elements = None, 0
    for event, element in iterparse(BytesIO(data), events=("start", "end"), forbid_dtd=True):
        if root is None:
            root = element
            if root.tag != "configuration":
                return None
        if event == "start":
            n_elements += 1
            if n_elements > MAX_ELEMENTS:
                raise ValueError(f"more than {MAX_ELEMENTS:,} elements")
            continue
        if element.tag == "property":
            name, value = element.findtext("name"), element.findtext("value")
            if name is not None and value is not None:
                found[name.strip()] = value
            root.clear()
    return found


def _resolved(text: str, properties: Mapping[str, str]) -> str:
    """What `${name}` refers to; the text itself where it refers to nothing, or to what may be a secret."""
    for _ in range(MAX_REFERENCES):
        found = _REFERENCE.fullmatch(text.strip())
        if found is None or _SECRET.search(found[1]) or found[1] not in properties:
            break
        text = properties[found[1]]
    return text


__all__ = [
    "MAX_BYTES", "SETTINGS", "job_of_name", "read_beside", "read_settings", "settings_event", "settings_text",
]  # fmt: skip
