"""`make sbom` and `make advisories`."""

from __future__ import annotations

import argparse
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path

import yaml

from deploy.supply.advisories import Checked, Finding, check
from deploy.supply.errors import SupplyError
from deploy.supply.pinned import all_parts

ROOT = Path(__file__).parents[2]
ACCEPTED = Path(__file__).with_name("accepted.yaml")
BAD, UNCHECKED = 1, 2


PACKAGES = Path(sysconfig.get_paths()["purelib"])
"""Of the Python that runs this."""


def main(words: list[str], *, root: Path = ROOT, packages: Path = PACKAGES, accepted: Path = ACCEPTED) -> int:
    """The exit code: 0 nothing found, 1 an advisory holds, 2 nothing could be checked or made."""
    parser = argparse.ArgumentParser(prog="deploy.supply")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("sbom").add_argument("out", type=Path)
    commands.add_parser("advisories").add_argument("folder", nargs="?", default="")
    asked = parser.parse_args(words)
    try:
        parts = all_parts(root, packages)
        if asked.command == "sbom":
            from deploy.supply.sbom import bill_of_materials

            asked.out.parent.mkdir(parents=True, exist_ok=True)
            asked.out.write_text(bill_of_materials(root, packages, parts), encoding="utf-8")
            print(f"{asked.out}: {len(parts)} parts")
            return 0
        if not asked.folder:
            raise SupplyError(
                "nothing was checked: no advisories are given; name a folder with OSV's or PyPA's, "
                "make advisories ADVISORIES=FOLDER"
            )
        return _tell(check(parts, Path(asked.folder)), len(parts), _accepted(accepted))
    except (SupplyError, OSError) as error:
        print(f"supply: {error}", file=sys.stderr)
        return UNCHECKED


def _accepted(path: Path) -> Mapping[str, str]:
    """Why an advisory is no reason to fail, by one of its ids."""
    read = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    if not isinstance(read, Mapping) or not all(isinstance(why, str) and why for why in read.values()):
        raise SupplyError(f"{path}: expected a reason for each id, as in `GHSA-xxxx-xxxx-xxxx: not used here`")
    return read


def _tell(checked: Checked, n_parts: int, accepted: Mapping[str, str]) -> int:
    n_bad = 0
    for finding in checked.findings:
        reason = next((accepted[name] for name in finding.ids if name in accepted), None)
        n_bad += reason is None and finding.certain
        print(_line(finding, reason))
    for place in checked.unreadable:
        print(f"unreadable: {place}", file=sys.stderr)
    print(
        f"{n_bad} open of {len(checked.findings)} advisories about {n_parts} parts; "
        f"{checked.n_advisories} advisories read, the newest of {checked.newest or 'an unknown time'}"
    )
    if n_bad:
        return BAD
    return UNCHECKED if checked.unreadable else 0


def _line(finding: Finding, reason: str | None) -> str:
    part = finding.part
    where = f"{part.name} {part.version} ({part.used_for}{f', within {part.within}' if part.within else ''})"
    mended = f"; mended in {', '.join(finding.fixed)}" if finding.fixed else ""
    state = "accepted" if reason is not None else "open" if finding.certain else "to be looked at"
    why = f" [{reason}]" if reason is not None else ""
    return f"{state}: {where}: {' '.join(finding.ids)}: {finding.summary}{mended}{why}"


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
