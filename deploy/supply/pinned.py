"""Parts by name and version: Python packages of the pinned requirements, jars of folders and of Maven projects."""

from __future__ import annotations

import hashlib
import re
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from defusedxml import ElementTree
from packaging.utils import canonicalize_name

from deploy.supply.errors import SupplyError

_REQUIREMENT = re.compile(r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)==(?P<version>[^\s;\\]+)")
_HASH = re.compile(r"--hash=sha256:(?P<sha256>[0-9a-f]{64})")
_JAR = re.compile(r"(?P<artifact>.+)-(?P<version>\d+(?:\.\w+)+(?:-\w+)?)")


@dataclass(frozen=True)
class Part:
    """One package or jar of one version."""

    ecosystem: str
    """As OSV names it: `PyPI`, `Maven`."""
    name: str
    """Of a jar `group:artifact`; without the group where the jar does not tell it."""
    version: str
    sha256: tuple[str, ...] = ()
    """Of all files that may be installed, in order; of a jar its own."""
    used_for: str = "runtime"
    """`runtime`, `build`, `dev`, `kerberos-build`, `kerberos` or the name of the test cluster."""
    within: str = ""
    """The package that brings it with it."""


def requirements(path: Path, used_for: str) -> list[Part]:
    """Of one pinned file, in its order; raises SupplyError for a line that pins nothing."""
    parts: list[Part] = []
    for number, line in enumerate(_joined_lines(path.read_text(encoding="utf-8")), 1):
        found = _REQUIREMENT.match(line)
        if found is None:
            raise SupplyError(f"{path}, entry {number}: found {line[:80]!r}; expected NAME==VERSION with hashes")
        hashes = tuple(match["sha256"] for match in _HASH.finditer(line))
        parts.append(Part("PyPI", canonicalize_name(found["name"]), found["version"], hashes, used_for))
    return parts


def jars(folder: Path, used_for: str, within: str = "") -> list[Part]:
    """Of the jars in a folder, by name; none where there is no folder."""
    return [_jar(path, used_for, within) for path in sorted(folder.glob("*.jar"))]


def declared(pom: Path, used_for: str) -> list[Part]:
    """What a Maven project asks for itself: what these need in turn is known once it has been fetched."""
    root = ElementTree.fromstring(pom.read_bytes())
    properties = {node.tag.rpartition("}")[2]: node.text or "" for node in root.iterfind("{*}properties/*")}
    parts = []
    for node in root.iterfind("{*}dependencies/{*}dependency"):
        group, artifact, version = (node.findtext(f"{{*}}{name}", "") for name in ("groupId", "artifactId", "version"))
        version = re.sub(r"\$\{(.+?)\}", lambda found: properties[found[1]], version)
        parts.append(Part("Maven", f"{group}:{artifact}", version, (), used_for))
    return parts


def distinct(parts: Iterable[Part]) -> list[Part]:
    """Each part once, as it is named first: what runs before what only tests need."""
    found: dict[tuple[str, ...], Part] = {}
    for part in parts:
        found.setdefault((part.ecosystem, part.name, part.version, part.within), part)
    return list(found.values())


def all_parts(root: Path, packages: Path) -> list[Part]:
    """Of the project in `root`, whose packages are installed in `packages`."""
    parts = [
        part
        for used_for in ("runtime", "build", "dev", "kerberos-build", "kerberos")
        for part in requirements(root / f"requirements/{used_for}.txt", used_for)
    ]
    parts += jars(packages / "pyspark/jars", "runtime", "pyspark")
    for name, library in (("kafka", "build/kafka/lib"), ("minicluster", "build/hadoop/lib")):
        parts += jars(root / library, name) or declared(root / f"deploy/{name}/pom.xml", name)
    return distinct(parts)


def _joined_lines(text: str) -> Iterator[str]:
    """Without comments; what a backslash continues is one line."""
    for line in text.replace("\\\n", " ").splitlines():
        bare = line.split("#")[0].strip()
        if bare:
            yield bare


def _jar(path: Path, used_for: str, within: str) -> Part:
    """Its file's name says which of the coordinates within are its own."""
    try:
        # After the version may come for which machine it is.
        own = [found for found in _coordinates(path) if f"{path.stem}-".startswith(f"{found[1]}-{found[2]}-")]
    except (OSError, zipfile.BadZipFile) as error:
        raise SupplyError(f"{path}: not a jar ({error}); fetch it again") from None
    named = _JAR.fullmatch(path.stem)
    name, version = (named["artifact"], named["version"]) if named else (path.stem, "")
    if own:
        group, artifact, version = max(own, key=lambda found: len(found[1]))
        name = f"{group}:{artifact}"
    return Part("Maven", name, version, (hashlib.sha256(path.read_bytes()).hexdigest(),), used_for, within)


def _coordinates(path: Path) -> Sequence[tuple[str, str, str]]:
    """What the jar says that it is, and which others were packed into it: group, artifact, version."""
    found = []
    with zipfile.ZipFile(path) as jar:
        for name in jar.namelist():
            if re.fullmatch(r"META-INF/maven/[^/]+/[^/]+/pom\.properties", name):
                lines = jar.read(name).decode("utf-8", "replace").splitlines()
                told = dict(line.split("=", 1) for line in lines if "=" in line)
                found.append((told.get("groupId", ""), told.get("artifactId", ""), told.get("version", "")))
    return found


__all__ = ["Part", "all_parts", "declared", "distinct", "jars", "requirements"]
