"""Advisories in OSV's format from a folder, and which of the parts they are about: nothing is asked of a network.

The format and how ranges are read: OSV schema 1.7, "affected fields" and "evaluation".
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion

from deploy.supply.errors import SupplyError
from deploy.supply.pinned import Part
from deploy.supply.versions import ORDERS

KINDS = (".json", ".yaml", ".yml")
_YAML = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""In C where it is there: databases are thousands of files."""
_BOUNDS = ("introduced", "fixed", "last_affected")


@dataclass(frozen=True)
class Finding:
    """An advisory about a part. Not `certain`: the jar does not tell its group, or its version has no order."""

    part: Part
    ids: tuple[str, ...]
    """The advisory's, then those that others gave it."""
    summary: str
    fixed: tuple[str, ...]
    """Versions that mend it."""
    certain: bool


@dataclass(frozen=True)
class Checked:
    """What a folder says about parts."""

    findings: tuple[Finding, ...]
    n_advisories: int
    newest: str
    """When the advisory that changed last did so (ISO 8601)."""
    unreadable: tuple[str, ...]
    """Files that should be advisories and are none, with the reason."""


def check(parts: Sequence[Part], folder: Path) -> Checked:
    """Raises SupplyError when the folder has no advisory."""
    by_name: dict[tuple[str, str], list[Part]] = {}
    for part in parts:
        by_name.setdefault((part.ecosystem, part.name), []).append(part)
    found: list[Finding] = []
    unreadable: list[str] = []
    n_advisories, newest = 0, ""
    for place, text in _files(folder):
        try:
            advisory = _read(place, text)
            newest = max(newest, str(advisory.get("modified", "")))
            n_advisories += 1
            found += _about(advisory, by_name)
        except (ValueError, TypeError, KeyError, AttributeError, yaml.YAMLError) as error:
            unreadable.append(f"{place}: {_first_line(error)}")
    if n_advisories == 0:
        raise SupplyError(
            f"{folder}: no advisory is there; expected files in OSV's format (.json, .yaml, or a .zip of them)"
        )
    return Checked(tuple(_merged(found)), n_advisories, newest, tuple(unreadable))


def _files(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Place and content of what may be an advisory, in order."""
    if not folder.is_dir():
        raise SupplyError(f"{folder}: not a folder; expected one with advisories in OSV's format")
    for path in sorted(folder.rglob("*")):
        if path.suffix in KINDS and path.is_file():
            yield str(path), path.read_bytes()
        elif path.suffix == ".zip" and path.is_file():
            with zipfile.ZipFile(path) as archive:
                for name in sorted(archive.namelist()):
                    if name.endswith(KINDS):
                        yield f"{path}: {name}", archive.read(name)


def _read(place: str, text: bytes) -> Mapping[str, Any]:
    read = json.loads(text) if place.endswith(".json") else yaml.load(text, _YAML)  # noqa: S506  # it is the safe one
    if not isinstance(read, Mapping) or not isinstance(read.get("id"), str):
        raise ValueError("not an advisory: it has no id")
    return read


def _about(advisory: Mapping[str, Any], by_name: Mapping[tuple[str, str], Sequence[Part]]) -> Iterator[Finding]:
    if advisory.get("withdrawn"):
        return
    ids = (str(advisory["id"]), *(str(alias) for alias in advisory.get("aliases") or ()))
    summary = str(advisory.get("summary") or advisory.get("details") or "").strip().partition("\n")[0]
    for affected in advisory.get("affected") or ():
        package = affected.get("package") or {}
        ecosystem, name = str(package.get("ecosystem", "")), str(package.get("name", ""))
        if ecosystem not in ORDERS:
            continue
        for key in _keys(ecosystem, name):
            for part in by_name.get((ecosystem, key), ()):
                judged = _is_affected(part, affected)
                if judged is not False:
                    yield Finding(
                        part, ids, summary, tuple(_fixed(affected)), judged is True and key == _keys(ecosystem, name)[0]
                    )


def _keys(ecosystem: str, name: str) -> tuple[str, ...]:
    """Names of parts that may be this package: first the very one, then a jar that does not tell its group."""
    if ecosystem == "PyPI":
        return (canonicalize_name(name),)
    return (name, name.rpartition(":")[2])


def _is_affected(part: Part, affected: Mapping[str, Any]) -> bool | None:
    """None: it is about ranges in which this version has no place."""
    if part.version in (affected.get("versions") or ()):
        return True
    ranges = [each for each in affected.get("ranges") or () if each.get("type") in ("ECOSYSTEM", "SEMVER")]
    if not ranges:
        # Neither versions nor ranges: all versions are meant. Versions alone: this one is none of them.
        return not affected.get("versions") and not affected.get("ranges")
    order = ORDERS[part.ecosystem]
    try:
        return any(_is_in_range(order, part.version, each["events"]) for each in ranges)
    except InvalidVersion:
        return None


def _is_in_range(order: Callable[[str], Any], version: str, events: Sequence[Mapping[str, str]]) -> bool:
    """Events in the order of their versions; each says what holds from there on."""
    own = order(version)
    told = [(kind, text) for event in events for kind, text in event.items()]
    is_in = any(kind == "introduced" and text == "0" for kind, text in told)  # from before the first version
    bounds = [(order(text), kind) for kind, text in told if text != "0" and kind in _BOUNDS]
    for bound, kind in sorted(bounds, key=lambda each: each[0]):
        if kind == "introduced" and own >= bound:
            is_in = True
        elif (kind == "fixed" and own >= bound) or (kind == "last_affected" and own > bound):
            is_in = False
    return is_in


def _fixed(affected: Mapping[str, Any]) -> Iterator[str]:
    for each in affected.get("ranges") or ():
        if each.get("type") != "GIT":
            yield from (event["fixed"] for event in each.get("events") or () if "fixed" in event)


def _merged(findings: Iterable[Finding]) -> list[Finding]:
    """One for each part and weakness: databases tell of the same under ids of their own."""
    kept: list[Finding] = []
    for finding in sorted(findings, key=lambda each: (each.part.name, not each.certain, each.ids)):
        same = next((i for i, other in enumerate(kept) if _is_same(other, finding)), None)
        if same is None:
            kept.append(finding)
        else:
            other = kept[same]
            ids = tuple(dict.fromkeys((*other.ids, *finding.ids)))
            fixed = tuple(dict.fromkeys((*other.fixed, *finding.fixed)))
            kept[same] = Finding(other.part, ids, other.summary, fixed, other.certain or finding.certain)
    return kept


def _is_same(first: Finding, second: Finding) -> bool:
    return first.part == second.part and not set(first.ids).isdisjoint(second.ids)


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0] or type(error).__name__


__all__ = ["Checked", "Finding", "check"]
