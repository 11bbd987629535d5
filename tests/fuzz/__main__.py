"""`python -m tests.fuzz --minutes n`: search for cases in which the runtimes differ from the oracle or from each other.

Fresh queries and streams from a fresh seed, which is printed: `--seed` repeats them. What is found is shrunk and saved
as a folder with the query, the events and how they were cut; `--case FOLDER` looks at one again. Exit 0 when nothing
was found, 1 otherwise. `--costs`: search for queries that cost too much instead, which depends on the machine.
"""

from __future__ import annotations

import argparse
import secrets
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.engine.constructs import CONSTRUCTS
from tests.fuzz.budgets import BUDGETED, Budgeted, difference
from tests.fuzz.checking import check
from tests.fuzz.drawing import FIELDS
from tests.fuzz.hostile import HOSTILE, Hostile, cost_of, over
from tests.fuzz.inputs import PROBES
from tests.fuzz.overseer import Overseer
from tests.fuzz.saved import load_saved

FOLDER = Path(__file__).parents[2] / "build" / "fuzz"


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code."""
    options = _parser().parse_args(arguments)
    if options.case is not None:
        return repeat(options.case)
    known = list(HOSTILE) if options.costs else [*FIELDS, *PROBES, *BUDGETED]
    fields = [
        name
        for name in known
        if (not options.only or any(part in name for part in options.only))
        and not any(part in name for part in options.skip)
    ]
    if not fields:
        print(
            f"--only {' '.join(options.only)} --skip {' '.join(options.skip)}: no field is left; there are: "
            f"{'; '.join(known)}",
            file=sys.stderr,
        )
        return 2
    if unknown := set(options.without) - CONSTRUCTS.keys():
        print(f"--without {unknown}: no construct; expected some of: {'; '.join(CONSTRUCTS)}", file=sys.stderr)
        return 2
    seed = secrets.randbits(31) if options.seed is None else options.seed
    print(f"seed {seed}, {options.minutes:g} minutes, {options.workers} process(es), {len(fields)} fields", flush=True)
    overseer = Overseer(seed, options.minutes * 60, fields, tuple(options.without), options.folder, options.workers)
    overseer.run()
    return overseer.summary()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=2.0)
    parser.add_argument("--seed", type=int, help="of an earlier search, to see its cases again")
    parser.add_argument("--workers", type=int, default=1, help="processes side by side")
    parser.add_argument("--only", nargs="+", default=[], metavar="FIELD", help="fields whose name has one of these")
    parser.add_argument("--skip", nargs="+", default=[], metavar="FIELD", help="no fields whose name has one of these")
    parser.add_argument("--costs", action="store_true", help="search for what costs too much, not for wrong answers")
    parser.add_argument("--without", nargs="+", default=[], metavar="CONSTRUCT", help="leave out what has one of these")
    parser.add_argument("--case", type=Path, metavar="FOLDER", help="look at a saved case again")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where findings are saved")
    return parser


def repeat(folder: Path) -> int:
    """Look at a saved case again."""
    case = load_saved(folder)
    if isinstance(case, Hostile):
        cost = cost_of(case)
        print(case, cost, sep="\n")
        return int(over(cost) is not None)
    if isinstance(case, Budgeted):
        finding = difference(case)
        print("nothing differs" if finding is None else f"{finding.way} against {finding.against}: {finding.message}")
        return int(finding is not None)
    verdict = check(case)
    for way, reason in verdict.refused:
        print(f"{way} refused: {reason}")
    print(f"{verdict.n_compared} ways compared, {verdict.n_rows} row(s)")
    if verdict.finding is None:
        print("nothing differs")
        return 0
    print(f"{verdict.finding.way} against {verdict.finding.against}: {verdict.finding.message}")
    return 1


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that its processes end with it
    sys.exit(main())
