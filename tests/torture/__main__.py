"""`python -m tests.torture CAMPAIGN`: one campaign, with one line of figures at its end; exit 1 when a bound is broken.

Each campaign is a module of `campaigns` with a function `run(given) -> Verdict`; a short form of it is a test here.
"""

from __future__ import annotations

import argparse
import importlib
import logging
import secrets
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import structlog

from tests.torture.campaign import Campaign, Given

CAMPAIGNS: dict[str, str] = {
    "damage": "each stored file corrupted, cut off, removed, replaced by an older one: no wrong or doubled alert",
    "postgresql": "stopped, restarted, cut, full, failed over, restored: as SQLite, and no two keys for one alert",
    "two": "every pairing of run, replay, demo and stream on one database: one owner, the other refused",
    "spark": "jobs on Spark killed at any moment lose and double nothing; what is damaged is named",
    "kills": "100 kills -9 of the program, also in reload, migration, retention and delivery: nothing lost or doubled",
    "api_kills": "100 kills -9 of the API in writes of silences: what it answered is there once, nothing by halves",
    "groups": "60 kills -9 while groups, incidents and escalations wait and remote write comes in: likewise",
    "clock": "the clock is set, drifts, or the machine sleeps: alerts go on, or come again within two intervals",
    "drip": "servers and clients that never come to an end: every attempt keeps its limit, nobody else waits",
    "receivers": "receivers that are down or want less, and the highest rate: nothing given up, p95 of the lag 5 s",
    "watchdog": "a kill every minute while a day of backlog is caught up with: every life moves the position on",
    "soak": "ten hours as busy as the largest recording: memory, open files, checkpoint and step times stay flat",
    "parsers": "no bytes crash what reads them; at most 1 s per MiB, 500 MiB",
    "poison": "hostile files of each kind hold up nothing; at most 100 problem rows per file and poll",
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
    # What a process says of the harm that is done to it would drown what the campaign says.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    seed = secrets.randbits(31) if options.seed is None else options.seed
    folder = options.folder / options.campaign
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    campaign: Campaign = importlib.import_module(f"tests.torture.campaigns.{options.campaign}").run
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
