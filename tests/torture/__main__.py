"""`python -m tests.torture CAMPAIGN`: one campaign, with one line of figures at its end; exit 1 when a bound is broken.

Each campaign is a module of this package with a function `run(given) -> Verdict`; its short form is a test beside it.
"""

from __future__ import annotations

import argparse
import importlib
import secrets
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tests.torture.campaign import Campaign, Given

CAMPAIGNS: dict[str, str] = {
    "storm": "1,000, 5,000 and 20,000 alerts at once: nobody waits for the store, health stays 200",
}
"""By name: what it must show."""

FOLDER = Path(__file__).parents[2] / "build" / "torture"


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code."""
    options = _parser().parse_args(arguments)
    if options.campaign is None:
        for name, shows in CAMPAIGNS.items():
            print(f"{name:12} {shows}")
        return 0
    seed = secrets.randbits(31) if options.seed is None else options.seed
    folder = options.folder / options.campaign
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    campaign: Campaign = importlib.import_module(f"tests.torture.{options.campaign}").run
    print(f"{options.campaign}: seed {seed}, {options.minutes:g} minutes", flush=True)
    started_s = time.monotonic()
    verdict = campaign(Given(options.minutes, seed, folder))
    for failure in verdict.failures:
        print(f"{options.campaign}: FAILED: {failure}")
    state = "failed" if verdict.failures else "held"
    print(f"{options.campaign}: {state} in {time.monotonic() - started_s:.0f} s (seed {seed}): {verdict.figures}")
    return 1 if verdict.failures else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.torture", description=__doc__)
    parser.add_argument("campaign", nargs="?", choices=[*CAMPAIGNS], help="without one: the list")
    parser.add_argument("--minutes", type=float, default=20.0, help="of wall time (%(default)s)")
    parser.add_argument("--seed", type=int, help="to do the same again; without one a fresh one, which is printed")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="for what campaigns write")
    return parser


if __name__ == "__main__":
    sys.exit(main())
