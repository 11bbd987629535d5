"""The bill of materials, as CycloneDX 1.6 in JSON: parts, their hashes, their licences, what needs what."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Sequence
from importlib.metadata import Distribution, distributions
from pathlib import Path
from uuid import NAMESPACE_URL, uuid5

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentScope, ComponentType
from cyclonedx.model.license import License as Licence
from cyclonedx.model.license import LicenseExpression
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from deploy.supply.pinned import Part

_MAX_LICENCE_CHARS = 100
"""Some packages give the licence's text where its name belongs."""


def bill_of_materials(root: Path, packages: Path, parts: Sequence[Part]) -> str:
    """JSON; licences and dependencies are those that the packages installed in `packages` tell."""
    installed: dict[str, Distribution] = {
        canonicalize_name(found.name): found for found in distributions(path=[str(packages)])
    }
    bom = Bom()
    bom.serial_number = uuid5(NAMESPACE_URL, repr(sorted(map(repr, parts))))
    own = _project(root)
    bom.metadata.component = own
    made = {part: _component(part, installed.get(part.name)) for part in parts}
    for part, component in made.items():
        if not part.within:
            bom.components.add(component)
    by_name = {part.name: component for part, component in made.items() if part.ecosystem == "PyPI"}
    for part, component in made.items():
        if part.within:
            by_name[part.within].components.add(component)
    for name, component in by_name.items():
        needed = _needed(installed[name]) if name in installed else ()
        bom.register_dependency(component, [by_name[other] for other in needed if other in by_name])
    direct = _requirements((root / "requirements/runtime.in").read_text(encoding="utf-8").splitlines())
    bom.register_dependency(own, [by_name[name] for name in direct if name in by_name])
    return JsonV1Dot6(bom).output_as_string(indent=1)


def _project(root: Path) -> Component:
    told = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return Component(
        type=ComponentType.APPLICATION, name=told["name"], version=told["version"], description=told["description"],
        bom_ref=told["name"],
    )  # fmt: skip


def _component(part: Part, installed: Distribution | None) -> Component:
    kind, group, name = _coordinates(part)
    purl = PackageURL(kind, group or None, name, part.version)
    is_installed = part.ecosystem == "PyPI" and installed is not None and installed.version == part.version
    return Component(
        type=ComponentType.LIBRARY,
        group=group or None,
        name=name,
        version=part.version,
        purl=purl,
        bom_ref=f"{purl.to_string()}#{part.within}" if part.within else purl.to_string(),
        # What only builds and tests need is never part of a running clustercep.
        scope=ComponentScope.REQUIRED if part.used_for == "runtime" else ComponentScope.EXCLUDED,
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=digest) for digest in part.sha256],
        licenses=_licences(installed) if is_installed and installed is not None else (),
        properties=[Property(name="clustercep:used_for", value=part.used_for)],
    )


def _coordinates(part: Part) -> tuple[str, str, str]:
    """Type of the package URL, group and name."""
    if part.ecosystem == "PyPI":
        return "pypi", "", part.name
    group, _, artifact = part.name.rpartition(":")
    return "maven", group, artifact


def _licences(installed: Distribution) -> list[Licence | LicenseExpression]:
    """As the package tells it: an SPDX expression, else its name, else the classifiers."""
    told = installed.metadata
    factory = LicenseFactory()
    for field in ("License-Expression", "License"):
        text = told[field] if field in told else ""  # noqa: SIM401  # it has no get()
        if text and len(text.strip()) <= _MAX_LICENCE_CHARS and "\n" not in text.strip():
            return [factory.make_from_string(text.strip())]
    classifiers = [text.split(" :: ")[-1] for text in told.get_all("Classifier") or [] if text.startswith("License")]
    return [factory.make_with_name(text) for text in classifiers if text != "OSI Approved"]


def _needed(installed: Distribution) -> list[str]:
    return _requirements(installed.requires or ())


def _requirements(lines: Iterable[str]) -> list[str]:
    """Names, of what is needed here without extras."""
    names: list[str] = []
    for line in lines:
        try:
            asked = Requirement(line.split("#")[0].strip())
        except InvalidRequirement:
            continue
        if asked.marker is None or asked.marker.evaluate({"extra": ""}):
            names.append(canonicalize_name(asked.name))
    return names


__all__ = ["bill_of_materials"]
